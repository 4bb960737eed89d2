//! From a change to the keys that must be reconciled.
//!
//! A [`Trigger`] is one thing a controller listens to: a kind, a [`Channel`], or a source of one's own. A [`Mapping`]
//! sees the old *and* the new state: when a child moves from one owner to another, both are told. A [`Predicate`]
//! decides first whether a change matters at all, and knows whether the object was created, changed or deleted, so that
//! it cannot swallow deletions by accident.
//!
//! ```
//! use concert_api::Gvk;
//! use concert_runtime::{
//!     Channel, Controller, Mapping, Outcome, Predicate, Resource, Sink, Trigger, WhenMissing, reconcile_fn,
//! };
//! use std::time::Duration;
//!
//! let maps = Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
//! let widgets = Resource::namespaced(Gvk::new("test.dev", "v1", "Widget"), "widgets");
//! let alarms = Channel::new();
//! let nightly = |sink: Sink| async move {
//!     loop {
//!         tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
//!         sink.add(concert_api::ObjectKey::new("default", "report"), "nightly");
//!     }
//! };
//! let controller = Controller::builder("maps")
//!     .for_(maps)
//!     .when(Predicate::generation_changed().or(Predicate::labels_changed()))
//!     .resync(Duration::from_secs(10 * 3600))
//!     .watches(widgets, Mapping::own())
//!     .when_missing(WhenMissing::Optional)
//!     .on(Trigger::channel(&alarms, Mapping::own()))
//!     .on(Trigger::source("nightly", nightly))
//!     .run(reconcile_fn(|_| async { Ok(Outcome::Done) }))?;
//! # Ok::<(), concert_runtime::BuildError>(())
//! ```

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use concert_api::{Object, ObjectKey};
use concert_queue::{Call, Revision, priority};
use futures::FutureExt;

use crate::cache::{Change, Informers, Origin, Verb};
use crate::cluster::Cluster;
use crate::reconciler::Key;
use crate::resource::Resource;
use crate::scope::Scope;
use crate::source::{Channel, EventSource, Mailbox, Running, Sink};

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

    /// Updates matter only if the two states differ by `differs`; everything else always matters.
    fn updated(differs: impl Fn(&Object, &Object) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => differs(old, new),
            _ => true,
        })
    }

    /// Only these verbs matter.
    #[must_use]
    pub fn verbs(verbs: &'static [Verb]) -> Self {
        Self::new(|change| verbs.contains(&change.verb()))
    }

    /// Anything changed (`metadata.resourceVersion`): all but a resync.
    #[must_use]
    pub fn resource_version_changed() -> Self {
        Self::updated(|old, new| old.resource_version() != new.resource_version())
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

type Quick<K> = dyn Fn(&Change) -> Vec<K> + Send + Sync;
type Slow<K> = dyn Fn(Change) -> Pin<Box<dyn Future<Output = Vec<K>> + Send>> + Send + Sync;

/// From a change to keys.
pub struct Mapping<K = ObjectKey>(Map<K>);

enum Map<K> {
    /// On the way of the cache's writer.
    Quick(Arc<Quick<K>>),
    /// In a task of its own.
    Slow(Arc<Slow<K>>),
}

impl<K> Clone for Mapping<K> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Map::Quick(map) => Map::Quick(Arc::clone(map)),
            Map::Slow(map) => Map::Slow(Arc::clone(map)),
        })
    }
}

impl<K> Mapping<K> {
    /// Maps a change, with all it knows. It runs on the way of the cache's writer: it must be quick and may not wait.
    pub fn new(map: impl Fn(&Change) -> Vec<K> + Send + Sync + 'static) -> Self {
        Self(Map::Quick(Arc::new(map)))
    }

    /// Maps the old and the new state, each for itself.
    pub fn each(map: impl Fn(&Object) -> Vec<K> + Send + Sync + 'static) -> Self {
        Self::new(move |change| change.states().flat_map(|object| map(object)).collect())
    }

    /// Maps a change in a task of its own, where it may take its time and ask others. It holds nobody up: changes that
    /// come meanwhile are folded into one per object, from the state that was mapped last to the latest.
    pub fn slow<F, Fut>(map: F) -> Self
    where
        F: Fn(Change) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<K>> + Send + 'static,
    {
        Self(Map::Slow(Arc::new(move |change| Box::pin(map(change)))))
    }
}

impl Mapping {
    /// The object's own key.
    #[must_use]
    pub fn own() -> Self {
        Self::new(|change| vec![change.key.clone()])
    }

    /// The owner with `controller: true`, if it is of this kind in any version.
    #[must_use]
    pub fn controller(owner: Resource) -> Self {
        Self::each(move |object| owners(object, &owner, true))
    }

    /// Every owner of this kind, in any version.
    #[must_use]
    pub fn owners(owner: Resource) -> Self {
        Self::each(move |object| owners(object, &owner, false))
    }
}

