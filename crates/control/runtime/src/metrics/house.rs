//! What a process tells about itself besides its controllers: caches, elections, shards, events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
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
    decoded: Family<OfCache, Gauge>,
    lag: Family<OfCache, Seconds>,
    decode: Family<OfCache, Counter<f64, AtomicU64>>,
    handle: Family<OfCache, Counter<f64, AtomicU64>>,
    skipped: Family<OfCache, Gauge>,
    synced: Family<OfCache, Gauge>,
    joining: Family<OfCache, Gauge>,
    trouble: Family<InTrouble, Gauge>,
    slow_paths: Family<Named, Counter>,
    election_failures: Family<Named, Counter>,
    shards: Family<Named, Gauge>,
    rejoins: Counter,
    certificates_read: Counter,
    certificates_unread: Counter,
    events_dropped: Family<OfCluster, Counter>,
    events_silenced: Family<OfCluster, Counter>,
    events_failed: Family<OfCluster, Counter>,
    undecodable: Family<OfKind, Counter>,
    /// How many of them were counted of each kind.
    counted: Mutex<BTreeMap<OfKind, u64>>,
    /// How long decoding and handling had taken at the last scrape.
    spent: Mutex<BTreeMap<OfCache, [Duration; 2]>>,
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
        for (name, help, counter) in [
            ("certwatcher_read_certificate", "Times certificates were read", &self.certificates_read),
            ("certwatcher_read_certificate_errors", "Times they could not be", &self.certificates_unread),
        ] {
            registry.register(name, help, counter.clone());
        }
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
        registry.register(
            "concert_cache_decoded_objects",
            "Objects of a cache that are kept decoded as well, because they were read as a type lately",
            self.decoded.clone(),
        );
        registry.register("concert_cache_synced", "Whether a cache has been complete once", self.synced.clone());
        registry.register(
            "concert_cache_joining",
            "Watches of a cache that was complete before they joined it, and that are not complete yet",
            self.joining.clone(),
        );
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
        registry.register(
            "concert_watch_handler_seconds",
            "Time in which those who are told of what was watched held up the watch",
            self.handle.clone(),
        );
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

    /// A certificate was read, or could not be.
    pub(crate) fn read_certificate(&self, well: bool) {
        self.house().certificates_read.inc();
        if !well {
            self.house().certificates_unread.inc();
        }
    }

    pub(crate) fn rejoined(&self) {
        self.house().rejoins.inc();
    }

    /// What is shown of a cluster.
    pub(crate) fn cluster(&self, name: &str) -> ClusterMetrics {
        ClusterMetrics { metrics: self.clone(), name: name.to_owned(), gone: Arc::default() }
    }

    fn caches(&self, cluster: &str, reports: &[CacheReport], undecodable: BTreeMap<String, u64>) {
        self.forget_caches(cluster);
        self.count_undecodable(cluster, undecodable);
        let house = self.house();
        for (scope, seen) in Seen::by_text(reports) {
            let of = OfCache { cluster: cluster.to_owned(), scope };
            house.shown.lock().unwrap_or_else(PoisonError::into_inner).insert(of.clone());
            house.objects.get_or_create(&of).set(number(seen.objects));
            house.skipped.get_or_create(&of).set(number(seen.skipped));
            house.synced.get_or_create(&of).set((!seen.never_synced).into());
            house.joining.get_or_create(&of).set(number(seen.joining));
            house.bytes.get_or_create(&of).set(number(seen.bytes));
            house.decoded.get_or_create(&of).set(number(seen.decoded));
            // What is not known is not shown.
            if let Some(lag) = seen.lag {
                house.lag.get_or_create(&of).set(lag.as_secs_f64());
            }
            self.spend(&of, [seen.decoding, seen.handling]);
            for trouble in TROUBLES {
                let (OfCache { cluster, scope }, suffers) = (of.clone(), seen.troubles.contains(trouble));
                house.trouble.get_or_create(&InTrouble { cluster, scope, trouble }).set(suffers.into());
            }
        }
        self.forget_spent(cluster);
    }

    /// What is not shown any more has no counters either: scopes of single objects come and go for ever.
    fn forget_spent(&self, cluster: &str) {
        let house = self.house();
        let shown = house.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let mut spent = house.spent.lock().unwrap_or_else(PoisonError::into_inner);
        for (of, _) in spent.extract_if(.., |of, _| of.cluster == cluster && !shown.contains(of)) {
            house.decode.remove(&of);
            house.handle.remove(&of);
        }
    }

    /// Adds what decoding and handling took since the last scrape.
    fn spend(&self, of: &OfCache, now: [Duration; 2]) {
        let house = self.house();
        let mut spent = house.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let before = spent.insert(of.clone(), now).unwrap_or_default();
        for ((counters, now), before) in [&house.decode, &house.handle].into_iter().zip(now).zip(before) {
            // Less than before: one of those that have this text is gone, or another one has come instead.
            let more = now.saturating_sub(before);
            counters.get_or_create(of).inc_by(more.as_secs_f64());
        }
    }

    /// Adds what could not be read of each kind since the last scrape.
    fn count_undecodable(&self, cluster: &str, undecodable: BTreeMap<String, u64>) {
        let mut counted = self.house().counted.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, now) in undecodable {
            let of = OfKind { cluster: cluster.to_owned(), kind };
            let counter = self.house().undecodable.get_or_create_owned(&of);
            let known = counted.entry(of).or_default();
            counter.inc_by(now.saturating_sub(*known));
            *known = now;
        }
    }

    fn forget_cluster(&self, cluster: &str) {
        self.forget_caches(cluster);
        self.forget_spent(cluster);
        let (house, of) = (self.house(), OfCluster { cluster: cluster.to_owned() });
        for events in [&house.events_dropped, &house.events_silenced, &house.events_failed] {
            events.remove(&of);
        }
        let mut counted = house.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, _) in counted.extract_if(.., |of, _| of.cluster == cluster) {
            house.undecodable.remove(&kind);
        }
    }

    /// Shows a cluster's caches no longer: what was there at the last scrape may be gone.
    fn forget_caches(&self, cluster: &str) {
        let house = self.house();
        let mut shown = house.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for of in shown.extract_if(.., |of| of.cluster == cluster) {
            let counts = [&house.objects, &house.bytes, &house.decoded, &house.skipped, &house.synced, &house.joining];
            for gauges in counts {
                gauges.remove(&of);
            }
            house.lag.remove(&of);
            for trouble in TROUBLES {
                let OfCache { cluster, scope } = of.clone();
                house.trouble.remove(&InTrouble { cluster, scope, trouble });
            }
        }
    }
}

