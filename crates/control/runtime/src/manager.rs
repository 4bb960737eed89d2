//! A process: what starts in which order, what stops in which order, and why.
//!
//! Components are added to phases, before the start or while it runs. Phases start in the order of [`Phase::START`],
//! each when the one before is ready, and stop in the order of [`Phase::STOP`], each within what is left of the grace
//! period. The first signal drains, the second aborts. A lost lease ends everything at once: somebody else leads by now.
//!
//! ```no_run
//! # async fn example(controller: concert_runtime::Controller) -> Result<(), Box<dyn std::error::Error>> {
//! let manager = concert_runtime::Manager::connect("greeter").await?;
//! manager.add_controller(controller)?;
//! manager.run(concert_runtime::Stop::on_signals()).await?;
//! # Ok(())
//! # }
//! ```

mod endpoints;
mod error;
mod house;
mod phase;
mod runnable;
mod settings;
mod stop;

use std::sync::{Arc, Mutex, PoisonError};

use concert_world::World;
use tokio::sync::watch;

pub use error::{HeldUp, ManagerError};
pub use phase::Phase;
pub use runnable::{BoxError, Context, Runnable, repeatable};
pub use settings::{Grace, ManagerSettings, OnLost};
pub use stop::Stop;

use crate::cache::Informers;
use crate::client::{Client, ConnectError, Source};
use crate::cluster::{Cluster, Clusters};
use crate::controller::Controller;
use crate::engine::{Engine, EngineError};
use crate::events::{Recorder, Teller};
use crate::lease::Standing;
use crate::metrics::Metrics;
use crate::reconciler::Key;
use crate::serve::{Pages, Probes, Shelf};
use crate::shards::Shards;
use house::{Board, CONTROLLERS, House};
use runnable::Component;

/// See the module. Cheap to clone: whoever has one can add to the process from before its start to its end.
#[derive(Clone)]
pub struct Manager(Arc<Parts>);

struct Parts {
    settings: ManagerSettings,
    cluster: Cluster,
    clusters: Clusters,
    engine: Engine,
    metrics: Metrics,
    probes: Probes,
    /// Pages beside the metrics.
    shelf: Shelf,
    shards: Option<Shards>,
    standing: watch::Sender<Standing>,
    board: Arc<Board>,
    /// Until it runs.
    teller: Mutex<Option<Teller>>,
}

impl Manager {
    /// A process that talks through `client`.
    #[must_use]
    pub fn new(client: Client, settings: ManagerSettings) -> Self {
        let metrics = Metrics::new();
        let metrics = if settings.request_histograms { metrics.with_request_histograms() } else { metrics };
        let (cluster, teller) = Cluster::new("", client, settings.caches.clone(), &metrics, &settings.name);
        let clusters = Clusters::new(&settings.name, metrics.clone());
        let engine = Engine::new(cluster.informers().clone(), metrics.clone());
        engine.set_defaults(settings.controllers.clone());
        let shards = settings.shards.as_ref().map(|settings| Shards::new(settings.count));
        if let Some(shards) = shards.clone() {
            engine.only(move |key| shards.owns(key));
        }
        let manager = Self(Arc::new(Parts {
            settings,
            cluster,
            clusters,
            engine,
            metrics,
            probes: Probes::default(),
            shelf: Shelf::default(),
            shards,
            standing: watch::Sender::default(),
            board: Arc::default(),
            teller: Mutex::new(Some(teller)),
        }));
        endpoints::add_checks(&manager);
        manager
    }

    /// A process that talks to the cluster that kubectl would use, with the usual settings: all that most programs need.
    ///
    /// # Errors
    /// No cluster is named, or its configuration is wrong. Whether it answers is not tried.
    pub async fn connect(name: impl Into<String>) -> Result<Self, ConnectError> {
        let client = Client::connect(&Source::default(), World::real()).await?;
        Ok(Self::new(client, ManagerSettings::new(name)))
    }