fn owners(object: &Object, owner: &Resource, controlling: bool) -> Vec<ObjectKey> {
    let references = object.owners();
    let ours = |r: &&concert_api::OwnerReference| {
        (r.is_controller() || !controlling) && r.kind == owner.gvk.kind && r.group() == owner.gvk.group
    };
    references.iter().filter(ours).map(|r| owner.key(&object.namespace(), &r.name)).collect()
}

/// How urgent the keys of a source are. The larger, the sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// Those of objects that were found there, not seen to come.
    pub initial: i32,
    /// Those of objects that are only looked at again.
    pub resync: i32,
    /// Those of changes and events.
    pub event: i32,
}

impl Default for Priorities {
    /// controller-runtime's: -100, -100 and 0.
    fn default() -> Self {
        Self { initial: priority::INITIAL, resync: priority::RESYNC, event: priority::EVENT }
    }
}

/// What a controller does when the kind of a source is missing, or we may not read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenMissing {
    /// It says so and waits, however long: its workers begin when the kind is there.
    #[default]
    Wait,
    /// It ends with an error, as it does when the source is not complete within the time for that.
    Fail,
    /// Its workers begin without it; it joins when it is there.
    Optional,
}

/// One thing a controller listens to, and how.
pub struct Trigger<K: Key = ObjectKey> {
    pub(crate) origin: Listening<K>,
    /// Of another cluster than the process's own.
    pub(crate) informers: Option<Informers>,
    pub(crate) mapping: Mapping<K>,
    pub(crate) predicates: Vec<Predicate>,
    pub(crate) role: Role,
    pub(crate) priorities: Priorities,
    pub(crate) missing: WhenMissing,
    pub(crate) resync: Option<Duration>,
}

/// Where changes come from.
pub(crate) enum Listening<K: Key> {
    Kind(Scope),
    Channel(Arc<Mailbox>),
    Custom(String, Box<dyn FnOnce(Sink<K>) -> Running + Send>),
}

/// What a source is to its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    For,
    Owns,
    Watches,
}

impl<K: Key> Trigger<K> {
    fn of(origin: Listening<K>, mapping: Mapping<K>, role: Role) -> Self {
        let (priorities, missing) = (Priorities::default(), WhenMissing::default());
        let (informers, resync) = (None, None);
        Self { origin, informers, mapping, predicates: Vec::new(), role, priorities, missing, resync }
    }

    pub(crate) fn kind_as(scope: Scope, mapping: Mapping<K>, role: Role) -> Self {
        Self::of(Listening::Kind(scope), mapping, role)
    }

    /// The objects of a kind: `mapping` says which keys a change concerns.
    pub fn kind(scope: impl Into<Scope>, mapping: Mapping<K>) -> Self {
        Self::kind_as(scope.into(), mapping, Role::Watches)
    }

    /// Events from outside: `mapping` says which keys one concerns.
    pub fn channel(channel: &Channel, mapping: Mapping<K>) -> Self {
        Self::of(Listening::Channel(channel.open()), mapping, Role::Watches)
    }

    /// A source of one's own; its name is for messages.
    pub fn source(name: impl Into<String>, source: impl EventSource<K>) -> Self {
        let run = Box::new(|sink| Box::pin(source.run(sink)) as Running);
        Self::of(Listening::Custom(name.into(), run), Mapping::new(|_| Vec::new()), Role::Watches)
    }

    /// Changes matter only if `predicate` holds.
    #[must_use]
    pub fn when(mut self, predicate: Predicate) -> Self {
        self.predicates.push(predicate);
        self
    }

    /// How urgent its keys are.
    #[must_use]
    pub fn priorities(self, priorities: Priorities) -> Self {
        Self { priorities, ..self }
    }

    /// What happens if the kind is missing or forbidden.
    #[must_use]
    pub fn when_missing(self, missing: WhenMissing) -> Self {
        Self { missing, ..self }
    }

    /// Every object is looked at again once in this time (a tenth more or less), spread over it, from the cache; never, if
    /// it is zero.
    #[must_use]
    pub fn resync(self, period: Duration) -> Self {
        Self { resync: Some(period), ..self }
    }

    /// The objects are those of another cluster than the process's own.
    #[must_use]
    pub fn in_cluster(self, cluster: &Cluster) -> Self {
        Self { informers: Some(cluster.informers().clone()), ..self }
    }

    /// Splits it into where changes come from and what is made of them, as the source of this number.
    pub(crate) fn split(self, source: u64) -> (Listening<K>, Fire<K>) {
        let Self { origin, mapping, predicates, role, priorities, .. } = self;
        let name = match &origin {
            Listening::Kind(scope) => scope.to_string(),
            Listening::Channel(_) => "a channel".to_owned(),
            Listening::Custom(name, _) => name.clone(),
        };
        (origin, Fire { source, name, mapping, predicates, role, priorities })
    }
}

/// What is made of the changes of a source.
pub(crate) struct Fire<K> {
    source: u64,
    pub(crate) name: String,
    mapping: Mapping<K>,
    predicates: Vec<Predicate>,
    role: Role,
    pub(crate) priorities: Priorities,
}

