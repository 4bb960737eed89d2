//! What is known about the objects of one scope, kept by one writer and read by everybody.
//!
//! ```text
//! watch of each part ─► (union) ─► store (bytes) ─► handlers: old and new
//!                                    │
//!          get, list, index, typed ◄─┘
//! ```
//!
//! [`Informers`] gives out [`Cache`]s: one watch and one copy per [`Scope`], however many controllers read it. It
//! starts with the first handle and stops when the last is dropped. A kind that is missing or forbidden is a state
//! that can be seen ([`Cache::state`]), tried again, and never in the way of other kinds. Objects are kept as their JSON
//! without `managedFields`; views decode late ([`Cache::typed`]) or never. Who does not want to hold a kind open reads it
//! [lazily](Lazy).

mod complaints;
mod feed;
mod handlers;
mod index;
mod informers;
#[cfg(all(test, feature = "shuttle"))]
mod interleavings;
mod keep;
mod lazy;
mod live;
mod memo;
mod page;
mod progress;
mod report;
mod store;
mod union;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use concert_api::{Object, ObjectKey, OwnerReference};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use index::{Find, Index};
pub use informers::{Informers, KindSettings, Narrowing, Selectors};
pub use keep::Transform;
pub use lazy::Lazy;
pub use page::Pages;
pub use progress::CacheState;
pub use report::CacheReport;
pub use store::{Change, Origin, Verb};
pub use view::{Undecodable, View};

use crate::scope::{Feed, Scope};
use crate::sync::{Mutex, RwLock, watch};
use complaints::Complaints;
use feed::Feeding;
pub(crate) use handlers::Listener;
use handlers::{Handler, Handlers, nanoseconds};
use index::Postings;
pub(crate) use informers::Elsewhere;
use informers::Spawner;
use memo::Memo;
pub(crate) use progress::Mark;
use progress::Progress;
use store::Store;
use union::Union;

/// So many writes are remembered until they are seen; with more, the oldest is trusted to have arrived.
const EXPECTED: usize = 1024;

struct Shared {
    scope: Scope,
    store: RwLock<Store>,
    /// Locked while a change is applied and handed out, and while a handler joins: none misses a change or sees it twice.
    handlers: Mutex<Handlers>,
    progress: watch::Sender<Progress>,
    /// The watches that are running.
    feeds: Mutex<Feeding>,
    /// Where watches may show the same object.
    union: Option<Mutex<Union>>,
    spawner: Spawner,
    memo: Memo,
    complaints: Complaints,
    /// What was written and has perhaps not been seen.
    expected: Mutex<BTreeMap<ObjectKey, Expected>>,
    /// What was deleted and is perhaps still known, or comes to be known.
    expected_gone: Mutex<BTreeMap<ObjectKey, Gone>>,
    /// Nanoseconds spent on reading and keeping what arrived.
    decoding: AtomicU64,
    /// Nanoseconds spent by those who were told of it.
    handling: AtomicU64,
    /// Whether somebody counts on it, and not only those who open it when they read.
    needed: AtomicBool,
    stop: CancellationToken,
}

/// What was written.
#[derive(Clone, PartialEq, Eq)]
struct Expected {
    mark: Mark,
    uid: String,
    /// The watches that are going to tell of it, or may.
    feeds: BTreeSet<Feed>,
}

/// What was deleted: the object that was known, and the one that was written and had not been seen.
#[derive(Clone, PartialEq, Eq)]
struct Gone {
    uids: BTreeSet<String>,
    /// When it was.
    mark: Mark,
}

