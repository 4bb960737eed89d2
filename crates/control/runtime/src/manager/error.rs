//! Why a process ended other than by being told to.

use std::fmt;
use std::time::Duration;

use super::BoxError;
use crate::controller::ControllerError;
use crate::lease::LeaseError;
use crate::serve::ServeError;

/// Why a process ended other than by being told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// An endpoint cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Leadership is gone, or cannot be had.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A controller that was to end in such a case did.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// The settings contradict each other.
    #[error("cannot run with these settings: {0}")]
    Settings(String),
    /// A component failed.
    #[error("{component} failed: {source}")]
    Component {
        /// Which.
        component: String,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// Signals cannot be listened to.
    #[error("cannot listen to signals: {0}")]
    Signals(std::io::Error),
    /// The drain took too long, or was cut short by a second signal.
    #[error("stopped before everything was finished; still running: {}", list(.held_up_by))]
    Drain {
        /// What held it up.
        held_up_by: Vec<HeldUp>,
    },
    /// It was told to run twice.
    #[error("cannot run: it runs already")]
    RunsAlready,
    /// It has stopped: nothing can be added any more.
    #[error("cannot add {0}: the process is stopping")]
    Stopping(String),
}

/// What held up a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
    /// The controller or component.
    pub by: String,
    /// The key that a controller was working on.
    pub key: Option<String>,
    /// How long that key had been worked on, or how long the component had been waited for.
    pub running: Duration,
}

impl fmt::Display for HeldUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.running.as_secs_f64();
        match &self.key {
            Some(key) => write!(f, "{} {key} (for {seconds:.1} s)", self.by),
            None => write!(f, "{} (waited for {seconds:.1} s)", self.by),
        }
    }
}

fn list(held_up_by: &[HeldUp]) -> String {
    held_up_by.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
