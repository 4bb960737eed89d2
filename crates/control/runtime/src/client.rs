//! Requests to the API: one way in, in process or over a socket.
//!
//! A [`Client`] sends each request once, under a deadline, through the gate of its world. It retries only if it is told to
//! ([`Client::with_retries`]), and then only what is safe: who asks knows best what asking again would mean
//! ([`ApiError::outcome_unknown`]).

mod ask;
mod buffered;
mod connect;
mod error;
mod gate;
mod lanes;
mod layer;
mod limit;
mod names;
mod retry;
mod route;
mod settings;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use concert_api::{Gvk, Object, ObjectKey};
use concert_world::World;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tower::{BoxError, Layer, Service};

pub use connect::{ConnectError, Source};
pub(crate) use error::without_values;
pub use error::{Answer, ApiError};
pub use gate::Attempt;
pub use layer::Sender;
pub use settings::FieldValidation;

use crate::objects::Patch;
use crate::resource::{Resource, escape};
use crate::scope::Form;
use ask::Ask;
use gate::GateLayer;
use names::Names;
use retry::Budget;
use settings::Settings;

/// How long a request may take, its answer included.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// Objects per page of a list, as client-go asks for.
pub(crate) const PAGE: usize = 500;
const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A way to the API. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    kube: kube::Client,
    world: World,
    settings: Arc<Settings>,
    /// Finds the server.
    names: Names,
    /// Whether this server has to be asked for lists page by page: known once for all who ask it.
    in_pages: Arc<AtomicBool>,
    /// What the server has warned of already.
    warnings: Arc<Mutex<BTreeSet<String>>>,
    /// How many second tries are left.
    budget: Arc<Budget>,
}

/// What a list is limited to. Everything by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selection {
    /// One namespace; empty for all.
    pub namespace: String,
    /// A label selector in text form; empty for all.
    pub labels: String,
    /// A field selector in text form; empty for all.
    pub fields: String,
}

/// All objects of a list, as of one revision.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The objects; their managedFields are left out, kind and apiVersion are filled in.
    pub objects: Vec<Object>,
    /// The resourceVersion of the list.
    pub resource_version: String,
}

/// What must hold for a delete to be carried out, and how it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Only the object with this uid.
    pub uid: Option<String>,
    /// Only this version of it.
    pub resource_version: Option<String>,
    /// What becomes of what it owns; by default as the kind has it.
    pub propagation: Option<Propagation>,
    /// How long it may take to end, in whole seconds, rounded up: zero is at once, by force. By default as the object has it.
    pub grace: Option<Duration>,
}

/// What becomes of what a deleted object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// It is deleted afterwards.
    Background,
    /// It is deleted before.
    Foreground,
    /// It stays, without its owner.
    Orphan,
}

impl Deletion {
    /// As the API has it.
    fn options(&self, dry: bool) -> Value {
        let mut options = json!({ "kind": "DeleteOptions", "apiVersion": "v1" });
        if let Some(uid) = &self.uid {
            options["preconditions"]["uid"] = uid.as_str().into();
        }
        if let Some(revision) = &self.resource_version {
            options["preconditions"]["resourceVersion"] = revision.as_str().into();
        }
        if let Some(propagation) = self.propagation {
            options["propagationPolicy"] = format!("{propagation:?}").into();
        }
        if let Some(grace) = self.grace {
            let seconds = grace.as_secs().saturating_add(u64::from(grace.subsec_nanos() > 0));
            options["gracePeriodSeconds"] = seconds.min(i64::MAX.unsigned_abs()).into();
        }
        if dry {
            options["dryRun"] = json!(["All"]);
        }
        options
    }
}

/// A page of a list, borrowed from its bytes.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    /// May be null, but is always there: what has no items is no list, and must not be taken for an empty one.
    #[serde(borrow, deserialize_with = "Deserialize::deserialize")]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMeta {
    resource_version: String,
    r#continue: String,
}

/// A page of a list: the bytes of its objects, and how to go on.
#[derive(Debug)]
pub(crate) struct RawPage {
    pub(crate) items: Vec<Bytes>,
    pub(crate) resource_version: String,
    /// Empty when this was the last page.
    pub(crate) next: String,
}

