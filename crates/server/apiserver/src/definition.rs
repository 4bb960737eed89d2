//! What the server itself says about a definition: whether its names are free and its kind is served.

use concert_api::{Condition, ObjectKey, meta};
use concert_merge::{Author, Live, ManagedFields};
use serde_json::{Value, json};

use crate::Server;
use crate::books;
use crate::kinds;
use crate::target::{Part, Target};

impl Server {
    /// Writes the status of a definition in the same write that brings it: there is no moment in which it is not yet
    /// established.
    pub(crate) fn establish(&self, definition: &mut Value, old: Option<&Value>, managed: &mut ManagedFields) {
        let now = self.now();
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
        definition["status"]["storedVersions"] = stored.into();
        let before = definition.clone();
        let (accepted, conflict) = self.accepted_names(definition);
        definition["status"]["acceptedNames"] = accepted;
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
        let Some(resource) = self.kinds().of_resource(&kinds::definitions()).cloned() else { return };
        let target = Target::stored(&resource, &ObjectKey::cluster(meta::text(definition, "name"))).part(Part::Status);
        let live = Live { object: &before, managed };
        *managed = books::updated(&target, live, definition, Author { manager: books::SERVER, now });
    }

    /// The names that no other resource of the group has, and the last conflict.
    fn accepted_names(&self, definition: &Value) -> (Value, Option<(&'static str, String)>) {
        let own = meta::text(definition, "name");
        let (group, names) = (&definition["spec"]["group"], &definition["spec"]["names"]);
        let kinds = self.kinds();
        let others: Vec<_> =
            kinds.iter().filter(|other| *group == *other.id.group && other.id.to_string() != own).collect();
        let resources: Vec<&str> = others
            .iter()
            .flat_map(|other| {
                [&*other.id.resource, &other.singular].into_iter().chain(other.short_names.iter().map(String::as_str))
            })
            .collect();
        let kinds: Vec<&str> = others.iter().flat_map(|other| [other.kind.as_str(), &other.list_kind]).collect();
        let mut accepted = json!({"plural": "", "kind": ""});
        let mut conflict = None;
        for (field, reason, taken) in [
            ("plural", "PluralConflict", &resources),
            ("singular", "SingularConflict", &resources),
            ("shortNames", "ShortNamesConflict", &resources),
            ("kind", "KindConflict", &kinds),
            ("listKind", "ListKindConflict", &kinds),
        ] {
            let wanted: Vec<&str> = match &names[field] {
                Value::String(text) => vec![text],
                Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
                _ => continue,
            };
            match wanted.iter().find(|name| taken.contains(*name)) {
                Some(name) => conflict = Some((reason, format!("{name:?} is already in use"))),
                None => accepted[field] = names[field].clone(),
            }
        }
        if !names["categories"].is_null() {
            accepted["categories"] = names["categories"].clone();
        }
        (accepted, conflict)
    }
}
