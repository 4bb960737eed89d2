//! The caches of a process, shared by all its controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use concert_api::{GroupResource, Gvk};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::complaints::{Complaints, Totals};
use super::keep::{Keep, Transform};
use super::lazy::Lazies;
use super::store::Store;
use super::union::Union;
use super::{Alive, Cache, CacheState, Shared};
use crate::client::Client;
use crate::resource::Resource;
use crate::scope::{Namespaces, Part, Place, Scope};
use crate::sync::{Mutex, RwLock, watch};
use crate::tasks::TaskGroup;
use crate::watch::Trouble;

/// Which objects; what is not said is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// A label selector; empty for all.
    pub labels: Option<String>,
    /// A field selector; empty for all.
    pub fields: Option<String>,
}

impl Selectors {
    /// Those that this label selector selects.
    #[must_use]
    pub fn labelled(selector: impl Into<String>) -> Self {
        Self { labels: Some(selector.into()), fields: None }
    }
}

/// What is watched of a kind where nobody says so, and what is kept of it.
#[derive(Clone, Debug, Default)]
pub struct KindSettings {
    /// Only these namespaces, each with selectors of its own or none; empty for all. The empty name stands for all
    /// namespaces that are not named.
    pub namespaces: BTreeMap<String, Selectors>,
    /// Which objects, where their namespace's line does not say so.
    pub selectors: Selectors,
    /// Makes less of each object before it is kept; of its metadata, where these are all that is watched.
    pub transform: Option<Transform>,
    /// Whether to keep `managedFields`, which are often half of an object.
    pub managed_fields: bool,
    /// Whether [`Informers::objects`] reads it from the server, whoever watches it: for kinds of which a moment's lag is too
    /// much. What is watched, and [`Informers::cache`], stay as they are.
    pub live: bool,
}

/// What a process watches of each kind: one place to say "only these namespaces" for all its controllers. What a controller
/// says itself comes first; then its kind's line for the namespace, its kind's line, the defaults for the namespace, the
/// defaults.
#[derive(Clone, Debug, Default)]
pub struct Narrowing {
    /// By group and plural.
    pub kinds: BTreeMap<GroupResource, KindSettings>,
    /// For all other kinds, and for what the lines of kinds leave open.
    pub defaults: KindSettings,
    /// What a read of a kind does that nobody has open. `None`: it fails, and says what to do, so that what is watched is
    /// what somebody asked for. Else it opens a cache, which is closed when nobody has read it for so long.
    pub lazy: Option<Duration>,
}

impl Narrowing {
    /// The lines that speak of a kind, the first comes first.
    fn lines(&self, scope: &Scope) -> impl Iterator<Item = &KindSettings> + Clone {
        self.kinds.get(&scope.resource.group_resource()).into_iter().chain([&self.defaults])
    }

    /// A scope with what it leaves open filled in.
    #[expect(clippy::mutable_key_type, reason = "a set of namespaces is ordered by its name and identity, which stay")]
    fn fill(&self, scope: Scope) -> Scope {
        let parts = scope.parts.iter().flat_map(|part| self.fill_part(&scope, part)).collect();
        Scope { parts, ..scope }.discreet()
    }

    fn fill_part(&self, scope: &Scope, part: &Part) -> Vec<Part> {
        let named = self.lines(scope).map(|line| &line.namespaces).find(|namespaces| !namespaces.is_empty());
        let places = match (&part.place, named) {
            (Place::Anywhere, Some(named)) if scope.resource.namespaced => places(named.keys()),
            (place, _) => vec![place.clone()],
        };
        places.into_iter().map(|place| self.select(scope, Part { place, ..part.clone() })).collect()
    }

    /// Fills in the selectors that a part leaves open.
    fn select(&self, scope: &Scope, mut part: Part) -> Part {
        let namespace = match &part.place {
            Place::In(name) => Some(name.as_str()),
            Place::Anywhere | Place::Outside(_) => Some(""),
            Place::Within(_) => None,
        };
        let own = |line: &KindSettings| namespace.and_then(|name| line.namespaces.get(name)).cloned();
        let said: Vec<Selectors> =
            self.lines(scope).flat_map(|line| own(line).into_iter().chain([line.selectors.clone()])).collect();
        let first = |of: fn(&Selectors) -> &Option<String>| said.iter().find_map(|one| of(one).clone());
        if let (true, Some(labels)) = (part.labels.is_empty(), first(|one| &one.labels)) {
            part.labels = labels;
        }
        if let (true, Some(fields)) = (part.fields.is_empty(), first(|one| &one.fields)) {
            part.fields = fields;
        }
        part
    }

