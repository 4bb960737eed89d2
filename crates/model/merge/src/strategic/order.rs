//! The order of merged lists: what `$setElementOrder` says, then that of the patch, then that of the original.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::lists::{Items, items_of, merge_field, no_merge_key, reused, shuffled};
use super::place::Place;
use super::{DELETE, DIRECTIVE, Members, SET_ORDER, list_of, without_directives};
use crate::error::StrategicError;
use crate::go;

/// Lists of up to this many items are sorted by insertion in Go: it shows where the order does not know an item.
const INSERTION_MAX: usize = 20;

/// Merges the lists whose order the patch sets, and takes them out of the patch.
pub(super) fn set_orders(original: &mut Members, patch: &mut Members, place: Place<'_>) -> Result<(), StrategicError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for key in directives {
        let Some(order) = patch.remove(&key) else { continue };
        let order = list(Some(order))?;
        let Some(name) = list_of(&key, SET_ORDER) else {
            return Err(StrategicError::BadRequest("invalid patch format of setElementOrder list".to_owned()));
        };
        let (known, changed) = (original.contains_key(name), patch.contains_key(name));
        let old = list(original.get(name).cloned())?;
        let changes = list(patch.get(name).cloned())?;
        let field = place.field(name)?;
        let _ = (field.items(place)?, field.strategy()?);
        check_order(&changes, &order, field.merge_key())?;
        let merged = match (known, changed) {
            (false, false) => continue,
            (true, false) => old.clone(),
            (false, true) => changes.iter().cloned().filter_map(without_directives).collect(),
            (true, true) => merge_field(old.clone(), changes.clone(), field, place, false)?,
        };
        let merge_key = field.merge_key();
        let (ours, theirs) = partition(merged, &order, merge_key)?;
        let items = items_of(&[&old, &changes])?;
        let old = match items {
            _ if !known || !changed || field.strategy()? != "merge" => old,
            Items::Maps => reused(&old, &changes, merge_key),
            Items::Scalars if changes.is_empty() => shuffled(old),
            Items::Scalars => old,
        };
        let arranged = arranged(ours, theirs, &order, &old, merge_key, items)?;
        original.insert(name.to_owned(), Value::Array(arranged));
        patch.remove(name);
    }
    Ok(())
}

fn list(value: Option<Value>) -> Result<Vec<Value>, StrategicError> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(bad_type("[]interface {}", &other)),
    }
}

fn bad_type(expected: &str, found: &Value) -> StrategicError {
    let found = go::type_name(found);
    StrategicError::Internal(format!("expected a {expected}, but received a {found}"))
}

/// The patch may have nothing that the order does not have, and must have it in the same order.
fn check_order(patch: &[Value], order: &[Value], merge_key: &str) -> Result<(), StrategicError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::with_capacity(patch.len());
    for item in patch {
        match item {
            Value::Object(members)
                if members.get(DIRECTIVE).is_some_and(|word| word == DELETE) && !merge_key.is_empty() => {}
            Value::Object(_) => kept.push(item),
            other if !merge_key.is_empty() => return Err(bad_type("map[string]interface {}", other)),
            _ => kept.push(item),
        }
    }
    // As Go walks them: a directive is stepped over only while there is order left.
    let (mut at, mut next) = (0, 0);
    while at < kept.len() && next < order.len() {
        if kept[at].get(DIRECTIVE).is_some() {
            at += 1;
            continue;
        }
        if same_key(kept[at], &order[next], merge_key)? {
            at += 1;
        }
        next += 1;
    }
    if at < kept.len() {
        let (patch, order) = (go::plain_list(patch), go::plain_list(order));
        return Err(StrategicError::Internal(format!(
            "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"
        )));
    }
    Ok(())
}

fn same_key(left: &Value, right: &Value, merge_key: &str) -> Result<bool, StrategicError> {
    if merge_key.is_empty() {
        return same(left, right);
    }
    let key = |item: &'_ Value| match item {
        Value::Object(members) => members.get(merge_key).cloned().ok_or_else(|| no_merge_key(item, merge_key)),
        other => Err(bad_type("map[string]interface {}", other)),
    };
    same(&key(left)?, &key(right)?)
}

/// Go cannot compare two objects or two lists.
fn same(left: &Value, right: &Value) -> Result<bool, StrategicError> {
    let panics = (left.is_object() && right.is_object()) || (left.is_array() && right.is_array());
    if panics { Err(StrategicError::panicked()) } else { Ok(left == right) }
}

