//! Sets and maps written as lists: no item twice.

use std::collections::BTreeMap;

use concert_api::{Fault, FieldError, FieldErrors};
use serde_json::{Map, Value};

use super::{ListType, Schema, member_path};

/// Reports each repeated item once, where it is repeated first. A list that is as it was before is not judged.
pub(super) fn check(schema: &Schema, value: &Value, old: Option<&Value>, path: &str, errors: &mut FieldErrors) {
    if old == Some(value) {
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(schema) = schema.member(name) {
                    let old = old.and_then(|old| old.get(name));
                    check(schema, member, old, &member_path(path, name), errors);
                }
            }
        }
        Value::Array(items) => {
            check_list(schema, items, path, errors);
            let Some(child) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                let old = counterpart(schema, item, old);
                check(child, item, old, &format!("{path}[{index}]"), errors);
            }
        }
        _ => {}
    }
}

fn check_list(schema: &Schema, items: &[Value], path: &str, errors: &mut FieldErrors) {
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
    let members = item.as_object()?;
    let present = keys.iter().filter_map(|key| Some((key.clone(), members.get(key)?.clone())));
    Some(Value::Object(present.collect::<Map<_, _>>()))
}

/// The item of an old map list with the same keys.
pub(super) fn counterpart<'a>(schema: &Schema, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let Some(ListType::Map(keys)) = schema.list_type() else { return None };
    let identity = keys_of(item, keys)?;
    old?.as_array()?.iter().find(|other| keys_of(other, keys).as_ref() == Some(&identity))
}
