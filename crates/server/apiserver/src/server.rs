//! The server itself: its parts, and the way of a request through them.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use concert_api::{Gvk, ObjectKey, Status, decode};
use concert_store::{OpenError, Options, Store, Window};
use concert_world::World;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::beside::Parsed;
use crate::delete::{DeleteOptions, Deleted};
use crate::kinds::{Kinds, Registry};
use crate::openapi;
use crate::respond::{self, Body, Form};
use crate::target::{Query, Route, Target, route};
use crate::write::{Change, Written};

/// Larger request bodies are refused, as by the real server.
const BODY_LIMIT: usize = 3 << 20;
/// The Kubernetes version whose API this is.
const VERSION: (&str, &str, &str) = ("1", "37", "v1.37.1");
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
/// it are taken to be authenticated.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    store: Store<Parsed>,
    registry: Registry,
    world: World,
    stop: watch::Sender<bool>,
    /// Work that outlives the request that began it.
    background: Mutex<JoinSet<()>>,
}

impl Inner {
    fn new(store: Store<Parsed>, registry: Registry, world: World) -> Arc<Self> {
        Arc::new(Self { store, registry, world, stop: watch::Sender::new(false), background: Mutex::default() })
    }
}

impl Server {
    /// An empty server in memory, with its first namespaces.
    ///
    /// # Panics
    /// Never: writing to memory does not fail.
    pub async fn in_memory(world: World) -> Self {
        let store = Store::in_memory(&world, Window::default());
        Self::on(store, world).await.expect("memory does not fail")
    }

    /// The same with the limits of `options`.
    ///
    /// # Errors
    /// They leave no room for the first namespaces.
    pub async fn in_memory_with(options: Options, world: World) -> Result<Self, StartError> {
        Self::on(Store::in_memory_with(options, &world), world).await
    }

    /// A server on the store in `directory`, opened or made there.
    ///
    /// # Errors
    /// The directory cannot be used, is in use by another process, or holds a damaged store.
    pub async fn open(directory: &Path, options: Options, world: World) -> Result<Self, StartError> {
        let store = Store::open(directory, options, &world)?;
        Self::on(store, world).await
    }

    async fn on(store: Store<Parsed>, world: World) -> Result<Self, StartError> {
        let registry = Registry::default();
        registry.refresh(&store.snapshot());
        let server = Self(Inner::new(store, registry, world));
        server.prepare().await.map_err(|status| StartError::Prepare(status.message))?;
        server.sweep();
        Ok(server)
    }

