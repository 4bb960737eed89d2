//! Between trees and the bytes that are stored and sent.

use std::fmt;

use bytes::Bytes;
use concert_api::{Gvk, Status};
use concert_merge::ManagedFields;
use concert_schema::convert;
use concert_store::Draft;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::beside::{Layout, Stored, beginning};
use crate::incoming::{MANAGED, take_managed};
use crate::kinds::{Resource, Version};

/// Room for most objects; what is stored takes no more than it needs.
const USUAL: usize = 4096;

/// The bytes to be stored but for their revision, in the storage version: what that one's schema does not know goes.
pub(crate) fn draft(resource: &Resource, version: &Version, object: &Value) -> Draft {
    draft_with(resource, version, object, None)
}

/// The same of an object whose books are apart from it.
pub(crate) fn draft_with(
    resource: &Resource,
    version: &Version,
    object: &Value,
    books: Option<&ManagedFields>,
) -> Draft {
    let storage = resource.storage();
    if resource.is_custom() && !version.storage {
        let mut object = object.clone();
        // What has no room stays out, here and below.
        let _ = storage.schema.read(&mut object);
        let (bytes, at) = write(&object, &storage.gvk, storage.layout(), None, books);
        return Draft::new(bytes, at);
    }
    let converted = version.stored().map(|stored| {
        let mut object = object.clone();
        convert(&mut object, stored);
        object
    });
    let stored = version.stored().unwrap_or(&version.gvk);
    let (bytes, at) = write(converted.as_ref().unwrap_or(object), stored, version.layout(), None, books);
    Draft::new(bytes, at)
}

/// The bytes of an object as it goes out, with this resourceVersion.
pub(crate) fn finished(version: &Version, object: &Value, revision: &str) -> Bytes {
    write(object, &version.gvk, version.layout(), Some(revision), None).0.into()
}

/// The bytes of an object that would have been stored, and read again in this version.
pub(crate) fn tried(resource: &Resource, version: &Version, mut object: Value, revision: &str) -> Bytes {
    if resource.is_custom() && !version.storage {
        let storage = resource.storage();
        let _ = storage.schema.read(&mut object);
        version.schema.prune(&mut object);
    }
    finished(version, &object, revision)
}

/// Writes an object with apiVersion and kind first; gives the place of the resourceVersion too.
fn write(
    object: &Value,
    gvk: &Gvk,
    layout: Layout,
    revision: Option<&str>,
    books: Option<&ManagedFields>,
) -> (Vec<u8>, usize) {
    let empty = Map::new();
    let members = object.as_object().unwrap_or(&empty);
    let mut out = Vec::with_capacity(USUAL);
    out.extend_from_slice(beginning(gvk, layout).as_bytes());
    out.extend_from_slice(b"\"metadata\":");
    let metadata = members.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let at = write_metadata(&mut out, metadata, revision, books.filter(|books| !books.is_empty()));
    for (key, value) in members {
        if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
            out.push(b',');
            push_member(&mut out, key, value);
        }
    }
    out.push(b'}');
    (out, at)
}

/// Metadata in the order of its keys; the resourceVersion's place is where its key belongs. What is stored always has
/// a uid behind that place.
fn write_metadata(
    out: &mut Vec<u8>,
    metadata: &Map<String, Value>,
    revision: Option<&str>,
    mut books: Option<&ManagedFields>,
) -> usize {
    out.push(b'{');
    let mut at = None;
    let mut first = true;
    let mut comma = |out: &mut Vec<u8>| {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
    };
    for (key, value) in metadata {
        if key == "resourceVersion" {
            continue;
        }
        if key.as_str() > MANAGED
            && let Some(books) = books.take()
        {
            comma(out);
            push_books(out, books);
        }
        if at.is_none() && key.as_str() > "resourceVersion" {
            if let Some(revision) = revision.filter(|revision| !revision.is_empty()) {
                comma(out);
                push_member(out, "resourceVersion", &revision.into());
            }
            comma(out);
            at = Some(out.len());
        } else {
            comma(out);
        }
        push_member(out, key, value);
    }
    out.push(b'}');
    at.unwrap_or(out.len())
}

fn push_books(out: &mut Vec<u8>, books: &ManagedFields) {
    let mut text = format!("\"{MANAGED}\":");
    books.write_json(&mut text);
    out.extend_from_slice(text.as_bytes());
}

