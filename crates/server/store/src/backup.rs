//! A store in one file: all objects at one revision.
//!
//! A backup is taken from memory while the store goes on: its snapshot never changes. It is a line of text and then
//! records, each with its length and a checksum of its place and content: a header, one per object, and an end.
//! [`restore`] makes a new store of it, with a cluster id of its own, far ahead of every revision that the old one may
//! have reached since: whoever resumes with a revision of the old one is told that it is gone.

use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::{BufMut, Bytes, BytesMut};
use concert_world::World;
use redb::backends::FileBackend;

use crate::disk::{self, Fault, fence};
use crate::record;
use crate::state::{Beside, Entry, Snapshot};
use crate::{Key, OpenError, Store};

const FIRST_LINE: &[u8] = b"concert-backup 1\n";
/// How far ahead of a backup's revision its restored store begins: more than a store writes in years.
const AHEAD: u64 = 1_000_000_000;
/// Bytes in a piece of a backup, about.
const PIECE: usize = 64 << 10;
/// No record is larger: objects have at most a few MiB.
const LARGEST: u32 = 64 << 20;
/// Objects in a commit while restoring.
const COMMIT: usize = 4096;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupInfo {
    /// The cluster id of the store it was taken from.
    pub cluster_id: String,
    /// The revision it shows.
    pub revision: u64,
    /// How many objects it has.
    pub objects: u64,
}

/// Why a backup cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// It is not a backup, or not a whole one.
    #[error("this is not a whole backup: {0}; use another one")]
    Damaged(String),
    /// It cannot be read.
    #[error("cannot read the backup: {0}")]
    Read(std::io::Error),
    /// There is a store already.
    #[error("there is a store in \"{}\" already; move it away, or choose an empty directory with --data-dir", .0.display())]
    Exists(PathBuf),
    /// The new store cannot be written.
    #[error(transparent)]
    Write(#[from] OpenError),
}

impl<B: Beside> Store<B> {
    /// All objects as they are now, as pieces of a backup. It does not hold up anybody.
    pub fn backup(&self) -> impl Iterator<Item = Bytes> + Send + use<B> {
        let snapshot = self.snapshot();
        let info = BackupInfo {
            cluster_id: self.cluster_id().to_owned(),
            revision: snapshot.revision(),
            objects: snapshot.len() as u64,
        };
        Pieces { snapshot, info, place: Some(Place::Start), number: 0 }
    }
}

/// Where a backup goes on.
enum Place {
    Start,
    After(Key),
}

struct Pieces<B> {
    snapshot: Snapshot<B>,
    info: BackupInfo,
    /// Nothing after the last piece.
    place: Option<Place>,
    /// The number of the next record.
    number: u64,
}

impl<B: Beside> Iterator for Pieces<B> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut piece = BytesMut::with_capacity(PIECE + PIECE / 4);
        let after = match self.place.take()? {
            Place::After(key) => Some(key),
            Place::Start => {
                piece.put_slice(FIRST_LINE);
                self.put(&mut piece, &header(&self.info));
                None
            }
        };
        let snapshot = self.snapshot.clone();
        for (key, entry) in snapshot.iter_after(after.as_ref()) {
            self.put(&mut piece, &object(&key, entry));
            if piece.len() >= PIECE {
                self.place = Some(Place::After(key));
                return Some(piece.freeze());
            }
        }
        self.put(&mut piece, &[]);
        Some(piece.freeze())
    }
}

impl<B> Pieces<B> {
    fn put(&mut self, piece: &mut BytesMut, content: &[u8]) {
        let sealed = record::encode_numbered(self.number, content);
        self.number += 1;
        // An object of 4 GiB would not have been accepted.
        piece.put_u32_le(u32::try_from(sealed.len()).unwrap_or(u32::MAX));
        piece.put_slice(&sealed);
    }
}

fn header(info: &BackupInfo) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&info.revision.to_le_bytes());
    out.extend_from_slice(&info.objects.to_le_bytes());
    out.extend_from_slice(info.cluster_id.as_bytes());
    out
}

fn object<B>(key: &Key, entry: &Entry<B>) -> Vec<u8> {
    let mut out = record::encode_key(key);
    out.extend_from_slice(&entry.revision.to_le_bytes());
    out.extend_from_slice(&entry.bytes);
    out
}

/// A backup that is being read.
struct Reader<R> {
    source: R,
    number: u64,
}

impl<R: Read> Reader<R> {
    fn begin(mut source: R) -> Result<(Self, BackupInfo), RestoreError> {
        let mut line = [0; FIRST_LINE.len()];
        fill(&mut source, &mut line)?;
        if line != FIRST_LINE {
            return Err(RestoreError::Damaged("it does not begin as one".into()));
        }
        let mut reader = Self { source, number: 0 };
        let header = reader.record()?;
        let parsed = header.split_first_chunk::<8>().and_then(|(revision, rest)| {
            let (objects, id) = rest.split_first_chunk::<8>()?;
            let cluster_id = std::str::from_utf8(id).ok()?.to_owned();
            let (revision, objects) = (u64::from_le_bytes(*revision), u64::from_le_bytes(*objects));
            Some(BackupInfo { cluster_id, revision, objects })
        });
        let info = parsed.ok_or_else(|| RestoreError::Damaged("its header is malformed".into()))?;
        Ok((reader, info))
    }

