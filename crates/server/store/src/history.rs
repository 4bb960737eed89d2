//! What was written, in order.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;

use crate::state::{Entry, Snapshot};
use crate::{Key, RevisionError, Window};

/// Events leave the window in batches of at least this size.
const BATCH: usize = 256;
/// And at most this size: it bounds how long the writes in the same commit wait.
const LARGEST_BATCH: usize = 4 * BATCH;

/// Whether an event stored or removed an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Stored: created if there was no old state.
    Put,
    /// Removed.
    Delete,
}

/// One write. There is exactly one event per revision.
#[derive(Debug)]
pub struct Event<B> {
    /// Its revision.
    pub revision: u64,
    /// Which object.
    pub key: Key,
    /// What happened.
    pub kind: EventKind,
    /// The state before; `None` for a creation.
    pub old: Option<Arc<Entry<B>>>,
    /// The state after; for a deletion the last state, with the deletion's revision.
    pub new: Arc<Entry<B>>,
    /// When.
    pub at: SystemTime,
    encoded: [OnceLock<Bytes>; 2],
}

/// How an event is written for those who send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As text.
    Text,
    /// As bytes.
    Binary,
}

impl<B> Event<B> {
    pub(crate) fn new(
        key: Key,
        kind: EventKind,
        old: Option<Arc<Entry<B>>>,
        new: Arc<Entry<B>>,
        at: SystemTime,
    ) -> Self {
        Self { revision: new.revision, key, kind, old, new, at, encoded: [const { OnceLock::new() }; 2] }
    }

    /// A form of this event that is made once and shared by all who send it so.
    pub fn encoded(&self, encoding: Encoding, encode: impl FnOnce(&Self) -> Bytes) -> Bytes {
        let [text, binary] = &self.encoded;
        let place = match encoding {
            Encoding::Text => text,
            Encoding::Binary => binary,
        };
        place.get_or_init(|| encode(self)).clone()
    }

    fn weight(&self) -> usize {
        self.new.bytes.len() + 256
    }
}

/// The events of the window, by rising revision. Revisions may jump: what was promised ahead of a crash but never used
/// is not used again.
pub(crate) struct History<B> {
    floor: u64,
    weight: usize,
    events: Arc<VecDeque<Arc<Event<B>>>>,
}

impl<B> Clone for History<B> {
    fn clone(&self) -> Self {
        Self { floor: self.floor, weight: self.weight, events: Arc::clone(&self.events) }
    }
}

impl<B> History<B> {
    pub(crate) fn new(floor: u64) -> Self {
        Self { floor, weight: 0, events: Arc::default() }
    }

    /// The newest revision whose event is gone (or never was): states from it on can be read.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn push(&mut self, event: Arc<Event<B>>) {
        debug_assert!(self.events.back().is_none_or(|last| last.revision < event.revision));
        self.weight += event.weight();
        Arc::make_mut(&mut self.events).push_back(event);
    }

    /// How many of the oldest events leave the window now. They leave in batches, so that most commits touch one table
    /// only; but a few large ones do not wait until they are many.
    pub(crate) fn leaving(&self, window: Window, now: SystemTime) -> usize {
        let mut weight = self.weight;
        let old = |event: &Event<B>| now.duration_since(event.at).is_ok_and(|age| age > window.age);
        let outside = self.events.iter().take(LARGEST_BATCH).take_while(|event| {
            let leaves = weight > window.bytes || old(event);
            weight -= event.weight();
            leaves
        });
        let count = outside.count();
        if count >= BATCH || self.weight > window.bytes + window.bytes / 8 { count } else { 0 }
    }

    /// Says that nothing before `floor` can be read, although nothing was written there.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        debug_assert!(self.events.is_empty() && floor >= self.floor);
        self.floor = floor;
    }

    pub(crate) fn oldest(&self, count: usize) -> impl Iterator<Item = &Arc<Event<B>>> {
        self.events.iter().take(count)
    }

    pub(crate) fn drop_oldest(&mut self, count: usize) {
        for event in Arc::make_mut(&mut self.events).drain(..count) {
            self.floor = event.revision;
            self.weight -= event.weight();
        }
    }

    pub(crate) fn check(&self, revision: u64, current: u64) -> Result<(), RevisionError> {
        if revision > current {
            Err(RevisionError::Future { asked: revision, current })
        } else if revision < self.floor {
            Err(RevisionError::Compacted { asked: revision, floor: self.floor })
        } else {
            Ok(())
        }
    }

    pub(crate) fn after(&self, revision: u64, limit: usize) -> Vec<Arc<Event<B>>> {
        let from = self.events.partition_point(|event| event.revision <= revision);
        self.events.range(from..).take(limit).cloned().collect()
    }
}

/// The state as it was at `revision`, by undoing the events that came after it.
pub(crate) fn undo<B>(mut state: Snapshot<B>, revision: u64, after: &[Arc<Event<B>>]) -> Snapshot<B> {
    for event in after.iter().rev() {
        match &event.old {
            Some(old) => state.put(&event.key, Arc::clone(old)),
            None => state.remove(&event.key),
        }
    }
    state.set_revision(revision);
    state
}
