//! A process: what starts in which order, what stops in which order, and why.
//!
//! Components are added to phases. Phases start in the order of [`Phase::START`], each when the one before is ready,
//! and stop in the order of [`Phase::STOP`], each within what is left of the grace period. The first signal drains,
//! the second aborts. A lost lease ends everything at once: somebody else leads by now.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cache::Informers;
use crate::client::Client;
use crate::engine::Engine;
use crate::events::Recorder;
use crate::lease::{Lease, LeaseError, LeaseSettings, Standing};
use crate::metrics::Metrics;
use crate::serve::{Endpoint, Probes, ServeError};
use crate::tasks::TaskGroup;
use crate::watch::Trouble;

/// How long the lease may take to be released at the end.
const RELEASE: Duration = Duration::from_secs(5);
/// Failures that wait to be looked at; the first decides.
const FAILURES: usize = 16;

/// When a component runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Endpoints and the event teller: first to start, last to stop.
    Servers,
    /// What others read from.
    Caches,
    /// What runs whether we lead or not.
    Always,
    /// What runs only while we lead: controllers.
    Elected,
}

impl Phase {
    /// The order in which phases start.
    pub const START: [Self; 4] = [Self::Servers, Self::Caches, Self::Always, Self::Elected];
    /// The order in which phases stop.
    pub const STOP: [Self; 4] = [Self::Always, Self::Elected, Self::Caches, Self::Servers];
}

/// How a process runs.
#[derive(Clone, Debug)]
pub struct ManagerSettings {
    /// Who we are in events and logs.
    pub name: String,
    /// How long a drain may take.
    pub grace: Duration,
    /// Leader election; without it we lead from the start.
    pub lease: Option<LeaseSettings>,
    /// Flag and address of the metrics endpoint.
    pub metrics: Option<(String, String)>,
    /// Flag and address of the probes endpoint.
    pub probes: Option<(String, String)>,
}

impl ManagerSettings {
    /// No election, no endpoints, 30 s to drain.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), grace: Duration::from_secs(30), lease: None, metrics: None, probes: None }
    }
}

/// Why a process ended other than by being told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// An endpoint cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// Leadership is gone.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A component failed.
    #[error("{component} failed: {source}")]
    Component {
        /// Which.
        component: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Signals cannot be listened to.
    #[error("cannot listen to signals: {0}")]
    Signals(std::io::Error),
    /// The drain took too long, or was cut short by a second signal.
    #[error("stopped before everything was finished; still running: {}", .held_up_by.join(", "))]
    Drain {
        /// What held it up.
        held_up_by: Vec<String>,
    },
}

/// What a component is told.
#[derive(Debug)]
pub struct Context {
    /// Cancelled when it should come to its end.
    pub cancel: CancellationToken,
    ready: Option<CancellationToken>,
}

impl Context {
    /// Tells that the next phase may start. A component that returns has told so too.
    pub fn ready(&mut self) {
        if let Some(ready) = self.ready.take() {
            ready.cancel();
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.ready();
    }
}

/// How a process is told to stop.
#[derive(Debug, Default)]
pub struct Stop {
    /// Finish what was begun.
    pub drain: CancellationToken,
    /// End at once.
    pub abort: CancellationToken,
    signals: bool,
}

impl Stop {
    /// By SIGTERM or SIGINT; the second one aborts.
    #[must_use]
    pub fn on_signals() -> Self {
        Self { signals: true, ..Self::default() }
    }

