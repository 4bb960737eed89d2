//! Managed fields as an object has them.

use serde_json::{Map, Value};

use super::{Entry, ManagedFields};

impl ManagedFields {
    /// As `metadata.managedFields`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.entries.iter().map(entry).collect()
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
