//! What pods may use is changed while they run: cpu and memory, in the words of the real server.

use concert_api::FieldErrors;
use serde_json::{Map, Value};

use super::change::take;
use super::check_whole_pod;
use super::whole::{fill_whole, quality};
use crate::builtin::judge::{Judge, text};

/// What a resize changes; all else that is asked for stays.
const RESIZED: [&str; 2] = ["cpu", "memory"];
const PARTS: [&str; 2] = ["limits", "requests"];

/// What is wrong with a pod that may use more, or less.
pub(in crate::builtin) fn check_resize(object: &Value, old: &Value) -> FieldErrors {
    let mut judge = Judge::default();
    let (spec, before) = (&object["spec"], &old["spec"]);
    if text(&before["os"]["name"]) == "windows" {
        judge.forbidden("", "windows pods cannot be resized");
        return judge.errors;
    }
    check_whole_pod(object, &mut judge);
    let class = match text(&old["status"]["qosClass"]) {
        "" => quality(before),
        class => class,
    };
    if class != quality(spec) {
        judge.invalid("spec", class, "Pod QOS Class may not change as a result of resizing");
    }
    if !node_can(&old["status"]["containerStatuses"]) {
        judge.forbidden("spec", "Pod running on node without support for resize");
    }
    check_whole(&spec["resources"], &before["resources"], &mut judge);
    if check_order(spec, before, &mut judge) {
        check_containers(spec, before, &mut judge);
    }
    judge.errors
}

/// A pod with what a resize takes of what was sent. Where that has other containers it stays, and is refused.
pub(in crate::builtin) fn resized(sent: &Value, old: &Value) -> Value {
    let names = |object: &Value, list: &str| -> Vec<Value> {
        object["spec"][list].as_array().into_iter().flatten().map(|container| container["name"].clone()).collect()
    };
    let mut object = old.clone();
    for list in ["containers", "initContainers"] {
        if names(sent, list) != names(old, list) {
            take(&mut object["spec"], list, &sent["spec"]);
            continue;
        }
        let wanted = sent["spec"][list].as_array().into_iter().flatten();
        let containers = object["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, wanted) in containers.zip(wanted) {
            take(container, "resources", wanted);
            take(container, "resizePolicy", wanted);
        }
    }
    if sent["spec"]["resources"].is_object() {
        take(&mut object["spec"], "resources", &sent["spec"]);
        fill_whole(&mut object["spec"]);
    }
    object
}

/// A node that tells what containers have can change it. As long as nothing runs, nobody knows.
fn node_can(statuses: &Value) -> bool {
    let mut running = statuses.as_array().into_iter().flatten().filter(|status| status["state"]["running"].is_object());
    running.next().is_none_or(|status| status["resources"].is_object())
}

/// The same containers, in the same order; whether it is so.
fn check_order(spec: &Value, old: &Value, judge: &mut Judge) -> bool {
    let before = judge.errors.len();
    for list in ["containers", "initContainers"] {
        let all = |spec: &Value| -> Vec<Value> {
            spec[list].as_array().into_iter().flatten().map(|container| container["name"].clone()).collect()
        };
        let (new, old) = (all(spec), all(old));
        if new.len() != old.len() {
            judge.forbidden(format!("spec.{list}"), format!("{list} may not be added or removed on resize"));
            continue;
        }
        for place in (0..new.len()).filter(|place| new[*place] != old[*place]) {
            let detail = format!("{list} may not be renamed or reordered on resize");
            judge.forbidden(format!("spec.{list}[{place}].name"), detail);
        }
    }
    judge.errors.len() == before
}

/// What the pod as a whole may use.
fn check_whole(resources: &Value, old: &Value, judge: &mut Judge) {
    for part in PARTS.iter().rev().filter(|part| is_removed(&resources[**part], &old[**part])) {
        let detail = format!("pod-level resource {part} cannot be removed");
        judge.forbidden(format!("spec.resources.{part}"), detail);
    }
    if is_other(resources, old) {
        judge.forbidden("spec", "only cpu and memory resources are mutable at pod-level");
    }
}

fn check_containers(spec: &Value, old: &Value, judge: &mut Judge) {
    for list in ["initContainers", "containers"] {
        let all = |spec: &Value| spec[list].as_array().cloned().unwrap_or_default();
        for (place, (container, before)) in all(spec).into_iter().zip(all(old)).enumerate() {
            let path = format!("spec.{list}[{place}]");
            check_container(&container, &before, &path, judge);
        }
    }
}

fn check_container(container: &Value, old: &Value, path: &str, judge: &mut Judge) {
    let is_first = path.starts_with("spec.init");
    for part in PARTS.iter().rev() {
        if is_removed(&container["resources"][*part], &old["resources"][*part]) {
            judge.forbidden(format!("{path}.resources.{part}"), format!("resource {part} cannot be removed"));
        }
    }
    let mut same = container.clone();
    take(&mut same, "resources", old);
    if same != *old || is_other(&container["resources"], &old["resources"]) {
        match is_first {
            true => judge.forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable"),
            false => judge.forbidden("spec", "only cpu and memory resources are mutable"),
        }
    }
    let restarts = |policy: &Value| policy["restartPolicy"] == "RestartContainer";
    let mut policies = container["resizePolicy"].as_array().into_iter().flatten();
    if is_first && container != old && container["restartPolicy"] != "Always" && policies.any(restarts) {
        let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
        judge.forbidden(path, detail);
    }
}

fn is_removed(new: &Value, old: &Value) -> bool {
    old.as_object().into_iter().flatten().any(|(name, _)| new.get(name).is_none())
}

/// Whether something else than cpu and memory is another one.
fn is_other(new: &Value, old: &Value) -> bool {
    let others = |amounts: &Value| -> Map<String, Value> {
        let all = amounts.as_object().into_iter().flatten();
        let others = all.filter(|(name, _)| !RESIZED.contains(&name.as_str()));
        others.map(|(name, amount)| (name.clone(), amount.clone())).collect()
    };
    new["claims"] != old["claims"] || PARTS.iter().any(|part| others(&new[*part]) != others(&old[*part]))
}
