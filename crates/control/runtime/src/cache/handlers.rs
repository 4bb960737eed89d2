//! Who is told of the changes of a cache, and how long that takes: all of them stand on the way of its writer.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::store::Change;

/// Who takes longer for a change holds up the watch, and everybody else who listens to it. A thousand times what a mapping
/// needs that only looks at the object.
const LIMIT: Duration = Duration::from_millis(100);
/// Who was quick for so long is told of again when it is slow again.
const WELL: Duration = Duration::from_secs(60);

/// Who listens, as people know it, and how long it took for all that it was told.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Empty if it is not that of a controller.
    controller: Arc<str>,
    source: String,
    nanoseconds: AtomicU64,
}

impl Listener {
    pub(crate) fn new(controller: Arc<str>, source: String) -> Arc<Self> {
        Arc::new(Self { controller, source, nanoseconds: AtomicU64::default() })
    }

    /// How long it took for all that it was told.
    pub(crate) fn took(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

/// One who is told.
pub(super) struct Handler {
    call: Box<dyn Fn(&Change) + Send + Sync>,
    listener: Arc<Listener>,
    pace: Pace,
}

impl Handler {
    pub(super) fn new(listener: Arc<Listener>, call: impl Fn(&Change) + Send + Sync + 'static) -> Self {
        Self { call: Box::new(call), listener, pace: Pace::default() }
    }

    pub(super) fn tell(&self, change: &Change) {
        // Whoever panics misses this change; the others, and the watch, go on.
        if catch_unwind(AssertUnwindSafe(|| (self.call)(change))).is_err() {
            tracing::error!(key = %change.key, "a handler of a cache panicked");
        }
    }

    /// So many changes were told between two moments.
    pub(super) fn told(&mut self, changes: usize, began: Instant, now: Instant) {
        let took = now.duration_since(began);
        self.listener.nanoseconds.fetch_add(nanoseconds(took), Ordering::Relaxed);
        if self.pace.is_news(changes, took, now) {
            let Listener { controller, source, .. } = &*self.listener;
            tracing::warn!(
                controller = &**controller,
                source,
                changes,
                seconds = took.as_secs_f64(),
                "a handler of this source blocks: it holds up the watch and all who listen to it; what takes its time \
                 belongs into a Mapping::slow"
            );
        }
    }
}

/// Whether somebody is slow, and was told of.
#[derive(Debug, Default)]
struct Pace {
    slow: Option<Instant>,
}

impl Pace {
    /// Whether it has become slow.
    fn is_news(&mut self, changes: usize, took: Duration, now: Instant) -> bool {
        // Who is told of nothing is not slow.
        if changes == 0 || took <= LIMIT.saturating_mul(u32::try_from(changes).unwrap_or(u32::MAX)) {
            return false;
        }
        let before = self.slow.replace(now);
        before.is_none_or(|before| now.duration_since(before) > WELL + took)
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Handlers {
    next: u64,
    by_id: BTreeMap<u64, Handler>,
}

impl Handlers {
    pub(super) fn add(&mut self, handler: Handler) -> u64 {
        let id = self.next;
        self.next += 1;
        self.by_id.insert(id, handler);
        id
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Handler> {
        self.by_id.remove(&id)
    }

    /// Tells each of changes, in order. From one moment to another: a look at the clock for each who is told, and none
    /// where nothing has changed.
    pub(super) fn tell(&mut self, changes: &[Change], began: Instant) -> Instant {
        let mut now = began;
        if changes.is_empty() {
            return now;
        }
        for handler in self.by_id.values_mut() {
            changes.iter().for_each(|change| handler.tell(change));
            let before = std::mem::replace(&mut now, Instant::now());
            handler.told(changes.len(), before, now);
        }
        now
    }
}

/// For counters of time.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_is_told_of_once_and_again_after_it_was_quick_for_a_while() {
        let mut pace = Pace::default();
        let (began, slow) = (Instant::now(), LIMIT * 2);
        let mut at = |seconds, took, changes| pace.is_news(changes, took, began + Duration::from_secs(seconds));
        assert!(!at(0, LIMIT, 1) && !at(1, slow, 2), "it is what a change takes that counts");
        assert!(at(2, slow, 1) && !at(3, slow, 1) && !at(4, LIMIT, 1) && !at(60, slow, 1));
        assert!(!at(100, LIMIT, 1) && !at(119, slow, 1), "60 seconds have not passed");
        assert!(at(200, slow, 1));
        assert!(!at(500, LIMIT, 1) && at(600, Duration::from_secs(100), 1));
        assert!(!at(700, Duration::from_secs(100), 1), "it never was quick");
        assert!(!at(9000, slow, 0), "nothing was told");
    }
}
