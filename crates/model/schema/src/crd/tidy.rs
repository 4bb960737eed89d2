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

/// Drops what is empty from a definition, but for its versions.
pub(super) fn definition(definition: &mut Value) {
    let spec = definition.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(spec) = spec {
        drop_empty(spec, &["preserveUnknownFields"]);
        // A conversion that asks nobody has nobody to ask.
        let conversion = spec.get_mut("conversion").and_then(Value::as_object_mut);
        if let Some(conversion) = conversion.filter(|conversion| conversion["strategy"] != "Webhook") {
            drop_empty(conversion, &["webhook"]);
        }
    }
}

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

/// What a client is warned of in the schemas of a definition, each once: formats that the real server does not know for
/// their types, and sets of what is not scalar.
#[must_use]
pub fn definition_warnings(definition: &Value) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for warning in [format_warning, set_warning] {
        for version in list(&definition["spec"]["versions"]) {
            visit(&mut version["schema"]["openAPIV3Schema"].clone(), &mut |node| {
                found.extend(warning(node).filter(|warning| !found.contains(warning)));
            });
        }
    }
    found
}

fn said(node: &Map<String, Value>, name: &str) -> String {
    node.get(name).map(text).unwrap_or_default()
}

fn format_warning(node: &Map<String, Value>) -> Option<String> {
    let (kind, format) = (said(node, "type"), said(node, "format"));
    let known = match kind.as_str() {
        "string" => is_known_format(&format),
        "integer" => matches!(format.as_str(), "int32" | "int64"),
        "number" => matches!(format.as_str(), "float" | "double"),
        _ => false,
    };
    (!format.is_empty() && !known).then(|| format!("unrecognized format {format:?}"))
}

fn set_warning(node: &Map<String, Value>) -> Option<String> {
    let kind = node.get("items").map(|items| text(&items["type"])).unwrap_or_default();
    (said(node, "x-kubernetes-list-type") == "set" && matches!(kind.as_str(), "array" | "object")).then(|| {
        format!("x-kubernetes-list-type: set for items of type {kind:?} is not supported by server-side apply or CEL validation rules")
    })
}
