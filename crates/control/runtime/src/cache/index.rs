//! From a value to the objects that have it.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use concert_api::{LabelSelector, Object};

use super::store::Store;
use super::{Cache, Pages};
use crate::sync::RwLock;

/// Where an object is in its store.
pub(super) type Slot = u32;

/// An [`Index`] of any type of value, as its store sees it.
pub(super) trait AnyIndex: Send + Sync + std::fmt::Debug {
    fn insert(&self, slot: Slot, object: &Object);
    fn remove(&self, slot: Slot, object: &Object);
}

type Values<V> = dyn Fn(&Object) -> Vec<V> + Send + Sync;

/// The slots of each value, in order.
pub(super) struct Postings<V> {
    values: Box<Values<V>>,
    slots: RwLock<BTreeMap<V, Vec<Slot>>>,
}

impl<V: Ord> Postings<V> {
    pub(super) fn new(values: impl Fn(&Object) -> Vec<V> + Send + Sync + 'static) -> Self {
        Self { values: Box::new(values), slots: RwLock::default() }
    }

    /// The values of an object. A function that panics costs this object its place, not the cache its writer.
    fn of(&self, object: &Object) -> Vec<V> {
        catch_unwind(AssertUnwindSafe(|| (self.values)(object))).unwrap_or_else(|_| {
            tracing::error!(?object, "the function of an index panicked; the object is not in it");
            Vec::new()
        })
    }

    /// Where the objects with this value are.
    pub(super) fn slots_of(&self, value: &V) -> Vec<Slot> {
        self.read(|slots| slots.get(value).cloned().unwrap_or_default())
    }

    fn read<T>(&self, read: impl FnOnce(&BTreeMap<V, Vec<Slot>>) -> T) -> T {
        read(&self.slots.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<V> std::fmt::Debug for Postings<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Postings")
    }
}

impl<V: Ord + Send + Sync> AnyIndex for Postings<V> {
    fn insert(&self, slot: Slot, object: &Object) {
        let values = self.of(object);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        for value in values {
            let of_value = slots.entry(value).or_default();
            if let Err(at) = of_value.binary_search(&slot) {
                of_value.insert(at, slot);
            }
        }
    }

    fn remove(&self, slot: Slot, object: &Object) {
        let values = self.of(object);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        for value in values {
            let Some(of_value) = slots.get_mut(&value) else { continue };
            if let Ok(at) = of_value.binary_search(&slot) {
                of_value.remove(at);
            }
            if of_value.is_empty() {
                slots.remove(&value);
            }
        }
    }
}

/// Finds the objects that have a value, without looking at the others. Made by [`Cache::index`]; kept up to date as long
/// as somebody has it. Objects come in an order that stays as long as they do.
#[derive(Clone)]
pub struct Index<V> {
    cache: Cache,
    postings: Arc<Postings<V>>,
}

impl<V: Ord + Send + Sync + 'static> Index<V> {
    pub(super) fn new(cache: Cache, postings: Arc<Postings<V>>) -> Self {
        Self { cache, postings }
    }

    /// The objects that have this value.
    #[must_use]
    pub fn get(&self, value: &V) -> Vec<Arc<Object>> {
        self.cache.read(|store| {
            let objects = |slots: &Vec<Slot>| slots.iter().filter_map(|slot| store.at(*slot)).collect();
            self.postings.read(|slots| slots.get(value).map_or_else(Vec::new, objects))
        })
    }

    /// The objects whose value lies in a range, by value.
    pub fn range(&self, range: impl RangeBounds<V>) -> Vec<Arc<Object>> {
        self.cache.read(|store| {
            let objects = |slots: &BTreeMap<V, Vec<Slot>>| {
                let found = slots.range(range).flat_map(|(_, slots)| slots);
                found.filter_map(|slot| store.at(*slot)).collect()
            };
            self.postings.read(objects)
        })
    }

