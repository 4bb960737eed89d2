//! From a key to an outcome: takes keys from the queue, runs reconciles, gives outcomes back.

use std::collections::{BTreeMap, BTreeSet};
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

use crate::engine::KeyFilter;
use crate::floors::Freshness;
use crate::metrics::{self, ControllerMetrics};
use crate::reconciler::{AnyReconciler, ReconcileError, Request};
use crate::tasks::TaskGroup;
use crate::trigger::Wanted;

/// Conflicts are tried again fast: the cache has usually caught up by then.
const CONFLICT: Backoff = Backoff { base: Duration::from_millis(5), max: Duration::from_secs(5) };

/// So many own writes per key are waited for; an event that never comes must not be remembered for ever.
const REMEMBERED: usize = 16;

/// Where triggers put keys and workers take them from.
pub(crate) struct Intake {
    started: Instant,
    desk: Mutex<Desk>,
    work: Notify,
    metrics: ControllerMetrics,
}

/// What lies on the desk: all under one lock, so that a change and the end of a turn cannot miss each other.
struct Desk {
    queue: Queue<ObjectKey>,
    flights: BTreeMap<ObjectKey, Flight>,
    /// Revisions that a turn of the key wrote and whose events are still to come.
    own: BTreeMap<ObjectKey, BTreeSet<u64>>,
}

/// A turn that has begun.
struct Flight {
    since: Instant,
    wrote: BTreeSet<u64>,
    /// Changes that came meanwhile; when the turn has ended, it is known which of them were its own.
    held: Vec<(u64, i32, &'static str)>,
}

impl Desk {
    /// Takes in one key, unless the change is one that a turn of this key made itself.
    fn add(&mut self, key: ObjectKey, wanted: &Wanted, now: Duration) {
        if let Some(revision) = wanted.revision {
            if let Some(flight) = self.flights.get_mut(&key) {
                flight.held.push((revision, wanted.priority, wanted.reason));
                return;
            }
            if let Some(own) = self.own.get_mut(&key)
                && own.remove(&revision)
            {
                if own.is_empty() {
                    self.own.remove(&key);
                }
                return;
            }
        }
        self.queue.add(key, wanted.priority, wanted.reason, now);
    }

    fn take(&mut self, now: Duration) -> Option<Taken<ObjectKey>> {
        let taken = self.queue.pop(now)?;
        let wrote = self.own.remove(&taken.key).unwrap_or_default();
        self.flights.insert(taken.key.clone(), Flight { since: Instant::now(), wrote, held: Vec::new() });
        Some(taken)
    }

    /// A turn has ended: what others did meanwhile is added, what it did itself is not.
    fn land(&mut self, key: &ObjectKey, now: Duration) {
        let Some(Flight { mut wrote, held, .. }) = self.flights.remove(key) else { return };
        for (revision, priority, reason) in held {
            if !wrote.remove(&revision) {
                self.queue.add(key.clone(), priority, reason, now);
            }
        }
        while wrote.len() > REMEMBERED {
            wrote.pop_first();
        }
        if !wrote.is_empty() {
            self.own.insert(key.clone(), wrote);
        }
    }
}

impl Intake {
    pub(crate) fn new(settings: Settings, metrics: ControllerMetrics) -> Self {
        let desk = Desk { queue: Queue::new(settings), flights: BTreeMap::new(), own: BTreeMap::new() };
        Self { started: Instant::now(), desk: Mutex::new(desk), work: Notify::new(), metrics }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a change asks for.
    pub(crate) fn add(&self, mut wanted: Wanted) {
        let keys = std::mem::take(&mut wanted.keys);
        if keys.is_empty() {
            return;
        }
        self.metrics.added(keys.len());
        let now = self.now();
        let mut desk = self.desk();
        for key in keys {
            desk.add(key, &wanted, now);
        }
        drop(desk);
        self.work.notify_one();
    }

    /// The turn of `key` wrote this revision.
    pub(crate) fn wrote(&self, key: &ObjectKey, revision: u64) {
        if let Some(flight) = self.desk().flights.get_mut(key) {
            flight.wrote.insert(revision);
        }
    }

    /// The keys in flight, in order, and how long they have been.
    pub(crate) fn in_flight(&self) -> Vec<(ObjectKey, Duration)> {
        self.desk().flights.iter().map(|(key, flight)| (key.clone(), flight.since.elapsed())).collect()
    }

    /// How many keys are ready, and how many wait.
    pub(crate) fn depth(&self) -> (usize, usize) {
        let desk = self.desk();
        (desk.queue.len(), desk.queue.waiting())
    }

    /// How long the key that has been ready longest has been so.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.desk().queue.oldest(self.now())
    }

