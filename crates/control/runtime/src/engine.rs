//! Starts and stops controllers while the process runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use concert_api::ObjectKey;
use tokio_util::sync::CancellationToken;

use crate::cache::{CacheState, Informers};
use crate::controller::{Controller, View};
use crate::metrics::Metrics;
use crate::scope::Scope;
use crate::tasks::TaskGroup;

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
    /// The keys being reconciled.
    pub in_flight: Vec<ObjectKey>,
}

impl ControllerState {
    /// Whether every source has been complete once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.sources.iter().all(|(_, state)| state.synced)
    }
}

struct Running {
    view: View,
    stop: CancellationToken,
    ended: CancellationToken,
}

struct State {
    controllers: BTreeMap<String, Running>,
    tasks: TaskGroup,
    stopped: bool,
}

/// The controllers of a process. Cheap to clone. Adding warms a controller up: its caches and queue fill at once,
/// its workers begin with [`Engine::go`] (when the process leads).
#[derive(Clone)]
pub struct Engine {
    informers: Informers,
    metrics: Metrics,
    go: CancellationToken,
    state: Arc<Mutex<State>>,
}

impl Engine {
    /// No controllers yet; none of their workers runs before [`Engine::go`].
    #[must_use]
    pub fn new(informers: Informers, metrics: Metrics) -> Self {
        let tasks = TaskGroup::new(CancellationToken::new());
        let state = State { controllers: BTreeMap::new(), tasks, stopped: false };
        Self { informers, metrics, go: CancellationToken::new(), state: Arc::new(Mutex::new(state)) }
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
        self.go.cancel();
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
        let (stop, ended) = (state.tasks.token().child_token(), CancellationToken::new());
        let warm = controller.warm(&self.informers, &self.metrics);
        let view = warm.view();
        let guard = ended.clone().drop_guard();
        let (go, cancel) = (self.go.clone(), stop.clone());
        state.tasks.spawn(format!("controller {name}"), async move {
            let _ends_whatever_happens = guard;
            warm.run(go, cancel).await;
        });
        state.controllers.insert(name, Running { view, stop, ended });
        Ok(())
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

    /// How every controller is doing, in the order of their names.
    #[must_use]
    pub fn list(&self) -> Vec<ControllerState> {
        let views: Vec<(String, View)> =
            self.state().controllers.iter().map(|(name, running)| (name.clone(), running.view.clone())).collect();
        let look = |(name, view): (String, View)| {
            let (ready, waiting) = view.depth();
            ControllerState { name, sources: view.sources(), ready, waiting, in_flight: view.in_flight() }
        };
        views.into_iter().map(look).collect()
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
        let busy = |state: ControllerState| {
            let ControllerState { name, in_flight, .. } = state;
            in_flight.into_iter().map(move |key| format!("{name} {key}")).collect::<Vec<_>>()
        };
        self.list().into_iter().flat_map(busy).collect()
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.state().controllers.keys()).finish()
    }
}
