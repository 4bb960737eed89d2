//! What makes volumes and brings them to nodes: classes, drivers, attachments.

use std::collections::{BTreeMap, BTreeSet};

use concert_api::{Fault, FieldError, FieldErrors, names, quoted};
use serde_json::Value;

use super::judge::{IMMUTABLE, Judge, NOT_NEGATIVE, count, items, members, text, texts};
use super::quantity;

/// All parameters of a class together, and how many there may be.
const PARAMETERS: (usize, usize) = (256 * 1024, 512);
const ANY_CASE: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(super) fn check_storage_class(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    if let Some(old) = old {
        for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
            if object[field] != old[field] {
                judge.invalid(field, Value::Null, IMMUTABLE);
            }
        }
    }
    let provisioner = text(&object["provisioner"]);
    check_provisioner(provisioner, "provisioner", &mut judge);
    check_parameters(&object["parameters"], &mut judge);
    let policy = text(&object["reclaimPolicy"]);
    if !matches!(policy, "Delete" | "Retain" | "") {
        judge.not_supported(policy, &["Delete", "Retain"], "reclaimPolicy");
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    judge.choice(&object["volumeBindingMode"], &modes, "volumeBindingMode");
    check_topologies(&object["allowedTopologies"], &mut judge);
    if provisioner.is_empty() {
        judge.required("provisioner", "");
    }
    judge.errors
}

pub(super) fn check_attributes_class(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    for field in ["driverName", "parameters"] {
        if old.is_some_and(|old| old[field] != object[field]) {
            judge.forbidden(field, format!("updates to {field} are forbidden."));
        }
    }
    judge.text(&object["driverName"], "driverName");
    check_provisioner(text(&object["driverName"]), "driverName", &mut judge);
    check_parameters(&object["parameters"], &mut judge);
    if count(&object["parameters"]) == 0 {
        judge.required("parameters", "must contain at least one key/value pair");
    }
    judge.errors
}

fn check_provisioner(name: &str, field: &str, judge: &mut Judge) {
    let lower = name.to_lowercase();
    if !name.is_empty() {
        judge.faults(&lower, names::qualified_faults(&lower), field);
    }
}

fn check_parameters(parameters: &Value, judge: &mut Judge) {
    const FIELD: &str = "parameters";
    let (bytes, most) = PARAMETERS;
    let mut too_long = |most: usize| {
        let detail = format!("may not be more than {most} bytes");
        judge.errors.push(FieldError::new(FIELD, Fault::TooLong, detail));
    };
    if count(parameters) > most {
        return too_long(most);
    }
    let total: usize = members(parameters).map(|(key, value)| key.len() + text(value).len()).sum();
    if total > bytes {
        too_long(bytes);
    }
    if parameters.get("").is_some() {
        judge.invalid(FIELD, "", "field can not be empty.");
    }
}

/// Where volumes may be: each term once.
fn check_topologies(topologies: &Value, judge: &mut Judge) {
    let mut known = BTreeSet::new();
    for (place, term) in items(topologies, "allowedTopologies") {
        let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (place, one) in items(&term["matchLabelExpressions"], &format!("{place}.matchLabelExpressions")) {
            let (key, field) = (text(&one["key"]), format!("{place}.values"));
            let mut values = BTreeSet::new();
            if count(&one["values"]) == 0 {
                judge.required(&field, "");
            }
            for (place, value) in items(&one["values"], &field) {
                if !values.insert(text(value)) {
                    judge.duplicate(place, text(value));
                }
            }
            judge.faults(key, names::qualified_faults(key), &format!("{place}.key"));
            if labels.insert(key, values).is_some() {
                judge.duplicate(format!("{place}.key"), key);
            }
        }
        if !known.insert(labels) {
            judge.duplicate(format!("{place}.matchLabelExpressions"), "");
        }
    }
}

pub(super) fn check_driver(object: &Value, old: Option<&Value>) -> FieldErrors {
    const MODES: [&str; 2] = ["Persistent", "Ephemeral"];
    let mut judge = Judge::default();
    let spec = &object["spec"];
    judge.choice(&spec["fsGroupPolicy"], &["File", "None", "ReadWriteOnceWithFSType"], "spec.fsGroupPolicy");
    check_tokens(&spec["tokenRequests"], &mut judge);
    for mode in texts(&spec["volumeLifecycleModes"]).into_iter().filter(|mode| !MODES.contains(mode)) {
        judge.not_supported(mode, &MODES, "spec.volumeLifecycleModes");
    }
    let period = "nodeAllocatableUpdatePeriodSeconds";
    if let Some(seconds) = spec[period].as_i64().filter(|seconds| *seconds < 10) {
        judge.invalid(format!("spec.{period}"), seconds, "must be greater than or equal to 10 seconds");
    }
    let secrets = &spec["serviceAccountTokenInSecrets"];
    if !secrets.is_null() && count(&spec["tokenRequests"]) == 0 {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        judge.invalid("spec.serviceAccountTokenInSecrets", secrets.clone(), detail);
    }
    for (field, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
        if let Some(old) = old {
            judge.fixed(&spec[field], &old["spec"][field], &format!("spec.{shown}"));
        }
    }
    judge.errors
}

