//! The server itself: its parts, and the way of a request through them.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::path::Path as FilePath;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use concert_api::{Details, Gvk, ObjectKey, Status, decode};
use concert_store::{OpenError, Options, Store, Window};
use concert_world::World;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::access::Access;
use crate::admission::{Admission, Hooks};
use crate::auth::User;
use crate::beside::Parsed;
use crate::body::{Media, content_type, unsupported_media};
use crate::delete::{DeleteOptions, Deleted, json_type};
use crate::housekeeping::Housekeeping;
use crate::kinds::{Kinds, Registry};
use crate::openapi;
use crate::protobuf;
use crate::read::Page;
use crate::respond::{self, Body, Form};
use crate::scale;
use crate::target::{Part, Query, Route, Target, route};
use crate::write::{Change, Written};

/// Larger request bodies are refused, as by the real server.
const BODY_LIMIT: usize = 3 << 20;
/// A body that takes longer than any request may.
const BODY_TIME: Duration = Duration::from_secs(60);
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
        registry.refresh(&store.snapshot());
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
        for name in NAMESPACES {
            let mut target = Target::stored(resource, &ObjectKey::cluster(name));
            target.name = None;
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string();
            match self.create(&target, &Query::default(), Media::Json, body.as_bytes()).await {
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
        self.0.registry.refresh(&self.0.store.snapshot())
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data: Send> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let mut response = match self.admit(&parts) {
            Ok(mut admitted) => {
                let caller = admitted.caller.take();
                admitted.holds(self.answer_admitted(parts, caller, body).await)
            }
            Err(refusal) => *refusal,
        };
        respond::identify(&mut response, &self.world().random.uuid());
        response
    }

    /// Answers a request that was let in.
    async fn answer_admitted<B>(&self, mut parts: Parts, caller: Option<Arc<User>>, body: B) -> Response<Body>
    where
        B: http_body::Body<Data: Send> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
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
                if let Some(account) = path.token_of() {
                    return self.answer_token(&account, parts, caller, body).await;
                }
                let found = Target::find(&self.kinds(), &path).or_else(|| Target::find(&self.refresh_kinds(), &path));
                let Some(target) = found else { return self.no_resource(&path) };
                let watched = path.watched;
                let answer = async {
                    let query = Query::parse(&parts.method, parts.uri.query().unwrap_or_default())?;
                    let query = Query { caller, watch: query.watch || watched, watched_one: watched, ..query };
                    if watched && parts.method != Method::GET {
                        return Err(Status::method_not_allowed());
                    }
                    let body = read_body(body).await?;
                    let body = protobuf::translated(&mut parts.headers, &target, body)?;
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

    /// The answer where a path leads to no resource: of a built-in group that nothing is found, of a custom resource
    /// that the object is not there, and else nothing at all.
    fn no_resource(&self, path: &crate::target::Path<'_>) -> Response<Body> {
        let kinds = self.kinds();
        let mut same_group = kinds.iter().filter(|one| *one.id.group == *path.group).peekable();
        if same_group.peek().is_some_and(|one| !one.is_custom()) {
            return respond::failure(&respond::no_resource());
        }
        match (kinds.get(path.group, path.resource), &path.name) {
            (Some(resource), Some(name)) if path.subresource.is_some() && resource.version(path.version).is_some() => {
                respond::failure(&Status::not_found(&resource.id, name))
            }
            _ => respond::nowhere(),
        }
    }

    /// Answers a request for a token of a service account.
    async fn answer_token<B>(
        &self,
        account: &ObjectKey,
        mut parts: Parts,
        caller: Option<Arc<User>>,
        body: B,
    ) -> Response<Body>
    where
        B: http_body::Body<Data: Send> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let answer = async {
            let query = Query::parse(&parts.method, parts.uri.query().unwrap_or_default())?;
            let query = Query { caller, ..query };
            if parts.method != Method::POST {
                return Err(Status::method_not_allowed());
            }
            let body = read_body(body).await?;
            let expected = ("authentication.k8s.io/v1", "TokenRequest");
            let body = protobuf::json(&mut parts.headers, expected, body)?;
            let written = self.request_token(account, &query, Media::of(&parts.headers)?, &body)?;
            let mut response = respond::bytes(written.code, written.object);
            respond::warn(&mut response, &written.warnings);
            Ok(response)
        };
        answer.await.unwrap_or_else(|status| respond::failure(&status))
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
        if method != Method::GET {
            // A fork's begins with its first write.
            self.keep_house();
        }
        if target.resource.is_answered() {
            return match (method, &target.name) {
                (_, Some(_)) => Err(Status::no_such_resource()),
                (&Method::POST, None) => {
                    let written = self.review(target, query, Media::of(headers)?, body)?;
                    self.written(target, query, form, written)
                }
                _ => Err(Status::method_not_allowed()),
            };
        }
        let media = || Media::of(headers);
        match (method, target.name.is_some()) {
            (&Method::GET | &Method::HEAD, _) if method == Method::GET || target.resource.is_custom() => {
                self.read(target, query, form).await
            }
            (&Method::POST, false) if !target.resource.namespaced || target.namespace.is_some() => {
                let written = self.create(target, query, media()?, body).await?;
                self.written(target, query, form, written)
            }
            (&Method::PUT, true) => {
                let change = Change::replace(target, query, media()?, body)?;
                let written = self.update(target, query, &change).await?;
                self.written(target, query, form, written)
            }
            (&Method::PATCH, true) if target.part != Part::Finalize => {
                let change = read_patch(target, query, headers, body)?;
                let written = self.update(target, query, &change).await?;
                self.written(target, query, form, written)
            }
            (&Method::DELETE, true) if target.part == Part::Whole => {
                let options = DeleteOptions::read(media()?, body, query)?;
                Ok(match self.delete(target, &options).await? {
                    Deleted::Gone(status) => respond::json(200, &status),
                    Deleted::Marked(object) => respond::bytes(200, object),
                })
            }
            (&Method::DELETE, false) if target.is_collection() && target.resource.deletes_collections() => {
                let options = DeleteOptions::read(media()?, body, query)?;
                let page = self.delete_collection(target, query, &options).await?;
                self.listed(target, query, form, page)
            }
            (&Method::PUT | &Method::PATCH, false) if target.resource.is_custom() => {
                Err(Status::bad_request("name must be provided"))
            }
            _ => Err(not_allowed(method, target)),
        }
    }

    /// GET: of one object or many, once or for a while.
    async fn read(&self, target: &Target, query: &Query, form: Form) -> Result<Response<Body>, Status> {
        if target.part == Part::Finalize {
            return Err(Status::method_not_allowed());
        }
        if target.name.is_some() && !query.watched_one {
            return Ok(respond::bytes(200, self.get(target, query, form).await?));
        }
        if query.watch {
            return Ok(respond::stream(self.watch(target, query, form).await?));
        }
        let page = self.page(target, query).await?;
        self.listed(target, query, form, page)
    }

    fn listed(&self, target: &Target, query: &Query, form: Form, page: Page) -> Result<Response<Body>, Status> {
        Ok(match form {
            Form::Object | Form::AggregatedDiscovery(_) => respond::stream(page.pieces(target)),
            Form::Table | Form::Metadata => respond::json(200, &self.page_document(target, query, form, &page)?),
        })
    }

    /// The answer to a write: the object in the form the client wants, and its warnings.
    fn written(&self, target: &Target, query: &Query, form: Form, written: Written) -> Result<Response<Body>, Status> {
        let body = match form {
            _ if target.part == Part::Scale => {
                let object: Value = serde_json::from_slice(&written.object).map_err(Status::internal)?;
                scale::before(target, &object)?.to_string().into()
            }
            Form::Object | Form::AggregatedDiscovery(_) => written.object,
            Form::Table | Form::Metadata => {
                let object: Value = serde_json::from_slice(&written.object).map_err(Status::internal)?;
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let shaped = if form == Form::Table {
                    crate::table::table(target, query, &[object], &metadata, self.now())?
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

const PATCH_TYPES: &str = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// 405; custom resources say it in other words for their subresources.
fn not_allowed(method: &Method, target: &Target) -> Status {
    let verb = match *method {
        Method::POST => "create",
        Method::DELETE => "delete",
        _ => return Status::method_not_allowed(),
    };
    if target.part == Part::Whole || !target.resource.is_custom() {
        return Status::method_not_allowed();
    }
    let id = &target.resource.id;
    let message = format!("{verb} is not supported on resources of kind \"{id}\"");
    Status::failure(405, "MethodNotAllowed", message).about(id, "")
}

async fn read_body<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body<Data: Send> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Ok(read) = tokio::time::timeout(BODY_TIME, Limited::new(body, BODY_LIMIT).collect()).await else {
        let message = format!("Timeout: the request body did not arrive within {} seconds", BODY_TIME.as_secs());
        return Err(Status::failure(504, "Timeout", message));
    };
    match read {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(BODY_LIMIT)),
        Err(error) => Err(Status::bad_request(format!("cannot read the request body: {error}"))),
    }
}

fn read_patch(target: &Target, query: &Query, headers: &HeaderMap, body: &[u8]) -> Result<Change, Status> {
    let patch = || {
        query.refuse_force()?;
        decode(body).map(|decoded| decoded.value).map_err(|_| Status::bad_request("invalid JSON patch"))
    };
    let wrong = |found: &Value, wanted: &str| {
        let found = json_type(found);
        Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}"
        ))
    };
    match content_type(headers) {
        "application/json-patch+json" => match patch()? {
            list @ Value::Array(_) => Ok(Change::JsonPatch(list)),
            other => Err(wrong(&other, "[]handlers.jsonPatchOp")),
        },
        "application/merge-patch+json" => match patch()? {
            object @ Value::Object(_) => Ok(Change::MergePatch(object)),
            Value::Null => Err(Status::bad_request("Invalid JSON Patch")),
            other => Err(wrong(&other, "map[string]interface {}")),
        },
        "application/strategic-merge-patch+json" | "application/apply-patch+yaml" => {
            Err(unsupported_media(PATCH_TYPES))
        }
        _ if target.resource.is_custom() => Err(unsupported_media(PATCH_TYPES)),
        _ => Err(Status::failure(415, "UnsupportedMediaType", "415: Unsupported Media Type").with(Details::default())),
    }
}

fn version() -> Value {
    let (major, minor, git) = VERSION;
    json!({
        "major": major, "minor": minor, "gitVersion": format!("{git}+concert"), "gitCommit": "", "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
    })
}
