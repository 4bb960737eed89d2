//! Which turns take long, and when to look again. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// Looks at what is in flight from outside. Times are since some start.
#[derive(Debug)]
pub(super) struct Patience<K> {
    slow_after: Duration,
    known: BTreeMap<K, Known>,
    next: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    since: Duration,
    /// How long it may have taken until it is told of.
    limit: Duration,
}

impl<K: Clone + Ord> Patience<K> {
    pub(super) fn new(slow_after: Duration) -> Self {
        Self { slow_after, known: BTreeMap::new(), next: slow_after }
    }

    /// Who has been in flight for too long, and how long: each for the first time after `slow_after`, then after twice the
    /// time that went by before.
    pub(super) fn look(&mut self, flights: Vec<(K, Duration)>, now: Duration) -> Vec<(K, Duration)> {
        let before = std::mem::take(&mut self.known);
        let mut slow = Vec::new();
        // Who sets out right now is noticed in time.
        self.next = now.saturating_add(self.slow_after);
        for (key, since) in flights {
            let known = before.get(&key).filter(|known| known.since == since).copied();
            let mut known = known.unwrap_or(Known { since, limit: self.slow_after });
            let so_far = now.saturating_sub(since);
            if so_far >= known.limit {
                slow.push((key.clone(), so_far));
                known.limit = so_far.saturating_mul(2).saturating_add(self.slow_after);
            }
            self.next = self.next.min(since.saturating_add(known.limit));
            self.known.insert(key, known);
        }
        slow
    }

    /// When to look again.
    pub(super) fn next_look(&self) -> Duration {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn each_is_told_of_less_and_less_often_and_anew_after_it_ended() {
        let mut patience = Patience::new(S(10));
        let (mut now, mut told) = (S(0), Vec::new());
        while now < S(200) {
            // `a` never ends; `b` runs from 15 to 30, and again from 30 on.
            let b = if now < S(30) { S(15) } else { S(30) };
            let flights = [("a", S(0)), ("b", b)].into_iter().filter(|(_, since)| *since <= now).collect();
            told.extend(patience.look(flights, now).into_iter().map(|(key, so_far)| (key, so_far.as_secs())));
            assert!(patience.next_look() > now);
            now = patience.next_look();
        }
        let of = |key| told.iter().filter(|(one, _)| *one == key).map(|(_, so_far)| *so_far).collect::<Vec<_>>();
        assert_eq!((of("a"), of("b")), (vec![10, 30, 70, 150], vec![10, 10, 30, 70, 150]));
    }

    #[test]
    fn who_never_wants_to_hear_of_it_does_not() {
        let mut patience = Patience::new(Duration::MAX);
        assert_eq!(patience.look(vec![("a", S(1))], S(1_000_000)), []);
        assert_eq!(patience.next_look(), Duration::MAX);
    }
}
