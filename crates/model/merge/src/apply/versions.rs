//! Several versions of one kind: managers own fields by the names of the version they write in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use concert_schema::Schema;
use serde_json::Value;

use super::Endpoint;
use super::check::{self, Duplicates};
use super::compare::{Comparison, compare};
use super::owned;
use super::types::Type;
use crate::fields::FieldSet;
use crate::managed::ManagedFields;

/// The other versions of a kind than that of the request.
pub trait Versions {
    /// The schema of a version (an `apiVersion`); `None` if the kind does not have it, or not any more.
    fn schema(&self, api_version: &str) -> Option<&Schema>;

    /// Why nothing can be converted to a version that the kind does not have; `None` if who wrote in it is forgotten.
    fn refused(&self, _api_version: &str) -> Option<String> {
        None
    }

    /// What managers of that version never own; as [`Endpoint::ignored`] for that of the request.
    fn ignored(&self, _api_version: &str) -> Option<&FieldSet> {
        None
    }

    /// An object in another version.
    ///
    /// # Errors
    /// Says why it cannot be converted.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;
}

/// A kind that has no other version.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleVersion;

impl Versions for SingleVersion {
    fn schema(&self, _api_version: &str) -> Option<&Schema> {
        None
    }

    fn convert(&self, _object: &Value, api_version: &str) -> Result<Value, String> {
        Err(format!("no such version: {api_version}"))
    }
}

/// Why an object cannot be had in a version.
pub(super) enum Missing {
    /// There is no such version: who wrote in it is forgotten.
    Version,
    /// It cannot be converted.
    Conversion(String),
}

impl Missing {
    /// What could not be converted to a version while fields were pruned.
    pub(super) fn of(self, object: &str, api_version: &str) -> Self {
        self.because(&format!("failed to convert {object} object at version {api_version}"))
    }

    fn because(self, what: &str) -> Self {
        match self {
            Self::Version => Self::Version,
            Self::Conversion(why) => Self::Conversion(format!("{what}: {why}")),
        }
    }
}

impl<'a> Endpoint<'a> {
    /// The type of objects in a version.
    pub(super) fn kind_at(&self, api_version: &str) -> Result<Type<'a>, Missing> {
        if api_version == self.gvk.api_version() {
            return Ok(Type::of_object(self.schema));
        }
        let schema = self.versions.schema(api_version).ok_or_else(|| self.missing(api_version))?;
        Ok(Type::of_object(schema))
    }

    fn missing(&self, api_version: &str) -> Missing {
        if api_version.matches('/').count() > 1 {
            return Missing::Conversion(format!("unexpected GroupVersion string: {api_version}"));
        }
        self.versions.refused(api_version).map_or(Missing::Version, Missing::Conversion)
    }

    /// An object in another version, checked.
    pub(super) fn converted(&self, object: &Value, api_version: &str) -> Result<Value, Missing> {
        let kind = self.kind_at(api_version)?;
        let object = self.versions.convert(object, api_version).map_err(Missing::Conversion)?;
        check::check(kind, &object, Duplicates::Refused).map_err(Missing::Conversion)?;
        Ok(object)
    }

    /// Adapts what is booked to the schemas as they are now, and forgets who wrote in versions that are gone.
    pub(super) fn adapt(&self, live: &Value, managed: &mut ManagedFields) -> Result<(), String> {
        let mut tried = BTreeSet::from([self.gvk.api_version()]);
        let mut failed = None;
        managed.entries_mut().retain_mut(|entry| {
            let kind = match self.kind_at(&entry.api_version) {
                Ok(kind) => kind,
                Err(Missing::Version) => return false,
                Err(Missing::Conversion(why)) => {
                    failed = Some(why);
                    return true;
                }
            };
            // Once for a version, not for each of its managers.
            if !tried.contains(&entry.api_version) {
                tried.insert(entry.api_version.clone());
                if let Err(Missing::Conversion(why)) = self.converted(live, &entry.api_version) {
                    failed = Some(why);
                }
            }
            if owned::needs_adapting(&entry.fields, kind) {
                owned::adapt(Arc::make_mut(&mut entry.fields), kind);
            }
            true
        });
        failed.map_or(Ok(()), Err)
    }
}

/// How two objects differ, in every version that somebody asks for.
pub(super) struct Comparisons<'a> {
    endpoint: Endpoint<'a>,
    old: &'a Value,
    new: &'a Value,
    own_version: String,
    own: Comparison,
    others: BTreeMap<String, Comparison>,
}

impl<'a> Comparisons<'a> {
    pub(super) fn new(endpoint: Endpoint<'a>, old: &'a Value, new: &'a Value) -> Self {
        let mut own = compare(Type::of_object(endpoint.schema), old, new);
        own.ignore(endpoint.ignored);
        let own_version = endpoint.gvk.api_version();
        Self { endpoint, old, new, own_version, own, others: BTreeMap::new() }
    }

    /// In one version.
    pub(super) fn at(&mut self, api_version: &str) -> Result<&Comparison, Missing> {
        if api_version == self.own_version {
            return Ok(&self.own);
        }
        if !self.others.contains_key(api_version) {
            let kind = self.endpoint.kind_at(api_version)?;
            let converted = |object, which: &str| {
                let converted = self.endpoint.converted(object, api_version);
                converted.map_err(|why| why.because(&format!("failed to convert {which} object")))
            };
            let (old, new) = (converted(self.old, "old")?, converted(self.new, "new")?);
            let mut comparison = compare(kind, &old, &new);
            if let Some(ignored) = self.endpoint.versions.ignored(api_version) {
                comparison.ignore(ignored);
            }
            self.others.insert(api_version.to_owned(), comparison);
        }
        self.others.get(api_version).ok_or(Missing::Version)
    }

    /// In the version of the request.
    pub(super) fn into_own(self) -> Comparison {
        self.own
    }
}
