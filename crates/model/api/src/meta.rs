//! `metadata` of an object that is being changed, as helpers on its JSON tree.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's apiVersion.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is the managing controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether it waits for this object when it is deleted in the foreground.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// Whether the owner is the managing controller.
    #[must_use]
    pub fn is_controller(&self) -> bool {
        self.controller == Some(true)
    }

    /// The owner's group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// A text field of `metadata`; empty if absent or not a string.
#[must_use]
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// `metadata`, made if it is not there.
///
/// # Panics
/// If the object is not a JSON object.
pub fn of(object: &mut Value) -> &mut Map<String, Value> {
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("it was just made an object")
}

/// Sets a field of `metadata`; an empty text removes it.
pub fn set_text(object: &mut Value, field: &str, text: impl Into<String>) {
    let text = text.into();
    if text.is_empty() {
        of(object).remove(field);
    } else {
        of(object).insert(field.to_owned(), text.into());
    }
}

/// An annotation.
#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// Sets an annotation.
pub fn set_annotation(object: &mut Value, key: &str, value: impl Into<String>) {
    let annotations = of(object).entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[key] = value.into().into();
}

/// The finalizers.
#[must_use]
pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Whether the object is being deleted.
#[must_use]
pub fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The generation; 0 if absent.
#[must_use]
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metadata_is_made_where_it_is_missing_or_malformed() {
        for mut object in [json!({}), json!({"metadata": 3}), json!({"metadata": {"annotations": 4}})] {
            set_annotation(&mut object, "a", "b");
            set_text(&mut object, "name", "n");
            assert_eq!((annotation(&object, "a"), text(&object, "name")), (Some("b"), "n"));
            set_text(&mut object, "name", "");
            assert_eq!(object["metadata"].get("name"), None);
        }
    }
}
