//! The server itself: its parts, its life, and what others may do with it.

use std::fmt;
use std::future::Future;
use std::path::Path as FilePath;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use concert_api::{Gvk, ObjectKey, Status};
use concert_store::{OpenError, Options, Store, Window};
use concert_world::World;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::access::Access;
use crate::admission::{Admission, Hooks};
use crate::beside::Parsed;
use crate::body::Media;
use crate::books::SERVER;
use crate::housekeeping::Housekeeping;
use crate::kinds::{Kinds, Registry};
use crate::target::{Query, Target};

/// Namespaces that are always there.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Something to be done to its end.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The first namespaces cannot be written.
    #[error("cannot prepare the store: {0}")]
    Prepare(String),
}

/// A Kubernetes API server. Cheap to clone; clones are the same server. It is a tower `Service`: requests that reach
/// it are taken to be authenticated: as the [`User`](crate::User) in their extensions, or as this process itself.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    store: Store<Parsed>,
    registry: Registry,
    world: World,
    access: Access,
    stop: watch::Sender<bool>,
    /// Work that outlives the request that began it.
    background: Mutex<JoinSet<()>>,
    housekeeping: Housekeeping,
    /// With what clients verify this server.
    certificate: OnceLock<Arc<str>>,
    hooks: Hooks,
    /// Held by whoever gives services their addresses.
    addresses: tokio::sync::Mutex<()>,
}

impl Inner {
    fn new(store: Store<Parsed>, registry: Registry, access: Access, world: World, hooks: Hooks) -> Self {
        Self {
            store,
            registry,
            access,
            world,
            stop: watch::Sender::new(false),
            background: Mutex::default(),
            housekeeping: Housekeeping::default(),
            certificate: OnceLock::new(),
            addresses: tokio::sync::Mutex::default(),
            hooks,
        }
    }
}

/// A server that does not keep the server alive.
pub(crate) struct WeakServer(Weak<Inner>);

impl WeakServer {
    pub(crate) fn upgrade(&self) -> Option<Server> {
        self.0.upgrade().map(Server)
    }
}

impl Server {
    /// An empty server in memory, with its first namespaces.
    ///
    /// # Panics
    /// Never: writing to memory does not fail.
    pub async fn in_memory(world: World) -> Self {
        Self::in_memory_admitting(world, Vec::new()).await
    }

    /// An empty server in memory whose writes pass these hooks.
    ///
    /// # Panics
    /// If a hook refuses the first namespaces.
    pub async fn in_memory_admitting(world: World, hooks: Vec<Arc<dyn Admission>>) -> Self {
        let store = Store::in_memory(&world, Window::default());
        let server = Self::on(store, world, hooks).await.expect("memory does not fail");
        server.settled().await;
        server
    }

    /// The same with the limits of `options`.
    ///
    /// # Errors
    /// They leave no room for the first namespaces.
    pub async fn in_memory_with(options: Options, world: World) -> Result<Self, StartError> {
        let server = Self::on(Store::in_memory_with(options, &world), world, Vec::new()).await?;
        server.settled().await;
        Ok(server)
    }

    /// A server on the store in `directory`, opened or made there.
    ///
    /// # Errors
    /// The directory cannot be used, is in use by another process, or holds a damaged store.
    pub async fn open(directory: &FilePath, options: Options, world: World) -> Result<Self, StartError> {
        Self::open_admitting(directory, options, world, Vec::new()).await
    }

    /// A server on the store in `directory` whose writes pass these hooks.
    ///
    /// # Errors
    /// As [`Server::open`].
    pub async fn open_admitting(
        directory: &FilePath,
        options: Options,
        world: World,
        hooks: Vec<Arc<dyn Admission>>,
    ) -> Result<Self, StartError> {
        let store = Store::open(directory, options, &world)?;
        Self::on(store, world, hooks).await
    }

    async fn on(store: Store<Parsed>, world: World, hooks: Vec<Arc<dyn Admission>>) -> Result<Self, StartError> {
        let registry = Registry::default();
        registry.refresh(&store);
        let inner = Inner::new(store, registry, Access::default(), world, Hooks(hooks.into()));
        let server = Self(Arc::new(inner));
        server.prepare().await.map_err(|status| StartError::Prepare(status.message))?;
        server.sweep();
        server.keep_house();
        Ok(server)
    }

