//! How much of everything a namespace may have, and how much each of its objects.

use std::collections::BTreeSet;

use concert_api::{Fault, FieldError, FieldErrors, names, quoted};
use serde_json::Value;

use super::amounts::{check_amount, check_container_name, check_name, is_of_quotas, is_shared};
use super::judge::{IMMUTABLE, Judge, count, items, members, text, texts};
use super::quantity::{self, is_more};

const OF_PODS: [&str; 7] = ["cpu", "limits.cpu", "limits.memory", "memory", "pods", "requests.cpu", "requests.memory"];
/// Which pods and claims a quota may be about, and what is counted of those.
const SCOPES: [(&str, &[&str]); 7] = [
    ("Terminating", &OF_PODS),
    ("NotTerminating", &OF_PODS),
    ("BestEffort", &["pods"]),
    ("NotBestEffort", &OF_PODS),
    ("PriorityClass", &OF_PODS),
    ("CrossNamespacePodAffinity", &OF_PODS),
    ("VolumeAttributesClass", &["persistentvolumeclaims", "requests.storage"]),
];
/// What cannot be said of the same pods.
const OPPOSITES: [(&str, &str); 2] = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];
/// What is so or not, and has no values.
const PLAIN: [&str; 5] = ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];

pub(super) fn check_quota(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    check_hard(&spec["hard"], "spec.hard", &mut judge);
    check_scopes(spec, &mut judge);
    if spec["scopeSelector"].is_object() {
        check_scope_selector(spec, &mut judge);
    }
    for part in ["hard", "used"] {
        check_hard(&object["status"][part], &format!("status.{part}"), &mut judge);
    }
    let scopes =
        |object: &Value| texts(&object["spec"]["scopes"]).into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    if old.is_some_and(|old| scopes(old) != scopes(object)) {
        judge.invalid("spec.scopes", spec["scopes"].clone(), IMMUTABLE);
    }
    judge.errors
}

fn check_hard(amounts: &Value, path: &str, judge: &mut Judge) {
    for (name, amount) in members(amounts) {
        let field = format!("{path}[{name}]");
        check_name(name, &field, judge);
        if !name.contains('/') && !is_of_quotas(name) {
            judge.invalid(&field, name, "must be a standard resource for quota");
        }
        check_amount(name, amount, &field, judge);
    }
}

/// The scopes that do not go with one of the resources of the server's own.
fn unfit(hard: &Value) -> BTreeSet<&'static str> {
    let own: Vec<&str> = members(hard).map(|(name, _)| name).filter(|name| is_of_quotas(name)).collect();
    let is_unfit = |fitting: &[&str]| own.iter().any(|name| !fitting.contains(name));
    SCOPES.iter().filter(|(_, fitting)| is_unfit(fitting)).map(|(scope, _)| *scope).collect()
}

fn is_scope(scope: &str) -> bool {
    SCOPES.iter().any(|(name, _)| *name == scope)
}

fn check_opposites(all: &[&str], scopes: &Value, field: &str, judge: &mut Judge) {
    for (one, other) in OPPOSITES {
        if all.contains(&one) && all.contains(&other) {
            judge.invalid(field, scopes.clone(), "conflicting scopes");
        }
    }
}

fn check_scopes(spec: &Value, judge: &mut Judge) {
    const FIELD: &str = "spec.scopes";
    let (scopes, all) = (&spec["scopes"], texts(&spec["scopes"]));
    if all.iter().any(|scope| !is_scope(scope)) {
        judge.invalid(FIELD, scopes.clone(), "unsupported scope");
    }
    let unfit = unfit(&spec["hard"]);
    if all.iter().any(|scope| unfit.contains(scope)) {
        judge.invalid(FIELD, scopes.clone(), "unsupported scope applied to resource");
    }
    check_opposites(&all, scopes, FIELD, judge);
}

fn check_scope_selector(spec: &Value, judge: &mut Judge) {
    const FIELD: &str = "spec.scopeSelector.matchExpressions";
    let selector = &spec["scopeSelector"];
    let mut all = Vec::new();
    let mut unfit = unfit(&spec["hard"]);
    for (_, one) in items(&selector["matchExpressions"], FIELD) {
        let scope = text(&one["scopeName"]);
        if !is_scope(scope) {
            judge.invalid(format!("{FIELD}.scopeName"), scope, "unsupported scope");
        }
        if unfit.contains(scope) {
            // What is told once is not told again.
            unfit.clear();
            let fault = Fault::InvalidShown(Some(shown(selector)));
            judge.errors.push(FieldError::new(FIELD, fault, "unsupported scope applied to resource"));
        }
        check_scope_operator(one, scope, FIELD, judge);
        all.push(scope);
    }
    check_opposites(&all, &spec["scopes"], FIELD, judge);
}

fn check_scope_operator(one: &Value, scope: &str, path: &str, judge: &mut Judge) {
    let (operator, field) = (text(&one["operator"]), format!("{path}.operator"));
    if PLAIN.contains(&scope) && operator != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        judge.invalid(&field, operator, detail);
    }
    let (values, among) = (format!("{path}.values"), count(&one["values"]));
    match operator {
        "In" | "NotIn" if among == 0 => {
            judge.required(values, "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector");
        }
        "Exists" | "DoesNotExist" if among > 0 => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            judge.invalid(values, one["values"].clone(), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => judge.invalid(field, other, "not a valid selector operator"),
    }
}

