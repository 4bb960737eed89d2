//! Sets and maps written as lists: no item twice.

use std::collections::BTreeMap;

use concert_api::{Fault, FieldError, FieldErrors};
use serde_json::{Map, Value};

use super::{ListType, Schema, member_path};

/// Reports each repeated item once, where it is repeated first.
pub(super) fn check(schema: &Schema, value: &Value, path: &str, errors: &mut FieldErrors) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(schema) = schema.property(name) {
                    check(schema, member, &member_path(path, name), errors);
                } else if let Some(schema) = schema.member(name) {
                    check(schema, member, &format!("{path}[{name}]"), errors);
                }
            }
        }
        Value::Array(items) => {
            check_list(schema, items, path, errors);
            let Some(child) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                check(child, item, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

fn check_list(schema: &Schema, items: &[Value], path: &str, errors: &mut FieldErrors) {
    if let Some(ListType::Map(_)) = schema.list_type()
        && let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null())
    {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(format!("{path}[{index}]"), items[index].clone(), detail));
        return;
    }
    let identity: &dyn Fn(&Value) -> Option<Value> = match schema.list_type() {
        Some(ListType::Set) => &|item| Some(item.clone()),
        Some(ListType::Map(keys)) => &|item| keys_of(item, keys),
        Some(ListType::Atomic) | None => return,
    };
    let mut seen: BTreeMap<String, bool> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        let Some(identity) = identity(item) else { continue };
        match seen.get_mut(&identity.to_string()) {
            Some(reported) => {
                if !*reported {
                    *reported = true;
                    errors.push(FieldError::new(format!("{path}[{index}]"), Fault::Duplicate(identity), ""));
                }
            }
            None => drop(seen.insert(identity.to_string(), false)),
        }
    }
}

/// The members that identify an item of a map list.
fn keys_of(item: &Value, keys: &[String]) -> Option<Value> {
    let present = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    (item.is_object() || item.is_null()).then(|| Value::Object(present.collect::<Map<_, _>>()))
}

/// The items of an old map list by their keys: found at once, however many there are.
pub(super) struct Counterparts<'s, 'v> {
    keys: &'s [String],
    items: BTreeMap<String, &'v Value>,
}

impl<'s, 'v> Counterparts<'s, 'v> {
    /// Of the list that stood where a list of this schema stands; of other lists no item has one.
    pub(super) fn new(schema: &'s Schema, old: Option<&'v Value>) -> Self {
        let Some(ListType::Map(keys)) = schema.list_type() else { return Self { keys: &[], items: BTreeMap::new() } };
        let mut items = BTreeMap::new();
        for item in old.and_then(Value::as_array).into_iter().flatten() {
            if let Some(identity) = keys_of(item, keys) {
                // Of several the first counts.
                items.entry(identity.to_string()).or_insert(item);
            }
        }
        Self { keys, items }
    }

    /// The old item with the same keys.
    pub(super) fn of(&self, item: &Value) -> Option<&'v Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&keys_of(item, self.keys)?.to_string()).copied()
    }
}

/// Whether a value is as it was, the way the real server compares: the order of a map list does not matter, and an
/// object with members that the schema does not know is never the same.
pub(super) fn unchanged(schema: &Schema, value: &Value, old: &Value) -> bool {
    match (value, old) {
        (Value::Object(members), Value::Object(before)) => {
            let same = |(name, member): (&String, &Value)| match (schema.member(name), before.get(name)) {
                (Some(schema), Some(before)) => unchanged(schema, member, before),
                _ => false,
            };
            members.len() == before.len() && members.iter().all(same)
        }
        (Value::Array(items), Value::Array(before)) => match (schema.list_type(), schema.items()) {
            (Some(ListType::Map(_)), Some(child)) => {
                let counterparts = Counterparts::new(schema, Some(old));
                let same = |item: &Value| counterparts.of(item).is_some_and(|before| unchanged(child, item, before));
                items.len() == before.len() && items.iter().all(same)
            }
            _ => items == before,
        },
        _ => value == old,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Twenty thousand items are looked up, not searched for: otherwise this test takes minutes.
    #[test]
    fn long_map_lists_are_compared_at_once() {
        let source = json!({"type": "object", "properties": {"list": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "size": {"type": "integer"},
            }},
        }}});
        let schema = Schema::compile(&source, "spec").unwrap();
        let item = |number: usize| json!({"name": format!("n{number}"), "size": number});
        let old = json!({"list": (0..20_000).map(item).collect::<Vec<_>>()});
        let mut new = json!({"list": (0..20_000).rev().map(item).collect::<Vec<_>>()});
        assert!(unchanged(&schema, &new, &old), "the order does not matter");
        assert_eq!(schema.validate_update(&new, &old), []);
        new["list"][7]["size"] = "large".into();
        assert!(!unchanged(&schema, &new, &old));
        assert_eq!(schema.validate_update(&new, &old).len(), 1);
    }
}
