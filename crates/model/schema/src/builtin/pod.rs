//! Pods: what becomes of a new one, and what they are made from.

mod change;
mod container;
mod dns;
mod environment;
mod handlers;
mod placement;
mod resize;
mod security;
mod source;
mod spec;
mod whole;

use concert_api::{FieldErrors, names};
use serde_json::{Map, Value, json};

use super::judge::{Judge, items, text, within};
use change::check_change;
pub(super) use change::check_ephemeral;
pub(super) use placement::{check_node_selector, check_tolerations};
pub(super) use resize::{check_resize, resized};
pub(super) use source::check_source;
pub(super) use spec::check_template;
use whole::{fill_whole, quality};

/// How long a pod stays where a node does not answer: every pod tolerates that for a while.
const TOLERATED: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const TOLERATED_SECONDS: i64 = 300;

pub(super) fn prepare(object: &mut Value, old: Option<&Value>) {
    let Some(spec) = within(object, &["spec"]) else { return };
    tolerate(spec);
    if let Some(old) = old {
        for name in ["priority", "preemptionPolicy"] {
            if let Some(value) = old["spec"].get(name) {
                spec.entry(name).or_insert_with(|| value.clone());
            }
        }
        return;
    }
    if !spec.contains_key("priority") {
        spec.insert("priority".to_owned(), 0.into());
        spec.insert("preemptionPolicy".to_owned(), "PreemptLowerPriority".into());
    }
    fill_whole(&mut object["spec"]);
    let mut status = json!({"phase": "Pending", "qosClass": quality(&object["spec"])});
    if change::is_gated(&object["spec"]) {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": object["metadata"]["creationTimestamp"],
        }]);
    }
    object["status"] = status;
}

/// The first of the addresses is the address.
pub(super) fn read(object: &mut Value) {
    let Some(status) = object["status"].as_object_mut() else { return };
    let address = status.get("podIP").map(text).unwrap_or_default().to_owned();
    let first = status.get("podIPs").map(|list| text(&list[0]["ip"])).unwrap_or_default().to_owned();
    if !address.is_empty() && address != first {
        status.insert("podIPs".to_owned(), json!([{"ip": address}]));
    } else if !first.is_empty() {
        status.insert("podIP".to_owned(), first.into());
    }
}

fn tolerate(spec: &mut Map<String, Value>) {
    let mut all = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    for key in TOLERATED {
        let covers = |one: &Value| {
            let effect = text(&one["effect"]);
            (text(&one["key"]) == key || text(&one["key"]).is_empty()) && matches!(effect, "NoExecute" | "")
        };
        if !all.iter().any(covers) {
            let seconds = TOLERATED_SECONDS;
            all.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}));
        }
    }
    spec.insert("tolerations".to_owned(), all.into());
}

pub(super) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    check_whole_pod(object, &mut judge);
    if let Some(old) = old {
        check_change(object, old, &mut judge);
        return judge.errors;
    }
    if object["spec"]["ephemeralContainers"].as_array().is_some_and(|list| !list.is_empty()) {
        judge.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if !text(&object["spec"]["nodeName"]).is_empty() && change::is_gated(&object["spec"]) {
        judge.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
    }
    judge.errors
}

/// The spec of a pod, and what templates need not have.
fn check_whole_pod(object: &Value, judge: &mut Judge) {
    let spec = &object["spec"];
    spec::check_spec(spec, text(&object["metadata"]["name"]), "spec", judge);
    if text(&spec["serviceAccountName"]).is_empty() {
        refuse_tokens(&spec["volumes"], judge);
    }
    for list in ["containers", "initContainers"] {
        for (place, container) in items(&spec[list], &format!("spec.{list}")) {
            container::check_image(container, &place, judge);
        }
    }
}

/// A token is of somebody.
fn refuse_tokens(volumes: &Value, judge: &mut Judge) {
    for (place, volume) in items(volumes, "spec.volumes") {
        for (source, one) in items(&volume["projected"]["sources"], &format!("{place}.projected.sources")) {
            if one["serviceAccountToken"].is_object() {
                let detail = "must not be specified when serviceAccountName is not set";
                judge.forbidden(format!("{source}.serviceAccountToken"), detail);
            }
        }
    }
}

/// Labels and annotations of what pods are made from.
pub(super) fn check_template_metadata(template: &Value, path: &str, judge: &mut Judge) {
    let metadata = &template["metadata"];
    judge.errors.extend(names::check_labels(&metadata["labels"], &format!("{path}.labels")));
    judge.errors.extend(names::check_annotations(&metadata["annotations"], &format!("{path}.annotations")));
}

/// The labels of a template, as they stand in messages.
pub(super) fn labels(template: &Value) -> Value {
    template["metadata"]["labels"].clone()
}
