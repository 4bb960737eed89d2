//! Removing what a manager applied before and does not apply any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Endpoint;
use super::owned::{own_named, owned};
use super::remove::remove;
use super::types::Type;
use super::versions::Missing;
use crate::fields::FieldSet;
use crate::managed::ManagedFields;

/// What a manager applied before.
pub(super) struct Last {
    pub(super) fields: Arc<FieldSet>,
    pub(super) api_version: String,
}

impl Endpoint<'_> {
    /// Removes from the merged object what its manager dropped, unless somebody else owns it. `managed` has the new set
    /// of the manager, `now`.
    pub(super) fn pruned(
        &self,
        merged: Value,
        managed: &ManagedFields,
        now: &FieldSet,
        last: &Last,
    ) -> Result<Value, String> {
        let own_version = self.gvk.api_version();
        if last.fields.is_empty() {
            return Ok(merged);
        }
        // Who still applies all it applied loses nothing: by far the most common case. In another version it could turn
        // out that nothing can be converted. Of an item that is applied as nothing but the default of its key nobody owns
        // that key: it does go, as in the real server.
        let only_version = managed.entries().iter().all(|entry| entry.api_version == own_version);
        let is_kept = only_version && last.api_version == own_version && last.fields.is_within(now);
        if is_kept && !now.has_bare_items() {
            return Ok(merged);
        }
        let (kind, converted) = match self.moved(&merged, &own_version, &last.api_version) {
            Ok(moved) => moved,
            Err(Missing::Version) => return Ok(merged),
            Err(Missing::Conversion(why)) => {
                let what = "failed to prune fields: failed to convert merged object to last applied version";
                return Err(format!("{what}: {why}"));
            }
        };
        let merged = converted;
        let last_fields = named((*last.fields).clone(), kind);
        let mut pruned = merged.clone();
        remove(kind, &mut pruned, &last_fields);
        let pruned = self
            .with_owned(&merged, pruned, managed, &last.api_version)
            .map_err(|why| format!("failed to prune fields: failed add back {why}"))?;

        // What nobody owned, or only others did, is not the manager's to remove.
        let mut lost = named(owned(kind, &merged), kind);
        lost.subtract(&named(owned(kind, &pruned), kind));
        let mut result = merged;
        remove(kind, &mut result, &lost.intersection(&last_fields));
        match self.moved(&result, &last.api_version, &own_version) {
            Ok((_, result)) => Ok(result),
            Err(Missing::Version) => Ok(result),
            Err(Missing::Conversion(why)) => Err(format!("failed to prune fields: {why}")),
        }
    }

    /// Adds back what somebody owns, in the version that was pruned first, then in all others.
    fn with_owned(
        &self,
        merged: &Value,
        pruned: Value,
        managed: &ManagedFields,
        api_version: &str,
    ) -> Result<Value, String> {
        let mut by_version: BTreeMap<&str, Vec<FieldSet>> = BTreeMap::new();
        for entry in managed.entries() {
            by_version.entry(&entry.api_version).or_default().push((*entry.fields).clone());
        }
        let first = by_version.remove(api_version).map(|fields| (api_version, fields));
        let (mut at, mut merged, mut pruned) = (api_version.to_owned(), merged.clone(), pruned);
        for (version, fields) in first.into_iter().chain(by_version) {
            let both = self.moved(&merged, &at, version).map_err(|why| why.of("merged", version));
            let both = both.and_then(|(kind, merged)| {
                let (_, pruned) = self.moved(&pruned, &at, version).map_err(|why| why.of("pruned", version))?;
                Ok((kind, merged, pruned))
            });
            match both {
                Ok((kind, converted, less)) => {
                    pruned = add_back(kind, &converted, &less, FieldSet::union_of(fields));
                    merged = converted;
                    version.clone_into(&mut at);
                }
                Err(Missing::Version) => {}
                Err(Missing::Conversion(why)) => return Err(format!("owned items: {why}")),
            }
        }
        match self.moved(&pruned, &at, api_version) {
            Ok((_, pruned)) => Ok(pruned),
            Err(Missing::Version) => Ok(merged),
            Err(Missing::Conversion(why)) => {
                Err(format!("dangling items: failed to convert pruned object to last applied version: {why}"))
            }
        }
    }

    /// An object from one version to another, with its type there.
    fn moved(&self, object: &Value, from: &str, to: &str) -> Result<(Type<'_>, Value), Missing> {
        let kind = self.kind_at(to)?;
        let object = if from == to { object.clone() } else { self.converted(object, to)? };
        Ok((kind, object))
    }
}

/// The merged object without what is neither in the pruned one nor owned.
fn add_back(kind: Type<'_>, merged: &Value, pruned: &Value, fields: FieldSet) -> Value {
    let mut lost = named(owned(kind, merged), kind);
    lost.subtract(&named(owned(kind, pruned), kind));
    lost.subtract(&named(fields, kind));
    let mut result = merged.clone();
    remove(kind, &mut result, &lost);
    result
}

fn named(mut fields: FieldSet, kind: Type<'_>) -> FieldSet {
    own_named(&mut fields, kind);
    fields
}