/// What is shown of one cluster, until that has gone.
#[derive(Clone, Debug)]
pub(crate) struct ClusterMetrics {
    metrics: Metrics,
    name: String,
    gone: Arc<Mutex<bool>>,
}

impl ClusterMetrics {
    /// Before a scrape: how its caches are doing.
    pub(crate) fn observe(&self, reports: &[CacheReport], undecodable: BTreeMap<String, u64>) {
        // Held to the end: what is forgotten meanwhile must not be shown anew. Within it only families are locked.
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if !*gone {
            self.metrics.caches(&self.name, reports, undecodable);
        }
    }

    /// Shows nothing more of it, whoever may still observe it.
    pub(crate) fn forget(&self) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        *gone = true;
        self.metrics.forget_cluster(&self.name);
    }
}

/// What is shown of caches whose scopes have one text: sets of namespaces may have one name, versions have none.
#[derive(Default)]
struct Seen {
    objects: u64,
    bytes: u64,
    decoded: u64,
    skipped: u64,
    never_synced: bool,
    joining: u64,
    lag: Option<Duration>,
    decoding: Duration,
    handling: Duration,
    troubles: BTreeSet<&'static str>,
}

impl Seen {
    fn by_text(reports: &[CacheReport]) -> BTreeMap<String, Self> {
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        for report in reports {
            let seen = all.entry(report.scope.to_string()).or_default();
            seen.objects += report.objects as u64;
            seen.bytes += report.bytes as u64;
            seen.decoded += report.decoded as u64;
            seen.skipped += report.state.skipped;
            seen.never_synced |= !report.state.has_been_synced;
            seen.joining += report.state.joining;
            seen.lag = seen.lag.max(report.lag);
            seen.decoding += report.decoding;
            seen.handling += report.handling;
            seen.troubles.extend(report.state.trouble.as_ref().map(trouble_label));
        }
        all
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