    /// Runs until it is told to stop and everything has come to its end.
    ///
    /// # Errors
    /// A component failed, the lease was lost, or the drain took too long.
    pub async fn run(self, stop: Stop) -> Result<(), ManagerError> {
        self.0.settings.check()?;
        let teller = self.0.teller.lock().unwrap_or_else(PoisonError::into_inner).take();
        let teller = teller.ok_or(ManagerError::RunsAlready)?;
        endpoints::add_endpoints(&self).await?;
        self.add_own()?;
        House::new(self, teller).run(&stop).await
    }

    /// What every process runs: its caches, its further clusters, its controllers.
    fn add_own(&self) -> Result<(), ManagerError> {
        let (informers, clusters) = (self.informers().clone(), self.clusters().clone());
        // Caches are not waited for here: each controller waits for its own, so that a missing kind stops no other.
        self.add(Phase::Caches, "caches", |mut context: Context| async move {
            context.ready();
            context.cancel.cancelled().await;
            tokio::join!(informers.stop(), clusters.stop());
            Ok(())
        })?;
        let engine = self.engine().clone();
        let controllers = repeatable(move |mut context: Context| {
            let engine = engine.clone();
            async move {
                context.ready();
                context.cancel.cancelled().await;
                engine.stop().await;
                Ok(())
            }
        });
        self.add(Phase::Elected, CONTROLLERS, controllers)
    }

    /// Adds a component. Its phase may have started already: then it starts at once. One that fails stops the process;
    /// one that returns is simply over.
    ///
    /// # Errors
    /// The process is stopping.
    pub fn add(&self, phase: Phase, name: impl Into<String>, runnable: impl Runnable) -> Result<(), ManagerError> {
        self.0.board.put(Component::new(phase, name, runnable))
    }

    /// Adds a controller: its caches and queue fill at once, its workers begin when the process leads.
    ///
    /// # Errors
    /// The name is in use, or the process has stopped.
    pub fn add_controller<K: Key>(&self, controller: Controller<K>) -> Result<(), EngineError> {
        self.engine().add(controller)
    }

    /// How it runs.
    #[must_use]
    pub fn settings(&self) -> &ManagerSettings {
        &self.0.settings
    }

    /// Its own cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.0.cluster
    }

    /// Further clusters, which come and go.
    #[must_use]
    pub fn clusters(&self) -> &Clusters {
        &self.0.clusters
    }

    /// The client of its own cluster, which counts requests.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.0.cluster.client()
    }

    /// Its controllers.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The caches of its own cluster.
    #[must_use]
    pub fn informers(&self) -> &Informers {
        self.0.cluster.informers()
    }

    /// Its metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Shows pages of one's own on the metrics endpoint, at `path` and below; those who may not see metrics do not see them.
    /// Replaces what was there, but never `/metrics`.
    pub fn show(&self, path: &str, pages: impl Pages) {
        self.0.shelf.put(path, pages);
    }

    /// Its health and readiness checks.
    #[must_use]
    pub fn probes(&self) -> &Probes {
        &self.0.probes
    }

    /// The event recorder of its own cluster.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        self.0.cluster.recorder()
    }

    /// The components that hold up the start of the next phase: they have not said that they are ready.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        self.0.board.not_ready()
    }

    /// The shards that this process holds, if keys are shared out.
    #[must_use]
    pub fn shards(&self) -> Option<&Shards> {
        self.0.shards.as_ref()
    }

    /// Whether it leads, and with which fence. Without election, and with shards, the fence is empty.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.0.standing.subscribe()
    }

    /// Resolves when this process leads: at once if it does, and without election as soon as it runs. Never if it ends
    /// before.
    pub async fn elected(&self) {
        if self.standing().wait_for(Standing::leads).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").field("waiting", &self.0.board.names()).finish_non_exhaustive()
    }
}