/// A value as something to look up.
pub(super) fn key_text(value: &Value) -> String {
    value.to_string()
}

/// Splits a list into the items that another one has, and the rest.
pub(super) fn partition(
    items: Vec<Value>,
    by: &[Value],
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    if merge_key.is_empty() {
        if by.iter().chain(&items).any(|item| item.is_object() || item.is_array()) {
            return Err(StrategicError::panicked());
        }
        let known: HashSet<String> = by.iter().map(key_text).collect();
        return Ok(items.into_iter().partition(|item| known.contains(&key_text(item))));
    }
    for item in &items {
        match item {
            Value::Object(members) if members.contains_key(merge_key) => {}
            Value::Object(_) => return Err(no_merge_key(item, merge_key)),
            other => return Err(bad_type("map[string]interface {}", other)),
        }
    }
    if !items.is_empty()
        && let Some(at) = by.iter().position(|item| !item.is_object())
    {
        return Err(StrategicError::Internal(format!("value for key {at} is not a map")));
    }
    let known: HashSet<String> = by.iter().filter_map(|item| item.get(merge_key)).map(key_text).collect();
    let is_known = |item: &Value| item.get(merge_key).is_some_and(|value| known.contains(&key_text(value)));
    Ok(items.into_iter().partition(is_known))
}

/// Sorts the items of the patch by its order and those of the server by its own, then puts them together: each of the
/// server's before the first of the patch that came after it on the server.
pub(super) fn arranged(
    patch: Vec<Value>,
    server: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    merge_key: &str,
    items: Items,
) -> Result<Vec<Value>, StrategicError> {
    if items == Items::Maps {
        for item in [&patch, patch_order, &server, server_order].into_iter().flatten() {
            match item {
                Value::Object(members) if members.contains_key(merge_key) => {}
                Value::Object(_) => return Err(no_merge_key(item, merge_key)),
                other => return Err(bad_type("map[string]interface {}", other)),
            }
        }
    }
    let of_patch = Ranks::new(patch_order, merge_key, items);
    let of_server = Ranks::new(server_order, merge_key, items);
    let mut patch = of_patch.sort(patch).into_iter().peekable();
    let mut all = Vec::with_capacity(patch.len() + server.len());
    for item in of_server.sort(server) {
        let rank = of_server.of(&item);
        // What is not known on both sides goes behind all that is left of the patch.
        let goes_first = |next: &Value| matches!((rank, of_server.of(next)), (Some(own), Some(next)) if own < next);
        while let Some(next) = patch.next_if(|next| !goes_first(next)) {
            all.push(next);
        }
        all.push(item);
    }
    all.extend(patch);
    Ok(all)
}

/// Where items stand in a list.
struct Ranks<'a> {
    places: HashMap<String, usize>,
    merge_key: &'a str,
    items: Items,
}

impl<'a> Ranks<'a> {
    fn new(order: &[Value], merge_key: &'a str, items: Items) -> Self {
        let mut ranks = Self { places: HashMap::with_capacity(order.len()), merge_key, items };
        for (at, item) in order.iter().enumerate() {
            let key = ranks.key(item);
            ranks.places.entry(key).or_insert(at);
        }
        ranks
    }

    fn key(&self, item: &Value) -> String {
        match self.items {
            Items::Maps => key_text(item.get(self.merge_key).unwrap_or(&Value::Null)),
            Items::Scalars => key_text(item),
        }
    }

    fn of(&self, item: &Value) -> Option<usize> {
        self.places.get(&self.key(item)).copied()
    }

    fn sort(&self, items: Vec<Value>) -> Vec<Value> {
        let mut ranked: Vec<(Option<usize>, Value)> = items.into_iter().map(|item| (self.of(&item), item)).collect();
        if ranked.len() > INSERTION_MAX || ranked.iter().all(|(rank, _)| rank.is_some()) {
            ranked.sort_by_key(|(rank, _)| *rank);
        } else {
            let is_less = |left: Option<usize>, right: Option<usize>| match (left, right) {
                (Some(left), Some(right)) => left < right,
                _ => true,
            };
            for from in 1..ranked.len() {
                let mut at = from;
                while at > 0 && is_less(ranked[at].0, ranked[at - 1].0) {
                    ranked.swap(at, at - 1);
                    at -= 1;
                }
            }
        }
        ranked.into_iter().map(|(_, item)| item).collect()
    }
}
