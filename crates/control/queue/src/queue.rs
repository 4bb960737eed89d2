//! The queue itself.
//!
//! Entries lie in a slab, and [`Leads`] lead from a key to its entry: one table for all keys, and a small one for those
//! in flight, so that a turn that ends need not look at the large one. Keys that are ready hang in two chains through their entries: one per priority (who is next) and one for all (who is ready
//! longest). Taking a key out of a chain touches its neighbours only. Only keys that wait for a time are sorted.

mod chain;
mod leads;
mod listed;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};
use slab::Slab;

use crate::limiter::Backoff;
use chain::{Chain, Chained, Link};
use leads::{Leads, Seen, Spot};
pub use listed::{Listed, Whereabouts};

#[cfg(test)]
mod tests;

/// Empty levels are kept up to this number: making one anew for every key would cost more than the key.
const KEPT_LEVELS: usize = 16;
/// An empty queue gives memory for more keys than this back.
const KEPT_ENTRIES: usize = 4096;

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

/// How a [`Queue`] behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long keys wait that end with [`Outcome::Backoff`].
    pub backoff: Backoff,
    /// The key that has been ready longest is passed over by more urgent ones so many times less one, then it is
    /// taken: a steady stream of urgent keys never starves the others. 0 = never.
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
    /// How many conflicts in a row came before; these are no failures.
    pub conflicts: u32,
    /// Why it was queued last.
    pub reason: &'static str,
    /// How long it was ready before a worker took it.
    pub waited: Duration,
}

/// Where a key is, besides being in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    /// Since [`Entry::time`].
    Ready,
    /// Until [`Entry::time`].
    Waiting,
    /// In flight, and due again at [`Entry::time`].
    Again,
}

#[derive(Clone, Debug)]
struct Entry<K> {
    key: K,
    hash: u32,
    reason: &'static str,
    time: Moment,
    /// Until when the last failure makes it wait.
    blocked_until: Moment,
    /// Orders keys that are due at the same moment.
    seq: u64,
    failures: u32,
    conflicts: u32,
    priority: i32,
    /// With which priority it was added while in flight.
    added: i32,
    level: Link,
    age: Link,
    place: Place,
    in_flight: bool,
}

/// A time since the start, in nanoseconds: half as large as a [`Duration`], and 584 years long. With many keys what counts is
/// how much memory each takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment(u64);

impl Moment {
    const START: Self = Self(0);

    fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    fn until(self, later: Duration) -> Duration {
        later.saturating_sub(self.since_start())
    }
}

impl From<Duration> for Moment {
    fn from(time: Duration) -> Self {
        Self(time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into()))
    }
}

/// An entry in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    hash: u32,
    slot: u32,
}

