//! Volumes, and what provides them.

use concert_api::Time;
use serde_json::Value;

use super::{NONE, UNSET, age, length, list, name, name_of_class, text, text_or, texts};

/// How a volume is used, in short.
fn modes(list: &Value) -> String {
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let used = texts(list);
    let shown: Vec<&str> = known.iter().filter(|(long, _)| used.contains(long)).map(|(_, short)| *short).collect();
    shown.join(",")
}

fn class<'a>(object: &'a Value, field: &'a Value) -> &'a str {
    let old = object["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].as_str();
    old.unwrap_or_else(|| text(field))
}

fn phase(object: &Value) -> Value {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".into();
    }
    text(&object["status"]["phase"]).into()
}

pub(in crate::builtin) fn volume(object: &Value, now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    let claim = &spec["claimRef"];
    let claim = if claim.is_object() {
        format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
    } else {
        String::new()
    };
    vec![
        name(object),
        text_or(&spec["capacity"]["storage"], "0").into(),
        modes(&spec["accessModes"]).into(),
        text(&spec["persistentVolumeReclaimPolicy"]).into(),
        phase(object),
        claim.into(),
        class(object, &spec["storageClassName"]).into(),
        text_or(&spec["volumeAttributesClassName"], UNSET).into(),
        text(&object["status"]["reason"]).into(),
        age(object, now),
        text_or(&spec["volumeMode"], UNSET).into(),
    ]
}

pub(in crate::builtin) fn claim(object: &Value, now: Time) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let bound = !text(&spec["volumeName"]).is_empty();
    let capacity = if bound { text_or(&status["capacity"]["storage"], "0") } else { "" };
    let modes = if bound { modes(&status["accessModes"]) } else { String::new() };
    vec![
        name(object),
        phase(object),
        text(&spec["volumeName"]).into(),
        capacity.into(),
        modes.into(),
        class(object, &spec["storageClassName"]).into(),
        text_or(&spec["volumeAttributesClassName"], UNSET).into(),
        age(object, now),
        text_or(&spec["volumeMode"], UNSET).into(),
    ]
}

pub(in crate::builtin) fn storage_class(object: &Value, now: Time) -> Vec<Value> {
    let marks = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    vec![
        name_of_class(object, &marks),
        object["provisioner"].clone(),
        text_or(&object["reclaimPolicy"], "Delete").into(),
        text_or(&object["volumeBindingMode"], "Immediate").into(),
        (object["allowVolumeExpansion"] == true).into(),
        age(object, now),
    ]
}

pub(in crate::builtin) fn attributes_class(object: &Value, now: Time) -> Vec<Value> {
    vec![name(object), object["driverName"].clone(), age(object, now)]
}

pub(in crate::builtin) fn attachment(object: &Value, now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        spec["attacher"].clone(),
        text(&spec["source"]["persistentVolumeName"]).into(),
        spec["nodeName"].clone(),
        (object["status"]["attached"] == true).into(),
        age(object, now),
    ]
}

pub(in crate::builtin) fn driver(object: &Value, now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    let modes = texts(&spec["volumeLifecycleModes"]).join(",");
    let tokens = &spec["tokenRequests"];
    let audiences: Vec<&str> = list(tokens).map(|one| text(&one["audience"])).collect();
    vec![
        name(object),
        (spec["attachRequired"] != false).into(),
        (spec["podInfoOnMount"] == true).into(),
        (spec["storageCapacity"] == true).into(),
        if tokens.is_null() { UNSET.into() } else { audiences.join(",").into() },
        (spec["requiresRepublish"] == true).into(),
        if modes.is_empty() { NONE.into() } else { modes.into() },
        age(object, now),
    ]
}

pub(in crate::builtin) fn node(object: &Value, now: Time) -> Vec<Value> {
    vec![name(object), length(&object["spec"]["drivers"]).into(), age(object, now)]
}
