//! Objects of one kind, as a type: reads from a cache, writes to the server, and sees what it wrote.
//!
//! ```text
//! informers.objects::<Deployment>()   reads from the cache that a controller has open, and says what to do if none has;
//!                                     after its own write waits for the cache, at most 2 s, then asks
//! informers.objects_in::<Pod>(scope)  the same of some of them: those that a controller is for, or watches
//! objects.watched()                   opens the cache and keeps it open
//! client.objects::<Deployment>()      reads from the server
//! client.objects_of(resource)         kinds that are not known at compile time: K is serde_json::Value
//! objects.lazily(idle)                opens the cache with the first read, closes it when nobody has read for a while
//! objects.if_opened()                 never opens it, also where the process reads lazily
//! objects.in_namespace("a")           a layer: names without a namespace are in this one, others are refused
//! ```

mod apply;
mod conditions;
mod finalizers;
mod own;
mod pages;
mod patch;
mod reads;
mod upsert;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use concert_api::{LabelSelector, Object, ObjectKey, meta};
use http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use apply::Apply;
pub use conditions::{Condition, Conditioned, condition};
pub use finalizers::{Finalizers, Held};
pub use own::{
    OwnError, Owner, Ownership, add_finalizer, controller_of, dynamic, has_finalizer, owns, remove_finalizer,
    remove_owner, set_owner,
};
pub use pages::ObjectPages;
pub use patch::{Patch, PatchError};
pub use upsert::Done;

use crate::cache::{Cache, Informers};
use crate::client::{ApiError, Client, Deletion, Selection};
use crate::reconciler::{Key, Request};
use crate::resource::Resource;
use crate::scope::Scope;
use reads::Reads;

/// How long a read waits for the cache to show what was written before it asks the server.
const PATIENCE: Duration = Duration::from_secs(2);
/// Is told the resourceVersion that a write insisted on, if it did, and the answer.
type Witness = dyn Fn(Option<&str>, &Object) + Send + Sync;

/// Objects of one kind. Cheap to clone; all that read from one cache see each other's writes.
pub struct Objects<K = Value> {
    client: Client,
    resource: Resource,
    reads: Reads,
    /// The one that names are in.
    namespace: Option<Arc<str>>,
    subresource: Option<Arc<str>>,
    /// Told what was written: the turn in which it is used.
    witness: Option<Arc<Witness>>,
    /// Single objects are read from the server, because the turn found that the cache cannot be believed.
    doubtful: bool,
    kind: PhantomData<fn() -> K>,
}

impl Client {
    /// Objects of a type that knows its kind, read from the server.
    #[must_use]
    pub fn objects<K: kube::Resource<DynamicType = ()>>(&self) -> Objects<K>
    where
        K::Scope: 'static,
    {
        Objects::new(self.clone(), Resource::of::<K>(), Reads::Live)
    }

    /// Objects of a kind found at run time, read from the server.
    #[must_use]
    pub fn objects_of(&self, resource: Resource) -> Objects<Value> {
        Objects::new(self.clone(), resource, Reads::Live)
    }
}

impl Informers {
    /// Objects of a type that knows its kind, read from the cache of all of them that somebody has open: a controller,
    /// [`Objects::watched`], [`Informers::cache`]. If nobody has, reads fail and say what to do, or open it, where
    /// [`Narrowing::lazy`](crate::Narrowing) says so. Who is concerned with some of them only uses
    /// [`Informers::objects_in`].
    #[must_use]
    pub fn objects<K: kube::Resource<DynamicType = ()>>(&self) -> Objects<K>
    where
        K::Scope: 'static,
    {
        let resource = Resource::of::<K>();
        Objects::new(self.client().clone(), resource.clone(), Reads::of(self, resource))
    }

    /// Some objects of a kind, read from the cache of exactly these that somebody has open, as [`Informers::objects`]: give
    /// it the [`Scope`] that a controller is `for_`, or watches, and both have one watch. Other objects of the kind are not
    /// there: they are neither listed nor found, whether the cache is asked or, because it lags, the server. Writes reach
    /// them all the same. Where the kind is read from the server ([`KindSettings::live`](crate::KindSettings), only the
    /// metadata are watched), it is asked for no others. The kind is that of the scope: what is not known at compile time
    /// is [`Value`].
    #[must_use]
    pub fn objects_in<K>(&self, scope: impl Into<Scope>) -> Objects<K> {
        let scope = self.filled(scope.into());
        Objects::new(self.client().clone(), scope.resource.clone(), Reads::within(self, scope))
    }

