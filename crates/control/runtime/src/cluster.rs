//! Clusters: one API server each, with a client, caches, an event recorder and a mapper of kinds.
//!
//! A process has one of its own. Further ones come and go while it runs ([`Clusters`]); one that is not reached is in
//! the way of nobody else. A controller listens to another cluster by
//! [`Builder::in_cluster`](crate::controller::Builder::in_cluster).

mod mapper;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

pub use mapper::Mapper;

use crate::cache::{Informers, Narrowing};
use crate::client::Client;
use crate::events::{Recorder, Teller};
use crate::metrics::{ClusterMetrics, Metrics};
use crate::tasks::TaskGroup;

/// Why a cluster was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Names label metrics, so they are unique.
    #[error("cannot add cluster \"{0}\": there is one of that name; remove it first or choose another name")]
    NameInUse(String),
    /// The empty name is the process's own cluster.
    #[error("cannot add a cluster without a name: that is the process's own")]
    NoName,
    /// The process is stopping.
    #[error("cannot add cluster \"{0}\": the process is stopping")]
    Stopping(String),
}

/// One API server. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    name: Arc<str>,
    client: Client,
    informers: Informers,
    recorder: Recorder,
    mapper: Mapper,
    shown: ClusterMetrics,
}

impl Cluster {
    /// A cluster, and what sends its events. `component` is who speaks in them.
    pub(crate) fn new(
        name: &str,
        client: Client,
        narrowing: Narrowing,
        metrics: &Metrics,
        component: &str,
    ) -> (Self, Teller) {
        let client = client.with_metrics(metrics);
        let informers = Informers::narrowed(client.clone(), narrowing);
        let (recorder, teller) = Recorder::counting(client.clone(), component, metrics.events(name));
        let mapper = Mapper::new(client.clone());
        let shown = metrics.cluster(name);
        let observed = (informers.clone(), shown.clone());
        metrics.observe(&format!("cluster {name}"), move |_| {
            let (informers, shown) = &observed;
            shown.observe(&informers.reports(), informers.undecodable());
        });
        (Self { name: name.into(), client, informers, recorder, mapper, shown }, teller)
    }

    /// Its name; empty for the process's own.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client of it, which counts requests.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its caches.
    #[must_use]
    pub fn informers(&self) -> &Informers {
        &self.informers
    }

    /// Where events about its objects are recorded.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// What its kinds are called in paths.
    #[must_use]
    pub fn mapper(&self) -> &Mapper {
        &self.mapper
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("name", &self.name).field("client", &self.client).finish_non_exhaustive()
    }
}

struct Present {
    cluster: Cluster,
    stop: CancellationToken,
    ended: CancellationToken,
}

struct State {
    present: BTreeMap<String, Present>,
    tasks: TaskGroup,
    stopping: bool,
}

/// The clusters of a process besides its own. Cheap to clone.
#[derive(Clone)]
pub struct Clusters {
    component: Arc<str>,
    metrics: Metrics,
    state: Arc<Mutex<State>>,
}

impl Clusters {
    pub(crate) fn new(component: &str, metrics: Metrics) -> Self {
        let tasks = TaskGroup::new(CancellationToken::new());
        let state = State { present: BTreeMap::new(), tasks, stopping: false };
        Self { component: component.into(), metrics, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a cluster. Whether it answers is not tried: its watches go on trying. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// The name is in use, or the process is stopping.
    pub fn add(&self, name: &str, client: Client) -> Result<Cluster, ClusterError> {
        self.add_narrowed(name, client, Narrowing::default())
    }

    /// As [`Clusters::add`], with caches of only what `caches` says.
    ///
    /// # Errors
    /// As [`Clusters::add`].
    pub fn add_narrowed(&self, name: &str, client: Client, caches: Narrowing) -> Result<Cluster, ClusterError> {
        let mut state = self.state();
        if name.is_empty() {
            return Err(ClusterError::NoName);
        }
        if state.stopping {
            return Err(ClusterError::Stopping(name.to_owned()));
        }
        if state.present.contains_key(name) {
            return Err(ClusterError::NameInUse(name.to_owned()));
        }
        let (cluster, teller) = Cluster::new(name, client, caches, &self.metrics, &self.component);
        let (stop, ended) = (state.tasks.token().child_token(), CancellationToken::new());
        let (guard, informers, told) = (ended.clone().drop_guard(), cluster.informers.clone(), stop.clone());
        state.tasks.reap();
        state.tasks.spawn(format!("cluster {name}"), async move {
            let _ends_whatever_happens = guard;
            teller.run(told).await;
            informers.stop().await;
        });
        state.present.insert(name.to_owned(), Present { cluster: cluster.clone(), stop, ended });
        tracing::info!(cluster = name, "cluster added");
        Ok(cluster)
    }

    /// Removes a cluster: its watches stop, events that wait are told. Controllers that listen to it hear nothing more
    /// from there; whoever does not want that removes them first. `false` if there is none of that name.
    pub async fn remove(&self, name: &str) -> bool {
        let ended = {
            let state = self.state();
            let Some(present) = state.present.get(name) else { return false };
            present.stop.cancel();
            present.ended.clone()
        };
        ended.cancelled().await;
        let mut state = self.state();
        // Another one of that name may have come while two waited for the end of this.
        if state.present.get(name).is_some_and(|present| present.ended.is_cancelled()) {
            self.metrics.forget(&format!("cluster {name}"));
            if let Some(present) = state.present.remove(name) {
                present.cluster.shown.forget();
            }
            tracing::info!(cluster = name, "cluster removed");
        }
        true
    }

    /// The cluster of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cluster> {
        self.state().present.get(name).map(|present| present.cluster.clone())
    }

    /// All of them, in the order of their names.
    #[must_use]
    pub fn list(&self) -> Vec<Cluster> {
        self.state().present.values().map(|present| present.cluster.clone()).collect()
    }

    /// Stops all of them.
    pub(crate) async fn stop(&self) {
        let ends: Vec<CancellationToken> = {
            let mut state = self.state();
            state.stopping = true;
            state.tasks.token().cancel();
            state.present.values().map(|present| present.ended.clone()).collect()
        };
        for ended in ends {
            ended.cancelled().await;
        }
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.state().present.keys()).finish()
    }
}
