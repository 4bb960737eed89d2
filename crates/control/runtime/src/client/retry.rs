//! Which requests are worth a second try, and when. Pure.

use std::time::Duration;

use concert_world::Stopped;

use super::error::ApiError;

/// The first wait; doubled each time.
const BASE: Duration = Duration::from_millis(50);
/// The longest wait that is not the server's wish.
const MAX: Duration = Duration::from_secs(5);
/// Then whoever asked has to decide.
const TRIES: u32 = 8;

/// How long to wait before the next try, after `tries` of them; `None` if there should be none. A read can always be
/// repeated. A write only if the server did not take it: it was not reached, or said that it had too much to do.
pub(super) fn wait(error: &ApiError, is_read: bool, tries: u32) -> Option<Duration> {
    if tries >= TRIES {
        return None;
    }
    let backoff = BASE.saturating_mul(1 << tries.min(10)).min(MAX);
    let worth = match error {
        ApiError::Refused { answer, .. } => match answer.code {
            429 => true,
            502..=504 => is_read,
            500 => is_read && answer.retry_after.is_some(),
            _ => false,
        },
        // A process that is to be dead does not try again.
        ApiError::Unreachable { source, .. } => source.downcast_ref::<Stopped>().is_none(),
        ApiError::Broken { .. } => is_read,
        ApiError::TimedOut { .. }
        | ApiError::TooLarge { .. }
        | ApiError::Unreadable { .. }
        | ApiError::Uncached { .. }
        | ApiError::Unsendable { .. } => false,
    };
    worth.then(|| error.retry_after().unwrap_or(backoff))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Answer;

    fn refused(code: u16, retry_after: Option<u64>) -> ApiError {
        let answer = Answer { code, retry_after: retry_after.map(Duration::from_secs), ..Answer::default() };
        ApiError::Refused { action: String::new(), write: true, answer: Box::new(answer) }
    }

    #[test]
    fn what_may_have_happened_is_not_repeated() {
        let broken = || ApiError::Broken { action: String::new(), write: true, source: "x".into() };
        let unreachable = || ApiError::Unreachable { action: String::new(), host: String::new(), source: "x".into() };
        for (error, read, write) in [
            (refused(429, None), true, true),
            (refused(503, None), true, false),
            (refused(504, None), true, false),
            (refused(500, None), false, false),
            (refused(404, None), false, false),
            (refused(409, None), false, false),
            (broken(), true, false),
            (unreachable(), true, true),
        ] {
            assert_eq!((wait(&error, true, 0).is_some(), wait(&error, false, 0).is_some()), (read, write), "{error:?}");
        }
        assert_eq!(wait(&refused(429, Some(3)), false, 2), Some(Duration::from_secs(3)), "as the server wishes");
        assert_eq!(wait(&refused(429, None), false, 2), Some(BASE * 4));
        assert_eq!(wait(&refused(429, None), true, TRIES), None);
    }
}