    /// Sets the gauges that are only looked at when somebody asks.
    pub(crate) fn observe(&self) {
        let (flights, depths) = {
            let desk = self.desk();
            let flights: Vec<Duration> = desk.flights.values().map(|flight| flight.since.elapsed()).collect();
            (flights, desk.queue.depths().clone())
        };
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
    /// Which keys are this process's to work on.
    pub(crate) ours: KeyFilter,
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
            let wake = self.intake.desk().queue.next_wake().map(|at| self.intake.started + at);
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
        while let Some(ended) = turns.join_next().await {
            self.land(ended.result);
        }
        self.intake.desk().queue.clear();
    }

    fn start_turns(&self, turns: &mut TaskGroup<Turn>) {
        while turns.len() < self.count {
            let Some(taken) = self.intake.desk().take(self.intake.now()) else { return };
            // Asked after it is in flight: who hands keys over first closes the filter, then waits for flights.
            if !(self.ours)(&taken.key) {
                self.turn_away(&taken.key);
                continue;
            }
            self.metrics.taken(taken.waited);
            let name = taken.key.to_string();
            turns.spawn(name, self.turn(taken, turns.token().clone()));
        }
    }

    /// A key that another process works on: should it come to this one, it is told again.
    fn turn_away(&self, key: &ObjectKey) {
        let (mut desk, now) = (self.intake.desk(), self.intake.now());
        desk.land(key, now);
        desk.queue.done(key, Outcome::Done, now);
    }

    /// One turn of one key, fenced: whatever happens inside, it comes back with an end.
    fn turn(&self, taken: Taken<ObjectKey>, stopping: CancellationToken) -> impl Future<Output = Turn> + Send + use<> {
        let id = self.world.random.uuid();
        // Of the level of errors, so that even these say what they are about.
        let span = tracing::error_span!(
            "reconcile", controller = %self.name, namespace = %taken.key.namespace, name = %taken.key.name, id,
            reason = taken.reason, attempt = taken.failures,
        );
        let (freshness, intake) = (Arc::clone(&self.freshness), Arc::clone(&self.intake));
        let reconciler = Arc::clone(&self.reconciler);
        let (timeout, started, key) = (self.timeout, Instant::now(), taken.key.clone());
        self.world
            .journal
            .record("reconcile", || format!("{} {} {} #{}", self.name, key, taken.reason, taken.failures));
        let work = async move {
            let stale = !freshness.catch_up(&taken.key).await;
            let Taken { key, priority, failures: attempt, reason, .. } = taken;
            let request = Request { key, priority, attempt, reason, id, freshness, intake, stale, stopping };
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
        let span = tracing::error_span!("reconcile", controller = %self.name, key = %key);
        let _entered = span.enter();
        let now = self.intake.now();
        self.intake.desk().land(&key, now);
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
        self.intake.desk().queue.done(key, outcome, now);
        (result, format!("{outcome:?}"))
    }

    fn failed(&self, key: &ObjectKey, error: &ReconcileError, now: Duration) -> (metrics::Result, String) {
        let why = error.full();
        if error.is_terminal() {
            self.metrics.terminal();
            tracing::error!(error = why, "reconcile failed for good");
            self.intake.desk().queue.done(key, Outcome::Done, now);
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
        let due = self.intake.desk().queue.fail(key, backoff, at_least, now);
        (metrics::Result::Error, format!("again in {:?}", due.saturating_sub(now)))
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
