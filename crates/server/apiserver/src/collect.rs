//! Garbage collection, decided: who depends on whom, and what is to become of an object. Pure; `housekeeping` acts.
//!
//! An owner is known by its uid. A reference whose owner is not there (or is another object of that name, or would be
//! in another namespace) dangles. An object is deleted when it has references and none of them holds it any more; if
//! some do, the others are dropped. An owner that is deleted in the foreground waits for the dependents that block it.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use concert_api::{Gvk, ObjectKey, OwnerReference};
use concert_store::{Event, EventKind, Key, Snapshot};
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use crate::beside::{Parsed, Stored};
use crate::delete::{FOREGROUND, ORPHAN, Policy};
use crate::kinds::{self, Kinds};

/// What is known beside the store: dependents by the uid of their owner, and objects that must be looked at. Cloning it
/// costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    /// Everything up to this revision is in here; `None`: nothing yet.
    seen: Option<u64>,
    dependents: RedBlackTreeMapSync<Arc<str>, RedBlackTreeSetSync<Key>>,
    /// Owners that were seen to go: known to be absent even if their kind went with them.
    gone: BTreeSet<Arc<str>>,
    pending: VecDeque<Key>,
    queued: BTreeSet<Key>,
    /// Objects whose owners are of a kind that is not served.
    unresolved: BTreeSet<Key>,
}

/// What is to become of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It stays as it is.
    Keep,
    /// These owners do not hold it any more; others do.
    Forget(BTreeSet<String>),
    /// Nobody holds it.
    Delete(Option<Policy>),
    /// Nobody holds it but a circle of owners that wait for each other.
    BreakAndDelete,
    /// It waits for these.
    Await(Vec<Key>),
    /// These forget it, then it goes.
    Orphan(Vec<Key>),
    /// Nothing blocks its deletion in the foreground any more.
    Release,
}

/// How a reference stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Solid,
    Dangling,
    /// The owner is being deleted and waits for its dependents.
    Waiting,
    /// Nobody can say: the kind is not served, or the reference makes no sense. The object is left alone.
    Unknown,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            seen: None,
            dependents: RedBlackTreeMapSync::new_sync(),
            gone: BTreeSet::new(),
            pending: VecDeque::new(),
            queued: BTreeSet::new(),
            unresolved: BTreeSet::new(),
        }
    }
}

impl Ledger {
    /// The revision up to which it knows everything.
    pub(crate) fn seen(&self) -> Option<u64> {
        self.seen
    }

    /// Begins anew from a whole state: whatever may be half done in it is looked at.
    pub(crate) fn restart(&mut self, snapshot: &Snapshot<Parsed>) {
        *self = Self { seen: Some(snapshot.revision()), ..Self::default() };
        for (key, entry) in snapshot.iter() {
            self.index(&key, &entry.beside.owners, true);
            let parsed = &entry.beside;
            let interesting = !parsed.owners.is_empty()
                || key.resource == kinds::namespaces()
                || parsed.waits_for(FOREGROUND)
                || parsed.waits_for(ORPHAN);
            if interesting {
                self.look_at(key);
            }
        }
    }

    /// The next object that must be looked at.
    pub(crate) fn next(&mut self) -> Option<Key> {
        let key = self.pending.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }

    pub(crate) fn look_at(&mut self, key: Key) {
        if self.queued.insert(key.clone()) {
            self.pending.push_back(key);
        }
    }

    /// Takes note of one write.
    pub(crate) fn note(&mut self, event: &Event<Parsed>, kinds: &Kinds) {
        self.seen = Some(event.revision);
        let old = event.old.as_ref().map(|old| &old.beside);
        let before = old.map(|old| old.owners.as_slice()).unwrap_or_default();
        let new = &event.new.beside;
        let after = if event.kind == EventKind::Put { new.owners.as_slice() } else { &[] };
        if before != after {
            self.index(&event.key, before, false);
            self.index(&event.key, after, true);
            let kept: HashSet<&OwnerReference> = after.iter().collect();
            for owner in before.iter().filter(|owner| !kept.contains(owner)) {
                // It may have waited for this one.
                self.pending_owner(owner, &event.key.object, kinds);
            }
            if !after.is_empty() {
                self.look_at(event.key.clone());
            }
        }
        if event.kind == EventKind::Delete {
            self.note_removal(&new.uid());
        } else {
            let begins = |finalizer| new.waits_for(finalizer) && !old.is_some_and(|old| old.waits_for(finalizer));
            if begins(FOREGROUND) || begins(ORPHAN) {
                self.look_at(event.key.clone());
                self.look_at_dependents(&new.uid());
            }
        }
        self.note_kind(event);
    }

    /// What else an event of a certain kind means.
    fn note_kind(&mut self, event: &Event<Parsed>) {
        if event.key.resource == kinds::definitions() {
            for key in std::mem::take(&mut self.unresolved) {
                self.look_at(key);
            }
        }
        if event.key.resource == kinds::namespaces() && event.kind == EventKind::Put && event.old.is_none() {
            self.look_at(event.key.clone());
        }
        if crate::residents::is_one(&event.key) {
            let namespace = ObjectKey::cluster(Arc::clone(&event.key.object.namespace));
            self.look_at(Key { resource: kinds::namespaces(), object: namespace });
        }
    }

