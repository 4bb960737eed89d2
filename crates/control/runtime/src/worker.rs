//! From a key to an outcome: takes keys from the queue, runs reconciles, gives outcomes back.
//!
//! A controller has a fixed set of workers, each a task that takes one key after the other; the set can be resized.
//! Beside them runs one timekeeper, which moves keys whose time has come, replaces workers that went missing, and tells of
//! turns that do not end: a turn that blocks its thread could not tell itself.

mod patience;

use std::any::Any;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use concert_api::ObjectKey;
use concert_queue::{Ending, Intake, Landed, Outcome, Taken};
use concert_world::{Random, World};
use futures::FutureExt;
use tokio::sync::watch;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;

use crate::controller::{ControllerError, Panics};
use crate::engine::{KeyFilter, Term};
use crate::floors::Freshness;
use crate::metrics::{self, ControllerMetrics};
use crate::reconciler::{AnyReconciler, Key, ReconcileError, Request};
use crate::tasks::{Ended, TaskGroup};
use patience::Patience;

/// After so many conflicts in a row a turn reads live. A cache that only lags behind has caught up by then.
const BELIEVED_CONFLICTS: u32 = 2;

/// A turn that is over its timeout for so long is not ended by it: it blocks its thread.
const OVERDUE: Duration = Duration::from_secs(1);

/// The number of a turn, as a version 4 uuid. It is written only if somebody reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnId(u128);

impl TurnId {
    fn new(random: &Random) -> Self {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, digits: u32| (self.0 >> shift) & ((1 << (digits * 4)) - 1);
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            part(96, 8),
            part(80, 4),
            part(64, 4),
            part(48, 4),
            part(0, 12)
        )
    }
}

/// What a controller that cannot go on says, once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failing {
    why: Arc<Mutex<Option<ControllerError>>>,
    failed: CancellationToken,
}

impl Failing {
    /// The first failure counts.
    pub(crate) fn fail(&self, error: ControllerError) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.cancel();
    }

    /// Resolves when it cannot go on.
    pub(crate) async fn failed(&self) {
        self.failed.cancelled().await;
    }

    /// Why it could not go on.
    pub(crate) fn why(&self) -> Option<ControllerError> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The workers of one controller.
pub(crate) struct Workers<K: Key> {
    pub(crate) name: Arc<str>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) slow_after: Duration,
    pub(crate) panics: Panics,
    pub(crate) intake: Arc<Intake<K>>,
    pub(crate) started: Instant,
    pub(crate) freshness: Arc<Freshness<K>>,
    pub(crate) reconciler: Arc<dyn AnyReconciler<K>>,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) world: World,
    pub(crate) failing: Failing,
    /// Which keys are this process's to work on; all if there is none.
    pub(crate) ours: Option<KeyFilter>,
    /// Knows of every worker until it is gone, also of one that was ended and has not come to a wait yet.
    pub(crate) tracker: TaskTracker,
}

/// The term that a worker works in.
#[derive(Clone)]
struct Mandate {
    term: watch::Receiver<Term>,
    number: u64,
}

impl Mandate {
    fn is_over(&self) -> bool {
        self.term.borrow().number != self.number
    }

