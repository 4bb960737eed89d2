//! What lies on the desk of a controller: the queue, what is in flight, and which changes were made by us.
//!
//! All of it is decided together, under whatever lock the caller has, so that a change and the end of a turn cannot
//! miss each other. It is pure: time and randomness are parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::limiter::{Backoff, Failure, RateLimiter};
use crate::queue::{Outcome, Queue, Settings, Taken};

/// Conflicts are tried again fast: the cache has usually caught up by then.
const CONFLICT: Backoff = Backoff { base: Duration::from_millis(5), max: Duration::from_secs(5) };

/// So many own writes per key are waited for; an event that never comes must not be remembered for ever.
const REMEMBERED: usize = 16;
/// So many keys have own writes that are waited for.
const REMEMBERED_KEYS: usize = 10_000;
/// So many changes are held back during a turn to find out whether they are its own.
const HELD: usize = 64;

/// A change as it was watched coming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    /// Its number. Every server has numbers of its own.
    pub number: u64,
    /// Which of the controller's sources told of it: each tells of it once.
    pub source: u64,
}

/// Why a key is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// How urgently.
    pub priority: i32,
    /// Why, in a few words.
    pub reason: &'static str,
    /// The revision that was watched coming: if a turn of the key wrote it itself, it need not be told.
    pub revision: Option<Revision>,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an outcome.
    Outcome(Outcome),
    /// It failed; not to be tried again before this time has passed.
    Failed(Duration),
    /// Somebody else was faster; likewise. That is no failure: it has a short wait of its own, and what is known of
    /// failures stays as it is.
    Conflict(Duration),
    /// It failed, and trying again makes no sense until something changes.
    Terminal,
}

/// What becomes of a key whose turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landed {
    /// Nothing, until something changes.
    Resting,
    /// It is due at this time, or before if something changes.
    Due(Duration),
    /// It failed too often and is not tried again until something changes.
    GivenUp,
}

/// A turn that has begun.
#[derive(Debug)]
struct Flight {
    since: Duration,
    wrote: BTreeSet<Revision>,
    /// Changes that came meanwhile; when the turn has ended, it is known which of them were its own.
    held: Vec<Call>,
    /// With which priority it wants to be queued again.
    priority: Option<i32>,
}

/// See the module.
pub struct Desk<K> {
    queue: Queue<K>,
    flights: BTreeMap<K, Flight>,
    /// Revisions that a turn of the key wrote and whose events are still to come.
    own: BTreeMap<K, BTreeSet<Revision>>,
    limiter: Box<dyn RateLimiter<K>>,
    max_tries: Option<u32>,
}

