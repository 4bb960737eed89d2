//! The parts of an object that a provider may change.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::Ready;

/// Sets annotations, leaving the others.
pub(crate) fn annotate(object: &mut Value, annotations: BTreeMap<String, String>) {
    if annotations.is_empty() {
        return;
    }
    let existing = child(child(object, "metadata"), "annotations");
    for (key, value) in annotations {
        fields(existing).insert(key, Value::String(value));
    }
}

/// Sets `status.atProvider`.
pub(crate) fn set_at_provider(object: &mut Value, observation: Value) {
    fields(child(object, "status")).insert("atProvider".to_owned(), observation);
}

/// Sets the condition Ready.
pub(crate) fn set_ready(object: &mut Value, ready: &Ready, now: SystemTime) {
    match ready {
        Ready::Yes => set_condition(object, "True", "Available", "", now),
        Ready::Creating => set_condition(object, "False", "Creating", "", now),
        Ready::No(message) => set_condition(object, "False", "Unavailable", message, now),
    }
}

/// Says that the external resource is going away.
pub(crate) fn set_deleting(object: &mut Value, now: SystemTime) {
    set_condition(object, "False", "Deleting", "", now);
}

/// The time of transition stays what it was if the status stays what it was.
fn set_condition(object: &mut Value, status: &str, reason: &str, message: &str, now: SystemTime) {
    let conditions = child(child(object, "status"), "conditions");
    if !conditions.is_array() {
        *conditions = Value::Array(Vec::new());
    }
    let Value::Array(conditions) = conditions else { return };
    let old = conditions.iter().position(|condition| condition["type"] == "Ready");
    let since = old.map(|index| &conditions[index]).filter(|condition| condition["status"] == status);
    let since = since.and_then(|condition| condition["lastTransitionTime"].as_str().map(str::to_owned));
    let mut condition = json!({
        "type": "Ready",
        "status": status,
        "reason": reason,
        "lastTransitionTime": since.unwrap_or_else(|| timestamp(now)),
    });
    if !message.is_empty() {
        condition["message"] = Value::from(message);
    }
    match old {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

fn child<'a>(object: &'a mut Value, name: &str) -> &'a mut Value {
    fields(object).entry(name).or_insert_with(|| Value::Object(Map::new()))
}

/// The fields of an object; anything else becomes an object first.
fn fields(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was just made an object")
}

/// RFC 3339 in whole seconds, as Kubernetes writes times.
fn timestamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's civil_from_days, for days since 1970.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn timestamps_are_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_transition_keeps_its_time_while_the_status_stays() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let mut object = json!({"status": {"conditions": [{"type": "Synced", "status": "True"}]}});
        set_ready(&mut object, &Ready::Creating, at(0));
        set_ready(&mut object, &Ready::No("on fire".into()), at(60));
        let ready = json!({
            "type": "Ready", "status": "False", "reason": "Unavailable", "message": "on fire",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        });
        assert_eq!(object["status"]["conditions"][1], ready);
        set_ready(&mut object, &Ready::Yes, at(120));
        assert_eq!(object["status"]["conditions"][1]["lastTransitionTime"], "1970-01-01T00:02:00Z");
        assert_eq!(object["status"]["conditions"][0]["type"], "Synced");
    }
}
