//! Every row of the table, with what the issue wants of it.

use super::{Aim, Row};
use crate::runtime::peers::Subject;

/// Every row, in the order of the table.
pub const ROWS: &[Row] = &[
    row("cold", COLD_CPU, "µs", &[Aim::BestPeer(4.0)]),
    row("cold", COLD_WALL, "s", &[]),
    row("cold", RESIDENT, "B", &[Aim::AtMost(8_192.0)]),
    row("cold", COLLECTED, "B", &[]),
    row("cold", COLD_PEAK, "B", &[]),
    row("cold", RELIST_CPU, "µs", &[Aim::BestPeer(8.0)]),
    row("cold", RELIST_PEAK, "%", &[Aim::AtMost(5.0)]),
    row("keep", DEFAULT_RESIDENT, "B", DEFAULT_AIMS),
    row("keep", DEFAULT_CPU, "µs", &[]),
    row("keep", KEEP_RESIDENT, "B", &[]),
    row("keep", KEEP_CPU, "µs", &[]),
    row("small", SMALL_CPU, "µs", &[]),
    row("small", SMALL_WALL, "s", &[]),
    row("small", SMALL_RESIDENT, "B", &[]),
    row("maps", MAPS_CPU, "µs", &[]),
    row("maps", MAPS_WALL, "s", &[]),
    row("maps", MAPS_RESIDENT, "B", &[]),
    row("event", EVENT_CPU, "µs", &[Aim::BestPeer(4.0)]),
    row("event", EVENT_LATENCY, "ms", &[]),
    row("queue", QUEUE_SMALL, "µs", &[Aim::AtMost(1.0)]),
    row("queue", QUEUE_LARGE, "µs", &[Aim::AtMost(2.0), Aim::TimesOf(QUEUE_SMALL, 2.0)]),
    row("queue", QUEUE_REPEAT, "µs", &[]),
    row("queue", WHOLE_SMALL, "µs", &[Aim::AtMost(5.0)]),
    row("queue", WHOLE_MIDDLE, "µs", &[Aim::AtMost(5.0)]),
    row("queue", WHOLE_LARGE, "µs", &[Aim::AtMost(5.0)]),
    row("priority", LIVE_LATENCY, "ms", &[]),
    row("priority", LAST_INITIAL, "s", &[]),
    row("index", LIST_SHARED, "µs", &[Aim::AtMost(0.3)]),
    row("index", LIST_COPIED, "µs", &[]),
    row("index", GET, "µs", &[]),
    row("index", LIST_BESIDE, "µs", &[Aim::AtMost(0.3)]),
    row("index", GET_BESIDE, "µs", &[]),
    row("allocated", LIST_BYTES, "B", &[]),
    row("allocated", LIST_BYTES_COPIED, "B", &[]),
    row("kinds", KINDS_RESIDENT, "MB", &[Aim::AtMost(100.0)]),
    row("kinds", KINDS_CPU, "µs", &[]),
    row("kinds", SHARED_RESIDENT, "B", &[]),
    row("kinds", SHARED_CPU, "µs", &[]),
    row("kinds", KINDS_CONNECTIONS, "", &[]),
    row("kinds", CROWDED_RESIDENT, "MB", &[]),
    row("cold-both", BOTH_COLD_CPU, "µs", &[]),
    row("cold-both", BOTH_COLD_WALL, "s", &[]),
    row("event-both", BOTH_EVENT_CPU, "µs", &[]),
    row("event-both", BOTH_EVENT_LATENCY, "ms", &[]),
];

