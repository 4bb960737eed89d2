//! Autoscalers: `autoscaling/v1` knows one metric, and keeps the rest of `v2` in annotations.
//!
//! The annotations are made anew by every conversion. What a client puts there counts as far as it is what [`noted`]
//! would have written; whatever else it is, it is forgotten.

mod noted;

use concert_api::Gvk;
use serde_json::{Map, Value, json};

use super::defaults::hooks::scaling_behavior;
use super::judge::{text, within};
use noted::Noted;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const OF_SPEC: [&str; 2] = [METRICS, BEHAVIOR];
const OF_STATUS: [&str; 2] = [CURRENT, CONDITIONS];
/// What an older version wrote there.
const TOLERANCES: [&str; 2] =
    ["autoscaling.alpha.kubernetes.io/scale-down-tolerance", "autoscaling.alpha.kubernetes.io/scale-up-tolerance"];
/// How much of the processor is used where nothing is said.
const DEFAULT_UTILIZATION: i64 = 80;

/// Turns an autoscaler into one of the other version.
pub(super) fn convert(object: &mut Value, to: &Gvk) {
    if !object.is_object() || object["apiVersion"] == to.api_version() {
        return;
    }
    if to.version == "v1" {
        to_one(object)
    } else {
        to_two(object)
    }
    object["apiVersion"] = to.api_version().into();
}

/// An autoscaler is worked on as what both versions have in common, so that nobody can note what means nothing.
pub(super) fn read(object: &mut Value) {
    if object["apiVersion"] == "autoscaling/v1" && object["spec"].is_object() {
        let version = |version: &str| Gvk::new("autoscaling", version, "HorizontalPodAutoscaler");
        super::convert(object, &version("v2"));
        super::convert(object, &version("v1"));
    } else {
        take_notes(object);
    }
}

/// A new autoscaler has no status, nor what stands for it.
pub(super) fn prepare(object: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        replace_notes(object, &Value::Null, &OF_STATUS);
    }
}

/// What is sent to an autoscaler of `v1` leaves alone what is noted of its status; what is sent to its status, the rest.
pub(super) fn keep_notes(object: &mut Value, old: &Value, is_status: bool) {
    if object["apiVersion"] == "autoscaling/v1" {
        replace_notes(object, old, if is_status { &OF_SPEC } else { &OF_STATUS });
    }
}

/// What in a note of `v1` is asked for, and not found.
pub(super) fn asked(object: &Value) -> impl Iterator<Item = Option<&Value>> {
    OF_SPEC.into_iter().map(|name| object["metadata"]["annotations"].get(name))
}

fn replace_notes(object: &mut Value, old: &Value, names: &[&str]) {
    for name in names {
        let before = old["metadata"]["annotations"].get(*name).cloned();
        let annotations = if before.is_some() {
            within(object, &["metadata", "annotations"])
        } else {
            object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        };
        let Some(annotations) = annotations else { continue };
        match before {
            Some(note) => annotations.insert((*name).to_owned(), note),
            None => annotations.remove(*name),
        };
    }
    if object.pointer("/metadata/annotations").is_some_and(|annotations| *annotations == json!({}))
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("annotations");
    }
}

