//! Objects that cannot be read: each version of each is told once, however often it is met.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::PoisonError;

use crate::sync::Mutex;

/// So many are remembered; what was forgotten is told again when it is met again.
const REMEMBERED: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    all: u64,
    remembered: BTreeSet<u64>,
    /// In the order in which they came.
    order: VecDeque<u64>,
}

impl Complaints {
    /// Whether this is met for the first time; `what` tells versions, and what they were read as, apart.
    pub(super) fn is_new(&self, what: impl Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        let what = hasher.finish();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = told.remembered.insert(what);
        if is_new {
            told.all += 1;
            told.order.push_back(what);
            if told.order.len() > REMEMBERED
                && let Some(oldest) = told.order.pop_front()
            {
                told.remembered.remove(&oldest);
            }
        }
        is_new
    }

    /// How many there have been.
    pub(super) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}
