//! Leader election on a `coordination.k8s.io/v1` Lease, with client-go's rules and timings.
//!
//! A lease is not a lock: it saves work. What must not happen twice is guarded by preconditions and by the *fence*,
//! the resourceVersion of the write that acquired the lease, which grows with every change of leader.

mod elector;

use std::fmt;
use std::time::Duration;

use concert_api::{Gvk, ObjectKey, Time};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{ApiError, Client};
use crate::metrics::Metrics;
use crate::resource::Resource;
use elector::{Decision, Elector, Record};

/// Share by which followers spread their attempts, as client-go does.
const JITTER: f64 = 1.2;

/// Which lease, in whose name, and how fast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who we are; unique among candidates.
    pub identity: String,
    /// How long others wait after the last renewal before they take over.
    pub duration: Duration,
    /// How long a leader tries to renew before it gives up. Must be less than `duration`.
    pub renew_deadline: Duration,
    /// How long to wait between attempts.
    pub retry: Duration,
    /// Whether to give the lease up at the end, so that the next one need not wait.
    pub release: bool,
}

impl LeaseSettings {
    /// client-go's timings: 15 s, 10 s, 2 s; released at the end.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
            release: true,
        }
    }
}

/// Whether we lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Not known yet.
    #[default]
    Unknown,
    /// Somebody else leads.
    Following {
        /// Who.
        leader: String,
    },
    /// We lead.
    Leading {
        /// The resourceVersion of the write that acquired the lease.
        fence: String,
    },
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("not known yet"),
            Self::Following { leader } if leader.is_empty() => f.write_str("nobody leads"),
            Self::Following { leader } => write!(f, "{leader:?} leads"),
            Self::Leading { fence } => write!(f, "we lead, since revision {fence}"),
        }
    }
}

/// Why an election ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// We led and could not renew in time, or somebody took over.
    #[error("lost the lease \"{name}\": {why}")]
    Lost {
        /// The Lease.
        name: String,
        /// What happened.
        why: String,
    },
}

/// A candidate.
#[derive(Debug)]
pub struct Lease {
    client: Client,
    settings: LeaseSettings,
    elector: Elector,
    metrics: Metrics,
    started: Instant,
    standing: watch::Sender<Standing>,
    /// Why the last attempt failed, as we have told.
    told: Option<String>,
}

impl Lease {
    /// A candidate, and where to see whether it leads.
    #[must_use]
    pub fn new(client: Client, settings: LeaseSettings, metrics: Metrics) -> (Self, watch::Receiver<Standing>) {
        let (standing, seen) = watch::channel(Standing::Unknown);
        metrics.leader(&settings.name, false);
        let client = client.with_deadline((settings.renew_deadline / 2).max(Duration::from_secs(1)));
        let elector = Elector::new(settings.clone());
        (Self { client, settings, elector, metrics, started: Instant::now(), standing, told: None }, seen)
    }

