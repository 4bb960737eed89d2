//! Directives in strategic patches.

use serde_json::{Map, Value, json};

use super::shape::{Form, Items, Shape};
use crate::Dice;

/// The value as a strategic patch, with a directive here and there.
pub(super) fn directed(dice: &mut Dice, value: &Value, shape: Option<&Shape>) -> Value {
    match value {
        Value::Object(members) => object(dice, members, shape),
        Value::Array(items) => list(dice, items, shape),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn object(dice: &mut Dice, members: &Map<String, Value>, shape: Option<&Shape>) -> Value {
    let mut patch = Map::new();
    for (name, member) in members {
        let shape = shape.and_then(|shape| shape.member(name));
        if let (Some(key), Value::Array(items)) = (shape.and_then(key), member)
            && dice.one_in(5)
        {
            let order: Vec<Value> = items.iter().map(|item| json!({key: item[key]})).collect();
            patch.insert(format!("$setElementOrder/{name}"), order.into());
        }
        if name == "finalizers" && dice.one_in(2) {
            patch.insert(format!("$deleteFromPrimitiveList/{name}"), member.clone());
        } else {
            patch.insert(name.clone(), directed(dice, member, shape));
        }
    }
    match dice.below(40) {
        0 => _ = patch.insert("$patch".to_owned(), (*dice.pick(&["replace", "delete", "merge", "odd"])).into()),
        1 => {
            let names: Vec<&String> = members.keys().take(1 + dice.place(members.len().max(1))).collect();
            patch.insert("$retainKeys".to_owned(), json!(names));
        }
        _ => {}
    }
    patch.into()
}

fn list(dice: &mut Dice, items: &[Value], shape: Option<&Shape>) -> Value {
    let inner = match shape.map(|shape| &shape.form) {
        Some(Form::List(inner, _)) => Some(&**inner),
        _ => None,
    };
    let key = shape.and_then(key);
    let mut list: Vec<Value> = Vec::new();
    for item in items {
        list.push(match key {
            Some(key) if dice.one_in(6) => json!({key: item[key], "$patch": "delete"}),
            _ => directed(dice, item, inner),
        });
    }
    if key.is_some() && dice.one_in(12) {
        list.insert(0, json!({"$patch": "replace"}));
    }
    list.into()
}

/// The first key of a list.
fn key(shape: &Shape) -> Option<&str> {
    match &shape.form {
        Form::List(_, Items::Keyed(keys)) => keys.first().map(|(key, _)| key.as_str()),
        _ => None,
    }
}
