//! One create per token.
//!
//! A cancelled call does not stop its handler, and a search followed by a create is not atomic. So a create runs in a
//! task of its own that holds its token's slot; a repeated create waits for it, and gets its result.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Changed;

/// How long the result of a create is remembered: longer than any reconciler waits before it repeats one.
const REMEMBERED: Duration = Duration::from_secs(15 * 60);

/// What a create did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    /// Annotations that it set.
    pub(crate) annotations: BTreeMap<String, String>,
    /// What it gave back.
    pub(crate) changed: Changed,
}

/// The place of one token: locked while its create runs, filled when it succeeded.
pub(crate) type Slot = Arc<tokio::sync::Mutex<Option<Made>>>;

/// The creates that run or ran not long ago, by kind and token.
#[derive(Debug, Default)]
pub(crate) struct Creates(Mutex<Slots>);

#[derive(Debug, Default)]
struct Slots {
    by_token: BTreeMap<String, (Slot, Instant)>,
    /// How many there were left after the last sweep: the next one waits until there are twice as many, so that a
    /// create costs the same however many came before it.
    swept: usize,
}

/// Fewer than this are never worth a sweep.
const FEW: usize = 64;

impl Creates {
    /// The place of a token.
    pub(crate) fn slot(&self, token: &str) -> Slot {
        let now = Instant::now();
        let counts = |slot: &Slot, last: Instant| Arc::strong_count(slot) > 1 || now.duration_since(last) < REMEMBERED;
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.by_token.len() >= (slots.swept * 2).max(FEW) {
            slots.by_token.retain(|_, (slot, last)| counts(slot, *last));
            slots.swept = slots.by_token.len();
        }
        let (slot, last) = slots.by_token.entry(token.to_owned()).or_insert_with(|| (Slot::default(), now));
        if !counts(slot, *last) {
            *slot = Slot::default();
        }
        *last = now;
        Arc::clone(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_result_is_remembered_and_then_forgotten_but_never_while_it_runs() {
        let creates = Creates::default();
        *creates.slot("a").lock().await = Some(Made::default());
        tokio::time::advance(REMEMBERED / 2).await;
        assert!(creates.slot("a").lock().await.is_some());
        let running = creates.slot("b");
        tokio::time::advance(REMEMBERED * 2).await;
        assert!(creates.slot("a").lock().await.is_none(), "it was forgotten");
        assert!(Arc::ptr_eq(&running, &creates.slot("b")), "it runs, and others wait for it");
    }

    #[tokio::test(start_paused = true)]
    async fn old_results_do_not_pile_up() {
        let creates = Creates::default();
        for round in 0..20 {
            for number in 0..500 {
                creates.slot(&format!("{round}-{number}"));
            }
            tokio::time::advance(REMEMBERED * 2).await;
        }
        let kept = creates.0.lock().unwrap().by_token.len();
        assert!(kept <= 1500, "{kept} of 10000");
    }
}
