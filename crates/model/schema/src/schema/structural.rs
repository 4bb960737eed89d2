//! The rules a schema of a custom resource must keep, in the words of the real server.

#[cfg(test)]
mod tests;

use concert_api::{Fault, FieldError, FieldErrors};
use concert_cel::Pattern;
use serde_json::Value;

use super::{Kind, Schema, decode, rules, validate, walk};

/// Where a node stands; it decides what its missing type is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
}

/// Checks a whole schema.
pub(super) fn check(source: &Value, path: &str) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::new();
    if !source["additionalProperties"].is_null() {
        let field = format!("{path}.additionalProperties");
        errors.push(FieldError::forbidden(field, "must not be used at the root"));
    }
    check_node(source, path, Place::Root, &mut errors);
    check_root(source, path, &mut errors);
    if errors.is_empty() && names_a_schema(source) {
        errors.push(FieldError::invalid(path, "", "OpenAPIV3Schema 'schema' is not supported"));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Whether `$schema` stands anywhere in a schema.
fn names_a_schema(source: &Value) -> bool {
    source["$schema"].as_str().is_some_and(|text| !text.is_empty())
        || children(source, "").into_iter().any(|(_, child, _)| names_a_schema(child))
        || alternatives(source, "").into_iter().any(|(child, _)| names_a_schema(child))
}

fn check_node(source: &Value, path: &str, place: Place, errors: &mut FieldErrors) {
    check_type(source, path, place, errors);
    check_unsupported(source, path, errors);
    check_pattern(source, path, errors);
    check_extensions(source, path, errors);
    check_list(source, path, errors);
    for (place, child, child_path) in children(source, path) {
        check_node(child, &child_path, place, errors);
    }
    for (nested, nested_path) in alternatives(source, path) {
        check_nested(nested, &nested_path, is_int_or_string(source, &nested_path, path), errors);
    }
}

/// The properties, other members and items of a node, with their paths.
fn children<'a>(source: &'a Value, path: &str) -> Vec<(Place, &'a Value, String)> {
    let mut children = Vec::new();
    for (name, child) in source["properties"].as_object().into_iter().flatten() {
        children.push((Place::Field, child, format!("{path}.properties[{name}]")));
    }
    if source["additionalProperties"].is_object() {
        children.push((Place::Field, &source["additionalProperties"], format!("{path}.additionalProperties")));
    }
    if source["items"].is_object() {
        children.push((Place::Item, &source["items"], format!("{path}.items")));
    }
    children
}

/// The schemas inside `allOf`, `anyOf`, `oneOf` and `not`, with their paths.
fn alternatives<'a>(source: &'a Value, path: &str) -> Vec<(&'a Value, String)> {
    let mut alternatives = Vec::new();
    for word in ["allOf", "anyOf", "oneOf"] {
        for (index, child) in source[word].as_array().into_iter().flatten().enumerate() {
            alternatives.push((child, format!("{path}.{word}[{index}]")));
        }
    }
    if source["not"].is_object() {
        alternatives.push((&source["not"], format!("{path}.not")));
    }
    alternatives
}

fn check_type(source: &Value, path: &str, place: Place, errors: &mut FieldErrors) {
    let field = format!("{path}.type");
    let kind = source["type"].as_str().unwrap_or_default();
    if kind.is_empty() {
        let excused = place != Place::Root
            && (source["x-kubernetes-int-or-string"] == true
                || source["x-kubernetes-embedded-resource"] == true
                || source["x-kubernetes-preserve-unknown-fields"].is_boolean());
        let what = match place {
            Place::Root => "at the root",
            Place::Field => "for specified object fields",
            Place::Item => "for specified array items",
        };
        if !excused && source.get("$ref").is_none() {
            errors.push(FieldError::required(field, format!("must not be empty {what}")));
        }
        return;
    }
    if Kind::parse(kind).is_none() {
        let all = ["array", "boolean", "integer", "number", "object", "string"].map(str::to_owned);
        errors.push(FieldError::new(&field, Fault::NotSupported(kind.into(), all.into()), ""));
        if kind == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            errors.push(FieldError::forbidden(field, detail));
        }
        return;
    }
    if place == Place::Root && kind != "object" {
        errors.push(FieldError::invalid(field, kind, "must be object at the root"));
    }
    if kind == "array" && source["items"].is_null() {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
}

