//! The parts of an object that a provider may change.

use std::collections::BTreeMap;
use std::time::SystemTime;

use concert_api::{Condition, Time, meta};
use serde_json::{Map, Value};

use crate::Ready;

/// Sets annotations, leaving the others.
pub(crate) fn annotate(object: &mut Value, annotations: BTreeMap<String, String>) {
    for (key, value) in annotations {
        meta::set_annotation(object, &key, value);
    }
}

/// Sets `status.atProvider`.
pub(crate) fn set_at_provider(object: &mut Value, observation: Value) {
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    object["status"]["atProvider"] = observation;
}

/// Sets the condition Ready.
pub(crate) fn set_ready(object: &mut Value, ready: &Ready, now: SystemTime) {
    match ready {
        Ready::Yes => set_condition(object, true, "Available", "", now),
        Ready::Creating => set_condition(object, false, "Creating", "", now),
        Ready::No(message) => set_condition(object, false, "Unavailable", message, now),
    }
}

/// Says that the external resource is going away.
pub(crate) fn set_deleting(object: &mut Value, now: SystemTime) {
    set_condition(object, false, "Deleting", "", now);
}

fn set_condition(object: &mut Value, holds: bool, reason: &str, message: &str, now: SystemTime) {
    Condition::new("Ready", holds, reason, message).set(object, Time::from(now));
}
