//! How long a key that failed has to wait.
//!
//! A [`RateLimiter`] is asked once per failure that counts. How many failures in a row a key has had is counted by the
//! [`Queue`](crate::Queue), once, whatever limiters are combined: a failure that came before the wait of the last
//! one was over does not count. Time and randomness are given, so that a limiter is a function of what it was told.

use std::time::Duration;

/// A failure that a limiter is asked about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// How many failures in a row there have been, this one included: 1 for the first.
    pub count: u32,
    /// When it happened.
    pub now: Duration,
    /// A random number, at least 0 and below 1.
    pub random: f64,
}

/// Decides how long keys wait after failures.
pub trait RateLimiter<K>: Send {
    /// How long `key` waits after this failure.
    fn when(&mut self, key: &K, failure: &Failure) -> Duration;

    /// `key` did not fail this time, or was given up: what is remembered of it can go.
    fn forget(&mut self, key: &K) {
        let _ = key;
    }
}

impl<K> RateLimiter<K> for Box<dyn RateLimiter<K>> {
    fn when(&mut self, key: &K, failure: &Failure) -> Duration {
        (**self).when(key, failure)
    }

    fn forget(&mut self, key: &K) {
        (**self).forget(key);
    }
}

/// Exponential: `base`, doubled with each failure, at most `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub base: Duration,
    /// The longest wait.
    pub max: Duration,
}

impl Default for Backoff {
    /// controller-runtime's: 5 ms to 1000 s.
    fn default() -> Self {
        Self { base: Duration::from_millis(5), max: Duration::from_secs(1000) }
    }
}

impl Backoff {
    /// The wait after the `failures`-th failure in a row.
    #[must_use]
    pub fn wait(&self, failures: u32) -> Duration {
        let doubled = 1u32.checked_shl(failures.saturating_sub(1)).and_then(|factor| self.base.checked_mul(factor));
        doubled.unwrap_or(self.max).min(self.max)
    }
}

impl<K> RateLimiter<K> for Backoff {
    fn when(&mut self, _: &K, failure: &Failure) -> Duration {
        self.wait(failure.count)
    }
}

/// `fast` for the first `tries` failures, `slow` from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastSlow {
    /// The wait after the first failures.
    pub fast: Duration,
    /// The wait after all others.
    pub slow: Duration,
    /// How many are the first.
    pub tries: u32,
}

impl<K> RateLimiter<K> for FastSlow {
    fn when(&mut self, _: &K, failure: &Failure) -> Duration {
        if failure.count <= self.tries { self.fast } else { self.slow }
    }
}

/// A token bucket for all keys together: so many retries per second, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    per_second: f64,
    burst: f64,
    /// What is left; below zero when retries are booked ahead.
    tokens: f64,
    filled: Duration,
}

impl Default for Bucket {
    /// client-go's: 10 per second, 100 at once.
    fn default() -> Self {
        Self::new(10.0, 100)
    }
}

impl Bucket {
    /// A full bucket. A rate that is not above zero counts as one in a thousand seconds.
    #[must_use]
    pub fn new(per_second: f64, burst: u32) -> Self {
        let per_second = if per_second > 0.001 { per_second } else { 0.001 };
        Self { per_second, burst: f64::from(burst), tokens: f64::from(burst), filled: Duration::ZERO }
    }

    /// Goes on at another rate from now on; what is booked ahead stays booked.
    pub fn set_rate(&mut self, per_second: f64, now: Duration) {
        let gained = now.saturating_sub(self.filled).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.filled = self.filled.max(now);
        self.per_second = if per_second > 0.001 { per_second } else { 0.001 };
    }

    /// Takes a token, ahead of time if there is none: how long to wait for it.
    pub fn take(&mut self, now: Duration) -> Duration {
        let gained = now.saturating_sub(self.filled).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst) - 1.0;
        self.filled = self.filled.max(now);
        Duration::from_secs_f64((-self.tokens / self.per_second).max(0.0))
    }
}

impl<K> RateLimiter<K> for Bucket {
    fn when(&mut self, _: &K, failure: &Failure) -> Duration {
        self.take(failure.now)
    }
}

/// The longest of what several limiters ask for. [`MaxOf::classic`] is client-go's default.
pub struct MaxOf<K>(Vec<Box<dyn RateLimiter<K>>>);

impl<K> MaxOf<K> {
    /// The longest wait of these.
    #[must_use]
    pub fn new(limiters: Vec<Box<dyn RateLimiter<K>>>) -> Self {
        Self(limiters)
    }

    /// The default of client-go's classic queue: [`Backoff`] per key, [`Bucket`] for all.
    #[must_use]
    pub fn classic() -> Self {
        Self(vec![Box::new(Backoff::default()), Box::new(Bucket::default())])
    }
}

