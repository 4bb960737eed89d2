//! Certificates, priorities, and what else belongs to the cluster.

use std::collections::BTreeSet;

use concert_api::{Fault, FieldError, FieldErrors, names, quoted};
use serde_json::{Value, json};

use super::amounts::check_overhead;
use super::judge::{IMMUTABLE, Judge, NOT_NEGATIVE, items, text, within};
use super::pod::check_tolerations;
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
    if !object["preemptionPolicy"].is_null() {
        judge.one_of(&object["preemptionPolicy"], &["PreemptLowerPriority", "Never"], "preemptionPolicy");
    }
    judge.errors
}

pub(super) fn check_runtime_class(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    check_overhead(&object["overhead"]["podFixed"], "overhead", &mut judge);
    let scheduling = &object["scheduling"];
    judge.errors.extend(names::check_labels(&scheduling["nodeSelector"], "scheduling.nodeSelector"));
    check_tolerations(&scheduling["tolerations"], "scheduling.tolerations", &mut judge);
    // What rules of their own look at comes last.
    if old.is_some_and(|old| object["handler"] != old["handler"]) {
        judge.invalid("handler", Value::Null, IMMUTABLE);
    }
    judge.label(&object["handler"], "handler");
    judge.errors
}

/// What was used once is counted by nobody here.
pub(super) fn check_revision(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    if let Some(revision) = object["revision"].as_i64().filter(|revision| *revision < 0) {
        judge.invalid("revision", revision, NOT_NEGATIVE);
    }
    match (old, &object["data"]) {
        (Some(old), data) => judge.fixed(data, &old["data"], "data"),
        (None, Value::Null) => judge.required("data", "data is mandatory"),
        (None, Value::Object(_)) => {}
        (None, _) => judge.required("data", "data must be a valid JSON object"),
    }
    judge.errors
}

/// How devices are asked for together. Expressions are not looked at.
pub(super) fn check_device_class(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let (mut judge, mut later) = (Judge::default(), Judge::default());
    let spec = &object["spec"];
    for (place, selector) in items(&spec["selectors"], "spec.selectors") {
        if !selector["cel"].is_object() {
            judge.required(format!("{place}.cel"), "");
        }
    }
    for (place, config) in items(&spec["config"], "spec.config") {
        let (opaque, field) = (&config["opaque"], format!("{place}.opaque"));
        if !opaque.is_object() {
            judge.required(field, "");
            continue;
        }
        if opaque["parameters"].is_null() {
            judge.required(format!("{field}.parameters"), "");
        }
        later.text(&opaque["driver"], &format!("{field}.driver"));
    }
    if let Some(name) = spec["extendedResourceName"].as_str() {
        if !name.contains('/') {
            let detail = "a name must be a domain-prefixed path, such as 'example.com/my-prop'";
            later.invalid("spec.extendedResourceName", name, detail);
        }
        later.faults(name, names::qualified_faults(name), "spec.extendedResourceName");
    }
    judge.errors.extend(later.errors);
    judge.errors
}

/// The entry of another server among those that this one asks.
pub(super) fn check_api_service(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    let (group, version, name) = (text(&spec["group"]), text(&spec["version"]), text(&object["metadata"]["name"]));
    let wanted = format!("{version}.{group}");
    if name != wanted && names::path_segment_faults(name).is_empty() {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {}", quoted(&wanted));
        judge.invalid("metadata.name", name, detail);
    }
    if group.is_empty() && version != "v1" {
        judge.required("spec.group", "only v1 may have an empty group and it better be legacy kube");
    } else if !group.is_empty() {
        judge.faults(group, names::subdomain_faults(group), "spec.group");
    }
    judge.faults(version, names::dns_1035_faults(version), "spec.version");
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let number = spec[field].as_i64().unwrap_or(0);
        if !(1..=most).contains(&number) {
            judge.invalid(format!("spec.{field}"), number, format!("must be positive and less than {most}"));
        }
    }
    check_server(spec, &mut judge);
    judge.errors
}

/// Where that server is, and how it is known.
fn check_server(spec: &Value, judge: &mut Judge) {
    let (trusted, service) = (text(&spec["caBundle"]), &spec["service"]);
    let (unchecked, field) = (spec["insecureSkipTLSVerify"] == true, "spec.insecureSkipTLSVerify");
    if !service.is_object() {
        if !trusted.is_empty() {
            let filled = trusted.bytes().rev().take_while(|byte| *byte == b'=').count();
            let bytes = (trusted.len() / 4 * 3).saturating_sub(filled);
            judge.invalid("spec.caBundle", format!("{bytes} bytes"), "local APIServices may not have a caBundle");
        }
        if unchecked {
            judge.invalid(field, true, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    for name in ["namespace", "name"] {
        judge.text(&service[name], &format!("spec.service.{name}"));
    }
    let port = service["port"].as_i64().unwrap_or(0);
    if !(1..=65535).contains(&port) {
        judge.invalid("spec.service.port", port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    if unchecked && !trusted.is_empty() {
        judge.invalid(field, true, "may not be true if caBundle is present");
    }
}
