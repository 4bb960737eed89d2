//! The queue itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use crate::priority;

#[cfg(test)]
mod tests;

/// What a reconcile gives back: what becomes of its key.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until something changes.
    Done,
    /// Look again after this time. Not a failure.
    After(Duration),
    /// Try again, waiting longer each time.
    Backoff,
}

/// How long a failing key waits: `base`, doubled with each failure, at most `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub base: Duration,
    /// The longest wait.
    pub max: Duration,
}

impl Default for Backoff {
    /// controller-runtime's: 5 ms to 1000 s.
    fn default() -> Self {
        Self { base: Duration::from_millis(5), max: Duration::from_secs(1000) }
    }
}

impl Backoff {
    /// The wait after the `failures`-th failure in a row.
    #[must_use]
    pub fn wait(&self, failures: u32) -> Duration {
        let doubled = 1u32.checked_shl(failures.saturating_sub(1)).and_then(|factor| self.base.checked_mul(factor));
        doubled.unwrap_or(self.max).min(self.max)
    }
}

/// How a [`Queue`] behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long failing keys wait.
    pub backoff: Backoff,
    /// Every so many pops take the key that has been ready longest, whatever its priority, so that a steady stream
    /// of urgent keys never starves the others. 0 = never.
    pub ageing: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { backoff: Backoff::default(), ageing: 8 }
    }
}

/// A key given to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken<K> {
    /// The key.
    pub key: K,
    /// With which priority it was queued.
    pub priority: i32,
    /// How many failures in a row came before.
    pub failures: u32,
    /// Why it was queued last.
    pub reason: &'static str,
    /// How long it was ready before a worker took it.
    pub waited: Duration,
}

/// Where a key is, besides being in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Ready {
        seq: u64,
        since: Duration,
        level: i32,
    },
    Waiting {
        seq: u64,
        at: Duration,
    },
    /// In flight, and due again at this time.
    Again {
        at: Duration,
    },
}

#[derive(Clone, Debug)]
struct Entry {
    place: Place,
    priority: i32,
    reason: &'static str,
    in_flight: bool,
    failures: u32,
    /// Until when the last failure makes it wait.
    blocked_until: Duration,
}

/// A queue of keys; see the [crate] for what it promises. Adding, popping and finishing take amortised `O(log n)`.
#[derive(Debug)]
pub struct Queue<K> {
    settings: Settings,
    entries: HashMap<K, Entry>,
    /// Keys in the order they became ready. An item whose number differs from its entry's is stale and skipped.
    levels: BTreeMap<Reverse<i32>, VecDeque<(u64, K)>>,
    waiting: BTreeMap<(Duration, u64), K>,
    next_seq: u64,
    pops: u32,
    /// How many keys are ready, by priority.
    ready: BTreeMap<i32, usize>,
    in_flight: usize,
}

