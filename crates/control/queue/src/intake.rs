//! Where triggers put keys and workers take them from: a [`Desk`] behind a lock, and whom to wake.
//!
//! The rules that make it safe, each checked over interleavings in `tests/interleavings.rs`:
//!
//! - Whoever makes a key ready wakes an idle worker for it, unless one that was woken has not looked yet.
//! - A worker that was woken and goes away without looking passes the call on.
//! - The timekeeper is woken when something is due earlier than what it was told.
//! - Nobody is woken while the lock is held.

use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::desk::{Call, Desk, Ending, Landed, Revision};
use crate::queue::Taken;
use crate::sync::{Mutex, MutexGuard};

/// See the module. What time it is, is given when it is made.
pub struct Intake<K> {
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    office: Mutex<Office<K>>,
}

struct Office<K> {
    desk: Desk<K>,
    /// Workers with nothing to do, the one that was busy last at the end.
    idle: Vec<(usize, Waker)>,
    /// How many workers were woken and have not looked yet.
    called: usize,
    /// Workers with this number and above are to go home.
    limit: usize,
    keeper: Option<Waker>,
    /// What the timekeeper waits for.
    told: Option<Duration>,
    closed: bool,
}

impl<K: Clone + Eq + Hash + Ord> Office<K> {
    /// Whom to wake now, if anybody.
    fn next_call(&mut self) -> Option<Waker> {
        if self.closed {
            return None;
        }
        if self.called < self.desk.queue().len()
            && let Some((_, waker)) = self.idle.pop()
        {
            self.called += 1;
            return Some(waker);
        }
        if is_earlier(self.desk.queue().next_wake(), self.told) { self.keeper.take() } else { None }
    }

    fn is_over_for(&self, worker: usize) -> bool {
        self.closed || worker >= self.limit
    }
}

fn is_earlier(next: Option<Duration>, told: Option<Duration>) -> bool {
    next.is_some_and(|next| told.is_none_or(|told| next < told))
}

impl<K: Clone + Eq + Hash + Ord> Intake<K> {
    /// An intake for workers numbered `0..workers`.
    pub fn new(desk: Desk<K>, workers: usize, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        let office =
            Office { desk, idle: Vec::new(), called: 0, limit: workers, keeper: None, told: None, closed: false };
        Self { clock: Box::new(clock), office: Mutex::new(office) }
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Duration {
        (self.clock)()
    }

    fn office(&self) -> MutexGuard<'_, Office<K>> {
        self.office.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whom it concerns, each outside the lock.
    fn call<'a>(&'a self, mut office: MutexGuard<'a, Office<K>>) {
        while let Some(waker) = office.next_call() {
            drop(office);
            waker.wake();
            office = self.office();
        }
    }

    /// Takes in keys.
    pub fn add(&self, keys: impl IntoIterator<Item = K>, call: Call) {
        let now = self.now();
        let mut office = self.office();
        keys.into_iter().for_each(|key| office.desk.add(key, call, now));
        self.call(office);
    }

    /// Takes in a key that is due later.
    pub fn add_after(&self, key: K, delay: Duration, call: Call) {
        let now = self.now();
        let mut office = self.office();
        office.desk.add_after(key, delay, call, now);
        self.call(office);
    }

    /// The next key for this worker; `None` when it is to go home. Dropping the future is safe at any time.
    pub fn take(&self, worker: usize) -> impl Future<Output = Option<Taken<K>>> {
        Take { intake: self, worker, waits: false }
    }

    /// Ends the turn of a key.
    pub fn land(&self, key: &K, ending: Ending, random: f64) -> Landed {
        let now = self.now();
        let mut office = self.office();
        let landed = office.desk.land(key, ending, random, now);
        self.call(office);
        landed
    }

    /// The turn of `key` wrote this revision, of which a source is going to tell.
    pub fn wrote(&self, key: &K, revision: Revision) {
        self.office().desk.wrote(key, revision);
    }

    /// The turn of `key` wants to be queued again with this priority, if it is.
    pub fn set_priority(&self, key: &K, priority: i32) {
        self.office().desk.set_priority(key, priority);
    }

    /// Looks at the desk.
    pub fn look<T>(&self, look: impl FnOnce(&Desk<K>, Duration) -> T) -> T {
        let now = self.now();
        look(&self.office().desk, now)
    }

    /// Moves keys whose time has come to the ready ones, and says when to come back. For the timekeeper.
    pub fn tick(&self) -> Option<Duration> {
        let now = self.now();
        let mut office = self.office();
        office.desk.wake(now);
        let next = office.desk.queue().next_wake();
        office.told = next;
        self.call(office);
        next
    }

    /// Resolves when something is due before `told`: then the timekeeper sleeps until that.
    pub fn earlier_than(&self, told: Option<Duration>) -> impl Future<Output = Duration> {
        std::future::poll_fn(move |context| {
            let mut office = self.office();
            let next = office.desk.queue().next_wake();
            if let Some(next) = next.filter(|_| is_earlier(next, told)) {
                office.told = Some(next);
                return Poll::Ready(next);
            }
            office.told = told;
            office.keeper = Some(context.waker().clone());
            Poll::Pending
        })
    }

    /// How many workers may work; those with a higher number go home after their turn.
    pub fn set_limit(&self, workers: usize) {
        let mut office = self.office();
        office.limit = workers;
        let all: Vec<Waker> = std::mem::take(&mut office.idle).into_iter().map(|(_, waker)| waker).collect();
        office.called += all.len();
        drop(office);
        // All look again: some go home, the others come back to the list.
        all.into_iter().for_each(Waker::wake);
    }

    /// No more keys are given out: every worker goes home after its turn.
    pub fn close(&self) {
        self.office().closed = true;
        self.set_limit(0);
    }

    /// Drops everything that is not in flight.
    pub fn clear(&self) {
        self.office().desk.clear();
    }
}

impl<K> std::fmt::Debug for Intake<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Intake")
    }
}

/// Waits for a key.
struct Take<'a, K: Clone + Eq + Hash + Ord> {
    intake: &'a Intake<K>,
    worker: usize,
    /// Whether it is in the list of idle workers, or was called from it.
    waits: bool,
}

impl<K: Clone + Eq + Hash + Ord> Take<'_, K> {
    /// Leaves the list, or answers the call.
    fn arrive(&mut self, office: &mut Office<K>) {
        if std::mem::take(&mut self.waits) {
            match office.idle.iter().position(|(worker, _)| *worker == self.worker) {
                Some(place) => drop(office.idle.remove(place)),
                None => office.called -= 1,
            }
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> Future for Take<'_, K> {
    type Output = Option<Taken<K>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let intake = self.intake;
        let now = intake.now();
        let mut office = intake.office();
        self.arrive(&mut office);
        let over = office.is_over_for(self.worker);
        let taken = if over { None } else { office.desk.take(now) };
        if taken.is_none() && !over {
            self.waits = true;
            office.idle.push((self.worker, context.waker().clone()));
            return Poll::Pending;
        }
        intake.call(office);
        Poll::Ready(taken)
    }
}

impl<K: Clone + Eq + Hash + Ord> Drop for Take<'_, K> {
    fn drop(&mut self) {
        if self.waits {
            let intake = self.intake;
            let mut office = intake.office();
            self.arrive(&mut office);
            intake.call(office);
        }
    }
}
