//! Volumes and claims of them.

pub(super) mod claim;

use concert_api::{Fault, FieldError, FieldErrors, meta, names};
use serde_json::{Value, json};

use super::judge::{Judge, count, members, text, within};
use super::pod::{check_node_selector, check_source};
use super::quantity;
use claim::check_modes;

/// Where the content of a volume of the cluster can come from, in the order in which it is looked for.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];
const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// A volume or a claim that is in use is not to be lost: a finalizer says so.
fn protect(object: &mut Value, finalizer: &str) {
    let mut all: Vec<Value> = meta::finalizers(object).into_iter().map(Value::from).collect();
    if !all.contains(&finalizer.into()) {
        all.push(finalizer.into());
    }
    if let Some(metadata) = within(object, &["metadata"]) {
        metadata.insert("finalizers".to_owned(), all.into());
    }
}

pub(super) fn prepare_claim(object: &mut Value, old: Option<&Value>) {
    if let Some(spec) = object.get_mut("spec") {
        claim::agree(spec, old.map(|old| &old["spec"]));
    }
    if old.is_none() && object.is_object() {
        protect(object, "kubernetes.io/pvc-protection");
        object["status"] = json!({"phase": "Pending"});
    }
}

pub(super) fn prepare_volume(object: &mut Value, old: Option<&Value>) {
    if old.is_none() && object.is_object() {
        protect(object, "kubernetes.io/pv-protection");
        let now = object["metadata"]["creationTimestamp"].clone();
        object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
    }
}

pub(super) fn check_volume(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    check_volume_spec(&object["spec"], "spec", &mut judge);
    if let Some(old) = old {
        let (spec, before) = (&object["spec"], &old["spec"]);
        if SOURCES.iter().any(|source| spec[*source] != before[*source]) {
            let detail = "spec.persistentvolumesource is immutable after creation\n";
            judge.forbidden("spec.persistentvolumesource", detail);
        }
        judge.fixed(&spec["volumeMode"], &before["volumeMode"], "volumeMode");
    }
    judge.errors
}

fn check_volume_spec(spec: &Value, path: &str, judge: &mut Judge) {
    let at = |field: &str| format!("{path}.{field}");
    if count(&spec["accessModes"]) == 0 {
        judge.required(at("accessModes"), "");
    }
    check_modes(&spec["accessModes"], &at("accessModes"), judge);
    check_capacity(&spec["capacity"], &at("capacity"), judge);
    let policies = ["Delete", "Recycle", "Retain"];
    let policy = text(&spec["persistentVolumeReclaimPolicy"]);
    if !policy.is_empty() && !policies.contains(&policy) {
        judge.not_supported(policy, &policies, &at("persistentVolumeReclaimPolicy"));
    }
    if spec["nodeAffinity"].is_object() {
        let (required, field) = (&spec["nodeAffinity"]["required"], at("nodeAffinity.required"));
        if required.is_object() {
            check_node_selector(required, &field, judge);
        } else {
            judge.required(field, "must specify required node constraints");
        }
    }
    check_sources(spec, path, judge);
    let is_root = text(&spec["hostPath"]["path"]).starts_with('/') && is_root(text(&spec["hostPath"]["path"]));
    if is_root && policy == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        judge.forbidden(at("persistentVolumeReclaimPolicy"), detail);
    }
    let class = text(&spec["storageClassName"]);
    if !class.is_empty() {
        judge.faults(class, names::subdomain_faults(class), &at("storageClassName"));
    }
    judge.choice(&spec["volumeMode"], &["Block", "Filesystem"], &at("volumeMode"));
    check_attributes_class(spec, path, judge);
}

/// Whether a path leads to the root, once it is tidied.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    depth == 0
}

fn check_capacity(capacity: &Value, path: &str, judge: &mut Judge) {
    if count(capacity) == 0 {
        judge.required(path, "");
    }
    if count(capacity) != 1 || capacity["storage"].is_null() {
        let fault = Fault::NotSupported(capacity.clone(), vec!["storage".to_owned()]);
        judge.errors.push(FieldError::new(path, fault, ""));
    }
    for (name, amount) in members(capacity) {
        let (field, millis) = (format!("{path}[{name}]"), quantity::millis(amount).unwrap_or(0));
        // Rounded up, as whole numbers are.
        let whole = i64::try_from((millis + 999).div_euclid(1000)).unwrap_or(i64::MAX);
        if whole < 0 {
            judge.invalid(&field, whole, "must be a valid resource quantity");
        }
        if millis <= 0 {
            judge.invalid(field, text(amount), "must be greater than zero");
        }
    }
}

/// Where the content of a volume of the cluster comes from.
fn check_sources(spec: &Value, path: &str, judge: &mut Judge) {
    let mut first = true;
    for kind in SOURCES.into_iter().filter(|kind| spec[*kind].is_object()) {
        let shown = match kind {
            "gcePersistentDisk" if first => "persistentDisk",
            "cephfs" if !first => "cephFS",
            other => other,
        };
        let field = format!("{path}.{shown}");
        // A flex volume may come second.
        if first || kind == "flexVolume" {
            check_source_of(spec, kind, (path, &field), judge);
        } else {
            judge.forbidden(field, "may not specify more than 1 volume type");
        }
        first = false;
    }
    if first {
        judge.required(path, "must specify a volume type");
    }
}

fn check_source_of(spec: &Value, kind: &str, (path, field): (&str, &str), judge: &mut Judge) {
    let source = &spec[kind];
    match kind {
        "local" => {
            if judge.text(&source["path"], &format!("{field}.path")) {
                judge.no_backsteps(text(&source["path"]), &format!("{field}.path"));
            }
            if !spec["nodeAffinity"]["required"].is_object() {
                judge.required(format!("{path}.nodeAffinity"), "Local volume requires node affinity");
            }
        }
        "csi" => {
            judge.driver(&source["driver"], &format!("{field}.driver"));
            judge.text(&source["volumeHandle"], &format!("{field}.volumeHandle"));
            for name in ["controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"] {
                let name = format!("{name}SecretRef");
                if source[&name].is_object() {
                    check_secret(&source[&name], &format!("{field}.{name}"), judge);
                }
            }
        }
        _ => check_source(source, kind, field, judge),
    }
}

/// A secret of some namespace.
fn check_secret(secret: &Value, path: &str, judge: &mut Judge) {
    let (name, namespace) = (text(&secret["name"]), text(&secret["namespace"]));
    if judge.text(&secret["name"], &format!("{path}.name")) {
        judge.faults(name, names::subdomain_faults(name), &format!("{path}.name"));
    }
    if judge.text(&secret["namespace"], &format!("{path}.namespace")) {
        judge.faults(namespace, names::label_faults(namespace), &format!("{path}.namespace"));
    }
}

fn check_attributes_class(spec: &Value, path: &str, judge: &mut Judge) {
    let Some(class) = spec["volumeAttributesClassName"].as_str() else { return };
    let field = format!("{path}.volumeAttributesClassName");
    if class.is_empty() {
        judge.required(field, "an empty string is disallowed");
    } else {
        judge.faults(class, names::subdomain_faults(class), &field);
    }
    if !spec["csi"].is_object() {
        judge.required(format!("{path}.csi"), "has to be specified when using volumeAttributesClassName");
    }
}
