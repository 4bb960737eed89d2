//! `metadata.managedFields`: who owns which fields, and since when.

mod cap;
mod read;
mod scale;
mod write;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use concert_api::Time;

use crate::FieldSet;
pub use read::ManagedFieldsError;
pub(crate) use read::Sent;
pub use scale::ReplicasPath;

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By anything else.
    Update,
}

impl Operation {
    /// Its word in `managedFields`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One manager and what it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// In which version it wrote: that of the field names.
    pub api_version: String,
    /// Through which subresource it writes; empty for the object itself.
    pub subresource: String,
    /// When what it owns last changed.
    pub time: Option<Time>,
    /// What it owns; shared, because most writes leave most of it alone.
    pub fields: Arc<FieldSet>,
}

/// Who a manager is. One who applies is the same in every version; one who updates is not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: Operation,
    /// Empty for one who applies.
    pub(crate) api_version: &'a str,
    pub(crate) subresource: &'a str,
}

impl<'a> Identity<'a> {
    pub(crate) fn new(manager: &'a str, operation: Operation, api_version: &'a str, subresource: &'a str) -> Self {
        let api_version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Self { manager, operation, api_version, subresource }
    }

    /// The text that the real server sorts managers by.
    pub(crate) fn key(&self) -> String {
        let members = [
            ("manager", self.manager),
            ("operation", self.operation.word()),
            ("apiVersion", self.api_version),
            ("subresource", self.subresource),
        ];
        let mut key = String::from("{");
        for (name, text) in members.into_iter().filter(|(_, text)| !text.is_empty()) {
            if key.len() > 1 {
                key.push(',');
            }
            key.push('"');
            key.push_str(name);
            key.push_str("\":");
            crate::go::json_text(text, &mut key);
        }
        key.push('}');
        key
    }
}

/// As in messages about conflicts: `"kubectl-edit" with subresource "status" using v1`.
impl fmt::Display for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&concert_api::quoted(self.manager))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", concert_api::quoted(self.subresource))?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

impl Entry {
    /// Takes fields from it.
    pub(crate) fn lose(&mut self, fields: &FieldSet) {
        if self.fields.meets(fields) {
            Arc::make_mut(&mut self.fields).subtract(fields);
        }
    }

    pub(crate) fn identity(&self) -> Identity<'_> {
        Identity::new(&self.manager, self.operation, &self.api_version, &self.subresource)
    }

    /// What entries are sorted by.
    fn order(&self) -> (Operation, i64, &str, &str, &str) {
        let seconds = self.time.map_or(0, Time::unix_seconds);
        (self.operation, seconds, &self.manager, &self.api_version, &self.subresource)
    }
}

/// The parsed `metadata.managedFields` of an object; made to be kept beside it.
///
/// ```
/// use concert_merge::ManagedFields;
/// use serde_json::json;
///
/// let managed = ManagedFields::parse(&json!([{
///     "manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z",
///     "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}},
/// }]))?;
/// assert_eq!(managed.entries()[0].fields.paths(), [".data.a"]);
/// # Ok::<(), concert_merge::ManagedFieldsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedFields {
    entries: Vec<Entry>,
}

impl ManagedFields {
    /// The managers: those that apply first, then by time, name, version and subresource.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What a manager has applied, through the object itself or a subresource, and still owns.
    #[must_use]
    pub fn applied_by(&self, manager: &str, subresource: &str) -> Option<&FieldSet> {
        let is_its = |entry: &&Entry| {
            entry.operation == Operation::Apply && entry.manager == manager && entry.subresource == subresource
        };
        self.entries.iter().find(is_its).map(|entry| &*entry.fields)
    }

    /// Whether nobody owns anything, or nobody keeps books.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes over the times of `old`, if nothing but times differs; says whether it was so. Together with an unchanged
    /// object that is a write that changes nothing.
    pub fn keep_times(&mut self, old: &Self) -> bool {
        let same = self.entries.len() == old.entries.len()
            && self.entries.iter().zip(&old.entries).all(|(new, old)| {
                new.identity() == old.identity() && new.api_version == old.api_version && new.fields == old.fields
            });
        if same {
            self.entries.clone_from(&old.entries);
        }
        same
    }

    /// Has the sets of `old` where they are the same: they are kept as long as somebody may ask for an old version.
    pub(crate) fn share(&mut self, old: &Self) {
        let known: HashMap<Identity<'_>, &Arc<FieldSet>> =
            old.entries.iter().map(|entry| (entry.identity(), &entry.fields)).collect();
        for entry in &mut self.entries {
            let same = known.get(&entry.identity()).filter(|fields| ***fields == entry.fields);
            if let Some(same) = same.map(|fields| Arc::clone(fields)) {
                entry.fields = same;
            }
        }
    }

    pub(crate) fn entries_mut(&mut self) -> &mut Vec<Entry> {
        &mut self.entries
    }

    pub(crate) fn position(&self, identity: &Identity<'_>) -> Option<usize> {
        self.entries.iter().position(|entry| entry.identity() == *identity)
    }

    /// Drops who owns nothing.
    pub(crate) fn drop_empty(&mut self) {
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    pub(crate) fn sort(&mut self) {
        self.entries.sort_by(|left, right| left.order().cmp(&right.order()));
    }
}
