//! Server-side apply, and the books that make it possible.
//!
//! An [`Endpoint`] is where writes of one kind and version arrive. Every write passes it: [`Endpoint::update`] books
//! what a create, an update or a patch changed; [`Endpoint::apply`] puts a configuration on top of the live object,
//! removes what the same manager applied before and does not apply any more, and books that. Both take the live object
//! and its parsed [`ManagedFields`], and give new ones.

mod check;
mod combine;
mod compare;
mod identity;
mod last_applied;
mod owned;
mod prune;
mod remove;
mod types;
mod versions;

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use concert_api::{Gvk, Time};
use concert_schema::Schema;
use serde_json::{Map, Value};

use crate::conflict::{ApplyError, Conflict, Conflicts};
use crate::fields::FieldSet;
use crate::managed::{Entry, Identity, ManagedFields, Operation, Sent};

use check::Duplicates;
use compare::{Comparison, same};
use prune::Last;
use types::Type;
use versions::{Comparisons, Missing};
pub use versions::{SingleVersion, Versions};

/// Who owns what was there before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Who has no name.
const UNKNOWN: &str = "unknown";

/// What nobody owns: the server's own, and what identifies the object.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// Where writes of one kind arrive, in one version, for the object or one of its subresources.
#[derive(Clone, Copy)]
pub struct Endpoint<'a> {
    /// The kind, in the version of the request.
    pub gvk: &'a Gvk,
    /// Its schema in that version.
    pub schema: &'a Schema,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// What writes through this endpoint cannot change, and therefore never own: the status here, all else there.
    pub ignored: &'a FieldSet,
    /// An object of the kind in which nothing is set. For a custom resource it has `apiVersion` and `kind`; for a
    /// built-in kind also what Go writes for a zero struct.
    pub empty: &'a Value,
    /// The other versions of the kind.
    pub versions: &'a dyn Versions,
}

/// The object that is there: on a create, the endpoint's empty one.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    /// The object. Its `metadata.managedFields` are not looked at.
    pub object: &'a Value,
    /// Its managed fields.
    pub managed: &'a ManagedFields,
}

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// The manager's name; an empty one is `unknown`.
    pub manager: &'a str,
    /// Now.
    pub now: Time,
}

/// What to do about conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Refuse.
    No,
    /// Take the fields from who owns them.
    Yes,
}

/// What became of an apply.
#[derive(Clone, Debug)]
#[must_use]
pub struct Applied {
    /// The object, without `managedFields`; not yet defaulted.
    pub object: Value,
    /// Its managed fields.
    pub managed: ManagedFields,
    /// Whether anything in the object changed.
    pub changed: bool,
}

impl<'a> Endpoint<'a> {
    /// Books a create, an update or a patch that was not an apply: `new` is what will be stored, before admission. Takes
    /// `metadata.managedFields` out of it: what a client sends there is believed if it makes sense, an empty list or one
    /// empty entry ends the bookkeeping.
    ///
    /// Never fails: where the objects cannot be compared, the managed fields stay as they are.
    #[must_use]
    pub fn update(&self, live: Live<'_>, new: &mut Value, author: Author<'_>) -> ManagedFields {
        let sent = Sent::take(new);
        let managed = match sent {
            _ if !self.subresource.is_empty() => live.managed.clone(),
            Sent::Nothing => live.managed.clone(),
            Sent::Reset => ManagedFields::default(),
            Sent::Managed(managed) => managed,
        };
        let is_new = live.object["metadata"]["uid"].as_str().is_none_or(str::is_empty);
        if managed.is_empty() && !is_new {
            return managed;
        }
        self.booked(live.object, new, managed, author).unwrap_or_else(|_| live.managed.clone())
    }

