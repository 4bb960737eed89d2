//! The store on disk: redb, with our layout.
//!
//! `history: revision → event` is the only table on the commit path. `objects` is a checkpoint, filled when revisions
//! leave the window. Recovery is the checkpoint with the history replayed on it; the history is kept, so that watches
//! resume after a restart. `meta` holds the format, the cluster id, the floor and the ceiling of revisions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use concert_world::{Clock, World};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use crate::history::{Event, EventKind, History};
use crate::record::{self, Row};
use crate::state::{Beside, Entry, Snapshot};
use crate::{Key, View};

const HISTORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("history");
const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

const FORMAT: &[u8] = b"concert-store 1";
const FILE: &str = "concert.redb";
/// redb's own default is 1 GiB; everything is in our memory already.
const CACHE_BYTES: usize = 8 << 20;
/// Without sync, revisions are promised on disk this far ahead, so that none is ever used twice.
const CEILING_AHEAD: u64 = 100_000;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Power loss: every commit is synced before it is acknowledged.
    #[default]
    Sync,
    /// A crash of the process; power loss costs at most this much time.
    Interval(Duration),
    /// Only a clean stop.
    None,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open.
    #[error("cannot use data directory \"{}\": another concert process is using it; stop that one, or choose another directory with --data-dir", .0.display())]
    InUse(PathBuf),
    /// The directory cannot be made or written.
    #[error("cannot use data directory \"{}\": {source}; choose a writable directory with --data-dir", .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The content is not what we wrote.
    #[error("cannot open the store: {0}; restore it from a backup, or start with an empty --data-dir")]
    Damaged(String),
    /// It was written by a version we do not know.
    #[error(
        "cannot open the store: its format is \"{0}\", this version reads \"concert-store 1\"; use the version that wrote it"
    )]
    Format(String),
    /// redb failed.
    #[error("cannot open the store")]
    Disk(#[from] DiskError),
    /// No thread could be started.
    #[error("cannot start the store's thread: {source}")]
    Thread {
        /// Why.
        source: std::io::Error,
    },
}

/// A failed disk operation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DiskError(String);

impl DiskError {
    fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// An open database.
pub(crate) struct Disk {
    database: Database,
    durability: Durability,
    clock: Clock,
    synced: std::time::SystemTime,
    unsynced: bool,
    ceiling: u64,
}

/// What an opened disk holds.
pub(crate) struct Opened<B> {
    pub(crate) disk: Disk,
    pub(crate) view: View<B>,
    pub(crate) cluster_id: String,
}

pub(crate) fn open<B: Beside>(directory: &Path, durability: Durability, world: &World) -> Result<Opened<B>, OpenError> {
    let unusable = |source| OpenError::Directory { path: directory.to_owned(), source };
    make_private_directory(directory).map_err(unusable)?;
    let path = directory.join(FILE);
    let file = private_file(&path).map_err(unusable)?;
    let database = fence(|| builder().create_file(file).map_err(|error| in_use(error, directory)))??;
    load(database, durability, world)
}

pub(crate) fn open_on<B: Beside>(
    backend: impl redb::StorageBackend,
    durability: Durability,
    world: &World,
) -> Result<Opened<B>, OpenError> {
    let database =
        fence(move || builder().create_with_backend(backend).map_err(|error| in_use(error, Path::new("(memory)"))))??;
    load(database, durability, world)
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn in_use(error: DatabaseError, directory: &Path) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(directory.to_owned()),
        other => OpenError::Damaged(other.to_string()),
    }
}

fn make_private_directory(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn private_file(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Runs redb code; a panic inside it (a damaged file can cause one) becomes an error.
fn fence<T>(act: impl FnOnce() -> T) -> Result<T, DiskError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        DiskError(format!("the database panicked: {text}"))
    })
}

