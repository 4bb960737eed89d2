//! Removing what the schema does not know.

use concert_api::Time;
use serde_json::Value;

use super::path::Path;
use super::{Additional, Kind, Schema};
use crate::meta;

/// What a strict reader of built-in kinds tells, as in the real server.
const STRICT_MAX: usize = 100;
/// Bytes of the paths that are told: a long name may stand in every one of them.
const PATHS_MAX: usize = 1 << 20;
/// Every object has them.
const OF_EVERY_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prunes an object, then drops the nulls that mean nothing.
pub(super) fn object(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut unknown = Unknown { is_custom: true, ..Unknown::default() };
    prune(schema, object, true, &Path::TOP, &mut unknown);
    drop_nulls(schema, object, Nulls::Drop);
    unknown.told()
}

/// Prunes an object that is decoded into a Go struct.
pub(super) fn structure(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut unknown = Unknown::default();
    prune(schema, object, true, &Path::TOP, &mut unknown);
    drop_nulls(schema, object, Nulls::Zero);
    let mut all = unknown.told();
    all.sort_unstable();
    all.truncate(STRICT_MAX);
    all
}

/// Whether a value has no unknown members.
pub(super) fn is_pruned(schema: &Schema, value: &Value, is_resource: bool) -> bool {
    let mut unknown = Unknown { is_custom: true, ..Unknown::default() };
    prune(schema, &mut value.clone(), is_resource, &Path::TOP, &mut unknown);
    unknown.told().is_empty()
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
    /// The object is no Go struct, but for its metadata.
    is_custom: bool,
}

impl Unknown {
    /// Whether objects that no schema speaks of lose their members.
    fn takes_all(&self) -> bool {
        self.is_custom && !self.in_metadata
    }

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

fn prune(schema: &Schema, value: &mut Value, resource: bool, path: &Path<'_>, unknown: &mut Unknown) {
    let node = schema.node();
    match value {
        Value::Object(members) => members.retain(|name, member| {
            let path = Path::Member(path, name);
            if resource && OF_EVERY_OBJECT.contains(&name.as_str()) {
                return name != "metadata" || keep_metadata(member, &path, unknown);
            }
            if let Some(known) = node.properties.get(name) {
                prune(known, member, known.node().embedded, &path, unknown);
                return true;
            }
            match &node.additional {
                Additional::Schema(other) => prune(other, member, other.node().embedded, &path, unknown),
                Additional::Any if unknown.takes_all() => prune_all(member, &path, unknown),
                Additional::Any | Additional::Never => {}
                Additional::Unsaid if node.preserve => {}
                Additional::Unsaid => {
                    unknown.note(&path);
                    return false;
                }
            }
            true
        }),
        Value::Array(items) => {
            let Some(schema) = &node.items else {
                if unknown.takes_all() && !node.preserve {
                    prune_all(value, path, unknown);
                }
                return;
            };
            for (index, item) in items.iter_mut().enumerate() {
                prune(schema, item, schema.node().embedded, &Path::Item(path, index), unknown);
            }
        }
        Value::String(text) => {
            let same = match node.go_type() {
                "v1.Time" => text.parse().map(|time: Time| time.to_string()),
                "v1.MicroTime" => text.parse().map(Time::with_micros),
                _ => return,
            };
            // Go writes moments in UTC, as exactly as it keeps them.
            if let Ok(same) = same {
                *text = same;
            }
        }
        _ => {}
    }
}

/// Where no schema says anything, no object has members.
fn prune_all(value: &mut Value, path: &Path<'_>, unknown: &mut Unknown) {
    match value {
        Value::Object(members) => {
            members.keys().for_each(|name| unknown.note(&Path::Member(path, name)));
            members.clear();
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune_all(item, &Path::Item(path, index), unknown);
            }
        }
        _ => {}
    }
}

/// Metadata is decoded into a struct and back: what the struct does not know, and what is empty, is gone. That of
/// embedded objects is there afterwards even if it was null.
fn keep_metadata(metadata: &mut Value, path: &Path<'_>, unknown: &mut Unknown) -> bool {
    unknown.in_metadata = true;
    prune(meta::schema(), metadata, false, path, unknown);
    unknown.in_metadata = false;
    drop_nulls(meta::schema(), metadata, Nulls::Zero);
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
        *metadata = Value::Object(serde_json::Map::new());
    }
    !metadata.is_null()
}

/// What becomes of a null in a map of strings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    /// It goes, as in custom resources.
    Drop,
    /// It becomes the empty string, as in what is decoded into a Go struct.
    Zero,
}

fn drop_nulls(schema: &Schema, value: &mut Value, nulls: Nulls) {
    let node = schema.node();
    match value {
        Value::Object(members) => members.retain(|name, member| {
            let Some(child) = schema.member(name) else { return true };
            if member.is_null() {
                let zero = nulls == Nulls::Zero && child.kind() == Some(Kind::String);
                if zero && node.properties.get(name).is_none() {
                    *member = Value::from("");
                }
                return !member.is_null() || child.is_nullable() || child.default_value().is_some();
            }
            drop_nulls(child, member, nulls);
            true
        }),
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            items.iter_mut().for_each(|item| drop_nulls(schema, item, nulls));
        }
        _ => {}
    }
}
