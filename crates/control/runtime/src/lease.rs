//! Leader election on a `coordination.k8s.io/v1` Lease, with client-go's rules and timings.
//!
//! A lease is not a lock: it saves work. What must not happen twice is guarded by preconditions and by the *fence*,
//! the resourceVersion of the write that acquired the lease, which grows with every change of leader. The rules are in
//! [`elector`](self), a state machine without I/O; here they meet the API.

pub(crate) mod elector;
mod lock;
mod settings;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use concert_api::{Gvk, Object, ObjectKey, Time};
use concert_world::World;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{ApiError, Client};
use crate::events::{EventKind, Recorder};
use crate::metrics::Metrics;
use crate::resource::Resource;
pub use elector::Record as LeaseRecord;
use elector::{Answer, Elector, Record, Step, Write};
pub use lock::{Lock, LockError};
pub use settings::LeaseSettings;

/// Whether we lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Not known (yet, or any longer).
    #[default]
    Unknown,
    /// Somebody else leads.
    Following {
        /// Who; empty if nobody does.
        leader: String,
    },
    /// We lead.
    Leading {
        /// The resourceVersion of the write that acquired the lease.
        fence: String,
    },
}

impl Standing {
    /// Whether we lead.
    #[must_use]
    pub fn leads(&self) -> bool {
        matches!(self, Self::Leading { .. })
    }
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
    /// Nobody could lead with these settings.
    #[error("cannot use lease {namespace}/{name}: {why}")]
    Settings {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
}

/// A candidate.
#[derive(Debug)]
pub struct Lease {
    place: Place,
    world: World,
    settings: LeaseSettings,
    elector: Elector,
    metrics: Metrics,
    recorder: Option<Recorder>,
    started: Instant,
    standing: watch::Sender<Standing>,
    /// Why the last attempt failed, as we have told.
    told: Option<String>,
    /// How many slow paths have been counted.
    slow_paths: u64,
}

impl Lease {
    /// A candidate, and where to see whether it leads.
    #[must_use]
    pub fn new(client: Client, settings: LeaseSettings, metrics: Metrics) -> (Self, watch::Receiver<Standing>) {
        let (standing, seen) = watch::channel(Standing::Unknown);
        metrics.leader(&settings.name, false);
        let (place, world) = (Place::Lease(Box::new(LeaseApi::new(client.clone(), &settings))), client.world().clone());
        let (elector, started) = (Elector::new(settings.clone()), Instant::now());
        let (recorder, told, slow_paths) = (None, None, 0);
        let lease = Self { place, world, settings, elector, metrics, recorder, started, standing, told, slow_paths };
        (lease, seen)
    }

    /// Has candidates meet there instead of at a Lease.
    #[must_use]
    pub fn at(self, lock: Arc<dyn Lock>) -> Self {
        Self { place: Place::Lock(lock), ..self }
    }

    /// Has changes of leadership told as events about the Lease.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Tries to lead and to keep leading until `cancel`; then gives the lease up. What must only be done while
    /// leading has to be over before `cancel`.
    ///
    /// # Errors
    /// It led and no longer does: whatever depends on it must end at once. Or its settings cannot work.
    pub async fn run(mut self, cancel: CancellationToken) -> Result<(), LeaseError> {
        self.settings.check()?;
        loop {
            let spread = self.spread();
            let step = self.elector.step(self.now(), self.wall(), spread);
            let done = async {
                match step {
                    Step::Wait(wait) => tokio::time::sleep(wait).await,
                    Step::Read | Step::Write(_) => self.ask(step).await,
                    Step::Lost(why) => return Err(why),
                }
                Ok(())
            };
            let done = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                done = done => done,
            };
            if let Err(why) = done {
                return Err(self.lost(why));
            }
            self.tell();
        }
        self.release().await;
        Ok(())
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn wall(&self) -> Time {
        Time::from(self.world.clock.now())
    }

