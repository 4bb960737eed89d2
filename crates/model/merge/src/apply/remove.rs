//! Taking fields out of an object.

use serde_json::Value;

use super::identity::Identity;
use super::types::{Choice, Relation, Type};
use crate::fields::FieldSet;

/// Removes the fields and items that are in a set. What loses all it had becomes null, as in the real server.
pub(crate) fn remove(kind: Type<'_>, value: &mut Value, set: &FieldSet) {
    match kind.choose(value) {
        Choice::Scalar => {}
        Choice::Map | Choice::Open => remove_members(kind, value, set),
        Choice::List => remove_items(kind, value, set),
        Choice::Nothing => *value = Value::Null,
    }
}

fn remove_members(kind: Type<'_>, value: &mut Value, set: &FieldSet) {
    if let (Some(map), Value::Object(members)) = (kind.map(), &mut *value)
        && !map.atomic
    {
        members.retain(|name, member| {
            let Some(node) = set.field(name) else { return true };
            if !node.member && !node.below.is_empty() {
                remove(map.member(name).kind, member, &node.below);
            }
            !node.member
        });
        if !members.is_empty() {
            return;
        }
    }
    *value = Value::Null;
}

fn remove_items(kind: Type<'_>, value: &mut Value, set: &FieldSet) {
    if let (Some(list), Value::Array(items)) = (kind.list(), &mut *value)
        && !matches!(list.relation, Relation::Atomic)
    {
        items.retain_mut(|item| {
            let element = Identity::of(&list, item).map(|identity| identity.element());
            let Some(node) = element.ok().and_then(|element| set.node(&element)) else { return true };
            if !node.member && !node.below.is_empty() {
                remove(list.item, item, &node.below);
            }
            !node.member
        });
        if !items.is_empty() {
            return;
        }
    }
    *value = Value::Null;
}
