//! What the reconciler may do to the external resource.

use std::fmt;

use concert_api::meta;
use serde_json::Value;

/// Set to exactly `"true"`: hands off.
pub const PAUSED: &str = "crossplane.io/paused";

/// What may be done. Read from `spec.managementPolicies` and `spec.deletionPolicy`; an absent list allows everything,
/// an empty one nothing at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "five independent permissions are five booleans")]
pub struct Policy {
    /// Hands off: do not even look.
    pub paused: bool,
    /// May create it.
    pub create: bool,
    /// May change it.
    pub update: bool,
    /// May delete it; otherwise it stays when the object goes.
    pub delete: bool,
    /// May fill in fields of spec from what was observed.
    pub late_initialize: bool,
}

/// The policies contradict themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPolicy(String);

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidPolicy {}

impl Policy {
    /// Everything is allowed.
    pub const ALL: Self = Self { paused: false, create: true, update: true, delete: true, late_initialize: true };

    /// Reads the policy of an object.
    ///
    /// # Errors
    /// An action is unknown, `*` stands with others, Observe is missing, or deletionPolicy is neither Delete nor Orphan.
    pub fn of(object: &Value) -> Result<Self, InvalidPolicy> {
        let orphan = match &object["spec"]["deletionPolicy"] {
            Value::Null => false,
            Value::String(text) if text == "Delete" => false,
            Value::String(text) if text == "Orphan" => true,
            other => {
                let text = format!("spec.deletionPolicy {other} is not supported: use \"Delete\" or \"Orphan\"");
                return Err(InvalidPolicy(text));
            }
        };
        let mut policy = match object["spec"].get("managementPolicies") {
            None | Some(Value::Null) => Self { delete: !orphan, ..Self::ALL },
            Some(list) => Self::from_actions(list, orphan)?,
        };
        policy.paused |= meta::annotation(object, PAUSED) == Some("true");
        Ok(policy)
    }

    /// A custom set of actions decides alone; the default one leaves deletion to deletionPolicy.
    fn from_actions(list: &Value, orphan: bool) -> Result<Self, InvalidPolicy> {
        let malformed = || InvalidPolicy(format!("spec.managementPolicies {list} is not a list of actions"));
        let actions: Vec<&str> = list
            .as_array()
            .ok_or_else(malformed)?
            .iter()
            .map(Value::as_str)
            .collect::<Option<_>>()
            .ok_or_else(malformed)?;
        let has = |action: &str| actions.contains(&action);
        let known = ["*", "Observe", "Create", "Update", "Delete", "LateInitialize"];
        if let Some(unknown) = actions.iter().find(|action| !known.contains(action)) {
            let text =
                format!("spec.managementPolicies has the unknown action {unknown:?}: known are {}", known.join(", "));
            return Err(InvalidPolicy(text));
        }
        if actions.is_empty() {
            return Ok(Self { paused: true, create: false, update: false, delete: false, late_initialize: false });
        }
        if has("*") {
            if actions.iter().any(|action| *action != "*") {
                return Err(InvalidPolicy(format!("spec.managementPolicies {list} has \"*\" beside other actions")));
            }
            return Ok(Self { delete: !orphan, ..Self::ALL });
        }
        if !has("Observe") {
            return Err(InvalidPolicy(format!(
                "spec.managementPolicies {list} lacks \"Observe\"; nothing works without it"
            )));
        }
        Ok(Self {
            paused: false,
            create: has("Create"),
            update: has("Update"),
            delete: has("Delete"),
            late_initialize: has("LateInitialize"),
        })
    }

    /// Nothing but looking is allowed.
    #[must_use]
    pub fn only_observes(&self) -> bool {
        !(self.create || self.update || self.delete || self.late_initialize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(spec: Value) -> String {
        match Policy::of(&json!({"spec": spec})) {
            Err(error) => format!("invalid: {error}"),
            Ok(policy) => [
                (policy.paused, 'P'),
                (policy.create, 'C'),
                (policy.update, 'U'),
                (policy.delete, 'D'),
                (policy.late_initialize, 'L'),
            ]
            .iter()
            .filter_map(|(on, letter)| on.then_some(*letter))
            .collect(),
        }
    }

    /// The table of A4; the columns are legacy with deletionPolicy Delete and Orphan.
    #[test]
    fn every_set_means_what_crossplane_means_by_it() {
        for (actions, delete, orphan) in [
            (json!(null), "CUDL", "CUL"),
            (json!(["*"]), "CUDL", "CUL"),
            (json!(["Observe", "Create", "Update", "LateInitialize", "Delete"]), "CUDL", "CUDL"),
            (json!(["Delete", "Observe", "Create", "Update"]), "CUD", "CUD"),
            (json!(["Observe", "Create", "Update", "LateInitialize"]), "CUL", "CUL"),
            (json!(["Observe", "Create"]), "C", "C"),
            (json!(["Observe", "Delete"]), "D", "D"),
            (json!(["Observe", "Update", "Observe"]), "U", "U"),
            (json!(["Observe", "Update", "LateInitialize", "Delete"]), "UDL", "UDL"),
            (json!(["Observe"]), "", ""),
            (json!([]), "P", "P"),
        ] {
            assert_eq!(shown(json!({"managementPolicies": actions})), delete, "{actions}");
            assert_eq!(shown(json!({"managementPolicies": actions, "deletionPolicy": "Orphan"})), orphan, "{actions}");
        }
    }

    #[test]
    fn contradictions_are_named() {
        for (spec, words) in [
            (json!({"managementPolicies": ["Create"]}), "lacks \"Observe\""),
            (json!({"managementPolicies": ["*", "Observe"]}), "beside other actions"),
            (json!({"managementPolicies": ["Observe", "Fly"]}), "unknown action \"Fly\""),
            (json!({"managementPolicies": "Observe"}), "not a list"),
            (json!({"deletionPolicy": "Keep"}), "use \"Delete\" or \"Orphan\""),
        ] {
            let text = shown(spec.clone());
            assert!(text.starts_with("invalid: ") && text.contains(words), "{spec}: {text}");
        }
    }

    #[test]
    fn only_the_exact_annotation_pauses() {
        for (value, paused) in [("true", true), ("True", false), ("1", false), ("false", false)] {
            let object = json!({"metadata": {"annotations": {PAUSED: value}}});
            assert_eq!(Policy::of(&object).unwrap().paused, paused, "{value}");
        }
    }
}
