//! The configurations of admission webhooks.

use std::collections::BTreeSet;

use concert_api::{Fault, FieldError, FieldErrors, names};
use concert_cel::{CompileError, Declared, Program, Type, Variable};
use serde_json::Value;

use super::judge::{Judge, items, text};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// How many conditions a webhook may have.
const MOST_CONDITIONS: usize = 64;
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let mut known = BTreeSet::new();
    for (path, webhook) in items(&object["webhooks"], "webhooks") {
        check_webhook(webhook, old, &path, &mut judge);
        let name = text(&webhook["name"]);
        if !name.is_empty() && !known.insert(name) {
            judge.duplicate(format!("{path}.name"), name);
        }
    }
    judge.errors
}

fn check_webhook(webhook: &Value, old: Option<&Value>, path: &str, judge: &mut Judge) {
    let at = |field: &str| format!("{path}.{field}");
    check_name(text(&webhook["name"]), &at("name"), judge);
    for (place, rule) in items(&webhook["rules"], &at("rules")) {
        check_rule(rule, &place, judge);
    }
    for (field, allowed) in [("failurePolicy", ["Fail", "Ignore"]), ("matchPolicy", ["Equivalent", "Exact"])] {
        check_choice(&webhook[field], &allowed, &at(field), judge);
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
    check_choice(&webhook["reinvocationPolicy"], &["IfNeeded", "Never"], &at("reinvocationPolicy"), judge);
    check_client(&webhook["clientConfig"], &at("clientConfig"), judge);
    let was_there = |expression: &str| was_there(old, expression);
    check_conditions(&webhook["matchConditions"], &[], was_there, &at("matchConditions"), judge);
    check_versions(&webhook["admissionReviewVersions"], &at("admissionReviewVersions"), judge);
}

/// One of a few, or nothing said.
fn check_choice(value: &Value, allowed: &[&str], path: &str, judge: &mut Judge) {
    if let Some(found) = value.as_str().filter(|found| !allowed.contains(found)) {
        judge.not_supported(found, allowed, path);
    }
}

fn check_versions(versions: &Value, path: &str, judge: &mut Judge) {
    let all = items(versions, path);
    if all.is_empty() {
        judge.required(path, &format!("must specify one of {}", VERSIONS.join(", ")));
        return;
    }
    let mut known = BTreeSet::new();
    for (path, version) in &all {
        let version = text(version);
        if !known.insert(version) {
            judge.invalid(path, version, "duplicate version");
            continue;
        }
        for fault in names::dns_1035_faults(version) {
            judge.invalid(path, version, fault);
        }
    }
    if !known.iter().any(|version| VERSIONS.contains(version)) {
        judge.invalid(path, versions.clone(), format!("must include at least one of {}", VERSIONS.join(", ")));
    }
}

/// What has to be true of a request that a webhook is asked about. An expression that was there is not compiled again.
pub(super) fn check_conditions(
    conditions: &Value,
    further: &[&str],
    was_there: impl Fn(&str) -> bool,
    path: &str,
    judge: &mut Judge,
) {
    let all = items(conditions, path);
    if all.len() > MOST_CONDITIONS {
        let detail = format!("must have at most {MOST_CONDITIONS} items");
        judge.errors.push(FieldError::new(path, Fault::TooMany(all.len()), detail));
    }
    let mut known = BTreeSet::new();
    for (path, condition) in &all {
        let (expression, name) = (text(&condition["expression"]).trim(), text(&condition["name"]));
        if expression.is_empty() {
            judge.required(format!("{path}.expression"), "");
        } else if let Some(fault) = expression_fault(expression, further).filter(|_| !was_there(expression)) {
            judge.invalid(format!("{path}.expression"), expression, fault);
        }
        if name.is_empty() {
            judge.required(format!("{path}.name"), "");
            continue;
        }
        for fault in names::qualified_faults(name) {
            judge.invalid(format!("{path}.name"), name, fault);
        }
        if !known.insert(name) {
            judge.duplicate(format!("{path}.name"), name);
        }
    }
}

fn was_there(old: Option<&Value>, expression: &str) -> bool {
    let webhooks = old.and_then(|old| old["webhooks"].as_array()).into_iter().flatten();
    let mut conditions = webhooks.flat_map(|webhook| webhook["matchConditions"].as_array().into_iter().flatten());
    conditions.any(|condition| text(&condition["expression"]).trim() == expression)
}

/// Why an expression cannot be a condition. What is in its variables is not known here; of the authorizer, whose
/// functions are not known either, nothing is said.
pub(super) fn expression_fault(expression: &str, further: &[&str]) -> Option<String> {
    let always = ["object", "oldObject", "request", "namespaceObject"];
    let variables: Vec<Variable> = always.iter().chain(further).map(|name| Variable::plain(name)).collect();
    let declared = Declared::simple(Type::Dyn, 0, 0);
    if expression.contains("authorizer") {
        return None;
    }
    match Program::compile(expression, &variables, &declared) {
        Ok(program) if *program.output() == Type::Bool => None,
        Ok(program) => Some(format!("must evaluate to bool but got {}", program.output())),
        Err(CompileError::Issues(issues)) => Some(format!("compilation failed: {issues}")),
        Err(CompileError::Instantiation(why)) => Some(format!("program instantiation failed: {why}")),
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

pub(super) fn check_rule(rule: &Value, path: &str, judge: &mut Judge) {
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
    check_resources(&rule["resources"], &format!("{path}.resources"), judge);
    let scope = text(&rule["scope"]);
    if !matches!(scope, "*" | "Cluster" | "Namespaced" | "") {
        judge.not_supported(scope, &["*", "Cluster", "Namespaced"], &format!("{path}.scope"));
    }
}

/// Resources and parts of them, none of which is named twice.
fn check_resources(resources: &Value, path: &str, judge: &mut Judge) {
    let all = items(resources, path);
    let (mut whole, mut everywhere) = (BTreeSet::new(), BTreeSet::new());
    for (place, resource) in &all {
        let name = text(resource);
        let Some((resource, part)) = name.split_once('/') else { continue };
        if whole.contains(resource) {
            judge.invalid(place, name, format!("if '{resource}/*' is present, must not specify {name}"));
        }
        if everywhere.contains(part) {
            judge.invalid(place, name, format!("if '*/{part}' is present, must not specify {name}"));
        }
        if part == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            everywhere.insert(part);
        }
    }
    let names: Vec<&str> = all.iter().map(|(_, resource)| text(resource)).collect();
    if names.len() > 1 && names.contains(&"*/*") {
        judge.invalid(path, resources.clone(), "if '*/*' is present, must not specify other resources");
    }
    // As there, it is the last one without a part that counts.
    let last = names.iter().rev().find(|name| !name.is_empty() && !name.contains('/'));
    if names.contains(&"*") && last.is_some_and(|name| *name != "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        judge.invalid(path, resources.clone(), detail);
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
        check_service(service, &format!("{path}.service"), judge);
    }
}

fn check_service(service: &Value, path: &str, judge: &mut Judge) {
    // The real server mistakes them for each other.
    for (field, told) in [("namespace", "name"), ("name", "namespace")] {
        if text(&service[field]).is_empty() {
            judge.required(format!("{path}.{told}"), "");
        }
    }
    let port = service["port"].as_i64().unwrap_or(0);
    if !(1..=65535).contains(&port) {
        judge.invalid(format!("{path}.port"), port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    let (at, route) = (format!("{path}.path"), text(&service["path"]));
    match route {
        "" | "/" => return,
        "//" => return judge.invalid(at, route, "segment[0] may not be empty"),
        _ => {}
    }
    if !route.starts_with('/') {
        judge.invalid(at.as_str(), route, "must start with a '/'");
    }
    // As there, the first character is not looked at, whatever it is.
    let mut characters = route.chars();
    characters.next();
    let rest = characters.as_str();
    for (place, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            judge.invalid(at.as_str(), route, format!("segment[{place}] may not be empty"));
            continue;
        }
        for fault in names::subdomain_faults(segment) {
            judge.invalid(at.as_str(), route, format!("segment[{place}]: {fault}"));
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
