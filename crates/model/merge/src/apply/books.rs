//! Booking who changed what.

use std::sync::{Arc, LazyLock};

use concert_api::Time;
use serde_json::Value;

use super::check::{self, Duplicates};
use super::compare::Comparison;
use super::types::Type;
use super::versions::{Comparisons, Missing};
use super::{Author, Endpoint};
use crate::fields::FieldSet;
use crate::managed::{Entry, Identity, ManagedFields, Operation};

/// What nobody owns: the server's own, and what identifies the object.
pub(super) static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
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

impl<'a> Endpoint<'a> {
    /// Books what differs between two objects.
    pub(super) fn booked(
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
    pub(super) fn entry<'m>(
        &self,
        managed: &'m mut ManagedFields,
        author: Author<'_>,
        operation: Operation,
    ) -> &'m mut Entry {
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

    pub(super) fn identity<'i>(&self, author: Author<'i>, operation: Operation, api_version: &'i str) -> Identity<'i>
    where
        'a: 'i,
    {
        Identity::new(author.name(), operation, api_version, self.subresource)
    }
}

/// Times are kept as they are written.
pub(super) fn seconds(time: Time) -> Time {
    Time::from_unix_seconds(time.unix_seconds())
}
