//! The whole reconciler: providers, controllers, endpoints, election.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_connector::{Connector, EndpointError};
use concert_managed::Settings;
use concert_runtime::manager::{Context, ManagerError};
use concert_runtime::{Client, LeaseSettings, Manager, ManagerSettings, Phase, Stop, TaskGroup};
use tokio::sync::Notify;

use crate::config::Config;
use crate::definitions::Definitions;
use crate::provider::{Provider, Shared};

/// How a controller runs. The defaults are those of the documents, but for election and endpoints, which a library
/// leaves to its user.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who it is, in events, logs and the name of its lease.
    pub name: String,
    /// Whether only one of several processes works.
    pub leader_election: bool,
    /// The namespace of the lease; the client's own if not given.
    pub lease_namespace: Option<String>,
    /// Whether controllers are started anew when a lost provider is back; otherwise they stop and stay stopped until
    /// it is.
    pub restart_on_provider_disconnect: bool,
    /// Objects of one kind reconciled at the same time.
    pub max_reconcile_rate: usize,
    /// How often an object in a steady state is looked at.
    pub poll_interval: Duration,
    /// How long one conversation with a provider may take.
    pub session_timeout: Duration,
    /// Where metrics are served, with the flag that says so.
    pub metrics: Option<(String, String)>,
    /// Where probes are served, with the flag that says so.
    pub probes: Option<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "managed-reconciler".into(),
            leader_election: false,
            lease_namespace: None,
            restart_on_provider_disconnect: true,
            max_reconcile_rate: 10,
            poll_interval: Duration::from_secs(60),
            session_timeout: Duration::from_secs(60),
            metrics: None,
            probes: None,
        }
    }
}

/// Why a controller does not run, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A provider's endpoint cannot be used.
    #[error("cannot use provider \"{provider}\"")]
    Endpoint {
        /// Which.
        provider: String,
        /// Why.
        source: EndpointError,
    },
    /// The process ended other than by being told to.
    #[error(transparent)]
    Run(#[from] ManagerError),
}

/// The managed reconciler as a whole.
#[derive(Clone, Debug)]
pub struct Controller {
    config: Config,
    options: Options,
}

impl Controller {
    /// A reconciler of everything these providers drive.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, options: Options::default() }
    }

    /// With these options.
    #[must_use]
    pub fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// With or without leader election.
    #[must_use]
    pub fn with_leader_election(mut self, on: bool) -> Self {
        self.options.leader_election = on;
        self
    }

    /// Runs until told to stop; then drains.
    ///
    /// # Errors
    /// An endpoint cannot be served, the lease was lost, or the drain took too long.
    pub async fn start(self, client: Client, stop: Stop) -> Result<(), StartError> {
        let Self { config, options } = self;
        let settings = manager_settings(&options, &client);
        let manager = Manager::new(client, settings);
        let client = manager.client().clone();
        let shared = Arc::new(Shared {
            client: client.clone(),
            recorder: manager.recorder().clone(),
            engine: manager.engine().clone(),
            probes: manager.probes().clone(),
            definitions: Definitions::new(manager.informers()),
            settings: Settings {
                poll_interval: options.poll_interval,
                session_timeout: options.session_timeout,
                workers: options.max_reconcile_rate,
                status_subresource: true,
            },
            restart_on_disconnect: options.restart_on_provider_disconnect,
            owners: Mutex::new(config.owners()),
            changed: Notify::new(),
        });
        let mut providers = Vec::new();
        let mut earlier = Vec::new();
        for provider in config.providers {
            let world = client.world().clone();
            let connector = Connector::new(&provider.name, provider.endpoint, world)
                .map_err(|source| StartError::Endpoint { provider: provider.name.clone(), source })?;
            let connector = Arc::new(connector);
            let (known, shared) = (provider.resource_types, Arc::clone(&shared));
            providers.push(Provider::new(Arc::clone(&connector), known, shared, earlier.clone()));
            earlier.push(connector);
        }
        manager.add(Phase::Always, "providers", move |mut context: Context| async move {
            context.ready();
            let woken = Arc::clone(&shared);
            let _subscription = shared.definitions.cache().subscribe(move |_| woken.changed.notify_waiters());
            let mut tasks = TaskGroup::new(context.cancel.child_token());
            for provider in providers {
                let name = provider.connector.name().to_owned();
                let cancel = tasks.token().clone();
                tasks.spawn(format!("provider {name}"), provider.run(cancel));
            }
            context.cancel.cancelled().await;
            tasks.stop().await;
            Ok(())
        })?;
        manager.run(stop).await?;
        Ok(())
    }
}

fn manager_settings(options: &Options, client: &Client) -> ManagerSettings {
    let lease = options.leader_election.then(|| {
        let mut lease = LeaseSettings::of_this_process(client, format!("{}-leader-election", options.name));
        if let Some(namespace) = &options.lease_namespace {
            lease.namespace.clone_from(namespace);
        }
        lease
    });
    ManagerSettings {
        lease,
        metrics: options.metrics.clone(),
        probes: options.probes.clone(),
        ..ManagerSettings::new(options.name.clone())
    }
}
