//! Roles and bindings.

use concert_api::{Fault, FieldError, FieldErrors, Time, names};
use serde_json::{Value, json};

use super::cells;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn binding_cells(object: &Value, now: Time) -> Vec<Value> {
    let part = |name: &str| object["roleRef"][name].as_str().unwrap_or_default();
    let role = format!("{}/{}", part("kind"), part("name"));
    let of = |kind: &str| subjects(object, kind);
    vec![cells::name(object), role.into(), cells::age(object, now), of("User"), of("Group"), of("ServiceAccount")]
}

fn subjects(object: &Value, kind: &str) -> Value {
    let text = |subject: &Value, name: &str| subject[name].as_str().unwrap_or_default().to_owned();
    let of_kind = object["subjects"].as_array().into_iter().flatten().filter(|subject| subject["kind"] == kind);
    let names: Vec<String> = of_kind
        .map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
            _ => text(subject, "name"),
        })
        .collect();
    names.join(", ").into()
}

pub(super) fn check_role(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    check_rules(object, true, &mut errors);
    errors
}

pub(super) fn check_cluster_role(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut verbs = FieldErrors::new();
    check_rules(object, false, &mut errors);
    while errors.last().is_some_and(|error| error.field.ends_with(".verbs")) {
        verbs.extend(errors.pop());
    }
    if object["aggregationRule"].is_object() {
        let selectors = object["aggregationRule"]["clusterRoleSelectors"].as_array();
        if selectors.is_none_or(Vec::is_empty) {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required("aggregationRule.clusterRoleSelectors", detail));
        }
        for (place, selector) in selectors.into_iter().flatten().enumerate() {
            let field = format!("aggregationRule.clusterRoleSelectors[{place}]");
            let before = errors.len();
            check_selector(selector, &field, &mut errors);
            if errors.len() > before {
                errors.push(FieldError::invalid(field, Value::Null, "invalid label selector."));
            }
        }
    }
    errors.extend(verbs.into_iter().rev());
    errors
}

/// What the rules lack; missing verbs come last, as from the real server.
fn check_rules(object: &Value, namespaced: bool, errors: &mut FieldErrors) {
    let mut verbs = FieldErrors::new();
    for (place, rule) in object["rules"].as_array().into_iter().flatten().enumerate() {
        let path = |field: &str| format!("rules[{place}].{field}");
        let is_empty = |field: &str| rule[field].as_array().is_none_or(Vec::is_empty);
        if is_empty("verbs") {
            verbs.push(FieldError::required(path("verbs"), ""));
        }
        if !is_empty("nonResourceURLs") {
            let wrong =
                |detail: &str| FieldError::invalid(path("nonResourceURLs"), rule["nonResourceURLs"].clone(), detail);
            if namespaced {
                errors.push(wrong("namespaced rules cannot apply to non-resource URLs"));
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !is_empty(field)) {
                errors.push(wrong("rules cannot apply to both regular resources and non-resource URLs"));
            }
            continue;
        }
        if is_empty("apiGroups") {
            errors.push(FieldError::required(path("apiGroups"), "resource rules must supply at least one api group"));
        }
        if is_empty("resources") {
            errors.push(FieldError::required(path("resources"), "resource rules must supply at least one resource"));
        }
    }
    errors.extend(verbs);
}