    /// Applies a configuration. The result still has to be defaulted, admitted and validated, as after any patch.
    ///
    /// # Errors
    /// Conflicts, unless they are forced; and what the real server refuses.
    pub fn apply(
        &self,
        live: Live<'_>,
        config: &Value,
        author: Author<'_>,
        force: Force,
    ) -> Result<Applied, ApplyError> {
        self.check_kind(config)?;
        let mut managed = live.managed.clone();
        if managed.is_empty() {
            let before = Author { manager: BEFORE_FIRST_APPLY, ..author };
            let booked = self.booked(self.empty, live.object, managed, before);
            managed = booked
                .map_err(|why| ApplyError::Internal(format!("failed to create manager for existing fields: {why}")))?;
        }
        let again = (author.manager == last_applied::MANAGER).then(|| managed.clone());
        let mut applied = match (self.applied(live.object, config, managed, author, force), again) {
            (Err(ApplyError::Conflict(conflicts)), Some(managed)) => {
                self.check_last_applied(live.object, conflicts)?;
                self.applied(live.object, config, managed, author, Force::Yes)?
            }
            (other, _) => other?,
        };
        if author.manager == last_applied::MANAGER {
            last_applied::refresh(&mut applied.object, config);
        }
        Ok(applied)
    }

    fn check_kind(&self, config: &Value) -> Result<(), ApplyError> {
        let text = |name: &str| config[name].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let gvk = if version.contains('/') { Gvk::new("", "", "") } else { Gvk::new(group, version, text("kind")) };
        if gvk == *self.gvk { Ok(()) } else { Err(ApplyError::BadRequest(format!("invalid object type: {gvk}"))) }
    }

    /// Books what differs between two objects.
    fn booked(
        &self,
        old: &Value,
        new: &Value,
        mut managed: ManagedFields,
        author: Author<'_>,
    ) -> Result<ManagedFields, String> {
        let kind = Type::of_object(self.schema);
        for (which, object) in [("new", new), ("live", old)] {
            check::check(kind, object, Duplicates::Allowed).map_err(|why| {
                format!("failed to convert {which} object ({}) to smd typed: {why}", self.called(object))
            })?;
        }
        self.adapt(old, &mut managed)?;
        let mut comparisons = Comparisons::new(*self, old, new);
        self.settle(&mut comparisons, &mut managed)?;
        let Comparison { mut modified, added, .. } = comparisons.into_own();
        modified.unite(added);
        modified.subtract(&NEVER_OWNED);
        if !modified.is_empty() {
            let entry = self.entry(&mut managed, author, Operation::Update);
            entry.time = Some(seconds(author.now));
            Arc::make_mut(&mut entry.fields).unite(modified);
        }
        managed.cap();
        managed.sort();
        Ok(managed)
    }

