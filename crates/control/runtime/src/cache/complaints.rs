//! Objects that cannot be read: each version of each is told once, however often it is met.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError};

use concert_api::Gvk;

use crate::sync::Mutex;

/// So many are remembered; what was forgotten is told again when it is met again.
const REMEMBERED: usize = 1024;

/// How many there have been of each kind (`Kind` or `Kind.group`), in all caches there ever were.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals(Arc<Mutex<BTreeMap<String, u64>>>);

impl Totals {
    pub(super) fn get(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, kind: &str, more: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(kind.to_owned()).or_default() += more;
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Complaints {
    kind: String,
    totals: Totals,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    all: u64,
    remembered: BTreeSet<u64>,
    /// In the order in which they came.
    order: VecDeque<u64>,
}

impl Complaints {
    pub(super) fn of(gvk: &Gvk, totals: &Totals) -> Self {
        let kind = if gvk.group.is_empty() { gvk.kind.clone() } else { format!("{}.{}", gvk.kind, gvk.group) };
        totals.add(&kind, 0);
        Self { kind, totals: totals.clone(), told: Mutex::default() }
    }

    /// Whether this is met for the first time; `what` tells versions, and what they were read as, apart.
    pub(super) fn is_new(&self, what: impl Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        let what = hasher.finish();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = told.remembered.insert(what);
        if is_new {
            told.all += 1;
            self.totals.add(&self.kind, 1);
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
        self.told.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}