impl<K: Clone + Eq + Hash> Default for Queue<K> {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            entries: HashMap::new(),
            levels: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_seq: 0,
            pops: 0,
            ready: BTreeMap::new(),
            in_flight: 0,
        }
    }

    /// Makes a key ready now. If it is in flight, it runs once more when it is done; if it is ready already, the
    /// higher priority counts.
    pub fn add(&mut self, key: K, priority: i32, reason: &'static str, now: Duration) {
        self.add_at(key, priority, reason, now, now);
    }

    /// Makes a key ready after `delay`. Of several times the earliest counts.
    pub fn add_after(&mut self, key: K, delay: Duration, priority: i32, reason: &'static str, now: Duration) {
        self.add_at(key, priority, reason, now.saturating_add(delay), now);
    }

    fn add_at(&mut self, key: K, priority: i32, reason: &'static str, at: Duration, now: Duration) {
        let entry = self.entries.entry(key.clone()).or_insert(Entry {
            place: Place::Nowhere,
            priority,
            reason,
            in_flight: false,
            failures: 0,
            blocked_until: Duration::ZERO,
        });
        if entry.place != Place::Nowhere {
            // A raised priority moves a ready key behind the others of its new level.
            if matches!(entry.place, Place::Ready { .. }) && (at > now || priority <= entry.priority) {
                return;
            }
            entry.priority = entry.priority.max(priority);
        } else {
            entry.priority = priority;
        }
        let due = match entry.place {
            Place::Waiting { at: earlier, .. } | Place::Again { at: earlier } if earlier <= at => earlier,
            _ => {
                entry.reason = reason;
                at
            }
        };
        self.put(key, due, now);
    }

    /// Puts a key where it belongs, given when it is due.
    fn put(&mut self, key: K, due: Duration, now: Duration) {
        let seq = self.next_seq;
        self.next_seq += 1;
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let since = match entry.place {
            Place::Waiting { seq, at } => {
                self.waiting.remove(&(at, seq));
                now
            }
            Place::Ready { since, level, .. } => {
                leave(&mut self.ready, level);
                since
            }
            Place::Nowhere | Place::Again { .. } => now,
        };
        if entry.in_flight {
            entry.place = Place::Again { at: due };
        } else if due <= now {
            entry.place = Place::Ready { seq, since, level: entry.priority };
            *self.ready.entry(entry.priority).or_default() += 1;
            self.levels.entry(Reverse(entry.priority)).or_default().push_back((seq, key));
        } else {
            entry.place = Place::Waiting { seq, at: due };
            self.waiting.insert((due, seq), key);
        }
    }

    /// Moves keys whose time has come from waiting to ready.
    fn wake(&mut self, now: Duration) {
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > now {
                break;
            }
            let key = first.remove();
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.place = Place::Nowhere;
            }
            self.put(key, now, now);
        }
    }

    /// Takes the next key: highest priority first, within a priority first come, first served, and now and then the
    /// one that waited longest ([`Settings::ageing`]). The key is in flight until [`Queue::done`].
    pub fn pop(&mut self, now: Duration) -> Option<Taken<K>> {
        self.wake(now);
        self.drop_stale();
        let level = self.next_level()?;
        let (_, key) = self.levels.get_mut(&level)?.pop_front()?;
        let entry = self.entries.get_mut(&key)?;
        let Place::Ready { since, level, .. } = entry.place else { return None };
        entry.place = Place::Nowhere;
        entry.in_flight = true;
        leave(&mut self.ready, level);
        self.in_flight += 1;
        let waited = now.saturating_sub(since);
        Some(Taken { priority: entry.priority, failures: entry.failures, reason: entry.reason, waited, key })
    }

    /// Removes stale items from the fronts of all levels, and empty levels.
    fn drop_stale(&mut self) {
        let entries = &self.entries;
        self.levels.retain(|_, level| {
            while let Some((seq, key)) = level.front() {
                let live =
                    entries.get(key).is_some_and(|e| matches!(e.place, Place::Ready { seq: s, .. } if s == *seq));
                if live {
                    return true;
                }
                level.pop_front();
            }
            false
        });
    }

    /// The level to pop from. Every level has a live front.
    fn next_level(&mut self) -> Option<Reverse<i32>> {
        let highest = *self.levels.first_key_value()?.0;
        if self.levels.len() == 1 || self.settings.ageing == 0 {
            return Some(highest);
        }
        self.pops = (self.pops + 1) % self.settings.ageing;
        if self.pops != 0 {
            return Some(highest);
        }
        let oldest = self.levels.iter().min_by_key(|(_, level)| level.front().map(|(_, key)| self.since(key)));
        oldest.map(|(level, _)| *level)
    }

    fn since(&self, key: &K) -> Duration {
        match self.entries.get(key).map(|entry| entry.place) {
            Some(Place::Ready { since, .. }) => since,
            _ => Duration::MAX,
        }
    }

    /// Ends the flight of a key with what its reconcile gave back. What was added meanwhile counts too: the earlier
    /// time wins.
    pub fn done(&mut self, key: &K, outcome: Outcome, now: Duration) {
        match outcome {
            Outcome::Done => self.finish(key, None, now),
            Outcome::After(delay) => self.finish(key, Some(now.saturating_add(delay)), now),
            Outcome::Backoff => {
                let _ = self.fail(key, self.settings.backoff, Duration::ZERO, now);
            }
        }
    }

    /// Ends the flight of a key that failed; it waits as `backoff` says and at least `at_least`. A failure counts
    /// only if the wait of the one before was over: a key that events push again and again does not pay for it.
    /// Gives the time at which it is due.
    pub fn fail(&mut self, key: &K, backoff: Backoff, at_least: Duration, now: Duration) -> Duration {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.in_flight) else { return now };
        if now >= entry.blocked_until {
            entry.failures = entry.failures.saturating_add(1);
            entry.blocked_until = now.saturating_add(backoff.wait(entry.failures));
        }
        let due = entry.blocked_until.max(now.saturating_add(at_least));
        self.land(key, Some((due, priority::RETRY, "retry")), now);
        due
    }

    /// Ends a flight that did not fail.
    fn finish(&mut self, key: &K, again: Option<Duration>, now: Duration) {
        if let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.in_flight) {
            entry.failures = 0;
            entry.blocked_until = Duration::ZERO;
            self.land(key, again.map(|at| (at, priority::POLL, "poll")), now);
        }
    }

    /// Takes a key out of flight and puts it back where its outcome, or what was added meanwhile, wants it.
    fn land(&mut self, key: &K, wanted: Option<(Duration, i32, &'static str)>, now: Duration) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.in_flight = false;
        self.in_flight -= 1;
        let added = match std::mem::replace(&mut entry.place, Place::Nowhere) {
            Place::Again { at } => Some(at),
            Place::Nowhere | Place::Ready { .. } | Place::Waiting { .. } => None,
        };
        let due = match (added, wanted) {
            (Some(added), Some((at, ..))) if added <= at => added,
            (_, Some((at, lowered, reason))) => {
                entry.priority = entry.priority.min(lowered);
                entry.reason = reason;
                at
            }
            (Some(added), None) => added,
            (None, None) => {
                self.entries.remove(key);
                return;
            }
        };
        self.put(key.clone(), due, now);
    }

    /// Drops everything that is not in flight, and what in-flight keys were added for again.
    pub fn clear(&mut self) {
        self.levels.clear();
        self.waiting.clear();
        self.ready.clear();
        self.entries.retain(|_, entry| {
            entry.place = Place::Nowhere;
            entry.in_flight
        });
    }

    /// When the next waiting key is due; `None` if none waits. Keys that are ready need no waking.
    #[must_use]
    pub fn next_wake(&self) -> Option<Duration> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// How many keys are ready.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready.values().sum()
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// How many keys wait for their time.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many keys are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many keys are ready, by priority.
    #[must_use]
    pub fn depths(&self) -> &BTreeMap<i32, usize> {
        &self.ready
    }

    /// How long the key that is ready longest has been so.
    #[must_use]
    pub fn oldest(&self, now: Duration) -> Option<Duration> {
        // Within a level keys are in the order they became ready, but for those whose priority was raised.
        let live = |(seq, key): &&(u64, K)| self.is_live(*seq, key);
        let fronts = self.levels.values().filter_map(|level| level.iter().find(live));
        fronts.map(|(_, key)| now.saturating_sub(self.since(key))).max()
    }

    /// Whether an item of a level still stands for its key.
    fn is_live(&self, seq: u64, key: &K) -> bool {
        self.entries.get(key).is_some_and(|entry| matches!(entry.place, Place::Ready { seq: s, .. } if s == seq))
    }
}

fn leave(ready: &mut BTreeMap<i32, usize>, level: i32) {
    if let Some(count) = ready.get_mut(&level) {
        *count -= 1;
        if *count == 0 {
            ready.remove(&level);
        }
    }
}
