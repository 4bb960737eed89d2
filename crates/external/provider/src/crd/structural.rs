//! A JSON schema as Kubernetes accepts it: everything inline, every value typed, nothing that a structural schema
//! forbids.

use serde_json::{Map, Value, json};

use super::CrdError;

/// Words that a structural schema forbids, or that only describe.
const DROPPED: [&str; 8] = ["$schema", "$defs", "title", "example", "examples", "readOnly", "writeOnly", "deprecated"];

/// Formats that the API server knows; others are dropped.
const FORMATS: [&str; 14] = [
    "int32",
    "int64",
    "float",
    "double",
    "byte",
    "date",
    "date-time",
    "duration",
    "uuid",
    "password",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
];

/// Makes `schema`, the schema of the field at `path`, structural.
pub(super) fn structural(path: &str, schema: Value) -> Result<Value, CrdError> {
    let fail = |problem: &str| CrdError { path: path.to_owned(), problem: problem.to_owned() };
    let mut schema = match schema {
        Value::Object(schema) => schema,
        Value::Bool(true) => Map::new(),
        _ => return Err(fail("it allows no value; give it a type")),
    };
    let dropped = |word: &str, value: &Value| DROPPED.contains(&word) || (word == "default" && value.is_null());
    schema.retain(|word, value| !dropped(word, value));
    merge_single_all_of(&mut schema);
    for word in ["oneOf", "anyOf"] {
        if let Some(Value::Array(variants)) = schema.remove(word) {
            flatten(path, &mut schema, word, variants)?;
        }
    }
    if schema.contains_key("$ref") {
        return Err(fail("the type refers to itself; break the cycle with a field of free form (serde_json::Value)"));
    }
    number_format(&mut schema);
    children(path, &mut schema)?;
    if !schema.contains_key("type") {
        schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Value::Bool(true));
    }
    Ok(Value::Object(schema))
}

/// The same with nothing required: a status that is not complete yet must not be refused.
pub(super) fn optional(mut schema: Value) -> Value {
    if let Value::Object(words) = &mut schema {
        words.retain(|word, _| !["required", "oneOf", "anyOf"].contains(&word.as_str()));
        for word in ["items", "additionalProperties"] {
            if let Some(inner) = words.get_mut(word) {
                *inner = optional(inner.take());
            }
        }
        for property in words.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            *property.1 = optional(property.1.take());
        }
    }
    schema
}

fn merge_single_all_of(schema: &mut Map<String, Value>) {
    let single = schema.get("allOf").and_then(Value::as_array).is_some_and(|all| all.len() == 1);
    if let Some(Value::Array(mut all)) = single.then(|| schema.remove("allOf")).flatten()
        && let Some(Value::Object(only)) = all.pop()
    {
        for (word, value) in only {
            schema.entry(word).or_insert(value);
        }
    }
}

/// Kubernetes knows int32 and int64 only; the bounds that schemars adds are kept.
fn number_format(schema: &mut Map<String, Value>) {
    let known = match schema.get("format").and_then(Value::as_str) {
        Some("int8" | "int16" | "uint8" | "uint16") => Some("int32"),
        Some("uint32" | "int" | "uint" | "uint64") => Some("int64"),
        Some(format) if FORMATS.contains(&format) => return,
        Some(_) | None => None,
    };
    match known {
        Some(format) => schema.insert("format".to_owned(), Value::from(format)),
        None => schema.remove("format"),
    };
}

fn children(path: &str, schema: &mut Map<String, Value>) -> Result<(), CrdError> {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            *property = structural(&format!("{path}.{name}"), property.take())?;
        }
        // Properties and additionalProperties exclude each other; unknown fields are pruned anyway.
        schema.remove("additionalProperties");
    }
    if let Some(items) = schema.get_mut("items") {
        *items = structural(&format!("{path}[]"), items.take())?;
    }
    match schema.remove("additionalProperties") {
        None | Some(Value::Bool(false)) => {}
        Some(values) => {
            let values = structural(&format!("{path}.*"), values)?;
            schema.insert("additionalProperties".to_owned(), values);
        }
    }
    Ok(())
}