    fn note_removal(&mut self, uid: &str) {
        if self.dependents.get(uid).is_some() {
            self.gone.insert(uid.into());
            self.look_at_dependents(uid);
        }
    }

    fn look_at_dependents(&mut self, uid: &str) {
        for key in self.dependents_of(uid) {
            self.look_at(key);
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<Key> {
        self.dependents.get(uid).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    fn pending_owner(&mut self, owner: &OwnerReference, dependent: &ObjectKey, kinds: &Kinds) {
        if let Place::At(key) = place(owner, dependent, kinds) {
            self.look_at(key);
        }
    }

    fn index(&mut self, key: &Key, owners: &[OwnerReference], present: bool) {
        for owner in owners {
            let uid = owner.uid.as_str();
            let mut keys = self.dependents.get(uid).cloned().unwrap_or_else(RedBlackTreeSetSync::new_sync);
            if present {
                keys.insert_mut(key.clone());
            } else {
                keys.remove_mut(key);
            }
            if keys.is_empty() {
                self.dependents.remove_mut(uid);
                self.gone.remove(uid);
            } else {
                self.dependents.insert_mut(uid.into(), keys);
            }
        }
    }

    /// What is to become of an object.
    pub(crate) fn verdict(&mut self, key: &Key, snapshot: &Snapshot<Parsed>, kinds: &Kinds) -> Verdict {
        let Some(entry) = snapshot.get(key) else { return Verdict::Keep };
        let parsed = &entry.beside;
        if parsed.waits_for(ORPHAN) {
            return Verdict::Orphan(self.dependents_of(&parsed.uid()));
        }
        if parsed.waits_for(FOREGROUND) {
            return self.foreground(key, entry, snapshot);
        }
        if parsed.is_deleting() || parsed.owners.is_empty() {
            return Verdict::Keep;
        }
        let standings: Vec<Standing> =
            parsed.owners.iter().map(|owner| self.standing(owner, &key.object, snapshot, kinds)).collect();
        if standings.contains(&Standing::Unknown) {
            self.unresolved.insert(key.clone());
            return Verdict::Keep;
        }
        if standings.contains(&Standing::Solid) {
            let loose = parsed.owners.iter().zip(&standings).filter(|(_, standing)| **standing != Standing::Solid);
            let loose: BTreeSet<String> = loose.map(|(owner, _)| owner.uid.clone()).collect();
            return if loose.is_empty() { Verdict::Keep } else { Verdict::Forget(loose) };
        }
        let dependents = self.dependents_of(&parsed.uid());
        if !standings.contains(&Standing::Waiting) || dependents.is_empty() {
            return Verdict::Delete(None);
        }
        let waits = |key: &Key| snapshot.get(key).is_some_and(|entry| entry.beside.waits_for(FOREGROUND));
        if dependents.iter().any(waits) { Verdict::BreakAndDelete } else { Verdict::Delete(Some(Policy::Foreground)) }
    }

    /// An owner that is deleted in the foreground.
    fn foreground(&self, key: &Key, entry: &Stored, snapshot: &Snapshot<Parsed>) -> Verdict {
        let uid = entry.beside.uid();
        let blocks = |dependent: &Key| {
            let in_reach = key.object.namespace.is_empty() || key.object.namespace == dependent.object.namespace;
            let found = snapshot.get(dependent).filter(|_| in_reach);
            found.is_some_and(|found| {
                found.beside.owners.iter().any(|one| *one.uid == *uid && one.block_owner_deletion == Some(true))
            })
        };
        let blocking: Vec<Key> = self.dependents_of(&uid).into_iter().filter(blocks).collect();
        if blocking.is_empty() { Verdict::Release } else { Verdict::Await(blocking) }
    }

    fn standing(
        &self,
        owner: &OwnerReference,
        dependent: &ObjectKey,
        snapshot: &Snapshot<Parsed>,
        kinds: &Kinds,
    ) -> Standing {
        let key = match place(owner, dependent, kinds) {
            Place::At(key) => key,
            Place::NotServed if self.gone.contains(owner.uid.as_str()) => return Standing::Dangling,
            Place::NotServed | Place::Nowhere => return Standing::Unknown,
        };
        match snapshot.get(&key) {
            Some(found) if *found.beside.uid() == *owner.uid => {
                if found.beside.waits_for(FOREGROUND) {
                    Standing::Waiting
                } else {
                    Standing::Solid
                }
            }
            Some(_) | None => Standing::Dangling,
        }
    }
}

/// Where the owner of an object should be.
enum Place {
    At(Key),
    /// Its kind is not served.
    NotServed,
    /// It would live in a namespace, and the object does not.
    Nowhere,
}

fn place(owner: &OwnerReference, dependent: &ObjectKey, kinds: &Kinds) -> Place {
    let gvk = Gvk::from_api_version(&owner.api_version, &owner.kind);
    let Some(resource) = gvk.and_then(|gvk| kinds.of_kind(&gvk)) else { return Place::NotServed };
    let object = match (resource.namespaced, dependent.namespace.is_empty()) {
        (true, true) => return Place::Nowhere,
        (true, false) => ObjectKey::new(Arc::clone(&dependent.namespace), owner.name.as_str()),
        (false, _) => ObjectKey::cluster(owner.name.as_str()),
    };
    Place::At(Key { resource: resource.stored_as.clone(), object })
}
