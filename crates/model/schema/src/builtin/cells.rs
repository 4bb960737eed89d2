//! The cells of tables, as the real server prints them.

use concert_api::Time;
use serde_json::Value;

use crate::column::age_of;

/// The name of an object.
pub(super) fn name(object: &Value) -> Value {
    object["metadata"]["name"].as_str().unwrap_or_default().into()
}

/// How long ago an object was made.
pub(super) fn age(object: &Value, now: Time) -> Value {
    age_of(&object["metadata"]["creationTimestamp"], now)
}
