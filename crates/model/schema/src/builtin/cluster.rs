//! Certificates, priorities, and what else belongs to the cluster.

use concert_api::FieldErrors;
use serde_json::{Value, json};

use super::judge::{Judge, text, within};

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

/// A new request has no conditions yet.
pub(super) fn prepare_signing_request(object: &mut Value, old: Option<&Value>) {
    if old.is_none() && object.is_object() {
        object["status"] = json!({});
    }
}

pub(super) fn check_signing_request(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    if old.is_some() {
        return judge.errors;
    }
    let spec = &object["spec"];
    if text(&spec["request"]).is_empty() {
        judge.invalid("spec.request", "", "PEM block type must be CERTIFICATE REQUEST");
    }
    if spec["usages"].as_array().is_none_or(Vec::is_empty) {
        judge.required("spec.usages", "usages must be provided");
    }
    if text(&spec["signerName"]).is_empty() {
        judge.required("spec.signerName", "");
    } else if !text(&spec["signerName"]).contains('/') {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        judge.invalid("spec.signerName", text(&spec["signerName"]), detail);
    }
    if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|seconds| *seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        judge.invalid("spec.expirationSeconds", seconds, detail);
    }
    judge.errors
}

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
        let detail = "priority class names with 'system-' prefix are reserved for system use only. error: system- is not allowed";
        judge.forbidden("metadata.name", detail);
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
