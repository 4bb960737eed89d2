//! Removing what the schema does not know.

use concert_api::Time;
use serde_json::Value;

use super::{Additional, Kind, Schema, member_path};
use crate::meta;

/// Every object has them.
const OF_EVERY_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prunes an object, then drops the nulls that mean nothing.
pub(super) fn object(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut unknown = Unknown::default();
    prune(schema, object, true, "", &mut unknown);
    drop_nulls(schema, object, Nulls::Drop);
    unknown.told()
}

/// Prunes an object that is decoded into a Go struct.
pub(super) fn structure(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut unknown = Unknown::default();
    prune(schema, object, true, "", &mut unknown);
    drop_nulls(schema, object, Nulls::Zero);
    let mut all = unknown.told();
    all.sort_unstable();
    all
}

/// Whether a value has no unknown members.
pub(super) fn is_pruned(schema: &Schema, value: &Value, is_resource: bool) -> bool {
    let mut unknown = Unknown::default();
    prune(schema, &mut value.clone(), is_resource, "", &mut unknown);
    unknown.told().is_empty()
}

/// The paths of what was unknown.
#[derive(Default)]
struct Unknown {
    members: Vec<String>,
    /// In metadata, the object's own and that of embedded ones.
    metadata: Vec<String>,
}

impl Unknown {
    /// The object's own metadata first, then all else, then the metadata of embedded objects; each part sorted.
    fn told(mut self) -> Vec<String> {
        self.members.sort_unstable();
        self.metadata.sort_unstable();
        let (own, embedded): (Vec<_>, Vec<_>) =
            self.metadata.into_iter().partition(|path| path.starts_with("metadata"));
        [own, self.members, embedded].concat()
    }
}

fn prune(schema: &Schema, value: &mut Value, resource: bool, path: &str, unknown: &mut Unknown) {
    let node = schema.node();
    match value {
        Value::Object(members) => members.retain(|name, member| {
            let path = member_path(path, name);
            if resource && OF_EVERY_OBJECT.contains(&name.as_str()) {
                return name != "metadata" || keep_metadata(member, &path, unknown);
            }
            if let Some(known) = node.properties.get(name) {
                prune(known, member, known.node().embedded, &path, unknown);
                return true;
            }
            match &node.additional {
                Additional::Schema(other) => prune(other, member, other.node().embedded, &path, unknown),
                Additional::Any | Additional::Never => {}
                Additional::Unsaid if node.preserve => {}
                Additional::Unsaid => {
                    unknown.members.push(path);
                    return false;
                }
            }
            true
        }),
        Value::Array(items) => {
            let Some(schema) = &node.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune(schema, item, schema.node().embedded, &format!("{path}[{index}]"), unknown);
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

/// Metadata is decoded into a struct and back: what the struct does not know, and what is empty, is gone. That of
/// embedded objects is there afterwards even if it was null.
fn keep_metadata(metadata: &mut Value, path: &str, unknown: &mut Unknown) -> bool {
    let mut inside = Unknown::default();
    prune(meta::schema(), metadata, false, path, &mut inside);
    unknown.metadata.append(&mut inside.members);
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
    if metadata.is_null() && path != "metadata" {
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
