//! The schemas of a document: those of the kinds, and what they refer to.

use std::collections::{BTreeMap, BTreeSet};

use concert_schema::{document, document_name, referred};
use serde_json::{Value, json};

use super::operation::{members, reference};
use crate::kinds::{Resource, Version};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
/// What is sent and answered for the kinds of every group: it belongs to all of them.
const EVERYWHERE: [&str; 2] = ["meta.v1.DeleteOptions", "meta.v1.WatchEvent"];
/// Where documents tell group, version and kind.
pub(super) const KINDS: &str = "x-kubernetes-group-version-kind";

/// The schemas of a document, as they are gathered: as JSON text, a tree of all of them takes much more room.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    /// Group and version of the document, where all kinds are built in.
    belongs_to: Option<(String, String)>,
    found: BTreeMap<String, String>,
    /// The built-in definitions that are already there.
    known: BTreeSet<&'static str>,
}

impl Schemas {
    /// Those of a group in a version, all of whose kinds are built in.
    pub(super) fn of(group: &str, version: &str) -> Self {
        Self { belongs_to: Some((group.to_owned(), version.to_owned())), ..Self::default() }
    }

    /// The full name of a built-in definition, which is now part of the document with all it refers to.
    pub(super) fn refer(&mut self, name: &'static str) -> String {
        let mut pending = vec![name];
        while let Some(name) = pending.pop() {
            if self.known.insert(name) {
                self.define(name);
                pending.extend(referred(name));
            }
        }
        document_name(name)
    }

    fn define(&mut self, name: &'static str) {
        let Some((long, mut schema)) = document(name) else { return };
        if let Some((group, version)) = self.belongs_to.as_ref().filter(|(group, _)| !group.is_empty())
            && EVERYWHERE.contains(&name)
            && let Some(kinds) = schema[KINDS].as_array_mut()
        {
            kinds.push(json!({"group": group, "version": version, "kind": name.rsplit('.').next()}));
        }
        self.found.insert(long, schema.to_string());
    }

    /// The name of what patches are: anything.
    pub(super) fn refer_patch(&mut self) -> String {
        self.found.insert(PATCH.to_owned(), json!({"type": "object"}).to_string());
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
                self.found.insert(name_of(resource, version), custom(version).to_string());
            }
        }
        self.refer("meta.v1.ListMeta");
        self.found.insert(list_name_of(resource, version), list(resource, version).to_string());
    }

    /// As `components` has them.
    pub(super) fn into_text(self) -> String {
        members(self.found)
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