fn load<B: Beside>(database: Database, durability: Durability, world: &World) -> Result<Opened<B>, OpenError> {
    let clock = world.clock.clone();
    let mut disk = Disk { database, durability, synced: clock.now(), clock, unsynced: false, ceiling: 0 };
    let cluster_id = fence(|| disk.initialise(&world.random.uuid()))??;
    let (mut state, history) = fence(|| disk.recover::<B>())??;
    // After a crash without sync, revisions up to the ceiling may have been seen by somebody.
    state.set_revision(state.revision().max(disk.ceiling));
    Ok(Opened { disk, view: View { state, history }, cluster_id })
}

impl Disk {
    /// Appends events, moves those that leave the window into the checkpoint, and syncs as the durability asks.
    pub(crate) fn commit<B>(
        &mut self,
        events: &[Arc<Event<B>>],
        leaving: &[Arc<Event<B>>],
        revision: u64,
    ) -> Result<(), DiskError> {
        let sync = match self.durability {
            Durability::Sync => true,
            Durability::None => false,
            Durability::Interval(interval) => {
                self.clock.now().duration_since(self.synced).is_ok_and(|since| since >= interval)
            }
        };
        let promise = self.durability != Durability::Sync && revision > self.ceiling;
        if events.is_empty() && leaving.is_empty() && !(sync && self.unsynced) {
            return Ok(());
        }
        fence(|| self.write(events, leaving, promise.then_some(revision + CEILING_AHEAD), sync || promise))?
            .map_err(DiskError::new)
    }

    /// How often an idle committer must come by to keep the interval.
    pub(crate) fn interval(&self) -> Option<Duration> {
        match self.durability {
            Durability::Interval(interval) => Some(interval),
            Durability::Sync | Durability::None => None,
        }
    }

    /// Syncs, and takes back the promise of revisions that were not used.
    pub(crate) fn close(&mut self, revision: u64) -> Result<(), DiskError> {
        fence(|| self.write::<()>(&[], &[], Some(revision), true))?.map_err(DiskError::new)
    }

    fn write<B>(
        &mut self,
        events: &[Arc<Event<B>>],
        leaving: &[Arc<Event<B>>],
        ceiling: Option<u64>,
        sync: bool,
    ) -> Result<(), redb::Error> {
        let transaction = self.begin(sync)?;
        {
            let mut history = transaction.open_table(HISTORY)?;
            for event in events {
                let row =
                    Row { key: event.key.clone(), kind: event.kind, at: event.at, bytes: event.new.bytes.clone() };
                history.insert(event.revision, record::encode_row(event.revision, &row).as_slice())?;
            }
            for event in leaving {
                history.remove(event.revision)?;
            }
        }
        checkpoint(&transaction, leaving)?;
        if let Some(ceiling) = ceiling {
            transaction.open_table(META)?.insert("ceiling", ceiling.to_le_bytes().as_slice())?;
            self.ceiling = ceiling;
        }
        transaction.commit()?;
        self.unsynced = !sync;
        if sync {
            self.synced = self.clock.now();
        }
        Ok(())
    }

    fn begin(&self, sync: bool) -> Result<WriteTransaction, redb::Error> {
        let mut transaction = self.database.begin_write()?;
        if sync {
            // Without two phases a flipped bit can silently lose the last revision.
            transaction.set_two_phase_commit(true);
            transaction.set_quick_repair(true);
        } else {
            transaction.set_durability(redb::Durability::None)?;
        }
        Ok(transaction)
    }

    /// Makes a new database ours, or checks that it is.
    fn initialise(&self, new_id: &str) -> Result<String, OpenError> {
        let transaction = self.begin(true).map_err(DiskError::new)?;
        let id = initialise(&transaction, new_id)?;
        transaction.commit().map_err(DiskError::new)?;
        Ok(id)
    }

