//! A controller: what it listens to, and what it does about it.

mod builder;
mod keys;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use concert_api::ObjectKey;
use concert_queue::{Backoff, Desk, Intake, RateLimiter, Settings, priority};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use builder::Builder;
pub use keys::QueuedKey;

use crate::cache::{CacheState, Informers};
use crate::engine::{Election, KeyFilter, Term};
use crate::floors::Freshness;
use crate::metrics::{ControllerMetrics, Metrics, Snapshot};
use crate::rbac::{Rules, Writes};
use crate::reconciler::{AnyReconciler, Key};
use crate::resource::Resource;
use crate::scope::Scope;
use crate::source::{Backlog, Ground, Sink, Sources, Watching};
use crate::trigger::{Listening, Trigger};
use crate::worker::{Failing, Workers};

/// controller-runtime's: what an event did not tell is noticed within a day.
const RESYNC: Duration = Duration::from_secs(10 * 3600);

/// What is wrong with a controller's description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// `for_` was called twice.
    #[error("cannot build controller \"{0}\": for_ was called twice; use watches for further kinds")]
    TwoKinds(String),
    /// `owns` needs to know the owner.
    #[error("cannot build controller \"{0}\": owns was called before for_")]
    OwnsWithoutFor(String),
    /// Nothing would ever start a reconcile.
    #[error("cannot build controller \"{0}\": it listens to nothing; call for_, watches or on")]
    NoSource(String),
    /// `when` and its like qualify a source.
    #[error("cannot build controller \"{0}\": when (or another word about a source) was called before any source")]
    WhenWithoutSource(String),
    /// What is asked for makes no sense.
    #[error("cannot build controller \"{controller}\": {scope}: {why}")]
    Scope {
        /// Its name.
        controller: String,
        /// What it was to listen to.
        scope: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// `any_owner` qualifies `owns`.
    #[error("cannot build controller \"{0}\": any_owner was called without owns before it")]
    AnyOwnerWithoutOwns(String),
}

/// Why a controller ended by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// A source that it cannot do without is not there.
    #[error("controller \"{controller}\" cannot listen to {source_name}: {why}")]
    Source {
        /// Its name.
        controller: String,
        /// The kind, or the name of the source.
        source_name: String,
        /// The cause.
        why: String,
    },
    /// A reconcile panicked, and that was to end it.
    #[error("controller \"{controller}\" panicked at {key}: {why}")]
    Panicked {
        /// Its name.
        controller: String,
        /// The key it was at.
        key: String,
        /// What the panic said.
        why: String,
    },
}

/// What a panic of a reconcile ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Panics {
    /// The turn: it counts as a failure.
    #[default]
    Fence,
    /// The controller, with [`ControllerError::Panicked`].
    Fail,
}

/// What controllers do where their own description says nothing.
#[derive(Clone, Debug)]
pub struct ControllerDefaults {
    /// How many keys are reconciled at a time.
    pub workers: usize,
    /// The same by kind (`Kind.group`, or `Kind` in the core group) of what a controller is `for_`.
    pub workers_by_kind: BTreeMap<String, usize>,
    /// How long failing keys wait.
    pub backoff: Backoff,
    /// How many failures in a row make it give a key up until something changes; without limit if `None`.
    pub max_tries: Option<u32>,
    /// How often the key that has been ready longest is passed over at most, less one; see
    /// [`Settings`].
    pub ageing: u32,
    /// How long one reconcile may take; without limit if `None`.
    pub timeout: Option<Duration>,
    /// When a reconcile that is still running is reported for the first time.
    pub slow_after: Duration,
    /// What a panic of a reconcile ends.
    pub panics: Panics,
    /// How long sources may take to be complete before that is an error: one that is told, and, for sources that
    /// [must be there](crate::WhenMissing::Fail), one that ends the controller.
    pub sync_timeout: Duration,
    /// How often every object is looked at again although nothing changed; never if `None`.
    pub resync: Option<Duration>,
}

impl Default for ControllerDefaults {
    /// controller-runtime's, where it has such: one worker, 5 ms to 1000 s, 2 minutes to be complete, everything looked
    /// at again every 10 hours.
    fn default() -> Self {
        Self {
            workers: 1,
            workers_by_kind: BTreeMap::new(),
            backoff: Backoff::default(),
            max_tries: None,
            ageing: Settings::default().ageing,
            timeout: None,
            slow_after: Duration::from_secs(60),
            panics: Panics::Fence,
            sync_timeout: Duration::from_secs(120),
            resync: Some(RESYNC),
        }
    }
}