    async fn prepare(&self) -> Result<(), Status> {
        let kinds = self.kinds();
        let Some(resource) = kinds.get("", "namespaces") else {
            return Err(Status::internal("the tables of built-in kinds have no Namespace"));
        };
        for name in NAMESPACES {
            let mut target = Target::stored(resource, &ObjectKey::cluster(name));
            target.name = None;
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
            match self.create(&target, &Query::default(), body.as_bytes()).await {
                Ok(_) => {}
                Err(status) if status.reason == "AlreadyExists" => {}
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }

    /// A server in memory that begins as this one is now: same objects, same compiled kinds, same history. Costs
    /// microseconds, however much there is.
    #[must_use]
    pub fn fork(&self, world: World) -> Self {
        let store = self.0.store.fork(&world, Window::default());
        let registry = self.0.registry.fork();
        Self(Inner::new(store, registry, world))
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

    pub(crate) fn store(&self) -> &Store<Parsed> {
        &self.0.store
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
        self.0.registry.refresh(&self.0.store.snapshot())
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data: Send> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let Some(route) = route(parts.uri.path()) else { return respond::nowhere() };
        let form = match respond::negotiate(&parts.headers) {
            Ok(form) => form,
            // Its only readers ask for nothing but protobuf.
            Err(_) if matches!(route, Route::OpenApiV2) => Form::Object,
            Err(status) => return respond::failure(&status),
        };
        match route {
            Route::Version => respond::json(200, &version()),
            Route::OpenApiV2 => openapi::version_two(&parts.headers),
            Route::Health => respond::text(200, "ok"),
            Route::Backup if parts.method == Method::GET => respond::download(self.0.store.backup()),
            Route::Backup => respond::failure(&Status::method_not_allowed()),
            Route::Discovery(segments) => self.discovery(&segments, form),
            Route::OpenApi(document) => self.openapi(document),
            Route::Resource(path) => {
                let found = Target::find(&self.kinds(), &path).or_else(|| Target::find(&self.refresh_kinds(), &path));
                let Some(target) = found else { return respond::nowhere() };
                let answer = async {
                    let query = Query::parse(&parts.method, parts.uri.query().unwrap_or_default())?;
                    let body = read_body(body).await?;
                    self.resource(&parts.method, &parts.headers, &target, &query, form, &body).await
                };
                let mut response = answer.await.unwrap_or_else(|status| respond::failure(&status));
                if let Some(warning) = &target.version().deprecated {
                    respond::warn(&mut response, std::slice::from_ref(warning));
                }
                response
            }
        }
    }

    async fn resource(
        &self,
        method: &Method,
        headers: &HeaderMap,
        target: &Target,
        query: &Query,
        form: Form,
        body: &[u8],
    ) -> Result<Response<Body>, Status> {
        match (method, target.name.is_some()) {
            (&Method::GET, false) if query.watch => Ok(respond::stream(self.watch(target, query, form).await?)),
            (&Method::GET, false) => self.list(target, query, form).await,
            (&Method::GET, true) if query.watch => Ok(respond::stream(self.watch(target, query, form).await?)),
            (&Method::GET, true) => Ok(respond::bytes(200, self.get(target, query, form)?)),
            (&Method::POST, false) if !target.resource.namespaced || target.namespace.is_some() => {
                check_media(headers, BODY_TYPES)?;
                let written = self.create(target, query, body).await?;
                self.written(target, query, form, written)
            }
            (&Method::PUT, true) => {
                check_media(headers, BODY_TYPES)?;
                let written = self.update(target, query, &Change::replace(target, query, body)?).await?;
                self.written(target, query, form, written)
            }
            (&Method::PATCH, true) => {
                let change = read_patch(headers, body)?;
                let written = self.update(target, query, &change).await?;
                self.written(target, query, form, written)
            }
            (&Method::DELETE, true) if !target.status => {
                let options = DeleteOptions::read(body, query)?;
                Ok(match self.delete(target, &options).await? {
                    Deleted::Gone(status) => respond::json(200, &status),
                    Deleted::Marked(object) => respond::bytes(200, object),
                })
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    async fn list(&self, target: &Target, query: &Query, form: Form) -> Result<Response<Body>, Status> {
        let page = self.page(target, query).await?;
        Ok(match form {
            Form::Object | Form::AggregatedDiscovery(_) => respond::stream(page.pieces(target)),
            Form::Table | Form::Metadata => respond::json(200, &self.page_document(target, query, form, &page)?),
        })
    }

    /// The answer to a write: the object in the form the client wants, and its warnings.
    fn written(&self, target: &Target, query: &Query, form: Form, written: Written) -> Result<Response<Body>, Status> {
        let body = match form {
            Form::Object | Form::AggregatedDiscovery(_) => written.object,
            Form::Table | Form::Metadata => {
                let object: Value = serde_json::from_slice(&written.object).map_err(Status::internal)?;
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let shaped = if form == Form::Table {
                    crate::table::table(target, query, &[object], &metadata, self.now())
                } else {
                    crate::table::metadata_only(&object)
                };
                shaped.to_string().into()
            }
        };
        let mut response = respond::bytes(written.code, body);
        respond::warn(&mut response, &written.warnings);
        Ok(response)
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

impl<B> tower::Service<Request<B>> for Server
where
    B: http_body::Body<Data: Send> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}

const BODY_TYPES: &[&str] = &["application/json"];
const PATCH_TYPES: &str = "application/json-patch+json, application/merge-patch+json";

async fn read_body<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body<Data: Send> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(BODY_LIMIT)),
        Err(error) => Err(Status::bad_request(format!("cannot read the request body: {error}"))),
    }
}

fn media(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

fn unsupported_media(accepted: &str) -> Status {
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
    Status::failure(415, "UnsupportedMediaType", message)
}

/// A body without a type is taken for JSON, as by the real server.
fn check_media(headers: &HeaderMap, accepted: &[&str]) -> Result<(), Status> {
    let media = media(headers);
    if media.is_empty() || accepted.contains(&media) { Ok(()) } else { Err(unsupported_media(&accepted.join(", "))) }
}

fn read_patch(headers: &HeaderMap, body: &[u8]) -> Result<Change, Status> {
    let patch = || {
        let decoded = decode(body).map(|decoded| decoded.value);
        decoded.map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))
    };
    match media(headers) {
        "application/json-patch+json" => Ok(Change::JsonPatch(patch()?)),
        "application/merge-patch+json" => Ok(Change::MergePatch(patch()?)),
        _ => Err(unsupported_media(PATCH_TYPES)),
    }
}

fn version() -> Value {
    let (major, minor, git) = VERSION;
    json!({
        "major": major, "minor": minor, "gitVersion": format!("{git}+concert"), "gitCommit": "", "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
    })
}
