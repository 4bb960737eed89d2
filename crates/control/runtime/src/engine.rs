//! Starts and stops controllers while the process runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cache::{CacheState, Informers};
use crate::controller::{AnyLive, Controller, ControllerDefaults, ControllerError, Handle, Live, QueuedKey, Warm};
use crate::metrics::Metrics;
use crate::rbac::Rules;
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
    election: Election,
    rules: Rules,
    stop: CancellationToken,
    ended: CancellationToken,
    failure: Option<ControllerError>,
}

struct State {
    controllers: BTreeMap<String, Running>,
    /// Names of controllers that are being added.
    reserved: BTreeSet<String>,
    /// Failures that nobody has asked for yet.
    failures: VecDeque<ControllerError>,
    defaults: ControllerDefaults,
    tasks: TaskGroup,
    ours: Option<KeyFilter>,
    stopped: bool,
}

/// From one [`Engine::stand_by`] to the next. What began in one term never goes on in another, however quickly they
/// follow each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Term {
    pub(crate) number: u64,
    /// Whether workers may work.
    pub(crate) go: bool,
}

/// Whether a controller works only while the process leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Election {
    #[default]
    Needed,
    /// It works in every replica, on all keys.
    Unneeded,
}

/// Those who work under the same conditions.
#[derive(Clone)]
struct Lane {
    term: watch::Sender<Term>,
    /// All workers of all terms, until they are gone.
    workers: TaskTracker,
}

impl Lane {
    fn new() -> Self {
        let workers = TaskTracker::new();
        // It is waited for when there are none, not when there will be none.
        workers.close();
        Self { term: watch::Sender::new(Term::default()), workers }
    }

    fn go(&self) {
        self.term.send_modify(|term| term.go = true);
    }

    fn end_term(&self) {
        self.term.send_modify(|term| *term = Term { number: term.number + 1, go: false });
    }
}

/// Which keys are meant, by their text.
pub(crate) type KeyFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The controllers of a process. Cheap to clone. Adding warms a controller up: its caches and queue fill at once,
/// its workers begin with [`Engine::go`] (when the process leads).
#[derive(Clone)]
pub struct Engine {
    informers: Informers,
    metrics: Metrics,
    elected: Lane,
    unelected: Lane,
    state: Arc<Mutex<State>>,
    failed: Arc<Notify>,
}

impl Engine {
    /// No controllers yet; none of their workers runs before [`Engine::go`].
    #[must_use]
    pub fn new(informers: Informers, metrics: Metrics) -> Self {
        let tasks = TaskGroup::new(CancellationToken::new());
        let (controllers, failures, defaults) = (BTreeMap::new(), VecDeque::new(), ControllerDefaults::default());
        let reserved = BTreeSet::new();
        let state = State { controllers, reserved, failures, defaults, tasks, ours: None, stopped: false };
        let (elected, unelected, state) = (Lane::new(), Lane::new(), Arc::new(Mutex::new(state)));
        Self { informers, metrics, elected, unelected, state, failed: Arc::default() }
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
        self.go_unelected();
        self.elected.go();
    }

    /// Lets workers begin of controllers that work [without election](crate::controller::Builder::without_election).
    pub fn go_unelected(&self) {
        self.unelected.go();
    }

    fn lane(&self, election: Election) -> &Lane {
        match election {
            Election::Needed => &self.elected,
            Election::Unneeded => &self.unelected,
        }
    }

    /// Ends every reconcile where it is. Controllers then wait, warm, for the next [`Engine::go`]: for a process that was
    /// deposed and may lead again. Caches and queues go on; keys that were being worked on are queued again, and so is all
    /// that is known: others have acted meanwhile. When the last reconcile has ended, [`Engine::at_rest`] tells. Controllers
    /// that need no election go on.
    pub fn stand_by(&self) {
        self.elected.end_term();
        self.replay(|_| true);
    }

    /// Resolves when no reconcile of those that only a leader may do runs any more, after [`Engine::stand_by`] or [`Engine::abort`]. One
    /// that is in a stretch of code that does not wait cannot be ended there; until it comes to its next wait, it may
    /// still act. What a reconcile started elsewhere (`spawn`, `spawn_blocking`) is not known.
    pub async fn at_rest(&self) {
        self.elected.workers.wait().await;
    }

    /// Has controllers that are added from now on work only on some keys, by their text. What a filter turns away is not
    /// kept: when it lets more through, [`Engine::replay`] tells.
    pub fn only(&self, keys: impl Fn(&str) -> bool + Send + Sync + 'static) {
        self.state().ours = Some(Arc::new(keys));
    }

    /// Has every controller that needs election look at all of these keys that follow from the objects it knows.
    pub fn replay(&self, keys: impl Fn(&str) -> bool + Send + Sync + 'static) {
        let keys: KeyFilter = Arc::new(keys);
        self.elected().iter().for_each(|live| live.replay(&keys));
    }

    /// Whether a key of these is being reconciled by a controller that needs to be elected.
    pub fn works_on(&self, keys: impl Fn(&str) -> bool) -> bool {
        self.elected().iter().any(|live| live.in_flight().iter().any(|(key, _)| keys(key)))
    }

