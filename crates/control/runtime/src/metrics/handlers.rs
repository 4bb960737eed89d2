//! How long the handlers of sources take, which stand on the way of a watch.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Metrics;
use super::mailboxes::OfSource;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HandlerFamilies {
    seconds: Family<OfSource, Counter<f64, AtomicU64>>,
    /// How long those of each source had taken at the last scrape.
    counted: Mutex<BTreeMap<OfSource, Duration>>,
}

impl HandlerFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "concert_source_handler_seconds",
            "Time in which predicates and mappings of a source held up its watch",
            self.seconds.clone(),
        );
    }
}

impl Metrics {
    /// Before a scrape: how long the handlers of a controller have taken, by source.
    pub(crate) fn handlers(&self, controller: &str, took: &[(String, Duration)]) {
        let families = &self.0.handlers;
        // Several sources may have one name: they are shown as one.
        let mut now: BTreeMap<OfSource, Duration> = BTreeMap::new();
        for (source, took) in took {
            *now.entry(OfSource::new(controller, source)).or_default() += *took;
        }
        let mut counted = families.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|of, _| of.controller != controller || now.contains_key(of));
        for (of, took) in now {
            let counter = families.seconds.get_or_create_owned(&of);
            let before = counted.insert(of, took).unwrap_or_default();
            // Less than before: another source has the name of one that was removed.
            counter.inc_by(took.checked_sub(before).unwrap_or(took).as_secs_f64());
        }
    }
}
