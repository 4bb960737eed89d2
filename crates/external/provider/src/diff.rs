//! Which fields that an object sets are not what they should be.

use serde_json::{Map, Value};

/// Strings longer than this are not shown.
const SHOWN: usize = 64;

/// The differences between what is wanted and what is there, over the fields that are set in `wanted` only; empty if
/// there is none. A `null` counts as not set, arrays are compared as a whole. Values of fields whose schema says
/// `format: password` are not shown.
pub(crate) fn diff(path: &str, wanted: &Value, found: &Value, schema: &Value) -> Vec<String> {
    match (wanted, found) {
        (Value::Null, _) => Vec::new(),
        (Value::Object(wanted), Value::Object(found)) => fields(path, wanted, found, schema),
        (Value::Object(wanted), Value::Null) => fields(path, wanted, &Map::new(), schema),
        _ if equal(wanted, found) => Vec::new(),
        _ => vec![describe(path, wanted, found, schema)],
    }
}

fn fields(path: &str, wanted: &Map<String, Value>, found: &Map<String, Value>, schema: &Value) -> Vec<String> {
    let compare = |(name, value): (&String, &Value)| {
        let schema = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
        diff(&format!("{path}.{name}"), value, found.get(name).unwrap_or(&Value::Null), schema)
    };
    wanted.iter().flat_map(compare).collect()
}

/// Equal as values: 1 and 1.0 are the same number.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, value)| b.get(name).is_some_and(|other| equal(value, other)))
        }
        _ => a == b,
    }
}

fn describe(path: &str, wanted: &Value, found: &Value, schema: &Value) -> String {
    let secret = schema["format"] == "password";
    match (shown(wanted), shown(found)) {
        (Some(wanted), Some(found)) if !secret => format!("{path}: wanted {wanted}, found {found}"),
        _ if found.is_null() => format!("{path}: not there"),
        _ => format!("{path}: differs"),
    }
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::String(text) => (text.len() <= SHOWN).then(|| value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(wanted: Value, found: Value, expected: &[&str]) {
        let schema = json!({"properties": {"key": {"format": "password"}}});
        assert_eq!(diff("spec", &wanted, &found, &schema), expected);
    }

    #[test]
    fn only_fields_that_are_set_count() {
        check(json!({"a": 1}), json!({"a": 1.0, "b": 2}), &[]);
        check(json!({"a": null}), json!({"a": 1}), &[]);
        check(json!({"a": {"b": 1}}), json!({"a": {"b": 1, "c": 2}}), &[]);
        check(json!({}), Value::Null, &[]);
    }

    #[test]
    fn differences_are_named() {
        check(json!({"a": {"b": "x"}}), json!({"a": {"b": "y"}}), &[r#"spec.a.b: wanted "x", found "y""#]);
        check(json!({"a": {"b": 1}}), json!({}), &["spec.a.b: not there"]);
        check(json!({"a": [1]}), json!({"a": [1, 2]}), &["spec.a: differs"]);
        check(json!({"a": "x".repeat(100)}), json!({"a": "y"}), &["spec.a: differs"]);
    }

    #[test]
    fn secrets_are_not_shown() {
        check(json!({"key": "hunter2"}), json!({"key": "hunter3"}), &["spec.key: differs"]);
    }
}
