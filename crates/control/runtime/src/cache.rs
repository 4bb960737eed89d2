//! What is known about the objects of one scope, kept by one writer and read by everybody.
//!
//! ```text
//! watch of each namespace ─► one writer ─► store (bytes) ─► handlers: old and new
//!                                             │
//!                   get, list, index, typed ◄─┘
//! ```
//!
//! [`Informers`] gives out [`Cache`]s: one watch and one copy per [`Scope`], however many controllers read it. It
//! starts with the first handle and stops when the last is dropped. A kind that is missing or forbidden is a state
//! that can be seen ([`Cache::state`]), tried again, and never in the way of other kinds. Objects are kept as their JSON
//! without `managedFields`; views decode late ([`Cache::typed`]) or never.

mod complaints;
mod index;
mod informers;
#[cfg(all(test, feature = "shuttle"))]
mod interleavings;
mod keep;
mod report;
mod store;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use concert_api::{Glance, Object, ObjectKey, OwnerReference};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use index::{Find, Index};
pub use informers::{Informers, KindSettings, Narrowing};
pub use keep::Transform;
pub use report::CacheReport;
pub use store::{Change, Origin, Verb};
pub use view::{Undecodable, View};

use crate::client::Client;
use crate::scope::Scope;
use crate::sync::{Mutex, RwLock, watch};
use crate::watch::{Event, Subject, Trouble, Watch};
use complaints::Complaints;
use index::Postings;
use informers::Spawner;
use store::Store;
use view::Memo;

/// So many writes are remembered until they are seen; with more, the oldest is trusted to have arrived.
const EXPECTED: usize = 1024;

/// How far a cache is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheState {
    /// Whether a list has been complete once.
    pub synced: bool,
    /// Every change up to this revision has been seen; 0 where revisions are not numbers.
    pub revision: u64,
    /// Why nothing arrives at the moment.
    pub trouble: Option<Trouble>,
    /// How many objects could not be read and were skipped.
    pub skipped: u64,
    /// Whether a list is arriving: what is known may be older than its revision says.
    pub listing: bool,
    /// When anything was heard from the server last.
    pub heard: Option<Instant>,
}

/// How far the watches of a cache are, by namespace; the empty one is all of them.
#[derive(Debug, Default)]
struct Progress {
    feeds: BTreeMap<String, CacheState>,
}

impl Progress {
    fn sum(&self) -> CacheState {
        let feeds = || self.feeds.values();
        CacheState {
            synced: !self.feeds.is_empty() && feeds().all(|feed| feed.synced),
            revision: feeds().map(|feed| feed.revision).min().unwrap_or(0),
            trouble: feeds().find_map(|feed| feed.trouble.clone()),
            skipped: feeds().map(|feed| feed.skipped).sum(),
            listing: feeds().any(|feed| feed.listing),
            heard: feeds().map(|feed| feed.heard).min().flatten(),
        }
    }

    /// Whether what happened in a namespace up to a revision has been seen.
    fn has_seen(&self, namespace: &str, revision: u64) -> bool {
        let feed = self.feeds.get(namespace).or_else(|| self.feeds.get(""));
        feed.is_some_and(|feed| feed.synced && !feed.listing && feed.revision >= revision)
    }
}

type Handler = Arc<dyn Fn(&Change) + Send + Sync>;

struct Shared {
    scope: Scope,
    store: RwLock<Store>,
    /// Locked while a change is applied and handed out, and while a handler joins: none misses a change or sees it twice.
    handlers: Mutex<Handlers>,
    progress: watch::Sender<Progress>,
    /// What stops the watch of each namespace.
    feeds: Mutex<BTreeMap<String, CancellationToken>>,
    spawner: Spawner,
    memo: Memo,
    complaints: Complaints,
    /// What was written and has perhaps not been seen.
    expected: Mutex<BTreeMap<ObjectKey, u64>>,
    /// What was deleted and is perhaps still known, by uid.
    expected_gone: Mutex<BTreeMap<ObjectKey, String>>,
    /// Nanoseconds spent on reading and keeping what arrived.
    decoding: AtomicU64,
    stop: CancellationToken,
}

