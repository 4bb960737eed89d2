//! Which names, labels and annotations are allowed, in the words of the real API server.

use serde_json::Value;

use crate::{Fault, FieldError, FieldErrors};

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
/// All annotations of an object together.
const ANNOTATIONS_MAX: usize = 256 * 1024;

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_1035_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with a DNS label (namespaces and most short names).
#[must_use]
pub fn label_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > LABEL_MAX {
        faults.push(format!("must be no more than {LABEL_MAX} characters"));
    }
    if !is_label(name) {
        let has_only_dots = name.split('.').all(is_label);
        faults.push(if has_only_dots { "must not contain dots" } else { LABEL_RULE }.to_owned());
    }
    faults
}

/// What is wrong with a DNS label of the older kind, which begins with a letter.
#[must_use]
pub fn dns_1035_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > LABEL_MAX {
        faults.push(format!("must be no more than {LABEL_MAX} characters"));
    }
    if !is_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        faults.push(DNS_1035_RULE.to_owned());
    }
    faults
}

/// What is wrong with a DNS subdomain (names of most objects, groups).
#[must_use]
pub fn subdomain_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        faults.push(format!("must be no more than {SUBDOMAIN_MAX} characters"));
    }
    if !name.split('.').all(is_label) {
        faults.push(SUBDOMAIN_RULE.to_owned());
    }
    faults
}

/// What is wrong with a name that becomes a path segment (RBAC kinds and Events allow more than subdomains).
#[must_use]
pub fn path_segment_faults(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    path_segment_prefix_faults(name)
}

/// What is wrong with the beginning of a name that becomes a path segment.
#[must_use]
pub fn path_segment_prefix_faults(prefix: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|bad| prefix.contains(**bad)).map(|bad| format!("may not contain '{bad}'")).collect()
}

/// What is wrong with a qualified name: `[prefix/]name`, as keys of labels and annotations and finalizers.
#[must_use]
pub fn qualified_faults(key: &str) -> Vec<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let mut faults = Vec::new();
    match prefix {
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => faults.extend(subdomain_faults(prefix).into_iter().map(|fault| format!("prefix part {fault}"))),
        None => {}
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        faults.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_label_text(name) {
        faults.push(QUALIFIED_RULE.to_owned());
    }
    faults
}

/// What is wrong with a label's value.
#[must_use]
pub fn label_value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > LABEL_MAX {
        faults.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    if !value.is_empty() && !is_label_text(value) {
        faults.push(VALUE_RULE.to_owned());
    }
    faults
}

/// What is wrong with labels: a JSON object of strings.
#[must_use]
pub fn check_labels(labels: &Value, field: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.extend(qualified_faults(key).into_iter().map(|fault| FieldError::invalid(field, key.as_str(), fault)));
        let value = value.as_str().unwrap_or_default();
        errors.extend(label_value_faults(value).into_iter().map(|fault| FieldError::invalid(field, value, fault)));
    }
    errors
}

/// What is wrong with annotations: a JSON object of strings.
#[must_use]
pub fn check_annotations(annotations: &Value, field: &str) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut total = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let faults = qualified_faults(&key.to_lowercase());
        errors.extend(faults.into_iter().map(|fault| FieldError::invalid(field, key.as_str(), fault)));
        total += key.len() + value.as_str().map_or(0, str::len);
    }
    if total > ANNOTATIONS_MAX {
        let detail = format!("may not be more than {ANNOTATIONS_MAX} bytes");
        errors.push(FieldError::new(field, Fault::TooLong, detail));
    }
    errors
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_label_text(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_the_real_server_judges_them() {
        for good in ["a", "a-b", "a.b", "0"] {
            assert!(subdomain_faults(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a..b", ".a", "a_b", "ä"] {
            assert!(!subdomain_faults(bad).is_empty(), "{bad}");
        }
        assert!(label_faults("a.b").len() == 1 && label_faults(&"a".repeat(64)).len() == 1);
        for good in ["a", "A_b.c", "x.io/Name"] {
            assert!(qualified_faults(good).is_empty(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "_a", "X.io/a"] {
            assert!(!qualified_faults(bad).is_empty(), "{bad}");
        }
        assert!(label_value_faults("").is_empty() && !label_value_faults("-").is_empty());
        assert_eq!(path_segment_faults("a/b%"), ["may not contain '/'", "may not contain '%'"]);
    }
}
