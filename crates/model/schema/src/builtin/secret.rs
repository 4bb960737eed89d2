//! Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use concert_api::{Fault, FieldError, FieldErrors, Time};
use serde_json::{Value, json};

use super::config_map::{check_immutable, check_key, decoded_length};
use super::{cells, size};

/// All values together.
const SIZE_MAX: usize = 1024 * 1024;
const REDACTED: &str = "<secret contents redacted>";

pub(super) fn cells(object: &Value, now: Time) -> Vec<Value> {
    vec![cells::name(object), object["type"].clone(), size(object, "data").into(), cells::age(object, now)]
}

/// `stringData` is written into `data`.
pub(super) fn read(object: &mut Value) {
    let Some(members) = object.as_object_mut() else { return };
    if let Some(Value::Object(texts)) = members.remove("stringData") {
        let data = members.entry("data").or_insert_with(|| json!({}));
        if !data.is_object() {
            *data = json!({});
        }
        for (key, text) in texts {
            data[key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
        }
    }
}

pub(super) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut total = 0;
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        check_key(&format!("data[{key}]"), key, &mut errors);
        total += decoded_length(value.as_str().unwrap_or_default());
    }
    if total > SIZE_MAX {
        errors.push(FieldError::new("data", Fault::TooLong, format!("may not be more than {SIZE_MAX} bytes")));
    }
    check_type(object, &mut errors);
    if let Some(old) = old
        && object["type"] != old["type"]
    {
        errors.push(FieldError::invalid("type", object["type"].clone(), "field is immutable"));
    }
    check_immutable(object, old, &["data"], &mut errors);
    errors
}

/// Well-known types must have what they are for.
fn check_type(object: &Value, errors: &mut FieldErrors) {
    let mut require = |key: &str| {
        let present = object["data"].get(key).is_some();
        if !present {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
        present
    };
    match object["type"].as_str().unwrap_or_default() {
        "kubernetes.io/tls" => {
            require("tls.crt");
            require("tls.key");
        }
        "kubernetes.io/ssh-auth" => drop(require("ssh-privatekey")),
        "kubernetes.io/basic-auth" => {
            let either = object["data"].get("username").or(object["data"].get("password"));
            if either.is_none() {
                require("username");
                require("password");
            }
        }
        "kubernetes.io/dockercfg" if require(".dockercfg") => check_json(object, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" if require(".dockerconfigjson") => {
            check_json(object, ".dockerconfigjson", errors);
        }
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            if object["metadata"]["annotations"][annotation].as_str().is_none_or(str::is_empty) {
                errors.push(FieldError::required(format!("metadata.annotations[{annotation}]"), ""));
            }
        }
        _ => {}
    }
}

fn check_json(object: &Value, key: &str, errors: &mut FieldErrors) {
    let bytes = STANDARD.decode(object["data"][key].as_str().unwrap_or_default()).unwrap_or_default();
    if serde_json::from_slice::<Value>(&bytes).is_ok() {
        return;
    }
    let detail = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(first) => format!("invalid character '{}' looking for beginning of value", char::from(*first)),
        None => "unexpected end of JSON input".to_owned(),
    };
    errors.push(FieldError::invalid(format!("data[{key}]"), REDACTED, detail));
}