    fn recover<B: Beside>(&mut self) -> Result<(Snapshot<B>, History<B>), OpenError> {
        let transaction = self.database.begin_read().map_err(DiskError::new)?;
        let meta = transaction.open_table(META).map_err(DiskError::new)?;
        let number = |name: &str| -> Result<u64, OpenError> {
            let value = meta.get(name).map_err(DiskError::new)?;
            let bytes = value.as_ref().map(|value| value.value().try_into());
            bytes
                .transpose()
                .map(|bytes| u64::from_le_bytes(bytes.unwrap_or_default()))
                .map_err(|_| OpenError::Damaged(format!("its meta row {name:?} is malformed")))
        };
        let (floor, ceiling) = (number("floor")?, number("ceiling")?);
        let mut state = Snapshot::empty();
        state.set_revision(floor);
        for row in transaction.open_table(OBJECTS).map_err(DiskError::new)?.iter().map_err(DiskError::new)? {
            let (key, value) = row.map_err(DiskError::new)?;
            let (key, revision, bytes) = record::decode_object(key.value(), value.value())
                .ok_or_else(|| OpenError::Damaged("a checkpointed object does not match its checksum".into()))?;
            state.put(&key, entry(&key, revision, bytes));
        }
        let mut history = History::new(floor);
        for row in transaction.open_table(HISTORY).map_err(DiskError::new)?.iter().map_err(DiskError::new)? {
            let (revision, value) = row.map_err(DiskError::new)?;
            let revision = revision.value();
            let row = record::decode_row(revision, value.value())
                .ok_or_else(|| OpenError::Damaged(format!("revision {revision} does not match its checksum")))?;
            history.push(Arc::new(replay(&mut state, revision, row)));
        }
        self.ceiling = ceiling;
        Ok((state, history))
    }
}

fn initialise(transaction: &WriteTransaction, new_id: &str) -> Result<String, OpenError> {
    let mut meta = transaction.open_table(META).map_err(DiskError::new)?;
    transaction.open_table(HISTORY).map_err(DiskError::new)?;
    transaction.open_table(OBJECTS).map_err(DiskError::new)?;
    let read = |meta: &redb::Table<'_, &str, &[u8]>, name: &str| {
        let value = meta.get(name).map_err(DiskError::new)?;
        Ok::<_, OpenError>(value.map(|value| value.value().to_vec()))
    };
    match read(&meta, "format")? {
        None => {
            meta.insert("format", FORMAT).map_err(DiskError::new)?;
            meta.insert("cluster", new_id.as_bytes()).map_err(DiskError::new)?;
        }
        Some(format) if format == FORMAT => {}
        Some(format) => return Err(OpenError::Format(String::from_utf8_lossy(&format).into_owned())),
    }
    let id = read(&meta, "cluster")?.unwrap_or_default();
    String::from_utf8(id).map_err(|_| OpenError::Damaged("its cluster id is not text".into()))
}

/// Applies events that leave the window to the objects table.
fn checkpoint<B>(transaction: &WriteTransaction, leaving: &[Arc<Event<B>>]) -> Result<(), redb::Error> {
    let Some(last) = leaving.last() else { return Ok(()) };
    let mut objects = transaction.open_table(OBJECTS)?;
    for event in leaving {
        let key = record::encode_key(&event.key);
        match event.kind {
            EventKind::Put => {
                let object = record::encode_object(&key, event.revision, &event.new.bytes);
                objects.insert(key.as_slice(), object.as_slice())?;
            }
            EventKind::Delete => {
                objects.remove(key.as_slice())?;
            }
        }
    }
    transaction.open_table(META)?.insert("floor", last.revision.to_le_bytes().as_slice())?;
    Ok(())
}

fn entry<B: Beside>(key: &Key, revision: u64, bytes: bytes::Bytes) -> Arc<Entry<B>> {
    let beside = B::of(key, &bytes);
    Arc::new(Entry { revision, bytes, beside })
}

fn replay<B: Beside>(state: &mut Snapshot<B>, revision: u64, row: Row) -> Event<B> {
    let new = entry(&row.key, revision, row.bytes);
    let old = state.get(&row.key).cloned();
    match row.kind {
        EventKind::Put => state.put(&row.key, Arc::clone(&new)),
        EventKind::Delete => state.remove(&row.key),
    }
    state.set_revision(revision);
    Event::new(row.key, row.kind, old, new, row.at)
}
