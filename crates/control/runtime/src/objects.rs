//! Objects of one kind, as a type: reads from a cache, writes to the server, and sees what it wrote.
//!
//! ```text
//! informers.objects::<Deployment>()   reads from the cache; after its own write waits for the cache, at most 2 s, then asks
//! client.objects::<Deployment>()      reads from the server
//! client.objects_of(resource)         kinds that are not known at compile time: K is serde_json::Value
//! ```

mod own;
mod patch;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use concert_api::{LabelSelector, Object, ObjectKey, meta};
use concert_merge::drop_nulls;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use own::{OwnError, Owner, Ownership, add_finalizer, has_finalizer, owns, remove_finalizer, set_owner};
pub use patch::{Patch, PatchError};

use crate::cache::{Cache, Informers};
use crate::client::{ApiError, Client, Preconditions, Selection};
use crate::reconciler::{Key, Request};
use crate::resource::Resource;
use crate::scope::Form;

/// How long a read waits for the cache to show what was written before it asks the server.
const PATIENCE: Duration = Duration::from_secs(2);
type Witness = dyn Fn(&Object) + Send + Sync;

/// Objects of one kind. Cheap to clone; all that read from one cache see each other's writes.
pub struct Objects<K = Value> {
    client: Client,
    resource: Resource,
    cache: Option<Cache>,
    subresource: Option<Arc<str>>,
    /// Told what was written: the turn in which it is used.
    witness: Option<Arc<Witness>>,
    /// Single objects are read from the server, because the turn found that the cache cannot be believed.
    doubtful: bool,
    kind: PhantomData<fn() -> K>,
}

/// What [`Objects::create_or_update`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// There was none.
    Created,
    /// It was different.
    Updated,
    /// It was as it should be; nothing was sent.
    Unchanged,
}

impl Client {
    /// Objects of a type that knows its kind, read from the server.
    #[must_use]
    pub fn objects<K: kube::Resource<DynamicType = ()>>(&self) -> Objects<K>
    where
        K::Scope: 'static,
    {
        Objects::new(self.clone(), Resource::of::<K>(), None)
    }

    /// Objects of a kind found at run time, read from the server.
    #[must_use]
    pub fn objects_of(&self, resource: Resource) -> Objects<Value> {
        Objects::new(self.clone(), resource, None)
    }
}

impl Informers {
    /// Objects of a type that knows its kind, read from the cache of all of them, which is opened for it.
    #[must_use]
    pub fn objects<K: kube::Resource<DynamicType = ()>>(&self) -> Objects<K>
    where
        K::Scope: 'static,
    {
        let resource = Resource::of::<K>();
        let cache = self.cache(resource.clone());
        Objects::new(self.client().clone(), resource, Some(cache))
    }

    /// Objects of a kind found at run time, read from the cache of all of them, which is opened for it.
    #[must_use]
    pub fn objects_of(&self, resource: Resource) -> Objects<Value> {
        let cache = self.cache(resource.clone());
        Objects::new(self.client().clone(), resource, Some(cache))
    }
}

impl<K> Objects<K> {
    fn new(client: Client, resource: Resource, cache: Option<Cache>) -> Self {
        let client = client.with_retries();
        // A cache of metadata cannot stand for whole objects: who writes back what it gives would erase the rest.
        let cache = cache.filter(|cache| cache.scope().form == Form::Full);
        Self { client, resource, cache, subresource: None, witness: None, doubtful: false, kind: PhantomData }
    }

    /// The kind.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The cache that it reads from.
    #[must_use]
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// The same, as part of a turn: the next turn of its key sees what this one wrote, and is not started by it. In a turn
    /// that follows several conflicts in a row, single objects are read from the server.
    #[must_use]
    pub fn within<Q: Key>(&self, turn: &Request<Q>) -> Self {
        let (turn, client, doubtful) = (turn.clone(), self.client.clone(), turn.stale);
        Self { doubtful, witness: Some(Arc::new(move |written| turn.wrote_through(&client, written))), ..self.clone() }
    }

