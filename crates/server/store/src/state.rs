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
    resources: RedBlackTreeMapSync<GroupResource, Objects<B>>,
}

impl<B> Clone for Snapshot<B> {
    fn clone(&self) -> Self {
        Self { revision: self.revision, resources: self.resources.clone() }
    }
}

impl<B> Snapshot<B> {
    pub(crate) fn empty() -> Self {
        Self { revision: 0, resources: RedBlackTreeMapSync::new_sync() }
    }

    /// Its revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
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
        self.resources.iter().flat_map(|(resource, objects)| {
            objects.iter().map(|(object, entry)| {
                let key = Key { resource: resource.clone(), object: object.clone() };
                (key, entry)
            })
        })
    }

    pub(crate) fn put(&mut self, key: &Key, entry: Arc<Entry<B>>) {
        let mut objects = self.resources.get(&key.resource).cloned().unwrap_or_else(RedBlackTreeMapSync::new_sync);
        objects.insert_mut(key.object.clone(), entry);
        self.resources.insert_mut(key.resource.clone(), objects);
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        let Some(mut objects) = self.resources.get(&key.resource).cloned() else { return };
        objects.remove_mut(&key.object);
        if objects.is_empty() {
            self.resources.remove_mut(&key.resource);
        } else {
            self.resources.insert_mut(key.resource.clone(), objects);
        }
    }

    pub(crate) fn set_revision(&mut self, revision: u64) {
        self.revision = revision;
    }
}
