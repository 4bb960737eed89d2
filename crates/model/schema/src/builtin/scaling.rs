//! Autoscalers: what they may look at, and how fast they may act.

use concert_api::{FieldErrors, Gvk, names};
use serde_json::Value;

use super::judge::{Judge, items, text};
use super::{autoscaler, quantity};

/// What a metric can come from: the type, and the field that tells more.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
/// The order in which they are looked for.
const ORDER: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
const HOUR: i64 = 3600;
const HALF_HOUR: i64 = 1800;

pub(super) fn check(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let mut object = object.clone();
    autoscaler::convert(&mut object, &Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler"));
    let spec = &object["spec"];
    let (least, most) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 0) {
        judge.invalid("spec.minReplicas", least, "must be greater than or equal to 0");
    }
    match most {
        0 => judge.required("spec.maxReplicas", ""),
        ..0 => judge.invalid("spec.maxReplicas", most, "must be greater than or equal to 1"),
        1.. => {}
    }
    if least.is_some_and(|least| most < least) {
        judge.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`");
    }
    check_reference(&spec["scaleTargetRef"], "spec.scaleTargetRef", &mut judge);
    let version = text(&spec["scaleTargetRef"]["apiVersion"]);
    if !version.contains('/') {
        judge.invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group");
    }
    let metrics = items(&spec["metrics"], "spec.metrics");
    for (path, metric) in &metrics {
        check_metric(metric, path, &mut judge);
    }
    let is_seen = |metric: &Value| matches!(text(&metric["type"]), "Object" | "External");
    if least == Some(0) && !metrics.iter().any(|(_, metric)| is_seen(metric)) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        judge.forbidden("spec.metrics", detail);
    }
    for direction in ["scaleUp", "scaleDown"] {
        if spec["behavior"][direction].is_object() {
            check_rules(&spec["behavior"][direction], &format!("spec.behavior.{direction}"), &mut judge);
        }
    }
    judge.errors
}

/// Something that has a kind and a name.
fn check_reference(reference: &Value, path: &str, judge: &mut Judge) {
    for field in ["kind", "name"] {
        let (place, value) = (format!("{path}.{field}"), &reference[field]);
        if judge.text(value, &place) {
            for fault in names::path_segment_faults(text(value)) {
                judge.invalid(&place, text(value), fault);
            }
        }
    }
}

fn check_metric(metric: &Value, path: &str, judge: &mut Judge) {
    let kind = text(&metric["type"]);
    let field = format!("{path}.type");
    if kind.is_empty() {
        judge.required(&field, "must specify a metric source type");
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    let given: Vec<&str> = ORDER.into_iter().filter(|source| metric[*source].is_object()).collect();
    if let Some(first) = given.first() {
        check_source(&metric[*first], first, &format!("{path}.{first}"), judge);
    }
    match expected {
        None => judge.not_supported(kind, &TYPES, &field),
        Some(expected) if !metric[expected].is_object() => {
            judge.required(format!("{path}.{expected}"), "must populate information for the given metric source");
        }
        Some(_) => {}
    }
    if given.len() != 1 {
        for other in given.into_iter().filter(|source| Some(*source) != expected) {
            judge.forbidden(format!("{path}.{other}"), "must populate the given metric source only");
        }
    }
}

fn check_source(source: &Value, kind: &str, path: &str, judge: &mut Judge) {
    if kind == "object" {
        check_reference(&source["describedObject"], &format!("{path}.describedObject"), judge);
    }
    match kind {
        "resource" | "containerResource" => {
            let field = format!("{path}.name");
            if text(&source["name"]).is_empty() {
                judge.required(field, "must specify a resource name");
            }
        }
        _ => check_identifier(&source["metric"], &format!("{path}.metric"), judge),
    }
    if kind == "containerResource" {
        let (field, container) = (format!("{path}.container"), &source["container"]);
        match text(container) {
            "" => judge.required(field, "must specify a container"),
            _ => judge.label(container, &field),
        }
    }
    check_target(&source["target"], &format!("{path}.target"), judge);
    check_given(&source["target"], kind, &format!("{path}.target"), judge);
}

fn check_identifier(metric: &Value, path: &str, judge: &mut Judge) {
    let (field, name) = (format!("{path}.name"), text(&metric["name"]));
    if name.is_empty() {
        return judge.required(field, "must specify a metric name");
    }
    for fault in names::path_segment_faults(name) {
        judge.invalid(&field, name, fault);
    }
}

fn check_target(target: &Value, path: &str, judge: &mut Judge) {
    let (field, kind) = (format!("{path}.type"), text(&target["type"]));
    if kind.is_empty() {
        judge.required(&field, "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        judge.invalid(field, kind, "must be either Utilization, Value, or AverageValue");
    }
    for name in ["value", "averageValue"] {
        if quantity::millis(&target[name]).is_some_and(|amount| amount <= 0) {
            judge.invalid(format!("{path}.{name}"), target[name].clone(), "must be positive");
        }
    }
    if let Some(share) = target["averageUtilization"].as_i64().filter(|share| *share < 1) {
        judge.invalid(format!("{path}.averageUtilization"), share, "must be greater than 0");
    }
}

/// What a target has to tell, by what it is of.
fn check_given(target: &Value, kind: &str, path: &str, judge: &mut Judge) {
    let has = |field: &str| !target[field].is_null();
    let (average, share) = (format!("{path}.averageValue"), format!("{path}.averageUtilization"));
    match kind {
        "object" if !has("value") && !has("averageValue") => {
            judge.required(average, "must set either a target value or averageValue");
        }
        "external" if !has("value") && !has("averageValue") => {
            judge.required(average, "must set either a target value for metric or a per-pod target");
        }
        "external" if has("value") && has("averageValue") => {
            let detail = "may not set both a target value for metric and a per-pod target";
            judge.forbidden(format!("{path}.value"), detail);
        }
        "pods" if !has("averageValue") => judge.required(average, "must specify a positive target averageValue"),
        "resource" | "containerResource" if !has("averageUtilization") && !has("averageValue") => {
            judge.required(share, "must set either a target raw value or a target utilization");
        }
        "resource" | "containerResource" if has("averageUtilization") && has("averageValue") => {
            judge.forbidden(average, "may not set both a target raw value and a target utilization");
        }
        _ => {}
    }
}

/// How fast an autoscaler acts in one direction.
fn check_rules(rules: &Value, path: &str, judge: &mut Judge) {
    let field = format!("{path}.stabilizationWindowSeconds");
    match rules["stabilizationWindowSeconds"].as_i64() {
        Some(seconds @ ..0) => judge.invalid(field, seconds, "must be greater than or equal to zero"),
        Some(seconds) if seconds > HOUR => {
            judge.invalid(field, seconds, format!("must be less than or equal to {HOUR}"));
        }
        _ => {}
    }
    let choices = ["Disabled", "Max", "Min"];
    if let Some(choice) = rules["selectPolicy"].as_str().filter(|choice| !choices.contains(choice)) {
        judge.not_supported(choice, &choices, &format!("{path}.selectPolicy"));
    }
    let policies = items(&rules["policies"], &format!("{path}.policies"));
    if policies.is_empty() {
        judge.required(format!("{path}.policies"), "must specify at least one Policy");
    }
    for (place, policy) in policies {
        let kind = text(&policy["type"]);
        if !matches!(kind, "Pods" | "Percent") {
            judge.not_supported(kind, &["Percent", "Pods"], &format!("{place}.type"));
        }
        for field in ["value", "periodSeconds"] {
            if let Some(number) = policy[field].as_i64().filter(|number| *number <= 0) {
                judge.invalid(format!("{place}.{field}"), number, "must be greater than zero");
            }
        }
        if let Some(seconds) = policy["periodSeconds"].as_i64().filter(|seconds| *seconds > HALF_HOUR) {
            let detail = format!("must be less than or equal to {HALF_HOUR}");
            judge.invalid(format!("{place}.periodSeconds"), seconds, detail);
        }
    }
}
