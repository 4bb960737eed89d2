//! A cache that is opened by whoever reads it, and closed when nobody has for a while.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::informers::Spawner;
use super::{Cache, Informers};
use crate::scope::Scope;
use crate::sync::Mutex;

/// A cache that is opened with the first read and closed when it has not been read for a while: for kinds that are
/// needed rarely, or are not known before. All of one scope that wait as long are the same; it stays open from one to the
/// next.
#[derive(Clone)]
pub struct Lazy {
    informers: Informers,
    /// What it knows about, and how long it stays open.
    name: Name,
}

pub(super) type Name = (Scope, Duration);

/// Those that are open in a process.
#[derive(Default)]
pub(super) struct Lazies(Mutex<BTreeMap<Name, Open>>);

struct Open {
    cache: Cache,
    read: Instant,
}

impl Lazy {
    /// The cache, opened if need be; it has then seen nothing yet ([`Cache::synced`]). Must be called within a tokio runtime.
    #[must_use]
    pub fn cache(&self) -> Cache {
        let lazies = self.informers.lazies();
        let mut open = lazies.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.get_mut(&self.name) {
            open.read = Instant::now();
            return open.cache.clone();
        }
        let cache = self.informers.open(self.scope().clone());
        open.insert(self.name.clone(), Open { cache: cache.clone(), read: Instant::now() });
        let (lazies, name) = (Arc::downgrade(lazies), self.name.clone());
        let stop = self.informers.stopping();
        Spawner::of(&self.informers).spawn(format!("idle {}", self.scope()), move |_| async move {
            let _stopped = stop.run_until_cancelled(close_when_idle(lazies, name)).await;
        });
        cache
    }

    /// What it knows about when it is open.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.name.0
    }

    /// The cache, if it is open.
    #[must_use]
    pub fn opened(&self) -> Option<Cache> {
        let open = self.informers.lazies().0.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&self.name).map(|open| open.cache.clone())
    }
}

/// Closes the cache when nobody has read for a while, or nobody could any more.
async fn close_when_idle(lazies: Weak<Lazies>, name: Name) {
    let mut until = Instant::now() + name.1;
    loop {
        tokio::time::sleep_until(until).await;
        let Some(lazies) = lazies.upgrade() else { return };
        match lazies.close_if_idle(&name, Instant::now()) {
            Some(later) => until = later,
            None => return,
        }
    }
}

impl Lazies {
    /// Closes a cache that nobody has read for a while; if somebody has, says when to look again.
    pub(super) fn close_if_idle(&self, name: &Name, now: Instant) -> Option<Instant> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = open.get(name)?.read + name.1;
        if until > now {
            return Some(until);
        }
        let closed = open.remove(name);
        // Not under the lock: the last handle to go stops the watch.
        drop(open);
        drop(closed);
        None
    }
}

impl Informers {
    /// The cache of a scope, opened by the first read and closed when nobody has read for so long.
    #[must_use]
    pub fn lazy(&self, scope: impl Into<Scope>, idle: Duration) -> Lazy {
        Lazy { informers: self.clone(), name: (self.fill(scope.into()), idle) }
    }
}

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lazy({}, {})", self.scope(), if self.opened().is_some() { "open" } else { "closed" })
    }
}