impl<K: Key> Fire<K> {
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self.mapping.0, Map::Slow(_))
    }

    /// Whether a change matters. A predicate that panics costs this change, not the watch.
    pub(crate) fn matters(&self, change: &Change) -> bool {
        let holds = || self.predicates.iter().all(|predicate| predicate.holds(change));
        catch_unwind(AssertUnwindSafe(holds)).unwrap_or_else(|_| {
            self.complain(&change.key, "predicate");
            false
        })
    }

    /// The keys that a change asks for, each once, in order. A slow mapping is not asked here.
    pub(crate) fn quick(&self, change: &Change) -> Vec<K> {
        let Map::Quick(map) = &self.mapping.0 else { return Vec::new() };
        let keys = catch_unwind(AssertUnwindSafe(|| map(change)));
        keys.map(in_order).unwrap_or_else(|_| self.complain(&change.key, "mapping"))
    }

    /// [`Fire::quick`] for any mapping.
    pub(crate) async fn map(&self, change: Change) -> Vec<K> {
        let Map::Slow(map) = &self.mapping.0 else { return self.quick(&change) };
        let key = change.key.clone();
        // The function itself may panic before there is a future.
        let keys = AssertUnwindSafe(async { map(change).await }).catch_unwind().await;
        keys.map(in_order).unwrap_or_else(|_| self.complain(&key, "mapping"))
    }

    fn complain(&self, key: &ObjectKey, what: &str) -> Vec<K> {
        tracing::error!(source = self.name, key = %key, "a {what} panicked: this change is lost on its controller");
        Vec::new()
    }

    /// How urgent a change is, and why.
    pub(crate) fn call(&self, change: &Change) -> Call {
        let Priorities { initial, resync, event } = self.priorities;
        let (priority, reason) = match (change.origin, self.role, change.verb()) {
            (Origin::Initial, ..) => (initial, "initial"),
            (Origin::Resync, ..) => (resync, "resync"),
            (Origin::External, ..) => (event, "external event"),
            (Origin::Watched | Origin::Relisted, Role::For, Verb::Created) => (event, "created"),
            (Origin::Watched | Origin::Relisted, Role::For, Verb::Updated | Verb::Generic) => (event, "updated"),
            (Origin::Watched | Origin::Relisted, Role::For, Verb::Deleted) => (event, "deleted"),
            (Origin::Watched | Origin::Relisted, Role::Owns, _) => (event, "owned object changed"),
            (Origin::Watched | Origin::Relisted, Role::Watches, _) => (event, "watched object changed"),
        };
        // A relist folds several changes into one, perhaps somebody else's with ours: only single ones are known.
        let watched = change.new.as_ref().filter(|_| change.origin == Origin::Watched);
        let number = watched.and_then(|object| object.revision());
        Call { priority, reason, revision: number.map(|number| Revision { number, source: self.source }) }
    }
}

fn in_order<K: Ord>(mut keys: Vec<K>) -> Vec<K> {
    keys.sort();
    keys.dedup();
    keys
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
        let scope = Scope::from(Resource::namespaced(Gvk::new("", "v1", "Pod"), "pods"));
        let (_, fire) = Trigger { predicates, ..Trigger::kind(scope, mapping) }.split(0);
        let keys = if fire.matters(change) { fire.quick(change) } else { Vec::new() };
        keys.iter().map(ToString::to_string).collect()
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
    fn verbs_and_origins_can_be_told_apart() {
        let one = object(r#""resourceVersion":"1""#);
        let all = [
            (change(None, Some(one.clone())), Verb::Created),
            (change(Some(one.clone()), Some(object(r#""resourceVersion":"2""#))), Verb::Updated),
            (change(Some(one.clone()), None), Verb::Deleted),
            (Change { origin: Origin::External, ..change(None, Some(one.clone())) }, Verb::Generic),
        ];
        for (change, verb) in &all {
            assert_eq!(change.verb(), *verb);
            assert!(Predicate::resource_version_changed().holds(change));
            assert_eq!(
                Predicate::verbs(&[Verb::Generic, Verb::Deleted]).holds(change),
                !matches!(verb, Verb::Created | Verb::Updated)
            );
        }
        let resync = Change { origin: Origin::Resync, ..change(Some(one.clone()), Some(one)) };
        assert!(!Predicate::resource_version_changed().holds(&resync));
        assert!(Predicate::new(|change| change.origin == Origin::Resync).holds(&resync));
    }

    #[test]
    fn any_owner_is_told_where_that_is_asked_for_and_each_key_once() {
        let files = Resource::namespaced(Gvk::new("x.dev", "v1", "File"), "files");
        let owned = change(Some(owned_by("x.dev/v1", "b", false)), Some(owned_by("x.dev/v1", "b", false)));
        assert!(fire(Mapping::controller(files.clone()), vec![], &owned).is_empty());
        assert_eq!(fire(Mapping::owners(files), vec![], &owned), ["n/b"]);
    }

    #[test]
    fn a_panicking_mapping_costs_one_change() {
        assert!(fire(Mapping::new(|_| panic!("oh")), vec![], &change(None, Some(object(r#""uid":"1""#)))).is_empty());
    }
}