    /// Resolves at the end of the term; never if whoever says so is gone.
    async fn ends(mut self) {
        let number = self.number;
        if self.term.wait_for(|term| term.number != number).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How one turn ended.
enum End {
    Finished(Result<Outcome, ReconcileError>),
    Panicked(String),
    TimedOut(Duration),
}

impl<K: Key> Workers<K> {
    /// Works until `cancel`, then lets what is in flight come to its end. Dropping the future aborts it. Where the end of
    /// the term comes first, turns end where they are and their keys wait for the next: gives `true` then.
    pub(crate) async fn run(
        self: Arc<Self>,
        mut count: watch::Receiver<usize>,
        cancel: CancellationToken,
        (term, number): (watch::Receiver<Term>, u64),
    ) -> bool {
        let mandate = Mandate { term, number };
        let mut halt = std::pin::pin!(mandate.clone().ends());
        let mut tasks: TaskGroup = TaskGroup::new(cancel.clone());
        let mut live = BTreeSet::new();
        let mut due = self.intake.tick();
        let mut observed = std::pin::pin!(self.observe());
        self.hire(&mut tasks, &mut live, *count.borrow_and_update(), &mandate);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = &mut halt => {
                    tasks.abort().await;
                    self.put_back();
                    return true;
                }
                Some(ended) = tasks.join_next() => {
                    self.left(&ended, &mut live);
                    self.hire(&mut tasks, &mut live, *count.borrow(), &mandate);
                }
                Ok(()) = count.changed() => self.hire(&mut tasks, &mut live, *count.borrow_and_update(), &mandate),
                earlier = self.intake.earlier_than(due) => due = Some(earlier),
                () = sleep_until(due.and_then(|due| self.started.checked_add(due))) => due = self.intake.tick(),
                never = &mut observed => match never {},
            }
        }
        self.intake.close();
        // A term that ends meanwhile ends them where they are, too.
        tokio::select! {
            biased;
            () = async { while tasks.join_next().await.is_some() {} } => {}
            never = observed => match never {},
            () = halt => {
                tasks.abort().await;
                self.put_back();
            }
        }
        self.intake.clear();
        false
    }

    /// Tells of turns that take long, each less and less often.
    async fn observe(&self) -> Infallible {
        let mut patience = Patience::new(self.slow_after);
        loop {
            let now = self.intake.now();
            let flights = self.intake.look(|desk, now| {
                desk.flights(now).map(|(key, so_far)| (key.clone(), now.saturating_sub(so_far))).collect()
            });
            for (key, so_far) in patience.look(flights, now) {
                self.tell_slow(&key, so_far);
            }
            tokio::time::sleep(patience.next_look().saturating_sub(now)).await;
        }
    }

    fn tell_slow(&self, key: &K, so_far: Duration) {
        let seconds = so_far.as_secs_f64();
        if self.timeout.is_some_and(|timeout| so_far > timeout.saturating_add(OVERDUE)) {
            tracing::error!(
                controller = %self.name, key = %key, seconds,
                "reconcile took too long and cannot be ended, because it does not come to a wait; move what blocks to \
                 `tokio::task::spawn_blocking`"
            );
        } else {
            tracing::warn!(controller = %self.name, key = %key, seconds, "reconcile is still running");
        }
    }

    /// The keys of turns that were ended where they were.
    fn put_back(&self) {
        let keys: Vec<K> = self.intake.look(|desk, now| desk.flights(now).map(|(key, _)| key.clone()).collect());
        for key in keys {
            self.metrics.interrupted();
            self.intake.land(&key, Ending::Outcome(Outcome::After(Duration::ZERO)), 0.0);
        }
    }

    /// Sees to it that workers `0..count` are there, and no others for longer than their turn.
    fn hire(self: &Arc<Self>, tasks: &mut TaskGroup, live: &mut BTreeSet<usize>, count: usize, mandate: &Mandate) {
        self.metrics.workers(count);
        self.intake.set_limit(count);
        for worker in 0..count {
            if live.insert(worker) {
                let stopping = tasks.token().clone();
                let known = (self.tracker.token(), mandate.clone());
                tasks.spawn(worker.to_string(), Arc::clone(self).work(worker, stopping, known));
            }
        }
    }

    fn left(&self, ended: &Ended<()>, live: &mut BTreeSet<usize>) {
        if let Ok(worker) = ended.name.parse() {
            live.remove(&worker);
        }
        if let Err(error) = &ended.result {
            // Reconciles are fenced: this is a fault of ours, and must not cost the controller its workers.
            tracing::error!(controller = %self.name, error = %error, "a worker died and is replaced");
        }
    }

