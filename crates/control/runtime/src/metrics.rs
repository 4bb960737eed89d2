//! Counters and gauges under controller-runtime's names, so that dashboards carry over.
//!
//! There is no global: a [`Metrics`] is made by whoever starts the process and given to what counts. Every label
//! value that can be foreseen begins at zero.

pub(crate) mod exposition;
mod handlers;
mod house;
mod mailboxes;
mod process;
mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use handlers::HandlerFamilies;
pub(crate) use house::ClusterMetrics;
use house::HouseFamilies;
use mailboxes::MailboxFamilies;
use process::Process;
pub(crate) use requests::RequestDetails;

use crate::source::Backlog;

/// controller-runtime's buckets of reconcile times, in seconds.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
/// The workqueue's buckets: 10 ns, each ten times the one before.
const QUEUE_BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// So many priorities of a queue have a gauge.
const SHOWN_PRIORITIES: usize = 25;

/// How a reconcile ended, as the `result` label says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Result {
    Success,
    Error,
    Requeue,
    RequeueAfter,
}

impl Result {
    const ALL: [Self; 4] = [Self::Success, Self::Error, Self::Requeue, Self::RequeueAfter];

    fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconciled {
    controller: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfController {
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQueue {
    name: String,
    controller: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Depth {
    name: String,
    controller: String,
    priority: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Requested {
    code: String,
    method: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Named {
    name: String,
}

type Seconds = Gauge<f64, AtomicU64>;
type Observer = Arc<dyn Fn(&Metrics) + Send + Sync>;

#[derive(Debug)]
struct Families {
    reconciles: Family<Reconciled, Counter>,
    errors: Family<OfController, Counter>,
    terminal_errors: Family<OfController, Counter>,
    panics: Family<OfController, Counter>,
    timeouts: Family<OfController, Counter>,
    times: Family<OfController, Histogram, fn() -> Histogram>,
    max_concurrent: Family<OfController, Gauge>,
    active: Family<OfController, Gauge>,
    depth: Family<Depth, Gauge>,
    adds: Family<OfQueue, Counter>,
    queue_seconds: Family<OfQueue, Histogram, fn() -> Histogram>,
    work_seconds: Family<OfQueue, Histogram, fn() -> Histogram>,
    unfinished: Family<OfQueue, Seconds>,
    longest: Family<OfQueue, Seconds>,
    retries: Family<OfQueue, Counter>,
    backoffs: Family<OfQueue, Counter>,
    conflicts: Family<OfController, Counter>,
    oldest: Family<OfQueue, Seconds>,
    waiting_sources: Family<OfController, Gauge>,
    requests: Family<Requested, Counter>,
    leader: Family<Named, Gauge>,
}

struct Inner {
    registry: Mutex<Registry>,
    observers: Mutex<BTreeMap<String, Observer>>,
    /// Held from when observers look until all is told: two who scrape at once do not take gauges from each other.
    scrape: Mutex<()>,
    families: Families,
    house: HouseFamilies,
    mailboxes: MailboxFamilies,
    handlers: HandlerFamilies,
    /// Only if they were asked for.
    details: OnceLock<Arc<RequestDetails>>,
}

/// The metrics of a process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

fn reconcile_histogram() -> Histogram {
    histogram(RECONCILE_BUCKETS)
}

fn queue_histogram() -> Histogram {
    histogram(QUEUE_BUCKETS)
}

/// With buckets of its own choice besides these: controller-runtime's settings.
#[cfg(feature = "native-histograms")]
fn histogram(buckets: impl IntoIterator<Item = f64>) -> Histogram {
    use prometheus_client::metrics::histogram::NativeHistogramConfig;
    let native = NativeHistogramConfig::new(1.1).max_buckets(100).min_reset_duration(Duration::from_secs(3600));
    Histogram::new_classic_and_native(buckets, native)
}

#[cfg(not(feature = "native-histograms"))]
fn histogram(buckets: impl IntoIterator<Item = f64>) -> Histogram {
    Histogram::new(buckets)
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    #[must_use]
    pub fn new() -> Self {
        let families = Families {
            reconciles: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            times: Family::new_with_constructor(reconcile_histogram),
            max_concurrent: Family::default(),
            active: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            queue_seconds: Family::new_with_constructor(queue_histogram),
            work_seconds: Family::new_with_constructor(queue_histogram),
            unfinished: Family::default(),
            longest: Family::default(),
            retries: Family::default(),
            backoffs: Family::default(),
            conflicts: Family::default(),
            oldest: Family::default(),
            waiting_sources: Family::default(),
            requests: Family::default(),
            leader: Family::default(),
        };
        let (mut registry, house) = (registered(&families), HouseFamilies::default());
        house.register(&mut registry);
        let (mailboxes, handlers) = (MailboxFamilies::default(), HandlerFamilies::default());
        mailboxes.register(&mut registry);
        handlers.register(&mut registry);
        registry.register_collector(Box::new(Process));
        let (registry, observers, scrape) = (Mutex::new(registry), Mutex::default(), Mutex::default());
        let details = OnceLock::new();
        Self(Arc::new(Inner { registry, observers, scrape, families, house, mailboxes, handlers, details }))
    }

    /// Adds a metric of one's own. Counters get `_total` appended to their names.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.0.registry.lock().unwrap_or_else(PoisonError::into_inner).register(name, help, metric);
    }

    /// Calls `observe` before each scrape, to set gauges; replaces an observer of the same name. It must not ask for the text
    /// of these metrics itself.
    pub fn observe(&self, name: &str, observe: impl Fn(&Self) + Send + Sync + 'static) {
        let mut observers = self.0.observers.lock().unwrap_or_else(PoisonError::into_inner);
        observers.insert(name.to_owned(), Arc::new(observe));
    }

    /// Ends the calls of an observer.
    pub fn forget(&self, name: &str) {
        self.0.observers.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Lets everybody who observes something look once more; what they saw stays until the guard is dropped.
    fn look(&self) -> MutexGuard<'_, ()> {
        let scrape = self.0.scrape.lock().unwrap_or_else(PoisonError::into_inner);
        let observers: Vec<Observer> =
            self.0.observers.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for observe in observers {
            observe(self);
        }
        scrape
    }

    /// Everything, as OpenMetrics text.
    #[must_use]
    pub fn text(&self) -> String {
        let _scrape = self.look();
        let mut out = String::new();
        let registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a string does not fail.
        let _ = text::encode(&mut out, &registry);
        out
    }

    /// Everything, as Prometheus's protobuf: one delimited `MetricFamily` after the other. With native histograms, which
    /// text cannot tell.
    #[cfg(feature = "native-histograms")]
    #[must_use]
    pub fn protobuf(&self) -> Vec<u8> {
        let _scrape = self.look();
        let registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        prometheus_client::encoding::prometheus_protobuf::encode_to_vec(&registry).unwrap_or_else(|error| {
            // Only a metric of somebody else's making can do that.
            tracing::error!(error = %error, "metrics cannot be told as protobuf");
            Vec::new()
        })
    }

    /// Nobody is told so without the feature.
    #[cfg(not(feature = "native-histograms"))]
    pub(crate) fn protobuf(&self) -> Vec<u8> {
        Vec::new()
    }

    /// The metrics of one controller, begun at zero.
    pub(crate) fn controller(&self, name: &str) -> ControllerMetrics {
        let families = &self.0.families;
        let of = OfController { controller: name.to_owned() };
        let queue = OfQueue { name: name.to_owned(), controller: name.to_owned() };
        let reconciled = |result: Result| Reconciled { controller: name.to_owned(), result: result.label() };
        let own = Own {
            reconciles: Result::ALL.map(|result| families.reconciles.get_or_create_owned(&reconciled(result))),
            errors: families.errors.get_or_create_owned(&of),
            terminal_errors: families.terminal_errors.get_or_create_owned(&of),
            panics: families.panics.get_or_create_owned(&of),
            timeouts: families.timeouts.get_or_create_owned(&of),
            times: families.times.get_or_create_owned(&of),
            max_concurrent: families.max_concurrent.get_or_create_owned(&of),
            active: families.active.get_or_create_owned(&of),
            waiting_sources: families.waiting_sources.get_or_create_owned(&of),
            conflicts: families.conflicts.get_or_create_owned(&of),
            adds: families.adds.get_or_create_owned(&queue),
            retries: families.retries.get_or_create_owned(&queue),
            backoffs: families.backoffs.get_or_create_owned(&queue),
            queue_seconds: families.queue_seconds.get_or_create_owned(&queue),
            work_seconds: families.work_seconds.get_or_create_owned(&queue),
            unfinished: families.unfinished.get_or_create_owned(&queue),
            longest: families.longest.get_or_create_owned(&queue),
            oldest: families.oldest.get_or_create_owned(&queue),
        };
        own.active.set(0);
        let shown = Arc::new(Mutex::new(Some(BTreeSet::new())));
        let (name, added) = (name.to_owned(), Arc::default());
        ControllerMetrics { metrics: self.clone(), name, own: Arc::new(own), shown, added }
    }

    pub(crate) fn request(&self, code: &str, method: &str, host: &str) {
        let labels = Requested { code: code.to_owned(), method: method.to_owned(), host: host.to_owned() };
        self.0.families.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn leader(&self, name: &str, leads: bool) {
        self.0.families.leader.get_or_create(&Named { name: name.to_owned() }).set(leads.into());
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

fn registered(families: &Families) -> Registry {
    let mut registry = Registry::default();
    registry.register("controller_runtime_reconcile", "Reconciles by result", families.reconciles.clone());
    registry.register("controller_runtime_reconcile_errors", "Reconciles that failed", families.errors.clone());
    registry.register(
        "controller_runtime_terminal_reconcile_errors",
        "Failures not tried again",
        families.terminal_errors.clone(),
    );
    registry.register("controller_runtime_reconcile_panics", "Reconciles that panicked", families.panics.clone());
    registry.register(
        "controller_runtime_reconcile_timeouts",
        "Reconciles that took too long",
        families.timeouts.clone(),
    );
    registry.register("controller_runtime_reconcile_time_seconds", "Time per reconcile", families.times.clone());
    registry.register("controller_runtime_max_concurrent_reconciles", "Workers", families.max_concurrent.clone());
    registry.register("controller_runtime_active_workers", "Workers that are busy", families.active.clone());
    registry.register("workqueue_depth", "Keys that are ready", families.depth.clone());
    registry.register("workqueue_adds", "Keys that became ready", families.adds.clone());
    registry.register("workqueue_queue_duration_seconds", "Time from ready to taken", families.queue_seconds.clone());
    registry.register("workqueue_work_duration_seconds", "Time from taken to done", families.work_seconds.clone());
    registry.register(
        "workqueue_unfinished_work_seconds",
        "Time spent on what is in flight",
        families.unfinished.clone(),
    );
    registry.register("workqueue_longest_running_processor_seconds", "The longest of them", families.longest.clone());
    registry.register("workqueue_retries", "Keys added with a delay", families.retries.clone());
    registry.register("concert_workqueue_backoffs", "Turns tried again because they failed", families.backoffs.clone());
    registry.register(
        "concert_reconcile_conflicts",
        "Turns that lost against another writer and were tried again at once; counted as requeue, not as error",
        families.conflicts.clone(),
    );
    registry.register(
        "concert_workqueue_oldest_seconds",
        "Since when the oldest key is ready",
        families.oldest.clone(),
    );
    registry.register(
        "concert_controller_waiting_sources",
        "Sources that workers wait for: missing, forbidden, failing or still being listed",
        families.waiting_sources.clone(),
    );
    registry.register("rest_client_requests", "Requests to the API", families.requests.clone());
    registry.register("leader_election_master_status", "Whether this process leads", families.leader.clone());
    registry
}

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    metrics: Metrics,
    name: String,
    own: Arc<Own>,
    /// The priorities that have a gauge; `None` once the controller is gone, and has no gauges at all.
    shown: Arc<Mutex<Option<BTreeSet<i32>>>>,
    /// How many keys were added at the last look.
    added: Arc<AtomicU64>,
}

/// What a controller counts, looked up once: a turn costs no search by label.
#[derive(Debug)]
struct Own {
    reconciles: [Counter; 4],
    errors: Counter,
    terminal_errors: Counter,
    panics: Counter,
    timeouts: Counter,
    times: Histogram,
    max_concurrent: Gauge,
    active: Gauge,
    waiting_sources: Gauge,
    adds: Counter,
    retries: Counter,
    backoffs: Counter,
    conflicts: Counter,
    queue_seconds: Histogram,
    work_seconds: Histogram,
    unfinished: Seconds,
    longest: Seconds,
    oldest: Seconds,
}

/// What is known of a controller when somebody asks.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) depths: BTreeMap<i32, usize>,
    /// How long each turn in flight has taken so far.
    pub(crate) flights: Vec<Duration>,
    pub(crate) oldest: Option<Duration>,
    /// How often a key became ready since the controller began.
    pub(crate) added: u64,
    pub(crate) waiting_sources: usize,
    /// What mappings that may take their time have not done yet, by source.
    pub(crate) backlogs: Vec<(String, Backlog)>,
    /// How long predicates and mappings have taken in all, by source.
    pub(crate) handlers: Vec<(String, Duration)>,
}

impl ControllerMetrics {
    pub(crate) fn workers(&self, workers: usize) {
        self.own.max_concurrent.set(i64::try_from(workers).unwrap_or(i64::MAX));
    }

    pub(crate) fn taken(&self, waited: Duration) {
        self.own.queue_seconds.observe(waited.as_secs_f64());
        self.own.active.inc();
    }

    /// A key comes back after a delay: what controller-runtime counts as a retry.
    pub(crate) fn retried(&self) {
        self.own.retries.inc();
    }

    /// A key comes back because its turn failed.
    pub(crate) fn backed_off(&self) {
        self.own.backoffs.inc();
    }

    /// A turn lost against another writer.
    pub(crate) fn conflicted(&self) {
        self.own.conflicts.inc();
    }

    pub(crate) fn finished(&self, result: Result, took: Duration) {
        self.own.active.dec();
        self.own.reconciles[result as usize].inc();
        self.own.times.observe(took.as_secs_f64());
        self.own.work_seconds.observe(took.as_secs_f64());
        if result == Result::Error {
            self.own.errors.inc();
        }
    }

    /// A turn was ended where it was.
    pub(crate) fn interrupted(&self) {
        self.own.active.dec();
    }

    pub(crate) fn terminal(&self) {
        self.own.terminal_errors.inc();
    }

    pub(crate) fn panicked(&self) {
        self.own.panics.inc();
    }

    pub(crate) fn timed_out(&self) {
        self.own.timeouts.inc();
    }

    /// Before a scrape: how deep the queue is, and how long what is in flight has been so.
    pub(crate) fn observe(&self, snapshot: &Snapshot) {
        let Snapshot { depths, flights, oldest, added, waiting_sources, backlogs, handlers } = snapshot;
        self.own.adds.inc_by(added.saturating_sub(self.added.fetch_max(*added, Ordering::Relaxed)));
        // Held to the end: what is forgotten meanwhile must not be shown anew. Within it only families are locked.
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(shown) = &mut *shown else { return };
        // A level that is empty now must not go on showing what it had.
        let mut levels = BTreeMap::from([(concert_queue::priority::EVENT, 0)]);
        levels.extend(shown.iter().map(|priority| (*priority, 0)));
        // controller-runtime shows so many as well: priorities are for people to choose, labels are for ever.
        let room = SHOWN_PRIORITIES.saturating_sub(shown.len());
        shown.extend(depths.keys().copied().take(room));
        levels.extend(depths.iter().filter(|(priority, _)| shown.contains(priority)));
        for (priority, depth) in &levels {
            let (name, controller) = (self.name.clone(), self.name.clone());
            let labels = Depth { name, controller, priority: priority.to_string() };
            let depths = &self.metrics.0.families.depth;
            depths.get_or_create(&labels).set(i64::try_from(*depth).unwrap_or(i64::MAX));
        }
        self.own.unfinished.set(flights.iter().map(Duration::as_secs_f64).sum());
        self.own.longest.set(flights.iter().max().map_or(0.0, Duration::as_secs_f64));
        self.own.oldest.set(oldest.map_or(0.0, |oldest| oldest.as_secs_f64()));
        self.own.waiting_sources.set(i64::try_from(*waiting_sources).unwrap_or(i64::MAX));
        self.metrics.mailboxes(&self.name, backlogs);
        self.metrics.handlers(&self.name, handlers);
    }

    /// Shows no gauges any more, whoever may still observe it: what they say is no longer true. Counters stay.
    pub(crate) fn forget(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let (families, controller) = (&self.metrics.0.families, self.name.clone());
        let of = OfController { controller: controller.clone() };
        for gauges in [&families.max_concurrent, &families.active, &families.waiting_sources] {
            gauges.remove(&of);
        }
        let queue = OfQueue { name: self.name.clone(), controller: controller.clone() };
        for gauges in [&families.unfinished, &families.longest, &families.oldest] {
            gauges.remove(&queue);
        }
        for priority in shown.take().into_iter().flatten().chain([concert_queue::priority::EVENT]) {
            let (name, controller) = (self.name.clone(), controller.clone());
            families.depth.remove(&Depth { name, controller, priority: priority.to_string() });
        }
        self.metrics.mailboxes(&self.name, &[]);
        self.metrics.handlers(&self.name, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_controller_runtimes_and_begin_at_zero() {
        let metrics = Metrics::new();
        let controller = metrics.controller("files");
        controller.workers(3);
        metrics.leader("lease", false);
        let text = metrics.text();
        for line in [
            "controller_runtime_reconcile_total{controller=\"files\",result=\"requeue_after\"} 0",
            "controller_runtime_reconcile_errors_total{controller=\"files\"} 0",
            "controller_runtime_max_concurrent_reconciles{controller=\"files\"} 3",
            "workqueue_adds_total{name=\"files\",controller=\"files\"} 0",
            "leader_election_master_status{name=\"lease\"} 0",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
        controller.taken(Duration::from_millis(3));
        controller.finished(Result::Error, Duration::from_secs(1));
        let flights = vec![Duration::from_secs(2), Duration::from_secs(5)];
        let oldest = Some(Duration::from_secs(7));
        let depths = BTreeMap::from([(0, 4)]);
        let backlogs = Vec::new();
        controller.observe(&Snapshot {
            depths,
            flights,
            oldest,
            added: 9,
            waiting_sources: 1,
            backlogs,
            handlers: Vec::new(),
        });
        let text = metrics.text();
        for line in [
            "controller_runtime_reconcile_total{controller=\"files\",result=\"error\"} 1",
            "workqueue_depth{name=\"files\",controller=\"files\",priority=\"0\"} 4",
            "workqueue_longest_running_processor_seconds{name=\"files\",controller=\"files\"} 5",
            "controller_runtime_active_workers{controller=\"files\"} 0",
            "concert_workqueue_oldest_seconds{name=\"files\",controller=\"files\"} 7",
            "concert_controller_waiting_sources{controller=\"files\"} 1",
            "workqueue_adds_total{name=\"files\",controller=\"files\"} 9",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
        controller.observe(&Snapshot::default());
        assert!(metrics.text().contains("controller=\"files\",priority=\"0\"} 0"), "an empty level shows zero");
    }
}
