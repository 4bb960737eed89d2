//! One provider: its connection, and the controllers of the kinds it drives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use concert_api::Gvk;
use concert_connector::{Connector, State};
use concert_external::{Attempt, BoxFuture, Connected, ErrorClass, External, ExternalError, KindInfo, Operation};
use concert_managed::{Managed, Settings};
use concert_runtime::{Client, Engine, Probes, Recorder};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::config::ResourceType;
use crate::definitions::{Definitions, Served};

/// What all providers of a process share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) recorder: Recorder,
    pub(crate) engine: Engine,
    pub(crate) probes: Probes,
    pub(crate) definitions: Definitions,
    pub(crate) settings: Settings,
    pub(crate) restart_on_disconnect: bool,
    /// Which provider drives which kind. Configured kinds are there from the start.
    pub(crate) owners: Mutex<Owners>,
    /// Definitions have changed.
    pub(crate) changed: Notify,
}

/// Providers by the group and kind that they drive.
pub(crate) type Owners = BTreeMap<(String, String), String>;

/// How long providers that stand earlier in the configuration are waited for: they have the first choice of kinds.
const FIRST_CHOICE: Duration = Duration::from_secs(5);

/// A running controller and what it was made from.
#[derive(Debug, PartialEq)]
struct Running {
    kind: KindInfo,
    served: Served,
    /// Of the connection. `None`: the provider has never been reached, and the controller only says so.
    generation: Option<u64>,
}

/// See the module.
pub(crate) struct Provider {
    pub(crate) connector: Arc<Connector>,
    pub(crate) resource_types: Vec<ResourceType>,
    pub(crate) shared: Arc<Shared>,
    /// Those that stand before it in the configuration.
    pub(crate) earlier: Vec<Arc<Connector>>,
    /// What it announced when it was last there, and over which connection.
    known: (Vec<KindInfo>, Option<u64>),
    running: BTreeMap<String, Running>,
}

impl Provider {
    pub(crate) fn new(
        connector: Arc<Connector>,
        resource_types: Vec<ResourceType>,
        shared: Arc<Shared>,
        earlier: Vec<Arc<Connector>>,
    ) -> Self {
        Self { connector, resource_types, shared, earlier, known: (Vec::new(), None), running: BTreeMap::new() }
    }

