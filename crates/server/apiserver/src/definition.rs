//! What the server itself says about a definition: whether its names are free and its kind is served.

use concert_api::{Condition, meta};
use serde_json::{Value, json};

use crate::Server;

impl Server {
    /// Writes the status of a definition in the same write that brings it: there is no moment in which it is not yet
    /// established.
    pub(crate) fn establish(&self, definition: &mut Value, old: Option<&Value>) {
        let now = self.now();
        let names = definition["spec"]["names"].clone();
        let mut stored: Vec<Value> =
            old.and_then(|old| old["status"]["storedVersions"].as_array().cloned()).unwrap_or_default();
        let versions = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
        for version in versions.iter().filter(|version| version["storage"] == true) {
            if !stored.contains(&version["name"]) {
                stored.push(version["name"].clone());
            }
        }
        if !definition["status"].is_object() {
            definition["status"] = json!({});
        }
        let conflict = self.name_conflict(definition);
        if conflict.is_none() {
            definition["status"]["acceptedNames"] = names;
        } else if definition["status"]["acceptedNames"].is_null() {
            definition["status"]["acceptedNames"] = json!({"plural": "", "kind": ""});
        }
        definition["status"]["storedVersions"] = stored.into();
        let conditions = match conflict {
            None => [
                Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found"),
                Condition::new("Established", true, "InitialNamesAccepted", "the initial names have been accepted"),
            ],
            Some((reason, message)) => [
                Condition::new("NamesAccepted", false, reason, message),
                Condition::new("Established", false, "NotAccepted", "not all names are accepted"),
            ],
        };
        for condition in conditions {
            condition.set(definition, now);
        }
    }

    /// Which of its names another resource of the group already has.
    fn name_conflict(&self, definition: &Value) -> Option<(&'static str, String)> {
        let own = meta::text(definition, "name");
        let (group, names) = (&definition["spec"]["group"], &definition["spec"]["names"]);
        let kinds = self.kinds();
        let mut others = kinds.iter().filter(|other| *group == *other.id.group && other.id.to_string() != own);
        others.find_map(|other| {
            let taken = |field: &str, found: &str| names[field] == found;
            if taken("kind", &other.kind) || taken("listKind", &other.kind) {
                Some(("KindConflict", format!("{:?} is already in use", other.kind)))
            } else if taken("singular", &other.singular) {
                Some(("SingularConflict", format!("{:?} is already in use", other.singular)))
            } else {
                None
            }
        })
    }
}
