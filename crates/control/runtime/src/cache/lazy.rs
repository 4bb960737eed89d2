//! A cache that is opened by whoever reads it, and closed when nobody has for a while.

use std::fmt;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::informers::Spawner;
use super::{Cache, Informers};
use crate::scope::Scope;
use crate::sync::Mutex;

/// A cache that is opened with the first read and closed when it has not been read for a while: for kinds that are
/// needed rarely, or are not known before. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Lazy(Arc<Inner>);

struct Inner {
    informers: Informers,
    scope: Scope,
    idle: Duration,
    open: Mutex<Option<Open>>,
}

struct Open {
    cache: Cache,
    read: Instant,
}

impl Lazy {
    pub(super) fn new(informers: Informers, scope: Scope, idle: Duration) -> Self {
        Self(Arc::new(Inner { informers, scope, idle, open: Mutex::default() }))
    }

    /// The cache, opened if need be; it has then seen nothing yet ([`Cache::synced`]). Must be called within a tokio runtime.
    #[must_use]
    pub fn cache(&self) -> Cache {
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &mut *open {
            open.read = Instant::now();
            return open.cache.clone();
        }
        let cache = self.0.informers.open(self.0.scope.clone());
        *open = Some(Open { cache: cache.clone(), read: Instant::now() });
        let (inner, idle) = (Arc::downgrade(&self.0), self.0.idle);
        let name = format!("idle {}", self.0.scope);
        let stop = self.0.informers.stopping();
        Spawner::of(&self.0.informers).spawn(name, move |_| async move {
            let _stopped = stop.run_until_cancelled(close_when_idle(inner, idle)).await;
        });
        cache
    }

    /// What it knows about when it is open.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// The cache, if it is open.
    #[must_use]
    pub fn opened(&self) -> Option<Cache> {
        let open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| open.cache.clone())
    }
}

/// Closes the cache when nobody has read for a while, or nobody could any more.
async fn close_when_idle(inner: Weak<Inner>, idle: Duration) {
    let mut until = Instant::now() + idle;
    loop {
        tokio::time::sleep_until(until).await;
        let Some(inner) = inner.upgrade() else { return };
        let mut open = inner.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(read) = open.as_ref().map(|open| open.read) else { return };
        if read + idle <= Instant::now() {
            let closed = open.take();
            // Not under the lock: the last handle to go stops the watch.
            drop(open);
            drop(closed);
            return;
        }
        until = read + idle;
    }
}

impl Informers {
    /// The cache of a scope, opened by the first read and closed when nobody has read for so long.
    #[must_use]
    pub fn lazy(&self, scope: impl Into<Scope>, idle: Duration) -> Lazy {
        Lazy::new(self.clone(), scope.into(), idle)
    }
}

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lazy({}, {})", self.0.scope, if self.opened().is_some() { "open" } else { "closed" })
    }
}
