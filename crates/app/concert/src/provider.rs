//! One provider: its connection, and the controllers of the kinds it drives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use concert_api::Gvk;
use concert_connector::{Connector, State};
use concert_external::{External, KindInfo};
use concert_managed::{Managed, Settings};
use concert_runtime::{Client, Engine, Probes, Recorder};
use tokio::sync::Notify;
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
    /// Which provider drives which kind: the first that claims it.
    pub(crate) owners: Mutex<BTreeMap<(String, String), String>>,
    /// Definitions have changed.
    pub(crate) changed: Notify,
}

/// A running controller and what it was made from.
#[derive(Debug, PartialEq)]
struct Running {
    kind: KindInfo,
    served: Served,
    generation: u64,
}

/// See the module.
pub(crate) struct Provider {
    pub(crate) connector: Arc<Connector>,
    pub(crate) resource_types: Vec<ResourceType>,
    pub(crate) shared: Arc<Shared>,
    running: BTreeMap<String, Running>,
}

impl Provider {
    pub(crate) fn new(connector: Arc<Connector>, resource_types: Vec<ResourceType>, shared: Arc<Shared>) -> Self {
        Self { connector, resource_types, shared, running: BTreeMap::new() }
    }

    /// Keeps the controllers what the provider and the definitions say they should be, until `cancel`.
    pub(crate) async fn run(mut self, cancel: CancellationToken) {
        let mut state = self.connector.state();
        let connecting = Arc::clone(&self.connector).run(cancel.clone());
        let shared = Arc::clone(&self.shared);
        let following = async {
            shared.definitions.cache().synced().await;
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
            State::Connected { discovery, generation } => {
                let restart = self.shared.restart_on_disconnect;
                self.shared.probes.readiness(&format!("provider {name}"), || Ok(()));
                let wanted = self.wanted(&discovery.kinds, if restart { *generation } else { 0 });
                self.apply(wanted).await;
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
            State::Disconnected { .. } => self.shared.probes.remove(&format!("provider {name}")),
        }
    }

    /// The controllers that should run: announced or configured kinds that the cluster serves.
    fn wanted(&self, announced: &[KindInfo], generation: u64) -> BTreeMap<String, Running> {
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
                Some((Managed::controller_name(&kind.gvk), Running { kind, served, generation }))
            })
            .collect()
    }

    /// Whether this provider may drive the kind: two that do would fight over every object.
    fn claim(&self, gvk: &Gvk) -> bool {
        let mut owners = self.shared.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let name = self.connector.name();
        let owner = owners.entry((gvk.group.clone(), gvk.kind.clone())).or_insert_with(|| name.to_owned());
        if owner != name {
            tracing::error!(kind = %gvk, provider = name, owner = %owner, "two providers claim one kind; only the first drives it");
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
        let external: Arc<dyn External> = Arc::clone(&self.connector) as Arc<dyn External>;
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