/// A controller, ready to be run by an [`Engine`](crate::Engine).
pub struct Controller<K: Key = ObjectKey> {
    name: Arc<str>,
    description: Description<K>,
    reconciler: Arc<dyn AnyReconciler<K>>,
}

/// What was said about a controller; where nothing was, the defaults hold.
struct Description<K: Key> {
    own: Option<Resource>,
    /// What it says that it writes.
    writes: Vec<Writes>,
    election: Election,
    triggers: Vec<Trigger<K>>,
    limiter: Option<Box<dyn RateLimiter<K>>>,
    workers: Option<usize>,
    max_tries: Option<u32>,
    ageing: Option<u32>,
    timeout: Option<Duration>,
    slow_after: Option<Duration>,
    panics: Option<Panics>,
    sync_timeout: Option<Duration>,
}

impl Controller {
    /// Begins to describe a controller of objects. Its name labels metrics and logs.
    pub fn builder(name: impl Into<String>) -> Builder {
        Self::of_keys(name)
    }
}

impl<K: Key> Controller<K> {
    /// Begins to describe a controller of keys of another sort: `Controller::<MyKey>::of_keys("name")`.
    pub fn of_keys(name: impl Into<String>) -> Builder<K> {
        let description = Description {
            own: None,
            writes: Vec::new(),
            election: Election::default(),
            triggers: Vec::new(),
            limiter: None,
            workers: None,
            max_tries: None,
            ageing: None,
            timeout: None,
            slow_after: None,
            panics: None,
            sync_timeout: None,
        };
        Builder { name: name.into(), description, everywhere: Vec::new(), fault: None }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it has to be allowed in the process's own cluster.
    pub(crate) fn rules(&self, informers: &Informers) -> Rules {
        let scope = |trigger: &Trigger<K>| match &trigger.origin {
            Listening::Kind(scope) if trigger.informers.is_none() => Some(informers.filled(scope.clone())),
            Listening::Kind(_) | Listening::Channel(_) | Listening::Custom(..) => None,
        };
        let listens: Vec<Option<Scope>> = self.description.triggers.iter().map(scope).collect();
        let mut rules = Rules::default();
        listens.iter().flatten().for_each(|scope| rules.reads(scope));
        rules.acts(&self.description.writes, &listens);
        rules
    }

    pub(crate) fn election(&self) -> Election {
        self.description.election
    }

    /// Opens its caches and connects triggers to a queue. From here on the queue fills.
    pub(crate) fn warm(
        self,
        informers: &Informers,
        metrics: &Metrics,
        defaults: &ControllerDefaults,
        ours: Option<KeyFilter>,
        tracker: TaskTracker,
    ) -> Warm<K> {
        let Self { name, description, reconciler } = self;
        let counted = metrics.controller(&name);
        let workers = description.worker_count(defaults);
        let settings = Settings { ageing: description.ageing.unwrap_or(defaults.ageing), ..Settings::default() };
        let limiter = description.limiter.unwrap_or_else(|| Box::new(defaults.backoff));
        let desk = Desk::new(settings, limiter, description.max_tries.or(defaults.max_tries));
        let started = Instant::now();
        let intake = Arc::new(Intake::new(desk, workers, move || started.elapsed()));
        let freshness = Arc::new(Freshness::new(informers.client().clone()));
        let (failing, sink) = (Failing::default(), Sink::new(Arc::clone(&intake), priority::EVENT, counted.clone()));
        let sources = Sources::new(Ground {
            controller: Arc::clone(&name),
            informers: informers.clone(),
            sink: sink.clone(),
            freshness: Arc::clone(&freshness),
            failing: failing.clone(),
            resync: defaults.resync,
        });
        for trigger in description.triggers {
            sources.add(trigger);
        }
        let observed = (Arc::clone(&intake), Arc::clone(&sources), counted.clone());
        metrics.observe(&format!("controller {name}"), move |_| {
            let (intake, sources, counted) = &observed;
            counted.observe(&snapshot(intake, sources));
        });
        let (count, metrics) = (watch::Sender::new(workers), counted.clone());
        let live = Arc::new(Live { intake: Arc::clone(&intake), sources, sink, count, metrics });
        let workers = Workers {
            name,
            timeout: description.timeout.or(defaults.timeout),
            slow_after: description.slow_after.unwrap_or(defaults.slow_after).max(Duration::from_millis(1)),
            panics: description.panics.unwrap_or(defaults.panics),
            intake,
            started,
            freshness,
            reconciler,
            metrics: counted,
            world: informers.client().world().clone(),
            failing,
            ours,
            tracker,
        };
        Warm { workers, live, sync_timeout: description.sync_timeout.unwrap_or(defaults.sync_timeout) }
    }
}

impl<K: Key> Description<K> {
    fn worker_count(&self, defaults: &ControllerDefaults) -> usize {
        let kind = self.own.as_ref().map(|own| match own.gvk.group.as_str() {
            "" => own.gvk.kind.clone(),
            group => format!("{}.{group}", own.gvk.kind),
        });
        let by_kind = kind.and_then(|kind| defaults.workers_by_kind.get(&kind));
        self.workers.or(by_kind.copied()).unwrap_or(defaults.workers).max(1)
    }
}

fn snapshot<K: Key>(intake: &Intake<K>, sources: &Sources<K>) -> Snapshot {
    let (waiting_sources, backlogs, handlers) = (sources.awaited().len(), sources.backlogs(), sources.handlers());
    intake.look(|desk, now| Snapshot {
        depths: desk.queue().depths().collect(),
        flights: desk.flights(now).map(|(_, took)| took).collect(),
        oldest: desk.queue().oldest(now),
        added: desk.queue().added(),
        waiting_sources,
        backlogs,
        handlers,
    })
}

impl<K: Key> std::fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Controller({})", self.name)
    }
}

