//! Which fields an object has, and adapting sets of them to a schema.

use std::collections::BTreeMap;

use serde_json::Value;

use super::identity::Identity;
use super::types::{Choice, ListOf, MapType, Relation, Type};
use crate::fields::{Element, FieldSet, Node};

/// Every leaf, every item and every entry of an object.
pub(crate) fn owned(kind: Type<'_>, value: &Value) -> FieldSet {
    collect(kind, value).1
}

/// Whether the value itself counts as a leaf, and what is below it.
fn collect(kind: Type<'_>, value: &Value) -> (bool, FieldSet) {
    match kind.choose(value) {
        Choice::Scalar => (true, FieldSet::default()),
        Choice::Nothing => (false, FieldSet::default()),
        Choice::List => match (kind.list(), value) {
            (Some(list), _) if matches!(list.relation, Relation::Atomic) => (true, FieldSet::default()),
            (Some(list), Value::Array(items)) => (false, of_items(&list, items)),
            _ => (false, FieldSet::default()),
        },
        Choice::Map | Choice::Open => match (kind.map(), value) {
            (Some(map), _) if map.atomic => (true, FieldSet::default()),
            (Some(map), Value::Object(members)) => (false, of_members(map, members)),
            _ => (false, FieldSet::default()),
        },
    }
}

fn of_members(map: MapType<'_>, members: &serde_json::Map<String, Value>) -> FieldSet {
    let nodes = members.iter().map(|(name, value)| {
        let member = map.member(name);
        let (leaf, below) = collect(member.kind, value);
        let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        Node { element: Element::field(name), member: leaf || empty || !member.named, below }
    });
    FieldSet::from_nodes(nodes.collect())
}

/// Items of one identity are owned as a unit.
fn of_items(list: &ListOf<'_>, items: &[Value]) -> FieldSet {
    let mut unique: BTreeMap<Identity<'_>, Option<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(identity) = Identity::of(list, item) {
            unique.entry(identity).and_modify(|item| *item = None).or_insert(Some(item));
        }
    }
    let nodes = unique.into_iter().map(|(identity, item)| {
        let below = item.map(|item| collect(list.item, item).1).unwrap_or_default();
        Node { element: identity.element(), member: true, below }
    });
    FieldSet::from_nodes(nodes.collect())
}

/// Makes members of the named fields that a set goes through: who owns something in `spec` then owns `spec`.
pub(crate) fn own_named(set: &mut FieldSet, kind: Type<'_>) {
    let (map, list) = (kind.map(), kind.list());
    for node in set.nodes_mut() {
        if node.below.is_empty() {
            continue;
        }
        let below = match (&node.element, map, list) {
            (Element::Field(name), Some(map), _) => {
                let member = map.member(name);
                node.member |= member.named;
                member.kind
            }
            (Element::Key(_), _, Some(list)) => list.item,
            _ => Type::Undeclared,
        };
        own_named(&mut node.below, below);
    }
}

/// Adapts a stored set to a schema that has changed: of what is a whole now, only the whole is owned.
pub(crate) fn adapt(set: &mut FieldSet, kind: Type<'_>) {
    let (map, item) = match kind.first_choice() {
        Choice::Map | Choice::Open => (kind.map().filter(|map| !map.is_free()), None),
        Choice::List => (None, kind.list().map(|list| list.item)),
        Choice::Scalar | Choice::Nothing => (None, None),
    };
    for node in set.nodes_mut() {
        if node.below.is_empty() {
            continue;
        }
        let below = match (&node.element, map, item) {
            (Element::Field(name), Some(map), _) => map.member(name).kind,
            (_, Some(map), _) => map.others(),
            (_, None, Some(item)) => item,
            (_, None, None) => return,
        };
        if is_whole(below) {
            node.member = true;
            node.below = FieldSet::default();
        } else {
            adapt(&mut node.below, below);
        }
    }
}

fn is_whole(kind: Type<'_>) -> bool {
    match kind.first_choice() {
        Choice::Map | Choice::Open => kind.map().is_some_and(|map| map.atomic && !map.is_free()),
        Choice::List => kind.list().is_some_and(|list| matches!(list.relation, Relation::Atomic)),
        Choice::Scalar | Choice::Nothing => false,
    }
}
