//! Whether a watch event arrives.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// A watch event that is about to be delivered.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    /// The watch: its path.
    pub watch: &'a str,
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`.
    pub event: &'a str,
    /// Namespace and name of the object.
    pub key: &'a str,
    /// Its resourceVersion.
    pub revision: &'a str,
}

/// What becomes of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It is delivered.
    Deliver,
    /// It waits, and all events of its watch behind it, until the valve's rule changes.
    Hold,
    /// It is silently lost.
    Drop,
    /// The connection breaks instead.
    Cut,
    /// The watch ends with 410 Expired instead.
    Gone,
}

type Rule = Arc<dyn Fn(&Delivery<'_>) -> Flow + Send + Sync>;

/// The valve in front of every watch. In production it is open and costs one comparison.
#[derive(Clone)]
pub struct Valve(Option<Arc<State>>);

struct State {
    rule: Mutex<Rule>,
    changes: watch::Sender<u64>,
}

impl Valve {
    /// Always delivers.
    #[must_use]
    pub fn open() -> Self {
        Self(None)
    }

    /// Delivers by a rule that can be changed while watches run.
    #[must_use]
    pub fn by(rule: impl Fn(&Delivery<'_>) -> Flow + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(State { rule: Mutex::new(Arc::new(rule)), changes: watch::Sender::new(0) })))
    }

    /// Replaces the rule; events that were held are asked about again.
    pub fn set(&self, rule: impl Fn(&Delivery<'_>) -> Flow + Send + Sync + 'static) {
        if let Some(state) = &self.0 {
            *state.rule.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rule);
            state.changes.send_modify(|version| *version += 1);
        }
    }

    /// Whether every event passes.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// Waits until the event need not be held any longer, and says what becomes of it (never [`Flow::Hold`]).
    pub async fn pass(&self, delivery: &Delivery<'_>) -> Flow {
        let Some(state) = &self.0 else { return Flow::Deliver };
        let mut changes = state.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let rule = Arc::clone(&state.rule.lock().unwrap_or_else(PoisonError::into_inner));
            match rule(delivery) {
                Flow::Hold if changes.changed().await.is_ok() => {}
                Flow::Hold => return Flow::Deliver,
                flow => return flow,
            }
        }
    }
}

impl fmt::Debug for Valve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Valve(by rule)" } else { "Valve(open)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn held_events_pass_when_the_rule_changes() {
        let valve = Valve::by(|_| Flow::Hold);
        let delivery = Delivery { watch: "/w", event: "ADDED", key: "a", revision: "1" };
        assert!(tokio::time::timeout(Duration::from_secs(60), valve.pass(&delivery)).await.is_err());
        let (flow, ()) = tokio::join!(valve.pass(&delivery), async { valve.set(|_| Flow::Drop) });
        assert_eq!(flow, Flow::Drop);
        assert_eq!(Valve::open().pass(&delivery).await, Flow::Deliver);
    }
}
