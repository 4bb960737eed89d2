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
        let took = |subject: &Subject| self.took.get(&(workload, *subject)).copied();
        let needed: Duration = subjects.iter().filter_map(took).sum();
        let first = !subjects.iter().any(|subject| took(subject).is_some());
        first || self.limit.is_none_or(|limit| self.begun.elapsed() + needed <= limit)
    }

    /// Measures how long this takes.
    pub async fn timed<T>(&mut self, workload: Workload, subject: Subject, work: impl Future<Output = T>) -> T {
        let begin = Instant::now();
        let result = work.await;
        let took = self.took.entry((workload, subject)).or_default();
        *took = begin.elapsed().max(*took);
        result
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
        let clock = |time: Duration| format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60);
        f.write_str(&clock(self.spent()))?;
        self.limit.map_or(Ok(()), |limit| write!(f, " of {}", clock(limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECTS: [Subject; 2] = [Subject::Ours, Subject::KubeRs];

    async fn spend(budget: &mut Budget, workload: Workload, seconds: u64) {
        for subject in SUBJECTS {
            budget.timed(workload, subject, tokio::time::sleep(Duration::from_secs(seconds))).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_that_would_end_too_late_are_not_begun() {
        let mut budget = Budget::new(Some(Duration::from_secs(100)));
        spend(&mut budget, Workload::Cold, 20).await;
        assert!(budget.allows(Workload::Cold, &SUBJECTS), "40 of 100 s are spent, and it takes 40");
        spend(&mut budget, Workload::Cold, 15).await;
        assert!(!budget.allows(Workload::Cold, &SUBJECTS), "70 s are spent: it may take 40 again");
        assert!(budget.allows(Workload::Cold, &SUBJECTS[..1]), "one alone takes 20");
        assert_eq!(budget.to_string(), "1:10 of 1:40");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_never_measured_is_measured_whatever_is_spent() {
        let mut budget = Budget::new(Some(Duration::from_secs(10)));
        spend(&mut budget, Workload::Cold, 20).await;
        assert!(budget.allows(Workload::Event, &SUBJECTS) && !budget.allows(Workload::Cold, &SUBJECTS));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_everything_is_made() {
        let mut budget = Budget::new(None);
        spend(&mut budget, Workload::Cold, 3_600).await;
        assert!(budget.allows(Workload::Cold, &SUBJECTS));
        assert_eq!(budget.to_string(), "120:00");
    }
}