/// Whether a metric is the one that `v1` has a field for.
fn is_processor(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn to_one(object: &mut Value) {
    take_notes(object);
    let mut notes = Map::new();
    let mut note = |name: &str, kind: Noted, value: &Value| {
        if !value.is_null() && *value != json!([]) {
            notes.insert(name.to_owned(), kind.write(value).into());
        }
    };
    let target = |metric: &Value| metric["resource"]["target"]["averageUtilization"].clone();
    let is_own = |metric: &Value| is_processor(metric) && !target(metric).is_null();
    let (own, others): (Vec<Value>, Vec<Value>) = list(take(object, "spec", "metrics")).into_iter().partition(is_own);
    put(object, "spec", "targetCPUUtilizationPercentage", own.first().map(target).unwrap_or_default());
    note(METRICS, Noted::Metrics, &others.into());
    note(BEHAVIOR, Noted::Behavior, &take(object, "spec", "behavior"));
    // The field says less than there is to say, so all of them are noted.
    let current = list(take(object, "status", "currentMetrics"));
    let used = |metric: &Value| metric["resource"]["current"]["averageUtilization"].clone();
    let own = current.iter().rfind(|metric| is_processor(metric) && !used(metric).is_null());
    put(object, "status", "currentCPUUtilizationPercentage", own.map(used).unwrap_or_default());
    note(CURRENT, Noted::Current, &current.into());
    note(CONDITIONS, Noted::Conditions, &take(object, "status", "conditions"));
    if let Some(annotations) = within(object, &["metadata", "annotations"]).filter(|_| !notes.is_empty()) {
        annotations.extend(notes);
    }
}

fn to_two(object: &mut Value) {
    let notes = take_notes(object);
    let noted = |name: &str, kind: Noted| notes.get(name).and_then(|note| kind.read(text(note)));
    let target = take(object, "spec", "targetCPUUtilizationPercentage");
    let mut metrics = noted(METRICS, Noted::Metrics).map(list).unwrap_or_default();
    if !target.is_null() {
        metrics.push(processor(target));
    }
    if metrics.is_empty() {
        metrics.push(processor(DEFAULT_UTILIZATION.into()));
    }
    put(object, "spec", "metrics", metrics.into());
    let mut behavior = noted(BEHAVIOR, Noted::Behavior).unwrap_or_default();
    if let Some(behavior) = behavior.as_object_mut() {
        scaling_behavior(behavior);
    }
    put(object, "spec", "behavior", behavior);
    let used = take(object, "status", "currentCPUUtilizationPercentage");
    let own = (!used.is_null()).then(|| {
        let current = json!({"averageUtilization": used});
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}])
    });
    put(object, "status", "currentMetrics", noted(CURRENT, Noted::Current).or(own).unwrap_or_default());
    put(object, "status", "conditions", noted(CONDITIONS, Noted::Conditions).unwrap_or_default());
}

fn processor(utilization: Value) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": utilization});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

/// Takes all annotations from an object that stand for fields of the other version.
fn take_notes(object: &mut Value) -> Map<String, Value> {
    let mut notes = Map::new();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return notes };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return notes };
    for name in OF_SPEC.into_iter().chain(OF_STATUS).chain(TOLERANCES) {
        notes.extend(annotations.remove_entry(name));
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    notes
}

fn take(object: &mut Value, part: &str, name: &str) -> Value {
    let members = object.get_mut(part).and_then(Value::as_object_mut);
    members.and_then(|members| members.remove(name)).unwrap_or_default()
}

fn put(object: &mut Value, part: &str, name: &str, value: Value) {
    if value.is_null() || value == json!([]) {
        return;
    }
    if let Some(members) = within(object, &[part]) {
        members.insert(name.to_owned(), value);
    }
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_version_does_not_know_survives_in_it() {
        let mut two = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": {"selectPolicy": "Max"}}, "metrics": [
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}}},
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            ]},
            "status": {"conditions": [
                {"type": "ScalingActive", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
            ]},
        });
        // What is stored has its defaults.
        scaling_behavior(two["spec"]["behavior"].as_object_mut().unwrap());
        let mut object = two.clone();
        convert(&mut object, &Gvk::new("autoscaling", "v1", "HorizontalPodAutoscaler"));
        assert_eq!(object["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
        assert_eq!(object["status"], json!({}));
        let metrics = r#"[{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":60}}]"#;
        assert_eq!(object["metadata"]["annotations"][METRICS], metrics);
        convert(&mut object, &Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler"));
        assert_eq!(object["spec"], two["spec"]);
        assert_eq!(object["status"], two["status"]);
    }
}
