//! Places for connections. Whoever has not shown who they are has one only while there are others: if all are taken,
//! the stranger who came first leaves for the one who comes now, so that strangers never keep anybody out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::seldom::Seldom;

/// All places of a listener.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    state: Mutex<State>,
    /// A place is free.
    freed: Notify,
    sent_away: Seldom,
    full: Seldom,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// The number of the next one who comes.
    next: u64,
    /// Those who have not shown who they are, in the order in which they came.
    strangers: BTreeMap<u64, CancellationToken>,
}

impl Places {
    pub(super) fn new(limit: usize) -> Self {
        let (state, freed) = (Mutex::default(), Notify::new());
        Self(Arc::new(Shared { limit, state, freed, sent_away: Seldom::default(), full: Seldom::default() }))
    }

    /// A place: a free one, or else that of the first stranger. Waits if all belong to known ones.
    pub(super) async fn take(&self) -> Place {
        loop {
            let freed = self.0.freed.notified();
            if let Some(place) = self.try_take() {
                return place;
            }
            if let Some(times) = self.0.full.times() {
                tracing::warn!(limit = self.0.limit, times, "too many connections: further ones wait");
            }
            freed.await;
        }
    }

    fn try_take(&self) -> Option<Place> {
        let mut state = self.0.state();
        if state.taken >= self.0.limit {
            self.send_away(&mut state)?;
        }
        let (number, leave) = (state.next, CancellationToken::new());
        state.next += 1;
        state.taken += 1;
        state.strangers.insert(number, leave.clone());
        Some(Place {
            badge: Arc::new(Badge { shared: Arc::clone(&self.0), number, known: AtomicBool::new(false) }),
            leave,
        })
    }

    /// Sends the first stranger away, if there is one: for a process that has no more descriptors.
    pub(super) fn make_room(&self) {
        self.send_away(&mut self.0.state());
    }

    /// Its place is free at once, also if it takes a moment to go.
    fn send_away(&self, state: &mut State) -> Option<()> {
        let (_, leave) = state.strangers.pop_first()?;
        state.taken -= 1;
        leave.cancel();
        if let Some(times) = self.0.sent_away.times() {
            let limit = self.0.limit;
            tracing::warn!(limit, times, "too many connections: the oldest that has not authenticated is closed");
        }
        Some(())
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    badge: Arc<Badge>,
    leave: CancellationToken,
}

impl Place {
    /// By which it is told that its holder is known.
    pub(super) fn badge(&self) -> Arc<Badge> {
        Arc::clone(&self.badge)
    }

    /// Until the holder has to leave.
    pub(super) async fn lost(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.badge.shared.state();
        if !self.leave.is_cancelled() {
            state.strangers.remove(&self.badge.number);
            state.taken -= 1;
        }
        drop(state);
        self.badge.shared.freed.notify_one();
    }
}

/// Whose place it is.
#[derive(Debug)]
pub(super) struct Badge {
    shared: Arc<Shared>,
    number: u64,
    known: AtomicBool,
}

impl Badge {
    /// The holder has shown who they are, and may stay.
    pub(super) fn known(&self) {
        if !self.known.swap(true, Ordering::Relaxed) {
            self.shared.state().strangers.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn the_first_stranger_leaves_for_the_next_one() {
        let places = Places::new(3);
        let known = places.take().await;
        known.badge().known();
        let (second, third) = (places.take().await, places.take().await);
        let fourth = places.take().await;
        assert!(second.lost().now_or_never().is_some());
        assert!(known.lost().now_or_never().is_none() && third.lost().now_or_never().is_none());
        drop(second);
        third.badge().known();
        fourth.badge().known();
        assert!(places.take().now_or_never().is_none(), "all are known");
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.take().await }
        });
        tokio::task::yield_now().await;
        drop(third);
        let fifth = waiting.await.unwrap();
        assert_eq!(places.0.state().taken, 3);
        drop((known, fourth, fifth));
        let state = places.0.state();
        assert_eq!((state.taken, state.strangers.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_known_ones_have_a_place_and_the_next_one_waits() {
        let places = Places::new(super::super::ConnectionLimits::default().connections);
        let mut known = Vec::new();
        for _ in 0..1000 {
            let place = places.take().now_or_never().expect("there is room");
            place.badge().known();
            known.push(place);
        }
        assert!(places.take().now_or_never().is_none());
        known.pop();
        assert!(places.take().now_or_never().is_some());
        assert!(known.iter().all(|place| place.lost().now_or_never().is_none()));
    }
}
