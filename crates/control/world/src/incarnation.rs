//! Which life of a process acts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// One life of one process. A crash is a dead incarnation, not a dropped future: dropping runs destructors that a
/// dead process would not run. A test kills the incarnation, the gate then refuses everything it still sends, and
/// [`Incarnation::next`] is the process that starts after it. Two live incarnations are a zombie and its successor.
#[derive(Clone, Debug)]
pub struct Incarnation(Arc<Life>);

#[derive(Debug)]
struct Life {
    id: u64,
    ids: Arc<AtomicU64>,
    dead: AtomicBool,
    death: Notify,
}

impl Incarnation {
    /// The first life, number 1.
    #[must_use]
    pub fn first() -> Self {
        Self::number(1, Arc::new(AtomicU64::new(1)))
    }

    /// A further life of the same process.
    #[must_use]
    pub fn next(&self) -> Self {
        let id = self.0.ids.fetch_add(1, Ordering::Relaxed) + 1;
        Self::number(id, Arc::clone(&self.0.ids))
    }

    fn number(id: u64, ids: Arc<AtomicU64>) -> Self {
        Self(Arc::new(Life { id, ids, dead: AtomicBool::new(false), death: Notify::new() }))
    }

    /// Its number; later lives have larger ones.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Ends this life. What it still sends is refused.
    pub fn kill(&self) {
        self.0.dead.store(true, Ordering::SeqCst);
        self.0.death.notify_waiters();
    }

    /// Whether this life has not been killed.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.0.dead.load(Ordering::SeqCst)
    }

    /// Resolves when this life is killed.
    pub async fn died(&self) {
        let death = self.0.death.notified();
        tokio::pin!(death);
        death.as_mut().enable();
        if self.is_alive() {
            death.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn death_is_seen_by_every_clone_and_not_by_the_next_life() {
        let first = Incarnation::first();
        let next = first.next();
        first.clone().kill();
        assert!(!first.is_alive() && next.is_alive());
        assert!(next.id() > first.id());
        first.died().await;
    }
}
