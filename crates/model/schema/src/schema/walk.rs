//! The one walk through an object that is read: what the schema does not know goes, so do nulls that mean nothing, and
//! defaults come.
//!
//! Each of the three can be left out, since some readers want only one. Validation is another walk
//! ([`super::validate`]): hooks and the bookkeeping of fields come between.

use concert_api::Time;
use serde_json::{Map, Value};

use super::path::Path;
use super::{Additional, Kind, Schema};
use crate::meta;

/// Bytes of JSON that all defaults of one object may have together: as much as a request. A list of empty objects, each
/// with a hundred defaults, is a small body and a huge object.
pub(super) const DEFAULTS_MAX: usize = 3 * 1024 * 1024;
/// What a strict reader of built-in kinds tells, as in the real server.
const STRICT_MAX: usize = 100;
/// Bytes of the paths that are told: a long name may stand in every one of them.
const PATHS_MAX: usize = 1 << 20;
/// Every object has them.
const OF_EVERY_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What came of reading an object.
#[derive(Debug)]
pub struct Read {
    /// The paths of what was unknown, as [`Schema::prune`] gives them.
    pub unknown: Vec<String>,
    /// Whether there was room for all defaults.
    pub is_roomy: bool,
}

/// Reads an object: prunes it, drops nulls, fills in defaults.
pub(super) fn read(schema: &Schema, object: &mut Value) -> Read {
    Walk { prunes: true, nulls: Nulls::Drop, fills: true, ..Walk::new() }.through(schema, object, true)
}

/// Prunes an object, and drops the nulls that mean nothing.
pub(super) fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    Walk { prunes: true, nulls: Nulls::Drop, ..Walk::new() }.through(schema, object, true).unknown
}

/// Prunes an object that is decoded into a Go struct.
pub(super) fn prune_struct(schema: &Schema, object: &mut Value) -> Vec<String> {
    let walk = Walk { prunes: true, nulls: Nulls::Zero, is_custom: false, ..Walk::new() };
    let mut all = walk.through(schema, object, true).unknown;
    all.sort_unstable();
    all.truncate(STRICT_MAX);
    all
}

/// Fills in defaults; whether there was room for all.
pub(super) fn default(schema: &Schema, object: &mut Value) -> bool {
    Walk { fills: true, ..Walk::new() }.through(schema, object, true).is_roomy
}

/// Whether a value has no unknown members.
pub(super) fn is_pruned(schema: &Schema, value: &Value, is_resource: bool) -> bool {
    let walk = Walk { prunes: true, ..Walk::new() };
    walk.through(schema, &mut value.clone(), is_resource).unknown.is_empty()
}

/// What becomes of a null that is neither a value nor has a default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    /// It stays.
    Keep,
    /// It goes, as in custom resources.
    Drop,
    /// It goes, but becomes the empty string in a map of strings, as in what is decoded into a Go struct.
    Zero,
}

/// A walk, and what it has found.
struct Walk {
    prunes: bool,
    nulls: Nulls,
    fills: bool,
    /// The object is no Go struct, but for its metadata.
    is_custom: bool,
    /// What is still left of the room for defaults; nothing once there was too little.
    room: Option<usize>,
    unknown: Unknown,
}

impl Walk {
    /// One that changes nothing.
    fn new() -> Self {
        Self {
            prunes: false,
            nulls: Nulls::Keep,
            fills: false,
            is_custom: true,
            room: Some(DEFAULTS_MAX),
            unknown: Unknown::default(),
        }
    }

    fn through(mut self, schema: &Schema, object: &mut Value, is_resource: bool) -> Read {
        self.visit(schema, object, is_resource, &Path::TOP);
        Read { unknown: self.unknown.told(), is_roomy: self.room.is_some() }
    }

