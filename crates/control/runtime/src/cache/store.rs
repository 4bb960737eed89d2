//! The objects of a scope, and what each event changes about them. Pure.
//!
//! ```text
//! in_order, by_key ──► slot ──► Arc<Object>      indexes: value ──► slots
//! ```
//!
//! Lists come in the order of keys. Who asks for one object, as every event does, is not led down a tree of keys that are
//! all over the memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use concert_api::{Glance, Object, ObjectKey, ParseError};
use hashbrown::HashMap;

use super::index::{AnyIndex, Slot};
use super::keep::Keep;
use super::memo::Memo;
use crate::watch::{Arrived, Event};

/// One object changed.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its key.
    pub key: ObjectKey,
    /// What was known before; `None` if it is new.
    pub old: Option<Arc<Object>>,
    /// What is known now; `None` if it is gone.
    pub new: Option<Arc<Object>>,
    /// How it came to be known.
    pub origin: Origin,
}

/// How a [`Change`] came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Found there, not seen to come: by the first list, or by a handler that joined later.
    Initial,
    /// Found by a later list: several changes may be folded into one.
    Relisted,
    /// Watched: exactly this change was made.
    Watched,
    /// Nothing changed: it is only time to look again.
    Resync,
    /// Told from outside of the API; see [`Channel`](crate::Channel).
    External,
}

/// What a [`Change`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The object is new (or new to us).
    Created,
    /// The object changed.
    Updated,
    /// The object is gone.
    Deleted,
    /// Something happened that concerns the object; it need not be an object of the API.
    Generic,
}

impl Change {
    /// What it did.
    #[must_use]
    pub fn verb(&self) -> Verb {
        match (&self.old, &self.new) {
            _ if self.origin == Origin::External => Verb::Generic,
            (_, None) => Verb::Deleted,
            (None, Some(_)) => Verb::Created,
            (Some(_), Some(_)) => Verb::Updated,
        }
    }

    /// The old and the new state, as far as they are known.
    pub fn states(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.old.iter().chain(&self.new)
    }
}

/// An object and the list that named it last.
#[derive(Debug)]
struct Entry {
    object: Arc<Object>,
    round: u32,
}

