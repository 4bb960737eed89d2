//! What the mappings that may take their time have not done yet.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Metrics;
use crate::source::Backlog;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
pub(super) struct OfSource {
    pub(super) controller: String,
    source: String,
}

impl OfSource {
    pub(super) fn new(controller: &str, source: &str) -> Self {
        Self { controller: controller.to_owned(), source: source.to_owned() }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct MailboxFamilies {
    waiting: Family<OfSource, Gauge>,
    oldest: Family<OfSource, Gauge<f64, AtomicU64>>,
    folded: Family<OfSource, Counter>,
    /// The sources that have gauges, and how many of their changes were folded at the last scrape.
    shown: Mutex<BTreeMap<OfSource, u64>>,
}

impl MailboxFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "concert_source_waiting",
            "Changes that wait for a mapping that may take its time",
            self.waiting.clone(),
        );
        registry.register(
            "concert_source_oldest_seconds",
            "Since when the first of these changes waits",
            self.oldest.clone(),
        );
        registry.register(
            "concert_source_folded",
            "Changes that were folded into one of the same object that waited",
            self.folded.clone(),
        );
    }
}

impl Metrics {
    /// Before a scrape: what waits in the mailboxes of a controller, by source. What is not named is not shown any more.
    pub(super) fn mailboxes(&self, controller: &str, backlogs: &[(String, Backlog)]) {
        let families = &self.0.mailboxes;
        // Several sources may have one name: they are shown as one.
        let mut now: BTreeMap<OfSource, Backlog> = BTreeMap::new();
        for (source, backlog) in backlogs {
            let sum = now.entry(OfSource::new(controller, source)).or_default();
            sum.waiting += backlog.waiting;
            sum.folded += backlog.folded;
            sum.oldest = sum.oldest.max(backlog.oldest);
        }
        let mut shown = families.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for (of, _) in shown.extract_if(.., |of, _| of.controller == controller && !now.contains_key(of)) {
            families.waiting.remove(&of);
            families.oldest.remove(&of);
        }
        for (of, backlog) in now {
            families.waiting.get_or_create(&of).set(i64::try_from(backlog.waiting).unwrap_or(i64::MAX));
            families.oldest.get_or_create(&of).set(backlog.oldest.map_or(0.0, |oldest| oldest.as_secs_f64()));
            let folded = families.folded.get_or_create_owned(&of);
            let before = shown.insert(of, backlog.folded).unwrap_or(0);
            // Fewer than before: another source has the name of one that was removed.
            folded.inc_by(backlog.folded.checked_sub(before).unwrap_or(backlog.folded));
        }
    }
}
