//! Pods: what becomes of a new one, and what they are made from.

mod spec;

use concert_api::{FieldErrors, names};
use serde_json::{Map, Value, json};

use super::judge::{Judge, items, text, within};
use super::quantity;

use spec::check_tolerations;
pub(super) use spec::{check_spec, check_template};

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
    let mut status = json!({"phase": "Pending", "qosClass": quality(&object["spec"])});
    if object["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
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

/// How surely a pod gets what it asks for: all of it, some, or nothing.
fn quality(spec: &Value) -> &'static str {
    let (mut any, mut all) = (false, true);
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array().into_iter().flatten() {
            let amount = |part: &str, name: &str| {
                let given = &container["resources"][part][name];
                quantity::millis(given).filter(|amount| *amount > 0)
            };
            for name in ["cpu", "memory"] {
                let (wanted, limit) = (amount("requests", name), amount("limits", name));
                any = any || wanted.is_some() || limit.is_some();
                all = all && limit.is_some() && wanted.is_none_or(|wanted| Some(wanted) == limit);
            }
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

pub(super) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    check_spec(&object["spec"], "spec", &mut judge);
    if let Some(old) = old {
        check_change(object, old, &mut judge);
        return judge.errors;
    }
    if object["spec"]["ephemeralContainers"].as_array().is_some_and(|list| !list.is_empty()) {
        judge.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    judge.errors
}

/// Of a pod's spec only images, some tolerations and the deadline change.
fn check_change(object: &Value, old: &Value, judge: &mut Judge) {
    let (mut new, mut before) = (object["spec"].clone(), old["spec"].clone());
    for list in ["containers", "initContainers"] {
        if new[list].as_array().map_or(0, Vec::len) != before[list].as_array().map_or(0, Vec::len) {
            judge.forbidden(format!("spec.{list}"), "pod updates may not add or remove containers");
            return;
        }
        check_images(&new[list], &format!("spec.{list}"), judge);
    }
    if !check_deadline(&new["activeDeadlineSeconds"], &before["activeDeadlineSeconds"], judge) {
        return;
    }
    check_added_tolerations(&new["tolerations"], &before["tolerations"], judge);
    for spec in [&mut new, &mut before] {
        strip(spec);
    }
    if new != before {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        judge.forbidden("spec", detail);
    }
}

/// Images are looked at once more when they change, and more closely.
fn check_images(containers: &Value, path: &str, judge: &mut Judge) {
    for (place, container) in items(containers, path) {
        let (image, field) = (text(&container["image"]), format!("{place}.image"));
        judge.text(&container["image"], &field);
        if image.trim() != image {
            judge.invalid(field, image, "must not have leading or trailing whitespace");
        }
    }
}

/// A deadline only comes nearer; whether to go on.
fn check_deadline(new: &Value, old: &Value, judge: &mut Judge) -> bool {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    match (new.as_i64(), old.as_i64()) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            judge.invalid(FIELD, new, "must be between 0 and 2147483647, inclusive");
            false
        }
        (Some(new), Some(old)) if old < new => {
            judge.invalid(FIELD, new, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            judge.invalid(FIELD, Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

/// What was tolerated stays so, but for how long.
fn check_added_tolerations(new: &Value, old: &Value, judge: &mut Judge) {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(members) = toleration.as_object_mut() {
            members.remove("tolerationSeconds");
        }
        toleration
    };
    let there: Vec<Value> = new.as_array().into_iter().flatten().map(timeless).collect();
    for before in old.as_array().into_iter().flatten() {
        if !there.contains(&timeless(before)) {
            let detail = "existing toleration can not be modified except its tolerationSeconds";
            judge.forbidden("spec.tolerations", detail);
            return;
        }
    }
    check_tolerations(new, "spec.tolerations", judge);
}

/// Takes away what may change, and what its own paths change.
fn strip(spec: &mut Value) {
    let Some(members) = spec.as_object_mut() else { return };
    for name in ["activeDeadlineSeconds", "tolerations", "ephemeralContainers", "schedulingGates"] {
        members.remove(name);
    }
    for list in ["containers", "initContainers"] {
        for container in members.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                for name in ["image", "imagePullPolicy", "resources", "resizePolicy"] {
                    container.remove(name);
                }
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
