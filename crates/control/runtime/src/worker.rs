//! From a key to an outcome: takes keys from the queue, runs reconciles, gives outcomes back.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use concert_api::ObjectKey;
use concert_queue::{Backoff, Outcome, Queue, Settings, Taken};
use concert_world::World;
use futures::FutureExt;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::floors::Freshness;
use crate::metrics::{self, ControllerMetrics};
use crate::reconciler::{AnyReconciler, ReconcileError, Request};
use crate::tasks::TaskGroup;
use crate::trigger::Wanted;

/// Conflicts are tried again fast: the cache has usually caught up by then.
const CONFLICT: Backoff = Backoff { base: Duration::from_millis(5), max: Duration::from_secs(5) };

/// Where triggers put keys and workers take them from.
pub(crate) struct Intake {
    started: Instant,
    queue: Mutex<Queue<ObjectKey>>,
    /// Key → when it was taken.
    flights: Mutex<BTreeMap<ObjectKey, Instant>>,
    work: Notify,
    metrics: ControllerMetrics,
}

impl Intake {
    pub(crate) fn new(settings: Settings, metrics: ControllerMetrics) -> Self {
        let queue = Mutex::new(Queue::new(settings));
        Self { started: Instant::now(), queue, flights: Mutex::default(), work: Notify::new(), metrics }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn queue(&self) -> MutexGuard<'_, Queue<ObjectKey>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flights(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Instant>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a change asks for.
    pub(crate) fn add(&self, wanted: Wanted) {
        if wanted.keys.is_empty() {
            return;
        }
        self.metrics.added(wanted.keys.len());
        let now = self.now();
        let mut queue = self.queue();
        for key in wanted.keys {
            queue.add(key, wanted.priority, wanted.reason, now);
        }
        drop(queue);
        self.work.notify_one();
    }

    /// The keys in flight, in order.
    pub(crate) fn in_flight(&self) -> Vec<ObjectKey> {
        self.flights().keys().cloned().collect()
    }

    /// How many keys are ready, and how many wait.
    pub(crate) fn depth(&self) -> (usize, usize) {
        let queue = self.queue();
        (queue.len(), queue.waiting())
    }

    /// Sets the gauges that are only looked at when somebody asks.
    pub(crate) fn observe(&self) {
        let flights: Vec<Duration> = self.flights().values().map(Instant::elapsed).collect();
        let mut depths = BTreeMap::from([(concert_queue::priority::EVENT, 0)]);
        depths.extend(self.queue().depths());
        self.metrics.observe(&depths, &flights);
    }
}

/// The workers of one controller.
pub(crate) struct Workers {
    pub(crate) name: Arc<str>,
    pub(crate) count: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) intake: Arc<Intake>,
    pub(crate) freshness: Arc<Freshness>,
    pub(crate) reconciler: Arc<dyn AnyReconciler>,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) world: World,
}

/// How one turn ended.
struct Turn {
    key: ObjectKey,
    took: Duration,
    end: End,
}

enum End {
    Finished(Result<Outcome, ReconcileError>),
    Panicked(String),
    TimedOut(Duration),
}