/// A controller whose queue fills but whose workers have not begun.
pub(crate) struct Warm<K: Key> {
    workers: Workers<K>,
    live: Arc<Live<K>>,
    sync_timeout: Duration,
}

/// What can be reached of a running controller.
pub(crate) struct Live<K: Key> {
    intake: Arc<Intake<K>>,
    sources: Arc<Sources<K>>,
    sink: Sink<K>,
    count: watch::Sender<usize>,
    metrics: ControllerMetrics,
}

/// [`Live`] whatever its keys are.
pub(crate) trait AnyLive: Any + Send + Sync {
    fn sources(&self) -> Vec<(Scope, CacheState)>;
    /// All sources, kinds or not.
    fn source_names(&self) -> Vec<String>;
    /// What its workers wait for before they begin.
    fn awaited(&self) -> Vec<String>;
    fn workers(&self) -> usize;
    /// The keys being reconciled, and for how long.
    fn in_flight(&self) -> Vec<(String, Duration)>;
    /// How many keys are ready, and how many wait.
    fn depth(&self) -> (usize, usize);
    fn oldest(&self) -> Option<Duration>;
    /// The first keys that it works on, or will.
    fn keys(&self, limit: usize) -> Vec<QueuedKey>;
    /// What the mappings that may take their time have not done yet.
    fn backlogs(&self) -> Vec<(String, Backlog)>;
    /// Has all that is known start turns of these keys.
    fn replay(&self, keys: &KeyFilter);
    /// Shows it in no gauge any more.
    fn forget(&self);
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: Key> AnyLive for Live<K> {
    fn sources(&self) -> Vec<(Scope, CacheState)> {
        self.sources.states()
    }

    fn source_names(&self) -> Vec<String> {
        self.sources.names()
    }

    fn awaited(&self) -> Vec<String> {
        self.sources.awaited()
    }

    fn workers(&self) -> usize {
        *self.count.borrow()
    }

    fn in_flight(&self) -> Vec<(String, Duration)> {
        self.intake.look(|desk, now| desk.flights(now).map(|(key, took)| (key.to_string(), took)).collect())
    }

    fn depth(&self) -> (usize, usize) {
        self.intake.look(|desk, _| (desk.queue().len(), desk.queue().waiting()))
    }

    fn oldest(&self) -> Option<Duration> {
        self.intake.look(|desk, now| desk.queue().oldest(now))
    }

    fn keys(&self, limit: usize) -> Vec<QueuedKey> {
        keys::keys(&self.intake, limit)
    }

    fn backlogs(&self) -> Vec<(String, Backlog)> {
        self.sources.backlogs()
    }

    fn replay(&self, keys: &KeyFilter) {
        self.sources.replay(keys);
    }

    fn forget(&self) {
        // Counters stay, and have to be complete.
        self.metrics.observe(&snapshot(&self.intake, &self.sources));
        self.metrics.forget();
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// A running controller, to be asked for more. Cheap to clone; it keeps nothing running.
pub struct Handle<K: Key = ObjectKey>(Arc<Live<K>>);

impl<K: Key> Clone for Handle<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Key> Handle<K> {
    pub(crate) fn new(live: Arc<Live<K>>) -> Self {
        Self(live)
    }

    /// Has a key reconciled although nothing is known to have changed.
    pub fn poke(&self, key: K) {
        self.0.sink.add(key, "asked for");
    }

    /// Adds a source while it runs; dropping what it gives ends the source. Workers do not wait for it. Must be called
    /// within a tokio runtime.
    pub fn watch(&self, trigger: Trigger<K>) -> Watching<K> {
        Watching::new(&self.0.sources, self.0.sources.add_later(trigger))
    }

    /// Changes how many keys are reconciled at a time. With fewer, turns that have begun come to their end; with none,
    /// it rests until there are some again.
    pub fn set_workers(&self, workers: usize) {
        self.0.count.send_replace(workers);
    }
}

impl<K: Key> std::fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handle").field(&self.0.sources.names()).finish()
    }
}

impl<K: Key> Live<K> {
    /// Ends the sources of a controller that will not run.
    pub(crate) fn end(&self) {
        self.sources.end();
    }
}

/// Ends the sources of a controller when it ends, however that comes about. Whoever looks at it still holds it; its watches
/// need not go on for that.
struct EndsSources<K: Key>(Arc<Live<K>>);

impl<K: Key> Drop for EndsSources<K> {
    fn drop(&mut self) {
        self.0.sources.end();
    }
}

impl<K: Key> Warm<K> {
    pub(crate) fn live(&self) -> Arc<Live<K>> {
        Arc::clone(&self.live)
    }

