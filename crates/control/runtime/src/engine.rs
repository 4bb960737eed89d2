//! Starts and stops controllers while the process runs.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::cache::{CacheState, Informers};
use crate::controller::{AnyLive, Controller, ControllerDefaults, ControllerError, Handle, Live};
use crate::metrics::Metrics;
use crate::reconciler::Key;
use crate::scope::Scope;
use crate::source::Backlog;
use crate::tasks::TaskGroup;
use crate::worker::panic_text;

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
    /// The kinds it listens to, and how far each is.
    pub sources: Vec<(Scope, CacheState)>,
    /// Everything it listens to, kinds or not.
    pub source_names: Vec<String>,
    /// What its workers wait for before they begin, and why it is not there; sources that are optional are left out.
    pub waits_for: Vec<String>,
    /// How many keys it reconciles at a time.
    pub workers: usize,
    /// How many keys are ready.
    pub ready: usize,
    /// How many keys wait for their time.
    pub waiting: usize,
    /// How long the key that is ready longest has been so.
    pub oldest: Option<Duration>,
    /// The keys being reconciled, and for how long.
    pub in_flight: Vec<(String, Duration)>,
    /// What waits for mappings that may take their time, by the name of their source.
    pub backlogs: Vec<(String, Backlog)>,
    /// Why it ended by itself, if it did.
    pub failure: Option<ControllerError>,
}

impl ControllerState {
    /// Whether every source has been complete once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.failure.is_none() && self.sources.iter().all(|(_, state)| state.synced)
    }
}

struct Running {
    live: Arc<dyn AnyLive>,
    stop: CancellationToken,
    ended: CancellationToken,
    failure: Option<ControllerError>,
}

struct State {
    controllers: BTreeMap<String, Running>,
    /// Failures that nobody has asked for yet.
    failures: VecDeque<ControllerError>,
    defaults: ControllerDefaults,
    tasks: TaskGroup,
    ours: Option<KeyFilter>,
    stopped: bool,
}

/// Which keys are meant, by their text.
pub(crate) type KeyFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The controllers of a process. Cheap to clone. Adding warms a controller up: its caches and queue fill at once,
/// its workers begin with [`Engine::go`] (when the process leads).
#[derive(Clone)]
pub struct Engine {
    informers: Informers,
    metrics: Metrics,
    go: watch::Sender<bool>,
    state: Arc<Mutex<State>>,
    failed: Arc<Notify>,
}

impl Engine {
    /// No controllers yet; none of their workers runs before [`Engine::go`].
    #[must_use]
    pub fn new(informers: Informers, metrics: Metrics) -> Self {
        let tasks = TaskGroup::new(CancellationToken::new());
        let (controllers, failures, defaults) = (BTreeMap::new(), VecDeque::new(), ControllerDefaults::default());
        let state = State { controllers, failures, defaults, tasks, ours: None, stopped: false };
        let (go, failed) = (watch::Sender::new(false), Arc::default());
        Self { informers, metrics, go, state: Arc::new(Mutex::new(state)), failed }
    }

    /// What controllers that are added from now on do where they do not say otherwise.
    pub fn set_defaults(&self, defaults: ControllerDefaults) {
        self.state().defaults = defaults;
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
        self.go.send_replace(true);
    }

    /// Ends every reconcile where it is. Controllers then wait, warm, for the next [`Engine::go`]: for a process that was
    /// deposed and may lead again. Caches and queues go on; keys that were being worked on are queued again, and so is all
    /// that is known: others have acted meanwhile.
    pub fn stand_by(&self) {
        self.go.send_replace(false);
        self.replay(|_| true);
    }

    /// Has controllers that are added from now on work only on some keys, by their text. What a filter turns away is not
    /// kept: when it lets more through, [`Engine::replay`] tells.
    pub fn only(&self, keys: impl Fn(&str) -> bool + Send + Sync + 'static) {
        self.state().ours = Some(Arc::new(keys));
    }

    /// Has every controller look at all of these keys that follow from the objects it knows.
    pub fn replay(&self, keys: impl Fn(&str) -> bool + Send + Sync + 'static) {
        let keys: KeyFilter = Arc::new(keys);
        let all: Vec<Arc<dyn AnyLive>> =
            self.state().controllers.values().map(|running| Arc::clone(&running.live)).collect();
        all.iter().for_each(|live| live.replay(&keys));
    }

    /// Whether a key of these is being reconciled.
    pub fn works_on(&self, keys: impl Fn(&str) -> bool) -> bool {
        self.list().iter().any(|state| state.in_flight.iter().any(|(key, _)| keys(key)))
    }