    fn reads_live(&self, scope: &Scope) -> bool {
        self.lines(scope).any(|line| line.live)
    }

    fn keep(&self, scope: &Scope) -> Keep {
        let transform = self.lines(scope).find_map(|line| line.transform.clone());
        let managed_fields = self.lines(scope).any(|line| line.managed_fields);
        Keep { gvk: scope.resource.gvk.clone(), managed_fields, transform }
    }
}

/// Each of these namespaces; the empty name is all others.
fn places<'a>(names: impl Iterator<Item = &'a String>) -> Vec<Place> {
    let (rest, named): (BTreeSet<String>, BTreeSet<String>) = names.cloned().partition(String::is_empty);
    let others = match (rest.is_empty(), named.is_empty()) {
        (true, _) => None,
        (false, true) => Some(Place::Anywhere),
        (false, false) => Some(Place::Outside(named.clone())),
    };
    named.into_iter().map(Place::In).chain(others).collect()
}

/// The caches of a process, shared by all its controllers.
#[derive(Clone)]
pub struct Informers(Arc<Registry>);

struct Registry {
    client: Client,
    narrowing: Narrowing,
    stop: CancellationToken,
    /// What could not be read, ever.
    unread: Totals,
    hooks: Mutex<Vec<Hook>>,
    state: Mutex<RegistryState>,
    lazies: Arc<Lazies>,
}

struct RegistryState {
    caches: BTreeMap<Scope, Weak<Alive>>,
    tasks: Option<TaskGroup>,
}

/// Is told what is wrong with a watch.
type Hook = Arc<dyn Fn(&Scope, &Trouble) + Send + Sync>;

/// Starts watches, as long as there is somebody to wait for their end.
pub(super) struct Spawner(Weak<Registry>);

impl Spawner {
    pub(super) fn of(informers: &Informers) -> Self {
        Self(Arc::downgrade(&informers.0))
    }

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

    /// Tells who wants to know what is wrong with a watch.
    pub(super) fn tell(&self, scope: &Scope, trouble: &Trouble) {
        let Some(registry) = self.0.upgrade() else { return };
        let hooks = registry.hooks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for hook in hooks {
            // It costs its author what it wanted to know, not the watch its life.
            if catch_unwind(AssertUnwindSafe(|| hook(scope, trouble))).is_err() {
                tracing::error!(scope = %scope, "who listens to the troubles of watches panicked");
            }
        }
    }

    /// Forgets the caches that nobody has any more.
    pub(super) fn prune(&self) {
        let Some(registry) = self.0.upgrade() else { return };
        let mut state = registry.state.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<_> = state.caches.extract_if(.., |_, cache| cache.strong_count() == 0).collect();
        drop(state);
        // Only now: the last one to have a set of namespaces closes the cache that fills it.
        drop(gone);
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
        let (unread, hooks, lazies) = (Totals::default(), Mutex::default(), Arc::default());
        Self(Arc::new(Registry { client, narrowing, stop, unread, hooks, state, lazies }))
    }

    /// The client that the watches use.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The cache of a scope; its watch starts if it is the first handle. Must be called within a tokio runtime.
    #[must_use]
    pub fn cache(&self, scope: impl Into<Scope>) -> Cache {
        let cache = self.open(scope.into());
        cache.shared().needed.store(true, Ordering::Relaxed);
        cache
    }

    /// A scope with what it leaves open filled in.
    pub(crate) fn filled(&self, scope: Scope) -> Scope {
        self.0.narrowing.fill(scope)
    }

    /// The same for somebody who does not count on it: the process is ready without it.
    pub(super) fn open(&self, scope: Scope) -> Cache {
        let scope = self.filled(scope);
        let (cache, is_new) = self.find_or_make(scope);
        if is_new {
            cache.shared().begin();
        }
        cache
    }

