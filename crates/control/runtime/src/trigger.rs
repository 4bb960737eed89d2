//! From a change to the keys that must be reconciled.
//!
//! A [`Mapping`] sees the old *and* the new state: when a child moves from one owner to another, both are told. A
//! [`Predicate`] decides first whether a change matters at all, and knows whether the object was created, changed or
//! deleted, so that it cannot swallow deletions by accident.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use concert_api::{Object, ObjectKey};
use concert_queue::priority;

use crate::cache::{Change, Origin, Verb};
use crate::resource::Resource;
use crate::scope::Scope;

/// Which changes matter.
#[derive(Clone)]
pub struct Predicate(Arc<dyn Fn(&Change) -> bool + Send + Sync>);

impl Predicate {
    /// Decides by a function.
    pub fn new(test: impl Fn(&Change) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }

    /// Whether a change matters.
    #[must_use]
    pub fn holds(&self, change: &Change) -> bool {
        (self.0)(change)
    }

    /// Updates matter only if the two states differ by `differs`; creations and deletions always matter.
    fn updated(differs: impl Fn(&Object, &Object) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => differs(old, new),
            _ => true,
        })
    }

    /// The spec changed (`metadata.generation`), or the deletion began.
    #[must_use]
    pub fn generation_changed() -> Self {
        Self::updated(|old, new| old.generation() != new.generation() || old.is_deleting() != new.is_deleting())
    }

    /// A label changed.
    #[must_use]
    pub fn labels_changed() -> Self {
        Self::updated(|old, new| old.labels() != new.labels())
    }

    /// An annotation changed.
    #[must_use]
    pub fn annotations_changed() -> Self {
        Self::updated(|old, new| old.annotations() != new.annotations())
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |change| self.holds(change) && other.holds(change))
    }

    /// Either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |change| self.holds(change) || other.holds(change))
    }

    /// Not.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "reads as `and` and `or` do")]
    pub fn not(self) -> Self {
        Self::new(move |change| !self.holds(change))
    }
}

type Map = dyn Fn(&Change) -> Vec<ObjectKey> + Send + Sync;

/// From a change to keys.
#[derive(Clone)]
pub struct Mapping(Arc<Map>);

impl Mapping {
    /// Maps a change, with all it knows.
    pub fn new(map: impl Fn(&Change) -> Vec<ObjectKey> + Send + Sync + 'static) -> Self {
        Self(Arc::new(map))
    }

    /// Maps the old and the new state, each for itself.
    pub fn each(map: impl Fn(&Object) -> Vec<ObjectKey> + Send + Sync + 'static) -> Self {
        Self::new(move |change| change.states().flat_map(|object| map(object)).collect())
    }

    /// The object's own key.
    #[must_use]
    pub fn own() -> Self {
        Self::new(|change| vec![change.key.clone()])
    }

    /// The owner with `controller: true`, if it is of this kind in any version.
    #[must_use]
    pub fn controller(owner: Resource) -> Self {
        Self::each(move |object| {
            let owners = object.owners();
            let ours = |r: &&concert_api::OwnerReference| {
                r.is_controller() && r.kind == owner.gvk.kind && r.group() == owner.gvk.group
            };
            owners.iter().find(ours).map(|r| owner.key(&object.namespace(), &r.name)).into_iter().collect()
        })
    }
}

/// One thing a controller listens to.
#[derive(Clone)]
pub struct Trigger {
    pub(crate) scope: Scope,
    pub(crate) mapping: Mapping,
    pub(crate) predicates: Vec<Predicate>,
    pub(crate) role: Role,
}

/// What a source is to its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    For,
    Owns,
    Watches,
}

/// Keys to be reconciled, how urgently and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) keys: BTreeSet<ObjectKey>,
    pub(crate) priority: i32,
    pub(crate) reason: &'static str,
    /// The revision that was watched coming: if a turn wrote it itself, it need not be told.
    pub(crate) revision: Option<u64>,
}