fn check_unsupported(source: &Value, path: &str, errors: &mut FieldErrors) {
    let mut forbid = |name: &str, detail: &str| errors.push(FieldError::forbidden(format!("{path}.{name}"), detail));
    for name in ["$ref", "id", "additionalItems", "patternProperties", "definitions", "dependencies"] {
        let empty = match &source[name] {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        if !empty {
            forbid(name, &format!("{name} is not supported"));
        }
    }
    if source["uniqueItems"] == true {
        forbid("uniqueItems", "uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    if source["items"].is_array() {
        forbid("items", "items must be a schema object and not an array");
    }
    let has_properties = source["properties"].as_object().is_some_and(|members| !members.is_empty());
    if has_properties && source["additionalProperties"].is_object() {
        forbid("additionalProperties", "additionalProperties and properties are mutual exclusive");
    }
}

fn check_pattern(source: &Value, path: &str, errors: &mut FieldErrors) {
    let Some(text) = source["pattern"].as_str() else { return };
    if let Err(why) = Pattern::parse(text) {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(format!("{path}.pattern"), text, detail));
    }
}

fn check_extensions(source: &Value, path: &str, errors: &mut FieldErrors) {
    let kind = source["type"].as_str().unwrap_or_default();
    if source["x-kubernetes-preserve-unknown-fields"] == false {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(field, false, "must be true or undefined"));
    }
    if source["x-kubernetes-embedded-resource"] == true {
        if kind != "object" {
            let (field, detail) = (format!("{path}.type"), "must be object if x-kubernetes-embedded-resource is true");
            errors.push(match kind {
                "" => FieldError::required(field, detail),
                kind => FieldError::invalid(field, kind, detail),
            });
        }
        let has_properties = source["properties"].as_object().is_some_and(|members| !members.is_empty());
        if !has_properties && source["x-kubernetes-preserve-unknown-fields"] != true {
            let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            errors.push(FieldError::required(format!("{path}.properties"), detail));
        }
    }
    if let Some(map_type) = source["x-kubernetes-map-type"].as_str() {
        if !matches!(map_type, "atomic" | "granular") {
            let field = format!("{path}.x-kubernetes-map-type");
            let all = vec!["atomic".to_owned(), "granular".to_owned()];
            errors.push(FieldError::new(field, Fault::NotSupported(map_type.into(), all), ""));
        }
        if kind != "object" {
            let detail = "must be object if x-kubernetes-map-type is specified";
            errors.push(FieldError::invalid(format!("{path}.type"), kind, detail));
        }
    }
}

fn check_list(source: &Value, path: &str, errors: &mut FieldErrors) {
    let keys = source["x-kubernetes-list-map-keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    let list_type = source["x-kubernetes-list-type"].as_str();
    let Some(list_type) = list_type else {
        if !keys.is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(FieldError::required(format!("{path}.x-kubernetes-list-type"), detail));
        }
        return;
    };
    let kind = source["type"].as_str().unwrap_or_default();
    if kind != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        errors.push(FieldError::invalid(format!("{path}.type"), kind, detail));
        return;
    }
    if matches!(list_type, "map" | "set") && source["items"]["nullable"] == true {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(format!("{path}.items.nullable"), detail));
    }
    match list_type {
        "atomic" => {}
        "set" => check_set(source, path, errors),
        "map" => check_map(source, keys, path, errors),
        other => {
            let all = ["atomic", "set", "map"].map(str::to_owned);
            let field = format!("{path}.x-kubernetes-list-type");
            errors.push(FieldError::new(field, Fault::NotSupported(other.into(), all.into()), ""));
        }
    }
}

fn check_set(source: &Value, path: &str, errors: &mut FieldErrors) {
    let items = &source["items"];
    if items["type"] == "object" && items["x-kubernetes-map-type"] != "atomic" {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let field = format!("{path}.items.x-kubernetes-map-type");
        errors.push(FieldError::invalid(field, items["x-kubernetes-map-type"].clone(), detail));
    }
    if items["type"] == "array" && !matches!(items["x-kubernetes-list-type"].as_str(), None | Some("atomic")) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let field = format!("{path}.items.x-kubernetes-list-type");
        errors.push(FieldError::invalid(field, items["x-kubernetes-list-type"].clone(), detail));
    }
}

fn check_map(source: &Value, keys: &[Value], path: &str, errors: &mut FieldErrors) {
    let items = &source["items"];
    let keys_field = format!("{path}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_field, detail));
    }
    if items.is_null() {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(format!("{path}.items"), detail));
        return;
    }
    let kind = items["type"].as_str().unwrap_or_default();
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{path}.items.type"), kind, detail));
        return;
    }
    for key in keys.iter().filter_map(Value::as_str) {
        check_key(items, key, keys, path, errors);
    }
    if keys.iter().enumerate().any(|(index, key)| keys[..index].contains(key)) {
        errors.push(FieldError::invalid(keys_field, Value::from(keys), "must not contain duplicate entries"));
    }
}

/// One of the members that identify the items of a map list.
fn check_key(items: &Value, key: &str, keys: &[Value], path: &str, errors: &mut FieldErrors) {
    let property = &items["properties"][key];
    let field = format!("{path}.items.properties[{key}]");
    let Some(kind) = property.as_object().map(|_| property["type"].as_str().unwrap_or_default()) else {
        let detail = "entries must all be names of item properties";
        let field = format!("{path}.x-kubernetes-list-map-keys");
        errors.push(FieldError::invalid(field, Value::from(keys), detail));
        return;
    };
    if matches!(kind, "object" | "array") {
        let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{field}.type"), kind, detail));
    }
    let required = items["required"].as_array().is_some_and(|names| names.iter().any(|name| name == key));
    if !required && property["default"].is_null() {
        let detail =
            "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
        errors.push(FieldError::required(format!("{field}.default"), detail));
    }
    if property["nullable"] == true {
        let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
        errors.push(FieldError::forbidden(format!("{field}.nullable"), detail));
    }
}

