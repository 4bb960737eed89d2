//! What happened, in order.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// An append-only list of calls, deliveries, effects and moments. Its [`hash`](Journal::hash) is the identity of a
/// run: two runs of one seed must agree in it. Off in production.
#[derive(Clone, Default)]
pub struct Journal(Option<Arc<Mutex<Pages>>>);

#[derive(Default)]
struct Pages {
    lines: Vec<String>,
    started: Option<tokio::time::Instant>,
}

impl Journal {
    /// Records nothing.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Records everything.
    #[must_use]
    pub fn on() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether it records anything.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Adds one line, with the (virtual) time since the first. `text` is not evaluated when the journal is off.
    pub fn record(&self, kind: &str, text: impl FnOnce() -> String) {
        let Some(pages) = &self.0 else { return };
        let now = tokio::time::Instant::now();
        let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
        let at = now.duration_since(*pages.started.get_or_insert(now));
        pages.lines.push(format!("{:>12.6} {kind} {}", at.as_secs_f64(), text()));
    }

    /// All lines so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.0
            .as_ref()
            .map_or_else(Vec::new, |pages| pages.lock().unwrap_or_else(PoisonError::into_inner).lines.clone())
    }

    /// The identity of the run so far: 128 bits (FNV-1a) over all lines, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        let hash = self.lines().iter().flat_map(|line| line.bytes().chain([b'\n'])).fold(OFFSET, step);
        format!("{hash:032x}")
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Journal({} lines)", self.lines().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_hash_tells_runs_apart() {
        let (a, b) = (Journal::on(), Journal::on());
        a.record("call", || "GET /x".into());
        b.record("call", || "GET /x".into());
        assert_eq!(a.hash(), b.hash());
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        a.record("call", || "GET /y".into());
        assert_ne!(a.hash(), b.hash());
        b.record("call", || "GET /y".into());
        assert_eq!(a.hash(), b.hash(), "virtual time is part of the line and agrees");
        let off = Journal::off();
        off.record("call", || unreachable!("not evaluated when off"));
    }
}
