//! Managed fields from an object.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use concert_api::{Time, quoted};
use serde_json::{Map, Value};

use super::{Entry, ManagedFields, Operation};
use crate::FieldSet;

/// Something in `managedFields` cannot be understood; in the words of the real server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFieldsError(String);

impl fmt::Display for ManagedFieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ManagedFieldsError {}

/// What a client says about managed fields by what it sends.
pub(crate) enum Sent {
    /// Nothing, or nothing sensible: those of the live object stay.
    Nothing,
    /// It wants nobody to own anything: an empty list, or one empty entry.
    Reset,
    /// Exactly these.
    Managed(ManagedFields),
}

impl ManagedFields {
    /// Reads `metadata.managedFields`; null is an empty list. Of entries for the same manager the last one counts.
    ///
    /// # Errors
    /// An entry is not one, in the words of the real server.
    pub fn parse(managed_fields: &Value) -> Result<Self, ManagedFieldsError> {
        let entries = match managed_fields {
            Value::Null => return Ok(Self::default()),
            Value::Array(entries) => entries,
            _ => return Err(ManagedFieldsError("managedFields is not a list".to_owned())),
        };
        let mut managed = Self { entries: Vec::with_capacity(entries.len()) };
        for (index, entry) in entries.iter().enumerate() {
            managed.entries.push(read(index, entry)?);
        }
        managed.drop_repeated();
        managed.sort();
        Ok(managed)
    }

    /// These as they are read when they are worked on again. The write of a scale may leave two entries of one manager.
    pub(crate) fn reread(&self) -> Self {
        let mut managed = self.clone();
        managed.drop_repeated();
        managed
    }

    /// Keeps the last entry of each manager.
    fn drop_repeated(&mut self) {
        let mut seen = HashSet::with_capacity(self.entries.len());
        let mut keep: Vec<bool> = self.entries.iter().rev().map(|entry| seen.insert(entry.identity())).collect();
        self.entries.retain(|_| keep.pop().unwrap_or(true));
    }

    /// Reads the managed fields of an object.
    ///
    /// # Errors
    /// As [`ManagedFields::parse`].
    pub fn of(object: &Value) -> Result<Self, ManagedFieldsError> {
        Self::parse(&object["metadata"]["managedFields"])
    }
}

impl Sent {
    /// Takes the managed fields out of what a client sent.
    pub(crate) fn take(object: &mut Value) -> Self {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        match metadata.and_then(|metadata| metadata.remove("managedFields")) {
            Some(Value::Array(entries)) if entries.is_empty() => Self::Reset,
            Some(Value::Array(entries)) if entries.len() == 1 && entries.iter().all(is_blank) => Self::Reset,
            Some(sent) => match ManagedFields::parse(&sent) {
                Ok(managed) if !managed.is_empty() => Self::Managed(managed),
                Ok(_) | Err(_) => Self::Nothing,
            },
            None => Self::Nothing,
        }
    }
}

/// Whether nothing is said in an entry.
fn is_blank(entry: &Value) -> bool {
    let silent = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
    entry.is_null() || entry.as_object().is_some_and(|members| members.values().all(silent))
}

fn read(index: usize, entry: &Value) -> Result<Entry, ManagedFieldsError> {
    let wrong = |what: String| Err(ManagedFieldsError(what));
    let Value::Object(members) = entry else { return wrong(format!("managed fields entry {index} is not an object")) };
    let operation = match text(members, "operation")? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return wrong("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text(members, "apiVersion")?;
    if api_version.is_empty() {
        return wrong("apiVersion must not be empty".to_owned());
    }
    match text(members, "fieldsType")? {
        "FieldsV1" => {}
        "" => return wrong(format!("missing fieldsType in managed fields entry {index}")),
        other => return wrong(format!("invalid fieldsType {} in managed fields entry {index}", quoted(other))),
    }
    let time = match text(members, "time")? {
        "" => None,
        time => match time.parse::<Time>() {
            Ok(time) => Some(Time::from_unix_seconds(time.unix_seconds())),
            Err(error) => return wrong(error.to_string()),
        },
    };
    let fields = match members.get("fieldsV1") {
        None | Some(Value::Null) => FieldSet::default(),
        Some(fields) => match FieldSet::parse(fields) {
            Ok(fields) => fields,
            Err(error) => return wrong(format!("error decoding set: {error}")),
        },
    };
    let owned = |name| text(members, name).map(str::to_owned);
    let (manager, subresource) = (owned("manager")?, owned("subresource")?);
    Ok(Entry { manager, operation, api_version: api_version.to_owned(), subresource, time, fields: Arc::new(fields) })
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Result<&'a str, ManagedFieldsError> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(ManagedFieldsError(format!("{name} must be a string"))),
    }
}
