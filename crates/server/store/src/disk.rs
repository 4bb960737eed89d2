//! The store on disk: redb, with our layout.
//!
//! `history: revision → event` is the only table on the commit path. `objects` is a checkpoint, filled when revisions
//! leave the window. Recovery is the checkpoint with the history replayed on it; the history is kept, so that watches
//! resume after a restart. `meta` holds the format, the cluster id, the floor and the ceiling of revisions.
//!
//! What redb promises is not taken on trust: every page is checked when a store is opened, every record carries a
//! checksum of its own, and what a checkpoint replaces must be what was there.

mod error;
mod newest;
mod recover;
mod shared;
mod untouched;

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use concert_world::{Clock, World};
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, TableDefinition, WriteTransaction};

pub use error::OpenError;
pub(crate) use error::{DiskError, Fault, fence};
pub(crate) use recover::{Recovered, recover};
pub(crate) use untouched::Untouched;

use crate::history::{Event, EventKind};
use crate::record::{self, Row};
use crate::state::Beside;
use crate::{Key, View};
use newest::Newest;
use shared::Shared;

pub(crate) const HISTORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("history");
pub(crate) const OBJECTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("objects");
pub(crate) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

pub(crate) const FORMAT_NAME: &str = "concert-store 2";
/// The one file of a store.
pub(crate) const FILE: &str = "concert.redb";
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
    /// A crash or power loss, if it is older than this.
    Interval(Duration),
    /// Only a clean stop.
    None,
}

/// A database whose end is fenced: closing writes, and a damaged file can make that panic.
pub(crate) struct Base(Option<Database>);