pub(in crate::runtime) const COLD_CPU: &str = "cold sync, CPU per object";
pub(in crate::runtime) const COLD_WALL: &str = "cold sync, on the wall";
pub(in crate::runtime) const RESIDENT: &str = "resident per object";
pub(in crate::runtime) const COLLECTED: &str = "resident per object, after a forced GC";
pub(in crate::runtime) const COLD_PEAK: &str = "peak of the cold sync, per object";
pub(in crate::runtime) const RELIST_CPU: &str = "relist, nothing changed, CPU per object";
pub(in crate::runtime) const RELIST_PEAK: &str = "relists, peak over steady";
pub(in crate::runtime) const DEFAULT_RESIDENT: &str = "managedFields as by default: resident per object";
pub(in crate::runtime) const DEFAULT_CPU: &str = "managedFields as by default: cold sync, CPU per object";
pub(in crate::runtime) const KEEP_RESIDENT: &str = "managedFields kept by all: resident per object";
pub(in crate::runtime) const KEEP_CPU: &str = "managedFields kept by all: cold sync, CPU per object";
pub(in crate::runtime) const SMALL_CPU: &str = "ConfigMaps of 1 KB: cold sync, CPU per object";
pub(in crate::runtime) const SMALL_WALL: &str = "ConfigMaps of 1 KB: cold sync, on the wall";
pub(in crate::runtime) const SMALL_RESIDENT: &str = "ConfigMaps of 1 KB: resident per object";
pub(in crate::runtime) const MAPS_CPU: &str = "ConfigMaps of 2 KB: cold sync, CPU per object";
pub(in crate::runtime) const MAPS_WALL: &str = "ConfigMaps of 2 KB: cold sync, on the wall";
pub(in crate::runtime) const MAPS_RESIDENT: &str = "ConfigMaps of 2 KB: resident per object";
pub(in crate::runtime) const EVENT_CPU: &str = "CPU per event, 9 of 10 dropped";
pub(in crate::runtime) const EVENT_LATENCY: &str = "event to reconcile, p99";
pub(in crate::runtime) const QUEUE_SMALL: &str = "queue alone, 10 thousand keys, per key";
pub(in crate::runtime) const QUEUE_LARGE: &str = "queue alone, 1 million keys, per key";
pub(in crate::runtime) const QUEUE_REPEAT: &str = "queue, 10 keys added 1 million times, per add";
pub(in crate::runtime) const WHOLE_SMALL: &str = "whole controller, 10 thousand keys, per key";
pub(in crate::runtime) const WHOLE_MIDDLE: &str = "whole controller, 100 thousand keys, per key";
pub(in crate::runtime) const WHOLE_LARGE: &str = "whole controller, 1 million keys, per key";
pub(in crate::runtime) const LIVE_LATENCY: &str = "live updates while starting, p99";
pub(in crate::runtime) const LAST_INITIAL: &str = "last initial object done";
pub(in crate::runtime) const LIST_SHARED: &str = "indexed list, per object, shared";
pub(in crate::runtime) const LIST_COPIED: &str = "indexed list, per object, copied";
pub(in crate::runtime) const GET: &str = "get";
pub(in crate::runtime) const LIST_BESIDE: &str = "indexed list beside 1,000 writes/s, per object, shared";
pub(in crate::runtime) const GET_BESIDE: &str = "get beside 1,000 writes/s";
pub(in crate::runtime) const LIST_BYTES: &str = "indexed list of 100, shared: allocated";
pub(in crate::runtime) const LIST_BYTES_COPIED: &str = "indexed list of 100, copied: allocated";
pub(in crate::runtime) const KINDS_RESIDENT: &str = "500 kinds, 10 objects each: resident";
pub(in crate::runtime) const KINDS_CPU: &str = "500 kinds: CPU per event at 1,000/s";
pub(in crate::runtime) const SHARED_RESIDENT: &str = "5 more controllers share Pods: resident per Pod";
pub(in crate::runtime) const SHARED_CPU: &str = "5 more controllers share Pods: CPU per event at 1,000/s";
pub(in crate::runtime) const KINDS_CONNECTIONS: &str = "500 kinds and shared Pods: connections";
pub(in crate::runtime) const CROWDED_RESIDENT: &str = "500 kinds, 200 objects each: resident";
pub(in crate::runtime) const BOTH_COLD_CPU: &str = "both cores: cold sync, CPU per object";
pub(in crate::runtime) const BOTH_COLD_WALL: &str = "both cores: cold sync, on the wall";
pub(in crate::runtime) const BOTH_EVENT_CPU: &str = "both cores: CPU per event";
pub(in crate::runtime) const BOTH_EVENT_LATENCY: &str = "both cores: event to reconcile, p99";

/// How much better than which peer: the figures that the issue goes by (C1b of the reference) are those of peers with their
/// defaults, and the peers keep managedFields. The rows where all strip them, or all keep them, show what is due to that.
const DEFAULT_AIMS: &[Aim] = &[
    Aim::Peer(Subject::ControllerRuntime, 3.0),
    Aim::Peer(Subject::Unstructured, 10.0),
    Aim::Peer(Subject::KubeRs, 10.0),
];

const fn row(workload: &'static str, what: &'static str, unit: &'static str, aims: &'static [Aim]) -> Row {
    Row { workload, what, unit, aims }
}
