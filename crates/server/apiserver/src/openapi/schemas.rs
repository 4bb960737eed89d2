//! The schemas of a document: those of the kinds, and what they refer to.

use std::collections::BTreeSet;

use concert_schema::{document, document_name, referred};
use serde_json::{Map, Value, json};

use super::operation::reference;
use crate::kinds::{Resource, Version};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
/// What is sent and answered for the kinds of every group: it belongs to all of them.
const EVERYWHERE: [&str; 2] = ["meta.v1.DeleteOptions", "meta.v1.WatchEvent"];
const KINDS: &str = "x-kubernetes-group-version-kind";

/// The schemas of a document, as they are gathered.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    found: Map<String, Value>,
    /// The built-in definitions that are already there.
    known: BTreeSet<&'static str>,
}

impl Schemas {
    /// The full name of a built-in definition, which is now part of the document with all it refers to.
    pub(super) fn refer(&mut self, name: &'static str) -> String {
        let mut pending = vec![name];
        while let Some(name) = pending.pop() {
            if self.known.insert(name) {
                self.found.extend(document(name));
                pending.extend(referred(name));
            }
        }
        document_name(name)
    }

    /// The name of what patches are: anything.
    pub(super) fn refer_patch(&mut self) -> String {
        self.found.insert(PATCH.to_owned(), json!({"type": "object"}));
        PATCH.to_owned()
    }

    /// Adds a kind and its list.
    pub(super) fn add_kind(&mut self, resource: &Resource, version: &Version) {
        self.refer("meta.v1.ObjectMeta");
        match version.builtin {
            Some(builtin) => {
                self.refer(builtin.schema_name);
                if !builtin.can("list") {
                    return;
                }
            }
            None => {
                self.found.insert(name_of(resource, version), custom(version));
            }
        }
        self.refer("meta.v1.ListMeta");
        self.found.insert(list_name_of(resource, version), list(resource, version));
    }

    /// Says of what is the same in every group that it is of this one, too.
    pub(super) fn belong_to(&mut self, group: &str, version: &str) {
        for name in EVERYWHERE.into_iter().filter(|_| !group.is_empty()) {
            let kinds = self.found.get_mut(&document_name(name)).and_then(|schema| schema[KINDS].as_array_mut());
            if let Some(kinds) = kinds {
                let kind = name.rsplit('.').next();
                kinds.push(json!({"group": group, "version": version, "kind": kind}));
            }
        }
    }

    /// As `components` has them.
    pub(super) fn into_value(self) -> Value {
        self.found.into()
    }
}

/// The name of a kind's schema; for custom resources the group's parts reversed, version, kind.
pub(super) fn name_of(resource: &Resource, version: &Version) -> String {
    match version.builtin {
        Some(builtin) => document_name(builtin.schema_name),
        None => custom_name(version, &resource.kind),
    }
}

/// The name of the schema of its list.
pub(super) fn list_name_of(resource: &Resource, version: &Version) -> String {
    match version.builtin {
        Some(builtin) => format!("{}List", document_name(builtin.schema_name)),
        None => custom_name(version, &resource.list_kind),
    }
}

fn custom_name(version: &Version, kind: &str) -> String {
    let group = version.gvk.group.split('.').rev().collect::<Vec<_>>().join(".");
    format!("{group}.{}.{kind}", version.gvk.version)
}

fn list(resource: &Resource, version: &Version) -> Value {
    let text = json!({"type": "string"});
    let gvk = json!({"group": version.gvk.group, "version": version.gvk.version, "kind": resource.list_kind});
    let mut list = json!({
        "type": "object", "required": ["items"],
        "properties": {
            "apiVersion": text, "kind": text, "metadata": {"allOf": [reference(LIST_META)]},
            "items": {"type": "array", "items": reference(&name_of(resource, version))},
        },
        KINDS: [gvk],
    });
    if !resource.is_custom() {
        list["properties"]["metadata"]["default"] = json!({});
    }
    tell_selectable(&mut list, version);
    list
}

/// The schema of a custom resource, with what every object has.
fn custom(version: &Version) -> Value {
    let mut schema: Value = serde_json::from_str(&version.openapi).unwrap_or_default();
    tell(&mut schema);
    add_object(&mut schema);
    tell_selectable(&mut schema, version);
    let gvk = &version.gvk;
    schema[KINDS] = json!([{"group": gvk.group, "version": gvk.version, "kind": gvk.kind}]);
    schema
}

/// The fields that field selectors may name; the list says it as well.
fn tell_selectable(schema: &mut Value, version: &Version) {
    let paths = version.selectable.iter().map(|path| json!({"fieldPath": path.text().trim_start_matches('.')}));
    let selectable: Vec<Value> = paths.collect();
    if !selectable.is_empty() {
        schema["x-kubernetes-selectable-fields"] = selectable.into();
    }
}

fn add_object(schema: &mut Value) {
    for name in ["apiVersion", "kind"] {
        schema["properties"][name] = json!({"type": "string"});
    }
    schema["properties"]["metadata"] = json!({"allOf": [reference(META)]});
}

/// Says in words that everybody understands what may be a number or a text, and what is an object in an object.
fn tell(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is = |name: &str| members.get(name) == Some(&Value::Bool(true));
            let either = is("x-kubernetes-int-or-string");
            let embedded = is("x-kubernetes-embedded-resource");
            if either && !members.contains_key("anyOf") && !members.contains_key("allOf") {
                members.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
            }
            for (name, member) in members.iter_mut() {
                match (name.as_str(), member) {
                    ("properties", Value::Object(properties)) => properties.values_mut().for_each(tell),
                    // Values, not schemas.
                    ("default" | "enum" | "example", _) => {}
                    (_, member) => tell(member),
                }
            }
            if embedded {
                let required = members.entry("required").or_insert_with(|| json!([]));
                if let Some(required) = required.as_array_mut() {
                    let missing = ["kind", "apiVersion"].into_iter().map(Value::from);
                    let missing: Vec<Value> = missing.filter(|name| !required.contains(name)).collect();
                    required.extend(missing);
                }
                add_object(schema);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tell),
        _ => {}
    }
}
