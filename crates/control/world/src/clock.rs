//! What time it is.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where a simulation's time begins: 2026-01-01T00:00:00Z.
const SIMULATION_START: Duration = Duration::from_secs(1_767_225_600);

/// The source of timestamps. Never used to decide how long to wait.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Simulated { start: SystemTime, since: Arc<std::sync::OnceLock<tokio::time::Instant>> },
}

impl Clock {
    /// The operating system's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that starts at a fixed moment with its first reading and moves as tokio's clock moves.
    #[must_use]
    pub fn simulated() -> Self {
        Self(Source::Simulated { start: UNIX_EPOCH + SIMULATION_START, since: Arc::default() })
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        match &self.0 {
            #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system")]
            Source::System => SystemTime::now(),
            Source::Simulated { start, since } => {
                let now = tokio::time::Instant::now();
                *start + now.duration_since(*since.get_or_init(|| now))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_follows_the_paused_clock() {
        let clock = Clock::simulated();
        let before = clock.now();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().duration_since(before).unwrap(), Duration::from_secs(3600));
    }
}
