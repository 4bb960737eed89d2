//! Starts and stops controllers while the process runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use concert_api::ObjectKey;
use tokio_util::sync::CancellationToken;

use crate::cache::{CacheState, Informers};
use crate::controller::{Controller, View};
use crate::metrics::Metrics;
use crate::tasks::TaskGroup;
use crate::watch::Scope;

/// Why a controller was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Names label metrics, so they are unique.
    #[error("cannot add controller \"{0}\": there is one of that name; remove it first or choose another name")]
    NameInUse(String),
    /// The engine was stopped.
    #[error("cannot add controller \"{0}\": the engine has stopped")]
    Stopped(String),
}

/// How a controller is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerState {
    /// Its name.
    pub name: String,
    /// What it listens to, and how far that is.
    pub sources: Vec<(Scope, CacheState)>,
    /// How many keys are ready.
    pub ready: usize,
    /// How many keys wait for their time.
    pub waiting: usize,
    /// How long the key that has been ready longest has been so.
    pub oldest: Option<Duration>,
    /// The keys being reconciled, and for how long.
    pub in_flight: Vec<(ObjectKey, Duration)>,
}

impl ControllerState {
    /// Whether every source has been complete once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.sources.iter().all(|(_, state)| state.synced)
    }
}

struct Running {
    /// What it was made from, to make it anew.
    controller: Controller,
    view: View,
    stop: CancellationToken,
    ended: CancellationToken,
}

struct State {
    controllers: BTreeMap<String, Running>,
    tasks: TaskGroup,
    go: CancellationToken,
    ours: KeyFilter,
    stopped: bool,
}

/// Which keys are this process's to work on.
pub(crate) type KeyFilter = Arc<dyn Fn(&ObjectKey) -> bool + Send + Sync>;

/// The controllers of a process. Cheap to clone. Adding warms a controller up: its caches and queue fill at once,
/// its workers begin with [`Engine::go`] (when the process leads).
#[derive(Clone)]
pub struct Engine {
    informers: Informers,
    metrics: Metrics,
    state: Arc<Mutex<State>>,
}

impl Engine {
    /// No controllers yet; none of their workers runs before [`Engine::go`].
    #[must_use]
    pub fn new(informers: Informers, metrics: Metrics) -> Self {
        let tasks = TaskGroup::new(CancellationToken::new());
        let (controllers, go, ours): (_, _, KeyFilter) =
            (BTreeMap::new(), CancellationToken::new(), Arc::new(|_| true));
        let state = State { controllers, tasks, go, ours, stopped: false };
        Self { informers, metrics, state: Arc::new(Mutex::new(state)) }
    }