impl Client {
    /// A client of a server in this process: any tower service that answers HTTP requests. No socket, no TLS.
    pub fn in_process<S, B>(service: S, world: World) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let gated = GateLayer::new(&world).layer(service);
        Self::assemble(kube::Client::new(gated, "default"), world, "in-process".to_owned())
    }

    /// A client of the cluster that `source` names, or that kubectl would use: `--kubeconfig`, `KUBECONFIG`, the
    /// pod's service account, `~/.kube/config`.
    ///
    /// # Errors
    /// No cluster is named, or its configuration is wrong. Whether it answers is not tried.
    pub async fn connect(source: &Source, world: World) -> Result<Self, ConnectError> {
        let found = connect::find(source, &connect::Surroundings::of_this_process()).await?;
        let names = Names::default();
        let kube = connect::client(&found, &world, &names)?;
        let host = found.config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
        Ok(Self { names, ..Self::assemble(kube, world, host) })
    }

    fn assemble(kube: kube::Client, world: World, host: String) -> Self {
        let (settings, names) = (Arc::new(Settings::new(host)), Names::default());
        let (in_pages, warnings, budget) = (Arc::default(), Arc::default(), Arc::default());
        Self { kube, world, settings, names, in_pages, warnings, budget }
    }

    /// The world it acts in.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Whether both talk to the same server: they are clones of one client.
    pub(crate) fn is_of_same_server(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.in_pages, &other.in_pages)
    }

    /// The server it talks to, as host and port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.settings.host
    }

    /// The namespace of the kubeconfig's context, or of the pod; else `default`.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        self.kube.default_namespace()
    }

    /// kube's client on the same way through the same gate, for its typed API.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// One object; `None` if there is none of that name.
    ///
    /// # Errors
    /// The kind is missing, we may not, or the server has trouble.
    pub async fn get(&self, resource: &Resource, key: &ObjectKey) -> Result<Option<Object>, ApiError> {
        self.get_part(resource, key, None).await
    }

    /// One object, or a subresource of it; `None` if there is none of that name.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn get_part(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        subresource: Option<&str>,
    ) -> Result<Option<Object>, ApiError> {
        let action = format!("get {} {key}", named(resource, subresource));
        match self.object(resource, subresource, Ask::new(Method::GET, resource.path(key, subresource), action)).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() && !error.is_kind_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One object with its `managedFields`, as a tree; `None` if there is none of that name.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn get_whole(&self, resource: &Resource, key: &ObjectKey) -> Result<Option<Value>, ApiError> {
        let action = format!("get {} {key}", resource.group_resource());
        let ask = Ask::new(Method::GET, resource.path(key, None), action.clone());
        match self.send(ask).await {
            Ok(body) => serde_json::from_slice(&body).map(Some).map_err(|error| unreadable(&action, false, &error)),
            Err(error) if error.is_not_found() && !error.is_kind_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All objects of a kind, page by page at one revision.
    ///
    /// # Errors
    /// As [`Client::get`]; one object that cannot be read fails the list.
    pub async fn list(&self, resource: &Resource, selection: &Selection) -> Result<Listing, ApiError> {
        let (mut objects, mut token) = (Vec::new(), String::new());
        loop {
            let page = self.list_page(resource, selection, Form::Full, &token, PAGE).await?;
            for item in page.items {
                let object = Object::lean(&item, &resource.gvk);
                let action = format!("list {}", resource.group_resource());
                objects.push(object.map_err(|error| ApiError::parse(&action, false, &error))?);
            }
            if page.next.is_empty() {
                return Ok(Listing { objects, resource_version: page.resource_version });
            }
            token = page.next;
        }
    }

    /// One page of a list, its objects still bytes.
    pub(crate) async fn list_page(
        &self,
        resource: &Resource,
        selection: &Selection,
        form: Form,
        token: &str,
        size: usize,
    ) -> Result<RawPage, ApiError> {
        let mut query = selection.query();
        query.push(format!("limit={size}"));
        if !token.is_empty() {
            query.push(format!("continue={}", escape(token)));
        }
        let path = format!("{}?{}", resource.collection(&selection.namespace), query.join("&"));
        let action = format!("list {}", resource.group_resource());
        let mut ask = Ask::new(Method::GET, path, action.clone());
        if form == Form::Metadata {
            ask.accept = METADATA_LIST;
        }
        let body = self.send(ask).await?;
        let page: Page<'_> = serde_json::from_slice(&body).map_err(|e| unreadable(&action, false, &e))?;
        let items = page.items.unwrap_or_default().into_iter().map(|item| body.slice_ref(item.get().as_bytes()));
        Ok(RawPage {
            items: items.collect(),
            resource_version: page.metadata.resource_version,
            next: page.metadata.r#continue,
        })
    }

    /// Creates an object; its namespace is in its metadata.
    ///
    /// # Errors
    /// It exists, is invalid, or the server has trouble ([`ApiError::outcome_unknown`]).
    pub async fn create(&self, resource: &Resource, object: &Value) -> Result<Object, ApiError> {
        let namespace = concert_api::meta::text(object, "namespace");
        let name = concert_api::meta::text(object, "name");
        let action = format!("create {} {}", resource.group_resource(), resource.key(namespace, name));
        let path = self.writing(resource.collection(namespace));
        self.object(resource, None, Ask::new(Method::POST, path, action).json(object)).await
    }

    /// Asks the server something by creating an object that it answers and does not keep, such as a TokenReview or a
    /// SubjectAccessReview: the answer as it is.
    ///
    /// # Errors
    /// As [`Client::create`].
    pub async fn review(&self, resource: &Resource, question: &Value) -> Result<Value, ApiError> {
        let namespace = concert_api::meta::text(question, "namespace");
        let action = format!("create {}", resource.group_resource());
        let path = self.writing(resource.collection(namespace));
        let answer = self.send(Ask::new(Method::POST, path, action.clone()).json(question)).await?;
        serde_json::from_slice(&answer).map_err(|error| unreadable(&action, true, &error))
    }

    /// Asks something of an object by creating a subresource of it, such as `token`, `eviction` or `binding`: the answer as it
    /// is, of whatever kind.
    ///
    /// # Errors
    /// As [`Client::create`]; not found if there is no such object.
    pub async fn create_part(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        subresource: &str,
        body: &Value,
    ) -> Result<Value, ApiError> {
        let action = format!("create {} {key}", named(resource, Some(subresource)));
        let path = self.writing(resource.path(key, Some(subresource)));
        let answer = self.send(Ask::new(Method::POST, path, action.clone()).json(body)).await?;
        serde_json::from_slice(&answer).map_err(|error| unreadable(&action, true, &error))
    }

    /// Replaces an object by its whole new state; with a resourceVersion in its metadata only if that is current.
    ///
    /// # Errors
    /// As [`Client::create`]; a conflict if it changed.
    pub async fn replace(
        &self,
        resource: &Resource,
        object: &Value,
        subresource: Option<&str>,
    ) -> Result<Object, ApiError> {
        let text = |field| concert_api::meta::text(object, field);
        let key = resource.key(text("namespace"), text("name"));
        let action = format!("replace {} {key}", named(resource, subresource));
        let path = self.writing(resource.path(&key, subresource));
        self.object(resource, subresource, Ask::new(Method::PUT, path, action).json(object)).await
    }

    /// Applies a JSON merge patch (RFC 7386). A `metadata.resourceVersion` in it is a precondition.
    ///
    /// # Errors
    /// As [`Client::replace`]; not found if it is gone.
    pub async fn merge_patch(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        patch: &Value,
        subresource: Option<&str>,
    ) -> Result<Object, ApiError> {
        self.patch(resource, key, &Patch::raw_merge(patch.clone()), subresource).await
    }

    /// Applies a JSON patch (RFC 6902): an array of operations, `test` among them.
    ///
    /// # Errors
    /// As [`Client::merge_patch`]; invalid if a test fails.
    pub async fn json_patch(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        patch: &Value,
        subresource: Option<&str>,
    ) -> Result<Object, ApiError> {
        self.patch(resource, key, &Patch::raw_json(patch.clone()), subresource).await
    }

    /// Changes an object, or a subresource of it; an apply may also create it.
    ///
    /// # Errors
    /// As [`Client::merge_patch`]; a conflict if an apply meets fields of others.
    pub async fn patch(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        patch: &Patch,
        subresource: Option<&str>,
    ) -> Result<Object, ApiError> {
        self.patch_or_create(resource, key, patch, subresource).await.map(|(_, object)| object)
    }

    /// As [`Client::patch`]; an apply makes what is not there, and says so.
    pub(crate) async fn patch_or_create(
        &self,
        resource: &Resource,
        key: &ObjectKey,
        patch: &Patch,
        subresource: Option<&str>,
    ) -> Result<(StatusCode, Object), ApiError> {
        let action = format!("patch {} {key}", named(resource, subresource));
        let path = self.writing(resource.path(key, subresource));
        let path = if patch.is_forced() { format!("{path}&force=true") } else { path };
        let mut ask = Ask::new(Method::PATCH, path, action);
        ask.body = Some((patch.content_type(), patch.body().to_string().into()));
        self.coded_object(resource, subresource, ask).await
    }

    /// Deletes all objects of a namespace (of the cluster, if the kind has none) that a selection selects.
    ///
    /// # Errors
    /// As [`Client::delete`].
    pub async fn delete_all(&self, resource: &Resource, selection: &Selection, how: &Deletion) -> Result<(), ApiError> {
        let path = format!("{}?{}", resource.collection(&selection.namespace), selection.query().join("&"));
        let action = format!("delete all {}", resource.group_resource());
        self.send(Ask::new(Method::DELETE, path, action).json(&how.options(self.is_dry()))).await.map(drop)
    }

    /// Deletes an object, or begins to if it has finalizers.
    ///
    /// # Errors
    /// Not found if it is gone; a conflict if a precondition does not hold.
    pub async fn delete(&self, resource: &Resource, key: &ObjectKey, how: &Deletion) -> Result<(), ApiError> {
        let (options, action) = (how.options(self.is_dry()), format!("delete {} {key}", resource.group_resource()));
        self.send(Ask::new(Method::DELETE, resource.path(key, None), action).json(&options)).await.map(drop)
    }

    /// The answer to a plain GET of any path, as JSON.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn get_raw(&self, path: &str) -> Result<Bytes, ApiError> {
        self.send(Ask::new(Method::GET, path.to_owned(), format!("get {path}"))).await
    }

    /// The answer to a plain GET of any path, piece by piece as it arrives, until `take` wants no more. All of it has
    /// to arrive before the deadline.
    ///
    /// # Errors
    /// As [`Client::get`]; the pieces may have been taken in part.
    pub async fn download(&self, path: &str, mut take: impl FnMut(&[u8]) -> bool) -> Result<(), ApiError> {
        let (action, after) = (format!("get {path}"), self.settings.deadline);
        let whole = async {
            let ask = Ask::new(Method::GET, path.to_owned(), action.clone());
            let mut body = self.exchange(ask, Attempt::default()).await?.into_body();
            while let Some(frame) = body.frame().await {
                let frame =
                    frame.map_err(|e| ApiError::Broken { action: action.clone(), write: false, source: e.into() })?;
                if frame.into_data().is_ok_and(|data| !take(&data)) {
                    break;
                }
            }
            Ok(())
        };
        let answer = tokio::time::timeout(after, whole).await;
        answer.unwrap_or_else(|_| Err(ApiError::TimedOut { action: action.clone(), write: false, after }))
    }

    /// The resource of a kind, if the server serves it. Asks each time: kinds come and go.
    ///
    /// # Errors
    /// The server has trouble.
    pub async fn resource_for(&self, gvk: &Gvk) -> Result<Option<Resource>, ApiError> {
        #[derive(Deserialize)]
        struct List {
            resources: Vec<Served>,
        }
        #[derive(Deserialize)]
        struct Served {
            name: String,
            kind: String,
            namespaced: bool,
        }
        let path = Resource::root(gvk);
        let body = match self.get_raw(&path).await {
            Ok(body) => body,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let list: List = serde_json::from_slice(&body).map_err(|e| unreadable(&format!("get {path}"), false, &e))?;
        let served = list.resources.into_iter().find(|r| r.kind == gvk.kind && !r.name.contains('/'));
        Ok(served.map(|r| Resource { gvk: gvk.clone(), plural: r.name, namespaced: r.namespaced }))
    }

    /// Opens a watch: its body goes on until the server ends it. Only the beginning of the answer has a deadline.
    pub(crate) async fn open(&self, path: String, action: &str, form: Form) -> Result<Body, ApiError> {
        let mut ask = Ask::new(Method::GET, path, action.to_owned());
        if form == Form::Metadata {
            ask.accept = METADATA;
        }
        Ok(self.exchange(ask, Attempt::default()).await?.into_body())
    }

    /// Whether the server is still believed to send lists as events.
    pub(crate) fn lists_as_events(&self) -> bool {
        !self.in_pages.load(Ordering::Relaxed)
    }

    /// The server turned out not to.
    pub(crate) fn list_in_pages(&self) {
        self.in_pages.store(true, Ordering::Relaxed);
    }

    async fn object(&self, resource: &Resource, part: Option<&str>, ask: Ask<'_>) -> Result<Object, ApiError> {
        self.coded_object(resource, part, ask).await.map(|(_, object)| object)
    }

    async fn coded_object(
        &self,
        resource: &Resource,
        part: Option<&str>,
        ask: Ask<'_>,
    ) -> Result<(StatusCode, Object), ApiError> {
        let (action, write) = (ask.action.clone(), ask.is_write());
        let (code, body) = self.converse(ask).await?;
        // A scale is a kind of its own, and says so.
        let own = part.filter(|part| *part != "status").and_then(|_| Object::parse(body.clone()).ok()?.gvk());
        let object = Object::lean(&body, own.as_ref().unwrap_or(&resource.gvk));
        object.map(|object| (code, object)).map_err(|error| ApiError::parse(&action, write, &error))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("host", &self.settings.host).finish_non_exhaustive()
    }
}

impl Selection {
    /// As terms of a query.
    pub(crate) fn query(&self) -> Vec<String> {
        let terms = [("labelSelector", &self.labels), ("fieldSelector", &self.fields)];
        let set = terms.into_iter().filter(|(_, text)| !text.is_empty());
        set.map(|(name, text)| format!("{name}={}", escape(text))).collect()
    }
}

fn named(resource: &Resource, subresource: Option<&str>) -> String {
    let resource = resource.group_resource();
    subresource.map_or_else(|| resource.to_string(), |subresource| format!("{resource}/{subresource}"))
}

fn unreadable(action: &str, write: bool, error: &serde_json::Error) -> ApiError {
    ApiError::Unreadable { action: action.to_owned(), write, why: error.to_string() }
}
