//! Config maps, and what they share with secrets.

use concert_api::{Fault, FieldError, FieldErrors, Time};
use serde_json::Value;

use super::{cells, size};

/// All values together.
const SIZE_MAX: usize = 1024 * 1024;
const KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

pub(super) fn cells(object: &Value, now: Time) -> Vec<Value> {
    let data = size(object, "data") + size(object, "binaryData");
    vec![cells::name(object), data.into(), cells::age(object, now)]
}

pub(super) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut total = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in object[field].as_object().into_iter().flatten() {
            let path = format!("{field}[{key}]");
            check_key(&path, key, &mut errors);
            if field == "data" && object["binaryData"].get(key).is_some() {
                errors.push(FieldError::invalid(path, key.as_str(), "duplicate of key present in binaryData"));
            }
            let text = value.as_str().unwrap_or_default();
            total += if field == "data" { text.len() } else { decoded_length(text) };
        }
    }
    if total > SIZE_MAX {
        errors.push(FieldError::new("[]", Fault::TooLong, format!("may not be more than {SIZE_MAX} bytes")));
    }
    check_immutable(object, old, &["data", "binaryData"], &mut errors);
    errors
}

/// A key must be good for a file name.
pub(super) fn check_key(path: &str, key: &str, errors: &mut FieldErrors) {
    let mut fail = |detail: String| errors.push(FieldError::invalid(path, key, detail));
    if key.len() > 253 {
        fail("must be no more than 253 characters".to_owned());
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if key.is_empty() || !key.bytes().all(fits) {
        fail(KEY_RULE.to_owned());
    } else if key == "." || key == ".." {
        fail(format!("must not be '{key}'"));
    } else if key.starts_with("..") {
        fail("must not start with '..'".to_owned());
    }
}

/// Once `immutable` is set, it and the data stay.
pub(super) fn check_immutable(object: &Value, old: Option<&Value>, fields: &[&str], errors: &mut FieldErrors) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else { return };
    let detail = "field is immutable when `immutable` is set";
    if object["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", detail));
    }
    for field in fields.iter().filter(|field| object[**field] != old[**field]) {
        errors.push(FieldError::forbidden(*field, detail));
    }
}

pub(super) fn decoded_length(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}
