//! Which requests are worth a second try, and when. Pure.
//!
//! A second try is for a server that stumbles. One that is down answers nobody the sooner for being asked more often, and
//! whoever asked has a queue that waits longer each time. So all clones of a client share a [`Budget`].

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use concert_world::{Random, Stopped};

use super::error::ApiError;

/// The first wait; doubled each time.
const BASE: Duration = Duration::from_millis(50);
/// The longest wait that is not the server's wish.
const MAX: Duration = Duration::from_secs(5);
/// Then whoever asked has to decide.
const TRIES: u32 = 8;
/// Share by which waits are longer than they need be, so that those who failed together do not come back together.
const SPREAD: f64 = 0.2;
/// What a full budget has, what a failure takes of it and what an answer gives back: gRPC's rule.
const FULL: u32 = 100;
const TAKES: u32 = 10;
const GIVES: u32 = 1;

/// How many second tries may still be made. Each failure takes a part of it, each answer gives a tenth of that back; below
/// half of it there are none. So a server that is down is tried five times more in all, and then once for each request.
#[derive(Debug)]
pub(super) struct Budget(AtomicU32);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicU32::new(FULL))
    }
}

impl Budget {
    /// The server answered.
    pub(super) fn answered(&self) {
        // Nearly always it is full: then there is nothing to write.
        let more = |left: u32| (left < FULL).then(|| (left + GIVES).min(FULL));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// What became of a request; whether one more try can be spared.
    pub(super) fn met(&self, error: &ApiError) -> bool {
        match error {
            // It answered, although it refused.
            ApiError::Refused { answer, .. } if answer.code < 500 && answer.code != 429 => self.answered(),
            // Something behind it does not work: a webhook, for what only some ask for.
            ApiError::Refused { answer, .. } if answer.code == 500 && answer.retry_after.is_none() => {}
            ApiError::Refused { .. } | ApiError::Unreachable { .. } | ApiError::Broken { .. } => return self.failed(),
            // What is wrong is not the server; of what is too late there is no second try anyway.
            ApiError::TimedOut { .. }
            | ApiError::TooLarge { .. }
            | ApiError::Unreadable { .. }
            | ApiError::Uncached { .. }
            | ApiError::Unsendable { .. } => {}
        }
        true
    }

    /// It did not, or had too much to do; whether that may be tried again.
    fn failed(&self) -> bool {
        let less = |left: u32| Some(left.saturating_sub(TAKES));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or_default();
        before.saturating_sub(TAKES) >= FULL / 2
    }
}

/// A wait, a little longer by a random share.
pub(super) fn spread(wait: Duration, random: &Random) -> Duration {
    random.jitter(wait.mul_f64(1.0 + SPREAD / 2.0), SPREAD / (2.0 + SPREAD))
}

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

    #[test]
    fn a_server_that_is_down_is_tried_a_few_times_more_and_one_that_stumbles_always() {
        let budget = Budget::default();
        assert_eq!((0..100).filter(|_| budget.failed()).count(), 5);
        (0..60).for_each(|_| budget.answered());
        assert!(budget.failed(), "after sixty answers there is one try again");
        assert!(!budget.failed());
        let budget = Budget::default();
        for _ in 0..100 {
            assert!(budget.failed(), "one of eleven");
            (0..10).for_each(|_| budget.answered());
        }
    }

    #[test]
    fn failures_that_are_not_repeated_are_failures_all_the_same() {
        let budget = Budget::default();
        assert_eq!((0..100).filter(|_| budget.met(&refused(503, None))).count(), 5);
        (0..100).for_each(|_| assert!(budget.met(&refused(404, None)), "an answer"));
        assert!(budget.met(&refused(503, None)), "which fills it again");
    }

    #[test]
    fn waits_are_never_shorter_than_wished() {
        let random = Random::seeded(7);
        let (least, most) = (Duration::from_secs(10), Duration::from_secs(12));
        let waits: Vec<Duration> = (0..1000).map(|_| spread(least, &random)).collect();
        let near = Duration::from_millis(1);
        assert!(waits.iter().all(|wait| *wait + near >= least && *wait <= most + near), "{waits:?}");
        assert!(waits.iter().max() > waits.iter().min());
    }
}
