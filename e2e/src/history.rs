//! Whether what many clients saw of one server could have happened one after the other.
//!
//! The server's revisions give the order, so the question is easy: one watch of everything is the log, the log replayed
//! on an empty map is the state at every revision, and each operation must fit into it between its beginning and its
//! end. What a client was told before it asks is the least that it may see; what was begun only after it was answered
//! is more than it may see. Everything is checked in one pass over sorted operations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// An object's name.
pub type Key = String;
/// What was written; every write of a run has a value of its own.
pub type Value = u64;
/// All objects: the revision and value of each.
pub type State = BTreeMap<Key, (u64, Value)>;

/// What a client asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A new object.
    Create(Key, Value),
    /// A new state in place of the one of a revision.
    Replace(Key, Value, u64),
    /// A change of whatever is there.
    Patch(Key, Value),
    /// The end of the object, if it has this revision.
    Delete(Key, u64),
    /// One object.
    Get(Key),
    /// All objects.
    List,
}

/// What it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was written, at this revision.
    Written(u64),
    /// It is gone.
    Deleted,
    /// The object: its revision and value.
    Found(u64, Value),
    /// There is none.
    Absent,
    /// There is one already.
    Exists,
    /// The object has another revision.
    Conflict,
    /// All objects, at a revision.
    Listed(u64, State),
    /// No answer: it may have happened, or may still happen.
    Unknown,
}

/// One operation. Moments are numbers that rise over all clients.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Before it was sent.
    pub begun: u64,
    /// After it was answered.
    pub ended: u64,
    /// What was asked.
    pub act: Act,
    /// What was answered.
    pub outcome: Outcome,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its revision.
    pub revision: u64,
    /// Which object.
    pub key: Key,
    /// Its new value; `None` is its end.
    pub value: Option<Value>,
    /// Whether the watch called it new.
    pub added: bool,
}

/// Why a history could not have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(Violation(format!($($text)+)));
        }
    };
}

/// A state of one object, and for which revisions it lasts.
#[derive(Clone, Copy, Debug)]
struct Version {
    from: u64,
    /// The revision of the next one.
    until: u64,
    value: Option<Value>,
}

/// The log and all that follows from it.
struct Log<'a> {
    events: &'a [Event],
    versions: BTreeMap<&'a str, Vec<Version>>,
    /// Which event wrote a value.
    writers: HashMap<Value, &'a Event>,
}

/// Checks operations against one watch of everything, and the other watches against that one.
///
/// # Errors
/// What could not have happened.
pub fn check(operations: &[Operation], log: &[Event], others: &[Vec<Event>]) -> Result<(), Violation> {
    let log = Log::read(log)?;
    for other in others {
        log.check_watch(other)?;
    }
    log.check_authors(operations)?;
    let bounds = bounds(operations, &log);
    let mut states = Lists::default();
    for (operation, bounds) in operations.iter().zip(&bounds) {
        log.check(operation, *bounds)?;
        states.add(operation, *bounds)?;
    }
    states.check(&log)
}

impl<'a> Log<'a> {
    fn read(events: &'a [Event]) -> Result<Self, Violation> {
        let mut versions: BTreeMap<&str, Vec<Version>> = BTreeMap::new();
        let mut writers = HashMap::new();
        let mut last = 0;
        for event in events {
            let Event { revision, key, value, added } = event;
            ensure!(*revision > last, "the watch shows revision {revision} after {last}");
            last = *revision;
            let history =
                versions.entry(key).or_insert_with(|| vec![Version { from: 0, until: u64::MAX, value: None }]);
            if let Some(before) = history.last_mut() {
                let exists = before.value.is_some();
                ensure!(exists != *added, "revision {revision}: {key} is called new: {added}, and exists: {exists}");
                ensure!(exists || value.is_some(), "revision {revision}: {key} ends and is not there");
                before.until = *revision;
            }
            history.push(Version { from: *revision, until: u64::MAX, value: *value });
            if let Some(value) = value {
                let other = writers.insert(*value, event);
                ensure!(other.is_none(), "value {value} of {key} was written twice: {other:?} and {event:?}");
            }
        }
        Ok(Self { events, versions, writers })
    }