impl Flight {
    /// What a table goes by: its low bits say where to look, its high bits tell neighbours apart.
    fn spread(self) -> u64 {
        u64::from(self.hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

struct ByLevel;
struct ByAge;

impl<K> Chained<Entry<K>> for ByLevel {
    fn link(entry: &mut Entry<K>) -> &mut Link {
        &mut entry.level
    }
}

impl<K> Chained<Entry<K>> for ByAge {
    fn link(entry: &mut Entry<K>) -> &mut Link {
        &mut entry.age
    }
}

/// A queue of keys; see the [crate] for what it promises. Adding, popping and finishing a key take constant time;
/// `O(log n)` of the keys that wait for a time where one has to.
#[derive(Debug)]
pub struct Queue<K> {
    settings: Settings,
    entries: Slab<Entry<K>>,
    leads: Leads,
    flying: HashTable<Flight>,
    hasher: DefaultHashBuilder,
    levels: BTreeMap<i32, Chain>,
    /// All ready keys, in the order they became so. A raised priority does not make a key younger.
    ages: Chain,
    waiting: BTreeMap<(Moment, u64), u32>,
    next_seq: u64,
    /// How often in a row the oldest key was passed over.
    passed: u32,
    /// How often a key became ready.
    added: u64,
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
            entries: Slab::new(),
            leads: Leads::default(),
            flying: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            levels: BTreeMap::new(),
            ages: Chain::default(),
            waiting: BTreeMap::new(),
            next_seq: 0,
            passed: 0,
            added: 0,
        }
    }

    /// Makes a key ready now. If it is in flight, it runs once more when it is done; if it is in the queue already,
    /// the higher priority counts.
    pub fn add(&mut self, key: K, priority: i32, reason: &'static str, now: Duration) {
        self.add_at(key, priority, reason, now, now);
    }

    /// [`Queue::add`] for many keys.
    pub fn add_all(&mut self, keys: impl IntoIterator<Item = K>, priority: i32, reason: &'static str, now: Duration) {
        let keys = keys.into_iter();
        let (least, _) = keys.size_hint();
        self.entries.reserve(least);
        self.leads.reserve(least, self.entries.len());
        keys.for_each(|key| self.add(key, priority, reason, now));
    }

    /// Makes a key ready after `delay`. Of several times the earliest counts, of several priorities the highest.
    pub fn add_after(&mut self, key: K, delay: Duration, priority: i32, reason: &'static str, now: Duration) {
        self.add_at(key, priority, reason, now.saturating_add(delay), now);
    }

    fn add_at(&mut self, key: K, priority: i32, reason: &'static str, at: Duration, now: Duration) {
        let hash = self.hash(&key);
        match self.find(hash, &key) {
            Ok(slot) => self.add_again(slot, priority, reason, at, now),
            Err(spot) => {
                let slot = self.insert(key, hash, spot, priority, reason);
                self.put(slot, at, now);
            }
        }
    }

    /// As much of a key's hash as leads go by.
    fn hash(&self, key: &K) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    fn find(&self, hash: u32, key: &K) -> Result<u32, Spot> {
        self.leads.find(hash, |slot| match self.entries.get(slot as usize) {
            Some(entry) if entry.hash != hash => Seen::Nothing,
            Some(entry) if entry.key == *key => Seen::It,
            Some(_) => Seen::Other,
            None => Seen::Nothing,
        })
    }

    fn insert(&mut self, key: K, hash: u32, spot: Spot, priority: i32, reason: &'static str) -> u32 {
        let slot = self.entries.insert(Entry {
            key,
            hash,
            reason,
            time: Moment::START,
            blocked_until: Moment::START,
            seq: 0,
            failures: 0,
            conflicts: 0,
            priority,
            added: priority,
            level: Link::default(),
            age: Link::default(),
            place: Place::Nowhere,
            in_flight: false,
        });
        let slot = u32::try_from(slot).expect("fewer than four thousand million keys fit in memory");
        let entries = &self.entries;
        let is_live = |hash, slot| entries.get(slot as usize).is_some_and(|entry: &Entry<K>| entry.hash == hash);
        self.leads.put(spot, hash, slot, entries.len(), is_live);
        slot
    }

    /// Adds a key that is known.
    fn add_again(&mut self, slot: u32, priority: i32, reason: &'static str, at: Duration, now: Duration) {
        let entry = &mut self.entries[slot as usize];
        match entry.place {
            Place::Ready => self.raise(slot, priority),
            Place::Nowhere => {
                (entry.place, entry.time, entry.added, entry.reason) = (Place::Again, at.into(), priority, reason)
            }
            Place::Again => {
                entry.added = entry.added.max(priority);
                if Moment::from(at) < entry.time {
                    (entry.time, entry.reason) = (at.into(), reason);
                }
            }
            Place::Waiting => {
                entry.priority = entry.priority.max(priority);
                if Moment::from(at) < entry.time {
                    entry.reason = reason;
                    self.waiting.remove(&(entry.time, entry.seq));
                    self.put(slot, at, now);
                }
            }
        }
    }

    /// A higher priority moves a ready key behind the others of its new level.
    fn raise(&mut self, slot: u32, priority: i32) {
        let before = self.entries[slot as usize].priority;
        if priority > before {
            self.leave_level(slot, before);
            self.entries[slot as usize].priority = priority;
            self.levels.entry(priority).or_default().push::<ByLevel, _>(&mut self.entries, slot);
        }
    }

    /// Puts a key that is nowhere and not in flight where it belongs, given when it is due.
    fn put(&mut self, slot: u32, due: Duration, now: Duration) {
        let entry = &mut self.entries[slot as usize];
        if due <= now {
            (entry.place, entry.time) = (Place::Ready, now.into());
            self.added += 1;
            self.levels.entry(entry.priority).or_default().push::<ByLevel, _>(&mut self.entries, slot);
            self.ages.push::<ByAge, _>(&mut self.entries, slot);
        } else {
            (entry.place, entry.time, entry.seq) = (Place::Waiting, due.into(), self.next_seq);
            self.waiting.insert((due.into(), self.next_seq), slot);
            self.next_seq += 1;
        }
    }

    fn leave_level(&mut self, slot: u32, priority: i32) {
        let kept = self.levels.len() <= KEPT_LEVELS;
        let Some(level) = self.levels.get_mut(&priority) else { return };
        level.remove::<ByLevel, _>(&mut self.entries, slot);
        if level.is_empty() && !kept {
            self.levels.remove(&priority);
        }
    }

    /// Moves keys whose time has come from waiting to ready.
    pub fn wake(&mut self, now: Duration) {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= now.into()) {
            let slot = first.remove();
            self.put(slot, now, now);
        }
    }