impl Deref for Base {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl DerefMut for Base {
    fn deref_mut(&mut self) -> &mut Database {
        self.0.as_mut().expect("there until it is dropped")
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let database = self.0.take();
        // What was acknowledged is durable already; redb itself says nothing about errors here.
        let _ = fence(move || {
            drop(database);
            Ok(())
        });
    }
}

/// An open database.
pub(crate) struct Disk {
    base: Base,
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

/// Opens or creates the store in a directory.
pub(crate) fn open<B: Beside>(directory: &Path, durability: Durability, world: &World) -> Result<Opened<B>, OpenError> {
    let unusable = |source| OpenError::Directory { path: directory.to_owned(), source };
    make_private_directory(directory).map_err(unusable)?;
    let file = private_file(directory).map_err(unusable)?;
    let opened = fence(|| FileBackend::new(file).map_err(Fault::from)).and_then(|file| load(file, durability, world));
    opened.map_err(|fault| fault.at(directory))
}

/// The same on any disk.
pub(crate) fn open_on<B: Beside>(
    backend: impl redb::StorageBackend,
    durability: Durability,
    world: &World,
) -> Result<Opened<B>, OpenError> {
    load(backend, durability, world).map_err(|fault| fault.at(Path::new("(memory)")))
}

/// A database on a disk, whatever is in it.
pub(crate) fn base(backend: impl redb::StorageBackend) -> Result<Base, Fault> {
    let backend = Shared(Arc::new(backend));
    let open = |backend: Box<dyn FnOnce(redb::Builder) -> Result<Database, redb::DatabaseError>>| {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        fence(move || Ok(Base(Some(backend(builder)?))))
    };
    if newest::other_is_newer(&backend).map_err(redb::Error::Io)? {
        let untouched = Untouched::new(backend.clone()).map_err(redb::Error::Io)?;
        drop(open(Box::new(move |builder| builder.create_with_backend(untouched)))?);
    }
    let (newest, opened) = Newest::new(backend);
    let base = open(Box::new(move |builder| builder.create_with_backend(newest)))?;
    opened.set();
    Ok(base)
}

pub(crate) fn make_private_directory(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// The store's file. A new one is only there after power loss if its directory was synced, and so for those above.
fn private_file(directory: &Path) -> std::io::Result<std::fs::File> {
    let path = directory.join(FILE);
    let is_new = !path.exists();
    let file = create_private(&path)?;
    if is_new {
        sync_directories(directory)?;
    }
    Ok(file)
}

pub(crate) fn create_private(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes the names in a directory durable, and the name of the directory.
pub(crate) fn sync_directories(directory: &Path) -> std::io::Result<()> {
    let directory: PathBuf = directory.canonicalize()?;
    for directory in directory.ancestors().take(2) {
        match std::fs::File::open(directory) {
            Ok(opened) => opened.sync_all()?,
            // One that may not be read was not made by us.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn load<B: Beside>(
    backend: impl redb::StorageBackend,
    durability: Durability,
    world: &World,
) -> Result<Opened<B>, Fault> {
    let clock = world.clock.clone();
    let base = base(backend)?;
    let mut disk = Disk { base, durability, synced: clock.now(), clock, unsynced: false, ceiling: 0 };
    if fence(|| disk.is_new())? {
        fence(|| disk.initialise(&world.random.uuid(), 0))?;
    } else {
        fence(|| Ok(disk.base.check_integrity()?))?;
    }
    let mut recovered = fence(|| recover::<B>(&disk.base))?;
    disk.ceiling = recovered.ceiling;
    if recovered.ceiling > recovered.view.state.revision() {
        disk.forget(&mut recovered)?;
    }
    Ok(Opened { disk, view: recovered.view, cluster_id: recovered.cluster_id })
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
        let floor = leaving.last().map(|event| event.revision);
        let marks = Marks { floor, ceiling: promise.then_some(revision + CEILING_AHEAD) };
        fence(|| self.write(events, leaving, marks, sync || promise)).map_err(Fault::while_running)
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
        let marks = Marks { floor: None, ceiling: Some(revision) };
        fence(|| self.write::<()>(&[], &[], marks, true)).map_err(Fault::while_running)
    }

    /// After a crash without sync, revisions up to the ceiling may have been seen by somebody, with content that is no
    /// more: whoever asks for one of them has to begin anew.
    fn forget<B>(&mut self, recovered: &mut Recovered<B>) -> Result<(), Fault> {
        let ceiling = recovered.ceiling;
        let history = &mut recovered.view.history;
        let all: Vec<_> = history.after(0, usize::MAX);
        fence(|| self.write(&[], &all, Marks { floor: Some(ceiling), ceiling: None }, true))?;
        history.drop_oldest(all.len());
        history.raise_floor(ceiling);
        recovered.view.state.set_revision(ceiling);
        Ok(())
    }

    fn write<B>(
        &mut self,
        events: &[Arc<Event<B>>],
        leaving: &[Arc<Event<B>>],
        marks: Marks,
        sync: bool,
    ) -> Result<(), Fault> {
        let transaction = begin(&self.base, sync)?;
        {
            let mut history = transaction.open_table(HISTORY)?;
            for event in events {
                let row =
                    Row { key: event.key.clone(), kind: event.kind, at: event.at, bytes: event.new.bytes.clone() };
                history.insert(event.revision, record::encode_row(event.revision, &row).as_slice())?;
            }
            for event in leaving {
                let gone = history.remove(event.revision)?;
                gone.ok_or_else(|| Fault::Damage(format!("revision {} is not in its history", event.revision)))?;
            }
        }
        checkpoint(&transaction, leaving)?;
        set_marks(&transaction, marks)?;
        transaction.commit()?;
        self.ceiling = marks.ceiling.unwrap_or(self.ceiling);
        self.unsynced = !sync;
        if sync {
            self.synced = self.clock.now();
        }
        Ok(())
    }

    /// Whether nothing was ever committed.
    fn is_new(&self) -> Result<bool, Fault> {
        Ok(self.base.begin_read()?.list_tables()?.next().is_none())
    }

    /// Makes a new database ours.
    fn initialise(&self, cluster_id: &str, floor: u64) -> Result<(), Fault> {
        let transaction = begin(&self.base, true)?;
        initialise(&transaction, cluster_id, floor)?;
        Ok(transaction.commit()?)
    }
}

/// Begins a commit that survives power loss, or one that only later commits see.
pub(crate) fn begin(database: &Database, sync: bool) -> Result<WriteTransaction, Fault> {
    let mut transaction = database.begin_write()?;
    if sync {
        // Without two phases a flipped bit can silently lose the last revision.
        transaction.set_two_phase_commit(true);
        transaction.set_quick_repair(true);
    } else {
        transaction.set_durability(redb::Durability::None)?;
    }
    Ok(transaction)
}

/// Makes the tables of an empty store.
pub(crate) fn initialise(transaction: &WriteTransaction, cluster_id: &str, floor: u64) -> Result<(), Fault> {
    transaction.open_table(HISTORY)?;
    transaction.open_table(OBJECTS)?;
    set_meta(transaction, "format", FORMAT_NAME.as_bytes())?;
    set_meta(transaction, "cluster", cluster_id.as_bytes())?;
    set_marks(transaction, Marks { floor: Some(floor), ceiling: Some(floor) })
}

/// Writes objects into the checkpoint of a store that is being made.
pub(crate) fn put_objects(database: &Database, objects: &[(Key, u64, Vec<u8>)]) -> Result<(), Fault> {
    let transaction = begin(database, true)?;
    {
        let mut table = transaction.open_table(OBJECTS)?;
        for (key, revision, bytes) in objects {
            let key = record::encode_key(key);
            table.insert(key.as_slice(), record::encode_object(&key, *revision, bytes).as_slice())?;
        }
    }
    Ok(transaction.commit()?)
}

/// Bounds of the revisions, as far as they change.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    pub(crate) floor: Option<u64>,
    pub(crate) ceiling: Option<u64>,
}

fn set_marks(transaction: &WriteTransaction, marks: Marks) -> Result<(), Fault> {
    for (name, value) in [("floor", marks.floor), ("ceiling", marks.ceiling)] {
        if let Some(value) = value {
            set_meta(transaction, name, &value.to_le_bytes())?;
        }
    }
    Ok(())
}

fn set_meta(transaction: &WriteTransaction, name: &str, value: &[u8]) -> Result<(), Fault> {
    transaction.open_table(META)?.insert(name, record::encode_meta(name, value).as_slice())?;
    Ok(())
}

/// Applies events that leave the window to the objects table.
fn checkpoint<B>(transaction: &WriteTransaction, leaving: &[Arc<Event<B>>]) -> Result<(), Fault> {
    if leaving.is_empty() {
        return Ok(());
    }
    let mut objects = transaction.open_table(OBJECTS)?;
    for event in leaving {
        let key = record::encode_key(&event.key);
        let replaced = match event.kind {
            EventKind::Put => {
                let object = record::encode_object(&key, event.revision, &event.new.bytes);
                objects.insert(key.as_slice(), object.as_slice())?
            }
            EventKind::Delete => objects.remove(key.as_slice())?,
        };
        let replaced = replaced.map(|record| record::revision_of_object(record.value()));
        if replaced != event.old.as_ref().map(|old| Some(old.revision)) {
            return Err(Fault::Damage(format!("the checkpoint of {} is not the one of its revision", event.key)));
        }
    }
    Ok(())
}