    /// By these tokens.
    #[must_use]
    pub fn on(drain: CancellationToken, abort: CancellationToken) -> Self {
        Self { drain, abort, signals: false }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Running = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;
type Component = Box<dyn FnOnce(Context) -> Running + Send>;

/// See the module.
pub struct Manager {
    settings: ManagerSettings,
    client: Client,
    metrics: Metrics,
    probes: Probes,
    engine: Engine,
    recorder: Recorder,
    standing: watch::Sender<Standing>,
    components: Vec<(Phase, String, Component)>,
}

impl Manager {
    /// A process that talks through `client`.
    #[must_use]
    pub fn new(client: Client, settings: ManagerSettings) -> Self {
        let metrics = Metrics::new();
        let client = client.with_metrics(&metrics);
        let engine = Engine::new(Informers::new(client.clone()), metrics.clone());
        let (recorder, teller) = Recorder::new(client.clone(), settings.name.clone());
        metrics.register(
            "concert_events_dropped",
            "Events not told because too many waited to be sent",
            recorder.dropped().clone(),
        );
        let (probes, standing) = (Probes::default(), watch::Sender::default());
        let caches = engine.informers().clone();
        probes.readiness("caches", move || caches_ready(&caches));
        let components = Vec::new();
        let mut manager = Self { settings, client, metrics, probes, engine, recorder, standing, components };
        manager.add(Phase::Servers, "events", |context| async move {
            let cancel = context.cancel.clone();
            drop(context);
            teller.run(cancel).await;
            Ok(())
        });
        manager
    }

    /// Its client, which counts requests.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its controllers.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Its caches.
    #[must_use]
    pub fn informers(&self) -> &Informers {
        self.engine.informers()
    }

    /// Its metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Its health and readiness checks.
    #[must_use]
    pub fn probes(&self) -> &Probes {
        &self.probes
    }

    /// Its event recorder.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Whether it leads, and with which fence. Without election the fence is empty.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Adds a component. One that fails stops the process; one that returns is simply over.
    pub fn add<F, R>(&mut self, phase: Phase, name: impl Into<String>, component: F)
    where
        F: FnOnce(Context) -> R + Send + 'static,
        R: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let component: Component = Box::new(move |context| Box::pin(component(context)));
        self.components.push((phase, name.into(), component));
    }

    /// Runs until it is told to stop and everything has come to its end.
    ///
    /// # Errors
    /// A component failed, the lease was lost, or the drain took too long.
    pub async fn run(mut self, stop: Stop) -> Result<(), ManagerError> {
        self.add_endpoints().await?;
        self.add_own();
        let mut house = House::new(self.settings, self.client, self.metrics, self.engine, self.standing);
        if stop.signals {
            house.listen(&stop)?;
        }
        let ended = house.live(self.components, &stop).await;
        if matches!(ended, Err(ManagerError::Lease(_))) {
            // Somebody else leads: every further moment is one too many.
            house.engine.abort();
            return ended;
        }
        let drained = house.drain(&stop.abort).await;
        ended.and(drained)
    }

    async fn add_endpoints(&mut self) -> Result<(), ManagerError> {
        if let Some((flag, address)) = self.settings.metrics.clone()
            && let Some(endpoint) = Endpoint::bind(&flag, &address).await?
        {
            tracing::info!(address = %endpoint.address(), "metrics endpoint");
            let metrics = self.metrics.clone();
            self.add(Phase::Servers, "metrics", |mut context| async move {
                context.ready();
                endpoint.serve(metrics, context.cancel.clone()).await;
                Ok(())
            });
        }
        if let Some((flag, address)) = self.settings.probes.clone()
            && let Some(endpoint) = Endpoint::bind(&flag, &address).await?
        {
            tracing::info!(address = %endpoint.address(), "probes endpoint");
            let probes = self.probes.clone();
            self.add(Phase::Servers, "probes", |mut context| async move {
                context.ready();
                endpoint.serve(probes, context.cancel.clone()).await;
                Ok(())
            });
        }
        Ok(())
    }

    fn add_own(&mut self) {
        let informers = self.engine.informers().clone();
        // Caches are not waited for here: each controller waits for its own, so that a missing kind stops no other.
        self.add(Phase::Caches, "caches", |mut context| async move {
            context.ready();
            context.cancel.cancelled().await;
            informers.stop().await;
            Ok(())
        });
        let engine = self.engine.clone();
        self.add(Phase::Elected, "controllers", |mut context| async move {
            engine.go();
            context.ready();
            context.cancel.cancelled().await;
            engine.stop().await;
            Ok(())
        });
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.components.iter().map(|(phase, name, _)| (phase, name)).collect();
        f.debug_struct("Manager").field("components", &names).finish_non_exhaustive()
    }
}

/// A kind that is missing or forbidden does not make the process useless; one that is still being listed does.
fn caches_ready(informers: &Informers) -> Result<(), String> {
    for (scope, state) in informers.states() {
        match (state.synced, &state.trouble) {
            (true, _) | (false, Some(Trouble::KindMissing | Trouble::Forbidden(_))) => {}
            (false, None) => return Err(format!("{scope} is being listed")),
            (false, Some(trouble)) => return Err(format!("{scope}: {trouble}")),
        }
    }
    Ok(())
}

/// A running process.
struct House {
    settings: ManagerSettings,
    client: Client,
    metrics: Metrics,
    engine: Engine,
    standing: watch::Sender<Standing>,
    phases: BTreeMap<Phase, TaskGroup>,
    /// The elector and the listener to signals: they live beside the phases.
    beside: TaskGroup,
    failed: mpsc::Sender<ManagerError>,
    failures: mpsc::Receiver<ManagerError>,
}

impl House {
    fn new(
        settings: ManagerSettings,
        client: Client,
        metrics: Metrics,
        engine: Engine,
        standing: watch::Sender<Standing>,
    ) -> Self {
        let (failed, failures) = mpsc::channel(FAILURES);
        let phases = Phase::START.into_iter().map(|phase| (phase, TaskGroup::new(CancellationToken::new()))).collect();
        let beside = TaskGroup::new(CancellationToken::new());
        Self { settings, client, metrics, engine, standing, phases, beside, failed, failures }
    }

