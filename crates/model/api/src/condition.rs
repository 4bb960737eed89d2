//! Conditions: what is true of an object, and since when.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Time;

/// One entry of `status.conditions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type, as `Ready`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A word for programs.
    #[serde(default)]
    pub reason: String,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The generation of the object this speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// A condition without time; [`Condition::set`] stamps it.
    #[must_use]
    pub fn new(r#type: &str, holds: bool, reason: &str, message: impl Into<String>) -> Self {
        Self {
            r#type: r#type.to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            last_transition_time: None,
            observed_generation: None,
        }
    }

    /// The condition of `object` with this type, if it has one that can be read.
    #[must_use]
    pub fn find(object: &Value, r#type: &str) -> Option<Self> {
        let conditions = object.pointer("/status/conditions")?.as_array()?;
        let found = conditions.iter().find(|one| one["type"] == r#type)?;
        serde_json::from_value(found.clone()).ok()
    }

    /// Whether `object` has this condition with status `True`.
    #[must_use]
    pub fn is_true(object: &Value, r#type: &str) -> bool {
        Self::find(object, r#type).is_some_and(|one| one.status == "True")
    }

    /// Whether two conditions say the same, whenever they began to.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        let same_generation = match (self.observed_generation, other.observed_generation) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        (&self.status, &self.reason, &self.message) == (&other.status, &other.reason, &other.message) && same_generation
    }

    /// Sets this condition on `object`. An entry that says the same stays as it is; an entry whose status is equal
    /// keeps its time. Unknown fields of other entries are untouched.
    pub fn set(mut self, object: &mut Value, now: Time) {
        let before = Self::find(object, &self.r#type);
        if before.as_ref().is_some_and(|before| before.says_the_same(&self)) {
            return;
        }
        let kept = before.filter(|before| before.status == self.status).and_then(|before| before.last_transition_time);
        self.last_transition_time = Some(kept.unwrap_or(now));
        if !object["status"].is_object() {
            object["status"] = json!({});
        }
        let conditions = &mut object["status"]["conditions"];
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        let entry = serde_json::to_value(&self).unwrap_or_default();
        if let Some(entries) = conditions.as_array_mut() {
            match entries.iter_mut().find(|one| one["type"] == self.r#type.as_str()) {
                Some(old) => *old = entry,
                None => entries.push(entry),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_conditions_are_left_alone_and_times_follow_the_status() {
        let (t1, t2) = (Time::from_unix_seconds(1), Time::from_unix_seconds(2));
        let mut object = json!({"status": {"conditions": [{"type": "Other", "status": "True", "x": 1}]}});
        Condition::new("Ready", false, "Creating", "").set(&mut object, t1);
        let first = object.clone();
        Condition::new("Ready", false, "Creating", "").set(&mut object, t2);
        assert_eq!(object, first);
        Condition::new("Ready", false, "Creating", "still").set(&mut object, t2);
        assert_eq!(Condition::find(&object, "Ready").unwrap().last_transition_time, Some(t1), "status did not move");
        Condition::new("Ready", true, "Available", "").set(&mut object, t2);
        assert_eq!(Condition::find(&object, "Ready").unwrap().last_transition_time, Some(t2));
        assert_eq!(object["status"]["conditions"][0]["x"], 1);
        assert!(Condition::is_true(&object, "Ready") && !Condition::is_true(&object, "Synced"));
    }

    #[test]
    fn malformed_status_is_replaced_not_fatal() {
        for mut object in [json!({}), json!({"status": 3}), json!({"status": {"conditions": "x"}})] {
            Condition::new("Ready", true, "Available", "").set(&mut object, Time::from_unix_seconds(1));
            assert!(Condition::is_true(&object, "Ready"));
        }
    }
}