    /// The same, read from the server.
    #[must_use]
    pub fn live(&self) -> Self {
        Self { cache: None, ..self.clone() }
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
        let Self { client, resource, witness, .. } = self.clone();
        let subresource = Some(name.into());
        Objects { client, resource, cache: None, subresource, witness, doubtful: false, kind: PhantomData }
    }

    fn subresource_name(&self) -> Option<&str> {
        self.subresource.as_deref()
    }

    /// Whether it is about a kind of its own.
    fn is_foreign(&self) -> bool {
        self.subresource_name().is_some_and(|name| name != "status")
    }

    /// Remembers what was written.
    fn wrote(&self, written: &Object) {
        if let Some(witness) = &self.witness {
            witness(written);
        }
        if let (Some(cache), Some(revision)) = (&self.cache, written.revision()) {
            cache.expect(written.key(), revision);
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
        if let Some(cache) = &self.cache
            && !self.doubtful
            && self.catches_up(cache, |written| written == key).await
        {
            let action = || format!("read {} {key}", self.resource.group_resource());
            return cache.typed().get(key).map_err(|error| ApiError::undecodable(action(), false, &error.why));
        }
        let read = self.client.get_part(&self.resource, key, self.subresource_name()).await?;
        read.map(|object| self.decode(&object, false).map(Arc::new)).transpose()
    }

    /// Objects, in the order of their keys.
    ///
    /// # Errors
    /// As [`Objects::get`]. A cache cannot select by fields: index it.
    pub async fn list(&self, selection: &Selection) -> Result<Vec<Arc<K>>, ApiError> {
        let Selection { namespace, labels, fields } = selection;
        let action = || format!("list {}", self.resource.group_resource());
        let refuse = |why: String| ApiError::Unsendable { action: action(), why };
        if let Some(cache) = &self.cache {
            if !fields.is_empty() {
                return Err(refuse(format!(
                    "a cache cannot select by fields ({fields}); use cache().index(), or live()"
                )));
            }
            let selector = LabelSelector::parse(labels).map_err(|error| refuse(error.to_string()))?;
            if self.catches_up(cache, |_| true).await {
                let find = if namespace.is_empty() { cache.find() } else { cache.find().in_namespace(namespace) };
                let found = if labels.is_empty() { find.list() } else { find.labelled(&selector).list() };
                return Ok(cache.typed().of(&found));
            }
        }
        let listing = self.client.list(&self.resource, selection).await?;
        listing.objects.iter().map(|object| self.decode(object, false).map(Arc::new)).collect()
    }

    fn decode(&self, object: &Object, write: bool) -> Result<K, ApiError> {
        let action = || format!("read {} {}", self.resource.group_resource(), object.key());
        object.decode().map_err(|error| ApiError::undecodable(action(), write, &error.to_string()))
    }

    /// Takes the answer to a write.
    fn written(&self, object: &Object) -> Result<K, ApiError> {
        self.wrote(object);
        self.decode(object, true)
    }

    /// Changes an object by a patch; `None` if the patch is empty, in which case nothing is sent.
    ///
    /// # Errors
    /// Not found if it is gone; a conflict if the patch is [locked](Patch::locked) and the object has changed.
    pub async fn patch(&self, key: &ObjectKey, patch: &Patch) -> Result<Option<K>, ApiError> {
        if patch.is_empty() {
            return Ok(None);
        }
        let object = self.client.patch(&self.resource, key, patch, self.subresource_name()).await?;
        self.written(&object).map(Some)
    }

    /// Deletes an object, or begins to if it has finalizers. `false` if there was none.
    ///
    /// # Errors
    /// A conflict if a precondition does not hold.
    pub async fn delete(&self, key: &ObjectKey, preconditions: &Preconditions) -> Result<bool, ApiError> {
        match self.client.delete(&self.resource, key, preconditions).await {
            Ok(()) => {
                self.cache.iter().for_each(|cache| cache.expect_gone(key));
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
    pub async fn delete_all(&self, selection: &Selection) -> Result<(), ApiError> {
        self.client.delete_all(&self.resource, selection).await
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
        Ok(body)
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
        self.written(&object)
    }

    /// Asks something of an object by creating a part of it.
    async fn ask(&self, part: &str, object: &K) -> Result<K, ApiError> {
        let body = self.body(object)?;
        let key = self.resource.key(meta::text(&body, "namespace"), meta::text(&body, "name"));
        let answer = self.client.create_part(&self.resource, &key, part, &body).await?;
        let action = || format!("read {}/{part} {key}", self.resource.group_resource());
        serde_json::from_value(answer).map_err(|error| ApiError::undecodable(action(), true, &error.to_string()))
    }

    /// Replaces an object; a conflict if it changed since it was read.
    ///
    /// # Errors
    /// As [`Objects::create`]; not found if it is gone.
    pub async fn replace(&self, object: &K) -> Result<K, ApiError> {
        let object = self.client.replace(&self.resource, &self.body(object)?, self.subresource_name()).await?;
        self.written(&object)
    }

    /// Server-side apply: what is said becomes so and belongs to us, what we said before and do not say any more goes.
    /// Takes anything that serializes to a part of the object, the type itself included. With `force`, fields of others
    /// are taken over; without, they are a conflict.
    ///
    /// # Errors
    /// As [`Objects::create`]; a conflict that names the fields and whose they are.
    pub async fn apply(&self, object: &impl Serialize, force: bool) -> Result<K, ApiError> {
        let mut body = self.body(object)?;
        // Options that are not set are not applied.
        drop_nulls(&mut body);
        let key = self.resource.key(meta::text(&body, "namespace"), meta::text(&body, "name"));
        let object =
            self.client.patch(&self.resource, &key, &Patch::apply(body, force), self.subresource_name()).await?;
        self.written(&object)
    }

    /// Makes an object be as `change` makes it: creates it (from `initial`), replaces it, or does nothing if it is so
    /// already. `change` may not rename it.
    ///
    /// # Errors
    /// As [`Objects::create`] and [`Objects::replace`]. A conflict means that somebody else was faster: try again later.
    pub async fn create_or_update(&self, initial: K, change: impl FnOnce(&mut K)) -> Result<(K, Done), ApiError>
    where
        K: Clone,
    {
        let key_of = |body: &Value| self.resource.key(meta::text(body, "namespace"), meta::text(body, "name"));
        let key = key_of(&self.body(&initial)?);
        let known = self.get(&key).await?;
        let mut wanted = known.as_deref().cloned().unwrap_or(initial);
        change(&mut wanted);
        let body = self.body(&wanted)?;
        if key_of(&body) != key {
            let action = format!("update {} {key}", self.resource.group_resource());
            let why = format!("the change would make it {}; it may not be renamed", key_of(&body));
            return Err(ApiError::Unsendable { action, why });
        }
        match known {
            None => Ok((self.create(&wanted).await?, Done::Created)),
            Some(known) if self.body(&*known)? == body => Ok((wanted, Done::Unchanged)),
            Some(_) => Ok((self.replace(&wanted).await?, Done::Updated)),
        }
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
        let key = self.resource.key(meta::text(&body, "namespace"), meta::text(&body, "name"));
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
            cache: self.cache.clone(),
            subresource: self.subresource.clone(),
            witness: self.witness.clone(),
            doubtful: self.doubtful,
            kind: PhantomData,
        }
    }
}

impl<K> std::fmt::Debug for Objects<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let from = if self.cache.is_some() { "cached" } else { "live" };
        write!(f, "Objects<{}>({}, {from})", std::any::type_name::<K>(), self.resource)
    }
}
