//! How fast requests may be sent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use concert_queue::limiter::Bucket;
use tokio::time::Instant;

/// How fast requests may be sent.
pub(super) struct Limit {
    started: Instant,
    bucket: Mutex<Bucket>,
}

impl Limit {
    pub(super) fn new(per_second: f64, burst: u32) -> Self {
        Self { started: Instant::now(), bucket: Mutex::new(Bucket::new(per_second, burst)) }
    }

    /// How long to wait for one's turn; `None`, and no turn is taken, if it comes too late.
    pub(super) fn wait(&self, at_most: Duration) -> Option<Duration> {
        let now = self.started.elapsed();
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let mut after = *bucket;
        let wait = after.take(now);
        if wait >= at_most {
            return None;
        }
        *bucket = after;
        Some(wait)
    }
}
