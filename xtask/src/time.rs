//! How long things take. The tasks run real processes, so the time is real too.

use std::fmt;
use std::time::{Duration, Instant};

/// Started with a task, read when it is done.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts to count.
    #[expect(clippy::disallowed_methods, reason = "xtask measures real processes; no test owns its time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// A duration as people read it: `0.4 s`, `3 m 07 s`.
pub(crate) struct Human(pub(crate) Duration);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let text = match seconds {
            0..60 => format!("{:.1} s", self.0.as_secs_f64()),
            _ => format!("{} m {:02} s", seconds / 60, seconds % 60),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_appear_when_they_are_needed() {
        assert_eq!(Human(Duration::from_millis(420)).to_string(), "0.4 s");
        assert_eq!(Human(Duration::from_secs(187)).to_string(), "3 m 07 s");
    }
}