    fn find_or_make(&self, scope: Scope) -> (Cache, bool) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(alive) = state.caches.get(&scope).and_then(Weak::upgrade) {
            return (Cache(alive), false);
        }
        let store = Store::new(self.0.narrowing.keep(&scope));
        let shared = Arc::new(Shared {
            memo: store.memo().clone(),
            store: RwLock::new(store),
            scope: scope.clone(),
            handlers: Mutex::default(),
            progress: watch::Sender::default(),
            feeds: Mutex::default(),
            union: scope.overlaps().then(|| Mutex::new(Union::default())),
            spawner: Spawner::of(self),
            complaints: Complaints::of(&scope.resource.gvk, &self.0.unread),
            expected: Mutex::default(),
            expected_gone: Mutex::default(),
            decoding: AtomicU64::default(),
            handling: AtomicU64::default(),
            needed: AtomicBool::default(),
            stop: self.0.stop.child_token(),
        });
        let alive = Arc::new(Alive(shared));
        state.caches.insert(scope, Arc::downgrade(&alive));
        (Cache(alive), true)
    }

    /// Calls `hook` each time a watch meets trouble: it will be tried again by itself. It must be quick and may not wait. That
    /// it is in the log, in the metrics, and in [`Cache::state`], is so without it.
    pub fn on_trouble(&self, hook: impl Fn(&Scope, &Trouble) + Send + Sync + 'static) {
        self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(hook));
    }

    /// The cache of a scope, if somebody has it open.
    #[must_use]
    pub fn opened(&self, scope: impl Into<Scope>) -> Option<Cache> {
        let scope = self.0.narrowing.fill(scope.into());
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.caches.get(&scope).and_then(Weak::upgrade).map(Cache)
    }

    /// The cache of a scope whenever somebody else has it open.
    pub(crate) fn elsewhere(&self, scope: impl Into<Scope>) -> Elsewhere {
        let scope = self.0.narrowing.fill(scope.into());
        Elsewhere { informers: self.clone(), scope, known: Arc::default() }
    }

    /// A scope with what it leaves open filled in, as caches are known by.
    pub(super) fn fill(&self, scope: Scope) -> Scope {
        self.0.narrowing.fill(scope)
    }

    pub(super) fn lazies(&self) -> &Arc<Lazies> {
        &self.0.lazies
    }

    /// Whether handles on a kind read from the server.
    pub(crate) fn reads_live(&self, scope: &Scope) -> bool {
        self.0.narrowing.reads_live(scope)
    }

    /// When caches that are opened by a read are closed, if reads open them.
    pub(crate) fn lazy_for(&self) -> Option<Duration> {
        self.0.narrowing.lazy
    }

    /// The set of namespaces that a label selector selects, as their labels change: for
    /// [`Scope::within`]. Must be called within a tokio runtime.
    #[must_use]
    pub fn namespaces_labelled(&self, selector: &str) -> Namespaces {
        let resource = Resource::cluster(Gvk::new("", "v1", "Namespace"), "namespaces");
        let cache = self.cache(Scope::all(resource).labelled(selector).metadata_only());
        let stop = self.stopping();
        let set = Namespaces::unknown(format!("namespaces labelled {selector}"), Some(stop.clone().drop_guard()));
        let fill = set.filler();
        Spawner::of(self).spawn(set.to_string(), move |_| async move {
            let changed = Arc::new(Notify::new());
            let notify = Arc::clone(&changed);
            let _subscription = cache.subscribe(move |_| notify.notify_one());
            let follow = async {
                cache.synced().await;
                loop {
                    fill(cache.list().iter().map(|namespace| namespace.name().into_owned()).collect());
                    changed.notified().await;
                }
            };
            let _stopped = stop.run_until_cancelled(follow).await;
        });
        set
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

    pub(super) fn totals(&self) -> &Totals {
        &self.0.unread
    }

    /// Cancelled when all watches are stopped.
    pub(super) fn stopping(&self) -> CancellationToken {
        self.0.stop.child_token()
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

/// A cache that is not held open: it is there as long as somebody else has it.
#[derive(Clone)]
pub(crate) struct Elsewhere {
    informers: Informers,
    scope: Scope,
    /// Where it was found last: to look for it by its scope costs more than to read from it.
    known: Arc<Mutex<Weak<Alive>>>,
}

impl Elsewhere {
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(crate) fn informers(&self) -> &Informers {
        &self.informers
    }

    pub(crate) fn cache(&self) -> Option<Cache> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(alive) = known.upgrade() {
            return Some(Cache(alive));
        }
        let cache = self.informers.opened(self.scope.clone())?;
        *known = Arc::downgrade(&cache.0);
        Some(cache)
    }

    /// What is open of the same kind, in words.
    pub(crate) fn others(&self) -> Vec<String> {
        let caches = self.informers.caches();
        let same = caches.iter().filter(|cache| cache.scope().resource == self.scope.resource);
        same.map(|cache| cache.scope().to_string()).collect()
    }
}

impl std::fmt::Debug for Informers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.states().iter().map(|(scope, _)| scope.to_string())).finish()
    }
}
