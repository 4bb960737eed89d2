//! The configurations of admission webhooks.

use std::collections::BTreeSet;

use concert_api::{FieldErrors, names};
use serde_json::Value;

use super::judge::{Judge, items, text};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn check(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let mut known = BTreeSet::new();
    for (path, webhook) in items(&object["webhooks"], "webhooks") {
        check_webhook(webhook, &path, &mut judge);
        let name = text(&webhook["name"]);
        if !name.is_empty() && !known.insert(name) {
            judge.duplicate(format!("{path}.name"), name);
        }
    }
    judge.errors
}

fn check_webhook(webhook: &Value, path: &str, judge: &mut Judge) {
    let at = |field: &str| format!("{path}.{field}");
    check_name(text(&webhook["name"]), &at("name"), judge);
    if webhook["admissionReviewVersions"].as_array().is_none_or(Vec::is_empty) {
        let detail = format!("must specify one of {}", VERSIONS.join(", "));
        judge.required(at("admissionReviewVersions"), &detail);
    } else if !webhook["admissionReviewVersions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|one| VERSIONS.contains(&text(one)))
    {
        let detail = format!("must include at least one of {}", VERSIONS.join(", "));
        judge.invalid(at("admissionReviewVersions"), webhook["admissionReviewVersions"].clone(), detail);
    }
    for (place, rule) in items(&webhook["rules"], &at("rules")) {
        check_rule(rule, &place, judge);
    }
    for (field, allowed) in [("failurePolicy", ["Fail", "Ignore"]), ("matchPolicy", ["Equivalent", "Exact"])] {
        let value = text(&webhook[field]);
        if !value.is_empty() && !allowed.contains(&value) {
            judge.not_supported(value, &allowed, &at(field));
        }
    }
    let effects = ["None", "NoneOnDryRun"];
    match text(&webhook["sideEffects"]) {
        "" => judge.required(at("sideEffects"), "must specify one of None, NoneOnDryRun"),
        other if !effects.contains(&other) => judge.not_supported(other, &effects, &at("sideEffects")),
        _ => {}
    }
    if let Some(seconds) = webhook["timeoutSeconds"].as_i64() {
        if seconds > 30 {
            judge.invalid(at("timeoutSeconds"), seconds, "the timeout value must be between 1 and 30 seconds");
        }
        if seconds < 1 {
            judge.invalid(at("timeoutSeconds"), seconds, "the timeout value must be between 1 and 30 seconds");
        }
    }
    for field in ["namespaceSelector", "objectSelector"] {
        judge.selector(&webhook[field], &at(field));
    }
    check_client(&webhook["clientConfig"], &at("clientConfig"), judge);
    if webhook["matchConditions"].as_array().is_some_and(|all| all.len() > 64) {
        judge.invalid(at("matchConditions"), "", "must have at most 64 items");
    }
}

/// A name of at least three parts.
fn check_name(name: &str, path: &str, judge: &mut Judge) {
    if name.is_empty() {
        judge.required(path, "");
        return;
    }
    for fault in names::subdomain_faults(name) {
        judge.invalid(path, name, fault);
    }
    if name.split('.').count() < 3 {
        judge.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
}

fn check_rule(rule: &Value, path: &str, judge: &mut Judge) {
    let list = |field: &str| rule[field].as_array().cloned().unwrap_or_default();
    for field in ["operations", "apiGroups", "apiVersions", "resources"] {
        let all = list(field);
        let at = format!("{path}.{field}");
        if all.is_empty() {
            judge.required(&at, "");
        }
        if all.len() > 1 && all.contains(&"*".into()) && field != "resources" {
            let what = format!(
                "if '*' is present, must not specify other {}",
                match field {
                    "operations" => "operations",
                    "apiGroups" => "API groups",
                    _ => "API versions",
                }
            );
            judge.invalid(&at, Value::from(all.clone()), what);
        }
        for (place, one) in all.iter().enumerate() {
            let at = format!("{at}[{place}]");
            match field {
                "operations" if !OPERATIONS.contains(&text(one)) => judge.not_supported(text(one), &OPERATIONS, &at),
                "apiVersions" | "resources" if text(one).is_empty() => judge.required(at, ""),
                _ => {}
            }
        }
    }
    let scope = text(&rule["scope"]);
    if !matches!(scope, "*" | "Cluster" | "Namespaced" | "") {
        judge.not_supported(scope, &["*", "Cluster", "Namespaced"], &format!("{path}.scope"));
    }
}

fn check_client(client: &Value, path: &str, judge: &mut Judge) {
    let (url, service) = (text(&client["url"]), &client["service"]);
    if url.is_empty() != service.is_object() {
        judge.required(path, "exactly one of url or service is required");
    }
    if !url.is_empty() {
        check_url(url, &format!("{path}.url"), judge);
    }
    if service.is_object() {
        for field in ["name", "namespace"] {
            let at = format!("{path}.service.{field}");
            if text(&service[field]).is_empty() {
                judge.required(at, &format!("service {field} is required"));
            }
        }
    }
}

fn check_url(url: &str, path: &str, judge: &mut Judge) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        judge.invalid(path, scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || scheme.is_empty() {
        judge.invalid(path, "", format!("host must be specified{FORM}"));
    }
    if let Some((user, _)) = host.split_once('@') {
        judge.invalid(path, user, format!("user information is not permitted in the URL{FORM}"));
    }
    for (mark, what) in [('#', "fragments are"), ('?', "query parameters are")] {
        if let Some((_, part)) = url.split_once(mark) {
            judge.invalid(path, part, format!("{what} not permitted in the URL{FORM}"));
        }
    }
}
