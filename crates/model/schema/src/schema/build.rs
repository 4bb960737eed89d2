//! From a schema as written to a compiled one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use concert_cel::Pattern;
use serde_json::{Map, Value, json};

use super::format::Format;
use super::number::Bounds;
use super::properties::Properties;
use super::settle::Structure;
use super::{Additional, Go, Kind, Limits, ListType, Node, Schema, Sizes};
use crate::builtin::{self, data, render, render::View};

/// Where a node says more about its values than their type.
const LIMITING: [&str; 18] = [
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "pattern",
    "uniqueItems",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];

/// What a schema says for its readers, and no value is judged by.
const WORDS: [&str; 3] = ["description", "title", "example"];

/// How deep a small schema nests: a list of maps of values.
const SMALL: usize = 2;

/// Where named schemas are found that others refer to; those of custom resources refer to none.
#[derive(Default)]
pub(crate) struct Definitions {
    find: Option<fn(&str) -> Option<Schema>>,
    /// The small schemas of this compilation, by all that they say. A definition says the same many times (a port, a set
    /// of names, a text of at most so many letters), and one node can stand for all of them.
    small: RefCell<HashMap<String, Schema>>,
}

impl Definitions {
    fn get(&self, name: &str) -> Option<Schema> {
        self.find.and_then(|find| find(name))
    }

    /// The schema of this source, compiled once if it is a small one.
    fn shared(&self, source: &Value) -> Schema {
        let Some(said) = small(source, SMALL) else { return Schema::from_node(node(source, self)) };
        let said = Value::Object(said).to_string();
        if let Some(known) = self.small.borrow().get(&said) {
            return known.clone();
        }
        let schema = Schema::from_node(node(source, self));
        self.small.borrow_mut().insert(said, schema.clone());
        schema
    }
}

/// What a schema says without its words, if it is one of a value, or of a list or map of values: so deep at most.
fn small(source: &Value, depth: usize) -> Option<Map<String, Value>> {
    let mut said = Map::new();
    for (name, value) in source.as_object()? {
        let value = match name.as_str() {
            "properties" | "allOf" | "anyOf" | "oneOf" | "not" => return None,
            "items" | "additionalProperties" if value.is_object() => small(value, depth.checked_sub(1)?)?.into(),
            name if WORDS.contains(&name) => continue,
            _ => value.clone(),
        };
        said.insert(name.clone(), value);
    }
    Some(said)
}

/// Compiles a definition of the built-in kinds.
pub(super) fn definition(name: &'static str) -> Node {
    let definitions = Definitions { find: Some(builtin::definition), ..Definitions::default() };
    let source = render::definition(name, View::Schema).unwrap_or_default();
    let mut node = node(&source, &definitions);
    node.go.get_or_insert_default().structure = data::known(name).map(Structure::of);
    node
}

pub(super) fn schema(source: &Value, definitions: &Definitions) -> Schema {
    if let Some(named) = source["$ref"].as_str().and_then(|name| definitions.get(name)) {
        return named.at(source);
    }
    if let Some(leaf) = leaf(source) {
        return leaf;
    }
    definitions.shared(source)
}

/// Most fields are plain texts, truths and numbers: one node stands for all of a sort, whatever is said about them.
fn leaf(source: &Value) -> Option<Schema> {
    const SORTS: [(&str, &str); 6] =
        [("string", ""), ("boolean", ""), ("integer", ""), ("number", ""), ("integer", "int32"), ("integer", "int64")];
    static LEAVES: LazyLock<Vec<Schema>> = LazyLock::new(|| {
        let sort = |(kind, format): (&str, &str)| match format {
            "" => json!({"type": kind}),
            _ => json!({"type": kind, "format": format}),
        };
        SORTS.map(|one| Schema::from_node(node(&sort(one), &Definitions::default()))).to_vec()
    });
    let members = source.as_object()?;
    let plain = |name: &String| matches!(name.as_str(), "type" | "format") || WORDS.contains(&name.as_str());
    if !members.keys().all(plain) {
        return None;
    }
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let sort = (text("type"), text("format"));
    SORTS.iter().position(|one| *one == sort).map(|at| LEAVES[at].clone())
}

