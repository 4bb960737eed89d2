//! The objects of a scope, and what each event changes about them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use concert_api::{Object, ObjectKey};

use crate::watch::Event;

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

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Store {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// While a list arrives: what it has named so far.
    listed: Option<BTreeSet<ObjectKey>>,
    synced: bool,
}

impl Store {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.objects.get(key).cloned()
    }

    pub(super) fn list(&self) -> Vec<Arc<Object>> {
        self.objects.values().cloned().collect()
    }

    pub(super) fn list_in(&self, namespace: &str) -> Vec<Arc<Object>> {
        let from = self.objects.range(ObjectKey::new(namespace, "")..);
        from.take_while(|(key, _)| &*key.namespace == namespace).map(|(_, object)| Arc::clone(object)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Applies one event and says what it changed.
    pub(super) fn apply(&mut self, event: Event) -> Vec<Change> {
        match event {
            Event::Reset => {
                self.listed = Some(BTreeSet::new());
                Vec::new()
            }
            Event::Listed(object) => {
                if let Some(listed) = &mut self.listed {
                    listed.insert(object.key());
                }
                let origin = if self.synced { Origin::Relisted } else { Origin::Initial };
                self.put(object, origin).into_iter().collect()
            }
            Event::Applied(object) => self.put(object, Origin::Watched).into_iter().collect(),
            Event::Deleted(object) => self.remove(&object.key(), Some(object)).into_iter().collect(),
            Event::Complete(_) => {
                self.synced = true;
                self.drop_unlisted()
            }
            Event::Progress(_) | Event::Trouble(_) | Event::Skipped(_) => Vec::new(),
        }
    }

    /// An object whose resourceVersion is known already stays as it is: no change, no copy.
    fn put(&mut self, object: Object, origin: Origin) -> Option<Change> {
        let key = object.key();
        let known = self.objects.get(&key);
        let same =
            |known: &Arc<Object>| known.resource_version() == object.resource_version() && known.uid() == object.uid();
        if known.is_some_and(same) {
            return None;
        }
        let new = Arc::new(object);
        let old = self.objects.insert(key.clone(), Arc::clone(&new));
        Some(Change { key, old, new: Some(new), origin })
    }

    /// Takes an object out. Its last state, if the server told it, is what handlers see as the old one.
    fn remove(&mut self, key: &ObjectKey, last: Option<Object>) -> Option<Change> {
        let known = self.objects.remove(key)?;
        let origin = if last.is_some() { Origin::Watched } else { Origin::Relisted };
        let old = Some(last.map_or(known, Arc::new));
        Some(Change { key: key.clone(), old, new: None, origin })
    }

    /// What a complete list did not name is gone; nobody saw it go.
    fn drop_unlisted(&mut self) -> Vec<Change> {
        let Some(listed) = self.listed.take() else { return Vec::new() };
        let gone: Vec<ObjectKey> = self.objects.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        gone.iter().filter_map(|key| self.remove(key, None)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, revision: u32) -> Object {
        let json =
            format!(r#"{{"kind":"K","metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{revision}"}}}}"#);
        Object::parse(json.into()).unwrap()
    }

    fn seen(changes: Vec<Change>) -> Vec<String> {
        changes.iter().map(|change| format!("{:?} {} {:?}", change.verb(), change.key.name, change.origin)).collect()
    }

    #[test]
    fn a_relist_keeps_what_did_not_change_and_drops_what_vanished() {
        let mut store = Store::default();
        store.apply(Event::Reset);
        assert_eq!(seen(store.apply(Event::Listed(object("a", 1)))), ["Created a Initial"]);
        store.apply(Event::Listed(object("b", 2)));
        store.apply(Event::Listed(object("c", 3)));
        assert!(store.apply(Event::Complete("3".into())).is_empty());
        let kept = store.get(&ObjectKey::new("n", "a")).unwrap();
        store.apply(Event::Reset);
        assert!(store.apply(Event::Listed(object("a", 1))).is_empty());
        assert_eq!(seen(store.apply(Event::Listed(object("b", 9)))), ["Updated b Relisted"]);
        assert_eq!(seen(store.apply(Event::Complete("9".into()))), ["Deleted c Relisted"]);
        assert!(Arc::ptr_eq(&kept, &store.get(&ObjectKey::new("n", "a")).unwrap()), "the very same entry");
    }

    #[test]
    fn a_list_that_breaks_off_deletes_nothing() {
        let mut store = Store::default();
        for event in
            [Event::Reset, Event::Listed(object("a", 1)), Event::Listed(object("b", 1)), Event::Complete("1".into())]
        {
            store.apply(event);
        }
        store.apply(Event::Reset);
        store.apply(Event::Listed(object("a", 1)));
        store.apply(Event::Reset);
        assert_eq!(store.len(), 2);
        store.apply(Event::Listed(object("b", 1)));
        assert_eq!(seen(store.apply(Event::Complete("1".into()))), ["Deleted a Relisted"]);
    }

    #[test]
    fn namespaces_are_listed_alone() {
        let mut store = Store::default();
        store.apply(Event::Applied(object("a", 1)));
        let other = Object::parse(r#"{"metadata":{"name":"a","namespace":"nn"}}"#.into()).unwrap();
        store.apply(Event::Applied(other));
        assert_eq!(store.list_in("n").len(), 1);
        assert_eq!(store.list_in("").len(), 0);
        assert!(
            store.apply(Event::Deleted(object("zz", 1))).is_empty(),
            "a delete of an unknown object changes nothing"
        );
    }
}