    /// Keeps the controllers what the provider and the definitions say they should be, until `cancel`.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        let mut state = self.connector.state();
        let connecting = Arc::clone(&self.connector).run(cancel.clone());
        let shared = Arc::clone(&self.shared);
        let following = async {
            shared.definitions.cache().synced().await;
            self.let_earlier_choose().await;
            loop {
                let changed = shared.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let now = state.borrow_and_update().clone();
                self.follow(&now).await;
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => return,
                    gone = state.changed() => if gone.is_err() { return },
                    () = &mut changed => {}
                }
            }
        };
        let until_cancelled = cancel.run_until_cancelled(following);
        tokio::join!(connecting, until_cancelled);
    }

    async fn follow(&mut self, state: &State) {
        let name = self.connector.name().to_owned();
        match state {
            State::Unknown => {}
            State::Connected { discovery, generation } => {
                let restart = self.shared.restart_on_disconnect;
                self.shared.probes.readiness(&format!("provider {name}"), || Ok(()));
                self.known = (discovery.kinds.clone(), Some(if restart { *generation } else { 0 }));
                self.apply(self.wanted()).await;
            }
            State::Disconnected { reason } if !self.shared.restart_on_disconnect => {
                let reason = reason.clone();
                self.shared.probes.readiness(&format!("provider {name}"), move || Err(reason.clone()));
                if !self.running.is_empty() {
                    tracing::warn!(provider = %name, "provider is gone and --restart-on-provider-disconnect=false: its controllers stop");
                }
                self.apply(BTreeMap::new()).await;
            }
            // Its objects say so themselves, one by one, as they are looked at; the connector keeps trying. Readiness is
            // not affected, but does not claim that it is there either.
            State::Disconnected { .. } => {
                self.shared.probes.remove(&format!("provider {name}"));
                self.apply(self.wanted()).await;
            }
        }
    }

    /// The controllers that should run: announced or configured kinds that the cluster serves.
    fn wanted(&self) -> BTreeMap<String, Running> {
        let (announced, generation) = &self.known;
        let configured = self.resource_types.iter().map(|kind| &kind.0);
        let plain =
            configured.filter(|gvk| !announced.iter().any(|kind| kind.gvk == **gvk)).cloned().map(KindInfo::plain);
        let kinds = announced.iter().cloned().chain(plain);
        kinds
            .filter(|kind| self.claim(&kind.gvk))
            .filter_map(|kind| {
                let Some(served) = self.shared.definitions.find(&kind.gvk) else {
                    tracing::info!(provider = self.connector.name(), kind = %kind.gvk, "waiting for the definition of this kind");
                    return None;
                };
                Some((Managed::controller_name(&kind.gvk), Running { kind, served, generation: *generation }))
            })
            .collect()
    }

    /// Waits until all earlier providers have been asked once, but not for long: one that hangs stops nobody.
    async fn let_earlier_choose(&self) {
        let asked = async {
            for provider in &self.earlier {
                // An error means that it is gone, and will not choose any more.
                let _ = provider.state().wait_for(|state| *state != State::Unknown).await;
            }
        };
        let _ = tokio::time::timeout(FIRST_CHOICE, asked).await;
    }

    /// Whether this provider may drive the kind: two that do would fight over every object, and two that take turns would
    /// make each external resource twice. Who is configured for a kind has it; of others the first in the configuration
    /// that is there, and it keeps the kind.
    fn claim(&self, gvk: &Gvk) -> bool {
        let mut owners = self.shared.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let name = self.connector.name();
        let first = || {
            let earlier = self.earlier.iter().find(|provider| announces(&provider.state().borrow(), gvk));
            earlier.map_or(name, |provider| provider.name()).to_owned()
        };
        let owner = owners.entry((gvk.group.clone(), gvk.kind.clone())).or_insert_with(first);
        if owner != name {
            tracing::error!(kind = %gvk, provider = name, owner = %owner, "two providers claim one kind, and only its owner drives it; name the kind in the resourceTypes of the one that should");
        }
        owner == name
    }

    /// Stops what should not run, restarts what has changed, starts what is missing.
    async fn apply(&mut self, wanted: BTreeMap<String, Running>) {
        let stale: Vec<String> = self
            .running
            .iter()
            .filter(|(name, now)| wanted.get(*name) != Some(now))
            .map(|(name, _)| name.clone())
            .collect();
        for name in stale {
            self.shared.engine.remove(&name).await;
            self.running.remove(&name);
        }
        for (name, running) in wanted {
            if self.running.contains_key(&name) {
                continue;
            }
            match self.start(&running) {
                Ok(()) => {
                    self.running.insert(name, running);
                }
                Err(error) => tracing::error!(controller = %name, %error, "cannot start a controller"),
            }
        }
    }

    fn start(&self, running: &Running) -> Result<(), Box<dyn std::error::Error>> {
        let shared = &self.shared;
        let settings = Settings { status_subresource: running.served.status_subresource, ..shared.settings.clone() };
        let external: Arc<dyn External> = match running.generation {
            Some(_) => Arc::clone(&self.connector) as Arc<dyn External>,
            None => Arc::new(NeverReached(self.connector.state())),
        };
        let managed = Managed::new(
            shared.client.clone(),
            shared.recorder.clone(),
            running.served.resource.clone(),
            external,
            running.kind.clone(),
            settings,
        );
        shared.engine.add(managed.controller()?)?;
        Ok(())
    }
}

fn announces(state: &State, gvk: &Gvk) -> bool {
    match state {
        State::Connected { discovery, .. } => {
            discovery.kinds.iter().any(|kind| kind.gvk.group == gvk.group && kind.gvk.kind == gvk.kind)
        }
        State::Unknown | State::Disconnected { .. } => false,
    }
}

/// The port of a provider that has never been reached. What it can do is not known before it has answered Discover, so nothing
/// is sent to it; its objects say why.
#[derive(Debug)]
struct NeverReached(watch::Receiver<State>);

impl External for NeverReached {
    fn connect<'a>(&'a self, _: &'a Value, _: Attempt) -> BoxFuture<'a, Result<Connected, ExternalError>> {
        let reason = match &*self.0.borrow() {
            State::Disconnected { reason } => reason.clone(),
            // It has just come: the controller is about to be replaced.
            State::Unknown | State::Connected { .. } => "the provider is being connected".to_owned(),
        };
        Box::pin(async { Err(ExternalError::not_sent(Operation::Connect, ErrorClass::Unavailable, reason)) })
    }
}
