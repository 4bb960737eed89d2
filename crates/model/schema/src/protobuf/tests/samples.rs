//! An object of every kind with something in every field, written as clients write it, read, and damaged at will.

use serde_json::{Map, Value, json};

use super::{enveloped, field, varint};
use crate::builtin::builtins;
use crate::builtin::data::{self, Special, Type};
use crate::protobuf::{Encoder, to_json};

/// How deep samples go: schemas have schemas.
const DEPTH: usize = 9;

/// Something of a type, in JSON and on the wire behind a tag.
fn sample(kind: Type, number: usize, depth: usize) -> (Value, Vec<u8>) {
    let text = |bytes: &str| field(number, bytes.as_bytes());
    match kind {
        Type::List(inner) => {
            let (value, bytes) = sample(Type::read(inner), number, depth);
            (json!([value, value]), [bytes.clone(), bytes].concat())
        }
        Type::Listed(inner) => {
            let (value, bytes) = sample(Type::read(inner), 1, depth);
            (json!([value]), field(number, &bytes))
        }
        Type::Map(inner) => {
            let (value, bytes) = sample(Type::read(inner), 2, depth);
            (json!({"k": value}), field(number, &[field(1, b"k"), bytes].concat()))
        }
        Type::Text(_) => ("t".into(), text("t")),
        Type::Bool(_) => (true.into(), [varint(number << 3), varint(1)].concat()),
        Type::Int32(_) | Type::Int64(_) => (7.into(), [varint(number << 3), varint(7)].concat()),
        Type::Double => (0.5.into(), [varint(number << 3 | 1), 0.5_f64.to_le_bytes().to_vec()].concat()),
        Type::Bytes => ("AAE=".into(), field(number, b"\x00\x01")),
        Type::Special(special) => {
            let (value, bytes) = special_sample(special, depth);
            (value, field(number, &bytes))
        }
        Type::Struct(name) => {
            let (value, bytes) = message(name, depth + 1);
            (value.into(), field(number, &bytes))
        }
    }
}

fn special_sample(special: Special, depth: usize) -> (Value, Vec<u8>) {
    let seconds = [varint(1 << 3), varint(1)].concat();
    let schema = || message("apiextensions.v1.JSONSchemaProps", depth + 1);
    match special {
        Special::Time => ("1970-01-01T00:00:01Z".into(), seconds),
        Special::MicroTime => ("1970-01-01T00:00:01.000005Z".into(), [seconds, varint(2 << 3), varint(5000)].concat()),
        Special::Duration => ("1s".into(), [varint(1 << 3), varint(1_000_000_000)].concat()),
        Special::Fields | Special::Raw | Special::Json => (json!({"a": [1]}), field(1, b"{\"a\":[1]}")),
        Special::Quantity => ("5".into(), field(1, b"5")),
        Special::IntOrString => ("50%".into(), [varint(1 << 3), varint(1), field(3, b"50%")].concat()),
        Special::SchemaOrBool => {
            let (value, bytes) = schema();
            (value.into(), field(2, &bytes))
        }
        Special::SchemaOrArray | Special::SchemaOrStrings => {
            let (value, bytes) = schema();
            (value.into(), field(1, &bytes))
        }
    }
}

fn message(name: &str, depth: usize) -> (Map<String, Value>, Vec<u8>) {
    let (mut object, mut bytes) = (Map::new(), Vec::new());
    if depth > DEPTH {
        return (object, bytes);
    }
    for one in data::fields(name).into_iter().flatten().filter(|one| one.number > 0) {
        // A definition with everything in every schema would fill the memory.
        if depth > 5 && data::go_name(name) == "v1.JSONSchemaProps" && one.name != "not" {
            continue;
        }
        let (value, encoded) = sample(one.kind, one.number as usize, depth);
        bytes.extend(encoded);
        match value {
            Value::Object(members) if one.name.is_empty() => object.extend(members),
            value => drop(object.insert(one.name.to_owned(), value)),
        }
    }
    (object, bytes)
}

/// Every kind, with its apiVersion and its kind.
fn samples() -> impl Iterator<Item = (String, String, Value, Vec<u8>)> {
    builtins().iter().map(|builtin| {
        let (mut object, bytes) = message(builtin.schema_name, 0);
        object.insert("apiVersion".to_owned(), builtin.gvk.api_version().into());
        object.insert("kind".to_owned(), builtin.gvk.kind.clone().into());
        (builtin.gvk.api_version(), builtin.gvk.kind.clone(), object.into(), bytes)
    })
}

#[test]
fn every_kind_is_read_with_every_field() {
    for (version, kind, object, bytes) in samples() {
        assert_eq!(to_json(&enveloped(&version, &kind, &bytes), ("", "")), Ok(object), "{version} {kind}");
    }
}

/// There and back again.
#[test]
fn every_kind_is_written_with_every_field() {
    for (version, kind, object, _) in samples() {
        let json = object.to_string();
        let body = Encoder::new(&version, &kind).unwrap().object(json.as_bytes()).unwrap();
        let again = to_json(&body, ("", "")).unwrap();
        let rest = left(&object, again.clone());
        // What is no pointer comes back, if as nothing; nothing else does.
        assert!(rest.is_empty(), "{version} {kind}: {rest:?}");
        let body = Encoder::new(&version, &kind).unwrap().object(again.to_string().as_bytes()).unwrap();
        assert_eq!(to_json(&body, ("", "")), Ok(again), "{version} {kind}");
    }
}

/// What is in the second that is not in the first, but for what is empty or zero.
fn left(one: &Value, other: Value) -> Vec<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let gone = one.keys().filter(|name| !other.contains_key(*name)).map(|name| format!("-{name}"));
            let gone: Vec<String> = gone.collect();
            let nested = other.into_iter().flat_map(|(name, value)| match one.get(&name) {
                Some(known) => left(known, value),
                None if is_nothing(&value) => Vec::new(),
                None => vec![format!("+{name} {value}")],
            });
            nested.chain(gone).collect()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            one.iter().zip(other).flat_map(|(one, other)| left(one, other)).collect()
        }
        (one, other) if *one == other => Vec::new(),
        (one, other) => vec![format!("{one} != {other}")],
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || text == "0" || text == "0s",
        Value::Object(members) => members.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        Value::Bool(true) => false,
    }
}

#[test]
fn every_sample_is_an_object_of_its_kind() {
    for builtin in builtins() {
        let (object, _) = message(builtin.schema_name, 0);
        let mut object = Value::Object(object);
        assert_eq!(builtin.decode_fault(&object), None, "{}", builtin.gvk);
        assert_eq!(builtin.prune(&mut object), Vec::<String>::new(), "{}", builtin.gvk);
        assert!(builtin.settle(&mut object), "{}", builtin.gvk);
    }
}

/// Cut off at many places, and with many bytes turned.
#[test]
fn damaged_objects_of_every_kind_are_answered() {
    for (version, kind, _, bytes) in samples() {
        let step = bytes.len() / 15 + 1;
        for place in (0..bytes.len()).step_by(step) {
            let _ = to_json(&enveloped(&version, &kind, &bytes[..place]), ("", ""));
            for turned in [0x00, 0x7f, 0xff, bytes[place] ^ 0x01, bytes[place] ^ 0x80] {
                let mut damaged = bytes.clone();
                damaged[place] = turned;
                let _ = to_json(&enveloped(&version, &kind, &damaged), ("", ""));
            }
        }
    }
}