    /// Adds a controller. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The name is in use, or the engine was stopped.
    pub fn add<K: Key>(&self, controller: Controller<K>) -> Result<(), EngineError> {
        let name = controller.name().to_owned();
        let mut state = self.state();
        if state.stopped {
            return Err(EngineError::Stopped(name));
        }
        if state.controllers.contains_key(&name) {
            return Err(EngineError::NameInUse(name));
        }
        let (stop, ended) = (state.tasks.token().child_token(), CancellationToken::new());
        let warm = controller.warm(&self.informers, &self.metrics, &state.defaults, state.ours.clone());
        let live = warm.live();
        let guard = ended.clone().drop_guard();
        let (failing, go, cancel) = (warm.failing(), self.go.subscribe(), stop.clone());
        let (fell, whose) = (warm.failing(), name.clone());
        let (of, failures) = (name.clone(), (Arc::downgrade(&self.state), Arc::clone(&self.failed)));
        state.tasks.reap();
        state.tasks.spawn(format!("controller {name}"), async move {
            let _ends_whatever_happens = guard;
            let fenced = AssertUnwindSafe(warm.run(go, cancel)).catch_unwind();
            let mut run = std::pin::pin!(fenced.map(|ended| {
                // A fault of ours, which must not look like health.
                if let Err(panic) = ended {
                    let why = format!("it panicked: {}", panic_text(&*panic));
                    fell.fail(ControllerError::Source { controller: whose.clone(), source_name: "itself".into(), why });
                }
            }));
            let ended = tokio::select! {
                biased;
                () = &mut run => true,
                () = failing.failed() => false,
            };
            // Told before it has drained: a turn that never ends must not hold that up.
            if let Some(error) = failing.why() {
                tracing::error!(controller = of, error = %error, "controller failed");
                note(&failures, &of, error);
            }
            if !ended {
                run.await;
            }
        });
        state.controllers.insert(name, Running { live, stop, ended, failure: None });
        Ok(())
    }

    /// A running controller, to add sources or keys to it. `None` if there is none of that name with such keys.
    #[must_use]
    pub fn handle<K: Key>(&self, name: &str) -> Option<Handle<K>> {
        let live = Arc::clone(&self.state().controllers.get(name)?.live);
        live.as_any().downcast::<Live<K>>().ok().map(Handle::new)
    }

    /// Waits for a controller that ends by itself, and says why. Each failure is given once; the controller stays in
    /// [`Engine::list`] until it is removed. For whoever decides what that means for the process.
    pub async fn failure(&self) -> ControllerError {
        loop {
            if let Some(error) = self.state().failures.pop_front() {
                return error;
            }
            self.failed.notified().await;
        }
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
        let mut state = self.state();
        // Another one of that name may have come while two waited for the end of this.
        if state.controllers.get(name).is_some_and(|running| running.ended.is_cancelled()) {
            self.metrics.forget(&format!("controller {name}"));
            self.metrics.mailboxes(name, &[]);
            state.controllers.remove(name);
        }
        true
    }

    /// How every controller is doing, in the order of their names.
    #[must_use]
    pub fn list(&self) -> Vec<ControllerState> {
        let running: Vec<(String, Arc<dyn AnyLive>, Option<ControllerError>)> = {
            let state = self.state();
            let all = state.controllers.iter();
            all.map(|(name, running)| (name.clone(), Arc::clone(&running.live), running.failure.clone())).collect()
        };
        let look = |(name, live, failure): (String, Arc<dyn AnyLive>, Option<ControllerError>)| {
            let ((ready, waiting), oldest) = (live.depth(), live.oldest());
            let (sources, source_names, waits_for) = (live.sources(), live.source_names(), live.awaited());
            let (workers, in_flight, backlogs) = (live.workers(), live.in_flight(), live.backlogs());
            ControllerState {
                name,
                sources,
                source_names,
                waits_for,
                workers,
                ready,
                waiting,
                oldest,
                in_flight,
                backlogs,
                failure,
            }
        };
        running.into_iter().map(look).collect()
    }

    /// Has a controller look at a key although nothing is known to have changed. `false` if there is no such controller.
    pub fn poke<K: Key>(&self, controller: &str, key: K) -> bool {
        self.handle(controller).inspect(|handle| handle.poke(key)).is_some()
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
            in_flight.into_iter().map(move |(key, _)| format!("{name} {key}")).collect::<Vec<_>>()
        };
        self.list().into_iter().flat_map(busy).collect()
    }
}

/// Writes down that a controller failed, and wakes whoever waits for that.
fn note((state, failed): &(Weak<Mutex<State>>, Arc<Notify>), controller: &str, error: ControllerError) {
    let Some(state) = state.upgrade() else { return };
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = state.controllers.get_mut(controller) {
        running.failure = Some(error.clone());
    }
    state.failures.push_back(error);
    failed.notify_one();
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.state().controllers.keys()).finish()
    }
}
