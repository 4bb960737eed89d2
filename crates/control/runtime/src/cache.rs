//! What is known about the objects of one scope, kept by one writer and read by everybody.
//!
//! [`Informers`] gives out [`Cache`]s: one watch and one copy per [`Scope`], however many controllers read it. It
//! starts with the first handle and stops when the last is dropped. A kind that is missing or forbidden is a state
//! that can be seen ([`Cache::state`]), tried again, and never in the way of other kinds.

mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use concert_api::{Object, ObjectKey};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use store::{Change, Origin, Verb};

use crate::client::Client;
use crate::tasks::TaskGroup;
use crate::watch::{Event, Scope, Trouble, Watch};
use store::Store;

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
}

/// What a cache looks like from outside: for metrics and the admin page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CacheReport {
    /// What it knows about.
    pub scope: Scope,
    /// How far it is.
    pub state: CacheState,
    /// How many objects it holds.
    pub objects: usize,
    /// How many bytes these are, if that is counted.
    pub bytes: Option<u64>,
    /// How long ago its watch was last heard of, if that is known.
    pub lag: Option<std::time::Duration>,
    /// How long it took to decode all that was heard, if that is measured.
    pub decoding: Option<std::time::Duration>,
}

type Handler = Arc<dyn Fn(&Change) + Send + Sync>;

struct Shared {
    scope: Scope,
    store: RwLock<Store>,
    /// Locked while a change is applied and handed out, and while a handler joins: none misses a change or sees it twice.
    handlers: Mutex<Handlers>,
    state: watch::Sender<CacheState>,
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
        self.cache.0.0.handlers.lock().unwrap_or_else(PoisonError::into_inner).by_id.remove(&self.id);
    }
}

impl Cache {
    /// What it knows about.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.0.0.scope
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

    fn read<T>(&self, read: impl FnOnce(&Store) -> T) -> T {
        read(&self.0.0.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.0.0.state.borrow().clone()
    }

    /// The state, and a way to wait for the next one.
    #[must_use]
    pub fn watch_state(&self) -> watch::Receiver<CacheState> {
        self.0.0.state.subscribe()
    }

    /// Resolves when a list has been complete once.
    pub async fn synced(&self) {
        self.until(|state| state.synced).await;
    }

    /// Resolves when every change up to `revision` has been seen.
    pub async fn reaches(&self, revision: u64) {
        self.until(|state| state.synced && state.revision >= revision).await;
    }

    async fn until(&self, holds: impl FnMut(&CacheState) -> bool) {
        if self.watch_state().wait_for(holds).await.is_err() {
            // The watch was stopped: what is waited for never comes.
            std::future::pending::<()>().await;
        }
    }

    /// Calls `handler` for every object that is known (as an initial change), and then for every change, in order.
    /// It runs on the writer's way: it must be quick and may not wait.
    pub fn subscribe(&self, handler: impl Fn(&Change) + Send + Sync + 'static) -> Subscription {
        let mut handlers = self.0.0.handlers.lock().unwrap_or_else(PoisonError::into_inner);
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
    /// The one writer: takes events until it is stopped.
    async fn run(self: Arc<Self>, client: Client) {
        let mut watch = Watch::new(client, self.scope.clone());
        let stop = self.stop.clone();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                event = watch.next() => self.write(event),
            }
        }
    }

    fn write(&self, event: Event) {
        let progress = match &event {
            Event::Trouble(trouble) => {
                tracing::warn!(scope = %self.scope, trouble = %trouble, "watch is in trouble");
                return self.note(|state| state.trouble = Some(trouble.clone()));
            }
            Event::Skipped(why) => {
                tracing::warn!(scope = %self.scope, why, "object skipped: it cannot be read");
                return self.note(|state| state.skipped += 1);
            }
            Event::Complete(at) | Event::Progress(at) => at.parse().ok(),
            Event::Applied(object) | Event::Deleted(object) => object.revision(),
            Event::Reset | Event::Listed(_) => None,
        };
        let complete = matches!(event, Event::Complete(_));
        self.hand_out(event);
        if progress.is_some() || complete {
            self.note(|state| {
                state.synced |= complete;
                state.trouble = None;
                state.revision = state.revision.max(progress.unwrap_or(0));
            });
        }
    }

    fn hand_out(&self, event: Event) {
        let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.store.write().unwrap_or_else(PoisonError::into_inner).apply(event);
        for change in &changes {
            for handler in handlers.by_id.values() {
                handler(change);
            }
        }
    }

    fn note(&self, change: impl FnOnce(&mut CacheState)) {
        self.state.send_if_modified(|state| {
            let before = state.clone();
            change(state);
            *state != before
        });
    }
}

/// The caches of a process, shared by all its controllers.
#[derive(Clone)]
pub struct Informers(Arc<Registry>);

struct Registry {
    client: Client,
    stop: CancellationToken,
    state: Mutex<RegistryState>,
}

struct RegistryState {
    caches: BTreeMap<Scope, Weak<Alive>>,
    tasks: Option<TaskGroup>,
}

impl Informers {
    /// No caches yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let stop = CancellationToken::new();
        let tasks = Some(TaskGroup::new(stop.clone()));
        Self(Arc::new(Registry { client, stop, state: Mutex::new(RegistryState { caches: BTreeMap::new(), tasks }) }))
    }

    /// The client that the watches use.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The cache of a scope; its watch starts if it is the first handle. Must be called within a tokio runtime.
    #[must_use]
    pub fn cache(&self, scope: impl Into<Scope>) -> Cache {
        let scope = scope.into();
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(alive) = state.caches.get(&scope).and_then(Weak::upgrade) {
            return Cache(alive);
        }
        state.caches.retain(|_, cache| cache.strong_count() > 0);
        let shared = Arc::new(Shared {
            scope: scope.clone(),
            store: RwLock::default(),
            handlers: Mutex::default(),
            state: watch::Sender::default(),
            stop: self.0.stop.child_token(),
        });
        if let Some(tasks) = &mut state.tasks {
            tasks.spawn(format!("watch {scope}"), Arc::clone(&shared).run(self.0.client.clone()));
        }
        let alive = Arc::new(Alive(shared));
        state.caches.insert(scope, Arc::downgrade(&alive));
        Cache(alive)
    }

    /// How every cache is doing, in the order of their scopes.
    #[must_use]
    pub fn states(&self) -> Vec<(Scope, CacheState)> {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let live = state.caches.iter().filter_map(|(scope, cache)| Some((scope, cache.upgrade()?)));
        let states: Vec<_> = live.map(|(scope, alive)| (scope.clone(), Cache(alive))).collect();
        drop(state);
        states.into_iter().map(|(scope, cache)| (scope, cache.state())).collect()
    }

    /// What every cache looks like from outside, in the order of their scopes.
    #[must_use]
    pub fn reports(&self) -> Vec<CacheReport> {
        let report = |cache: &Cache| CacheReport {
            scope: cache.scope().clone(),
            state: cache.state(),
            objects: cache.len(),
            bytes: None,
            lag: None,
            decoding: None,
        };
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let live: Vec<Cache> = state.caches.values().filter_map(Weak::upgrade).map(Cache).collect();
        drop(state);
        live.iter().map(report).collect()
    }

    /// Stops all watches and waits for them. What is known can still be read.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        let tasks = self.0.state.lock().unwrap_or_else(PoisonError::into_inner).tasks.take();
        if let Some(mut tasks) = tasks {
            tasks.stop().await;
        }
    }
}

impl std::fmt::Debug for Informers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.states().iter().map(|(scope, _)| scope.to_string())).finish()
    }
}