/// How far one of the watches that feed a store is.
#[derive(Debug, Default)]
struct Feed {
    /// The list that is arriving.
    round: u32,
    listing: bool,
    synced: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Store {
    keep: Keep,
    in_order: BTreeMap<ObjectKey, Slot>,
    by_key: HashMap<ObjectKey, Slot>,
    slots: Vec<Option<Entry>>,
    free: Vec<Slot>,
    bytes: usize,
    rounds: u32,
    /// By namespace; the empty one feeds all.
    feeds: BTreeMap<String, Feed>,
    indexes: Vec<Weak<dyn AnyIndex>>,
    memo: Memo,
}

impl Store {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, ..Self::default() }
    }

    /// What of it is kept decoded.
    pub(super) fn memo(&self) -> &Memo {
        &self.memo
    }

    /// Whether it has this version of an object.
    pub(super) fn has(&self, object: &Arc<Object>) -> bool {
        let entry = self.by_key.get(&object.key()).and_then(|slot| self.entry(*slot));
        entry.is_some_and(|entry| Arc::ptr_eq(&entry.object, object))
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.at(*self.by_key.get(key)?)
    }

    /// The object of a slot.
    pub(super) fn at(&self, slot: Slot) -> Option<Arc<Object>> {
        self.entry(slot).map(|entry| Arc::clone(&entry.object))
    }

    fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn list(&self) -> Vec<Arc<Object>> {
        self.in_order.values().filter_map(|slot| self.at(*slot)).collect()
    }

    pub(super) fn list_in(&self, namespace: &str) -> Vec<Arc<Object>> {
        self.range(namespace).filter_map(|(_, slot)| self.at(slot)).collect()
    }

    /// Keys and slots of a namespace, in order.
    fn range(&self, namespace: &str) -> impl Iterator<Item = (&ObjectKey, Slot)> {
        let from = self.in_order.range(ObjectKey::new(namespace, "")..);
        from.take_while(move |(key, _)| &*key.namespace == namespace).map(|(key, slot)| (key, *slot))
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// How many bytes of JSON it holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps an index up to date from now on, as long as somebody has it.
    pub(super) fn add_index(&mut self, index: &Arc<impl AnyIndex + 'static>) {
        for (slot, entry) in (0..).zip(&self.slots) {
            if let Some(entry) = entry {
                index.insert(slot, &entry.object);
            }
        }
        let index: Weak<dyn AnyIndex> = Arc::downgrade(index) as Weak<dyn AnyIndex>;
        self.indexes.retain(|index| index.strong_count() > 0);
        self.indexes.push(index);
    }

    /// Applies one event of the watch of `namespace`, and says what it changed.
    pub(super) fn apply(&mut self, namespace: &str, event: Event) -> Result<Vec<Change>, ParseError> {
        match event {
            Event::Reset => {
                self.rounds = self.rounds.wrapping_add(1);
                let round = self.rounds;
                let feed = self.feed(namespace);
                (feed.round, feed.listing) = (round, true);
                Ok(Vec::new())
            }
            Event::Listed(arrived) => {
                let feed = self.feed(namespace);
                let (round, origin) = (feed.round, if feed.synced { Origin::Relisted } else { Origin::Initial });
                Ok(self.put(arrived, origin, round)?.into_iter().collect())
            }
            Event::Applied(arrived) => {
                let round = self.feeds.get(namespace).map_or(0, |feed| feed.round);
                Ok(self.put(arrived, Origin::Watched, round)?.into_iter().collect())
            }
            Event::Deleted(arrived) => Ok(self.removed(&arrived).into_iter().collect()),
            Event::Complete(_) => {
                let feed = self.feed(namespace);
                feed.synced = true;
                let listed = std::mem::take(&mut feed.listing).then_some(feed.round);
                Ok(listed.map_or_else(Vec::new, |round| self.sweep(namespace, Some(round))))
            }
            Event::Progress(_) | Event::Opened | Event::Trouble(_) | Event::Skipped { .. } => Ok(Vec::new()),
        }
    }

    fn feed(&mut self, namespace: &str) -> &mut Feed {
        if !self.feeds.contains_key(namespace) {
            self.feeds.insert(namespace.to_owned(), Feed::default());
        }
        self.feeds.get_mut(namespace).expect("it was just put there")
    }

    /// A namespace is no longer watched: what was known of it is gone, for us.
    pub(super) fn leave(&mut self, namespace: &str) -> Vec<Change> {
        self.forget_feed(namespace);
        self.sweep(namespace, None)
    }

    /// A watch brings nothing more.
    pub(super) fn forget_feed(&mut self, name: &str) {
        self.feeds.remove(name);
    }

    /// How many watches are remembered.
    #[cfg(test)]
    pub(super) fn feeds(&self) -> usize {
        self.feeds.len()
    }

    /// Nobody shows an object any more, and nobody saw it go.
    pub(super) fn vanished(&mut self, key: &ObjectKey) -> Option<Change> {
        let (key, old) = self.remove(key)?;
        Some(Change { key, old: Some(old), new: None, origin: Origin::Relisted })
    }

    /// An object whose version is known already stays as it is: no change, no copy, not even a look at it.
    fn put(&mut self, arrived: Arrived, origin: Origin, round: u32) -> Result<Option<Change>, ParseError> {
        let known = self.by_key.get(&arrived.glance.key).copied();
        if let Some(entry) = known.and_then(|slot| self.slots[slot as usize].as_mut()) {
            entry.round = round;
            if is_same(&entry.object, &arrived.glance) {
                return Ok(None);
            }
        }
        let new = Arc::new(self.keep.take(&arrived)?);
        self.bytes += new.bytes().len();
        let entry = Entry { object: Arc::clone(&new), round };
        let (key, old) = match known {
            Some(slot) => {
                let old = self.slots[slot as usize].replace(entry).map(|entry| entry.object);
                self.forget(slot, old.as_ref());
                self.remember(slot, &new);
                (arrived.glance.key, old)
            }
            None => (self.insert(arrived.glance.key, entry), None),
        };
        Ok(Some(Change { key, old, new: Some(new), origin }))
    }

    fn insert(&mut self, key: ObjectKey, entry: Entry) -> ObjectKey {
        // Objects of one namespace share its name.
        let neighbour = self.range(&key.namespace).next().map(|(near, _)| Arc::clone(&near.namespace));
        let key = ObjectKey { namespace: neighbour.unwrap_or(key.namespace), name: key.name };
        let object = Arc::clone(&entry.object);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(entry);
                slot
            }
            None => {
                self.slots.push(Some(entry));
                Slot::try_from(self.slots.len() - 1).expect("four thousand million objects do not fit in memory")
            }
        };
        self.in_order.insert(key.clone(), slot);
        self.by_key.insert(key.clone(), slot);
        self.remember(slot, &object);
        key
    }

    fn remember(&self, slot: Slot, object: &Object) {
        for index in self.indexes.iter().filter_map(Weak::upgrade) {
            index.insert(slot, object);
        }
    }

    fn forget(&mut self, slot: Slot, object: Option<&Arc<Object>>) {
        let Some(object) = object else { return };
        self.bytes -= object.bytes().len();
        self.memo.forget(object);
        for index in self.indexes.iter().filter_map(Weak::upgrade) {
            index.remove(slot, object);
        }
    }

    /// Takes an object out whose end was watched. Its last state is what handlers see as the old one.
    fn removed(&mut self, arrived: &Arrived) -> Option<Change> {
        let (key, known) = self.remove(&arrived.glance.key)?;
        let old = self.keep.take(arrived).map_or(known, Arc::new);
        Some(Change { key, old: Some(old), new: None, origin: Origin::Watched })
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<(ObjectKey, Arc<Object>)> {
        let (key, slot) = self.by_key.remove_entry(key)?;
        self.in_order.remove(&key);
        let object = self.slots[slot as usize].take()?.object;
        self.forget(slot, Some(&object));
        self.free.push(slot);
        Some((key, object))
    }

    /// What a complete list of a namespace (all if empty) did not name is gone; nobody saw it go. Without a list
    /// everything is.
    fn sweep(&mut self, namespace: &str, round: Option<u32>) -> Vec<Change> {
        let from = if namespace.is_empty() { Bound::Unbounded } else { Bound::Included(ObjectKey::new(namespace, "")) };
        let within = |key: &ObjectKey| namespace.is_empty() || &*key.namespace == namespace;
        let keys = self.in_order.range((from, Bound::Unbounded)).take_while(|(key, _)| within(key));
        let stale = |slot: Slot| self.entry(slot).is_none_or(|entry| Some(entry.round) != round);
        let gone: Vec<ObjectKey> = keys.filter(|(_, slot)| stale(**slot)).map(|(key, _)| key.clone()).collect();
        gone.iter().filter_map(|key| self.vanished(key)).collect()
    }
}

fn is_same(known: &Object, glance: &Glance) -> bool {
    !glance.resource_version.is_empty()
        && known.resource_version() == glance.resource_version
        && known.uid() == glance.uid
}

#[cfg(test)]
mod tests;
