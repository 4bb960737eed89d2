//! How a process runs.

use std::sync::Arc;
use std::time::Duration;

use super::ManagerError;
use crate::cache::Narrowing;
use crate::controller::ControllerDefaults;
use crate::lease::{LeaseSettings, Lock};
use crate::serve::Security;
use crate::shards::ShardSettings;

/// How long a drain may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// Nothing is waited for.
    None,
    /// So long; what is still running then is ended, and named in [`ManagerError::Drain`].
    For(Duration),
    /// As long as it takes.
    Forever,
}

impl Default for Grace {
    fn default() -> Self {
        Self::For(Duration::from_secs(30))
    }
}

/// What to do when the lease is lost: somebody else leads by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLost {
    /// End at once. The process is started anew by whoever watches over it, with nothing left of its old life.
    #[default]
    Exit,
    /// End controllers at once, and run for leadership again. Caches stay as they are. Components of
    /// [`Phase::Elected`](super::Phase::Elected) have to be [repeatable](super::repeatable).
    Rejoin,
}

/// How a process runs.
#[derive(Clone, Debug)]
pub struct ManagerSettings {
    /// Who we are in events and logs.
    pub name: String,
    /// How long a drain may take.
    pub grace: Grace,
    /// Leader election; without it we lead from the start.
    pub lease: Option<LeaseSettings>,
    /// Where candidates meet instead of at a Lease of that name.
    pub lock: Option<Arc<dyn Lock>>,
    /// Controllers run in every replica, each on its share of the keys. Instead of `lease`.
    pub shards: Option<ShardSettings>,
    /// What to do when the lease, or a shard, is lost.
    pub on_lost: OnLost,
    /// What controllers do where their own description says nothing: workers, also by kind, limits of time, and so on.
    pub controllers: ControllerDefaults,
    /// What is watched of each kind where controllers do not say so themselves, in the process's own cluster.
    pub caches: Narrowing,
    /// Flag and address of the metrics endpoint.
    pub metrics: Option<(String, String)>,
    /// How the metrics endpoint keeps strangers out: TLS, and the API server's word on who may read. Plain HTTP for
    /// everybody if `None`.
    pub metrics_security: Option<Security>,
    /// Whether requests to API servers are observed in client-go's histograms (`rest_client_request_duration_seconds` and its
    /// like), and not only counted. They are many series.
    pub request_histograms: bool,
    /// Flag and address of the probes endpoint.
    pub probes: Option<(String, String)>,
    /// Flag and address of the admin endpoint.
    pub admin: Option<(String, String)>,
    /// Whether the admin endpoint may listen elsewhere than on loopback. It tells names of objects, and asks nobody
    /// who they are.
    pub admin_beyond_loopback: bool,
    /// Whether only a leader is ready.
    pub ready_when_leading: bool,
    /// A process whose caches have not heard from the server for so long is not ready.
    pub max_watch_lag: Option<Duration>,
}

impl ManagerSettings {
    /// No election, no endpoints, 30 s to drain.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            grace: Grace::default(),
            lease: None,
            lock: None,
            shards: None,
            on_lost: OnLost::default(),
            controllers: ControllerDefaults::default(),
            caches: Narrowing::default(),
            metrics: None,
            metrics_security: None,
            request_histograms: false,
            probes: None,
            admin: None,
            admin_beyond_loopback: false,
            ready_when_leading: false,
            max_watch_lag: None,
        }
    }

    /// Whether this can work.
    pub(super) fn check(&self) -> Result<(), ManagerError> {
        if self.lease.is_some() && self.shards.is_some() {
            let why = "with shards every replica leads its share; leave out the lease, or the shards";
            return Err(ManagerError::Settings(why.to_owned()));
        }
        if self.lock.is_some() && self.lease.is_none() {
            let why = "a lock needs the lease's settings: who we are, and how fast";
            return Err(ManagerError::Settings(why.to_owned()));
        }
        if let Some(lease) = &self.lease {
            lease.check()?;
        }
        if let Some(shards) = &self.shards {
            shards.check()?;
        }
        Ok(())
    }
}
