//! Words about limits that are reached, at most once a minute each: a flood of requests is not answered with a flood
//! of lines.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const PAUSE: Duration = Duration::from_secs(60);

/// Whether it is time to tell of something again.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    since: u64,
}

impl Seldom {
    /// It has happened. How often since it was last told, if it is time to tell it.
    pub(crate) fn times(&self) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.since += 1;
        if told.last.is_some_and(|last| last.elapsed() < PAUSE) {
            return None;
        }
        told.last = Some(Instant::now());
        Some(std::mem::take(&mut told.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_told_once_a_minute_and_counted() {
        let seldom = Seldom::default();
        assert_eq!(seldom.times(), Some(1));
        tokio::time::advance(PAUSE - Duration::from_millis(1)).await;
        assert_eq!(seldom.times(), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(seldom.times(), Some(2));
    }
}
