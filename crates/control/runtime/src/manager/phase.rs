//! What starts in which order, and what stops in which: as data.

use std::fmt;

/// When a component runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Endpoints: first to start, last to stop.
    Servers,
    /// What the API server calls: before caches, since a conversion may be needed to list.
    Webhooks,
    /// What others read from. The process's own caches are open from the start and hold up no phase: each controller
    /// waits for its own sources, so that one missing kind stops no other, and readiness waits for all of them. A
    /// component that reads from a cache waits for [`Cache::synced`](crate::Cache::synced); one of this phase that says
    /// when it is ready is waited for like any other.
    Caches,
    /// What runs whether we lead or not.
    Always,
    /// What prepares for leading: so that a standby can take over at once.
    Warmup,
    /// What runs only while we lead: controllers.
    Elected,
}

impl Phase {
    /// The order in which phases start: each when every component of the one before has said that it is
    /// [ready](super::Context::ready), or is over.
    pub const START: [Self; 6] =
        [Self::Servers, Self::Webhooks, Self::Caches, Self::Always, Self::Warmup, Self::Elected];

    /// The order in which phases stop; those in one row together. Controllers stop while their caches still answer,
    /// and probes answer to the end. Afterwards the lease is released, and then the last events are told.
    pub const STOP: [&'static [Self]; 5] =
        [&[Self::Always, Self::Warmup], &[Self::Elected], &[Self::Caches], &[Self::Webhooks], &[Self::Servers]];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Servers => "servers",
            Self::Webhooks => "webhooks",
            Self::Caches => "caches",
            Self::Always => "always",
            Self::Warmup => "warmup",
            Self::Elected => "elected",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_starts_and_stops_once() {
        let mut stops: Vec<Phase> = Phase::STOP.concat();
        stops.sort();
        assert_eq!(stops, Phase::START);
    }
}
