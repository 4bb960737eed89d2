//! Versioned objects and their history.
//!
//! ```text
//!   write ─► committer ─► pending head (compare-and-swap, next revision)
//!                │  one commit for all writes that wait: history rows, one sync
//!                ▼
//!              disk (redb)                                   only then:
//!                └───────► published head + history ─► readers, watchers, the writers' answers
//! ```
//!
//! One global revision counter; every write is one revision and one [`Event`]. Readers see only what is durable: a
//! [`Snapshot`] is a persistent map, taken in constant time and never changed by later writes. Nothing that a write
//! decides from the pending head (exists, conflict) is answered before that head is durable.
//!
//! The state machine (`commit.rs`) is synchronous. In memory it runs inline under a lock, which makes tests
//! deterministic and lets a store be [forked](Store::fork) in microseconds; with a disk it has a thread of its own
//! that groups all waiting writes into one commit.
//!
//! [`check`] looks at a store on disk without changing it, [`Store::backup`] gives its content away while it runs, and
//! [`restore`] makes a new one of that.
//!
//! The store is generic over what its user keeps [`Beside`] each entry (parsed labels, fields…); it knows nothing
//! about Kubernetes but names.

mod backup;
mod check;
mod commit;
mod disk;
mod draft;
mod history;
mod record;
mod state;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use concert_api::{GroupResource, ObjectKey};
use concert_world::World;
use tokio::sync::watch;

pub use backup::{BackupInfo, RestoreError, inspect_backup, restore};
pub use check::{CheckReport, check};
pub use disk::{Durability, OpenError};
pub use draft::Draft;
pub use history::{Encoding, Event, EventKind};
pub use state::{Beside, Entry, Snapshot};

use commit::{Committer, Driver};
use history::History;

/// A stored object's full name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its resource, shared by all versions.
    pub resource: GroupResource,
    /// Its namespace and name.
    pub object: ObjectKey,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource, self.object)
    }
}

/// What must be true of the stored object for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is none.
    Absent,
    /// It has this revision.
    Revision(u64),
}

/// What a write does.
#[derive(Clone, Debug)]
pub enum Op {
    /// Stores this state.
    Put(Draft),
    /// Removes the object; the draft is its last state, which watchers see.
    Delete(Draft),
}

/// One write.
#[derive(Clone, Debug)]
pub struct Write {
    /// Which object.
    pub key: Key,
    /// On which condition.
    pub expect: Expect,
    /// Other objects that must still have these revisions: those without which this one may not be.
    pub guards: Vec<(Key, u64)>,
    /// What to do.
    pub op: Op,
}

/// Why a write did not happen.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The stored object is not what the write expected.
    #[error("cannot write {key}: the stored object is not the expected one")]
    Conflict {
        /// Which object.
        key: Key,
        /// Its revision now; `None` if there is none.
        current: Option<u64>,
    },
    /// The disk failed: nothing is acknowledged any more and the process should end.
    #[error("cannot write: the store has failed: {0}")]
    Failed(Arc<str>),
    /// There is no room for more.
    #[error(
        "cannot write {key}: the store is over its quota: {used} of {quota} bytes are used; delete objects that are not needed, or start with a larger --quota"
    )]
    OverQuota {
        /// Which object.
        key: Key,
        /// Bytes of all objects.
        used: u64,
        /// How many there may be.
        quota: u64,
    },
    /// The object is larger than any may be.
    #[error("cannot write {key}: it has {length} bytes, of {limit} that an object may have")]
    TooLarge {
        /// Which object.
        key: Key,
        /// Its bytes.
        length: u64,
        /// How many there may be.
        limit: u64,
    },
    /// The disk takes too long: the write may still happen.
    #[error("the disk has not answered within {} s: whether {key} was written is not known yet", .after.as_secs())]
    Unknown {
        /// Which object.
        key: Key,
        /// How long was waited.
        after: Duration,
    },
    /// The store has been closed.
    #[error("cannot write: the store is closed")]
    Closed,
}

/// A revision that cannot be read any more, or not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// The history before `floor` is gone.
    #[error("revision {asked} is gone: history begins at {floor}")]
    Compacted {
        /// What was asked for.
        asked: u64,
        /// The oldest revision that can be read.
        floor: u64,
    },
    /// The revision has not been written.
    #[error("revision {asked} is in the future: the newest is {current}")]
    Future {
        /// What was asked for.
        asked: u64,
        /// The newest.
        current: u64,
    },
}

/// For how long history is kept.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Events older than this may go. Kubernetes keeps five minutes.
    pub age: Duration,
    /// The oldest events go when all together are larger than this.
    pub bytes: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { age: Duration::from_secs(300), bytes: 64 << 20 }
    }
}

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// For how long history is kept.
    pub window: Window,
    /// Bytes that all objects together may have; without one, memory is the limit. Over quota, objects can still be
    /// deleted and made smaller.
    pub quota: Option<u64>,
}

/// What bounds the committer.
#[derive(Clone, Copy)]
struct Limits {
    window: Window,
    quota: Option<u64>,
}

impl Options {
    fn limits(&self) -> Limits {
        Limits { window: self.window, quota: self.quota }
    }
}

impl Window {
    fn limits(self) -> Limits {
        Limits { window: self, quota: None }
    }
}

/// Versioned objects, cheap to clone (clones are the same store).
pub struct Store<B: Beside>(Arc<Inner<B>>);

struct Inner<B: Beside> {
    published: Arc<Published<B>>,
    driver: Driver<B>,
    cluster_id: String,
}

/// What readers see.
struct Published<B> {
    view: RwLock<View<B>>,
    revision: watch::Sender<u64>,
    failure: watch::Sender<Option<Arc<str>>>,
}