    /// Takes from all managers what somebody else changed.
    fn settle(&self, comparisons: &mut Comparisons<'_>, managed: &mut ManagedFields) -> Result<(), String> {
        let mut failed = None;
        managed.entries_mut().retain_mut(|entry| match comparisons.at(&entry.api_version) {
            Ok(changes) => {
                for set in [&changes.modified, &changes.added, &changes.removed] {
                    entry.lose(set);
                }
                !entry.fields.is_empty()
            }
            Err(Missing::Version) => false,
            Err(Missing::Conversion(why)) => {
                failed = Some(why);
                true
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// The entry of who writes, made if there is none.
    fn entry<'m>(&self, managed: &'m mut ManagedFields, author: Author<'_>, operation: Operation) -> &'m mut Entry {
        let api_version = self.gvk.api_version();
        let at = managed.position(&self.identity(author, operation, &api_version)).unwrap_or_else(|| {
            managed.entries_mut().push(Entry {
                manager: author.name().to_owned(),
                operation,
                api_version,
                subresource: self.subresource.to_owned(),
                time: None,
                fields: Arc::default(),
            });
            managed.entries().len() - 1
        });
        &mut managed.entries_mut()[at]
    }

    fn identity<'i>(&self, author: Author<'i>, operation: Operation, api_version: &'i str) -> Identity<'i>
    where
        'a: 'i,
    {
        Identity::new(author.name(), operation, api_version, self.subresource)
    }

    /// Merges, prunes, looks for conflicts, and books.
    fn applied(
        &self,
        live: &Value,
        config: &Value,
        mut managed: ManagedFields,
        author: Author<'_>,
        force: Force,
    ) -> Result<Applied, ApplyError> {
        self.check_types(live, config)?;
        self.adapt(live, &mut managed).map_err(ApplyError::Internal)?;
        let kind = Type::of_object(self.schema);
        let mut merged = live.clone();
        combine::combine(kind, &mut merged, config);
        forget_managed(&mut merged);
        let mut fields = owned::owned(kind, config);
        fields.subtract_deep(self.ignored);

        let entry = self.entry(&mut managed, author, Operation::Apply);
        let api_version = std::mem::replace(&mut entry.api_version, self.gvk.api_version());
        let fields = Arc::new(fields);
        let last = Last { fields: std::mem::replace(&mut entry.fields, Arc::clone(&fields)), api_version };
        let object = self.pruned(merged, &managed, &fields, &last).map_err(ApplyError::Internal)?;
        self.take_over(live, &object, &mut managed, author, force)?;
        let changed = !same_but_managed(live, &object);
        let entry = self.entry(&mut managed, author, Operation::Apply);
        entry.lose(&NEVER_OWNED);
        if changed {
            entry.time = Some(seconds(author.now));
        }
        managed.drop_empty();
        managed.sort();
        Ok(Applied { object, managed, changed })
    }

    /// Refuses what the real server cannot merge, in its words.
    fn check_types(&self, live: &Value, config: &Value) -> Result<(), ApplyError> {
        if config["metadata"]["managedFields"].is_array() {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        let kind = Type::of_object(self.schema);
        check::check(kind, config, Duplicates::Refused).map_err(|why| {
            ApplyError::Internal(format!("failed to create typed patch object ({}): {why}", self.called(config)))
        })?;
        check::check(kind, live, Duplicates::Allowed).map_err(|why| {
            ApplyError::Internal(format!("failed to create typed live object ({}): {why}", self.called(live)))
        })
    }

    /// An object in messages.
    fn called(&self, object: &Value) -> String {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        format!("{}/{}; {}", text("namespace"), text("name"), self.gvk)
    }

    /// Takes what changed from all other managers, by force or not at all.
    fn take_over(
        &self,
        live: &Value,
        object: &Value,
        managed: &mut ManagedFields,
        author: Author<'_>,
        force: Force,
    ) -> Result<(), ApplyError> {
        let me = self.identity(author, Operation::Apply, "");
        let mut comparisons = Comparisons::new(*self, live, object);
        let mut conflicts = Vec::new();
        let mut failed = None;
        managed.entries_mut().retain_mut(|entry| {
            if entry.identity() == me {
                return true;
            }
            let changes = match comparisons.at(&entry.api_version) {
                Ok(changes) => changes,
                Err(Missing::Version) => return false,
                Err(Missing::Conversion(why)) => {
                    failed = Some(why);
                    return true;
                }
            };
            let mut taken = entry.fields.intersection(&changes.modified);
            taken.unite(entry.fields.intersection(&changes.added));
            conflicts.extend(taken.elements().into_iter().map(|path| Conflict::new(&entry.identity(), path)));
            entry.lose(&taken);
            entry.lose(&changes.removed);
            true
        });
        if let Some(why) = failed {
            return Err(ApplyError::Internal(why));
        }
        if force == Force::Yes || conflicts.is_empty() {
            return Ok(());
        }
        Err(ApplyError::Conflict(Conflicts::sorted(conflicts)))
    }
}

impl<'a> Author<'a> {
    fn name(self) -> &'a str {
        if self.manager.is_empty() { UNKNOWN } else { self.manager }
    }
}

/// Times are kept as they are written.
fn seconds(time: Time) -> Time {
    Time::from_unix_seconds(time.unix_seconds())
}

fn forget_managed(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

/// Whether two objects are the same but for their managed fields.
fn same_but_managed(left: &Value, right: &Value) -> bool {
    let (Value::Object(left), Value::Object(right)) = (left, right) else { return same(left, right) };
    left.len() == right.len()
        && left.iter().all(|(name, value)| {
            right.get(name).is_some_and(|other| match (name.as_str(), value, other) {
                ("metadata", Value::Object(left), Value::Object(right)) => {
                    let size = |members: &Map<String, Value>| {
                        members.len() - usize::from(members.contains_key("managedFields"))
                    };
                    let member = |(name, value): (&String, &Value)| {
                        name == "managedFields" || right.get(name).is_some_and(|other| same(value, other))
                    };
                    size(left) == size(right) && left.iter().all(member)
                }
                _ => same(value, other),
            })
        })
}
