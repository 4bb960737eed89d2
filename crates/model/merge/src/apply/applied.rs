//! Merging a configuration: what the real server does between the wish and the result.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::books::{NEVER_OWNED, seconds};
use super::check::{self, Duplicates};
use super::combine::combine;
use super::compare::same;
use super::owned::owned;
use super::prune::Last;
use super::types::Type;
use super::versions::{Comparisons, Missing};
use super::{Applied, Author, Endpoint, Force};
use crate::conflict::{ApplyError, Conflict, Conflicts};
use crate::managed::{ManagedFields, Operation};

impl Endpoint<'_> {
    /// Merges, prunes, looks for conflicts, and books.
    pub(super) fn applied(
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
        combine(kind, &mut merged, config);
        forget_managed(&mut merged);
        let mut fields = owned(kind, config);
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
    pub(super) fn called(&self, object: &Value) -> String {
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
            entry.lose(&taken);
            if !taken.is_empty() {
                conflicts.push(Conflict::new(&entry.identity(), taken));
            }
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
