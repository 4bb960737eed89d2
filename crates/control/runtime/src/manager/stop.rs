//! How a process is told to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::ManagerError;
use crate::tasks::TaskGroup;

/// How a process is told to stop.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Finish what was begun.
    pub drain: CancellationToken,
    /// End at once.
    pub abort: CancellationToken,
    signals: bool,
}

impl Stop {
    /// By SIGTERM or SIGINT; the second one aborts.
    #[must_use]
    pub fn on_signals() -> Self {
        Self { signals: true, ..Self::default() }
    }

    /// By these tokens.
    #[must_use]
    pub fn on(drain: CancellationToken, abort: CancellationToken) -> Self {
        Self { drain, abort, signals: false }
    }

    /// Turns signals into tokens, if that is how.
    pub(super) fn listen(&self, tasks: &mut TaskGroup) -> Result<(), ManagerError> {
        if !self.signals {
            return Ok(());
        }
        if !tracing::dispatcher::has_been_set() {
            // A program that waits for something and does not say so looks like one that hangs.
            eprintln!(
                "concert-runtime: nobody hears what this process says: call tracing_subscriber::fmt().init() first"
            );
        }
        let mut terminate = signal(SignalKind::terminate()).map_err(ManagerError::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ManagerError::Signals)?;
        let tokens = [self.drain.clone(), self.abort.clone()];
        tasks.spawn("signals", async move {
            for token in tokens {
                tokio::select! {
                    biased;
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                token.cancel();
            }
        });
        Ok(())
    }
}