    /// Another watch shows the same, each event once, from where it began to where it ended.
    fn check_watch(&self, other: &[Event]) -> Result<(), Violation> {
        let Some(first) = other.first() else { return Ok(()) };
        let from = self.events.partition_point(|event| event.revision < first.revision);
        let same = self.events[from..].iter().zip(other).find(|(expected, shown)| expected != shown);
        ensure!(same.is_none(), "two watches differ: {same:?}");
        ensure!(self.events[from..].len() >= other.len(), "a watch shows more than there was");
        Ok(())
    }

    /// Whatever happened was asked for, and once.
    fn check_authors(&self, operations: &[Operation]) -> Result<(), Violation> {
        let mut values = BTreeSet::new();
        let mut ends: HashMap<(&str, u64), usize> = HashMap::new();
        for operation in operations {
            match &operation.act {
                Act::Create(_, value) | Act::Replace(_, value, _) | Act::Patch(_, value) => {
                    values.insert(*value);
                }
                Act::Delete(key, revision) => *ends.entry((key.as_str(), *revision)).or_default() += 1,
                Act::Get(_) | Act::List => {}
            }
        }
        let unasked = self.writers.iter().find(|(value, _)| !values.contains(value));
        ensure!(unasked.is_none(), "nobody wrote {unasked:?}");
        for (key, versions) in &self.versions {
            for pair in versions.windows(2).filter(|pair| pair[1].value.is_none()) {
                let (old, end) = (pair[0].from, pair[1].from);
                ensure!(ends.contains_key(&(*key, old)), "revision {end}: nobody deleted {key} of revision {old}");
            }
        }
        Ok(())
    }

    fn versions(&self, key: &str) -> &[Version] {
        const NEVER: &[Version] = &[Version { from: 0, until: u64::MAX, value: None }];
        self.versions.get(key).map_or(NEVER, Vec::as_slice)
    }

    /// Whether the object was in such a state at some revision of the bounds.
    fn sometime(&self, key: &str, bounds: Bounds, like: impl Fn(&Version) -> bool) -> bool {
        let versions = self.versions(key);
        let first = versions.partition_point(|version| version.until <= bounds.least);
        versions[first..].iter().take_while(|version| version.from <= bounds.most).any(like)
    }

    fn written_at(&self, key: &str, value: Value) -> Option<u64> {
        self.writers.get(&value).filter(|event| event.key == key).map(|event| event.revision)
    }

    /// The revision at which an operation took effect, as far as that is known.
    fn effect(&self, operation: &Operation) -> Option<u64> {
        match &operation.act {
            Act::Create(key, value) | Act::Replace(key, value, _) | Act::Patch(key, value) => {
                self.written_at(key, *value)
            }
            Act::Delete(key, revision) => match operation.outcome {
                Outcome::Deleted => {
                    let versions = self.versions(key);
                    let at = versions.iter().position(|version| version.from == *revision)?;
                    versions.get(at + 1).filter(|next| next.value.is_none()).map(|next| next.from)
                }
                _ => None,
            },
            Act::Get(_) | Act::List => None,
        }
    }

    fn check(&self, operation: &Operation, bounds: Bounds) -> Result<(), Violation> {
        let effect = self.effect(operation);
        let fits = effect.is_none_or(|at| at > bounds.least && at <= bounds.most);
        ensure!(fits, "{operation:?} took effect at {effect:?}, outside of {bounds:?}");
        let key = match &operation.act {
            Act::Create(key, _) | Act::Replace(key, ..) | Act::Patch(key, _) | Act::Delete(key, _) | Act::Get(key) => {
                key
            }
            Act::List => return Ok(()),
        };
        let possible = match (&operation.outcome, &operation.act) {
            (Outcome::Written(revision), Act::Replace(_, _, expected)) => {
                effect == Some(*revision) && self.replaced(key, *revision) == Some(*expected)
            }
            (Outcome::Written(revision), _) => effect == Some(*revision),
            (Outcome::Deleted, _) => effect.is_some(),
            (Outcome::Unknown | Outcome::Listed(..), _) => true,
            // What was refused did not happen.
            (_, Act::Create(..) | Act::Replace(..) | Act::Patch(..)) if effect.is_some() => false,
            (Outcome::Found(revision, value), _) => {
                self.sometime(key, bounds, |version| version.from == *revision && version.value == Some(*value))
            }
            (Outcome::Absent, _) => self.sometime(key, bounds, |version| version.value.is_none()),
            (Outcome::Exists, _) => self.sometime(key, bounds, |version| version.value.is_some()),
            (Outcome::Conflict, Act::Replace(_, _, expected) | Act::Delete(_, expected)) => {
                self.sometime(key, bounds, |version| version.from != *expected)
            }
            (Outcome::Conflict, _) => false,
        };
        ensure!(possible, "{operation:?} with {bounds:?} cannot be: {:?}", self.near(key, bounds));
        Ok(())
    }

