//! Random structural schemas: all types of lists and maps, defaults, nulls, and places where anything is allowed.

use serde_json::{Map, Value, json};

use crate::Dice;

/// The properties of an object: `spec` and `status`.
pub(super) fn properties(dice: &mut Dice) -> Value {
    let depth = 2 + dice.below(2);
    let mut spec = structure(dice, depth);
    spec["properties"]["replicas"] = json!({"type": "integer"});
    json!({"spec": spec, "status": structure(dice, 1)})
}

/// The properties with one field of the spec gone and one more: those of another version.
pub(super) fn other_properties(dice: &mut Dice, properties: &Value) -> Value {
    let mut other = properties.clone();
    if let Some(spec) = other["spec"]["properties"].as_object_mut() {
        spec.remove(*dice.pick(&["a", "b", "c"]));
        spec.insert("e".to_owned(), schema(dice, 1));
    }
    other
}

fn structure(dice: &mut Dice, depth: u64) -> Value {
    let count = 1 + dice.place(4);
    let mut properties = Map::new();
    for name in ["a", "b", "c", "d"].iter().take(count) {
        let mut schema = schema(dice, depth.saturating_sub(1));
        if dice.one_in(6) {
            schema["nullable"] = true.into();
        }
        properties.insert((*name).to_owned(), schema);
    }
    json!({"type": "object", "properties": properties})
}

fn schema(dice: &mut Dice, depth: u64) -> Value {
    if depth == 0 || dice.one_in(4) {
        return scalar(dice);
    }
    match dice.below(10) {
        0 | 1 => structure(dice, depth),
        2 => {
            let mut schema = structure(dice, depth);
            schema["x-kubernetes-map-type"] = (*dice.pick(&["atomic", "granular"])).into();
            schema
        }
        3 => {
            let schema = structure(dice, depth);
            with_default(dice, schema, &json!({}))
        }
        4 => map(dice, depth),
        5 => list(dice, depth),
        6 => set(dice),
        7 | 8 => keyed(dice, depth),
        _ => free(dice, depth),
    }
}

fn scalar(dice: &mut Dice) -> Value {
    let (schema, default) = match dice.below(8) {
        0 => (json!({"type": "integer"}), json!(1)),
        1 => (json!({"type": "boolean"}), json!(true)),
        2 => (json!({"type": "number"}), json!(1.5)),
        3 => (json!({"x-kubernetes-int-or-string": true}), json!("50%")),
        4 => (json!({"type": "string", "format": "date-time"}), json!("2020-01-01T00:00:00Z")),
        _ => (json!({"type": "string"}), json!("x")),
    };
    with_default(dice, schema, &default)
}

/// At times the schema has a default.
fn with_default(dice: &mut Dice, mut schema: Value, default: &Value) -> Value {
    if dice.one_in(6) {
        schema["default"] = default.clone();
    }
    schema
}

fn map(dice: &mut Dice, depth: u64) -> Value {
    let mut map = json!({"type": "object", "additionalProperties": schema(dice, depth - 1)});
    if dice.one_in(4) {
        map["x-kubernetes-map-type"] = "atomic".into();
    }
    map
}

fn list(dice: &mut Dice, depth: u64) -> Value {
    let mut list = json!({"type": "array", "items": schema(dice, depth - 1)});
    if dice.one_in(2) {
        list["x-kubernetes-list-type"] = "atomic".into();
    }
    list
}

fn set(dice: &mut Dice) -> Value {
    let kind = *dice.pick(&["string", "integer"]);
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": kind}});
    let default = if kind == "string" { json!(["x"]) } else { json!([1]) };
    with_default(dice, set, &default)
}

/// A list whose items have one key, or a second one with a default.
fn keyed(dice: &mut Dice, depth: u64) -> Value {
    let mut items = structure(dice, depth);
    let mut keys = vec!["k"];
    let (kind, default) = if dice.one_in(3) { ("integer", json!(1)) } else { ("string", json!("x")) };
    items["properties"]["k"] = json!({"type": kind});
    if dice.one_in(2) {
        keys.push("l");
        items["properties"]["l"] = json!({"type": "string", "default": "x"});
    }
    if dice.one_in(4) {
        items["properties"]["k"]["default"] = default;
    } else {
        items["required"] = json!(["k"]);
    }
    json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items})
}

/// Where there may be more than is known.
fn free(dice: &mut Dice, depth: u64) -> Value {
    let anything = "x-kubernetes-preserve-unknown-fields";
    match dice.below(5) {
        0 => json!({anything: true}),
        1 => json!({"type": "object", anything: true}),
        2 => json!({"type": "object"}),
        3 => json!({"type": "object", "x-kubernetes-embedded-resource": true, anything: true}),
        _ => {
            let mut schema = structure(dice, depth);
            schema[anything] = true.into();
            schema
        }
    }
}