    async fn prepare(&self) -> Result<(), Status> {
        let kinds = self.kinds();
        let Some(resource) = kinds.get("", "namespaces") else {
            return Err(Status::internal("the tables of built-in kinds have no Namespace"));
        };
        // Together, so that they wait for the disk once.
        let written = futures::future::join_all(NAMESPACES.map(async |name| {
            let mut target = Target::stored(resource, &ObjectKey::cluster(name));
            target.name = None;
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
            self.create(&target, &Query::own(SERVER), Media::Json, body.as_bytes()).await
        }));
        written.await.into_iter().try_for_each(|written| match written {
            Err(status) if status.reason != "AlreadyExists" => Err(status),
            _ => Ok(()),
        })
    }

    /// A server in memory that begins as this one is now: same objects, same compiled kinds, same history. Costs
    /// microseconds, however much there is.
    #[must_use]
    pub fn fork(&self, world: World) -> Self {
        let store = self.0.store.fork(&world, Window::default());
        let registry = self.0.registry.fork();
        let mut inner = Inner::new(store, registry, self.0.access.fork(), world, self.0.hooks.clone());
        inner.housekeeping = self.0.housekeeping.fork();
        inner.certificate = self.0.certificate.clone();
        Self(Arc::new(inner))
    }

    /// Puts the certificate (PEM) with which clients verify this server into every namespace, now and later, as the
    /// `ConfigMap` `kube-root-ca.crt`. The first certificate counts.
    pub fn publish_certificate(&self, pem: &str) {
        if self.0.certificate.set(pem.into()).is_ok() {
            self.0.housekeeping.refurnish();
            let server = self.clone();
            drop(self.in_background(Box::pin(async move { server.settled().await })));
        }
    }

    /// Identifies this server's store, over restarts.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        self.0.store.cluster_id()
    }

    /// Ends all watches. Requests are still answered.
    pub fn stop_watches(&self) {
        self.0.stop.send_replace(true);
    }

    /// Ends all watches and closes the store; what was acknowledged is on disk.
    pub fn close(&self) {
        self.stop_watches();
        self.0.background.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        self.0.housekeeping.stop();
        self.0.store.close();
    }

    /// Resolves with the reason when the disk fails. The process should end then.
    pub async fn failed(&self) -> Arc<str> {
        self.0.store.failed().await
    }

    /// Why the disk failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        self.0.store.failure()
    }

    /// Carries on with `work` even if the returned future, which waits for its end, is dropped.
    pub(crate) fn in_background(&self, work: Work) -> impl Future<Output = ()> + use<> {
        let (done, ended) = tokio::sync::oneshot::channel();
        let mut background = self.0.background.lock().unwrap_or_else(PoisonError::into_inner);
        while background.try_join_next().is_some() {}
        background.spawn(async move {
            work.await;
            // Whoever asked may have gone.
            let _ = done.send(());
        });
        async move {
            let _ = ended.await;
        }
    }

    pub(crate) fn downgrade(&self) -> WeakServer {
        WeakServer(Arc::downgrade(&self.0))
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        &self.0.hooks
    }

    pub(crate) fn housekeeping(&self) -> &Housekeeping {
        &self.0.housekeeping
    }

    /// For one writer of services at a time: no two get the same address.
    pub(crate) fn addresses(&self) -> &tokio::sync::Mutex<()> {
        &self.0.addresses
    }

    pub(crate) fn root_certificate(&self) -> Option<&str> {
        self.0.certificate.get().map(AsRef::as_ref)
    }

    pub(crate) fn store(&self) -> &Store<Parsed> {
        &self.0.store
    }

    pub(crate) fn access(&self) -> &Access {
        &self.0.access
    }

    pub(crate) fn world(&self) -> &World {
        &self.0.world
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stop.subscribe()
    }

    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        self.0.registry.current()
    }

    pub(crate) fn refresh_kinds(&self) -> Arc<Kinds> {
        self.0.registry.refresh(&self.0.store)
    }

    /// Whether a kind is served, for those who share the process.
    #[must_use]
    pub fn serves(&self, gvk: &Gvk) -> bool {
        self.kinds().iter().any(|one| one.version(&gvk.version).is_some_and(|version| version.gvk == *gvk))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({:?})", self.0.store)
    }
}
