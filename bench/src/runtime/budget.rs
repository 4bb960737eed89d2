//! How long a whole run may take, and what is left out so that it does not take longer.
//!
//! The first run of every workload is always made: without it there would be no figure. A further one is made if, going by
//! the longest that it took so far, it will end in time. All subjects of a workload are repeated, or none of them is.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::peers::Subject;
use super::workload::Workload;

/// See the module.
#[derive(Debug)]
pub struct Budget {
    begun: Instant,
    limit: Option<Duration>,
    took: BTreeMap<(Workload, Subject), Duration>,
}

impl Budget {
    /// Time runs from here; without a limit everything is made.
    #[must_use]
    pub fn new(limit: Option<Duration>) -> Self {
        Self { begun: Instant::now(), limit, took: BTreeMap::new() }
    }

    /// Whether these subjects may be measured once more.
    #[must_use]
    pub fn allows(&self, workload: Workload, subjects: &[Subject]) -> bool {
        self.fits(self.spent(), workload, subjects)
    }

    fn fits(&self, spent: Duration, workload: Workload, subjects: &[Subject]) -> bool {
        let took = |subject: &Subject| self.took.get(&(workload, *subject)).copied();
        let needed: Duration = subjects.iter().filter_map(took).sum();
        let first = !subjects.iter().any(|subject| took(subject).is_some());
        first || self.limit.is_none_or(|limit| spent + needed <= limit)
    }

    /// Measures how long this takes.
    pub async fn timed<T>(&mut self, workload: Workload, subject: Subject, work: impl Future<Output = T>) -> T {
        let begin = Instant::now();
        let result = work.await;
        self.note(workload, subject, begin.elapsed());
        result
    }

    fn note(&mut self, workload: Workload, subject: Subject, time: Duration) {
        let took = self.took.entry((workload, subject)).or_default();
        *took = time.max(*took);
    }

    /// Time since the beginning.
    #[must_use]
    pub fn spent(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// How much of it is spent.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clock(self.spent()))?;
        self.limit.map_or(Ok(()), |limit| write!(f, " of {}", clock(limit)))
    }
}

fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECTS: [Subject; 2] = [Subject::Ours, Subject::KubeRs];

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// A budget in which both subjects took these times for the cold sync.
    fn after(limit: Option<Duration>, took: &[u64]) -> Budget {
        let mut budget = Budget::new(limit);
        for (subject, time) in SUBJECTS.into_iter().flat_map(|subject| took.iter().map(move |time| (subject, *time))) {
            budget.note(Workload::Cold, subject, seconds(time));
        }
        budget
    }

    #[test]
    fn repeats_that_would_end_too_late_are_not_begun() {
        let budget = after(Some(seconds(100)), &[20, 15]);
        assert!(budget.fits(seconds(60), Workload::Cold, &SUBJECTS), "it takes 40 s of the 40 that are left");
        assert!(!budget.fits(seconds(61), Workload::Cold, &SUBJECTS), "the longest that it took counts");
        assert!(budget.fits(seconds(61), Workload::Cold, &SUBJECTS[..1]), "one alone takes 20 s");
    }

    #[test]
    fn what_was_never_measured_is_measured_whatever_is_spent() {
        let budget = after(Some(seconds(10)), &[20]);
        assert!(budget.fits(seconds(40), Workload::Event, &SUBJECTS));
        assert!(!budget.fits(seconds(40), Workload::Cold, &SUBJECTS));
    }

    #[test]
    fn without_a_limit_everything_is_made() {
        assert!(after(None, &[3_600]).fits(seconds(7_200), Workload::Cold, &SUBJECTS));
        assert_eq!((clock(seconds(7_205)), clock(seconds(59))), ("120:05".to_owned(), "0:59".to_owned()));
    }
}
