//! Walking the schemas of a definition as it was written.

use serde_json::{Map, Value};

use super::{list, text};
use crate::schema::is_known_format;

/// Fields that go when they are empty, as they do in the real server's structs.
const OF_SCHEMAS: [&str; 24] = [
    "id",
    "$schema",
    "description",
    "type",
    "format",
    "title",
    "pattern",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "uniqueItems",
    "nullable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "enum",
    "required",
    "allOf",
    "anyOf",
    "oneOf",
    "properties",
    "patternProperties",
    "definitions",
    "dependencies",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
];
const OF_RULES: [&str; 3] = ["message", "messageExpression", "fieldPath"];
const OF_VERSIONS: [&str; 3] = ["deprecated", "additionalPrinterColumns", "selectableFields"];
const OF_COLUMNS: [&str; 3] = ["description", "format", "priority"];

/// Drops what is empty from a version of a definition.
pub(super) fn version(version: &mut Map<String, Value>) {
    drop_empty(version, &OF_VERSIONS);
    let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
        drop_empty(column, &OF_COLUMNS);
    }
    if let Some(schema) = version.get_mut("schema").and_then(|schema| schema.get_mut("openAPIV3Schema")) {
        visit(schema, &mut |node| {
            drop_empty(node, &OF_SCHEMAS);
            let rules = node.get_mut("x-kubernetes-validations").and_then(Value::as_array_mut);
            rules.into_iter().flatten().filter_map(Value::as_object_mut).for_each(|rule| drop_empty(rule, &OF_RULES));
        });
    }
}

fn drop_empty(members: &mut Map<String, Value>, names: &[&str]) {
    members.retain(|name, value| {
        let empty = match value {
            Value::Null | Value::Bool(false) => true,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Bool(true) => false,
        };
        !(empty && names.contains(&name.as_str()))
    });
}

/// Visits every node of a schema, parents first.
fn visit(schema: &mut Value, each: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Some(node) = schema.as_object_mut() else { return };
    each(node);
    for (name, value) in node {
        match name.as_str() {
            "properties" | "patternProperties" | "definitions" => {
                value.as_object_mut().into_iter().flatten().for_each(|(_, schema)| visit(schema, each));
            }
            "allOf" | "anyOf" | "oneOf" => {
                value.as_array_mut().into_iter().flatten().for_each(|schema| visit(schema, each));
            }
            "items" | "not" | "additionalProperties" | "additionalItems" => visit(value, each),
            _ => {}
        }
    }
}

/// The formats in the schemas of a definition that the real server does not know for their types, each once.
#[must_use]
pub fn unrecognized_formats(definition: &Value) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for version in list(&definition["spec"]["versions"]) {
        visit(&mut version["schema"]["openAPIV3Schema"].clone(), &mut |node| {
            let said = |name: &str| node.get(name).map(text).unwrap_or_default();
            let (kind, format) = (said("type"), said("format"));
            let known = match kind.as_str() {
                "string" => is_known_format(&format),
                "integer" => matches!(format.as_str(), "int32" | "int64"),
                "number" => matches!(format.as_str(), "float" | "double"),
                _ => false,
            };
            if !format.is_empty() && !known && !found.contains(&format) {
                found.push(format);
            }
        });
    }
    found
}