    /// One worker: turn after turn until it is sent home. It is known as long as its future lives, and asks whether it may
    /// begin only after that: who ends a term and then waits for those known misses none.
    async fn work(
        self: Arc<Self>,
        worker: usize,
        stopping: CancellationToken,
        (known, mandate): (TaskTrackerToken, Mandate),
    ) {
        let _known = known;
        if mandate.is_over() {
            return;
        }
        while let Some(taken) = self.intake.take(worker).await {
            // Asked when it is in flight: who hands keys over first closes the filter, then waits for flights. Should
            // the key come to this process, it is told again.
            if self.ours.as_ref().is_none_or(|ours| ours(&taken.key.to_string())) {
                self.whole_turn(taken, &stopping).await;
            } else {
                self.intake.land(&taken.key, Ending::Outcome(Outcome::Done), 0.0);
            }
            // Turns that never wait would keep everybody else from running.
            consume_budget().await;
        }
    }

    /// One turn, after which its key has landed whatever happened: also where what a reconcile leaves behind panics, when
    /// an error is written, or a future or the payload of a panic is dropped.
    async fn whole_turn(&self, taken: Taken<K>, stopping: &CancellationToken) {
        let (key, started, landed) = (taken.key.clone(), Instant::now(), AtomicBool::new(false));
        let turn = AssertUnwindSafe(self.turn(taken, stopping, &landed)).catch_unwind().await;
        if let Err(panic) = turn
            && !landed.load(Ordering::Relaxed)
        {
            self.land(&key, End::Panicked(panic_text(&*panic)), started.elapsed(), &landed);
            // Dropping it may be what panics.
            std::mem::forget(panic);
        }
    }

    /// One turn of one key, in its span.
    async fn turn(&self, taken: Taken<K>, stopping: &CancellationToken, landed: &AtomicBool) {
        self.metrics.taken(taken.waited);
        let id = TurnId::new(&self.world.random);
        let span = self.span(&taken, id);
        let (name, key) = (&self.name, &taken.key);
        self.world.journal.record("reconcile", || format!("{name} {key} {} #{}", taken.reason, taken.failures));
        let whole = async {
            let (started, key) = (Instant::now(), taken.key.clone());
            let end = self.fenced(taken, id, stopping).await;
            self.land(&key, end, started.elapsed(), landed);
        };
        whole.instrument(span).await;
    }

    /// Of the level of errors, so that even these say what they are about.
    fn span(&self, taken: &Taken<K>, id: TurnId) -> tracing::Span {
        let (reason, attempt, waited) = (taken.reason, taken.failures, taken.waited.as_secs_f64());
        match (&taken.key as &dyn Any).downcast_ref::<ObjectKey>() {
            Some(ObjectKey { namespace, name }) => tracing::error_span!(
                "reconcile", controller = %self.name, namespace = %namespace, name = %name, %id, reason, attempt,
                priority = taken.priority, waited,
            ),
            None => tracing::error_span!(
                "reconcile", controller = %self.name, key = %taken.key, %id, reason, attempt, priority = taken.priority,
                waited,
            ),
        }
    }

    /// Whatever happens inside, it comes back with an end.
    async fn fenced(&self, taken: Taken<K>, id: TurnId, stopping: &CancellationToken) -> End {
        let work = async {
            // Conflicts again and again: an event may be lost, and what the cache shows may never become true.
            let doubtful = taken.conflicts >= BELIEVED_CONFLICTS;
            let stale = !self.freshness.catch_up(&taken.key).await || doubtful;
            let (freshness, intake) = (Arc::clone(&self.freshness), Arc::clone(&self.intake));
            let Taken { key, priority, failures: attempt, reason, .. } = taken;
            // However the turn ends, what it started beside itself is told.
            let stopping = stopping.child_token();
            let _over = stopping.clone().drop_guard();
            let request = Request { key, priority, attempt, reason, id, freshness, intake, stale, stopping };
            self.reconciler.reconcile_boxed(&request).await
        };
        let fenced = AssertUnwindSafe(work).catch_unwind();
        let ended = match self.timeout {
            Some(limit) => tokio::time::timeout(limit, fenced).await.map_err(|_| limit),
            None => Ok(fenced.await),
        };
        match ended {
            Ok(Ok(result)) => End::Finished(result),
            Ok(Err(panic)) => End::Panicked(panic_text(&*panic)),
            Err(limit) => End::TimedOut(limit),
        }
    }

