//! What a terminating namespace says about what holds it up.

use std::collections::BTreeMap;

use concert_api::{Condition, Time};
use concert_store::Key;
use serde_json::Value;

use crate::Server;
use crate::target::Part;

/// What is left in a namespace: objects by resource, and by what holds them.
#[derive(Debug, Default)]
struct Remains {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Server {
    /// Writes the conditions of a terminating namespace that is still there.
    pub(crate) async fn say_what_remains(&self, namespace: &Key) {
        let mut remains = Remains::default();
        let snapshot = self.store().snapshot();
        for (resource, object) in self.contents(namespace) {
            let id = &resource.id;
            let key = Key { resource: resource.stored_as.clone(), object };
            let Some(entry) = snapshot.get(&key).filter(|_| resource.storage().stored().is_none()) else { continue };
            *remains.resources.entry(format!("{}.{}", id.resource, id.group)).or_default() += 1;
            let finalizers = entry.beside.object.as_ref().map(concert_api::Object::finalizers).unwrap_or_default();
            for finalizer in finalizers {
                *remains.finalizers.entry(finalizer).or_default() += 1;
            }
        }
        if remains.resources.is_empty() {
            return;
        }
        let now = self.now();
        self.edit(namespace, Part::Status, |object| remains.describe(object, now)).await;
    }
}

/// Says of a namespace which is empty, and waits for others, that nothing of its content is left.
pub(crate) fn say_nothing_remains(namespace: &mut Value, now: Time) {
    Remains::default().describe(namespace, now);
}

impl Remains {
    fn describe(&self, namespace: &mut Value, now: Time) {
        let discovered = "All resources successfully discovered";
        let parsed = "All legacy kube types successfully parsed";
        let deleted = "All content successfully deleted, may be waiting on finalization";
        let resources = listed(&self.resources, "has");
        let finalizers = listed(&self.finalizers, "in");
        let remaining = if self.resources.is_empty() {
            let removed = "All content successfully removed";
            Condition::new("NamespaceContentRemaining", false, "ContentRemoved", removed)
        } else {
            let remaining = format!("Some resources are remaining: {resources}");
            Condition::new("NamespaceContentRemaining", true, "SomeResourcesRemain", remaining)
        };
        let held = format!("Some content in the namespace has finalizers remaining: {finalizers}");
        let free = "All content-preserving finalizers finished".to_owned();
        let finalizers = if self.finalizers.is_empty() {
            Condition::new("NamespaceFinalizersRemaining", false, "ContentHasNoFinalizers", free)
        } else {
            Condition::new("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", held)
        };
        let conditions = [
            Condition::new("NamespaceDeletionDiscoveryFailure", false, "ResourcesDiscovered", discovered),
            Condition::new("NamespaceDeletionGroupVersionParsingFailure", false, "ParsedGroupVersions", parsed),
            Condition::new("NamespaceDeletionContentFailure", false, "ContentDeleted", deleted),
            remaining,
            finalizers,
        ];
        for mut condition in conditions {
            condition.observed_generation = None;
            condition.set(namespace, now);
        }
    }
}

fn listed(counts: &BTreeMap<String, usize>, word: &str) -> String {
    let parts: Vec<String> =
        counts.iter().map(|(name, count)| format!("{name} {word} {count} resource instances")).collect();
    parts.join(", ")
}