    /// Takes the next key: highest priority first, within a priority first come, first served, and now and then the
    /// one that waited longest ([`Settings::ageing`]). The key is in flight until [`Queue::done`].
    pub fn pop(&mut self, now: Duration) -> Option<Taken<K>> {
        self.wake(now);
        let slot = self.choose()?;
        self.ages.remove::<ByAge, _>(&mut self.entries, slot);
        self.leave_level(slot, self.entries[slot as usize].priority);
        self.take_off(slot);
        let entry = &self.entries[slot as usize];
        Some(Taken {
            key: entry.key.clone(),
            priority: entry.priority,
            failures: entry.failures,
            conflicts: entry.conflicts,
            reason: entry.reason,
            waited: entry.time.until(now),
        })
    }

    fn take_off(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        (entry.place, entry.in_flight) = (Place::Nowhere, true);
        let flight = Flight { hash: entry.hash, slot };
        self.flying.insert_unique(flight.spread(), flight, |flight| flight.spread());
    }

    fn choose(&mut self) -> Option<u32> {
        let oldest = self.ages.first()?;
        let first = self.levels.values().rev().find_map(Chain::first)?;
        self.passed = if first == oldest { 0 } else { self.passed + 1 };
        if self.settings.ageing > 0 && self.passed >= self.settings.ageing {
            self.passed = 0;
            return Some(oldest);
        }
        Some(first)
    }

    /// Ends the flight of a key with what its reconcile gave back. What was added meanwhile counts too: the earlier
    /// time wins. It keeps its priority unless it is given another.
    pub fn done(&mut self, key: &K, outcome: Outcome, priority: Option<i32>, now: Duration) {
        let backoff = self.settings.backoff;
        match outcome {
            Outcome::Done => self.finish(key, None, priority, now),
            Outcome::After(delay) => self.finish(key, Some(now.saturating_add(delay)), priority, now),
            Outcome::Backoff => drop(self.fail(key, |failures| backoff.wait(failures), Duration::ZERO, priority, now)),
        }
    }

    /// Ends the flight of a key that failed; it waits as `wait` says of the number of failures in a row, and at least
    /// `at_least`. A failure counts only if the wait of the one before was over: a key that events push again and
    /// again does not pay for it. Gives the time at which it is due.
    pub fn fail(
        &mut self,
        key: &K,
        wait: impl FnOnce(u32) -> Duration,
        at_least: Duration,
        priority: Option<i32>,
        now: Duration,
    ) -> Duration {
        let Some((slot, entry)) = self.flying(key) else { return now };
        if Moment::from(now) >= entry.blocked_until {
            entry.failures = entry.failures.saturating_add(1);
            entry.blocked_until = now.saturating_add(wait(entry.failures)).into();
        }
        entry.conflicts = 0;
        let due = entry.blocked_until.since_start().max(now.saturating_add(at_least));
        self.land(slot, Some((due, "retry")), priority, now);
        due
    }

    /// Ends the flight of a key that lost against somebody else. That is no failure: what is known of those stays as it
    /// is. It waits as `wait` says of the number of conflicts in a row, and at least `at_least`. Gives the time at which
    /// it is due.
    pub fn conflict(
        &mut self,
        key: &K,
        wait: impl FnOnce(u32) -> Duration,
        at_least: Duration,
        priority: Option<i32>,
        now: Duration,
    ) -> Duration {
        let Some((slot, entry)) = self.flying(key) else { return now };
        entry.conflicts = entry.conflicts.saturating_add(1);
        let due = now.saturating_add(wait(entry.conflicts).max(at_least));
        self.land(slot, Some((due, "conflict")), priority, now);
        due
    }

