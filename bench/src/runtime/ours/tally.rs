//! What reconciles have seen.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use concert_api::Object;
use tokio::time::Instant;

use crate::runtime::load::nanoseconds;
use crate::runtime::protocol::Reply;

/// See the module.
#[derive(Debug)]
pub(super) struct Tally(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    began: Instant,
    count: u64,
    /// From sending to reconciling, in nanoseconds, of what was sent while we looked.
    latencies: Vec<u64>,
    /// When the last object was done that was there from the beginning.
    initial: Duration,
}

impl Default for Tally {
    fn default() -> Self {
        let seen = Seen { began: Instant::now(), count: 0, latencies: Vec::new(), initial: Duration::ZERO };
        Self(Mutex::new(seen))
    }
}

impl Tally {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time runs from here.
    pub(super) fn begin(&self) {
        self.seen().began = Instant::now();
    }

    /// An object was reconciled.
    pub(super) fn note(&self, object: &Object) {
        let sent: u64 = object.annotation("bench.concert.dev/sent").and_then(|sent| sent.parse().ok()).unwrap_or(0);
        let mut seen = self.seen();
        seen.count += 1;
        if sent == 0 {
            seen.initial = seen.began.elapsed();
        } else {
            seen.latencies.push(nanoseconds().saturating_sub(sent));
        }
    }

    /// The figures; latencies begin anew.
    pub(super) fn report(&self) -> Reply {
        let mut seen = self.seen();
        let mut latencies = std::mem::take(&mut seen.latencies);
        latencies.sort_unstable();
        let at = |share: usize| {
            let place = (latencies.len() * share / 100).min(latencies.len().saturating_sub(1));
            latencies.get(place).copied().unwrap_or(0)
        };
        Reply::default()
            .with("count", seen.count)
            .with("live", latencies.len() as u64)
            .with("p50", at(50))
            .with("p99", at(99))
            .with("initial", seen.initial.as_nanos() as u64)
    }
}