impl Workers {
    /// Works until `cancel`, then lets what is in flight come to its end. Dropping the future aborts it.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        let mut turns: TaskGroup<Turn> = TaskGroup::new(cancel.clone());
        while !cancel.is_cancelled() {
            self.start_turns(&mut turns);
            let wake = self.intake.queue().next_wake().map(|at| self.intake.started + at);
            let due = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                Some(ended) = turns.join_next() => self.land(ended.result),
                () = self.intake.work.notified(), if turns.len() < self.count => {}
                () = due, if turns.len() < self.count => {}
            }
        }
        self.intake.queue().clear();
        while let Some(ended) = turns.join_next().await {
            self.land(ended.result);
        }
        self.intake.queue().clear();
    }

    fn start_turns(&self, turns: &mut TaskGroup<Turn>) {
        while turns.len() < self.count {
            let Some(taken) = self.intake.queue().pop(self.intake.now()) else { return };
            self.metrics.taken(taken.waited);
            self.intake.flights().insert(taken.key.clone(), Instant::now());
            let name = taken.key.to_string();
            turns.spawn(name, self.turn(taken, turns.token().clone()));
        }
    }

    /// One turn of one key, fenced: whatever happens inside, it comes back with an end.
    fn turn(&self, taken: Taken<ObjectKey>, stopping: CancellationToken) -> impl Future<Output = Turn> + Send + use<> {
        let id = self.world.random.uuid();
        let span = tracing::info_span!(
            "reconcile", controller = %self.name, namespace = %taken.key.namespace, name = %taken.key.name, id,
            reason = taken.reason, attempt = taken.failures,
        );
        let (freshness, reconciler) = (Arc::clone(&self.freshness), Arc::clone(&self.reconciler));
        let (timeout, started, key) = (self.timeout, Instant::now(), taken.key.clone());
        self.world
            .journal
            .record("reconcile", || format!("{} {} {} #{}", self.name, key, taken.reason, taken.failures));
        let work = async move {
            let stale = !freshness.catch_up(&taken.key).await;
            let Taken { key, priority, failures: attempt, reason, .. } = taken;
            let request = Request { key, priority, attempt, reason, id, freshness, stale, stopping };
            reconciler.reconcile_boxed(&request).await
        };
        let fenced = AssertUnwindSafe(work).catch_unwind();
        async move {
            let ended = match timeout {
                Some(limit) => tokio::time::timeout(limit, fenced).await.map_err(|_| limit),
                None => Ok(fenced.await),
            };
            let end = match ended {
                Ok(Ok(result)) => End::Finished(result),
                Ok(Err(panic)) => End::Panicked(panic_text(&*panic)),
                Err(limit) => End::TimedOut(limit),
            };
            Turn { key, took: started.elapsed(), end }
        }
        .instrument(span)
    }

    /// Gives the outcome of a turn back to the queue.
    fn land(&self, ended: Result<Turn, tokio::task::JoinError>) {
        let Ok(Turn { key, took, end }) = ended else { return };
        let span = tracing::info_span!("reconcile", controller = %self.name, key = %key);
        let _entered = span.enter();
        self.intake.flights().remove(&key);
        let now = self.intake.now();
        let (result, next) = match end {
            End::Finished(Ok(outcome)) => self.succeeded(&key, outcome, now),
            End::Finished(Err(error)) => self.failed(&key, &error, now),
            End::Panicked(why) => {
                self.metrics.panicked();
                tracing::error!(why, "reconcile panicked");
                self.retry(&key, self.backoff, Duration::ZERO, now)
            }
            End::TimedOut(limit) => {
                self.metrics.timed_out();
                tracing::error!(seconds = limit.as_secs_f64(), "reconcile took too long");
                self.retry(&key, self.backoff, Duration::ZERO, now)
            }
        };
        self.metrics.finished(result, took);
        self.world.journal.record("reconciled", || format!("{} {key} {next}", self.name));
    }

    fn succeeded(&self, key: &ObjectKey, outcome: Outcome, now: Duration) -> (metrics::Result, String) {
        let result = match outcome {
            Outcome::Done => metrics::Result::Success,
            Outcome::After(_) => metrics::Result::RequeueAfter,
            Outcome::Backoff => metrics::Result::Requeue,
        };
        if outcome != Outcome::Done {
            self.metrics.retried();
        }
        self.intake.queue().done(key, outcome, now);
        (result, format!("{outcome:?}"))
    }

    fn failed(&self, key: &ObjectKey, error: &ReconcileError, now: Duration) -> (metrics::Result, String) {
        let why = error.full();
        if error.is_terminal() {
            self.metrics.terminal();
            tracing::error!(error = why, "reconcile failed for good");
            self.intake.queue().done(key, Outcome::Done, now);
            return (metrics::Result::Error, format!("terminal: {why}"));
        }
        let at_least = error.retry_after().unwrap_or_default();
        if error.is_conflict() {
            tracing::debug!(error = why, "somebody else was faster");
            let (_, next) = self.retry(key, CONFLICT, at_least, now);
            return (metrics::Result::Requeue, next);
        }
        tracing::warn!(error = why, "reconcile failed");
        self.retry(key, self.backoff, at_least, now)
    }

    fn retry(&self, key: &ObjectKey, backoff: Backoff, at_least: Duration, now: Duration) -> (metrics::Result, String) {
        self.metrics.retried();
        let due = self.intake.queue().fail(key, backoff, at_least, now);
        (metrics::Result::Error, format!("again in {:?}", due.saturating_sub(now)))
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
