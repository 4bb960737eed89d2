//! Where a watch goes on after it ended: a state machine without I/O.

use std::time::Duration;

use concert_world::Random;

/// The first wait after trouble; doubled each time, as client-go's reflector does.
const BACKOFF_BASE: Duration = Duration::from_millis(800);
/// The longest wait.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Share by which waits are spread, so that many watches do not come back together.
const JITTER: f64 = 0.2;
/// A watch that lived this long was a good one, however a balancer in between cut it: client-go's measure.
const HEALTHY: Duration = Duration::from_secs(1);

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// List everything anew.
    List,
    /// Watch from this resourceVersion on.
    Watch(String),
    /// Wait, then ask again.
    Wait(Duration),
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// The list is complete, as of this resourceVersion.
    Listed(String),
    /// An event or a bookmark arrived.
    Seen(String),
    /// The watch ended without trouble after this time; `events` says whether anything arrived.
    Ended {
        /// How long it lived.
        lived: Duration,
    },
    /// The history is gone.
    Expired,
    /// The server refused or was not reached.
    Failed {
        /// When the server would like to be asked again.
        retry_after: Option<Duration>,
    },
}

/// Remembers how far a watch came.
#[derive(Debug)]
pub(crate) struct Resume {
    random: Random,
    /// Where to go on; `None` before the first list and after 410.
    from: Option<String>,
    troubles: u32,
    wait: Option<Duration>,
}

impl Resume {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, from: None, troubles: 0, wait: None }
    }

    /// The next thing to do.
    pub(crate) fn next(&mut self) -> Step {
        match (self.wait.take(), &self.from) {
            (Some(wait), _) => Step::Wait(wait),
            (None, Some(from)) => Step::Watch(from.clone()),
            (None, None) => Step::List,
        }
    }

    pub(crate) fn note(&mut self, happened: Happened) {
        match happened {
            Happened::Listed(at) => self.from = Some(at),
            Happened::Seen(at) => {
                self.troubles = 0;
                if !at.is_empty() {
                    self.from = Some(at);
                }
            }
            Happened::Ended { lived } if lived >= HEALTHY => self.troubles = 0,
            // A server that ends watches at once would otherwise be asked in a tight loop.
            Happened::Ended { .. } => self.trouble(None),
            Happened::Expired => {
                self.from = None;
                self.trouble(None);
            }
            Happened::Failed { retry_after } => self.trouble(retry_after),
        }
    }

    fn trouble(&mut self, at_least: Option<Duration>) {
        let doubled = BACKOFF_BASE.saturating_mul(1 << self.troubles.min(10)).min(BACKOFF_MAX);
        self.troubles += 1;
        let wait = self.random.jitter(doubled, JITTER).min(BACKOFF_MAX);
        self.wait = Some(wait.max(at_least.unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(resume: &mut Resume) -> Duration {
        match resume.next() {
            Step::Wait(wait) => wait,
            step => panic!("{step:?} instead of a wait"),
        }
    }

    #[test]
    fn goes_on_where_it_was() {
        let mut resume = Resume::new(Random::seeded(1));
        assert_eq!(resume.next(), Step::List);
        resume.note(Happened::Listed("5".into()));
        assert_eq!(resume.next(), Step::Watch("5".into()));
        resume.note(Happened::Seen("9".into()));
        resume.note(Happened::Ended { lived: Duration::from_secs(290) });
        assert_eq!(resume.next(), Step::Watch("9".into()), "a watch that lived its time goes on at once");
    }

    #[test]
    fn lists_anew_when_the_history_is_gone() {
        let mut resume = Resume::new(Random::seeded(1));
        resume.note(Happened::Listed("5".into()));
        resume.note(Happened::Expired);
        assert!(wait(&mut resume) < Duration::from_secs(1));
        assert_eq!(resume.next(), Step::List);
    }

    #[test]
    fn trouble_waits_longer_each_time_until_something_arrives() {
        let mut resume = Resume::new(Random::seeded(1));
        let mut last = Duration::ZERO;
        for _ in 0..5 {
            resume.note(Happened::Failed { retry_after: None });
            let now = wait(&mut resume);
            assert!(now > last && now <= Duration::from_secs(30), "{now:?} after {last:?}");
            last = now;
        }
        resume.note(Happened::Seen(String::new()));
        resume.note(Happened::Failed { retry_after: None });
        assert!(wait(&mut resume) < Duration::from_secs(1));
        resume.note(Happened::Failed { retry_after: Some(Duration::from_secs(77)) });
        assert_eq!(wait(&mut resume), Duration::from_secs(77));
    }
}
