//! Claims of volumes: what they may be, and what of them may change.

use concert_api::{FieldErrors, names};
use serde_json::{Value, json};

use super::MODES;
use crate::builtin::judge::{IMMUTABLE, Judge, items, text};
use crate::builtin::quantity;

/// What named the class of a claim, once.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What a claim is filled from has two names. The older one takes few kinds, and forgets others.
pub(super) fn agree(spec: &mut Value, old: Option<&Value>) {
    let Some(members) = spec.as_object_mut() else { return };
    let none = Value::Null;
    let before = |name: &str| old.map_or(&none, |old| &old[name]);
    let elsewhere = members.get("dataSourceRef").is_some_and(|source| !text(&source["namespace"]).is_empty());
    if elsewhere && before("dataSourceRef").is_null() {
        members.remove("dataSourceRef");
    }
    let is_known = members.get("dataSource").is_none_or(|source| {
        let kind = (text(&source["apiGroup"]), text(&source["kind"]));
        matches!(kind, ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    });
    let is_new = before("dataSource").is_null() && before("dataSourceRef").is_null();
    if !is_known && is_new && !members.contains_key("dataSourceRef") {
        members.remove("dataSource");
    }
    match (members.get("dataSource").cloned(), members.get("dataSourceRef").cloned()) {
        (Some(source), None) => drop(members.insert("dataSourceRef".to_owned(), source)),
        (None, Some(source)) if text(&source["namespace"]).is_empty() => {
            members.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

pub(in crate::builtin) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    if let Some(old) = old
        && object["status"] != old["status"]
    {
        check_status(&object["status"], &mut judge);
        return judge.errors;
    }
    check_spec(&object["spec"], "spec", &mut judge);
    if let Some(old) = old {
        check_change(object, old, &mut judge);
    }
    judge.errors
}

pub(in crate::builtin) fn check_spec(spec: &Value, path: &str, judge: &mut Judge) {
    let modes = format!("{path}.accessModes");
    if spec["accessModes"].as_array().is_none_or(Vec::is_empty) {
        judge.required(&modes, "at least 1 access mode is required");
    }
    check_modes(&spec["accessModes"], &modes, judge);
    if spec["selector"].is_object() {
        judge.selector(&spec["selector"], &format!("{path}.selector"));
    }
    let (storage, field) = (&spec["resources"]["requests"]["storage"], format!("{path}.resources[storage]"));
    match quantity::millis(storage) {
        None => judge.required(field, ""),
        Some(..=0) => judge.invalid(field, storage.clone(), "must be greater than zero"),
        Some(_) => {}
    }
    for name in ["storageClassName", "volumeAttributesClassName"] {
        let class = text(&spec[name]);
        for fault in if class.is_empty() { Vec::new() } else { names::subdomain_faults(class) } {
            judge.invalid(format!("{path}.{name}"), class, fault);
        }
    }
    let mode = &spec["volumeMode"];
    if !mode.is_null() && !matches!(text(mode), "Block" | "Filesystem") {
        judge.not_supported(text(mode), &["Block", "Filesystem"], &format!("{path}.volumeMode"));
    }
    for name in ["dataSource", "dataSourceRef"] {
        if spec[name].is_object() {
            check_source(&spec[name], &format!("{path}.{name}"), judge);
        }
    }
    let (source, other) = (&spec["dataSource"], &spec["dataSourceRef"]);
    let same = ["apiGroup", "kind", "name"].iter().all(|name| text(&source[*name]) == text(&other[*name]));
    if source.is_object() && other.is_object() && !same {
        judge.invalid(path, json!({}), "must match dataSourceRef");
    }
}

pub(super) fn check_modes(modes: &Value, path: &str, judge: &mut Judge) {
    let all: Vec<&str> = items(modes, path).into_iter().map(|(_, mode)| text(mode)).collect();
    for mode in all.iter().filter(|mode| !MODES.contains(mode)) {
        judge.not_supported(mode, &MODES, path);
    }
    let alone = "ReadWriteOncePod";
    if all.contains(&alone) && all.iter().any(|mode| *mode != alone && MODES.contains(mode)) {
        judge.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// What a claim is filled from.
fn check_source(source: &Value, path: &str, judge: &mut Judge) {
    for name in ["name", "kind"] {
        judge.text(&source[name], &format!("{path}.{name}"));
    }
    let (group, kind) = (text(&source["apiGroup"]), text(&source["kind"]));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        judge.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    for fault in if group.is_empty() { Vec::new() } else { names::subdomain_faults(group) } {
        judge.invalid(format!("{path}.apiGroup"), group, fault);
    }
}

/// Only what is bound grows; a claim without a class is given one, once.
fn check_change(object: &Value, old: &Value, judge: &mut Judge) {
    let (mut new, mut before) = (object["spec"].clone(), old["spec"].clone());
    if !new.is_object() || !before.is_object() {
        return;
    }
    if text(&before["volumeName"]).is_empty() {
        before["volumeName"] = new["volumeName"].clone();
        new["volumeName"] = before["volumeName"].clone();
    }
    let annotated = !text(&old["metadata"]["annotations"][CLASS]).is_empty();
    if !annotated && before["storageClassName"].is_null() && !new["storageClassName"].is_null() {
        before["storageClassName"] = new["storageClassName"].clone();
    }
    if object["status"]["phase"] == "Bound" {
        for spec in [&mut new, &mut before] {
            if let Some(requests) = spec.pointer_mut("/resources/requests").and_then(Value::as_object_mut) {
                requests.remove("storage");
            }
            spec.as_object_mut().and_then(|spec| spec.remove("volumeAttributesClassName"));
        }
    }
    if new != before {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        judge.forbidden("spec", detail);
    }
    let size = |object: &Value| quantity::millis(&object["spec"]["resources"]["requests"]["storage"]);
    let there = quantity::millis(&old["status"]["capacity"]["storage"]).unwrap_or(0);
    if size(object) < size(old) && size(object).is_some_and(|size| size <= there) {
        judge.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
    if object["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
        judge.invalid("volumeMode", object["spec"]["volumeMode"].clone(), IMMUTABLE);
    }
    let class = &object["spec"]["volumeAttributesClassName"];
    if *class != old["spec"]["volumeAttributesClassName"]
        && !old["status"]["currentVolumeAttributesClassName"].is_null()
        && text(class).is_empty()
    {
        let what = if class.is_null() { "nil" } else { "empty string" };
        let detail = format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
        judge.forbidden("spec.volumeAttributesClassName", detail);
    }
}

fn check_status(status: &Value, judge: &mut Judge) {
    for (part, amounts) in ["capacity", "allocatedResources"].map(|part| (part, &status[part])) {
        for (name, amount) in amounts.as_object().into_iter().flatten() {
            // What has no prefix is the server's own, and that is one.
            if part == "allocatedResources" && name != "storage" && !name.contains('/') {
                judge.not_supported(name, &["storage"], "status.allocatedResources");
                continue;
            }
            let whole = quantity::millis(amount).map_or(0, |millis| i64::try_from(millis / 1000).unwrap_or(i64::MIN));
            if whole < 0 {
                judge.invalid(format!("status.{part}[{name}]"), whole, "must be a valid resource quantity");
            }
        }
    }
}