    fn elected(&self) -> Vec<Arc<dyn AnyLive>> {
        let state = self.state();
        let elected = state.controllers.values().filter(|running| running.election == Election::Needed);
        elected.map(|running| Arc::clone(&running.live)).collect()
    }

    /// Adds a controller. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The name is in use, or the engine was stopped.
    pub fn add<K: Key>(&self, controller: Controller<K>) -> Result<(), EngineError> {
        let (name, election, rules) =
            (controller.name().to_owned(), controller.election(), controller.rules(self.informers()));
        let (reserved, defaults, ours) = self.reserve(&name)?;
        let ours = ours.filter(|_| election == Election::Needed);
        // Without the lock: what is known already is mapped here, by code that may ask the engine something.
        let tracker = self.lane(election).workers.clone();
        let warm = controller.warm(&self.informers, &self.metrics, &defaults, ours, tracker);
        let started = self.start(name, election, rules, warm);
        drop(reserved);
        started
    }

    /// Keeps a name for a controller that is about to be added.
    fn reserve(&self, name: &str) -> Result<(Reserved, ControllerDefaults, Option<KeyFilter>), EngineError> {
        let mut state = self.state();
        if state.stopped {
            return Err(EngineError::Stopped(name.to_owned()));
        }
        if state.controllers.contains_key(name) || !state.reserved.insert(name.to_owned()) {
            return Err(EngineError::NameInUse(name.to_owned()));
        }
        let reserved = Reserved { state: Arc::clone(&self.state), name: name.to_owned() };
        Ok((reserved, state.defaults.clone(), state.ours.clone()))
    }

    fn start<K: Key>(&self, name: String, election: Election, rules: Rules, warm: Warm<K>) -> Result<(), EngineError> {
        let mut state = self.state();
        if state.stopped {
            drop(state);
            warm.live().end();
            self.metrics.forget(&format!("controller {name}"));
            warm.live().forget();
            return Err(EngineError::Stopped(name));
        }
        let (stop, ended) = (state.tasks.token().child_token(), CancellationToken::new());
        let (live, guard) = (warm.live(), ended.clone().drop_guard());
        let failures = (Arc::downgrade(&self.state), Arc::clone(&self.failed));
        let term = self.lane(election).term.subscribe();
        let running = watch_over(name.clone(), warm, term, stop.clone(), failures);
        state.tasks.reap();
        state.tasks.spawn(format!("controller {name}"), async move {
            let _ends_whatever_happens = guard;
            running.await;
        });
        state.controllers.insert(name, Running { live, election, rules, stop, ended, failure: None });
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
            self.metrics.handlers(name, &[]);
            if let Some(running) = state.controllers.remove(name) {
                running.live.forget();
            }
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

    /// The first keys that a controller works on, or will: those in flight, then those that are ready in the order in which
    /// workers take them, then those that wait. `None` if there is no such controller.
    #[must_use]
    pub fn keys(&self, controller: &str, limit: usize) -> Option<Vec<QueuedKey>> {
        let live = self.state().controllers.get(controller).map(|running| Arc::clone(&running.live));
        live.map(|live| live.keys(limit))
    }

    /// What its controllers have to be allowed.
    pub(crate) fn rules(&self) -> Rules {
        let mut all = Rules::default();
        self.state().controllers.values().for_each(|running| all.extend(running.rules.clone()));
        all
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

    /// Ends everything where it is: for a process whose time to drain is over, or that no longer leads. When the last
    /// reconcile has ended, [`Engine::at_rest`] tells.
    pub fn abort(&self) {
        self.elected.end_term();
        self.unelected.end_term();
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

/// A name that is kept.
struct Reserved {
    state: Arc<Mutex<State>>,
    name: String,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).reserved.remove(&self.name);
    }
}

/// Where failures are told.
type Failures = (Weak<Mutex<State>>, Arc<Notify>);

/// Runs a controller to its end, and tells if that came by itself.
async fn watch_over<K: Key>(
    name: String,
    warm: Warm<K>,
    term: watch::Receiver<Term>,
    cancel: CancellationToken,
    failures: Failures,
) {
    let (failing, fell) = (warm.failing(), warm.failing());
    let mut run = std::pin::pin!(AssertUnwindSafe(warm.run(term, cancel)).catch_unwind().map(|ended| {
        // A fault of ours, which must not look like health.
        if let Err(panic) = ended {
            let why = format!("it panicked: {}", panic_text(&*panic));
            fell.fail(ControllerError::Source { controller: name.clone(), source_name: "itself".into(), why });
        }
    }));
    let ended = tokio::select! {
        biased;
        () = &mut run => true,
        () = failing.failed() => false,
    };
    // Told before it has drained: a turn that never ends must not hold that up.
    if let Some(error) = failing.why() {
        tracing::error!(controller = name, error = %error, "controller failed");
        note(&failures, &name, error);
    }
    if !ended {
        run.await;
    }
}

/// Writes down that a controller failed, and wakes whoever waits for that.
fn note((state, failed): &Failures, controller: &str, error: ControllerError) {
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
