//! The keys of a running controller, for people who wonder why one is not worked on.

use std::cmp::Reverse;
use std::time::Duration;

use concert_queue::{Intake, Listed, Whereabouts};

use crate::reconciler::Key;

/// A key that a controller works on, or will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedKey {
    /// The key.
    pub key: String,
    /// Where it is.
    pub whereabouts: Whereabouts,
    /// How urgent it is.
    pub priority: i32,
    /// How many failures in a row it has had.
    pub failures: u32,
    /// Why it was queued last.
    pub reason: &'static str,
}

/// In flight, then ready as workers take them, then waiting by their time.
fn order<K>(one: &Listed<'_, K>) -> (u8, Reverse<i32>, Reverse<Duration>, Duration) {
    match one.whereabouts {
        Whereabouts::InFlight { .. } => (0, Reverse(0), Reverse(Duration::ZERO), Duration::ZERO),
        Whereabouts::Ready(since) => (1, Reverse(one.priority), Reverse(since), Duration::ZERO),
        Whereabouts::Waiting(due) => (2, Reverse(0), Reverse(Duration::ZERO), due),
    }
}

/// The first `limit` keys. The queue waits meanwhile: of a million keys, only those that are shown are sorted.
pub(super) fn keys<K: Key>(intake: &Intake<K>, limit: usize) -> Vec<QueuedKey> {
    intake.look(|desk, now| {
        let mut all: Vec<Listed<'_, K>> = desk.queue().listed(now).collect();
        if limit < all.len() {
            all.select_nth_unstable_by_key(limit, order);
            all.truncate(limit);
        }
        all.sort_by(|one, other| order(one).cmp(&order(other)).then_with(|| one.key.cmp(other.key)));
        let told = |Listed { key, whereabouts, priority, failures, reason }: Listed<'_, K>| QueuedKey {
            key: key.to_string(),
            whereabouts,
            priority,
            failures,
            reason,
        };
        all.into_iter().map(told).collect()
    })
}
