//! What of a provider's reply is taken. Pure.
//!
//! The reconciler owns the object: identity and everything unknown to the provider stay as they are, whatever the
//! reply holds. Unchanged fields are never taken back from a reply, so a wire that rounds numbers rounds none of ours.

use concert_api::{Condition, Time};
use concert_external::{CREATE_FAILED, CREATE_PENDING, CREATE_SUCCEEDED, PAUSED};
use serde_json::{Map, Value};

/// Conditions that are ours to set.
const OWN_CONDITIONS: [&str; 2] = ["Synced", "UpToDate"];
/// Annotations that are not for providers to set.
const RESERVED: [&str; 7] = [
    PAUSED,
    CREATE_PENDING,
    CREATE_SUCCEEDED,
    CREATE_FAILED,
    "crossplane.io/poll-interval",
    "crossplane.io/reconcile-requested-at",
    "kubectl.kubernetes.io/last-applied-configuration",
];
/// Ours, all of them.
const RESERVED_PREFIX: &str = "concert.dev/";

/// Takes the status of a reply over into `object`: `conditions` by type, everything else as it came.
pub(crate) fn take_status(object: &mut Value, reply: Option<&Value>, generation: i64, now: Time) {
    let Some(status) = reply.and_then(|reply| reply["status"].as_object()) else { return };
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    for (key, value) in status.iter().filter(|(key, _)| key.as_str() != "conditions") {
        object["status"][key] = value.clone();
    }
    for entry in status.get("conditions").and_then(Value::as_array).into_iter().flatten() {
        let Ok(mut condition) = serde_json::from_value::<Condition>(entry.clone()) else { continue };
        if OWN_CONDITIONS.contains(&condition.r#type.as_str()) {
            continue;
        }
        condition.observed_generation = Some(generation);
        condition.set(object, now);
    }
}

/// The annotations of a reply that differ from the object's and are a provider's to set.
pub(crate) fn new_annotations(object: &Value, reply: Option<&Value>) -> Map<String, Value> {
    let annotations = reply.and_then(|reply| reply["metadata"]["annotations"].as_object());
    annotations
        .into_iter()
        .flatten()
        .filter(|(key, value)| {
            value.is_string()
                && !RESERVED.contains(&key.as_str())
                && !key.starts_with(RESERVED_PREFIX)
                && object["metadata"]["annotations"].get(key.as_str()) != Some(*value)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What a reply adds to spec: fields the object left open. `None` if nothing.
pub(crate) fn spec_additions(object: &Value, reply: Option<&Value>) -> Option<Value> {
    additions(&object["spec"], &reply?["spec"])
}

fn additions(own: &Value, other: &Value) -> Option<Value> {
    match (own, other) {
        (_, Value::Null) => None,
        (Value::Null, added) => Some(added.clone()),
        (Value::Object(own), Value::Object(other)) => {
            let added: Map<String, Value> = other
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), additions(own.get(key).unwrap_or(&Value::Null), value)?)))
                .collect();
            (!added.is_empty()).then_some(Value::Object(added))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_a_providers_to_say_is_taken() {
        let mut object = json!({
            "metadata": {"name": "a", "annotations": {"keep": "1"}},
            "spec": {"big": 9_007_199_254_740_993_i64, "open": {"a": 1}},
            "status": {"own": true, "conditions": [{"type": "Synced", "status": "True", "reason": "R"}]},
        });
        let reply = json!({
            "metadata": {"name": "evil", "uid": "x", "finalizers": [], "annotations": {
                "keep": "1", "crossplane.io/external-name": "id", PAUSED: "true", "concert.dev/create-token": "t", "n": 3,
            }},
            "spec": {"big": 9_007_199_254_740_992_i64, "open": {"a": 2, "b": 3}, "list": [1]},
            "status": {"atProvider": {"id": 7}, "conditions": [
                {"type": "Synced", "status": "False", "reason": "Lie"}, {"type": "Ready", "status": "True", "reason": "Available"}, 5,
            ]},
        });
        let new: Vec<String> = new_annotations(&object, Some(&reply)).keys().cloned().collect();
        assert_eq!(new, ["crossplane.io/external-name"]);
        assert_eq!(spec_additions(&object, Some(&reply)), Some(json!({"open": {"b": 3}, "list": [1]})));
        take_status(&mut object, Some(&reply), 4, Time::from_unix_seconds(0));
        assert_eq!(object["status"]["atProvider"]["id"], 7);
        assert!(Condition::is_true(&object, "Synced") && Condition::is_true(&object, "Ready"));
        assert_eq!(Condition::find(&object, "Ready").unwrap().observed_generation, Some(4));
        assert_eq!((&object["metadata"]["name"], &object["status"]["own"]), (&json!("a"), &json!(true)));
    }

    #[test]
    fn an_absent_reply_changes_nothing() {
        let mut object = json!({"spec": {"a": 1}, "status": {"b": 2}});
        let before = object.clone();
        take_status(&mut object, None, 1, Time::from_unix_seconds(0));
        assert_eq!((object.clone(), spec_additions(&object, None)), (before, None));
    }
}