    /// What will be known if it cannot go on.
    pub(crate) fn failing(&self) -> Failing {
        self.workers.failing.clone()
    }

    /// Waits for every source, then for a term in which it may work, then works until `cancel` or until it
    /// [fails](Self::failing), then drains. At the end of the term, turns that have begun are ended where they are.
    pub(crate) async fn run(self, mut term: watch::Receiver<Term>, cancel: CancellationToken) {
        let Self { workers, live, sync_timeout } = self;
        let (failing, workers) = (workers.failing.clone(), Arc::new(workers));
        let _ends_whatever_happens = EndsSources(Arc::clone(&live));
        loop {
            let ready = async {
                match live.sources.synced(sync_timeout).await {
                    Ok(()) => begins(&mut term).await,
                    Err(error) => {
                        failing.fail(error);
                        0
                    }
                }
            };
            let number = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = failing.failed() => return,
                number = ready => number,
            };
            if failing.why().is_some() || !work(&workers, &live, (&term, number), &cancel).await {
                return;
            }
        }
    }
}

/// Works until told to stop, and drains; `true` if it was halted instead, to begin again when it may.
async fn work<K: Key>(
    workers: &Arc<Workers<K>>,
    live: &Live<K>,
    (term, number): (&watch::Receiver<Term>, u64),
    cancel: &CancellationToken,
) -> bool {
    tracing::info!(controller = %workers.name, workers = *live.count.borrow(), "controller started");
    let over = cancel.child_token();
    let working = Arc::clone(workers).run(live.count.subscribe(), over.clone(), (term.clone(), number));
    // Nothing new comes in once it is told to stop, while what is in flight still reads the caches.
    let silence = async {
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            () = workers.failing.failed() => over.cancel(),
        }
        live.sources.silence();
        std::future::pending().await
    };
    let halted = tokio::select! {
        biased;
        () = silence => false,
        halted = working => halted,
    };
    tracing::info!(controller = %workers.name, "controller stopped");
    halted
}

/// Resolves when there is a term in which one may work, with its number; never if whoever says it is gone.
async fn begins(term: &mut watch::Receiver<Term>) -> u64 {
    let begun = term.wait_for(|term| term.go).await.ok().map(|term| term.number);
    match begun {
        Some(number) => number,
        None => std::future::pending().await,
    }
}
