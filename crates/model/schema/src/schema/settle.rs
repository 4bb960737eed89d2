//! Making of an object what Go makes of it: read into structs, with defaults, and written again.
//!
//! Only built-in kinds have this: their nodes know the struct they stand for.

use serde_json::{Map, Value, json};

use super::Schema;
use crate::builtin::{data, defaults, quantity, render};
use data::{Presence, Special, Type};

/// The struct that a node stands for.
#[derive(Debug)]
pub(super) struct Structure {
    fields: Vec<Rule>,
    /// What a default needs that is no constant.
    hook: Option<defaults::Hook>,
}

/// What becomes of a field.
#[derive(Debug)]
struct Rule {
    name: &'static str,
    presence: Presence,
    /// When what is empty is as good as nothing.
    drops_empty: Drops,
    /// What Go writes if there is nothing.
    nothing: Option<Value>,
    default: Option<Value>,
}

impl Structure {
    pub(super) fn of(name: &str) -> Self {
        let rule = |field: data::Field| {
            let default = render::default(&field).or_else(|| defaults::constant(name, field.name));
            let nothing = render::nothing(&field);
            let drops_empty = drops_empty(name, &field);
            Rule { name: field.name, presence: field.presence, drops_empty, nothing, default }
        };
        let rules = data::flat_fields(name).into_iter().map(rule);
        let fields = rules.filter(|rule| rule.presence != Presence::Pointer || rule.default.is_some()).collect();
        Self { fields, hook: defaults::hook(name) }
    }

    /// What Go writes for a field that is not set, unless that is null.
    pub(super) fn nothing(&self, name: &str) -> Option<&Value> {
        let rule = self.fields.iter().find(|rule| rule.name == name)?;
        rule.nothing.as_ref().filter(|nothing| !nothing.is_null())
    }

    /// Leaves out what Go leaves out, then fills in defaults.
    fn read(&self, members: &mut Map<String, Value>, stage: Stage, room: &mut Room) -> Option<()> {
        for rule in &self.fields {
            let drops = match rule.drops_empty {
                Drops::Always => true,
                Drops::WhenStored => stage != Stage::Read,
                Drops::Never => false,
            };
            if let Some(value) = members.get(rule.name)
                && (value.is_null() || (drops && is_zero(value)))
            {
                members.remove(rule.name);
            }
            let lacks = !members.contains_key(rule.name);
            if lacks && let Some(default) = rule.default.as_ref().filter(|_| stage != Stage::Converted) {
                room.take(rule.name)?;
                members.insert(rule.name.to_owned(), default.clone());
            } else if lacks && rule.nothing.as_ref().is_some_and(Value::is_object) {
                room.take(rule.name)?;
                members.insert(rule.name.to_owned(), json!({}));
            }
        }
        if let Some(hook) = self.hook.filter(|_| stage != Stage::Converted) {
            hook(members);
        }
        Some(())
    }

    /// Fills in what Go writes though it is empty.
    fn write(&self, members: &mut Map<String, Value>, room: &mut Room) -> Option<()> {
        for rule in &self.fields {
            if let Some(nothing) = &rule.nothing
                && !members.contains_key(rule.name)
            {
                room.take(rule.name)?;
                members.insert(rule.name.to_owned(), nothing.clone());
            }
        }
        Some(())
    }
}

/// What becomes of an object: it is read from a request, stored, or turned into another version (which has no defaults: what
/// is not set there was not set before).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Read,
    Stored,
    Converted,
}

/// When a field that is empty becomes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drops {
    Never,
    WhenStored,
    Always,
}

/// A pointer keeps what it points at. A list that is null when it is empty loses that in protobuf, as which all but
/// definitions are stored.
fn drops_empty(structure: &str, field: &data::Field) -> Drops {
    let many = matches!(field.kind, Type::List(_) | Type::Listed(_) | Type::Map(_) | Type::Bytes);
    match field.presence {
        // Whether an ingress without any is refused for `[]` or for null is told; with a backend it loses them.
        Presence::Omitted if (structure, field.name) == ("networking.v1.IngressSpec", "rules") => Drops::Never,
        Presence::Null if many && !structure.starts_with("apiextensions.") => Drops::WhenStored,
        // A port that has an empty name is not one without a number.
        Presence::Zero if matches!(field.kind, Type::Special(Special::IntOrString)) && field.name == "port" => {
            Drops::Never
        }
        Presence::Pointer | Presence::Null => Drops::Never,
        Presence::Omitted | Presence::Zero => Drops::Always,
    }
}

/// What is still left of the room for what is filled in.
struct Room(usize);

impl Room {
    /// A name and a short value in JSON.
    fn take(&mut self, name: &str) -> Option<()> {
        self.0 = self.0.checked_sub(name.len() + 8)?;
        Some(())
    }
}

/// Settles an object of a built-in kind; whether there was room for all.
pub(super) fn settle(schema: &Schema, value: &mut Value, stage: Stage) -> bool {
    visit(schema, value, stage, &mut Room(super::walk::DEFAULTS_MAX)).is_some()
}

fn visit(schema: &Schema, value: &mut Value, stage: Stage, room: &mut Room) -> Option<()> {
    let node = schema.node();
    match value {
        Value::Object(members) => {
            if let Some(structure) = node.structure() {
                structure.read(members, stage, room)?;
            }
            for (name, member) in members.iter_mut() {
                if let Some(child) = schema.member(name) {
                    visit(child, member, stage, room)?;
                    if node.structure().is_none() {
                        round(child, member);
                    }
                }
            }
            if let Some(structure) = node.structure() {
                structure.write(members, room)?;
            }
        }
        Value::Array(items) => {
            if let Some(child) = schema.items() {
                items.iter_mut().try_for_each(|item| visit(child, item, stage, room))?;
            }
        }
        Value::String(_) | Value::Number(_) if node.go_type() == "resource.Quantity" => {
            if let Some(canonical) = quantity::canonical(value) {
                *value = canonical.into();
            }
        }
        Value::String(text) if &*node.format_name == "byte" && text.contains(['\r', '\n']) => {
            text.retain(|letter| !"\r\n".contains(letter));
        }
        _ => {}
    }
    Some(())
}

/// Of the resources in a map there are no finer parts than thousandths.
fn round(schema: &Schema, value: &mut Value) {
    if schema.node().go_type() == "resource.Quantity"
        && let Some(rounded) = quantity::rounded(value)
    {
        *value = rounded.into();
    }
}

/// What Go writes of a struct in which nothing is set.
pub(super) fn zero(schema: &Schema) -> Value {
    let rules = schema.node().structure().map(|structure| structure.fields.as_slice()).unwrap_or_default();
    let written = |rule: &Rule| {
        let nothing = rule.nothing.clone()?;
        let child = schema.member(rule.name).filter(|_| nothing.is_object());
        Some((rule.name.to_owned(), child.map_or(nothing, zero)))
    };
    Value::Object(rules.iter().filter_map(written).collect())
}

/// What Go's `omitempty` leaves out. An object is not empty to it: that is a struct, or a map that has its own test.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
