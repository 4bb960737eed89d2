//! Volumes and claims of them.

pub(super) mod claim;

use concert_api::{Fault, FieldError, FieldErrors, meta};
use serde_json::{Value, json};

use super::judge::{IMMUTABLE, Judge, items, text, within};

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
    const SOURCES: [&str; 11] = [
        "hostPath",
        "nfs",
        "csi",
        "local",
        "iscsi",
        "fc",
        "rbd",
        "cephfs",
        "awsElasticBlockStore",
        "gcePersistentDisk",
        "azureDisk",
    ];
    let mut judge = Judge::default();
    let spec = &object["spec"];
    if spec["accessModes"].as_array().is_none_or(Vec::is_empty) {
        judge.required("spec.accessModes", "");
    }
    for (_, mode) in items(&spec["accessModes"], "spec.accessModes") {
        if !MODES.contains(&text(mode)) {
            judge.not_supported(text(mode), &MODES, "spec.accessModes");
        }
    }
    if spec["capacity"].as_object().is_none_or(serde_json::Map::is_empty) {
        judge.required("spec.capacity", "");
    }
    if spec["capacity"].as_object().is_none_or(|all| all.len() != 1 || !all.contains_key("storage")) {
        let fault = Fault::NotSupported(spec["capacity"].clone(), vec!["storage".to_owned()]);
        judge.errors.push(FieldError::new("spec.capacity", fault, ""));
    }
    let others = spec
        .as_object()
        .is_some_and(|members| members.keys().any(|name| name.ends_with("File") || name.ends_with("Volume")));
    if old.is_none() && !others && !SOURCES.iter().any(|source| spec[*source].is_object()) {
        judge.required("spec", "must specify a volume type");
    }
    judge.errors
}

pub(super) fn check_storage_class(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    judge.text(&object["provisioner"], "provisioner");
    let policy = text(&object["reclaimPolicy"]);
    if !matches!(policy, "Delete" | "Retain" | "") {
        judge.not_supported(policy, &["Delete", "Retain"], "reclaimPolicy");
    }
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if old.is_some_and(|old| object[field] != old[field]) {
            judge.invalid(field, Value::Null, IMMUTABLE);
        }
    }
    judge.errors
}