fn limits(source: &Value, definitions: &Definitions) -> Limits {
    let children = |name: &str| -> Vec<Schema> {
        let list = source[name].as_array().into_iter().flatten();
        list.map(|child| schema(child, definitions)).collect()
    };
    Limits {
        choices: source["enum"].as_array().cloned().unwrap_or_default(),
        bounds: Bounds::parse(source),
        sizes: sizes(source),
        pattern: source["pattern"].as_str().filter(|text| !text.is_empty()).and_then(|text| Pattern::parse(text).ok()),
        all_of: children("allOf"),
        any_of: children("anyOf"),
        one_of: children("oneOf"),
        not: source.get("not").filter(|child| child.is_object()).map(|child| schema(child, definitions)),
    }
}

fn node(source: &Value, definitions: &Definitions) -> Node {
    let child = |name: &str| source.get(name).filter(|child| child.is_object()).map(|child| schema(child, definitions));
    let flag = |name: &str| source[name] == true;
    let text = |name: &str| source[name].as_str().unwrap_or_default().to_owned();
    let kind = source["type"].as_str().and_then(Kind::parse);
    let format_name = text("format");
    Node {
        kind,
        format: (kind == Some(Kind::String)).then(|| Format::parse(&format_name)).flatten(),
        format_name: format_name.into(),
        nullable: flag("nullable"),
        int_or_string: flag("x-kubernetes-int-or-string"),
        preserve: flag("x-kubernetes-preserve-unknown-fields"),
        embedded: flag("x-kubernetes-embedded-resource"),
        properties: properties(source, definitions),
        additional: match &source["additionalProperties"] {
            Value::Bool(true) => Additional::Any,
            Value::Bool(false) => Additional::Never,
            object @ Value::Object(_) => Additional::Schema(schema(object, definitions)),
            _ => Additional::Unsaid,
        },
        items: child("items"),
        required: texts(&source["required"]),
        default: source.get("default").filter(|default| !default.is_null()).cloned(),
        limits: LIMITING.iter().any(|name| source.get(name).is_some()).then(|| Box::new(limits(source, definitions))),
        list_type: match source["x-kubernetes-list-type"].as_str() {
            Some("atomic") => Some(ListType::Atomic),
            Some("set") => Some(ListType::Set),
            Some("map") => Some(ListType::Map(texts(&source["x-kubernetes-list-map-keys"]))),
            _ => None,
        },
        atomic_map: source["x-kubernetes-map-type"] == "atomic",
        rules: source["x-kubernetes-validations"].as_array().cloned().unwrap_or_default(),
        compiled: OnceLock::new(),
        ruled: OnceLock::new(),
        go: go(source),
    }
}

fn go(source: &Value) -> Option<Box<Go>> {
    let text = |name: &str| source[name].as_str().unwrap_or_default().to_owned();
    let go = Go {
        type_name: text("x-go-type"),
        patch_strategy: text("x-kubernetes-patch-strategy"),
        patch_merge_key: text("x-kubernetes-patch-merge-key"),
        structure: None,
    };
    let says = [&go.type_name, &go.patch_strategy, &go.patch_merge_key].iter().any(|text| !text.is_empty());
    says.then(|| Box::new(go))
}

fn properties(source: &Value, definitions: &Definitions) -> Properties {
    let members = source["properties"].as_object().into_iter().flatten();
    members.map(|(name, child)| (name.as_str().into(), schema(child, definitions))).collect()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn sizes(source: &Value) -> Sizes {
    let size = |name: &str| source[name].as_i64();
    Sizes {
        min_length: size("minLength"),
        max_length: size("maxLength"),
        min_items: size("minItems"),
        max_items: size("maxItems"),
        min_properties: size("minProperties"),
        max_properties: size("maxProperties"),
    }
}