    /// Gives the outcome of a turn back to the queue. From then on the key may be in another worker's hands.
    fn land(&self, key: &K, end: End, took: Duration, landed_at_all: &AtomicBool) {
        let result = match &end {
            End::Finished(Ok(Outcome::Done)) => metrics::Result::Success,
            End::Finished(Ok(Outcome::After(_))) => metrics::Result::RequeueAfter,
            End::Finished(Ok(Outcome::Backoff)) => metrics::Result::Requeue,
            End::Finished(Err(error)) if error.is_conflict() => metrics::Result::Requeue,
            End::Finished(Err(_)) | End::Panicked(_) | End::TimedOut(_) => metrics::Result::Error,
        };
        let ending = self.ending(key, end);
        landed_at_all.store(true, Ordering::Relaxed);
        let landed = self.intake.land(key, ending, self.random(ending));
        self.count(ending, landed);
        self.metrics.finished(result, took);
        self.world.journal.record("reconciled", || format!("{} {key} {}", self.name, self.words(ending, landed)));
    }

    /// What an end means, said to those who read logs.
    fn ending(&self, key: &K, end: End) -> Ending {
        match end {
            End::Finished(Ok(outcome)) => Ending::Outcome(outcome),
            End::Finished(Err(error)) => self.failed(&error),
            End::Panicked(why) => {
                self.metrics.panicked();
                tracing::error!(why, "reconcile panicked");
                if self.panics == Panics::Fail {
                    let (controller, key) = (self.name.to_string(), key.to_string());
                    self.failing.fail(ControllerError::Panicked { controller, key, why });
                }
                Ending::Failed(Duration::ZERO)
            }
            End::TimedOut(limit) => {
                self.metrics.timed_out();
                tracing::error!(seconds = limit.as_secs_f64(), "reconcile took too long");
                Ending::Failed(Duration::ZERO)
            }
        }
    }

    fn failed(&self, error: &ReconcileError) -> Ending {
        let at_least = error.retry_after().unwrap_or_default();
        if error.is_terminal() {
            self.metrics.terminal();
            tracing::error!(error = error.full(), "reconcile failed for good");
            Ending::Terminal
        } else if error.is_conflict() {
            self.metrics.conflicted();
            tracing::debug!(error = error.full(), "somebody else was faster");
            Ending::Conflict(at_least)
        } else {
            tracing::warn!(error = error.full(), "reconcile failed");
            Ending::Failed(at_least)
        }
    }

    /// For limiters that jitter; drawn only where one is asked.
    fn random(&self, ending: Ending) -> f64 {
        match ending {
            Ending::Failed(_) | Ending::Outcome(Outcome::Backoff) => {
                self.world.random.below(1 << 32) as f64 / (1u64 << 32) as f64
            }
            Ending::Outcome(Outcome::Done | Outcome::After(_)) | Ending::Conflict(_) | Ending::Terminal => 0.0,
        }
    }

    fn count(&self, ending: Ending, landed: Landed) {
        match landed {
            Landed::Resting => {}
            Landed::Due(_) => {
                if ending != Ending::Outcome(Outcome::After(Duration::ZERO)) {
                    self.metrics.retried();
                }
                match ending {
                    Ending::Failed(_) | Ending::Outcome(Outcome::Backoff) => self.metrics.backed_off(),
                    Ending::Outcome(Outcome::Done | Outcome::After(_)) | Ending::Conflict(_) | Ending::Terminal => {}
                }
            }
            Landed::GivenUp => {
                self.metrics.terminal();
                tracing::error!("reconcile failed too often: given up until something changes");
            }
        }
    }

    /// For the journal.
    fn words(&self, ending: Ending, landed: Landed) -> String {
        match (ending, landed) {
            (Ending::Outcome(outcome @ (Outcome::Done | Outcome::After(_))), _) => format!("{outcome:?}"),
            (_, Landed::Due(due)) => format!("again in {:?}", due.saturating_sub(self.intake.now())),
            (_, Landed::GivenUp) => "given up".to_owned(),
            (_, Landed::Resting) => "terminal".to_owned(),
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_a_version_four_uuid() {
        let (one, other) = (Random::seeded(1), Random::seeded(1));
        assert_eq!(TurnId::new(&one).to_string(), other.uuid(), "as the world writes it");
    }
}
