//! Field sets as `FieldsV1`.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Element, FieldSet};
use crate::go;

impl FieldSet {
    /// As a `fieldsV1`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut members = Map::new();
        for node in &self.nodes {
            let mut below = node.below.to_value();
            if node.member
                && !node.below.is_empty()
                && let Value::Object(members) = &mut below
            {
                members.insert(".".to_owned(), Value::Object(Map::new()));
            }
            members.insert(key(&node.element), below);
        }
        Value::Object(members)
    }

    /// Writes it as the JSON text of a `fieldsV1`: the same as [`FieldSet::to_value`], without the tree.
    pub fn write_json(&self, out: &mut String) {
        self.write(false, out);
    }

    fn write(&self, member: bool, out: &mut String) {
        out.push('{');
        let mut first = true;
        if member && !self.is_empty() {
            out.push_str("\".\":{}");
            first = false;
        }
        for node in &self.nodes {
            if !first {
                out.push(',');
            }
            first = false;
            go::json_text(&key(&node.element), out);
            out.push(':');
            node.below.write(node.member, out);
        }
        out.push('}');
    }
}

/// A step as a key of `FieldsV1`.
fn key(element: &Element) -> String {
    let mut out = String::new();
    match element {
        Element::Field(name) => {
            out.push_str("f:");
            out.push_str(name);
        }
        Element::Key(keys) => {
            out.push_str("k:{");
            for (index, (name, value)) in keys.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                go::json_text(name, &mut out);
                out.push(':');
                go::json(value, &mut out);
            }
            out.push('}');
        }
        Element::Value(value) => {
            out.push_str("v:");
            go::json(value, &mut out);
        }
        Element::Index(index) => {
            let _ = write!(out, "i:{index}");
        }
    }
    out
}
