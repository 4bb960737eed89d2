//! Namespaces.

use concert_api::{FieldError, FieldErrors, Time, names};
use serde_json::{Map, Value, json};

use super::cells;

/// What the server itself waits for before a namespace goes.
const FINALIZER: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn cells(object: &Value, now: Time) -> Vec<Value> {
    vec![cells::name(object), object["status"]["phase"].clone(), cells::age(object, now)]
}

/// A label has its name.
pub(super) fn read(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(name) = metadata.get("name").cloned()
    {
        member(metadata, "labels").insert(NAME_LABEL.to_owned(), name);
    }
}

pub(super) fn prepare(object: &mut Value, old: Option<&Value>) {
    // It may have been made up meanwhile.
    read(object);
    let Some(members) = object.as_object_mut() else { return };
    let spec = member(members, "spec");
    if old.is_none() {
        let mut finalizers = spec.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
        spec.insert("finalizers".to_owned(), finalizers.into());
        members.insert("status".to_owned(), json!({"phase": "Active"}));
    }
    let status = member(members, "status");
    if status.get("phase").and_then(Value::as_str).is_none_or(str::is_empty) {
        status.insert("phase".to_owned(), "Active".into());
    }
}

/// A member that is an object, made if it is not.
fn member<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let member = object.entry(name).or_insert_with(|| json!({}));
    if !member.is_object() {
        *member = json!({});
    }
    member.as_object_mut().expect("it was just made one")
}

pub(super) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (phase, deleting) = (&object["status"]["phase"], object["metadata"]["deletionTimestamp"].is_string());
    if deleting && phase != "Terminating" {
        let detail = "may only be 'Terminating' if `deletionTimestamp` is not empty";
        errors.push(FieldError::invalid("status.Phase", phase.clone(), detail));
    }
    if !deleting && phase != "Active" {
        let detail = "may only be 'Active' if `deletionTimestamp` is empty";
        errors.push(FieldError::invalid("status.Phase", phase.clone(), detail));
    }
    let finalizers = object["spec"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for (index, finalizer) in finalizers.enumerate() {
        // Of a new one the place is not told.
        let place = if old.is_some() { format!("spec.finalizers[{index}]") } else { "spec.finalizers".to_owned() };
        let mut fail = |detail: String| errors.push(FieldError::invalid(&place, finalizer, detail));
        names::qualified_faults(finalizer).into_iter().for_each(&mut fail);
        if finalizer != FINALIZER && !finalizer.contains('/') {
            fail("name is neither a standard finalizer name nor is it fully qualified".to_owned());
        }
    }
    errors
}
