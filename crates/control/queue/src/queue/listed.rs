//! What is in a queue, for people who wonder why a key is not worked on.

use std::time::Duration;

use super::{Entry, Place, Queue};

/// A key of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed<'a, K> {
    /// The key.
    pub key: &'a K,
    /// Where it is.
    pub whereabouts: Whereabouts,
    /// How urgent it is.
    pub priority: i32,
    /// How many failures in a row it has had.
    pub failures: u32,
    /// Why it was queued last.
    pub reason: &'static str,
}

/// Where a key is. In this order they are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whereabouts {
    /// A worker has it; perhaps it runs once more afterwards.
    InFlight {
        /// Whether it was added meanwhile.
        again: bool,
    },
    /// A worker could take it, for so long.
    Ready(Duration),
    /// It is due after so long.
    Waiting(Duration),
}

impl<K> Queue<K> {
    /// Every key that it knows, in no order.
    pub fn listed(&self, now: Duration) -> impl Iterator<Item = Listed<'_, K>> {
        self.entries.iter().map(move |(_, entry)| {
            let Entry { key, priority, failures, reason, .. } = entry;
            let whereabouts = match entry.place {
                _ if entry.in_flight => Whereabouts::InFlight { again: entry.place == Place::Again },
                Place::Waiting => Whereabouts::Waiting(entry.time.since_start().saturating_sub(now)),
                Place::Ready | Place::Nowhere | Place::Again => Whereabouts::Ready(entry.time.until(now)),
            };
            Listed { key, whereabouts, priority: *priority, failures: *failures, reason }
        })
    }
}