/// Variants become one schema: strings join their enums; objects join their properties, and which of them belong
/// together stays as a list of required fields.
fn flatten(path: &str, schema: &mut Map<String, Value>, word: &str, variants: Vec<Value>) -> Result<(), CrdError> {
    let fail = |problem: &str| CrdError { path: path.to_owned(), problem: problem.to_owned() };
    let (null, variants): (Vec<_>, Vec<_>) = variants.into_iter().partition(is_null);
    if !null.is_empty() {
        schema.insert("nullable".to_owned(), Value::Bool(true));
    }
    if variants.iter().all(|variant| variant["enum"].is_array() && variant["type"] == "string") {
        let values: Vec<Value> =
            variants.iter().flat_map(|variant| variant["enum"].as_array().cloned().unwrap_or_default()).collect();
        schema.insert("type".to_owned(), Value::from("string"));
        schema.insert("enum".to_owned(), Value::Array(values));
        return Ok(());
    }
    if let [Value::Object(only)] = variants.as_slice() {
        for (name, value) in only.clone() {
            schema.entry(name).or_insert(value);
        }
        return Ok(());
    }
    if !variants.iter().all(|variant| variant["type"] == "object") {
        return Err(fail("its variants have different types; use an enum of objects or of strings"));
    }
    let mut choices = Vec::new();
    for variant in variants {
        for (name, property) in variant["properties"].as_object().into_iter().flatten() {
            join_property(path, schema, name, property)?;
        }
        choices.push(json!({ "required": variant["required"].as_array().cloned().unwrap_or_default() }));
    }
    schema.insert("type".to_owned(), Value::from("object"));
    schema.insert(word.to_owned(), Value::Array(choices));
    Ok(())
}

fn is_null(variant: &Value) -> bool {
    variant["type"] == "null" || variant["enum"] == json!([null])
}

fn join_property(path: &str, schema: &mut Map<String, Value>, name: &str, new: &Value) -> Result<(), CrdError> {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    match properties.get_mut(name) {
        None => properties[name] = new.clone(),
        Some(old) if old == new => {}
        Some(old) => match (old["enum"].as_array_mut(), new["enum"].as_array()) {
            (Some(old), Some(new)) => old.extend(new.iter().cloned()),
            _ => {
                let problem = "the variants of its enum disagree about it; give the field another name".to_owned();
                return Err(CrdError { path: format!("{path}.{name}"), problem });
            }
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::schema;
    use super::*;
    use schemars::JsonSchema;
    use std::collections::BTreeMap;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Everything {
        /// How many.
        count: u32,
        small: Option<u8>,
        labels: BTreeMap<String, String>,
        free: serde_json::Value,
        mode: Mode,
        source: Source,
        tagged: Vec<Tagged>,
        #[schemars(extend("format" = "password"))]
        password: String,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Mode {
        /// Fast.
        Fast,
        /// Slow.
        Slow,
    }

    #[derive(JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Source {
        Url(String),
        Inline { text: String },
    }

    #[derive(JsonSchema)]
    #[serde(tag = "type")]
    #[expect(dead_code, reason = "only its schema is used")]
    enum Tagged {
        A { x: i32 },
        B,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Endless {
        next: Option<Box<Endless>>,
    }

    #[test]
    fn schemas_become_structural() {
        let made = schema::<Everything>("spec").unwrap();
        let expected = json!({
            "count": { "description": "How many.", "type": "integer", "format": "int64", "minimum": 0 },
            "small": { "type": "integer", "format": "int32", "minimum": 0, "maximum": 255, "nullable": true },
            "labels": { "type": "object", "additionalProperties": { "type": "string" } },
            "free": { "x-kubernetes-preserve-unknown-fields": true },
            "mode": { "type": "string", "enum": ["Fast", "Slow"] },
            "source": {
                "type": "object",
                "properties": {
                    "url": { "type": "string" },
                    "inline": { "type": "object", "required": ["text"], "properties": { "text": { "type": "string" } } },
                },
                "oneOf": [{ "required": ["url"] }, { "required": ["inline"] }],
            },
            "tagged": { "type": "array", "items": {
                "type": "object",
                "properties": {
                    "type": { "type": "string", "enum": ["A", "B"] },
                    "x": { "type": "integer", "format": "int32" },
                },
                "oneOf": [{ "required": ["type", "x"] }, { "required": ["type"] }],
            }},
            "password": { "type": "string", "format": "password" },
        });
        assert_eq!(made["properties"], expected, "{made:#}");
    }

    #[test]
    fn endless_types_are_refused_by_name() {
        let error = schema::<Endless>("spec.forProvider").unwrap_err();
        assert!(error.path.starts_with("spec.forProvider.next"), "{error}");
    }
}