/// Stops the watch when the last handle goes.
struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.stop.cancel();
        self.0.spawner.prune();
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
        let gone = self.cache.shared().handlers.lock().unwrap_or_else(PoisonError::into_inner).remove(self.id);
        // Not under the lock: what it has may end more.
        drop(gone);
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

    /// Whether somebody counts on it, and not only those who open it when they read.
    pub(crate) fn is_needed(&self) -> bool {
        self.shared().needed.load(Ordering::Relaxed)
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

    /// Resolves when every change of a namespace up to `revision` has been seen; at once where nobody looks, or does any
    /// more.
    pub async fn reaches(&self, namespace: &str, revision: u64) {
        self.until(|progress| progress.has_seen(namespace, revision)).await;
    }

    async fn until(&self, holds: impl FnMut(&Progress) -> bool) {
        if self.shared().progress.subscribe().wait_for(holds).await.is_err() {
            // The watch was stopped: what is waited for never comes.
            std::future::pending::<()>().await;
        }
    }

    /// The watches that are going to tell of what was just written, each up to its revision. With selectors these are the
    /// ones that show the object now, and will tell at least that they do no longer, and those that it matches by what
    /// can be judged here.
    pub(crate) fn hearing(&self, written: &Object) -> (Vec<Feed>, Mark) {
        self.concerned(written, Feed::selects)
    }

    /// The watches that tell of what was just written: of all of its namespace, because they show it now, or by `selects`.
    fn concerned(&self, written: &Object, selects: impl Fn(&Feed, &Object) -> bool) -> (Vec<Feed>, Mark) {
        let key = written.key();
        let (mut feeds, mark) = {
            let progress = self.shared().progress.borrow();
            (progress.looking(&key.namespace), progress.mark(written.revision().unwrap_or(0)))
        };
        let known = self.get(&key).is_some();
        let shown = |feed: &Feed| known && self.shared().is_shown_by(feed, &key);
        feeds.retain(|feed| feed.shows(&key.namespace) || selects(feed, written) || shown(feed));
        (feeds, mark)
    }

    /// Resolves when a watch is so far.
    pub(crate) async fn passes(&self, feed: &Feed, mark: Mark) {
        self.until(|progress| progress.is_feed_past(feed, mark)).await;
    }

    /// Whether a watch is so far.
    pub(crate) fn is_past(&self, feed: &Feed, mark: Mark) -> bool {
        self.shared().progress.borrow().is_feed_past(feed, mark)
    }

    /// This was written and should be seen soon. Where nobody looks, or is told of such objects, it is not waited for.
    pub(crate) fn expect(&self, written: &Object) {
        let (feeds, mark) = self.concerned(written, Feed::may_select);
        let (key, uid) = (written.key(), written.uid().into_owned());
        let mut feeds: BTreeSet<Feed> = feeds.into_iter().collect();
        let mut expected = self.shared().expected.lock().unwrap_or_else(PoisonError::into_inner);
        let before = expected.get(&key);
        if before.is_some_and(|before| before.mark.later(mark) != mark) {
            return;
        }
        // Who is going to tell of an earlier state is going to tell that it is over.
        feeds.extend(before.iter().flat_map(|before| before.feeds.iter().cloned()));
        if feeds.is_empty() {
            return;
        }
        expected.insert(key, Expected { mark, uid, feeds });
        if expected.len() > EXPECTED {
            let oldest = expected.iter().min_by_key(|(_, one)| one.mark.revision).map(|(key, _)| key.clone());
            oldest.map(|key| expected.remove(&key));
        }
    }

    /// What is known of a key, or was written and is going to be, was deleted, and should be seen to go soon.
    pub(crate) fn expect_gone(&self, key: &ObjectKey) {
        let known = self.get(key).filter(|known| !known.is_deleting()).map(|known| known.uid().into_owned());
        let expected = self.shared().expected.lock().unwrap_or_else(PoisonError::into_inner);
        let written = expected.get(key).map(|written| written.uid.clone());
        drop(expected);
        let uids: BTreeSet<String> = known.into_iter().chain(written).collect();
        if !uids.is_empty() {
            let mark = self.shared().progress.borrow().mark(0);
            let mut gone = self.shared().expected_gone.lock().unwrap_or_else(PoisonError::into_inner);
            gone.insert(key.clone(), Gone { uids, mark });
            if gone.len() > EXPECTED {
                gone.pop_first();
            }
        }
    }

    /// Resolves when an object that was deleted is no longer known as if it had not been. A server that was restored may
    /// have it again.
    async fn shows_no_ghost(&self, key: &ObjectKey, Gone { uids, mark }: &Gone) {
        let mut progress = self.shared().progress.subscribe();
        let is_ghost = |known: &Object| uids.contains(&*known.uid()) && !known.is_deleting();
        loop {
            let now = progress.borrow_and_update().mark(0);
            if now != *mark || !self.get(key).is_some_and(|known| is_ghost(&known)) {
                return;
            }
            if progress.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Resolves when it is complete and shows what is expected of some keys.
    pub(crate) async fn shows_expected(&self, concerns: impl Fn(&ObjectKey) -> bool) {
        self.synced().await;
        let wanted: Vec<(ObjectKey, Expected)> = {
            let expected = self.shared().expected.lock().unwrap_or_else(PoisonError::into_inner);
            expected.iter().filter(|(key, _)| concerns(key)).map(|(key, one)| (key.clone(), one.clone())).collect()
        };
        let gone: Vec<(ObjectKey, Gone)> = {
            let gone = self.shared().expected_gone.lock().unwrap_or_else(PoisonError::into_inner);
            gone.iter().filter(|(key, _)| concerns(key)).map(|(key, one)| (key.clone(), one.clone())).collect()
        };
        for (key, one) in wanted {
            for feed in &one.feeds {
                self.passes(feed, one.mark).await;
            }
            let mut expected = self.shared().expected.lock().unwrap_or_else(PoisonError::into_inner);
            if expected.get(&key) == Some(&one) {
                expected.remove(&key);
            }
        }
        // After what was written: it may be that which was deleted.
        for (key, one) in gone {
            self.shows_no_ghost(&key, &one).await;
            let mut gone = self.shared().expected_gone.lock().unwrap_or_else(PoisonError::into_inner);
            if gone.get(&key) == Some(&one) {
                gone.remove(&key);
            }
        }
    }

    /// Calls `handler` for every object that is known (as an initial change), and then for every change, in order.
    /// It runs on the writer's way: it must be quick and may not wait. One that takes long for a change is told in the log,
    /// with the place of this call.
    #[track_caller]
    pub fn subscribe(&self, handler: impl Fn(&Change) + Send + Sync + 'static) -> Subscription {
        let source = format!("{} at {}", self.scope(), Location::caller());
        self.subscribe_as(Listener::new("".into(), source), handler)
    }

    /// The same for somebody who has a name.
    pub(crate) fn subscribe_as(
        &self,
        listener: Arc<Listener>,
        handler: impl Fn(&Change) + Send + Sync + 'static,
    ) -> Subscription {
        let mut handler = Handler::new(listener, handler);
        let mut handlers = self.shared().handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, began) = (self.list(), Instant::now());
        let count = known.len();
        for object in known {
            handler.tell(&Change { key: object.key(), old: None, new: Some(object), origin: Origin::Initial });
        }
        let now = Instant::now();
        handler.told(count, began, now);
        self.shared().handling.fetch_add(nanoseconds(now.duration_since(began)), Ordering::Relaxed);
        let id = handlers.add(handler);
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
