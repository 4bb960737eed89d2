//! What of a pod's spec changes: images, the deadline, some tolerations, and gates that are taken away. What waits behind
//! a gate may be told more closely where to run.

use std::collections::{HashMap, HashSet};

use concert_api::FieldErrors;
use serde_json::{Value, json};

use super::check_whole_pod;
use super::placement::check_tolerations;
use crate::builtin::judge::{Judge, items, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Whether a pod waits for somebody to open a gate.
pub(super) fn is_gated(spec: &Value) -> bool {
    spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty())
}

/// What is wrong with a change of a pod.
pub(super) fn check_change(object: &Value, old: &Value, judge: &mut Judge) {
    let (new, before) = (&object["spec"], &old["spec"]);
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
    check_removed_gates(&new["schedulingGates"], &before["schedulingGates"], judge);
    let mut spec = without_changes(new, before);
    if is_gated(before) {
        narrow(&mut spec, before, judge);
    }
    if spec != *before {
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
    let there: HashSet<Value> = new.as_array().into_iter().flatten().map(timeless).collect();
    if old.as_array().into_iter().flatten().any(|before| !there.contains(&timeless(before))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        judge.forbidden("spec.tolerations", detail);
        return;
    }
    check_tolerations(new, "spec.tolerations", judge);
}

/// Gates are opened, never shut.
fn check_removed_gates(new: &Value, old: &Value, judge: &mut Judge) {
    let known: HashSet<&str> = old.as_array().into_iter().flatten().map(|gate| text(&gate["name"])).collect();
    // The last place of each name, as in a map.
    let places: HashMap<&str, String> =
        items(new, "spec.schedulingGates").into_iter().map(|(place, gate)| (text(&gate["name"]), place)).collect();
    let mut added: Vec<_> = places.into_iter().filter(|(name, _)| !known.contains(name)).collect();
    added.sort_unstable();
    for (name, place) in added {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        judge.forbidden(format!("{place}.name"), detail);
    }
}

/// A spec in which all that may change is as it was.
fn without_changes(new: &Value, old: &Value) -> Value {
    let mut spec = new.clone();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        take(&mut spec, field, old);
    }
    for list in ["containers", "initContainers"] {
        let before = old[list].as_array().into_iter().flatten();
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        containers.zip(before).for_each(|(container, before)| take(container, "image", before));
    }
    let grace = "terminationGracePeriodSeconds";
    if old[grace].as_i64().is_some_and(|seconds| seconds < 0) && spec[grace] == 1 {
        take(&mut spec, grace, old);
    }
    spec
}

/// Gives an object the member that another has there, or none.
pub(super) fn take(object: &mut Value, name: &str, from: &Value) {
    let Some(members) = object.as_object_mut() else { return };
    match from.get(name) {
        Some(value) => members.insert(name.to_owned(), value.clone()),
        None => members.remove(name),
    };
}

/// Judges where a gated pod shall run, and takes that back.
fn narrow(spec: &mut Value, old: &Value, judge: &mut Judge) {
    if !spec.is_object() {
        return;
    }
    if spec["nodeSelector"] != old["nodeSelector"] {
        let labels = old["nodeSelector"].as_object();
        if labels.into_iter().flatten().any(|(label, value)| spec["nodeSelector"][label] != *value) {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            judge.invalid("spec.nodeSelector", spec["nodeSelector"].clone(), detail);
        }
        take(spec, "nodeSelector", old);
    }
    let before = &old["affinity"]["nodeAffinity"];
    if spec["affinity"]["nodeAffinity"] == *before {
        return;
    }
    check_narrowed(&spec["affinity"]["nodeAffinity"], before, judge);
    let others = ["podAffinity", "podAntiAffinity"];
    if spec["affinity"].is_null() {
        spec["affinity"] = json!({"nodeAffinity": before});
    } else if old["affinity"].is_null() && others.iter().all(|name| spec["affinity"][*name].is_null()) {
        take(spec, "affinity", old);
    } else {
        take(&mut spec["affinity"], "nodeAffinity", &old["affinity"]);
    }
}

/// Terms become narrower, not fewer or more.
fn check_narrowed(new: &Value, old: &Value, judge: &mut Judge) {
    let path = format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let terms = |affinity: &Value| affinity[REQUIRED]["nodeSelectorTerms"].as_array().cloned().unwrap_or_default();
    let (new, old) = (terms(new), terms(old));
    if !old.is_empty() && new.len() != old.len() {
        judge.invalid(path, new, "no additions/deletions to non-empty NodeSelectorTerms list are allowed");
        return;
    }
    for (place, (term, before)) in new.iter().zip(&old).enumerate() {
        if !is_narrower(term, before) {
            let detail = "only additions are allowed (no mutations or deletions)";
            judge.invalid(format!("{path}[{place}]"), term.clone(), detail);
        }
    }
}

fn is_narrower(new: &Value, old: &Value) -> bool {
    let list = |term: &Value, name: &str| term[name].as_array().cloned().unwrap_or_default();
    let parts = ["matchExpressions", "matchFields"].map(|name| (list(new, name), list(old, name)));
    // A term without conditions selects nothing.
    let was_empty = parts.iter().all(|(_, old)| old.is_empty());
    let is_empty = parts.iter().all(|(new, _)| new.is_empty());
    if was_empty { is_empty } else { parts.iter().all(|(new, old)| new.starts_with(old)) }
}

/// What is wrong with a pod that was given further containers while it runs.
pub(in crate::builtin) fn check_ephemeral(object: &Value, old: &Value) -> FieldErrors {
    const FIELD: &str = "spec.ephemeralContainers";
    let mut judge = Judge::default();
    check_whole_pod(object, &mut judge);
    let list = |object: &Value| object["spec"]["ephemeralContainers"].as_array().cloned().unwrap_or_default();
    let new = list(object);
    let new: HashMap<&str, &Value> = new.iter().map(|container| (text(&container["name"]), container)).collect();
    for before in list(old) {
        let name = text(&before["name"]);
        match new.get(name) {
            None => judge.forbidden(FIELD, format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(after) if **after != before => {
                judge.forbidden(FIELD, format!("existing ephemeral containers {name:?} may not be changed\n"));
            }
            Some(_) => {}
        }
    }
    judge.errors
}
