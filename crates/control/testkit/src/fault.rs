//! One fault at one call.

use std::sync::Mutex;
use std::sync::PoisonError;

use concert_world::{Call, Gate, Verdict};

/// Gives one verdict to the `at`th call (counted from 0) and lets all others pass. It counts, so that a run without a
/// fault tells how many calls there are.
#[derive(Debug)]
pub struct Fault {
    at: Option<usize>,
    verdict: Verdict,
    calls: Mutex<Vec<String>>,
}

impl Fault {
    /// No fault: only counts.
    #[must_use]
    pub fn none() -> Self {
        Self { at: None, verdict: Verdict::Pass, calls: Mutex::default() }
    }

    /// `verdict` at the `at`th call.
    #[must_use]
    pub fn at(at: usize, verdict: Verdict) -> Self {
        Self { at: Some(at), verdict, calls: Mutex::default() }
    }

    /// The calls so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Gate for Fault {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let here = self.at == Some(calls.len());
        calls.push(format!("{:?} {} {}", call.actor, call.verb, call.key));
        if here { self.verdict.clone() } else { Verdict::Pass }
    }
}