    fn visit(&mut self, schema: &Schema, value: &mut Value, is_resource: bool, path: &Path<'_>) {
        let node = schema.node();
        match value {
            Value::Object(members) => {
                members.retain(|name, member| self.keeps(schema, name, member, is_resource, path));
                if self.fills {
                    self.fill(schema, members);
                }
            }
            Value::Array(items) => match &node.items {
                Some(child) => {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.enter(child, item, &Path::Item(path, index));
                    }
                }
                None if self.prunes && self.takes_all() && !node.preserve => self.empty(value, path),
                None => {}
            },
            Value::String(text) if self.prunes => rewrite_time(node.go_type(), text),
            _ => {}
        }
    }

    /// A value below the object itself.
    fn enter(&mut self, schema: &Schema, value: &mut Value, path: &Path<'_>) {
        match schema.default_value() {
            Some(default) if self.fills && value.is_null() && !schema.is_nullable() => {
                if let Some(filled) = self.copy(schema, default, 0) {
                    *value = filled;
                }
            }
            _ => self.visit(schema, value, schema.node().embedded, path),
        }
    }

    /// Goes into a member; whether it stays.
    fn keeps(&mut self, parent: &Schema, name: &str, value: &mut Value, is_resource: bool, above: &Path<'_>) -> bool {
        let path = &Path::Member(above, name);
        if self.prunes && is_resource && OF_EVERY_OBJECT.contains(&name) {
            if name == "metadata" && !self.keeps_metadata(value, path) {
                return false;
            }
            // The schema may have something to say of it all the same.
            self.prunes = false;
            let keeps = self.keeps(parent, name, value, is_resource, above);
            self.prunes = true;
            return keeps;
        }
        let Some(child) = parent.member(name) else { return self.keeps_unknown(parent, value, path) };
        if value.is_null() && self.nulls != Nulls::Keep {
            let is_entry = parent.node().properties.get(name).is_none();
            if self.nulls == Nulls::Zero && is_entry && child.kind() == Some(Kind::String) {
                *value = "".into();
                return true;
            }
            if !child.is_nullable() && child.default_value().is_none() {
                return false;
            }
        }
        self.enter(child, value, path);
        true
    }

    /// A member that no schema is there for.
    fn keeps_unknown(&mut self, parent: &Schema, value: &mut Value, path: &Path<'_>) -> bool {
        if !self.prunes {
            return true;
        }
        match &parent.node().additional {
            Additional::Any if self.takes_all() => self.empty(value, path),
            Additional::Any | Additional::Never | Additional::Schema(_) => {}
            Additional::Unsaid if parent.node().preserve => {}
            Additional::Unsaid => {
                self.unknown.note(path);
                return false;
            }
        }
        true
    }

    /// Metadata is decoded into a struct and back: what the struct does not know, and what is empty, is gone. That of
    /// embedded objects is there afterwards even if it was null.
    fn keeps_metadata(&mut self, metadata: &mut Value, path: &Path<'_>) -> bool {
        let outside = (self.nulls, self.fills, self.unknown.in_metadata);
        (self.nulls, self.fills, self.unknown.in_metadata) = (Nulls::Zero, false, true);
        self.visit(meta::schema(), metadata, false, path);
        (self.nulls, self.fills, self.unknown.in_metadata) = outside;
        if let Value::Object(members) = metadata {
            members.retain(|_, member| match member {
                Value::Null => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                Value::Object(members) => !members.is_empty(),
                _ => true,
            });
        }
        let is_own = matches!(path, Path::Member(parent, _) if parent.is_empty());
        if metadata.is_null() && !is_own {
            *metadata = Value::Object(Map::new());
        }
        !metadata.is_null()
    }

    /// Sets what is absent and has a default.
    fn fill(&mut self, schema: &Schema, members: &mut Map<String, Value>) {
        for (name, child) in schema.properties() {
            if let Some(default) = child.default_value()
                && !members.contains_key(name)
                && let Some(filled) = self.copy(child, default, name.len())
            {
                members.insert(name.to_owned(), filled);
            }
        }
    }

    /// A default with the defaults within it, if there is room. It was pruned when it came.
    fn copy(&mut self, schema: &Schema, default: &Value, beside: usize) -> Option<Value> {
        self.room = self.room.and_then(|room| room.checked_sub(beside + size(default)));
        self.room?;
        let mut filled = default.clone();
        let outside = (self.prunes, self.nulls);
        (self.prunes, self.nulls) = (false, Nulls::Keep);
        self.visit(schema, &mut filled, schema.node().embedded, &Path::TOP);
        (self.prunes, self.nulls) = outside;
        Some(filled)
    }

    /// Whether objects that no schema speaks of lose their members.
    fn takes_all(&self) -> bool {
        self.is_custom && !self.unknown.in_metadata
    }

    /// Where no schema says anything, no object has members.
    fn empty(&mut self, value: &mut Value, path: &Path<'_>) {
        match value {
            Value::Object(members) => {
                members.keys().for_each(|name| self.unknown.note(&Path::Member(path, name)));
                members.clear();
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.empty(item, &Path::Item(path, index));
                }
            }
            _ => {}
        }
    }
}

/// The paths of what was unknown.
#[derive(Default)]
struct Unknown {
    members: Vec<String>,
    /// In metadata, the object's own and that of embedded ones.
    metadata: Vec<String>,
    /// Whether what is found is in metadata.
    in_metadata: bool,
    /// Bytes of all paths.
    bytes: usize,
}

impl Unknown {
    fn note(&mut self, path: &Path<'_>) {
        if self.bytes < PATHS_MAX {
            let path = path.to_string();
            self.bytes += path.len();
            if self.in_metadata { self.metadata.push(path) } else { self.members.push(path) }
        }
    }

    /// The object's own metadata first, then all else, then the metadata of embedded objects; each part sorted.
    fn told(mut self) -> Vec<String> {
        self.members.sort_unstable();
        self.metadata.sort_unstable();
        let (own, embedded): (Vec<_>, Vec<_>) =
            self.metadata.into_iter().partition(|path| path.starts_with("metadata"));
        [own, self.members, embedded].concat()
    }
}

/// Go writes moments in UTC, as exactly as it keeps them.
fn rewrite_time(go_type: &str, text: &mut String) {
    let same = match go_type {
        "v1.Time" => text.parse().map(|time: Time| time.to_string()),
        "v1.MicroTime" => text.parse().map(Time::with_micros),
        _ => return,
    };
    if let Ok(same) = same {
        *text = same;
    }
}

/// About the length of the JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => 2 + text.len(),
        Value::Array(items) => 2 + items.iter().map(|item| 1 + size(item)).sum::<usize>(),
        Value::Object(members) => 2 + members.iter().map(|(name, member)| 4 + name.len() + size(member)).sum::<usize>(),
    }
}