    /// Objects of a kind found at run time; see [`Informers::objects`].
    #[must_use]
    pub fn objects_of(&self, resource: Resource) -> Objects<Value> {
        Objects::new(self.client().clone(), resource.clone(), Reads::of(self, resource))
    }
}

impl<K> Objects<K> {
    fn new(client: Client, resource: Resource, reads: Reads) -> Self {
        let client = client.with_retries();
        Self {
            client,
            resource,
            reads,
            namespace: None,
            subresource: None,
            witness: None,
            doubtful: false,
            kind: PhantomData,
        }
    }

    /// The kind.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The cache that it reads from; `None` if it reads from the server, or has none open.
    #[must_use]
    pub fn cache(&self) -> Option<Cache> {
        self.reads.opened()
    }

    /// The same, as part of a turn: the next turn of its key sees what this one wrote, and is not started by what can only be
    /// its own: a create, and a change upon a known resourceVersion ([`Patch::locked`], [`Objects::replace`], and whatever
    /// is sent while the cache shows the object as it is). In a turn that follows several conflicts in a row, single
    /// objects are read from the server.
    #[must_use]
    pub fn within<Q: Key>(&self, turn: &Request<Q>) -> Self {
        let (turn, client, doubtful) = (turn.clone(), self.client.clone(), turn.stale);
        let witness = move |before: Option<&str>, written: &Object| turn.wrote_through(&client, before, written);
        Self { doubtful, witness: Some(Arc::new(witness)), ..self.clone() }
    }

    /// The same, read from the server: all objects of the kind, whatever the cache is of.
    #[must_use]
    pub fn live(&self) -> Self {
        Self { reads: Reads::Live, ..self.clone() }
    }

    /// The same, read from a cache that is opened for it now, and stays open as long as it, or a clone of it, is there. Must be
    /// called within a tokio runtime.
    #[must_use]
    pub fn watched(&self) -> Self {
        Self { reads: self.reads.watched(), ..self.clone() }
    }

    /// The same, read from a cache that the first read opens, and that is closed when nobody has read for so long.
    #[must_use]
    pub fn lazily(&self, idle: Duration) -> Self {
        Self { reads: self.reads.lazily(idle), ..self.clone() }
    }

    /// The same, read from the cache as long as somebody else has it open; without one, reads are an error. For who must
    /// not be the one to start watching a kind.
    #[must_use]
    pub fn if_opened(&self) -> Self {
        Self { reads: self.reads.if_opened(), ..self.clone() }
    }