struct View<B> {
    state: Snapshot<B>,
    history: History<B>,
}

impl<B> Clone for View<B> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), history: self.history.clone() }
    }
}

impl<B: Beside> Store<B> {
    /// An empty store in memory.
    #[must_use]
    pub fn in_memory(world: &World, window: Window) -> Self {
        Self::in_memory_with(Options { window, ..Options::default() }, world)
    }

    /// An empty store in memory, with the limits of `options`.
    #[must_use]
    pub fn in_memory_with(options: Options, world: &World) -> Self {
        let view = View { state: Snapshot::empty(), history: History::new(0) };
        Self::inline(view, None, world, options.limits(), world.random.uuid())
    }

    /// Opens or creates the store in `directory`.
    ///
    /// # Errors
    /// The directory cannot be used, is in use, or holds a damaged store.
    pub fn open(directory: &Path, options: Options, world: &World) -> Result<Self, OpenError> {
        Self::threaded(disk::open(directory, options.durability, world)?, options, world)
    }

    fn threaded(opened: disk::Opened<B>, options: Options, world: &World) -> Result<Self, OpenError> {
        let view = opened.view;
        let published = Published::new(view.clone());
        let committer = Committer::new(
            view.state,
            Some(opened.disk),
            Arc::clone(&published),
            world.clock.clone(),
            options.limits(),
        );
        let driver = Driver::thread(committer).map_err(|source| OpenError::Thread { source })?;
        Ok(Self(Arc::new(Inner { published, driver, cluster_id: opened.cluster_id })))
    }

    /// The same on any redb backend, with a thread of its own: for disks that are slow.
    ///
    /// # Errors
    /// The backend holds a damaged store or fails.
    pub fn open_threaded_on(
        backend: impl redb::StorageBackend,
        options: Options,
        world: &World,
    ) -> Result<Self, OpenError> {
        Self::threaded(disk::open_on(backend, options.durability, world)?, options, world)
    }

    /// Opens or creates the store on any redb backend, committing inline: for simulated disks.
    ///
    /// # Errors
    /// The backend holds a damaged store or fails.
    pub fn open_on(backend: impl redb::StorageBackend, options: Options, world: &World) -> Result<Self, OpenError> {
        let opened = disk::open_on(backend, options.durability, world)?;
        Ok(Self::inline(opened.view, Some(opened.disk), world, options.limits(), opened.cluster_id))
    }

    fn inline(view: View<B>, disk: Option<disk::Disk>, world: &World, limits: Limits, cluster_id: String) -> Self {
        let published = Published::new(view.clone());
        let committer = Committer::new(view.state, disk, Arc::clone(&published), world.clock.clone(), limits);
        Self(Arc::new(Inner { published, driver: Driver::Inline(Mutex::new(committer)), cluster_id }))
    }

    /// A store in memory that begins as this one is now; neither sees what the other writes from here on.
    #[must_use]
    pub fn fork(&self, world: &World, window: Window) -> Self {
        Self::inline(self.0.published.read().clone(), None, world, window.limits(), self.0.cluster_id.clone())
    }

    /// Identifies this store's lineage of revisions.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.0.cluster_id
    }

    /// Carries out one write; the answer is durable.
    ///
    /// # Errors
    /// The stored object is not the expected one, or the store has failed or is closed.
    pub async fn write(&self, write: Write) -> Result<Arc<Entry<B>>, WriteError> {
        self.0.driver.write(write).await
    }

    /// The newest durable state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<B> {
        self.0.published.read().state.clone()
    }

    /// The state at a revision that is still in the history.
    ///
    /// # Errors
    /// The revision is gone or has not been written yet.
    pub fn snapshot_at(&self, revision: u64) -> Result<Snapshot<B>, RevisionError> {
        let (state, after) = {
            let view = self.0.published.read();
            view.history.check(revision, view.state.revision())?;
            (view.state.clone(), view.history.after(revision, usize::MAX))
        };
        // Without the lock: nobody waits while an old state is put together.
        Ok(history::undo(state, revision, &after))
    }

    /// The newest durable revision, and every change of it.
    #[must_use]
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.0.published.revision.subscribe()
    }

    /// Durable events after `revision`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// Events after `revision` are gone, or the revision has not been written yet.
    pub fn events_after(&self, revision: u64, limit: usize) -> Result<Vec<Arc<Event<B>>>, RevisionError> {
        let view = self.0.published.read();
        view.history.check(revision, view.state.revision())?;
        Ok(view.history.after(revision, limit))
    }

    /// The oldest revision that can still be read, and after which events are known.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.0.published.read().history.floor()
    }

    /// Resolves with the reason when the disk fails. The process should end then: nothing is acknowledged any more.
    pub async fn failed(&self) -> Arc<str> {
        let mut failure = self.0.published.failure.subscribe();
        loop {
            if let Some(reason) = failure.borrow_and_update().clone() {
                return reason;
            }
            if failure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Why the disk failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        self.0.published.failure.borrow().clone()
    }

    /// Ends the store: writes that wait are committed, later ones refused, the file is closed cleanly.
    pub fn close(&self) {
        self.0.driver.close();
    }
}

impl<B: Beside> Clone for Store<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: Beside> fmt::Debug for Store<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({} objects at {})", self.snapshot().len(), self.snapshot().revision())
    }
}

impl<B> Published<B> {
    fn new(view: View<B>) -> Arc<Self> {
        let revision = watch::Sender::new(view.state.revision());
        Arc::new(Self { view: RwLock::new(view), revision, failure: watch::Sender::new(None) })
    }

    fn read(&self) -> RwLockReadGuard<'_, View<B>> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }
}