/// What is wrong with a label selector as it stands in objects.
pub(super) fn check_selector(selector: &Value, field: &str, errors: &mut FieldErrors) {
    let labels = format!("{field}.matchLabels");
    let invalid = |field: &str, value: &str, faults: Vec<String>| {
        faults.into_iter().map(|fault| FieldError::invalid(field, value, fault)).collect::<FieldErrors>()
    };
    let mut pairs: Vec<(&String, &str)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        pairs.push((key, value.as_str().unwrap_or_default()));
    }
    for (key, value) in pairs {
        errors.extend(invalid(&labels, key, names::qualified_faults(key)));
        errors.extend(invalid(&labels, value, names::label_value_faults(value)));
    }
    for (place, expression) in selector["matchExpressions"].as_array().into_iter().flatten().enumerate() {
        let path = |part: &str| format!("{field}.matchExpressions[{place}].{part}");
        let values = expression["values"].as_array().map(Vec::as_slice).unwrap_or_default();
        match expression["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(path("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(path("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(path("operator"), other, "not a valid selector operator")),
        }
        let key = expression["key"].as_str().unwrap_or_default();
        errors.extend(invalid(&path("key"), key, names::qualified_faults(key)));
        if matches!(expression["operator"].as_str(), Some("In" | "NotIn")) {
            for (place, value) in values.iter().filter_map(Value::as_str).enumerate() {
                errors.extend(invalid(
                    &format!("{}[{place}]", path("values")),
                    value,
                    names::label_value_faults(value),
                ));
            }
        }
    }
}

pub(super) fn check_role_binding(object: &Value, old: Option<&Value>) -> FieldErrors {
    check_binding(object, old, &["Role", "ClusterRole"], true)
}

pub(super) fn check_cluster_role_binding(object: &Value, old: Option<&Value>) -> FieldErrors {
    check_binding(object, old, &["ClusterRole"], false)
}

fn check_binding(object: &Value, old: Option<&Value>, roles: &[&str], namespaced: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let part = |name: &str| object["roleRef"][name].as_str().unwrap_or_default();
    if part("apiGroup") != GROUP {
        errors.push(unsupported("roleRef.apiGroup", part("apiGroup"), &[GROUP]));
    }
    if !roles.contains(&part("kind")) {
        errors.push(unsupported("roleRef.kind", part("kind"), roles));
    }
    if !part("name").is_empty() {
        let faults = names::path_segment_faults(part("name"));
        errors.extend(faults.into_iter().map(|fault| FieldError::invalid("roleRef.name", part("name"), fault)));
    }
    let mut nameless = FieldErrors::new();
    for (place, subject) in object["subjects"].as_array().into_iter().flatten().enumerate() {
        let field = format!("subjects[{place}]");
        check_subject(subject, &field, namespaced, &mut errors);
        if subject["name"].as_str().is_none_or(str::is_empty) {
            nameless.push(FieldError::required(format!("{field}.name"), ""));
        }
    }
    if old.is_some_and(|old| old["roleRef"] != object["roleRef"]) {
        let shown = json!({"APIGroup": part("apiGroup"), "Kind": part("kind"), "Name": part("name")});
        errors.push(FieldError::invalid("roleRef", shown, "field is immutable"));
    }
    // What rules of their own look at comes last.
    errors.extend(nameless);
    if part("name").is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    errors
}

fn check_subject(subject: &Value, field: &str, namespaced: bool, errors: &mut FieldErrors) {
    let part = |name: &str| subject[name].as_str().unwrap_or_default();
    let path = |name: &str| format!("{field}.{name}");
    match part("kind") {
        "ServiceAccount" => {
            let name = part("name");
            let faults = if name.is_empty() { Vec::new() } else { names::subdomain_faults(name) };
            errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path("name"), name, fault)));
            if !part("apiGroup").is_empty() {
                errors.push(unsupported(&path("apiGroup"), part("apiGroup"), &[""]));
            }
            if !namespaced && part("namespace").is_empty() {
                errors.push(FieldError::required(path("namespace"), ""));
            }
        }
        "User" | "Group" if part("apiGroup") == GROUP => {}
        "User" | "Group" => errors.push(unsupported(&path("apiGroup"), part("apiGroup"), &[GROUP])),
        other => errors.push(unsupported(&path("kind"), other, &["ServiceAccount", "User", "Group"])),
    }
}

fn unsupported(field: &str, value: &str, known: &[&str]) -> FieldError {
    let known = known.iter().map(ToString::to_string).collect();
    FieldError::new(field, Fault::NotSupported(value.into(), known), "")
}
