//! Certificates, priorities, and what else belongs to the cluster.

use std::collections::BTreeSet;

use concert_api::{Fault, FieldError, FieldErrors, names};
use serde_json::{Value, json};

use super::judge::{Judge, NOT_NEGATIVE, items, text, within};
use super::quantity;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The first of the ranges is the range.
pub(super) fn read_node(object: &mut Value) {
    let Some(spec) = object["spec"].as_object_mut() else { return };
    let range = spec.get("podCIDR").map(text).unwrap_or_default().to_owned();
    let first = spec.get("podCIDRs").map(|list| text(&list[0])).unwrap_or_default().to_owned();
    if !range.is_empty() && range != first {
        spec.insert("podCIDRs".to_owned(), json!([range]));
    } else if !first.is_empty() {
        spec.insert("podCIDR".to_owned(), first.into());
    }
}

/// Nothing is put on a new node before it is ready.
pub(super) fn prepare_node(object: &mut Value, old: Option<&Value>) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let Some(spec) = within(object, &["spec"]).filter(|_| old.is_none()) else { return };
    let mut taints = spec.get("taints").and_then(Value::as_array).cloned().unwrap_or_default();
    if !taints.iter().any(|taint| taint["key"] == KEY && taint["effect"] == "NoSchedule") {
        taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
    }
    spec.insert("taints".to_owned(), taints.into());
}

pub(super) fn check_node(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    check_taints(&object["spec"]["taints"], &mut judge);
    check_amounts(&object["status"], &mut judge);
    check_ranges(&object["spec"]["podCIDRs"], &mut judge);
    if let Some(old) = old {
        check_node_change(object, old, &mut judge);
    }
    judge.errors
}

/// The real server looks for them in the metadata, and says so.
fn check_taints(taints: &Value, judge: &mut Judge) {
    let mut known = BTreeSet::new();
    for (path, taint) in items(taints, "metadata.taints") {
        let (key, value, effect) = (text(&taint["key"]), text(&taint["value"]), text(&taint["effect"]));
        for fault in names::qualified_faults(key) {
            judge.invalid(format!("{path}.key"), key, fault);
        }
        let faults = names::label_value_faults(value);
        if !faults.is_empty() {
            judge.invalid(format!("{path}.value"), value, faults.join(";"));
        }
        judge.one_of(&taint["effect"], &EFFECTS, &format!("{path}.effect"));
        if !known.insert((effect, key)) {
            let added = &taint["timeAdded"];
            let shown = format!(r#"{{"Key":{key:?},"Value":{value:?},"Effect":{effect:?},"TimeAdded":{added}}}"#);
            let detail = "taints must be unique by key and effect pair";
            judge.errors.push(FieldError::new(path, Fault::DuplicateShown(Some(shown)), detail));
        }
    }
}

fn check_amounts(status: &Value, judge: &mut Judge) {
    for part in ["capacity", "allocatable"] {
        for (name, amount) in status[part].as_object().into_iter().flatten() {
            if quantity::millis(amount).is_some_and(|amount| amount < 0) {
                judge.invalid(format!("status.{part}.{name}"), text(amount), NOT_NEGATIVE);
            }
        }
    }
}

/// One range of addresses for each family.
fn check_ranges(ranges: &Value, judge: &mut Judge) {
    const FIELD: &str = "spec.podCIDRs";
    let ranges = items(ranges, FIELD);
    for (place, range) in &ranges {
        judge.range(text(range), place);
    }
    let is_six = |range: &&Value| text(range).contains(':');
    let families = ranges.iter().map(|(_, range)| *range).filter(is_six).count();
    if ranges.len() > 2 || (ranges.len() == 2 && families != 1) {
        let shown: Vec<Value> = ranges.iter().map(|(_, range)| (*range).clone()).collect();
        judge.invalid(FIELD, Value::from(shown), "may specify no more than one CIDR for each IP family");
    }
}

fn check_node_change(object: &Value, old: &Value, judge: &mut Judge) {
    let mut known = BTreeSet::new();
    for (path, address) in items(&object["status"]["addresses"], "status.addresses") {
        let (kind, address) = (text(&address["type"]), text(&address["address"]));
        if !known.insert((kind, address)) {
            let shown = format!(r#"{{"Type":{kind:?},"Address":{address:?}}}"#);
            judge.errors.push(FieldError::new(path, Fault::DuplicateShown(Some(shown)), ""));
        }
    }
    let given = items(&old["spec"]["podCIDRs"], "");
    if !given.is_empty() && object["spec"]["podCIDRs"] != old["spec"]["podCIDRs"] {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        judge.forbidden("spec.podCIDRs", detail);
    }
    match (text(&old["spec"]["providerID"]), text(&object["spec"]["providerID"])) {
        ("", _) => {}
        (_, "") => judge.invalid("spec.providerID", Value::Null, "field cannot be cleared once set"),
        (before, now) if before != now => {
            judge.invalid("spec.providerID", Value::Null, "field cannot be modified once set");
        }
        (_, _) => {}
    }
    // They are looked at twice.
    check_taints(&object["spec"]["taints"], judge);
}

/// The classes of priority that every cluster has.
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn check_priority_class(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    if let Some(old) = old {
        if object["value"] != old["value"] {
            judge.forbidden("value", "may not be changed in an update.");
        }
        judge.fixed(&object["preemptionPolicy"], &old["preemptionPolicy"], "preemptionPolicy");
        return judge.errors;
    }
    let (name, value) = (text(&object["metadata"]["name"]), object["value"].as_i64().unwrap_or(0));
    if name.starts_with("system-") {
        let known = SYSTEM_CLASSES.into_iter().find(|(known, _)| *known == name);
        let error = match known {
            None => format!("{name} is not a known system priority class"),
            Some((_, known)) if known != value => format!("value of {name} PriorityClass must be {known}"),
            Some(_) if object["globalDefault"] == true => {
                format!("globalDefault of {name} PriorityClass must be false")
            }
            Some(_) => return judge.errors,
        };
        let of_system = "priority class names with 'system-' prefix are reserved for system use only";
        judge.forbidden("metadata.name", format!("{of_system}. error: {error}"));
    } else if value > 1_000_000_000 {
        judge.forbidden("value", "maximum allowed value of a user defined priority is 1000000000");
    }
    judge.errors
}

pub(super) fn check_runtime_class(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    judge.label(&object["handler"], "handler");
    if let Some(old) = old {
        judge.fixed(&object["handler"], &old["handler"], "handler");
    }
    judge.errors
}

/// What was used once is counted by nobody here.
pub(super) fn check_revision(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    judge.not_negative(object, &["revision"], "");
    if let Some(error) = judge.errors.last_mut() {
        "revision".clone_into(&mut error.field);
    }
    if let Some(old) = old {
        judge.fixed(&object["data"], &old["data"], "data");
    }
    judge.errors
}
