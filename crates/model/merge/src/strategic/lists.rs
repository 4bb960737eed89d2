//! Merging lists.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::order::{arranged, key_text, partition};
use super::place::Place;
use super::{DELETE, DIRECTIVE, Members, REPLACE, merge_maps, unknown_type};
use crate::error::StrategicError;
use crate::go;

/// Lists up to this length are ordered by what Go leaves in their memory; longer ones by what they were.
const REUSED_MAX: usize = 1000;

/// What the items of lists are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    Maps,
    Scalars,
}

/// Merges or replaces a list that is a member of `parent`.
pub(super) fn merge_field(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: Place<'_>,
    parent: Place<'_>,
    deletes: bool,
) -> Result<Vec<Value>, StrategicError> {
    let items = field.items(parent)?;
    if field.strategy()? == "merge" || deletes {
        merge(original, patch, items, field.merge_key(), deletes)
    } else {
        Ok(patch)
    }
}

fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    place: Place<'_>,
    merge_key: &str,
    deletes: bool,
) -> Result<Vec<Value>, StrategicError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if items_of(&[&original, &patch])? == Items::Scalars {
        return if deletes { Ok(without(original, &patch)) } else { merge_scalars(original, &patch, merge_key) };
    }
    if merge_key.is_empty() {
        let kind = place.go_kind();
        return Err(StrategicError::Internal(format!("cannot merge lists without merge key for {kind}")));
    }
    let (original, patch) = obey_directives(original, patch, merge_key)?;
    let merged = merge_items(original.clone(), &patch, place, merge_key)?;
    let (ours, theirs) = partition(merged, &patch, merge_key)?;
    arranged(ours, theirs, &patch, &original, merge_key, Items::Maps)
}

fn merge_scalars(original: Vec<Value>, patch: &[Value], merge_key: &str) -> Result<Vec<Value>, StrategicError> {
    let mut seen = HashSet::new();
    let both = original.iter().chain(patch).filter(|item| seen.insert(key_text(item))).cloned().collect();
    let (ours, theirs) = partition(both, patch, merge_key)?;
    let original = if patch.is_empty() { shuffled(original) } else { original };
    arranged(ours, theirs, patch, &original, merge_key, Items::Scalars)
}

/// How Go's slice of scalars looks after nothing was merged into it: repeated ones were overwritten by the last.
pub(super) fn shuffled(mut items: Vec<Value>) -> Vec<Value> {
    if items.len() > REUSED_MAX {
        return items;
    }
    let mut length = items.len();
    let mut at = 0;
    while at < length {
        let mut other = at + 1;
        while other < length {
            if items[at] == items[other] {
                length -= 1;
                items[other] = items[length].clone();
            } else {
                other += 1;
            }
        }
        at += 1;
    }
    items
}

/// How Go's slice of maps looks after a patch was merged into it: items are deleted from it and added to it while it
/// still serves as the order to keep.
pub(super) fn reused(original: &[Value], patch: &[Value], merge_key: &str) -> Vec<Value> {
    if original.len().max(patch.len()) > REUSED_MAX {
        return original.to_vec();
    }
    let mut slots: Vec<&Value> = original.iter().collect();
    let mut length = slots.len();
    let is_deleted = |item: &&Value| item.get(DIRECTIVE).is_some_and(|word| word == DELETE);
    for deleted in patch.iter().filter(is_deleted).filter_map(|item| item.get(merge_key)) {
        while let Some(at) = slots[..length].iter().position(|item| item.get(merge_key) == Some(deleted)) {
            slots.copy_within(at + 1..length, at);
            length -= 1;
        }
    }
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if slots[..length].iter().any(|slot| slot.get(merge_key) == item.get(merge_key)) {
            continue;
        }
        let Some(slot) = slots.get_mut(length) else { break };
        *slot = item;
        length += 1;
    }
    slots.into_iter().cloned().collect()
}

/// What `$deleteFromPrimitiveList` leaves.
fn without(mut items: Vec<Value>, deleted: &[Value]) -> Vec<Value> {
    let deleted: HashSet<String> = deleted.iter().map(key_text).collect();
    items.retain(|item| !deleted.contains(&key_text(item)));
    items
}

/// What the items of some lists are: all the same, and not lists.
pub(super) fn items_of(lists: &[&[Value]]) -> Result<Items, StrategicError> {
    let mut all = lists.iter().copied().flatten();
    let Some(first) = all.next() else {
        return Err(StrategicError::Internal("no elements in any of the given slices".to_owned()));
    };
    match first {
        Value::Null => return Err(StrategicError::panicked()),
        Value::Array(_) => {
            return Err(StrategicError::Unprocessable("lists of lists are not supported".to_owned()));
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {}
    }
    if all.any(|item| go::type_name(item) != go::type_name(first)) {
        let lists: Vec<String> = lists.iter().map(|list| go::plain_list(list)).collect();
        let lists = lists.join(" ");
        return Err(StrategicError::Internal(format!("list element types are not identical: [{lists}]")));
    }
    Ok(if first.is_object() { Items::Maps } else { Items::Scalars })
}

/// Does what items with `$patch` say; gives what is left of the original and of the patch.
fn obey_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut deleted = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(members) = item else { continue };
        let Some(directive) = members.get(DIRECTIVE) else {
            rest.push(Value::Object(members));
            continue;
        };
        match directive.as_str() {
            Some(DELETE) => match members.get(merge_key) {
                Some(value) => drop(deleted.insert(key_text(value))),
                None => return Err(no_merge_key(&Value::Object(members), merge_key)),
            },
            Some(REPLACE) => replace = true,
            Some("merge") => {
                let why = "merging lists cannot yet be specified in the patch";
                return Err(StrategicError::Internal(why.to_owned()));
            }
            _ => {
                let word = go::text(directive);
                return Err(unknown_type(&word, members));
            }
        }
    }
    if replace {
        return Ok((rest, Vec::new()));
    }
    let kept = |item: &Value| item.get(merge_key).is_none_or(|value| !deleted.contains(&key_text(value)));
    original.retain(kept);
    Ok((original, rest))
}

/// Merges each item of the patch with the first of the original that has the same key, or adds it.
fn merge_items(
    mut original: Vec<Value>,
    patch: &[Value],
    place: Place<'_>,
    merge_key: &str,
) -> Result<Vec<Value>, StrategicError> {
    let mut places: HashMap<String, usize> = HashMap::new();
    for (at, item) in original.iter().enumerate() {
        if let Some(value) = item.get(merge_key) {
            places.entry(key_text(value)).or_insert(at);
        }
    }
    for item in patch {
        let Some(value) = item.get(merge_key) else { return Err(no_merge_key(item, merge_key)) };
        match places.get(&key_text(value)).and_then(|at| original.get_mut(*at)) {
            Some(slot) => {
                let members = slot.as_object_mut().map(std::mem::take).unwrap_or_default();
                let changes: Members = item.as_object().cloned().unwrap_or_default();
                *slot = Value::Object(merge_maps(members, changes, place)?);
            }
            None => {
                places.insert(key_text(value), original.len());
                original.push(item.clone());
            }
        }
    }
    let keys = patch.iter().filter_map(|item| item.get(merge_key));
    if keys.into_iter().any(|value| value.is_object() || value.is_array()) {
        return Err(StrategicError::panicked());
    }
    Ok(original)
}

pub(super) fn no_merge_key(item: &Value, merge_key: &str) -> StrategicError {
    let item = go::plain(item);
    StrategicError::Internal(format!("map: {item} does not contain declared merge key: {merge_key}"))
}