    fn record(&mut self) -> Result<Vec<u8>, RestoreError> {
        let mut length = [0; 4];
        fill(&mut self.source, &mut length)?;
        let length = u32::from_le_bytes(length);
        let wrong = || RestoreError::Damaged(format!("record {} does not match its checksum", self.number));
        if length > LARGEST {
            return Err(wrong());
        }
        let mut sealed = Vec::new();
        (&mut self.source).take(length.into()).read_to_end(&mut sealed).map_err(RestoreError::Read)?;
        let content = record::decode_numbered(self.number, &sealed).ok_or_else(wrong)?.to_vec();
        self.number += 1;
        Ok(content)
    }

    /// The next object: its key, revision and bytes; nothing after the last.
    fn object(&mut self, info: &BackupInfo) -> Result<Option<(Key, u64, Vec<u8>)>, RestoreError> {
        let content = self.record()?;
        let read = self.number - 2;
        if content.is_empty() {
            let whole = read == info.objects;
            return if whole {
                Ok(None)
            } else {
                Err(RestoreError::Damaged(format!("it has {read} objects instead of {}", info.objects)))
            };
        }
        let object = record::take_key(&content).and_then(|(key, rest)| {
            let (revision, bytes) = rest.split_first_chunk::<8>()?;
            Some((key, u64::from_le_bytes(*revision), bytes.to_vec()))
        });
        object.map(Some).ok_or_else(|| RestoreError::Damaged(format!("record {} is malformed", self.number - 1)))
    }
}

fn fill(source: &mut impl Read, out: &mut [u8]) -> Result<(), RestoreError> {
    source.read_exact(out).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => RestoreError::Damaged("it ends too early".into()),
        _ => RestoreError::Read(error),
    })
}

/// Reads a whole backup and says what is in it.
///
/// # Errors
/// It is damaged, or cannot be read.
pub fn inspect_backup(backup: impl Read) -> Result<BackupInfo, RestoreError> {
    let (mut reader, info) = Reader::begin(backup)?;
    while reader.object(&info)?.is_some() {}
    Ok(info)
}

/// Makes a new store of a backup in a directory that has none. Until it is whole it has another name: a restore that
/// was interrupted leaves nothing that looks like a store.
///
/// # Errors
/// There is a store, the backup is damaged, or the directory cannot be written.
pub fn restore(directory: &Path, backup: impl Read, world: &World) -> Result<BackupInfo, RestoreError> {
    let unusable = |source| OpenError::Directory { path: directory.to_owned(), source };
    disk::make_private_directory(directory).map_err(unusable)?;
    let path = directory.join(disk::FILE);
    if path.exists() {
        return Err(RestoreError::Exists(directory.to_owned()));
    }
    let (mut reader, info) = Reader::begin(backup)?;
    let unfinished = directory.join(format!("{}.restoring", disk::FILE));
    if unfinished.exists() {
        std::fs::remove_file(&unfinished).map_err(unusable)?;
    }
    let file = disk::create_private(&unfinished).map_err(unusable)?;
    let filled = fill_store(file, &mut reader, &info, directory, world);
    if let Err(error) = filled {
        // Best effort: it does not look like a store.
        let _ = std::fs::remove_file(&unfinished);
        return Err(error);
    }
    std::fs::rename(&unfinished, &path).and_then(|()| disk::sync_directories(directory)).map_err(unusable)?;
    Ok(info)
}

fn fill_store<R: Read>(
    file: std::fs::File,
    reader: &mut Reader<R>,
    info: &BackupInfo,
    directory: &Path,
    world: &World,
) -> Result<(), RestoreError> {
    let failed = |fault: Fault| RestoreError::Write(fault.at(directory));
    let file = fence(|| Ok(FileBackend::new(file)?)).map_err(failed)?;
    let base = disk::base(file).map_err(failed)?;
    let floor = info.revision + AHEAD;
    let initialise = || {
        let transaction = disk::begin(&base, true)?;
        disk::initialise(&transaction, &world.random.uuid(), floor)?;
        Ok(transaction.commit()?)
    };
    fence(initialise).map_err(failed)?;
    let mut done = false;
    while !done {
        let mut objects = Vec::new();
        while objects.len() < COMMIT && !done {
            match reader.object(info)? {
                Some(object) => objects.push(object),
                None => done = true,
            }
        }
        fence(|| disk::put_objects(&base, &objects)).map_err(failed)?;
    }
    Ok(())
}
