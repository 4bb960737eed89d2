//! What a process tells about itself besides its controllers: caches, elections, shards, and the process as the
//! operating system sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Metrics, Named};
use crate::cache::CacheReport;
use crate::events::EventCounters;
use crate::watch::Trouble;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct OfCache {
    cluster: String,
    scope: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    cluster: String,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCluster {
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InTrouble {
    cluster: String,
    scope: String,
    trouble: &'static str,
}

/// Every way to be in trouble, as the label says it.
const TROUBLES: [&str; 3] = ["kind_missing", "forbidden", "failing"];

type Seconds = Gauge<f64, AtomicU64>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct HouseFamilies {
    objects: Family<OfCache, Gauge>,
    bytes: Family<OfCache, Gauge>,
    lag: Family<OfCache, Seconds>,
    decode: Family<OfCache, Seconds>,
    skipped: Family<OfCache, Gauge>,
    synced: Family<OfCache, Gauge>,
    trouble: Family<InTrouble, Gauge>,
    slow_paths: Family<Named, Counter>,
    election_failures: Family<Named, Counter>,
    shards: Family<Named, Gauge>,
    rejoins: Counter,
    events_dropped: Family<OfCluster, Counter>,
    events_silenced: Family<OfCluster, Counter>,
    events_failed: Family<OfCluster, Counter>,
    undecodable: Family<OfKind, Counter>,
    /// How many of them were counted of each cache.
    counted: Mutex<BTreeMap<OfCache, u64>>,
    /// The caches that have gauges.
    shown: Mutex<BTreeSet<OfCache>>,
}

impl HouseFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("leader_election_slowpath", "Renewals that had to read first", self.slow_paths.clone());
        registry.register(
            "concert_election_failures",
            "Requests about leases that failed, other than by meeting another candidate",
            self.election_failures.clone(),
        );
        registry.register("concert_rejoins", "Times this process was deposed and ran again", self.rejoins.clone());
        registry.register("concert_shards_held", "Shards that this process holds", self.shards.clone());
        for (name, help, events) in [
            ("concert_events_dropped", "Events not told because too many waited to be sent", &self.events_dropped),
            (
                "concert_events_silenced",
                "Events not told because too many were about one object",
                &self.events_silenced,
            ),
            ("concert_events_failed", "Events that the server did not take", &self.events_failed),
        ] {
            registry.register(name, help, events.clone());
        }
        registry.register("concert_cache_objects", "Objects in a cache", self.objects.clone());
        registry.register("concert_cache_bytes", "Bytes of the objects in a cache", self.bytes.clone());
        registry.register("concert_cache_synced", "Whether a cache has been complete once", self.synced.clone());
        registry.register("concert_cache_skipped_objects", "Objects that cannot be read", self.skipped.clone());
        registry.register(
            "concert_undecodable_objects",
            "Versions of objects that could not be read, or not as the type that was wanted",
            self.undecodable.clone(),
        );
        registry.register(
            "concert_watch_lag_seconds",
            "Time since a watch was last heard of; bookmarks count",
            self.lag.clone(),
        );
        registry.register("concert_watch_decode_seconds", "Time spent decoding what was watched", self.decode.clone());
        registry.register("concert_watch_trouble", "Whether a watch is in trouble, and which", self.trouble.clone());
    }
}

impl Metrics {
    fn house(&self) -> &HouseFamilies {
        &self.0.house
    }

    pub(crate) fn slow_path(&self, lease: &str, more: u64) {
        self.house().slow_paths.get_or_create(&Named { name: lease.to_owned() }).inc_by(more);
    }

    pub(crate) fn election_failure(&self, lease: &str) {
        self.house().election_failures.get_or_create(&Named { name: lease.to_owned() }).inc();
    }

    pub(crate) fn shards(&self, name: &str, held: usize) {
        self.house().shards.get_or_create(&Named { name: name.to_owned() }).set(number(held as u64));
    }