/// A selector of scopes as Go shows it.
fn shown(selector: &Value) -> String {
    let one = |one: &Value| {
        let (scope, operator) = (quoted(text(&one["scopeName"])), quoted(text(&one["operator"])));
        format!(r#"{{"ScopeName":{scope},"Operator":{operator},"Values":{}}}"#, one["values"])
    };
    let all: Vec<String> = selector["matchExpressions"].as_array().into_iter().flatten().map(one).collect();
    format!(r#"{{"MatchExpressions":[{}]}}"#, all.join(","))
}

pub(super) fn check_limit_range(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let mut known = BTreeSet::new();
    for (place, limit) in items(&object["spec"]["limits"], "spec.limits") {
        let (kind, field) = (text(&limit["type"]), format!("{place}.type"));
        let faults = names::qualified_faults(kind);
        let is_own = matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
        if faults.is_empty() && !kind.contains('/') && !is_own {
            judge.invalid(&field, kind, "must be a standard limit type or fully qualified");
        }
        judge.faults(kind, faults, &field);
        if !known.insert(kind) {
            judge.duplicate(field, kind);
        }
        check_limits(limit, &place, &mut judge);
    }
    judge.errors
}

/// The limits of one kind of objects.
fn check_limits(limit: &Value, place: &str, judge: &mut Judge) {
    let kind = text(&limit["type"]);
    let check: fn(&str, &str, &mut Judge) = if matches!(kind, "Pod" | "Container") {
        check_container_name
    } else {
        |name, field, judge| {
            check_name(name, field, judge);
        }
    };
    let mut all = BTreeSet::new();
    for part in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if part == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            require_storage(limit, place, judge);
        }
        if kind == "Pod" && part.starts_with("default") {
            if count(&limit[part]) > 0 {
                judge.forbidden(format!("{place}.{part}"), "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, _) in members(&limit[part]) {
            check(name, &format!("{place}.{part}[{name}]"), judge);
            all.insert(name);
        }
    }
    for name in all {
        check_order(limit, name, place, judge);
        check_ratio(limit, name, place, judge);
        let (most, usual) = (&limit["default"][name], &limit["defaultRequest"][name]);
        if kind != "Pod" && !is_shared(name) && are_there(most, usual) && is_more(most, usual) != is_more(usual, most) {
            let detail =
                format!("default value {} must equal to defaultRequest value {} in {name}", text(most), text(usual));
            judge.invalid(format!("{place}.defaultRequest[{name}]"), text(usual), detail);
        }
    }
}

fn require_storage(limit: &Value, place: &str, judge: &mut Judge) {
    if ["min", "max"].iter().all(|part| limit[*part]["storage"].is_null()) {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        judge.required(format!("{place}.limits"), detail);
    }
}

fn are_there(one: &Value, other: &Value) -> bool {
    !one.is_null() && !other.is_null()
}

/// What is not more than what: two parts, the field and the value that are shown, and the words for both parts.
const ORDER: [(&str, &str, &str, &str, &str, &str); 6] = [
    ("min", "max", "min", "min", "min", "max"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min", "default request"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request", "max"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request", "default limit"),
    ("min", "default", "default", "min", "min", "default"),
    ("default", "max", "default", "max", "default", "max"),
];

fn check_order(limit: &Value, name: &str, place: &str, judge: &mut Judge) {
    let is_pod = text(&limit["type"]) == "Pod";
    for (less, more, field, value, one, other) in ORDER {
        let (low, high) = (&limit[less][name], &limit[more][name]);
        let is_left_out = is_pod && [less, more].iter().any(|part| part.starts_with("default"));
        if !is_left_out && are_there(low, high) && is_more(low, high) {
            let detail = format!("{one} value {} is greater than {other} value {}", text(low), text(high));
            judge.invalid(format!("{place}.{field}[{name}]"), text(&limit[value][name]), detail);
        }
    }
}

/// How many times as much as it asks for may one use.
fn check_ratio(limit: &Value, name: &str, place: &str, judge: &mut Judge) {
    let amount = |part: &str| quantity::millis(&limit[part][name]);
    let Some(ratio) = amount("maxLimitRequestRatio") else { return };
    let (field, shown) = (format!("{place}.maxLimitRequestRatio[{name}]"), text(&limit["maxLimitRequestRatio"][name]));
    if ratio < 1000 {
        judge.invalid(&field, shown, format!("ratio {shown} is less than 1"));
    }
    if let (Some(least), Some(most)) = (amount("min"), amount("max")) {
        #[expect(clippy::cast_precision_loss, reason = "the real server compares floats, too")]
        let (bound, ratio) = (most as f64 / least as f64, ratio as f64 / 1000.0);
        if ratio > bound {
            judge.invalid(field, shown, format!("ratio {shown} is greater than max/min = {bound:.6}"));
        }
    }
}
