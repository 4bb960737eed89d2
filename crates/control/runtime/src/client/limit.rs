//! How fast requests may be sent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use concert_queue::limiter::Bucket;
use tokio::time::Instant;

/// The part of the highest rate that each success gives back: after twenty of them it is as it was.
const RECOVERY: f64 = 0.05;
/// The lowest part of it that refusals leave.
const LOWEST: f64 = 0.01;

/// How fast requests may be sent.
pub(super) struct Limit {
    started: Instant,
    highest: f64,
    adapts: bool,
    rate: Mutex<Rate>,
}

struct Rate {
    per_second: f64,
    bucket: Bucket,
}

impl Limit {
    pub(super) fn new(per_second: f64, burst: u32) -> Self {
        let rate = Mutex::new(Rate { per_second, bucket: Bucket::new(per_second, burst) });
        Self { started: Instant::now(), highest: per_second, adapts: false, rate }
    }

    /// One that goes by what the server says.
    pub(super) fn adaptive(per_second: f64, burst: u32) -> Self {
        Self { adapts: true, ..Self::new(per_second, burst) }
    }

    /// The server answered. Additive increase, multiplicative decrease: clients that share a server end up with fair
    /// shares of what it can do.
    pub(super) fn answered(&self, code: u16) {
        if !self.adapts {
            return;
        }
        let now = self.started.elapsed();
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.per_second = match code {
            429 => (rate.per_second / 2.0).max(self.highest * LOWEST),
            200..300 => (rate.per_second + self.highest * RECOVERY).min(self.highest),
            _ => return,
        };
        let per_second = rate.per_second;
        rate.bucket.set_rate(per_second, now);
    }

    /// How long to wait for one's turn; `None`, and no turn is taken, if it comes too late.
    pub(super) fn wait(&self, at_most: Duration) -> Option<Duration> {
        let now = self.started.elapsed();
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let mut after = rate.bucket;
        let wait = after.take(now);
        if wait >= at_most {
            return None;
        }
        rate.bucket = after;
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refusals_slow_down_and_successes_speed_up_again() {
        let limit = Limit::adaptive(100.0, 1);
        let spacing = || {
            limit.wait(Duration::MAX);
            let wait = |_| limit.wait(Duration::MAX).unwrap().as_secs_f64();
            let [first, second] = [0, 1].map(wait);
            second - first
        };
        assert!((spacing() - 0.01).abs() < 1e-6, "100 per second");
        limit.answered(429);
        limit.answered(429);
        assert!((spacing() - 0.04).abs() < 1e-6, "a quarter of it");
        (0..100).for_each(|_| limit.answered(429));
        assert!((spacing() - 1.0).abs() < 1e-6, "a hundredth at least");
        limit.answered(404);
        (0..20).for_each(|_| limit.answered(200));
        assert!((spacing() - 0.01).abs() < 1e-6, "as it was");
        let fixed = Limit::new(100.0, 1);
        fixed.answered(429);
        fixed.wait(Duration::MAX);
        assert!(fixed.wait(Duration::MAX).unwrap() <= Duration::from_millis(10));
    }
}