    /// The revision of the state that was replaced at `revision`.
    fn replaced(&self, key: &str, revision: u64) -> Option<u64> {
        self.versions(key).iter().find(|version| version.until == revision).map(|version| version.from)
    }

    fn near(&self, key: &str, bounds: Bounds) -> Vec<Version> {
        let versions = self.versions(key).iter();
        versions
            .filter(|version| version.until > bounds.least && version.from <= bounds.most)
            .take(5)
            .copied()
            .collect()
    }
}

/// The newest revision that an operation's client may already know, and the newest that it may see.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    least: u64,
    most: u64,
}

/// The bounds of each operation, from what ended before it began and what began after it ended.
fn bounds(operations: &[Operation], log: &Log<'_>) -> Vec<Bounds> {
    let known = |operation: &Operation| match &operation.outcome {
        Outcome::Written(revision) | Outcome::Found(revision, _) | Outcome::Listed(revision, _) => *revision,
        Outcome::Deleted => log.effect(operation).unwrap_or_default(),
        Outcome::Absent | Outcome::Exists | Outcome::Conflict | Outcome::Unknown => 0,
    };
    let order = |moment: fn(&Operation) -> u64| {
        let mut order: Vec<usize> = (0..operations.len()).collect();
        order.sort_unstable_by_key(|at| moment(&operations[*at]));
        order
    };
    let (by_begin, by_end) = (order(|operation| operation.begun), order(|operation| operation.ended));
    let mut bounds = vec![Bounds { least: 0, most: u64::MAX }; operations.len()];
    let (mut ended, mut least) = (by_end.iter().peekable(), 0);
    for at in &by_begin {
        while let Some(before) = ended.next_if(|before| operations[**before].ended < operations[*at].begun) {
            least = least.max(known(&operations[*before]));
        }
        bounds[*at].least = least;
    }
    let (mut begun, mut most) = (by_begin.iter().rev().peekable(), u64::MAX);
    for at in by_end.iter().rev() {
        while let Some(after) = begun.next_if(|after| operations[**after].begun > operations[*at].ended) {
            most = most.min(log.effect(&operations[*after]).map_or(u64::MAX, |revision| revision - 1));
        }
        // Without an answer it may happen after everything.
        let unknown = operations[*at].outcome == Outcome::Unknown;
        bounds[*at].most = if unknown { u64::MAX } else { most };
    }
    bounds
}

/// Lists, by their revision: all are compared with one replay of the log.
#[derive(Default)]
struct Lists<'a>(BTreeMap<u64, Vec<&'a State>>);

impl<'a> Lists<'a> {
    fn add(&mut self, operation: &'a Operation, bounds: Bounds) -> Result<(), Violation> {
        if let Outcome::Listed(revision, items) = &operation.outcome {
            let fits = *revision >= bounds.least && *revision <= bounds.most;
            ensure!(fits, "a list at {revision} is outside of {bounds:?}");
            self.0.entry(*revision).or_default().push(items);
        }
        Ok(())
    }

    fn check(&self, log: &Log<'_>) -> Result<(), Violation> {
        let mut state = State::new();
        let mut events = log.events.iter().peekable();
        for (revision, lists) in &self.0 {
            while let Some(event) = events.next_if(|event| event.revision <= *revision) {
                match event.value {
                    Some(value) => state.insert(event.key.clone(), (event.revision, value)),
                    None => state.remove(&event.key),
                };
            }
            let wrong = lists.iter().find(|list| ***list != state);
            ensure!(wrong.is_none(), "a list at {revision} shows {wrong:?} instead of {state:?}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