    fn spread(&self) -> f64 {
        self.world.random.below(1 << 32) as f64 / f64::from(u32::MAX)
    }

    /// Does what the elector wants, and tells it what came of it. What is late is lost even while a request hangs.
    async fn ask(&mut self, step: Step) {
        let asked = async {
            match step {
                Step::Read => self.place.read().await.map(Answer::Seen),
                Step::Write(write) => self.place.write(&write).await.map(Answer::Written),
                Step::Wait(_) | Step::Lost(_) => Ok(Answer::Failed),
            }
        };
        let result = match self.elector.loses_at() {
            Some(at) => tokio::time::timeout_at(self.started + at, asked).await.unwrap_or(Ok(Answer::Failed)),
            None => asked.await,
        };
        if !matches!(result, Ok(Answer::Failed)) {
            self.tell_failure(result.as_ref().err());
        }
        let spread = self.spread();
        self.elector.answered(result.unwrap_or(Answer::Failed), self.now(), spread);
    }

    /// Tells whoever watches where we stand.
    fn tell(&mut self) {
        let slow_paths = self.elector.slow_paths();
        self.metrics.slow_path(&self.settings.name, slow_paths - std::mem::replace(&mut self.slow_paths, slow_paths));
        let standing = self.elector.standing(self.now());
        if *self.standing.borrow() == standing {
            return;
        }
        tracing::info!(lease = self.settings.name, "leader election: {standing}");
        self.metrics.leader(&self.settings.name, standing.leads());
        if standing.leads() {
            self.record("became leader");
        }
        self.standing.send_replace(standing);
    }

    /// As client-go words it.
    fn record(&self, what: &str) {
        if let (Some(recorder), Some(lease)) = (&self.recorder, self.place.lease()) {
            let message = format!("{} {what}", self.settings.identity);
            recorder.record(lease, EventKind::Normal, "LeaderElection", &message);
        }
    }

    /// Tells why an attempt failed, once for each reason: nothing is done before somebody leads. Conflicts are how
    /// candidates meet.
    fn tell_failure(&mut self, error: Option<&LockError>) {
        let reason = error.filter(|error| !matches!(error, LockError::Conflict)).map(|error| crate::error_chain(error));
        if let Some(reason) = &reason {
            self.metrics.election_failure(&self.settings.name);
            if self.told.as_ref() != Some(reason) {
                let LeaseSettings { namespace, name, .. } = &self.settings;
                match &self.place {
                    Place::Lease(_) => tracing::warn!(
                        "cannot use lease {namespace}/{name}, so that nothing is done: {reason}; the namespace must \
                         exist, and get, create and update of leases be allowed in it"
                    ),
                    Place::Lock(_) => tracing::warn!(
                        "cannot use the lock in place of lease {namespace}/{name}, so that nothing is done: {reason}"
                    ),
                }
            }
        }
        self.told = reason;
    }

    fn lost(&mut self, why: String) -> LeaseError {
        let why = self.told.take().map_or(why.clone(), |reason| format!("{why}: {reason}"));
        self.record("stopped leading");
        self.metrics.leader(&self.settings.name, false);
        self.standing.send_replace(Standing::Unknown);
        LeaseError::Lost { name: self.settings.name.clone(), why }
    }

    async fn release(&mut self) {
        if self.elector.standing(self.now()).leads() {
            self.record("stopped leading");
        }
        if self.settings.release
            && let Some(write) = self.elector.release(self.wall())
            && let Err(error) = self.give_up(write).await
        {
            tracing::warn!(error = crate::error_chain(&error), "cannot release the lease; the next leader has to wait");
        }
        self.metrics.leader(&self.settings.name, false);
        self.standing.send_replace(Standing::Unknown);
    }