    /// The same in one namespace: what names none is in this one, what names another is refused. Without effect on kinds
    /// that have no namespaces.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        let namespace = self.resource.namespaced.then(|| namespace.into());
        Self { namespace, ..self.clone() }
    }

    /// The same through another client of the same server: with another field manager, as a dry run.
    #[must_use]
    pub fn through(&self, change: impl FnOnce(Client) -> Client) -> Self {
        Self { client: change(self.client.clone()), ..self.clone() }
    }

    /// A key in the one namespace, if there is one.
    fn placed(&self, key: &ObjectKey) -> Result<ObjectKey, ApiError> {
        match &self.namespace {
            Some(own) if key.namespace.is_empty() => Ok(ObjectKey::new(&**own, &*key.name)),
            Some(own) if **own != *key.namespace => Err(ApiError::Unsendable {
                action: format!("reach {} {key}", self.resource.group_resource()),
                why: format!("this client is for namespace \"{own}\""),
            }),
            Some(_) | None => Ok(key.clone()),
        }
    }

    /// A selection in the one namespace, if there is one.
    fn selected(&self, selection: &Selection) -> Result<Selection, ApiError> {
        let namespace = self.placed(&ObjectKey::new(&*selection.namespace, ""))?.namespace;
        Ok(Selection { namespace: namespace.to_string(), ..selection.clone() })
    }

    /// The status of the same: writes change nothing else.
    #[must_use]
    pub fn status(&self) -> Self {
        self.subresource("status")
    }

    fn subresource(&self, name: &str) -> Self {
        Self { subresource: Some(name.into()), ..self.clone() }
    }

    /// Another subresource of the same, which has a type of its own: `deployments.part::<Scale>("scale")`. It is read from the
    /// server.
    #[must_use]
    pub fn part<T>(&self, name: &str) -> Objects<T> {
        let Self { client, resource, namespace, witness, .. } = self.clone();
        let subresource = Some(name.into());
        let (reads, doubtful, kind) = (Reads::Live, false, PhantomData);
        Objects { client, resource, reads, namespace, subresource, witness, doubtful, kind }
    }

    fn subresource_name(&self) -> Option<&str> {
        self.subresource.as_deref()
    }

    /// Whether it is about a kind of its own.
    fn is_foreign(&self) -> bool {
        self.subresource_name().is_some_and(|name| name != "status")
    }

    /// Remembers what was written.
    fn wrote(&self, before: Option<&str>, written: &Object) {
        if self.client.is_dry() {
            return;
        }
        if let Some(witness) = &self.witness {
            witness(before, written);
        }
        if let (Some(cache), Some(_)) = (self.reads.opened(), written.revision()) {
            cache.expect(written);
        }
    }

    /// Waits until the cache shows what was written to these keys; `false` if it does not in time.
    async fn catches_up(&self, cache: &Cache, concerns: impl Fn(&ObjectKey) -> bool) -> bool {
        tokio::time::timeout(PATIENCE, cache.shows_expected(concerns)).await.is_ok()
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> Objects<K> {
    /// One object; `None` if there is none. From the cache, it is at least as new as what was written through this
    /// handle.
    ///
    /// # Errors
    /// It does not have the shape of the type, or the server had to be asked and did not answer.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ApiError> {
        let key = &self.placed(key)?;
        if !self.doubtful
            && let Some(cache) = self.reads.cache(&self.resource)?
            && self.catches_up(&cache, |written| written == key).await
        {
            let action = || format!("read {} {key}", self.resource.group_resource());
            return cache.typed().get(key).map_err(|error| ApiError::undecodable(action(), false, &error.why));
        }
        let read = match self.reads.scope() {
            Some(scope) => self.client.get_of(scope, key).await?,
            None => self.client.get_part(&self.resource, key, self.subresource_name()).await?,
        };
        read.map(|object| self.decode(&object, false).map(Arc::new)).transpose()
    }

    /// Objects, in the order of their keys.
    ///
    /// # Errors
    /// As [`Objects::get`]. A cache cannot select by fields: index it.
    pub async fn list(&self, selection: &Selection) -> Result<Vec<Arc<K>>, ApiError> {
        let selection = &self.selected(selection)?;
        if let Some((cache, found)) = self.cached(selection).await? {
            return Ok(cache.typed().of(&found));
        }
        if let Some(scope) = self.reads.scope() {
            return self.decode_all(&self.client.list_of(scope, selection).await?);
        }
        let listing = self.client.list(&self.resource, selection).await?;
        listing.objects.iter().map(|object| self.decode(object, false).map(Arc::new)).collect()
    }

    fn decode_all(&self, objects: &[Arc<Object>]) -> Result<Vec<Arc<K>>, ApiError> {
        objects.iter().map(|object| self.decode(object, false).map(Arc::new)).collect()
    }

    /// What the cache has of a selection, or the server, if the cache does not catch up; `None` if there is no cache.
    async fn cached(&self, selection: &Selection) -> Result<Option<(Cache, Vec<Arc<Object>>)>, ApiError> {
        let Selection { namespace, labels, fields } = selection;
        let action = || format!("list {}", self.resource.group_resource());
        let refuse = |why: String| ApiError::Unsendable { action: action(), why };
        let Some(cache) = self.reads.cache(&self.resource)? else { return Ok(None) };
        if !fields.is_empty() {
            return Err(refuse(format!("a cache cannot select by fields ({fields}); use cache().index(), or live()")));
        }
        let selector = LabelSelector::parse(labels).map_err(|error| refuse(error.to_string()))?;
        if !self.catches_up(&cache, |_| true).await {
            let found = self.client.list_of(cache.scope(), selection).await?;
            return Ok(Some((cache, found)));
        }
        let find = if namespace.is_empty() { cache.find() } else { cache.find().in_namespace(namespace) };
        let found = if labels.is_empty() { find.list() } else { find.labelled(&selector).list() };
        Ok(Some((cache, found)))
    }

    fn decode(&self, object: &Object, write: bool) -> Result<K, ApiError> {
        let action = || format!("read {} {}", self.resource.group_resource(), object.key());
        object.decode().map_err(|error| ApiError::undecodable(action(), write, &error.to_string()))
    }

    /// Takes the answer to a write that insisted on this resourceVersion; empty for a create, `None` if it did not.
    fn written(&self, before: Option<&str>, object: &Object) -> Result<K, ApiError> {
        self.wrote(before, object);
        self.decode(object, true)
    }

    /// Changes an object by a patch; `None` if the patch is empty, in which case nothing is sent.
    ///
    /// # Errors
    /// Not found if it is gone; a conflict if the patch is [locked](Patch::locked) and the object has changed.
    pub async fn patch(&self, key: &ObjectKey, patch: &Patch) -> Result<Option<K>, ApiError> {
        let key = &self.placed(key)?;
        if patch.is_empty() {
            return Ok(None);
        }
        self.send(key, patch).await.map(Some)
    }

    /// Sends a patch. One that insists on nothing is sent, within a turn, upon the resourceVersion that the cache shows: only
    /// then its answer says whose change it is. If something came between, it is sent as it is.
    async fn send(&self, key: &ObjectKey, patch: &Patch) -> Result<K, ApiError> {
        let part = self.subresource_name();
        if let Some(shown) = self.shown(key, patch) {
            match self.client.patch(&self.resource, key, &patch.upon(&shown), part).await {
                Err(error) if error.is_conflict() && !error.is_owned_by_others() => {}
                sent => return self.written(Some(&shown), &sent?),
            }
        }
        let (code, object) = self.client.patch_or_create(&self.resource, key, patch, part).await?;
        let created = (code == StatusCode::CREATED).then_some("");
        self.written(patch.before().or(created), &object)
    }

    /// The resourceVersion that the cache shows, where a patch may be sent upon it.
    fn shown(&self, key: &ObjectKey, patch: &Patch) -> Option<String> {
        let asks = self.witness.is_some() && !self.client.is_dry() && patch.before().is_none();
        let cached = self.reads.opened().filter(|_| asks)?.get(key)?;
        patch::insisted(&cached.resource_version()).map(str::to_owned)
    }

    /// Deletes an object, or begins to if it has finalizers. `false` if there was none.
    ///
    /// # Errors
    /// A conflict if a precondition does not hold.
    pub async fn delete(&self, key: &ObjectKey, how: &Deletion) -> Result<bool, ApiError> {
        let key = &self.placed(key)?;
        match self.client.delete(&self.resource, key, how).await {
            Ok(()) => {
                let cache = self.reads.opened().filter(|_| !self.client.is_dry());
                cache.iter().for_each(|cache| cache.expect_gone(key));
                Ok(true)
            }
            Err(error) if error.is_not_found() && !error.is_kind_missing() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes all objects of a namespace that a selection selects.
    ///
    /// # Errors
    /// As [`Objects::delete`].
    pub async fn delete_all(&self, selection: &Selection, how: &Deletion) -> Result<(), ApiError> {
        self.client.delete_all(&self.resource, &self.selected(selection)?, how).await
    }
}

impl<K: Serialize + DeserializeOwned + Send + Sync + 'static> Objects<K> {
    /// The object as it is sent: with its kind, without what the server keeps for itself.
    fn body(&self, object: &impl Serialize) -> Result<Value, ApiError> {
        let action = || format!("write {}", self.resource.group_resource());
        let mut body = serde_json::to_value(object)
            .map_err(|error| ApiError::Unsendable { action: action(), why: error.to_string() })?;
        if !body.is_object() {
            return Err(ApiError::Unsendable { action: action(), why: "it is no object".into() });
        }
        if !self.is_foreign() {
            body["apiVersion"] = self.resource.gvk.api_version().into();
            body["kind"] = self.resource.gvk.kind.as_str().into();
        }
        meta::of(&mut body).remove("managedFields");
        if self.namespace.is_some() {
            let key = self.placed(&self.key_of(&body))?;
            meta::set_text(&mut body, "namespace", &*key.namespace);
        }
        Ok(body)
    }

    fn key_of(&self, body: &Value) -> ObjectKey {
        self.resource.key(meta::text(body, "namespace"), meta::text(body, "name"))
    }

    /// Creates an object; of a [part](Objects::part), asks for it (a token, an eviction).
    ///
    /// # Errors
    /// It exists, is invalid, or the server has trouble ([`ApiError::outcome_unknown`]).
    pub async fn create(&self, object: &K) -> Result<K, ApiError> {
        if let (Some(part), true) = (self.subresource_name(), self.is_foreign()) {
            return self.ask(part, object).await;
        }
        let object = self.client.create(&self.resource, &self.body(object)?).await?;
        self.written(Some(""), &object)
    }

    /// Asks something of an object by creating a part of it.
    async fn ask(&self, part: &str, object: &K) -> Result<K, ApiError> {
        let body = self.body(object)?;
        let key = self.key_of(&body);
        let answer = self.client.create_part(&self.resource, &key, part, &body).await?;
        let action = || format!("read {}/{part} {key}", self.resource.group_resource());
        serde_json::from_value(answer).map_err(|error| ApiError::undecodable(action(), true, &error.to_string()))
    }

    /// Replaces an object; a conflict if it changed since it was read.
    ///
    /// # Errors
    /// As [`Objects::create`]; not found if it is gone.
    pub async fn replace(&self, object: &K) -> Result<K, ApiError> {
        let body = self.body(object)?;
        let object = self.client.replace(&self.resource, &body, self.subresource_name()).await?;
        self.written(patch::insisted(meta::text(&body, "resourceVersion")), &object)
    }

    /// Adds a finalizer, so that the object stays until it is removed. The object as it is then; `None` if it has the
    /// finalizer already.
    ///
    /// # Errors
    /// A conflict if it changed since it was read.
    pub async fn hold(&self, object: &K, finalizer: &str) -> Result<Option<K>, ApiError> {
        self.change_finalizers(object, |names| {
            let missing = !names.iter().any(|name| name == finalizer);
            if missing {
                names.push(finalizer.to_owned());
            }
            missing
        })
        .await
    }

    /// Removes a finalizer, so that a deleted object can go. `None` if it did not have it.
    ///
    /// # Errors
    /// A conflict if it changed since it was read.
    pub async fn release(&self, object: &K, finalizer: &str) -> Result<Option<K>, ApiError> {
        self.change_finalizers(object, |names| {
            let before = names.len();
            names.retain(|name| name != finalizer);
            names.len() != before
        })
        .await
    }

    async fn change_finalizers(
        &self,
        object: &K,
        change: impl FnOnce(&mut Vec<String>) -> bool,
    ) -> Result<Option<K>, ApiError> {
        let body = self.body(object)?;
        let mut names: Vec<String> = meta::finalizers(&body).into_iter().map(str::to_owned).collect();
        if !change(&mut names) {
            return Ok(None);
        }
        let key = self.key_of(&body);
        if meta::text(&body, "resourceVersion").is_empty() {
            let action = format!("change the finalizers of {} {key}", self.resource.group_resource());
            return Err(ApiError::Unsendable {
                action,
                why: "it has no resourceVersion; read it from the server first".into(),
            });
        }
        // Of a list a merge patch knows only the whole: it has to be the one that was read.
        let names = if names.is_empty() { Value::Null } else { names.into() };
        let metadata = json!({ "finalizers": names, "resourceVersion": body["metadata"]["resourceVersion"] });
        self.patch(&key, &Patch::raw_merge(json!({ "metadata": metadata }))).await
    }
}

impl<K> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: self.resource.clone(),
            reads: self.reads.clone(),
            namespace: self.namespace.clone(),
            subresource: self.subresource.clone(),
            witness: self.witness.clone(),
            doubtful: self.doubtful,
            kind: PhantomData,
        }
    }
}

impl<K> std::fmt::Debug for Objects<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Objects<{}>({}, {})", std::any::type_name::<K>(), self.resource, self.reads.word())
    }
}
