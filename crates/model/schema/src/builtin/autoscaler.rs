//! Autoscalers: `autoscaling/v1` knows one metric, and keeps the rest of `v2` in annotations.

use concert_api::Gvk;
use serde_json::{Map, Value, json};

use super::judge::within;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

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

/// Without any metric the processor counts. As of `v1` it is only known then whether others are noted.
pub(super) fn read(object: &mut Value) {
    const TARGET: &str = "targetCPUUtilizationPercentage";
    let is_noted = object["metadata"]["annotations"].get(METRICS).is_some();
    if object["apiVersion"] == "autoscaling/v1" && object["spec"].is_object() && !is_noted {
        let target = &mut object["spec"][TARGET];
        if target.is_null() {
            *target = 80.into();
        }
    }
}

/// Whether a metric is the one that `v1` has a field for.
fn is_processor(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn to_one(object: &mut Value) {
    let mut noted = Map::new();
    let mut note = |name: &str, value: &Value| {
        if !value.is_null() && *value != json!([]) {
            noted.insert(name.to_owned(), value.to_string().into());
        }
    };
    let metrics = take(object, "spec", "metrics");
    let target = |metric: &Value| metric["resource"]["target"]["averageUtilization"].clone();
    let (own, others) = split(metrics, |metric| is_processor(metric) && !target(metric).is_null());
    if let Some(metric) = &own {
        put(object, "spec", "targetCPUUtilizationPercentage", target(metric));
    }
    note(METRICS, &others);
    note(BEHAVIOR, &take(object, "spec", "behavior"));
    let current = take(object, "status", "currentMetrics");
    let used = |metric: &Value| metric["resource"]["current"]["averageUtilization"].clone();
    let (own, others) = split(current, |metric| is_processor(metric) && !used(metric).is_null());
    if let Some(metric) = &own {
        put(object, "status", "currentCPUUtilizationPercentage", used(metric));
    }
    note(CURRENT, &others);
    note(CONDITIONS, &take(object, "status", "conditions"));
    if let Some(annotations) = within(object, &["metadata", "annotations"]).filter(|_| !noted.is_empty()) {
        annotations.extend(noted);
    }
}

fn to_two(object: &mut Value) {
    let read = |object: &mut Value, name: &str| -> Value {
        let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
        let text = annotations.and_then(|all| all.remove(name));
        text.and_then(|text| serde_json::from_str(text.as_str()?).ok()).unwrap_or_default()
    };
    let (metrics, behavior) = (read(object, METRICS), read(object, BEHAVIOR));
    let (current, conditions) = (read(object, CURRENT), read(object, CONDITIONS));
    let target = take(object, "spec", "targetCPUUtilizationPercentage");
    let own = (!target.is_null()).then(|| {
        let target = json!({"type": "Utilization", "averageUtilization": target});
        json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    });
    put(object, "spec", "metrics", joined(metrics, own));
    put(object, "spec", "behavior", behavior);
    let used = take(object, "status", "currentCPUUtilizationPercentage");
    let own = (!used.is_null()).then(|| {
        let current = json!({"averageUtilization": used});
        json!({"type": "Resource", "resource": {"name": "cpu", "current": current}})
    });
    put(object, "status", "currentMetrics", joined(current, own));
    put(object, "status", "conditions", conditions);
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

/// The first that fits, and the others.
fn split(list: Value, fits: impl Fn(&Value) -> bool) -> (Option<Value>, Value) {
    let Value::Array(mut items) = list else { return (None, Value::Null) };
    let own = items.iter().position(fits).map(|place| items.remove(place));
    (own, items.into())
}

fn joined(list: Value, own: Option<Value>) -> Value {
    let mut items = match list {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    items.splice(0..0, own);
    items.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_version_does_not_know_survives_in_it() {
        let two = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": {"selectPolicy": "Max"}}, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}}},
            ]},
            "status": {"conditions": [{"type": "ScalingActive"}]},
        });
        let mut object = two.clone();
        convert(&mut object, &Gvk::new("autoscaling", "v1", "HorizontalPodAutoscaler"));
        assert_eq!(object["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
        assert_eq!(object["status"], json!({}));
        convert(&mut object, &Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler"));
        assert_eq!(object["spec"], two["spec"]);
        assert_eq!(object["status"], two["status"]);
    }
}