impl Trigger {
    /// What a change asks for. A predicate or mapping that panics costs this change, not the watch.
    pub(crate) fn fire(&self, change: &Change) -> Wanted {
        let keys = catch_unwind(AssertUnwindSafe(|| {
            let matters = self.predicates.iter().all(|predicate| predicate.holds(change));
            if matters { (self.mapping.0)(change).into_iter().collect() } else { BTreeSet::new() }
        }));
        let keys = keys.unwrap_or_else(|_| {
            tracing::error!(scope = %self.scope, key = %change.key, "a predicate or mapping panicked");
            BTreeSet::new()
        });
        let (priority, reason) = match (self.role, change.verb()) {
            _ if change.origin == Origin::Initial => (priority::INITIAL, "initial"),
            (Role::For, Verb::Created) => (priority::EVENT, "created"),
            (Role::For, Verb::Updated) => (priority::EVENT, "updated"),
            (Role::For, Verb::Deleted) => (priority::EVENT, "deleted"),
            (Role::Owns, _) => (priority::EVENT, "owned object changed"),
            (Role::Watches, _) => (priority::EVENT, "watched object changed"),
        };
        // A relist folds several changes into one, perhaps somebody else's with ours: only single ones are known.
        let watched = change.new.as_ref().filter(|_| change.origin == Origin::Watched);
        Wanted { keys, priority, reason, revision: watched.and_then(|object| object.revision()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use concert_api::Gvk;

    fn object(metadata: &str) -> Arc<Object> {
        let json = format!(r#"{{"metadata":{{"name":"c","namespace":"n",{metadata}}}}}"#);
        Arc::new(Object::parse(json.into()).unwrap())
    }

    fn owned_by(api_version: &str, name: &str, controller: bool) -> Arc<Object> {
        object(&format!(
            r#""ownerReferences":[{{"apiVersion":"{api_version}","kind":"File","name":"{name}","uid":"u","controller":{controller}}}]"#
        ))
    }

    fn change(old: Option<Arc<Object>>, new: Option<Arc<Object>>) -> Change {
        Change { key: ObjectKey::new("n", "c"), old, new, origin: Origin::Watched }
    }

    fn fire(mapping: Mapping, predicates: Vec<Predicate>, change: &Change) -> Vec<String> {
        let scope = Resource::namespaced(Gvk::new("", "v1", "Pod"), "pods").into();
        let trigger = Trigger { scope, mapping, predicates, role: Role::Owns };
        trigger.fire(change).keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn old_and_new_controllers_are_told_whatever_their_version() {
        let files = Resource::namespaced(Gvk::new("x.dev", "v1", "File"), "files");
        let moved = change(Some(owned_by("x.dev/v1beta1", "a", true)), Some(owned_by("x.dev/v1", "b", true)));
        assert_eq!(fire(Mapping::controller(files.clone()), vec![], &moved), ["n/a", "n/b"]);
        let other = change(Some(owned_by("y.dev/v1", "a", true)), Some(owned_by("x.dev/v1", "b", false)));
        assert!(fire(Mapping::controller(files.clone()), vec![], &other).is_empty());
        let cluster = Resource { namespaced: false, ..files };
        assert_eq!(
            fire(Mapping::controller(cluster), vec![], &moved),
            ["a", "b"],
            "a cluster-scoped owner has no namespace"
        );
    }

    #[test]
    fn predicates_never_swallow_creations_and_deletions() {
        let (one, two) =
            (object(r#""generation":1,"labels":{"a":"b"}"#), object(r#""generation":2,"labels":{"a":"b"}"#));
        let update = change(Some(one.clone()), Some(two.clone()));
        let same = change(Some(one.clone()), Some(one.clone()));
        let created = change(None, Some(one.clone()));
        let deleted = change(Some(one), None);
        let holds = |p: Predicate, c: &Change| !fire(Mapping::own(), vec![p], c).is_empty();
        assert!(holds(Predicate::generation_changed(), &update) && !holds(Predicate::generation_changed(), &same));
        assert!(holds(Predicate::generation_changed(), &created) && holds(Predicate::generation_changed(), &deleted));
        assert!(!holds(Predicate::labels_changed(), &update));
        assert!(holds(Predicate::labels_changed().or(Predicate::generation_changed()), &update));
        assert!(!holds(Predicate::labels_changed().and(Predicate::generation_changed()), &update));
        assert!(holds(Predicate::labels_changed().not(), &update));
    }

    #[test]
    fn a_panicking_mapping_costs_one_change() {
        assert!(fire(Mapping::new(|_| panic!("oh")), vec![], &change(None, Some(object(r#""uid":"1""#)))).is_empty());
    }
}
