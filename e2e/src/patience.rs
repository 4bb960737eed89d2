//! Waiting for what other processes do.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// How often [`eventually`] looks.
const POLL: Duration = Duration::from_millis(50);

/// A moment in the future, on the real clock.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    allowed: Duration,
}

impl Deadline {
    /// The moment `allowed` from now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
    pub fn after(allowed: Duration) -> Self {
        Self { at: Instant::now() + allowed, allowed }
    }

    /// Whether it has passed.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// Sleeps for `interval`; false, without sleeping, when the deadline has passed.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
    pub fn wait(&self, interval: Duration) -> bool {
        if self.is_over() {
            return false;
        }
        std::thread::sleep(interval);
        true
    }
}

/// Lets `time` pass.
#[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// How long something took.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "other processes live in real time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// How long ago that was.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Tries `probe` until it succeeds and gives back what it found.
///
/// # Panics
/// When it has not succeeded in time; the message has `what` was waited for and the last error.
#[track_caller]
pub fn eventually<T, E: Display>(what: &str, allowed: Duration, mut probe: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Deadline::after(allowed);
    let mut attempts = 0_u32;
    loop {
        attempts += 1;
        match probe() {
            Ok(found) => return found,
            Err(error) if !deadline.wait(POLL) => {
                panic!("{what}: not within {:?} ({attempts} attempts); the last one: {error}", deadline.allowed)
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_tried_until_it_succeeds() {
        let mut left = 3;
        let found = eventually("three attempts", Duration::from_secs(5), || {
            left -= 1;
            if left == 0 { Ok("here") } else { Err(format!("{left} left")) }
        });
        assert_eq!(found, "here");
    }

    #[test]
    #[should_panic(expected = "the file: not within 10ms (2 attempts); the last one: not there")]
    fn a_failure_says_what_was_waited_for_and_the_last_error() {
        eventually("the file", Duration::from_millis(10), || Err::<(), _>("not there"));
    }
}