impl<K> RateLimiter<K> for MaxOf<K> {
    fn when(&mut self, key: &K, failure: &Failure) -> Duration {
        // Each is asked, also those whose answer will not be the longest: they count.
        self.0.iter_mut().map(|limiter| limiter.when(key, failure)).max().unwrap_or_default()
    }

    fn forget(&mut self, key: &K) {
        self.0.iter_mut().for_each(|limiter| limiter.forget(key));
    }
}

impl<K> std::fmt::Debug for MaxOf<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MaxOf({} limiters)", self.0.len())
    }
}

/// Makes the waits of another limiter longer by a random share, so that keys that failed together do not come back
/// together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jittered<L> {
    /// What is made longer.
    pub limiter: L,
    /// By how much at most: 0.1 is ten per cent.
    pub share: f64,
}

impl<K, L: RateLimiter<K>> RateLimiter<K> for Jittered<L> {
    fn when(&mut self, key: &K, failure: &Failure) -> Duration {
        let wait = self.limiter.when(key, failure);
        wait.saturating_add(wait.mul_f64((self.share * failure.random).clamp(0.0, 1.0)))
    }

    fn forget(&mut self, key: &K) {
        self.limiter.forget(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn waits(limiter: &mut impl RateLimiter<u8>, counts: &[u32], random: f64) -> Vec<Duration> {
        let ask = |count: &u32| limiter.when(&1, &Failure { count: *count, now: Duration::ZERO, random });
        counts.iter().map(ask).collect()
    }

    #[test]
    fn each_limiter_has_its_own_idea_of_waiting() {
        assert_eq!(
            waits(&mut Backoff::default(), &[1, 2, 3, 20, 99], 0.0),
            [ms(5), ms(10), ms(20), ms(1_000_000), ms(1_000_000)]
        );
        let mut fast_slow = FastSlow { fast: ms(1), slow: ms(100), tries: 2 };
        assert_eq!(waits(&mut fast_slow, &[1, 2, 3, 9], 0.0), [ms(1), ms(1), ms(100), ms(100)]);
        let mut jittered = Jittered { limiter: fast_slow, share: 0.5 };
        assert_eq!(waits(&mut jittered, &[3], 0.0), [ms(100)]);
        assert_eq!(waits(&mut jittered, &[3], 0.5), [ms(125)]);
        assert_eq!(waits(&mut Bucket::new(10.0, 2), &[1; 5], 0.0), [ms(0), ms(0), ms(100), ms(200), ms(300)]);
        let mut both = MaxOf::new(vec![Box::new(fast_slow), Box::new(Bucket::new(10.0, 0))]);
        assert_eq!(waits(&mut both, &[1, 3, 3], 0.0), [ms(100), ms(200), ms(300)]);
    }

    #[test]
    fn a_bucket_refills_with_time_but_never_above_its_brim() {
        let mut bucket = Bucket::new(10.0, 2);
        assert_eq!((bucket.take(ms(0)), bucket.take(ms(0)), bucket.take(ms(0))), (ms(0), ms(0), ms(100)));
        assert_eq!(bucket.take(ms(200)), ms(0), "two tokens came, one was owed");
        for _ in 0..2 {
            assert_eq!(bucket.take(ms(3_600_000)), ms(0));
        }
        assert_eq!(bucket.take(ms(3_600_000)), ms(100), "an hour fills it to two, not to 36,000");
    }

    proptest! {
        #[test]
        fn a_bucket_lets_through_no_more_than_its_rate(gaps in prop::collection::vec(0..500u64, 1..200)) {
            let mut bucket = Bucket::new(5.0, 3);
            let mut now = Duration::ZERO;
            let mut due = Vec::new();
            for gap in gaps {
                now += ms(gap);
                due.push(now + bucket.take(now));
            }
            for (index, at) in due.iter().enumerate() {
                let within = due.iter().filter(|other| **other >= *at && **other < *at + ms(1000)).count();
                prop_assert!(within <= 3 + 5 + 1, "{within} in the second after retry {index}");
            }
        }

        #[test]
        fn waits_grow_and_stay_below_the_longest(count in 1..200u32, random in 0.0..1.0f64) {
            let backoff = Backoff { base: ms(7), max: ms(90_000) };
            prop_assert!(backoff.wait(count) <= backoff.wait(count + 1) && backoff.wait(count) <= backoff.max);
            let wait = Jittered { limiter: backoff, share: 0.2 }.when(&0, &Failure { count, now: ms(0), random });
            prop_assert!(wait >= backoff.wait(count) && wait <= backoff.wait(count).mul_f64(1.2));
        }
    }
}
