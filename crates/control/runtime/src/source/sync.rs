//! Waiting for a source to be complete, and what to say meanwhile.

use std::sync::Arc;
use std::time::Duration;

use crate::cache::{Cache, CacheState};
use crate::controller::ControllerError;
use crate::trigger::WhenMissing;
use crate::watch::Trouble;

/// Waits until `cache` has been complete once, or its policy says that it need not be. What is wrong is said at once, and again when
/// it takes longer than `limit`.
pub(super) fn wait(
    controller: &Arc<str>,
    cache: Cache,
    missing: WhenMissing,
    limit: Duration,
) -> impl Future<Output = Result<(), ControllerError>> + Send + use<> {
    let (controller, name) = (Arc::clone(controller), cache.scope().to_string());
    async move {
        let (mut said, mut late) = (None, false);
        let mut time_is_up = Box::pin(tokio::time::sleep(limit));
        loop {
            let state = cache.state();
            // What joined a set of namespaces later may never be complete.
            if state.has_been_synced {
                return Ok(());
            }
            let absent = matches!(state.trouble, Some(Trouble::KindMissing | Trouble::Forbidden(_)));
            if said != state.trouble {
                tell(&controller, &name, &state, missing);
                said = state.trouble.clone();
            }
            match missing {
                WhenMissing::Optional if absent => return Ok(()),
                WhenMissing::Fail if absent || late => return Err(failure(&controller, name, &state, limit)),
                WhenMissing::Optional | WhenMissing::Fail | WhenMissing::Wait => {}
            }
            tokio::select! {
                biased;
                _ = cache.changed_from(&state) => {}
                () = &mut time_is_up, if !late => {
                    late = true;
                    if missing == WhenMissing::Wait {
                        let error = failure(&controller, name.clone(), &state, limit);
                        tracing::error!(controller = %controller, error = %error, "controller waits for a source");
                    }
                }
            }
        }
    }
}

fn tell(controller: &str, source: &str, state: &CacheState, missing: WhenMissing) {
    let Some(trouble) = &state.trouble else { return };
    let what = match missing {
        WhenMissing::Wait => "its workers wait for this source",
        WhenMissing::Fail => "it cannot go on without this source",
        WhenMissing::Optional => "it goes on without this source",
    };
    tracing::warn!(controller, source, trouble = %trouble, "{what}");
}

fn failure(controller: &str, source: String, state: &CacheState, limit: Duration) -> ControllerError {
    let why = match &state.trouble {
        Some(trouble) => trouble.to_string(),
        None => format!("it was still being listed after {limit:?}"),
    };
    ControllerError::Source { controller: controller.to_owned(), source_name: source, why }
}