impl<K: Clone + Eq + Hash + Ord> Desk<K> {
    /// Nothing to do yet. A key that failed `max_tries` times in a row is given up until something changes.
    #[must_use]
    pub fn new(settings: Settings, limiter: Box<dyn RateLimiter<K>>, max_tries: Option<u32>) -> Self {
        Self { queue: Queue::new(settings), flights: BTreeMap::new(), own: BTreeMap::new(), limiter, max_tries }
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &Queue<K> {
        &self.queue
    }

    /// Takes in one key, unless the change is one that a turn of this key made itself.
    pub fn add(&mut self, key: K, call: Call, now: Duration) {
        if let Some(revision) = call.revision {
            match self.flights.get_mut(&key) {
                Some(flight) if flight.held.len() < HELD => return flight.held.push(call),
                // So many cannot all be its own: it has to run once more.
                Some(_) => return self.queue.add(key, call.priority, call.reason, now),
                None => {}
            }
            if !self.own.is_empty() && self.is_own(&key, revision) {
                return;
            }
        }
        self.queue.add(key, call.priority, call.reason, now);
    }

    /// Whether a turn of the key wrote this; asked once for each revision.
    fn is_own(&mut self, key: &K, revision: Revision) -> bool {
        let Some(own) = self.own.get_mut(key) else { return false };
        let found = own.remove(&revision);
        if own.is_empty() {
            self.own.remove(key);
        }
        found
    }

    /// Takes in one key that is due later.
    pub fn add_after(&mut self, key: K, delay: Duration, call: Call, now: Duration) {
        self.queue.add_after(key, delay, call.priority, call.reason, now);
    }

    /// Begins a turn.
    pub fn take(&mut self, now: Duration) -> Option<Taken<K>> {
        let taken = self.queue.pop(now)?;
        let wrote = if self.own.is_empty() { None } else { self.own.remove(&taken.key) };
        let flight = Flight { since: now, wrote: wrote.unwrap_or_default(), held: Vec::new(), priority: None };
        self.flights.insert(taken.key.clone(), flight);
        Some(taken)
    }

    /// The turn of `key` wrote this revision, of which a source is going to tell.
    pub fn wrote(&mut self, key: &K, revision: Revision) {
        if let Some(flight) = self.flights.get_mut(key) {
            flight.wrote.insert(revision);
        }
    }

    /// The turn of `key` wants to be queued again with this priority, if it is.
    pub fn set_priority(&mut self, key: &K, priority: i32) {
        if let Some(flight) = self.flights.get_mut(key) {
            flight.priority = Some(priority);
        }
    }

    /// Ends a turn: what others did meanwhile is added, what it did itself is not.
    pub fn land(&mut self, key: &K, ending: Ending, random: f64, now: Duration) -> Landed {
        let Some(Flight { mut wrote, held, priority, .. }) = self.flights.remove(key) else { return Landed::Resting };
        for call in held {
            if call.revision.is_none_or(|revision| !wrote.remove(&revision)) {
                self.queue.add(key.clone(), call.priority, call.reason, now);
            }
        }
        while wrote.len() > REMEMBERED {
            wrote.pop_first();
        }
        if !wrote.is_empty() {
            self.own.insert(key.clone(), wrote);
            if self.own.len() > REMEMBERED_KEYS {
                // Events that never came: at worst a key runs once more.
                self.own.pop_first();
            }
        }
        self.end(key, ending, priority, random, now)
    }

    fn end(&mut self, key: &K, ending: Ending, priority: Option<i32>, random: f64, now: Duration) -> Landed {
        match ending {
            Ending::Outcome(Outcome::Backoff) => self.fail(key, Duration::ZERO, priority, random, now),
            Ending::Failed(at_least) => self.fail(key, at_least, priority, random, now),
            Ending::Conflict(at_least) => {
                Landed::Due(self.queue.conflict(key, |conflicts| CONFLICT.wait(conflicts), at_least, priority, now))
            }
            Ending::Outcome(outcome) => {
                self.rest(key, outcome, priority, now);
                match outcome {
                    Outcome::After(delay) => Landed::Due(now.saturating_add(delay)),
                    Outcome::Done | Outcome::Backoff => Landed::Resting,
                }
            }
            Ending::Terminal => {
                self.rest(key, Outcome::Done, None, now);
                Landed::Resting
            }
        }
    }

    /// Ends a turn that is not counted as a failure.
    fn rest(&mut self, key: &K, outcome: Outcome, priority: Option<i32>, now: Duration) {
        self.limiter.forget(key);
        self.queue.done(key, outcome, priority, now);
    }

    fn fail(&mut self, key: &K, at_least: Duration, priority: Option<i32>, random: f64, now: Duration) -> Landed {
        if self.max_tries.is_some_and(|most| self.queue.failures_with(key, now) >= most) {
            self.rest(key, Outcome::Done, None, now);
            return Landed::GivenUp;
        }
        let limiter = &mut self.limiter;
        // Whoever's limiter panics gets the usual one; the key must not be lost with it.
        let wait = |count| {
            let asked = catch_unwind(AssertUnwindSafe(|| limiter.when(key, &Failure { count, now, random })));
            asked.unwrap_or_else(|_| Backoff::default().wait(count))
        };
        Landed::Due(self.queue.fail(key, wait, at_least, priority, now))
    }

    /// Moves keys whose time has come to the ready ones.
    pub fn wake(&mut self, now: Duration) {
        self.queue.wake(now);
    }

    /// Drops everything that is not in flight.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// The keys in flight, in order, and how long each has been so.
    pub fn flights(&self, now: Duration) -> impl Iterator<Item = (&K, Duration)> {
        self.flights.iter().map(move |(key, flight)| (key, now.saturating_sub(flight.since)))
    }
}

impl<K> std::fmt::Debug for Desk<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Desk({} in flight)", self.flights.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn desk(max_tries: Option<u32>) -> Desk<u8> {
        Desk::new(Settings::default(), Box::new(Backoff::default()), max_tries)
    }

    const OWN: u64 = 1;

    fn from(source: u64, number: u64) -> Call {
        Call { priority: 0, reason: "updated", revision: Some(Revision { number, source }) }
    }

    fn watched(number: u64) -> Call {
        from(OWN, number)
    }

    fn take(desk: &mut Desk<u8>) -> Option<u8> {
        desk.take(NOW).map(|taken| taken.key)
    }

    #[test]
    fn a_turn_that_does_not_end_holds_back_a_bounded_number_of_changes() {
        let mut desk = desk(None);
        desk.add(1, watched(1), NOW);
        assert_eq!(take(&mut desk), Some(1));
        for revision in 2..10_000 {
            desk.add(1, watched(revision), NOW);
        }
        assert!(desk.flights[&1].held.len() <= HELD);
        let _ = desk.land(&1, Ending::Outcome(Outcome::Done), 0.0, NOW);
        assert_eq!(take(&mut desk), Some(1), "it runs once more");
    }

    #[test]
    fn somebody_elses_change_after_many_of_its_own_is_not_lost() {
        let mut desk = desk(None);
        desk.add(1, watched(1), NOW);
        assert_eq!(take(&mut desk), Some(1));
        let own = 2..2 + HELD as u64;
        own.clone().for_each(|number| {
            desk.wrote(&1, Revision { number, source: OWN });
            desk.add(1, watched(number), NOW);
        });
        desk.add(1, watched(own.end), NOW);
        let _ = desk.land(&1, Ending::Outcome(Outcome::Done), 0.0, NOW);
        assert_eq!(take(&mut desk), Some(1), "it runs once more");
    }

    #[test]
    fn the_event_of_an_own_write_starts_no_turn_whenever_it_comes() {
        for event_first in [true, false] {
            let mut desk = desk(None);
            desk.add(1, watched(5), NOW);
            assert_eq!(take(&mut desk), Some(1));
            if event_first {
                desk.add(1, watched(6), NOW);
            }
            desk.wrote(&1, Revision { number: 6, source: OWN });
            desk.land(&1, Ending::Outcome(Outcome::Done), 0.0, NOW);
            if !event_first {
                desk.add(1, watched(6), NOW);
            }
            assert_eq!(take(&mut desk), None);
            desk.add(1, watched(7), NOW);
            assert_eq!(take(&mut desk), Some(1), "somebody else's does");
        }
    }

    #[test]
    fn what_each_source_tells_of_an_own_write_is_own_and_no_more() {
        for during in [true, false] {
            let mut desk = desk(None);
            desk.add(1, watched(5), NOW);
            take(&mut desk);
            for source in [OWN, 2] {
                desk.wrote(&1, Revision { number: 6, source });
            }
            let tell = |desk: &mut Desk<u8>, source| desk.add(1, from(source, 6), NOW);
            if during {
                [OWN, 2].into_iter().for_each(|source| tell(&mut desk, source));
            }
            desk.land(&1, Ending::Outcome(Outcome::Done), 0.0, NOW);
            if !during {
                [OWN, 2].into_iter().for_each(|source| tell(&mut desk, source));
            }
            assert_eq!(take(&mut desk), None, "both are told of it");
            // A third one listens to another server, which has got to the same number.
            tell(&mut desk, 3);
            assert_eq!(take(&mut desk), Some(1));
        }
    }

    #[test]
    fn a_turn_may_choose_the_priority_of_the_next() {
        let mut desk = desk(None);
        desk.add(1, watched(1), NOW);
        take(&mut desk);
        desk.set_priority(&1, -50);
        assert_eq!(desk.land(&1, Ending::Outcome(Outcome::After(NOW)), 0.0, NOW), Landed::Due(NOW));
        assert_eq!(desk.take(NOW).map(|taken| taken.priority), Some(-50));
        desk.land(&1, Ending::Outcome(Outcome::After(NOW)), 0.0, NOW);
        assert_eq!(desk.take(NOW).map(|taken| taken.priority), Some(-50), "and it is kept");
    }

    #[test]
    fn what_failed_too_often_is_given_up_until_something_changes() {
        let mut desk = desk(Some(3));
        let mut now = NOW;
        for round in 0..2 {
            desk.add(1, watched(1), now);
            for attempt in 1..=3 {
                assert!(desk.take(now).is_some());
                let landed = desk.land(&1, Ending::Failed(NOW), 0.0, now);
                assert_eq!(landed == Landed::GivenUp, attempt == 3, "round {round}, attempt {attempt}");
                now = desk.queue().next_wake().unwrap_or(now);
            }
            assert_eq!(desk.take(now + Duration::from_secs(9999)), None);
            now += Duration::from_secs(9999);
        }
        desk.add(1, watched(1), now);
        for _ in 0..50 {
            desk.take(now);
            assert!(matches!(desk.land(&1, Ending::Conflict(NOW), 0.0, now), Landed::Due(_)), "conflicts go on");
            now = desk.queue().next_wake().unwrap();
        }
    }

    #[test]
    fn conflicts_are_not_counted_as_failures() {
        let mut desk = desk(Some(3));
        desk.add(1, watched(1), NOW);
        let mut now = NOW;
        let mut turn = |ending: Ending| {
            let taken = desk.take(now).unwrap();
            let landed = desk.land(&1, ending, 0.0, now);
            let Landed::Due(due) = landed else { panic!("{landed:?}") };
            let wait = due - now;
            now = due;
            (taken.failures, taken.conflicts, wait.as_millis())
        };
        assert_eq!(turn(Ending::Failed(NOW)), (0, 0, 5));
        assert_eq!(turn(Ending::Conflict(NOW)), (1, 0, 5), "a wait of its own");
        assert_eq!(turn(Ending::Conflict(NOW)), (1, 1, 10));
        assert_eq!(turn(Ending::Failed(NOW)), (1, 2, 10), "the second failure, not the fourth");
        assert_eq!(turn(Ending::Conflict(Duration::from_secs(3))), (2, 0, 3000), "the server may ask for more");
        for _ in 0..20 {
            turn(Ending::Conflict(NOW));
        }
        assert_eq!(turn(Ending::Conflict(NOW)), (2, 21, 5000), "never longer than this, and never given up");
    }
}