fn check_tokens(requests: &Value, judge: &mut Judge) {
    let mut known = BTreeSet::new();
    for (place, request) in items(requests, "spec.tokenRequests") {
        let audience = text(&request["audience"]);
        if !known.insert(audience) {
            judge.duplicate(format!("{place}.audience"), audience);
            continue;
        }
        let field = format!("{place}.expirationSeconds");
        match request["expirationSeconds"].as_i64() {
            Some(seconds) if seconds < 600 => {
                judge.invalid(field, seconds, "may not specify a duration less than 10 minutes");
            }
            Some(seconds) if seconds > 1 << 32 => {
                judge.invalid(field, seconds, "may not specify a duration larger than 2^32 seconds");
            }
            _ => {}
        }
    }
}

pub(super) fn check_attachment(object: &Value, old: Option<&Value>) -> FieldErrors {
    const DETAIL: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let mut judge = Judge::default();
    let spec = &object["spec"];
    let (inline, name) = (&spec["source"]["inlineVolumeSpec"], &spec["source"]["persistentVolumeName"]);
    let field = "spec.source.persistentVolumeName";
    match (inline.is_object(), name.as_str()) {
        (false, None) => judge.required("spec.source", DETAIL),
        (true, Some(_)) => judge.forbidden("spec.source", DETAIL),
        (false, Some("")) => judge.required(field, "must specify non empty persistentVolumeName"),
        (false, Some(_)) | (true, None) => {}
    }
    let node = text(&spec["nodeName"]);
    judge.faults(node, names::subdomain_faults(node), "spec.nodeName");
    if let Some(name) = name.as_str() {
        judge.faults(name, names::subdomain_faults(name), field);
    }
    let attacher = text(&spec["attacher"]);
    if judge.text(&spec["attacher"], "spec.attacher") {
        judge.short(attacher, 63, "spec.attacher");
        let faults = names::subdomain_faults(&attacher.to_lowercase());
        match old {
            Some(_) => judge.faults(attacher, faults, "spec.attacher"),
            // A rule of its own has its own words.
            None if !faults.is_empty() => judge.invalid("spec.attacher", attacher, ANY_CASE),
            None => {}
        }
    }
    if old.is_some_and(|old| old["spec"] != *spec) {
        judge.invalid("spec", Value::Null, IMMUTABLE);
    }
    judge.errors
}

/// What drivers there are on a node.
pub(super) fn check_node(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let mut known = BTreeSet::new();
    let drivers = items(&object["spec"]["drivers"], "spec.drivers");
    for (place, driver) in &drivers {
        judge.driver(&driver["name"], &format!("{place}.name"));
        let (id, field) = (text(&driver["nodeID"]), format!("{place}.nodeID"));
        judge.text(&driver["nodeID"], &field);
        if id.len() > 256 {
            judge.invalid(field, id, "must be 256 characters or less");
        }
        judge.not_negative(&driver["allocatable"], &["count"], &format!("{place}.allocatable"));
        if !known.insert(text(&driver["name"])) {
            judge.duplicate(format!("{place}.name"), text(&driver["name"]));
        }
        let mut keys = BTreeSet::new();
        for key in texts(&driver["topologyKeys"]) {
            if key.is_empty() {
                judge.required(place, "");
            }
            if !keys.insert(key) {
                judge.duplicate(place, key);
            }
            judge.faults(key, names::qualified_faults(key), place);
        }
    }
    let now: BTreeMap<&str, &Value> = drivers.iter().map(|(_, driver)| (text(&driver["name"]), *driver)).collect();
    for (_, before) in old.map(|old| items(&old["spec"]["drivers"], "")).unwrap_or_default() {
        if let Some(driver) = now.get(text(&before["name"])) {
            check_same_driver(driver, before, &mut judge);
        }
    }
    judge.errors
}

/// Of a driver only what it has room for may change.
fn check_same_driver(driver: &Value, before: &Value, judge: &mut Judge) {
    if ["nodeID", "topologyKeys"].iter().any(|field| driver[*field] != before[*field]) {
        let (name, id) = (quoted(text(&driver["name"])), quoted(text(&driver["nodeID"])));
        let shown =
            format!(r#"{{"Name":{name},"NodeID":{id},"TopologyKeys":{},"Allocatable":null}}"#, driver["topologyKeys"]);
        judge.errors.push(FieldError::new("spec.drivers", Fault::InvalidShown(Some(shown)), IMMUTABLE));
    }
}

pub(super) fn check_capacity(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    if let Some(old) = old {
        judge.fixed(&object["nodeTopology"], &old["nodeTopology"], "nodeTopology");
        judge.fixed(&object["storageClassName"], &old["storageClassName"], "storageClassName");
    }
    judge.selector(&object["nodeTopology"], "nodeTopology");
    let class = text(&object["storageClassName"]);
    judge.faults(class, names::subdomain_faults(class), "storageClassName");
    if quantity::millis(&object["capacity"]).is_some_and(|amount| amount < 0) {
        judge.invalid("capacity", text(&object["capacity"]), NOT_NEGATIVE);
    }
    judge.errors
}