    /// The caches that its controllers share.
    #[must_use]
    pub fn informers(&self) -> &Informers {
        &self.informers
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets workers begin, of controllers that are there and of those to come.
    pub fn go(&self) {
        self.state().go.cancel();
    }

    /// Adds a controller. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The name is in use, or the engine was stopped.
    pub fn add(&self, controller: Controller) -> Result<(), EngineError> {
        let name = controller.name().to_owned();
        let mut state = self.state();
        if state.stopped {
            return Err(EngineError::Stopped(name));
        }
        if state.controllers.contains_key(&name) {
            return Err(EngineError::NameInUse(name));
        }
        let running = self.start(&mut state, controller);
        state.controllers.insert(name, running);
        Ok(())
    }

    /// Warms a controller up and has it wait for its turn.
    fn start(&self, state: &mut State, controller: Controller) -> Running {
        let (stop, ended) = (state.tasks.token().child_token(), CancellationToken::new());
        let warm = controller.clone().warm(&self.informers, &self.metrics, Arc::clone(&state.ours));
        let view = warm.view();
        let guard = ended.clone().drop_guard();
        let (go, cancel) = (state.go.clone(), stop.clone());
        state.tasks.spawn(format!("controller {}", controller.name()), async move {
            let _ends_whatever_happens = guard;
            warm.run(go, cancel).await;
        });
        Running { controller, view, stop, ended }
    }

    /// Has controllers that are added from now on work only on some keys. What a filter turns away is not kept: when
    /// it lets more through, [`Engine::replay`] tells.
    pub fn only(&self, keys: impl Fn(&ObjectKey) -> bool + Send + Sync + 'static) {
        self.state().ours = Arc::new(keys);
    }

    /// Has every controller look at all of these keys that it knows of.
    pub fn replay(&self, keys: impl Fn(&ObjectKey) -> bool) {
        for (_, view) in self.views() {
            view.replay(&keys);
        }
    }

    /// Whether a key of these is being reconciled.
    pub fn works_on(&self, keys: impl Fn(&ObjectKey) -> bool) -> bool {
        self.views().iter().any(|(_, view)| view.in_flight().iter().any(|(key, _)| keys(key)))
    }

    /// Ends every reconcile where it is. Controllers then wait, warm, for the next [`Engine::go`] and begin from the
    /// start: for a process that was deposed and may lead again.
    pub fn stand_by(&self) {
        let mut state = self.state();
        if state.stopped {
            return;
        }
        state.go = CancellationToken::new();
        let ended = std::mem::replace(&mut state.tasks, TaskGroup::new(CancellationToken::new()));
        let controllers = std::mem::take(&mut state.controllers);
        // The new ones hold the caches before the old ones let go of them.
        for (name, Running { controller, stop, .. }) in controllers {
            if !stop.is_cancelled() {
                let running = self.start(&mut state, controller);
                state.controllers.insert(name, running);
            }
        }
        drop(state);
        drop(ended);
    }

    /// Removes a controller: no new reconcile begins, and it returns when the running ones have come to their end.
    /// `false` if there is none of that name.
    pub async fn remove(&self, name: &str) -> bool {
        let ended = {
            let state = self.state();
            let Some(running) = state.controllers.get(name) else { return false };
            running.stop.cancel();
            running.ended.clone()
        };
        ended.cancelled().await;
        self.metrics.forget(&format!("controller {name}"));
        self.state().controllers.remove(name);
        true
    }

    fn views(&self) -> Vec<(String, View)> {
        self.state().controllers.iter().map(|(name, running)| (name.clone(), running.view.clone())).collect()
    }

    /// How every controller is doing, in the order of their names.
    #[must_use]
    pub fn list(&self) -> Vec<ControllerState> {
        let look = |(name, view): (String, View)| {
            let ((ready, waiting), oldest) = (view.depth(), view.oldest());
            ControllerState { name, sources: view.sources(), ready, waiting, oldest, in_flight: view.in_flight() }
        };
        self.views().into_iter().map(look).collect()
    }

    /// Has a controller look at a key although nothing is known to have changed. `false` if there is no such controller.
    pub fn poke(&self, controller: &str, key: ObjectKey) -> bool {
        let view = self.state().controllers.get(controller).map(|running| running.view.clone());
        view.inspect(|view| view.poke(key)).is_some()
    }

    /// Stops all controllers and waits until what is in flight has come to its end.
    pub async fn stop(&self) {
        let ends: Vec<CancellationToken> = {
            let mut state = self.state();
            state.stopped = true;
            state.tasks.token().cancel();
            state.controllers.values().map(|running| running.ended.clone()).collect()
        };
        for ended in ends {
            ended.cancelled().await;
        }
    }

    /// Ends everything where it is: for a process whose time to drain is over, or that no longer leads.
    pub fn abort(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.tasks = TaskGroup::new(CancellationToken::new());
    }

    /// What is in flight, as `controller key`: what holds up a drain.
    #[must_use]
    pub fn busy(&self) -> Vec<String> {
        let busy = |ControllerState { name, in_flight, .. }: ControllerState| {
            in_flight.into_iter().map(move |(key, _)| format!("{name} {key}")).collect::<Vec<_>>()
        };
        self.list().into_iter().flat_map(busy).collect()
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.state().controllers.keys()).finish()
    }
}