    /// How many failures in a row a key would have if it failed now.
    #[must_use]
    pub fn failures_with(&self, key: &K, now: Duration) -> u32 {
        self.find(self.hash(key), key).map_or(1, |slot| {
            let entry = &self.entries[slot as usize];
            if Moment::from(now) >= entry.blocked_until { entry.failures.saturating_add(1) } else { entry.failures }
        })
    }

    /// Ends a flight that did not fail.
    fn finish(&mut self, key: &K, again: Option<Duration>, priority: Option<i32>, now: Duration) {
        if let Some((slot, entry)) = self.flying(key) {
            (entry.failures, entry.conflicts) = (0, 0);
            entry.blocked_until = Moment::START;
            self.land(slot, again.map(|at| (at, "poll")), priority, now);
        }
    }

    fn flying(&mut self, key: &K) -> Option<(u32, &mut Entry<K>)> {
        let wanted = Flight { hash: self.hash(key), slot: u32::MAX };
        let is_it = |flight: &Flight| flight.hash == wanted.hash && self.entries[flight.slot as usize].key == *key;
        let slot = self.flying.find(wanted.spread(), is_it)?.slot;
        Some((slot, &mut self.entries[slot as usize]))
    }

    /// Takes a key out of flight and puts it back where its outcome, or what was added meanwhile, wants it.
    fn land(&mut self, slot: u32, wanted: Option<(Duration, &'static str)>, priority: Option<i32>, now: Duration) {
        let entry = &mut self.entries[slot as usize];
        entry.in_flight = false;
        let flight = Flight { hash: entry.hash, slot };
        if let Ok(found) = self.flying.find_entry(flight.spread(), |other| other.slot == slot) {
            found.remove();
        }
        let added = (entry.place == Place::Again).then_some(entry.time.since_start());
        entry.place = Place::Nowhere;
        let kept = priority.unwrap_or(entry.priority);
        let (due, priority, reason) = match (added, wanted) {
            (None, None) => return self.remove(slot),
            (Some(at), None) => (at, entry.added, entry.reason),
            (None, Some((at, reason))) => (at, kept, reason),
            (Some(added), Some((at, _))) if added <= at => (added, kept.max(entry.added), entry.reason),
            (Some(_), Some((at, reason))) => (at, kept.max(entry.added), reason),
        };
        (entry.priority, entry.reason) = (priority, reason);
        self.put(slot, due, now);
    }

    fn remove(&mut self, slot: u32) {
        self.entries.remove(slot as usize);
        if self.entries.is_empty() && self.entries.capacity() > KEPT_ENTRIES {
            self.entries = Slab::new();
            self.leads = Leads::default();
        }
    }

    /// Drops everything that is not in flight, and what in-flight keys were added for again.
    pub fn clear(&mut self) {
        self.levels.clear();
        self.ages = Chain::default();
        self.waiting.clear();
        let idle: Vec<usize> =
            self.entries.iter().filter(|(_, entry)| !entry.in_flight).map(|(slot, _)| slot).collect();
        for (_, entry) in &mut self.entries {
            (entry.place, entry.level, entry.age) = (Place::Nowhere, Link::default(), Link::default());
        }
        for slot in idle {
            self.remove(u32::try_from(slot).unwrap_or(u32::MAX));
        }
    }

    /// When the next waiting key is due; `None` if none waits. Keys that are ready need no waking.
    #[must_use]
    pub fn next_wake(&self) -> Option<Duration> {
        self.waiting.first_key_value().map(|((at, _), _)| at.since_start())
    }

    /// How many keys are ready.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ages.len()
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ages.is_empty()
    }

    /// How many keys wait for their time.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How often a key became ready: one that comes again while it is ready is not counted, one that waits is when its
    /// time has come.
    #[must_use]
    pub fn added(&self) -> u64 {
        self.added
    }

    /// How many keys are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// How many keys are ready, by priority; levels that are empty are left out.
    pub fn depths(&self) -> impl Iterator<Item = (i32, usize)> {
        self.levels.iter().filter(|(_, level)| !level.is_empty()).map(|(priority, level)| (*priority, level.len()))
    }

    /// How long the key that is ready longest has been so.
    #[must_use]
    pub fn oldest(&self, now: Duration) -> Option<Duration> {
        self.ages.first().map(|slot| self.entries[slot as usize].time.until(now))
    }
}