#[derive(Default)]
struct Handlers {
    next: u64,
    by_id: BTreeMap<u64, Handler>,
}

/// Stops the watch when the last handle goes.
struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.stop.cancel();
    }
}

/// A handle on what is known about a scope. Cheap to clone; reads never wait for the network.
#[derive(Clone)]
pub struct Cache(Arc<Alive>);

/// Dropping it ends the calls of the handler.
#[must_use]
pub struct Subscription {
    cache: Cache,
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.cache.shared().handlers.lock().unwrap_or_else(PoisonError::into_inner).by_id.remove(&self.id);
    }
}

impl Cache {
    fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// What it knows about.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.shared().scope
    }

    /// Whether both are handles on the same.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.shared(), other.shared())
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.read(|store| store.get(key))
    }

    /// All objects, in the order of their keys.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Object>> {
        self.read(Store::list)
    }

    /// The objects of one namespace, in the order of their names.
    #[must_use]
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<Object>> {
        self.read(|store| store.list_in(namespace))
    }

    /// Objects by several conditions at once.
    pub fn find(&self) -> Find<'_> {
        Find::new(self)
    }

    /// The same objects as a type, decoded when they are read.
    #[must_use]
    pub fn typed<K>(&self) -> View<K> {
        View::new(self.clone())
    }

    /// An index by what `values` finds in an object: none, one or many values. It must give the same for the same object.
    #[must_use]
    pub fn index<V: Ord + Send + Sync + 'static>(
        &self,
        values: impl Fn(&Object) -> Vec<V> + Send + Sync + 'static,
    ) -> Index<V> {
        let postings = Arc::new(Postings::new(values));
        self.shared().store.write().unwrap_or_else(PoisonError::into_inner).add_index(&postings);
        Index::new(self.clone(), postings)
    }

    /// An index by the uids of owners.
    #[must_use]
    pub fn by_owner(&self) -> Index<String> {
        self.index(|object| object.owners().into_iter().map(|OwnerReference { uid, .. }| uid).collect())
    }

    /// An index by labels: name and value.
    #[must_use]
    pub fn by_label(&self) -> Index<(String, String)> {
        self.index(|object| object.labels().into_iter().collect())
    }

    /// How many objects are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(Store::len)
    }

    /// Whether no object is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes of JSON are kept.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.read(Store::bytes)
    }

    fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&self.shared().store.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.shared().progress.borrow().sum()
    }

    /// Resolves when the state has changed from `seen`, with the new one.
    pub async fn changed_from(&self, seen: &CacheState) -> CacheState {
        self.until(|progress| progress.sum() != *seen).await;
        self.state()
    }

    /// Resolves when a list has been complete once.
    pub async fn synced(&self) {
        self.until(|progress| progress.sum().synced).await;
    }

    /// Resolves when every change of a namespace up to `revision` has been seen.
    pub async fn reaches(&self, namespace: &str, revision: u64) {
        self.until(|progress| progress.has_seen(namespace, revision)).await;
    }

    async fn until(&self, holds: impl FnMut(&Progress) -> bool) {
        if self.shared().progress.subscribe().wait_for(holds).await.is_err() {
            // The watch was stopped: what is waited for never comes.
            std::future::pending::<()>().await;
        }
    }

    /// Something of this version was written and should be seen soon. Where nobody looks, it is not waited for.
    pub(crate) fn expect(&self, key: ObjectKey, revision: u64) {
        let progress = self.shared().progress.borrow();
        if !progress.feeds.contains_key("") && !progress.feeds.contains_key(&*key.namespace) {
            return;
        }
        drop(progress);
        let mut expected = self.shared().expected.lock().unwrap_or_else(PoisonError::into_inner);
        let floor = expected.entry(key).or_default();
        *floor = revision.max(*floor);
        if expected.len() > EXPECTED {
            let oldest = expected.iter().min_by_key(|(_, revision)| **revision).map(|(key, _)| key.clone());
            oldest.map(|key| expected.remove(&key));
        }
    }

    /// What is known of a key was deleted, and should be seen to go soon.
    pub(crate) fn expect_gone(&self, key: &ObjectKey) {
        if let Some(known) = self.get(key).filter(|known| !known.is_deleting()) {
            let mut gone = self.shared().expected_gone.lock().unwrap_or_else(PoisonError::into_inner);
            gone.insert(key.clone(), known.uid().into_owned());
            if gone.len() > EXPECTED {
                gone.pop_first();
            }
        }
    }

    /// Resolves when an object that was deleted is no longer known as if it had not been.
    async fn shows_no_ghost(&self, key: &ObjectKey, uid: &str) {
        let mut progress = self.shared().progress.subscribe();
        while self.get(key).is_some_and(|known| known.uid() == uid && !known.is_deleting()) {
            if progress.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Resolves when it is complete and shows what is expected of some keys.
    pub(crate) async fn shows_expected(&self, concerns: impl Fn(&ObjectKey) -> bool) {
        self.synced().await;
        let wanted: Vec<(ObjectKey, u64)> = {
            let expected = self.shared().expected.lock().unwrap_or_else(PoisonError::into_inner);
            expected.iter().filter(|(key, _)| concerns(key)).map(|(key, floor)| (key.clone(), *floor)).collect()
        };
        let gone: Vec<(ObjectKey, String)> = {
            let gone = self.shared().expected_gone.lock().unwrap_or_else(PoisonError::into_inner);
            gone.iter().filter(|(key, _)| concerns(key)).map(|(key, uid)| (key.clone(), uid.clone())).collect()
        };
        for (key, uid) in gone {
            self.shows_no_ghost(&key, &uid).await;
            self.shared().expected_gone.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
        for (key, revision) in wanted {
            self.reaches(&key.namespace, revision).await;
            let mut expected = self.shared().expected.lock().unwrap_or_else(PoisonError::into_inner);
            if expected.get(&key) == Some(&revision) {
                expected.remove(&key);
            }
        }
    }

    /// Watches other namespaces from now on. What was known of those that are left is deleted, for handlers too; the
    /// [`Scope`] stays as it was asked for. Without effect on a cache of all namespaces.
    pub fn set_namespaces(&self, namespaces: &BTreeSet<String>) {
        if !self.scope().namespaces.is_empty() {
            self.shared().follow(namespaces);
        }
    }

    /// Calls `handler` for every object that is known (as an initial change), and then for every change, in order.
    /// It runs on the writer's way: it must be quick and may not wait.
    pub fn subscribe(&self, handler: impl Fn(&Change) + Send + Sync + 'static) -> Subscription {
        let mut handlers = self.shared().handlers.lock().unwrap_or_else(PoisonError::into_inner);
        for object in self.list() {
            handler(&Change { key: object.key(), old: None, new: Some(object), origin: Origin::Initial });
        }
        let id = handlers.next;
        handlers.next += 1;
        handlers.by_id.insert(id, Arc::new(handler));
        Subscription { cache: self.clone(), id }
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({}, {} objects)", self.scope(), self.len())
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscription({}, {})", self.cache.scope(), self.id)
    }
}

impl Shared {
    /// Has exactly these namespaces watched, each by a task of its own. None means all of them at once.
    fn follow(self: &Arc<Self>, namespaces: &BTreeSet<String>) {
        let all = BTreeSet::from([String::new()]);
        let wanted = if self.scope.namespaces.is_empty() { &all } else { namespaces };
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        let left: Vec<String> = feeds.keys().filter(|namespace| !wanted.contains(*namespace)).cloned().collect();
        for namespace in left {
            if let Some(stop) = feeds.remove(&namespace) {
                stop.cancel();
            }
            self.leave(&namespace);
        }
        for namespace in wanted {
            if !feeds.contains_key(namespace) {
                let stop = self.stop.child_token();
                self.progress.send_modify(|progress| {
                    progress.feeds.insert(namespace.clone(), CacheState::default());
                });
                feeds.insert(namespace.clone(), stop.clone());
                let (shared, namespace) = (Arc::clone(self), namespace.clone());
                let name = format!("watch {}", self.scope);
                self.spawner.spawn(name, move |client| shared.run(client, namespace, stop));
            }
        }
    }

    fn leave(&self, namespace: &str) {
        let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.store.write().unwrap_or_else(PoisonError::into_inner).leave(namespace);
        handlers.tell(&changes);
        self.progress.send_modify(|progress| {
            progress.feeds.remove(namespace);
        });
    }

    /// The one writer of a namespace: takes events until it is stopped.
    async fn run(self: Arc<Self>, client: Client, namespace: String, stop: CancellationToken) {
        let Scope { resource, form, .. } = self.scope.clone();
        let subject = Subject { resource, selection: self.scope.selection(&namespace), form };
        let mut watch = Watch::new(client, subject);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                event = watch.next() => self.write(&namespace, event, &stop),
            }
        }
    }

    fn write(&self, namespace: &str, event: Event, stop: &CancellationToken) {
        let note = |change: &dyn Fn(&mut CacheState)| self.note(namespace, stop, change);
        let seen: Option<u64> = match &event {
            Event::Trouble(trouble) => {
                tracing::warn!(scope = %self.scope, trouble = %trouble, "watch is in trouble");
                return note(&|state| state.trouble = Some(trouble.clone()));
            }
            Event::Skipped { why, bytes } => return self.skip(namespace, stop, bytes, why),
            Event::Complete(at) | Event::Progress(at) => at.parse().ok(),
            Event::Applied(arrived) | Event::Deleted(arrived) => arrived.glance.resource_version.parse().ok(),
            Event::Reset => {
                note(&|state| state.listing = true);
                None
            }
            Event::Listed(_) => None,
        };
        let complete = matches!(event, Event::Complete(_));
        // Also where versions are no numbers: whoever waits looks again.
        let moves = !matches!(event, Event::Reset | Event::Listed(_));
        self.hand_out(namespace, event, stop);
        if moves {
            note(&|state| {
                state.synced |= complete;
                state.listing &= !complete;
                state.trouble = None;
                // A list says how far it is; a server that lost its history may be less far than before.
                let before = if complete { 0 } else { state.revision };
                state.revision = before.max(seen.unwrap_or(0));
            });
        }
    }

    fn skip(&self, namespace: &str, stop: &CancellationToken, bytes: &[u8], why: &str) {
        if self.complaints.is_new(bytes) {
            let key = Glance::at(bytes).map_or_else(|_| "unknown".to_owned(), |glance| glance.key.to_string());
            tracing::warn!(scope = %self.scope, key, why, "object skipped: it cannot be read");
        }
        self.note(namespace, stop, &|state| state.skipped += 1);
    }

    fn hand_out(&self, namespace: &str, event: Event, stop: &CancellationToken) {
        let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        // Who was told to leave a namespace meanwhile brings nothing back.
        if stop.is_cancelled() {
            return;
        }
        let began = Instant::now();
        let bytes = match &event {
            Event::Listed(arrived) | Event::Applied(arrived) => arrived.bytes.clone(),
            _ => Bytes::new(),
        };
        let applied = self.store.write().unwrap_or_else(PoisonError::into_inner).apply(namespace, event);
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.decoding.fetch_add(took, Ordering::Relaxed);
        match applied {
            Ok(changes) => handlers.tell(&changes),
            Err(why) => self.skip(namespace, stop, &bytes, &why.to_string()),
        }
    }

    /// Who was told to leave a namespace has nothing more to say of it: another one may look at it by now.
    fn note(&self, namespace: &str, stop: &CancellationToken, change: &dyn Fn(&mut CacheState)) {
        self.progress.send_modify(|progress| {
            if let Some(state) = progress.feeds.get_mut(namespace).filter(|_| !stop.is_cancelled()) {
                state.heard = Some(Instant::now());
                change(state);
            }
        });
    }
}

impl Handlers {
    fn tell(&self, changes: &[Change]) {
        for change in changes {
            for handler in self.by_id.values() {
                // Whoever panics misses this change; the others, and the watch, go on.
                if catch_unwind(AssertUnwindSafe(|| handler(change))).is_err() {
                    tracing::error!(key = %change.key, "a handler of a cache panicked");
                }
            }
        }
    }
}
