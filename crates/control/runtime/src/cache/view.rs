//! Objects of a cache as a type.

use std::marker::PhantomData;
use std::sync::Arc;

use concert_api::{LabelSelector, Object, ObjectKey};
use serde::de::DeserializeOwned;

use super::memo::REMEMBERED;
use super::{Cache, Index};
use crate::client::without_values;

/// An object that does not have the shape of the type it was read as.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {kind} {key} as {wanted}: {why}")]
pub struct Undecodable {
    /// Its kind.
    pub kind: String,
    /// Which object.
    pub key: ObjectKey,
    /// The type.
    pub wanted: &'static str,
    /// What does not fit.
    pub why: String,
}

/// The objects of a [`Cache`] as a type: each is decoded when it is read, and remembered as long as it is read and does not
/// change. Of a list of more than 1024 objects nothing is remembered that was not before. Values are shared, so reading
/// copies nothing; clone one to change it.
pub struct View<K> {
    cache: Cache,
    kind: PhantomData<fn() -> K>,
}

impl<K> View<K> {
    pub(super) fn new(cache: Cache) -> Self {
        Self { cache, kind: PhantomData }
    }

    /// The cache behind it.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }
}

impl<K: DeserializeOwned + Send + Sync + 'static> View<K> {
    /// One object.
    ///
    /// # Errors
    /// It does not have the shape of the type.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, Undecodable> {
        self.cache.get(key).map(|object| self.decode(&object)).transpose()
    }

    /// All objects, in the order of their keys. One that does not have the shape of the type is left out, counted, and told
    /// in the log once per version: it must not take the others with it. [`View::get`] says what is wrong with it.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<K>> {
        self.of(&self.cache.list())
    }

    /// The objects of a namespace, as [`View::list`].
    #[must_use]
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.of(&self.cache.list_in(namespace))
    }

    /// The objects that a label selector selects, as [`View::list`].
    #[must_use]
    pub fn labelled(&self, selector: &LabelSelector) -> Vec<Arc<K>> {
        self.of(&self.cache.find().labelled(selector).list())
    }

    /// Objects that were found, as the type; as [`View::list`].
    #[must_use]
    pub fn of(&self, objects: &[Arc<Object>]) -> Vec<Arc<K>> {
        let keeps = objects.len() <= REMEMBERED;
        objects.iter().filter_map(|object| self.decoded(object, keeps).ok()).collect()
    }

    /// An index by what `values` finds in a decoded object. Every object is decoded for it, once when it comes and once
    /// when it goes: where one field is enough, [`Cache::index`] with [`Object::field`] costs far less.
    #[must_use]
    pub fn index<V: Ord + Send + Sync + 'static>(
        &self,
        values: impl Fn(&K) -> Vec<V> + Send + Sync + 'static,
    ) -> Index<V> {
        self.cache.index(move |object| object.decode::<K>().map_or_else(|_| Vec::new(), |object| values(&object)))
    }

    /// One object as the type.
    ///
    /// # Errors
    /// It does not have the shape of the type.
    pub fn decode(&self, object: &Arc<Object>) -> Result<Arc<K>, Undecodable> {
        self.decoded(object, true)
    }

    fn decoded(&self, object: &Arc<Object>, keep: bool) -> Result<Arc<K>, Undecodable> {
        let memo = &self.cache.shared().memo;
        if let Some(known) = memo.find::<K>(object) {
            return Ok(known);
        }
        let decoded = object.decode::<K>().map_err(|error| self.complain(object, &error.to_string()))?;
        let decoded = Arc::new(decoded);
        if keep {
            let forgotten = self.cache.read(|store| store.has(object).then(|| memo.put(object, Arc::clone(&decoded))));
            drop(forgotten);
        }
        Ok(decoded)
    }

    /// Says what is wrong, and tells it in the log once.
    fn complain(&self, object: &Object, why: &str) -> Undecodable {
        let (kind, key, wanted) = (object.kind().into_owned(), object.key(), std::any::type_name::<K>());
        let error = Undecodable { kind, key, wanted, why: without_values(why) };
        if self.cache.shared().complaints.is_new((&error.key, object.uid(), object.resource_version(), wanted)) {
            tracing::warn!(%error, "object is left out of lists");
        }
        error
    }
}

impl<K> Clone for View<K> {
    fn clone(&self) -> Self {
        Self::new(self.cache.clone())
    }
}

impl<K> std::fmt::Debug for View<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View<{}>({})", std::any::type_name::<K>(), self.cache.scope())
    }
}
