//! What rules know of a value: types and greatest sizes, from its schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use concert_cel::{Declared, Field, ListKind, Shape, Type, escape};

use crate::schema::{Additional, Kind, ListType, Node, Schema};

/// The largest request.
pub(super) const LARGEST: u64 = 3 << 20;

/// What a value of this schema looks like to rules; `None` if they cannot see it.
pub(super) fn declared(schema: &Schema, root: bool) -> Option<Declared> {
    let node = schema.node();
    if node.int_or_string {
        let most = size(node.limits().sizes.max_length).map_or(LARGEST - 2, |most| most.saturating_mul(4));
        return Some(Declared::simple(Type::Dyn, most, 1));
    }
    match node.kind? {
        Kind::Array => {
            let items = child(node.items.as_ref()?)?;
            let most = size(node.limits().sizes.max_items).unwrap_or((LARGEST - 2) / (items.least_bytes + 1));
            let kind = match &node.list_type {
                Some(ListType::Set) => ListKind::Set,
                Some(ListType::Map(keys)) => {
                    ListKind::Map(keys.iter().map(|key| escape(key).unwrap_or_else(|| key.clone())).collect())
                }
                Some(ListType::Atomic) | None => ListKind::Atomic,
            };
            Some(Declared::list(items, kind, most))
        }
        Kind::Object => match &node.additional {
            Additional::Schema(values) if !root => {
                let values = child(values)?;
                let most = size(node.limits().sizes.max_properties).unwrap_or((LARGEST - 2) / (values.least_bytes + 6));
                Some(Declared::map(values, most))
            }
            _ => Some(object(node, root)),
        },
        Kind::String => Some(text(node)),
        Kind::Boolean => Some(Declared::simple(Type::Bool, 0, 4)),
        Kind::Number => Some(Declared::simple(Type::Double, 0, 1)),
        Kind::Integer => Some(Declared::simple(Type::Int, 0, 1)),
    }
}

fn child(schema: &Schema) -> Option<Declared> {
    declared(schema, schema.node().embedded)
}

fn size(of: Option<i64>) -> Option<u64> {
    of.map(|of| u64::try_from(of).unwrap_or(0))
}

fn object(node: &Node, root: bool) -> Declared {
    let mut fields = BTreeMap::new();
    let mut least_bytes = 2;
    for (name, property) in node.properties.iter() {
        let Some(declared) = child(property) else { continue };
        if node.required.iter().any(|one| one == name) && property.node().default.is_none() {
            least_bytes += u64::try_from(name.len()).unwrap_or(0) + declared.least_bytes + 4;
        }
        if let Some(escaped) = escape(name) {
            fields.insert(escaped, Field { name: name.to_owned(), declared: Arc::new(declared) });
        }
    }
    if root && !says_its_metadata(node) {
        add_metadata(&mut fields);
    }
    Declared { shape: Shape::Object(fields), most: 0, least_bytes }
}

/// Whether the schema names everything that rules may always see.
fn says_its_metadata(node: &Node) -> bool {
    let is = |schema: Option<&Schema>, kind: Kind| schema.is_some_and(|schema| schema.kind() == Some(kind));
    let metadata = node.properties.get("metadata");
    let in_metadata = |name: &str| metadata.and_then(|metadata| metadata.node().properties.get(name));
    is(node.properties.get("kind"), Kind::String)
        && is(node.properties.get("apiVersion"), Kind::String)
        && is(metadata, Kind::Object)
        && is(in_metadata("name"), Kind::String)
        && is(in_metadata("generateName"), Kind::String)
}

/// Kind, version and name are visible in every object.
fn add_metadata(fields: &mut BTreeMap<String, Field>) {
    let text = || Arc::new(Declared::simple(Type::String, LARGEST - 2, 2));
    let field = |name: &str, declared| (name.to_owned(), Field { name: name.to_owned(), declared });
    let metadata = [field("name", text()), field("generateName", text())];
    let metadata = Declared { shape: Shape::Object(metadata.into()), most: 0, least_bytes: 2 };
    fields.extend([field("kind", text()), field("apiVersion", text()), field("metadata", Arc::new(metadata))]);
}

fn text(node: &Node) -> Declared {
    let longest = size(node.limits().sizes.max_length);
    match &*node.format_name {
        "byte" => Declared::simple(Type::Bytes, longest.unwrap_or(LARGEST - 2), 2),
        "duration" => Declared::simple(Type::Duration, 32, 3),
        "date" => Declared::simple(Type::Timestamp, 12, 12),
        "date-time" => Declared::simple(Type::Timestamp, 32, 21),
        _ => {
            let choices = node.limits().choices.iter().filter_map(|choice| choice.as_str()).map(str::len);
            let most = match longest {
                Some(longest) => longest.saturating_mul(4),
                None if node.limits().choices.is_empty() => LARGEST - 2,
                None => u64::try_from(choices.max().unwrap_or(0)).unwrap_or(LARGEST),
            };
            Declared::simple(Type::String, most, 2)
        }
    }
}
