//! A set of resources, served together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use concert_external::Gvk;
use concert_world::World;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::handler::{Handler, Typed};
use crate::{CrdError, Kind, Listener, ProviderError, Resource, server};

/// How long sessions and creates may go on after the provider was told to stop.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

type Start = Box<dyn FnOnce() -> Result<(), ProviderError> + Send + Sync>;

/// A provider: its name and its resources.
pub struct Provider {
    name: String,
    version: String,
    pub(crate) handlers: BTreeMap<Gvk, Arc<dyn Handler>>,
    start: Vec<Start>,
    pub(crate) world: World,
}

/// A provider that cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A kind's schema is not acceptable to Kubernetes.
    #[error(transparent)]
    Crd(#[from] CrdError),
    /// The provider's own start failed.
    #[error("cannot start")]
    Start(#[source] ProviderError),
    /// The gRPC server failed.
    #[error("cannot serve")]
    Transport(#[source] tonic::transport::Error),
}

impl Provider {
    /// A provider without resources.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            handlers: BTreeMap::new(),
            start: Vec::new(),
            world: World::real(),
        }
    }

    /// Adds a resource.
    ///
    /// # Panics
    /// If the provider already has one of this kind.
    #[must_use]
    pub fn resource<R: Resource>(mut self, resource: R) -> Self {
        let gvk = R::Parameters::gvk();
        let old = self.handlers.insert(gvk.clone(), Arc::new(Typed::new(resource)));
        assert!(old.is_none(), "two resources of kind {gvk}");
        self
    }

    /// Runs `check` before serving; an error ends the program with its message.
    #[must_use]
    pub fn on_start(mut self, check: impl FnOnce() -> Result<(), ProviderError> + Send + Sync + 'static) -> Self {
        self.start.push(Box::new(check));
        self
    }

    /// Takes its time and randomness from `world`.
    #[must_use]
    pub fn in_world(mut self, world: World) -> Self {
        self.world = world;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its version, for people.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The CustomResourceDefinitions of its kinds.
    ///
    /// # Errors
    /// If a schema cannot be made structural.
    pub fn crds(&self) -> Result<Vec<Value>, CrdError> {
        self.handlers.values().map(|handler| handler.crd()).collect()
    }

    /// Checks what can be checked before anybody connects.
    pub(crate) fn prepare(&mut self) -> Result<(), ServeError> {
        self.crds()?;
        std::mem::take(&mut self.start).into_iter().try_for_each(|check| check()).map_err(ServeError::Start)
    }

    /// Serves until `cancel`; then lets sessions and creates end, for at most ten seconds.
    ///
    /// # Errors
    /// If a schema is not structural, a start check fails, or the listener breaks.
    pub async fn serve(mut self, listener: Listener, cancel: CancellationToken) -> Result<(), ServeError> {
        self.prepare()?;
        server::serve(self, listener, cancel).await.map_err(ServeError::Transport)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("name", &self.name).field("kinds", &self.handlers.keys()).finish()
    }
}