    /// How many objects have this value.
    #[must_use]
    pub fn count(&self, value: &V) -> usize {
        self.postings.read(|slots| slots.get(value).map_or(0, Vec::len))
    }

    /// How many different values there are.
    #[must_use]
    pub fn values(&self) -> usize {
        self.postings.read(BTreeMap::len)
    }
}

impl Index<String> {
    /// The objects whose value begins with `prefix`, by value.
    #[must_use]
    pub fn prefix(&self, prefix: &str) -> Vec<Arc<Object>> {
        self.cache.read(|store| {
            let objects = |slots: &BTreeMap<String, Vec<Slot>>| {
                let from = slots.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
                let found = from.take_while(|(value, _)| value.starts_with(prefix)).flat_map(|(_, slots)| slots);
                found.filter_map(|slot| store.at(*slot)).collect()
            };
            self.postings.read(objects)
        })
    }
}

impl<V> std::fmt::Debug for Index<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({})", self.cache.scope())
    }
}

type Lookup<'a> = Box<dyn Fn() -> Vec<Slot> + 'a>;

/// A question with several conditions, all of which must hold. The rarest value is looked up, the rest is compared.
#[must_use]
pub struct Find<'a> {
    cache: &'a Cache,
    lookups: Vec<Lookup<'a>>,
    namespace: Option<&'a str>,
    labels: Option<&'a LabelSelector>,
    limit: usize,
}

impl<'a> Find<'a> {
    pub(super) fn new(cache: &'a Cache) -> Self {
        Self { cache, lookups: Vec::new(), namespace: None, labels: None, limit: usize::MAX }
    }

    /// The object has this value in this index.
    ///
    /// # Panics
    /// If the index belongs to another cache.
    pub fn by<V: Ord + Send + Sync + 'static>(mut self, index: &'a Index<V>, value: &'a V) -> Self {
        assert!(
            self.cache.is(&index.cache),
            "an index of {} cannot find objects of {}",
            index.cache.scope(),
            self.cache.scope()
        );
        self.lookups.push(Box::new(move || index.postings.slots_of(value)));
        self
    }

    /// The object is in this namespace.
    pub fn in_namespace(self, namespace: &'a str) -> Self {
        Self { namespace: Some(namespace), ..self }
    }

    /// The object's labels are selected.
    pub fn labelled(self, selector: &'a LabelSelector) -> Self {
        Self { labels: Some(selector), ..self }
    }

    /// Not more than so many.
    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// What is found now, page by page.
    #[must_use]
    pub fn pages(self, size: usize) -> Pages {
        Pages::new(self.list(), size)
    }

    /// The objects for which all of it holds.
    #[must_use]
    pub fn list(self) -> Vec<Arc<Object>> {
        self.cache.read(|store| {
            let mut found = self.candidates(store);
            if let (Some(namespace), false) = (self.namespace, self.lookups.is_empty()) {
                found.retain(|object| object.namespace() == namespace);
            }
            if let Some(labels) = self.labels {
                found.retain(|object| labels.matches(&object.labels()));
            }
            found.truncate(self.limit);
            found
        })
    }

    fn candidates(&self, store: &Store) -> Vec<Arc<Object>> {
        let mut sets: Vec<Vec<Slot>> = self.lookups.iter().map(|lookup| lookup()).collect();
        sets.sort_by_key(Vec::len);
        match (sets.split_first(), self.namespace) {
            (Some((rarest, others)), _) => {
                let everywhere = |slot: &&Slot| others.iter().all(|set| set.binary_search(slot).is_ok());
                rarest.iter().filter(everywhere).filter_map(|slot| store.at(*slot)).collect()
            }
            (None, Some(namespace)) => store.list_in(namespace),
            (None, None) => store.list(),
        }
    }
}

impl std::fmt::Debug for Find<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Find({}, {} lookups)", self.cache.scope(), self.lookups.len())
    }
}
