//! Managed fields as an object has them.

use serde_json::{Map, Value};

use super::{Entry, ManagedFields};
use crate::go;

impl ManagedFields {
    /// As `metadata.managedFields`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.entries.iter().map(entry).collect()
    }

    /// The JSON of [`ManagedFields::to_value`], without a tree; items of lists come in the order of their keys.
    pub fn write_json(&self, out: &mut String) {
        for (place, entry) in self.entries.iter().enumerate() {
            out.push(if place == 0 { '[' } else { ',' });
            write_entry(entry, out);
        }
        out.push_str(if self.entries.is_empty() { "[]" } else { "]" });
    }

    /// Writes them into the metadata of an object, in place of what is there; nothing is written where nobody owns
    /// anything.
    pub fn write_to(&self, object: &mut Value) {
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
        if self.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), self.to_value());
        }
    }
}

fn write_entry(entry: &Entry, out: &mut String) {
    let mut end = "{";
    let time = entry.time.map(|time| time.to_string()).unwrap_or_default();
    let before = [("apiVersion", entry.api_version.as_str()), ("fieldsType", "FieldsV1")];
    let after = [
        ("manager", entry.manager.as_str()),
        ("operation", entry.operation.word()),
        ("subresource", &entry.subresource),
        ("time", &time),
    ];
    let mut member = |name: &str, out: &mut String| {
        out.push_str(std::mem::replace(&mut end, ","));
        go::json_text(name, out);
        out.push(':');
    };
    for (name, text) in before.into_iter().filter(|(_, text)| !text.is_empty()) {
        member(name, out);
        go::json_text(text, out);
    }
    member("fieldsV1", out);
    entry.fields.write_json(out);
    for (name, text) in after.into_iter().filter(|(_, text)| !text.is_empty()) {
        member(name, out);
        go::json_text(text, out);
    }
    out.push('}');
}

fn entry(entry: &Entry) -> Value {
    let mut members = Map::new();
    let time = entry.time.map(|time| time.to_string()).unwrap_or_default();
    let texts = [
        ("manager", entry.manager.as_str()),
        ("operation", entry.operation.word()),
        ("apiVersion", &entry.api_version),
        ("time", &time),
        ("fieldsType", "FieldsV1"),
        ("subresource", &entry.subresource),
    ];
    for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        members.insert(name.to_owned(), text.into());
    }
    members.insert("fieldsV1".to_owned(), entry.fields.to_value());
    Value::Object(members)
}