/// Whether types are allowed inside: the one pattern an int-or-string may be written out in.
fn is_int_or_string(source: &Value, nested_path: &str, path: &str) -> bool {
    let is_pair = |list: &Value| {
        let kinds: Vec<&str> = list.as_array().into_iter().flatten().filter_map(|one| one["type"].as_str()).collect();
        kinds == ["integer", "string"]
    };
    let inside = &nested_path[path.len()..];
    source["x-kubernetes-int-or-string"] == true
        && ((inside.starts_with(".anyOf") && is_pair(&source["anyOf"]))
            || (inside == ".allOf[0]" && is_pair(&source["allOf"][0]["anyOf"])))
}

/// A schema inside `allOf`, `anyOf`, `oneOf` or `not` may only judge.
fn check_nested(source: &Value, path: &str, types_allowed: bool, errors: &mut FieldErrors) {
    const MUST_BE: [(&str, &str); 13] = [
        ("additionalProperties", "undefined"),
        ("type", "empty"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-list-map-keys", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ];
    for (name, state) in MUST_BE {
        let set = !matches!(&source[name], Value::Null | Value::Bool(false)) && source[name] != "";
        if set && !(types_allowed && name == "type") {
            errors.push(FieldError::forbidden(format!("{path}.{name}"), format!("must be {state} to be structural")));
        }
    }
    check_pattern(source, path, errors);
    for (_, child, child_path) in children(source, path).into_iter().filter(|(_, _, at)| !at.ends_with("Properties")) {
        check_nested(child, &child_path, false, errors);
    }
    for (nested, nested_path) in alternatives(source, path) {
        check_nested(nested, &nested_path, types_allowed, errors);
    }
}

fn check_root(source: &Value, path: &str, errors: &mut FieldErrors) {
    if source["nullable"] == true {
        errors.push(FieldError::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    for name in ["apiVersion", "kind"] {
        if let Some(kind) = source["properties"][name]["type"].as_str().filter(|kind| *kind != "string") {
            let field = format!("{path}.properties[{name}].type");
            errors.push(FieldError::invalid(field, kind, "must be string"));
        }
    }
    let metadata = &source["properties"]["metadata"];
    let metadata_path = format!("{path}.properties[metadata]");
    if metadata.is_object() {
        check_metadata(metadata, &metadata_path, errors);
    }
    for (nested, nested_path) in alternatives(source, path) {
        if nested["properties"]["metadata"].is_object() {
            let at = format!("{nested_path}.properties[metadata]");
            errors.push(FieldError::forbidden(&at, "must not be specified in a nested context"));
            if !metadata.is_object() {
                errors.push(FieldError::required(&metadata_path, format!("because it is defined in {at}")));
            }
        }
    }
}

fn check_metadata(metadata: &Value, path: &str, errors: &mut FieldErrors) {
    if let Some(kind) = metadata["type"].as_str().filter(|kind| *kind != "object") {
        errors.push(FieldError::invalid(format!("{path}.type"), kind, "must be object"));
    }
    let others = metadata["properties"].as_object().into_iter().flatten();
    if others.clone().any(|(name, _)| !matches!(name.as_str(), "name" | "generateName")) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(path, detail));
    }
    let mut nodes = vec![(metadata, path.to_owned())];
    nodes.extend(others.map(|(name, node)| (node, format!("{path}.properties[{name}]"))));
    for (_, path) in nodes.into_iter().filter(|(node, _)| !node["default"].is_null()) {
        errors.push(FieldError::forbidden(format!("{path}.default"), "must not be set in top-level metadata"));
    }
}

/// Every default must be pruned and valid by itself.
pub(super) fn check_defaults(source: &Value, schema: &Schema, path: &str, root: bool, errors: &mut FieldErrors) {
    if let Some(default) = schema.default_value() {
        let field = format!("{path}.default");
        let is_resource = root || schema.is_embedded_resource();
        let identity = decode::default_errors(schema, default, is_resource, &field);
        if !walk::is_pruned(schema, default, is_resource) {
            errors.push(FieldError::invalid(field, default.clone(), "must not have unknown fields"));
        } else if !identity.is_empty() {
            errors.extend(identity);
        } else {
            errors.extend(validate::errors(schema, default, None).into_iter().map(|mut error| {
                let inside = if error.field == "<nil>" { "" } else { error.field.as_str() };
                error.field = super::member_path(&field, inside).trim_end_matches('.').to_owned();
                error
            }));
            if errors.is_empty() {
                errors.extend(rules::judge_default(schema, default, &field));
            }
        }
    }
    for (_, child_source, child_path) in children(source, path) {
        let last = child_path[path.len()..].trim_start_matches('.');
        let child = match last.strip_prefix("properties[").and_then(|last| last.strip_suffix(']')) {
            Some(name) => schema.member(name),
            None if last == "items" => schema.items(),
            None => schema.member(""),
        };
        if let Some(child) = child {
            check_defaults(child_source, child, &child_path, false, errors);
        }
    }
}