    /// Somebody may have touched the Lease without taking it: then once more, from what is there now.
    async fn give_up(&mut self, write: Write) -> Result<(), LockError> {
        match self.place.write(&write).await {
            Err(LockError::Conflict) => {
                let seen = self.place.read().await?;
                self.elector.saw(seen, self.now());
                match self.elector.release(self.wall()) {
                    Some(write) => self.place.write(&write).await.map(drop),
                    None => Ok(()),
                }
            }
            result => result.map(drop),
        }
    }
}

/// Where the candidates meet.
#[derive(Debug)]
enum Place {
    Lease(Box<LeaseApi>),
    Lock(Arc<dyn Lock>),
}

impl Place {
    async fn read(&mut self) -> Result<Option<(Record, String)>, LockError> {
        match self {
            Self::Lease(api) => api.read().await.map_err(failed),
            Self::Lock(lock) => lock.read().await,
        }
    }

    async fn write(&mut self, write: &Write) -> Result<String, LockError> {
        match self {
            Self::Lease(api) => api.write(write).await.map_err(failed),
            Self::Lock(lock) => lock.write(&write.record, write.expected.as_deref()).await,
        }
    }

    /// What events are about.
    fn lease(&self) -> Option<&Object> {
        match self {
            Self::Lease(api) => api.lease.as_ref(),
            Self::Lock(_) => None,
        }
    }
}

fn failed(error: ApiError) -> LockError {
    if error.is_conflict() || error.is_already_exists() { LockError::Conflict } else { LockError::Failed(error.into()) }
}

/// The Lease on the server.
#[derive(Debug)]
pub(crate) struct LeaseApi {
    client: Client,
    key: ObjectKey,
    labels: Value,
    /// As last seen: what others put on it stays.
    lease: Option<Object>,
}

impl LeaseApi {
    pub(crate) fn new(client: Client, settings: &LeaseSettings) -> Self {
        let client = client.with_deadline(settings.request_timeout());
        let key = ObjectKey::new(settings.namespace.as_str(), settings.name.as_str());
        Self { client, key, labels: json!(settings.labels), lease: None }
    }

    pub(crate) async fn read(&mut self) -> Result<Option<(Record, String)>, ApiError> {
        self.lease = self.client.get(&leases(), &self.key).await?;
        Ok(self.lease.as_ref().and_then(recorded))
    }

    /// What a list told about it.
    pub(crate) fn listed(&mut self, lease: Option<Object>) -> Option<(Record, String)> {
        self.lease = lease;
        self.lease.as_ref().and_then(recorded)
    }

    pub(crate) async fn write(&mut self, write: &Write) -> Result<String, ApiError> {
        let known = self.lease.as_ref().filter(|_| write.expected.is_some()).and_then(|lease| lease.value().ok());
        let mut lease = known.unwrap_or_else(|| {
            let metadata = json!({ "namespace": *self.key.namespace, "name": *self.key.name });
            json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata })
        });
        merge(&mut lease["spec"], write.record.spec());
        merge(&mut lease["metadata"]["labels"], self.labels.clone());
        let written = match &write.expected {
            None => self.client.create(&leases(), &lease).await?,
            Some(resource_version) => {
                lease["metadata"]["resourceVersion"] = resource_version.as_str().into();
                self.client.replace(&leases(), &lease, None).await?
            }
        };
        let resource_version = written.resource_version().into_owned();
        self.lease = Some(written);
        Ok(resource_version)
    }
}

/// Puts fields into an object, which may not be there yet.
fn merge(into: &mut Value, fields: Value) {
    let Value::Object(fields) = fields else { return };
    match into {
        Value::Object(known) => known.extend(fields),
        _ => *into = Value::Object(fields),
    }
}

fn recorded(lease: &Object) -> Option<(Record, String)> {
    Some((Record::read(&lease.value().ok()?), lease.resource_version().into_owned()))
}

pub(crate) fn leases() -> Resource {
    Resource::namespaced(Gvk::new("coordination.k8s.io", "v1", "Lease"), "leases")
}
