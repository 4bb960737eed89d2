//! The rules that many kinds have in common, in the words of the real server.

use concert_api::{Fault, FieldError, FieldErrors, names};
use serde_json::{Map, Value};

pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub(super) const IMMUTABLE: &str = "field is immutable";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// Collects what is wrong.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) errors: FieldErrors,
}

impl Judge {
    pub(super) fn invalid(&mut self, field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) {
        self.errors.push(FieldError::invalid(field, value, detail));
    }

    pub(super) fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.errors.push(FieldError::required(field, detail));
    }

    pub(super) fn forbidden(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.errors.push(FieldError::forbidden(field, detail));
    }

    pub(super) fn duplicate(&mut self, field: impl Into<String>, value: &str) {
        self.errors.push(FieldError::new(field, Fault::Duplicate(value.into()), ""));
    }

    /// A text that must be there; whether it is.
    pub(super) fn text(&mut self, value: &Value, field: &str) -> bool {
        let there = !text(value).is_empty();
        if !there {
            self.required(field, "");
        }
        there
    }

    /// A name that must be there, and a DNS label.
    pub(super) fn label(&mut self, value: &Value, field: &str) {
        if self.text(value, field) {
            for fault in names::label_faults(text(value)) {
                self.invalid(field, text(value), fault);
            }
        }
    }

    /// A text that is one of a few.
    pub(super) fn one_of(&mut self, value: &Value, allowed: &[&str], field: &str) {
        let found = text(value);
        if found.is_empty() {
            self.required(field, "");
        } else if !allowed.contains(&found) {
            self.not_supported(found, allowed, field);
        }
    }

    pub(super) fn not_supported(&mut self, found: &str, allowed: &[&str], field: &str) {
        let allowed = allowed.iter().map(ToString::to_string).collect();
        self.errors.push(FieldError::new(field, Fault::NotSupported(found.into(), allowed), ""));
    }

    /// A text that is one of a few, if it is there.
    pub(super) fn choice(&mut self, value: &Value, allowed: &[&str], field: &str) {
        if !value.is_null() && !allowed.contains(&text(value)) {
            self.not_supported(text(value), allowed, field);
        }
    }

    /// A text with all that is wrong with it.
    pub(super) fn faults(&mut self, value: &str, faults: Vec<String>, field: &str) {
        for fault in faults {
            self.invalid(field, value, fault);
        }
    }

    /// A name that is named and not there.
    pub(super) fn not_found(&mut self, field: impl Into<String>, name: &str, detail: impl Into<String>) {
        self.errors.push(FieldError::new(field, Fault::NotFound(name.into()), detail));
    }

    /// A number that lies between two others, if it is there.
    pub(super) fn between(&mut self, value: &Value, (least, most): (i64, i64), field: &str) {
        if let Some(number) = value.as_i64().filter(|number| !(least..=most).contains(number)) {
            self.invalid(field, number, format!("must be between {least} and {most}, inclusive"));
        }
    }

    /// A list that has not more than so many items.
    pub(super) fn at_most(&mut self, count: usize, most: usize, field: &str) {
        if count > most {
            self.errors.push(FieldError::new(field, Fault::TooMany(count), format!("must have at most {most} items")));
        }
    }

    /// A text that is not longer than so many bytes.
    pub(super) fn short(&mut self, text: &str, most: usize, field: &str) {
        if text.len() > most {
            self.errors.push(FieldError::new(field, Fault::TooLong, format!("may not be more than {most} bytes")));
        }
    }

    /// Numbers that may not be negative.
    pub(super) fn not_negative(&mut self, object: &Value, fields: &[&str], path: &str) {
        for field in fields {
            if let Some(number) = object[*field].as_i64().filter(|number| *number < 0) {
                self.invalid(format!("{path}.{field}"), number, NOT_NEGATIVE);
            }
        }
    }

    /// The number of a port.
    pub(super) fn port(&mut self, number: i64, field: &str) {
        if !(1..=65535).contains(&number) {
            self.invalid(field, number, "must be between 1 and 65535, inclusive");
        }
    }

    /// The number or the name of a port.
    pub(super) fn port_or_name(&mut self, value: &Value, field: &str) {
        match value {
            Value::Number(number) => self.port(number.as_i64().unwrap_or(0), field),
            other => {
                for fault in port_name_faults(text(other)) {
                    self.invalid(field, text(other), fault);
                }
            }
        }
    }

    /// A number that is not negative, or a share of all.
    pub(super) fn share(&mut self, value: &Value, field: &str) {
        match value {
            Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
                self.invalid(field, value.clone(), NOT_NEGATIVE);
            }
            Value::String(text) => {
                let number = text.strip_suffix('%').unwrap_or_default();
                if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                    self.invalid(field, value.clone(), PERCENT);
                }
            }
            _ => {}
        }
    }

    /// What may not change.
    pub(super) fn fixed(&mut self, new: &Value, old: &Value, field: &str) {
        if new != old {
            self.invalid(field, new.clone(), IMMUTABLE);
        }
    }

    /// A label selector.
    pub(super) fn selector(&mut self, selector: &Value, field: &str) {
        super::rbac::check_selector(selector, field, &mut self.errors);
    }
}

/// The object at a path, made where there is nothing; `None` where something else is in the way.
pub(super) fn within<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut members = object.as_object_mut()?;
    for name in path {
        let member = members.entry(*name).or_insert(Value::Null);
        if member.is_null() {
            *member = Value::Object(Map::new());
        }
        members = member.as_object_mut()?;
    }
    Some(members)
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// How many items a list has, or members an object; what is neither has none.
pub(super) fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    }
}

/// The members of an object, by name.
pub(super) fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// The texts of a list.
pub(super) fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(text).collect()
}

/// The items of a list, each with its place in a path.
pub(super) fn items<'a>(list: &'a Value, path: &str) -> Vec<(String, &'a Value)> {
    let all = list.as_array().into_iter().flatten().enumerate();
    all.map(|(place, item)| (format!("{path}[{place}]"), item)).collect()
}

/// The name of a port: letters and digits with dashes between them.
pub(super) fn port_name_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > 15 {
        faults.push("must be no more than 15 characters".to_owned());
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(fits) || name.is_empty() {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// Whether a label selector selects these labels; one without conditions selects all.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    let empty = Map::new();
    let labels = labels.as_object().unwrap_or(&empty);
    let equal =
        selector["matchLabels"].as_object().into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal
        && expressions.into_iter().all(|one| {
            let found = labels.get(text(&one["key"]));
            let among = || found.is_some_and(|value| one["values"].as_array().is_some_and(|all| all.contains(value)));
            match text(&one["operator"]) {
                "In" => among(),
                "NotIn" => !among(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// Whether a label selector has no conditions.
pub(super) fn is_empty(selector: &Value) -> bool {
    let none = |field: &str| match &selector[field] {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    none("matchLabels") && none("matchExpressions")
}
