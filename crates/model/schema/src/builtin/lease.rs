//! Leases.

use concert_api::{FieldError, FieldErrors, Time};
use serde_json::{Value, json};

use super::cells;

pub(super) fn cells(object: &Value, now: Time) -> Vec<Value> {
    let holder = object["spec"]["holderIdentity"].as_str().unwrap_or_default();
    vec![cells::name(object), holder.into(), cells::age(object, now)]
}

/// What belongs to coordinated leader election, which is off, is dropped.
pub(super) fn prepare(object: &mut Value, _old: Option<&Value>) {
    let Some(members) = object.as_object_mut() else { return };
    let spec = members.entry("spec").or_insert_with(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

pub(super) fn check(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = &object["spec"];
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    if let Some(count) = spec["leaseTransitions"].as_i64().filter(|count| *count < 0) {
        errors.push(FieldError::invalid("spec.leaseTransitions", count, "must be greater than or equal to 0"));
    }
    errors
}
