//! The objects at one revision.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use concert_api::{GroupResource, ObjectKey};
use rpds::RedBlackTreeMapSync;

use crate::Key;

/// What the user of a store keeps beside each entry, derived from its bytes.
pub trait Beside: Send + Sync + 'static {
    /// Derives it; must not fail, whatever the bytes.
    fn of(key: &Key, bytes: &Bytes) -> Self;
}

impl Beside for () {
    fn of(_: &Key, _: &Bytes) {}
}

/// One stored version of an object.
#[derive(Debug)]
pub struct Entry<B> {
    /// The revision that wrote it; also in the bytes, as `metadata.resourceVersion`.
    pub revision: u64,
    /// The object's JSON as it goes out.
    pub bytes: Bytes,
    /// What is kept beside it.
    pub beside: B,
}

type Objects<B> = RedBlackTreeMapSync<ObjectKey, Arc<Entry<B>>>;

/// All objects at one revision: a persistent map. Cloning costs nothing, and it never changes.
#[derive(Debug)]
pub struct Snapshot<B> {
    revision: u64,
    bytes: u64,
    resources: RedBlackTreeMapSync<GroupResource, Objects<B>>,
}

impl<B> Clone for Snapshot<B> {
    fn clone(&self) -> Self {
        Self { revision: self.revision, bytes: self.bytes, resources: self.resources.clone() }
    }
}

impl<B> Snapshot<B> {
    pub(crate) fn empty() -> Self {
        Self { revision: 0, bytes: 0, resources: RedBlackTreeMapSync::new_sync() }
    }

    /// Its revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Bytes of all objects.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.resources.values().map(RedBlackTreeMapSync::size).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Entry<B>>> {
        self.resources.get(&key.resource)?.get(&key.object)
    }

    /// The objects of a resource in the order of their keys: all, or those of one namespace, after `after` if given.
    pub fn range<'a>(
        &'a self,
        resource: &GroupResource,
        namespace: Option<&'a str>,
        after: Option<&ObjectKey>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<Entry<B>>)> {
        let start = match (after, namespace) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(namespace)) => Bound::Included(ObjectKey::new(namespace, "")),
            (None, None) => Bound::Unbounded,
        };
        let objects = self.resources.get(resource).into_iter();
        objects
            .flat_map(move |objects| objects.range((start.clone(), Bound::Unbounded)))
            .take_while(move |(key, _)| namespace.is_none_or(|namespace| *key.namespace == *namespace))
    }

    /// How many objects a resource has.
    #[must_use]
    pub fn count(&self, resource: &GroupResource) -> usize {
        self.resources.get(resource).map_or(0, RedBlackTreeMapSync::size)
    }

    /// Every object.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Arc<Entry<B>>)> {
        self.iter_after(None)
    }

    /// Every object after one, in the order of their keys.
    pub(crate) fn iter_after(&self, after: Option<&Key>) -> impl Iterator<Item = (Key, &Arc<Entry<B>>)> {
        let after = after.cloned();
        let first = after.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(key.resource.clone()));
        self.resources.range((first, Bound::Unbounded)).flat_map(move |(resource, objects)| {
            let first = match &after {
                Some(key) if key.resource == *resource => Bound::Excluded(key.object.clone()),
                Some(_) | None => Bound::Unbounded,
            };
            objects.range((first, Bound::Unbounded)).map(|(object, entry)| {
                let key = Key { resource: resource.clone(), object: object.clone() };
                (key, entry)
            })
        })
    }

    pub(crate) fn put(&mut self, key: &Key, entry: Arc<Entry<B>>) {
        self.bytes += entry.bytes.len() as u64;
        // In place as far as nobody else has this state.
        let Some(objects) = self.resources.get_mut(&key.resource) else {
            let mut objects = RedBlackTreeMapSync::new_sync();
            objects.insert_mut(key.object.clone(), entry);
            return self.resources.insert_mut(key.resource.clone(), objects);
        };
        self.bytes -= objects.get(&key.object).map_or(0, |old| old.bytes.len() as u64);
        objects.insert_mut(key.object.clone(), entry);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        let Some(objects) = self.resources.get_mut(&key.resource) else { return };
        self.bytes -= objects.get(&key.object).map_or(0, |old| old.bytes.len() as u64);
        objects.remove_mut(&key.object);
        if objects.is_empty() {
            self.resources.remove_mut(&key.resource);
        }
    }

    pub(crate) fn set_revision(&mut self, revision: u64) {
        self.revision = revision;
    }
}
