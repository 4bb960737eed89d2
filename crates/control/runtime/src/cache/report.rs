//! What caches look like from outside: for metrics and the admin page.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Cache, CacheState, Informers};
use crate::scope::Scope;

/// What a cache looks like from outside.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CacheReport {
    /// What it knows about.
    pub scope: Scope,
    /// How far it is.
    pub state: CacheState,
    /// How many objects it holds.
    pub objects: usize,
    /// How many bytes these are.
    pub bytes: usize,
    /// How many of them are kept decoded as well, because they were read as a type lately.
    pub decoded: usize,
    /// How long ago its watch was last heard of; `None` if never.
    pub lag: Option<Duration>,
    /// Versions of objects that could not be read, or not as the type that somebody wanted.
    pub undecodable: u64,
    /// How long it took to read and keep all that was heard.
    pub decoding: Duration,
    /// How long it took those who are told of it: so long the watch was held up.
    pub handling: Duration,
}

impl CacheReport {
    fn of(cache: &Cache) -> Self {
        let state = cache.state();
        let lag = state.heard.map(|heard| heard.elapsed());
        let (scope, objects, bytes) = (cache.scope().clone(), cache.len(), cache.bytes());
        let time = |nanoseconds: &AtomicU64| Duration::from_nanos(nanoseconds.load(Ordering::Relaxed));
        let (decoding, handling) = (time(&cache.shared().decoding), time(&cache.shared().handling));
        let decoded = cache.shared().memo.len();
        let undecodable = cache.shared().complaints.count();
        Self { scope, state, objects, bytes, lag, undecodable, decoding, handling, decoded }
    }
}

impl Informers {
    /// How many versions of objects could not be read of each kind (`Kind` or `Kind.group`), or not as the type that
    /// somebody wanted; also in caches that are closed by now.
    #[must_use]
    pub fn undecodable(&self) -> BTreeMap<String, u64> {
        self.totals().get()
    }

    /// What every cache looks like from outside, in the order of their scopes.
    #[must_use]
    pub fn reports(&self) -> Vec<CacheReport> {
        self.caches().iter().map(CacheReport::of).collect()
    }
}
