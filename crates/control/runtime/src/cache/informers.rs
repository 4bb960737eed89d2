//! The caches of a process, shared by all its controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, Weak};

use concert_api::GroupResource;
use tokio_util::sync::CancellationToken;

use super::complaints::Complaints;
use super::keep::{Keep, Transform};
use super::store::Store;
use super::view::Memo;
use super::{Alive, Cache, CacheState, Shared};
use crate::client::Client;
use crate::scope::{Form, Scope};
use crate::sync::{Mutex, RwLock, watch};
use crate::tasks::TaskGroup;

/// What is watched of a kind where nobody says so, and what is kept of it.
#[derive(Clone, Debug, Default)]
pub struct KindSettings {
    /// Only these namespaces; empty for all.
    pub namespaces: BTreeSet<String>,
    /// A label selector; empty for all.
    pub labels: String,
    /// A field selector; empty for all.
    pub fields: String,
    /// Makes less of each object before it is kept.
    pub transform: Option<Transform>,
    /// Whether to keep `managedFields`, which are often half of an object.
    pub managed_fields: bool,
}

/// What a process watches of each kind: one place to say "only these namespaces" for all its controllers. What a controller
/// says itself comes first, then its kind's line, then the defaults.
#[derive(Clone, Debug, Default)]
pub struct Narrowing {
    /// By group and plural.
    pub kinds: BTreeMap<GroupResource, KindSettings>,
    /// For all other kinds.
    pub defaults: KindSettings,
}

impl Narrowing {
    fn of(&self, scope: &Scope) -> &KindSettings {
        self.kinds.get(&scope.resource.group_resource()).unwrap_or(&self.defaults)
    }

    /// A scope with what it leaves open filled in.
    fn fill(&self, mut scope: Scope) -> Scope {
        let KindSettings { namespaces, labels, fields, .. } = self.of(&scope);
        if scope.namespaces.is_empty() && scope.resource.namespaced {
            scope.namespaces.clone_from(namespaces);
        }
        for (open, filled) in [(&mut scope.labels, labels), (&mut scope.fields, fields)] {
            if open.is_empty() {
                open.clone_from(filled);
            }
        }
        scope.discreet()
    }

    fn keep(&self, scope: &Scope) -> Keep {
        let KindSettings { transform, managed_fields, .. } = self.of(scope);
        let transform = transform.clone().filter(|_| scope.form == Form::Full);
        Keep { gvk: scope.resource.gvk.clone(), managed_fields: *managed_fields, transform }
    }
}

/// The caches of a process, shared by all its controllers.
#[derive(Clone)]
pub struct Informers(Arc<Registry>);

struct Registry {
    client: Client,
    narrowing: Narrowing,
    stop: CancellationToken,
    state: Mutex<RegistryState>,
}

struct RegistryState {
    caches: BTreeMap<Scope, Weak<Alive>>,
    tasks: Option<TaskGroup>,
}

/// Starts watches, as long as there is somebody to wait for their end.
pub(super) struct Spawner(Weak<Registry>);

impl Spawner {
    pub(super) fn spawn<F>(&self, name: String, task: impl FnOnce(Client) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(registry) = self.0.upgrade() else { return };
        let mut state = registry.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tasks) = &mut state.tasks {
            tasks.reap();
            tasks.spawn(name, task(registry.client.clone()));
        }
    }
}

impl Informers {
    /// No caches yet; of each kind all that controllers ask for.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self::narrowed(client, Narrowing::default())
    }

    /// No caches yet.
    #[must_use]
    pub fn narrowed(client: Client, narrowing: Narrowing) -> Self {
        let stop = CancellationToken::new();
        let tasks = Some(TaskGroup::new(stop.clone()));
        let state = Mutex::new(RegistryState { caches: BTreeMap::new(), tasks });
        Self(Arc::new(Registry { client, narrowing, stop, state }))
    }

    /// The client that the watches use.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The cache of a scope; its watch starts if it is the first handle. Must be called within a tokio runtime.
    #[must_use]
    pub fn cache(&self, scope: impl Into<Scope>) -> Cache {
        let scope = self.0.narrowing.fill(scope.into());
        let (cache, is_new) = self.find_or_make(scope);
        if is_new {
            let shared = cache.shared();
            shared.follow(&shared.scope.namespaces);
        }
        cache
    }

    fn find_or_make(&self, scope: Scope) -> (Cache, bool) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(alive) = state.caches.get(&scope).and_then(Weak::upgrade) {
            return (Cache(alive), false);
        }
        state.caches.retain(|_, cache| cache.strong_count() > 0);
        let shared = Arc::new(Shared {
            store: RwLock::new(Store::new(self.0.narrowing.keep(&scope))),
            scope: scope.clone(),
            handlers: Mutex::default(),
            progress: watch::Sender::default(),
            feeds: Mutex::default(),
            spawner: Spawner(Arc::downgrade(&self.0)),
            memo: Memo::default(),
            complaints: Complaints::default(),
            expected: Mutex::default(),
            expected_gone: Mutex::default(),
            decoding: AtomicU64::default(),
            stop: self.0.stop.child_token(),
        });
        let alive = Arc::new(Alive(shared));
        state.caches.insert(scope, Arc::downgrade(&alive));
        (Cache(alive), true)
    }

    /// The cache of a scope, if somebody has it open.
    #[must_use]
    pub fn opened(&self, scope: impl Into<Scope>) -> Option<Cache> {
        let scope = self.0.narrowing.fill(scope.into());
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.caches.get(&scope).and_then(Weak::upgrade).map(Cache)
    }

    /// All caches that are open, in the order of their scopes.
    #[must_use]
    pub fn caches(&self) -> Vec<Cache> {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.caches.values().filter_map(Weak::upgrade).map(Cache).collect()
    }

    /// How every cache is doing, in the order of their scopes.
    #[must_use]
    pub fn states(&self) -> Vec<(Scope, CacheState)> {
        self.caches().into_iter().map(|cache| (cache.scope().clone(), cache.state())).collect()
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