    /// Turns signals into tokens.
    fn listen(&mut self, stop: &Stop) -> Result<(), ManagerError> {
        let mut terminate = signal(SignalKind::terminate()).map_err(ManagerError::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ManagerError::Signals)?;
        let (tokens, over) = ([stop.drain.clone(), stop.abort.clone()], self.beside.token().clone());
        self.beside.spawn("signals", async move {
            for token in tokens {
                tokio::select! {
                    biased;
                    () = over.cancelled() => return,
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                token.cancel();
            }
        });
        Ok(())
    }

    /// Starts phase by phase, then watches over them until told to stop or something fails.
    async fn live(&mut self, components: Vec<(Phase, String, Component)>, stop: &Stop) -> Result<(), ManagerError> {
        let mut by_phase: BTreeMap<Phase, Vec<(String, Component)>> = BTreeMap::new();
        for (phase, name, component) in components {
            by_phase.entry(phase).or_default().push((name, component));
        }
        for phase in Phase::START {
            if phase == Phase::Elected {
                let mut standing = self.run_for_leadership();
                let leads = async {
                    // The sender lives as long as the house.
                    let _ = standing.wait_for(|standing| matches!(standing, Standing::Leading { .. })).await;
                };
                if self.interrupted(leads, stop).await? {
                    return Ok(());
                }
            }
            let waits = self.start(phase, by_phase.remove(&phase).unwrap_or_default());
            let all_ready = async {
                for ready in waits {
                    ready.cancelled().await;
                }
            };
            if self.interrupted(all_ready, stop).await? {
                return Ok(());
            }
        }
        self.interrupted(std::future::pending(), stop).await.map(drop)
    }

    /// Waits for `what`; `true` if told to stop before.
    async fn interrupted(&mut self, what: impl Future<Output = ()>, stop: &Stop) -> Result<bool, ManagerError> {
        tokio::select! {
            biased;
            Some(failure) = self.failures.recv() => Err(failure),
            () = stop.drain.cancelled() => Ok(true),
            () = stop.abort.cancelled() => Ok(true),
            () = what => Ok(false),
        }
    }

    fn run_for_leadership(&mut self) -> watch::Receiver<Standing> {
        let Some(settings) = self.settings.lease.clone() else {
            self.standing.send_replace(Standing::Leading { fence: String::new() });
            return self.standing.subscribe();
        };
        let (lease, mut seen) = Lease::new(self.client.clone(), settings, self.metrics.clone());
        let (failed, standing, cancel) = (self.failed.clone(), self.standing.clone(), self.beside.token().clone());
        self.beside.spawn("leader election", async move {
            let relay = async {
                while seen.changed().await.is_ok() {
                    standing.send_replace(seen.borrow_and_update().clone());
                }
            };
            let (result, ()) = tokio::join!(lease.run(cancel), relay);
            if let Err(lost) = result {
                standing.send_replace(Standing::Unknown);
                let _ = failed.try_send(lost.into());
            }
        });
        self.standing.subscribe()
    }

    /// Starts the components of a phase; gives what tells that each is ready.
    fn start(&mut self, phase: Phase, components: Vec<(String, Component)>) -> Vec<CancellationToken> {
        let mut waits = Vec::new();
        for (name, component) in components {
            let Some(group) = self.phases.get_mut(&phase) else { continue };
            let ready = CancellationToken::new();
            waits.push(ready.clone());
            let context = Context { cancel: group.token().clone(), ready: Some(ready) };
            let failed = self.failed.clone();
            let running = component(context);
            group.spawn(name.clone(), async move {
                if let Err(source) = running.await {
                    // If so many fail that this does not fit, the first is what counts.
                    let _ = failed.try_send(ManagerError::Component { component: name, source });
                }
            });
        }
        waits
    }

    /// Stops phase by phase within the grace period, then releases the lease.
    async fn drain(&mut self, abort: &CancellationToken) -> Result<(), ManagerError> {
        let deadline = Instant::now() + self.settings.grace;
        let mut held_up_by = Vec::new();
        for phase in Phase::STOP {
            let Some(group) = self.phases.get_mut(&phase) else { continue };
            group.token().cancel();
            let out_of_time = tokio::select! {
                biased;
                () = group.stop() => false,
                () = abort.cancelled() => true,
                () = tokio::time::sleep_until(deadline) => true,
            };
            if out_of_time {
                held_up_by.extend(group.running());
                if phase == Phase::Elected {
                    held_up_by.extend(self.engine.busy());
                    self.engine.abort();
                }
                group.abort().await;
            }
        }
        self.beside.token().cancel();
        if tokio::time::timeout(RELEASE, self.beside.stop()).await.is_err() {
            self.beside.abort().await;
        }
        if held_up_by.is_empty() { Ok(()) } else { Err(ManagerError::Drain { held_up_by }) }
    }
}