    /// What counts the events of a cluster.
    pub(crate) fn events(&self, cluster: &str) -> EventCounters {
        let (house, of) = (self.house(), OfCluster { cluster: cluster.to_owned() });
        EventCounters {
            dropped: house.events_dropped.get_or_create_owned(&of),
            silenced: house.events_silenced.get_or_create_owned(&of),
            failed: house.events_failed.get_or_create_owned(&of),
        }
    }

    pub(crate) fn rejoined(&self) {
        self.house().rejoins.inc();
    }

    /// Before a scrape: how the caches of a cluster are doing.
    pub(crate) fn caches(&self, cluster: &str, reports: &[CacheReport]) {
        self.forget_caches(cluster);
        self.count_undecodable(cluster, reports);
        let house = self.house();
        for report in reports {
            let of = OfCache { cluster: cluster.to_owned(), scope: report.scope.to_string() };
            house.shown.lock().unwrap_or_else(PoisonError::into_inner).insert(of.clone());
            house.objects.get_or_create(&of).set(number(report.objects as u64));
            house.skipped.get_or_create(&of).set(number(report.state.skipped));
            house.synced.get_or_create(&of).set(report.state.synced.into());
            house.bytes.get_or_create(&of).set(number(report.bytes as u64));
            // What is not known is not shown.
            for (gauges, time) in [(&house.lag, report.lag), (&house.decode, Some(report.decoding))] {
                if let Some(time) = time {
                    gauges.get_or_create(&of).set(time.as_secs_f64());
                }
            }
            let now = report.state.trouble.as_ref().map(trouble_label);
            for trouble in TROUBLES {
                let OfCache { cluster, scope } = of.clone();
                house.trouble.get_or_create(&InTrouble { cluster, scope, trouble }).set((now == Some(trouble)).into());
            }
        }
    }

    /// Adds what each cache could not read since the last scrape.
    fn count_undecodable(&self, cluster: &str, reports: &[CacheReport]) {
        let mut counted = self.house().counted.lock().unwrap_or_else(PoisonError::into_inner);
        let before = counted.extract_if(.., |of, _| of.cluster == cluster).collect::<BTreeMap<_, _>>();
        for report in reports {
            let of = OfCache { cluster: cluster.to_owned(), scope: report.scope.to_string() };
            let gvk = &report.scope.resource.gvk;
            let kind = if gvk.group.is_empty() { gvk.kind.clone() } else { format!("{}.{}", gvk.kind, gvk.group) };
            // Fewer than before: it is another cache of the same scope.
            let (now, known) = (report.undecodable, before.get(&of).copied().unwrap_or(0));
            let counter = self.house().undecodable.get_or_create_owned(&OfKind { cluster: of.cluster.clone(), kind });
            counter.inc_by(now.checked_sub(known).unwrap_or(now));
            counted.insert(of, now);
        }
    }

    /// Shows nothing more of a cluster that has gone.
    pub(crate) fn forget_cluster(&self, cluster: &str) {
        self.forget_caches(cluster);
        let (house, of) = (self.house(), OfCluster { cluster: cluster.to_owned() });
        for events in [&house.events_dropped, &house.events_silenced, &house.events_failed] {
            events.remove(&of);
        }
    }

    /// Shows a cluster's caches no longer: what was there at the last scrape may be gone.
    fn forget_caches(&self, cluster: &str) {
        let house = self.house();
        let mut shown = house.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for of in shown.extract_if(.., |of| of.cluster == cluster) {
            for gauges in [&house.objects, &house.bytes, &house.skipped, &house.synced] {
                gauges.remove(&of);
            }
            for gauges in [&house.lag, &house.decode] {
                gauges.remove(&of);
            }
            for trouble in TROUBLES {
                let OfCache { cluster, scope } = of.clone();
                house.trouble.remove(&InTrouble { cluster, scope, trouble });
            }
        }
    }
}

fn trouble_label(trouble: &Trouble) -> &'static str {
    match trouble {
        Trouble::KindMissing => TROUBLES[0],
        Trouble::Forbidden(_) => TROUBLES[1],
        Trouble::Failing(_) => TROUBLES[2],
    }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