    /// Tries to lead and to keep leading until `cancel`; then gives the lease up. What must only be done while
    /// leading has to be over before `cancel`.
    ///
    /// # Errors
    /// It led and no longer does: whatever depends on it must end at once.
    pub async fn run(mut self, cancel: CancellationToken) -> Result<(), LeaseError> {
        loop {
            let led = self.elector.fence().is_some();
            // What is late is lost even while a request hangs.
            let deadline = self.elector.loses_at().map(|at| self.started + at);
            let attempt = async {
                match deadline {
                    Some(at) => tokio::time::timeout_at(at, self.attempt()).await.unwrap_or(Ok(())),
                    None => self.attempt().await,
                }
            };
            let result = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                result = attempt => result,
            };
            self.judge(led, result)?;
            let wait = if self.elector.fence().is_some() {
                let left = self.elector.loses_at().unwrap_or_default().saturating_sub(self.now());
                self.settings.retry.min(left)
            } else {
                self.settings.retry + self.client.world().random.jitter(self.settings.retry.mul_f64(JITTER / 2.0), 1.0)
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.release().await;
        Ok(())
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn wall(&self) -> Time {
        Time::from(self.client.world().clock.now())
    }

    /// Says what an attempt made of us.
    fn judge(&mut self, led: bool, result: Result<(), ApiError>) -> Result<(), LeaseError> {
        let lost = self.elector.is_lost(self.now());
        let leads = self.elector.fence().is_some() && !lost;
        self.tell_failure(result.as_ref().err());
        self.metrics.leader(&self.settings.name, leads);
        if led && !leads {
            let why = match result {
                Err(error) if lost => {
                    format!("not renewed within {:?}: {}", self.settings.renew_deadline, crate::error_chain(&error))
                }
                _ if lost => format!("not renewed within {:?}", self.settings.renew_deadline),
                _ => format!("\"{}\" took it over", self.elector.holder()),
            };
            return Err(LeaseError::Lost { name: self.settings.name.clone(), why });
        }
        let standing = match self.elector.fence() {
            Some(fence) => Standing::Leading { fence: fence.to_owned() },
            None => Standing::Following { leader: self.elector.holder().to_owned() },
        };
        self.standing.send_if_modified(|now| {
            let changed = *now != standing;
            if changed {
                tracing::info!(lease = self.settings.name, "leader election: {standing}");
                *now = standing;
            }
            changed
        });
        Ok(())
    }

    /// Tells why an attempt failed, once for each reason: nothing is done before somebody leads. Conflicts are how candidates
    /// meet.
    fn tell_failure(&mut self, error: Option<&ApiError>) {
        let reason = error.filter(|error| !error.is_conflict() && !error.is_already_exists());
        let reason = reason.map(|error| crate::error_chain(error));
        if let Some(reason) = &reason
            && self.told.as_ref() != Some(reason)
        {
            let LeaseSettings { namespace, name, .. } = &self.settings;
            tracing::warn!(
                "cannot use lease {namespace}/{name}, so that nothing is done: {reason}; the namespace must exist, and get, \
                 create and update of leases be allowed in it"
            );
        }
        self.told = reason;
    }

    /// One attempt to acquire or renew. A leader writes without reading first; if that fails, it reads.
    async fn attempt(&mut self) -> Result<(), ApiError> {
        if self.elector.fence().is_some() && self.write().await.is_ok() {
            return Ok(());
        }
        let sent = self.now();
        let key = ObjectKey::new(self.settings.namespace.as_str(), self.settings.name.as_str());
        let read = self.client.get(&leases(), &key).await?;
        let seen = read.and_then(|lease| {
            let record = Record::read(&lease.value().ok()?);
            Some((record, lease.resource_version().into_owned()))
        });
        self.elector.saw(seen, sent, self.now());
        self.write().await
    }

    async fn write(&mut self) -> Result<(), ApiError> {
        let sent = self.now();
        let decision = self.elector.decide(sent, self.wall());
        let (record, resource_version) = match decision {
            Decision::Wait => return Ok(()),
            Decision::Create(record) => (record, None),
            Decision::Update(record, resource_version) => (record, Some(resource_version)),
        };
        let written = self.put(&record, resource_version).await?;
        self.elector.wrote(record, written, sent, self.now());
        Ok(())
    }

    async fn put(&self, record: &Record, resource_version: Option<String>) -> Result<String, ApiError> {
        let mut lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "namespace": self.settings.namespace, "name": self.settings.name },
            "spec": record.spec(),
        });
        let written = match resource_version {
            None => self.client.create(&leases(), &lease).await?,
            Some(resource_version) => {
                lease["metadata"]["resourceVersion"] = resource_version.into();
                self.client.replace(&leases(), &lease, None).await?
            }
        };
        Ok(written.resource_version().into_owned())
    }

    async fn release(&mut self) {
        let release = self.elector.release(self.wall()).filter(|_| self.settings.release);
        if let Some((record, resource_version)) = release
            && let Err(error) = self.put(&record, Some(resource_version)).await
        {
            tracing::warn!(error = crate::error_chain(&error), "cannot release the lease; the next leader has to wait");
        }
        self.metrics.leader(&self.settings.name, false);
        self.standing.send_replace(Standing::Unknown);
    }
}

fn leases() -> Resource {
    Resource::namespaced(Gvk::new("coordination.k8s.io", "v1", "Lease"), "leases")
}