fn push_member(out: &mut Vec<u8>, key: &str, value: &Value) {
    // Writing JSON into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

/// A stored object as a tree in this version: what the present schema of the storage version makes of it, without what
/// this version does not know. Defaults are only the storage version's.
pub(crate) fn tree(resource: &Resource, version: &Version, entry: &Stored) -> Result<Value, Status> {
    let mut value: Value = serde_json::from_slice(&entry.bytes).map_err(Status::internal)?;
    if version.stored().is_some() {
        convert(&mut value, &version.gvk);
    } else if is_other(resource, version, entry) {
        value["apiVersion"] = version.gvk.api_version().into();
        let storage = resource.storage();
        let _ = storage.schema.read(&mut value);
        version.schema.prune(&mut value);
    }
    Ok(value)
}

/// A stored object as a tree in this version, without its `managedFields`, which are kept parsed beside it.
pub(crate) fn apart(resource: &Resource, version: &Version, entry: &Stored) -> Result<Value, Status> {
    if version.stored().is_some() || is_other(resource, version, entry) {
        let mut value = tree(resource, version, entry)?;
        take_managed(&mut value);
        return Ok(value);
    }
    let mut reader = serde_json::Deserializer::from_slice(&entry.bytes);
    Without { path: &["metadata", MANAGED] }.deserialize(&mut reader).map_err(Status::internal)
}

/// Reads a tree that lacks what is at a path.
#[derive(Clone, Copy)]
struct Without<'a> {
    path: &'a [&'a str],
}

impl<'de> DeserializeSeed<'de> for Without<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Without<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            match self.path {
                [last] if name == *last => {
                    members.next_value::<IgnoredAny>()?;
                }
                [first, rest @ ..] if name == *first => {
                    let value = members.next_value_seed(Without { path: rest })?;
                    map.insert(name, value);
                }
                _ => {
                    let value = members.next_value()?;
                    map.insert(name, value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

/// A stored object as bytes in this version: nearly always the stored bytes themselves.
pub(crate) fn served(resource: &Resource, version: &Version, entry: &Stored) -> Bytes {
    if !is_other(resource, version, entry) {
        return entry.bytes.clone();
    }
    match tree(resource, version, entry) {
        Ok(value) => finished(version, &value, &entry.revision.to_string()),
        Err(_) => entry.bytes.clone(),
    }
}

/// Whether it was written in another version, or under another schema of a custom resource.
pub(crate) fn is_other(resource: &Resource, version: &Version, entry: &Stored) -> bool {
    let written_as = entry.beside.object.as_ref().map(|object| object.api_version());
    let same_version = written_as.is_some_and(|written| written == version.gvk.api_version());
    !same_version || (resource.is_custom() && entry.revision < resource.since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_revision_finds_its_place() {
        let object = json!({
            "zeta": 1, "kind": "x", "metadata": {"name": "n", "uid": "u", "annotations": {"a": "b"}}, "alpha": {},
        });
        let gvk = Gvk::new("g", "v1", "File");
        let (bytes, at) = write(&object, &gvk, Layout::Map, None, None);
        assert_eq!(
            String::from_utf8(bytes.clone()).unwrap(),
            r#"{"apiVersion":"g/v1","kind":"File","metadata":{"annotations":{"a":"b"},"name":"n","uid":"u"},"alpha":{},"zeta":1}"#
        );
        assert!(bytes[at..].starts_with(b"\"uid\""));
        let (bytes, _) = write(&object, &gvk, Layout::Struct, Some("7"), None);
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with(r#"{"kind":"File","apiVersion":"g/v1","metadata":"#), "{text}");
        assert!(text.contains(r#""name":"n","resourceVersion":"7","uid":"u""#), "{text}");
    }

    #[test]
    fn books_that_are_apart_are_written_to_their_place() {
        let entry = json!([{
            "apiVersion": "g/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:\"a": {}}},
            "manager": "me", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:00:00Z",
        }]);
        let books = ManagedFields::parse(&entry).unwrap();
        let mut object = json!({"metadata": {"name": "n", "uid": "u", "annotations": {"a": "b"}}, "data": {}});
        let gvk = Gvk::new("g", "v1", "File");
        let apart = write(&object, &gvk, Layout::Map, Some("7"), Some(&books));
        books.write_to(&mut object);
        assert_eq!(apart, write(&object, &gvk, Layout::Map, Some("7"), None));
        let none = ManagedFields::default();
        assert_eq!(
            write(&json!({"metadata": {}}), &gvk, Layout::Map, None, Some(&none)),
            write(&json!({"metadata": {}}), &gvk, Layout::Map, None, None)
        );
    }
}
