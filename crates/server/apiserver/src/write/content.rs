//! What an object becomes of what was sent and what was stored.

use concert_api::meta;
use serde_json::Value;

use crate::books::Made;
use crate::kinds;
use crate::target::{Part, Target};

/// Whether nothing is wanted to be other than it is. What only the server sets is as it is, whatever is said of it.
pub(super) fn is_the_same(sent: &Value, old: &Value) -> bool {
    let (Some(new), Some(before)) = (sent.as_object(), old.as_object()) else { return sent == old };
    let content = |(name, _): &(&String, &Value)| *name != "metadata";
    new.iter().filter(content).eq(before.iter().filter(content))
        && theirs(&sent["metadata"]).eq(theirs(&old["metadata"]))
}

/// The metadata that are not the server's own.
fn theirs(metadata: &Value) -> impl Iterator<Item = (&String, &Value)> {
    const ITS_OWN: [&str; 3] = ["creationTimestamp", "generation", "uid"];
    metadata.as_object().into_iter().flatten().filter(|(name, _)| !ITS_OWN.contains(&name.as_str()))
}

/// A custom resource that was not read since a configuration was merged into it is pruned when it is stored; gives what
/// it was before, where that was another thing.
pub(super) fn prune_merged(target: &Target, object: &mut Value, made: Made) -> Option<Value> {
    if made == Made::Read || !target.resource.is_custom() {
        return None;
    }
    let mut before = object.clone();
    let has_status = target.part == Part::Status || !target.version().status;
    if made == Made::WithoutStatus && has_status {
        before["status"] = Value::Null;
    }
    target.version().schema.prune(object);
    (before != *object).then_some(before)
}

/// The number that a scale writes may be the first thing in the object around it, whose defaults then are seen by
/// whoever reads it. They were no part of what was checked. Gives what it was before, where that was another thing.
pub(super) fn default_scaled(target: &Target, object: &mut Value) -> Option<Value> {
    if target.part != Part::Scale || !target.resource.is_custom() {
        return None;
    }
    let before = object.clone();
    // What has no room is left out, as it is by a read.
    let _ = target.version().schema.default(object);
    (before != *object).then_some(before)
}

/// What was sent to an object leaves its status alone; what was sent to the status leaves all else alone, but for the
/// metadata of built-in kinds.
pub(super) fn merged(target: &Target, mut sent: Value, old: &Value) -> Value {
    let (mut object, status) = if target.part == Part::Status {
        if !target.resource.is_custom() {
            sent["spec"] = old["spec"].clone();
            keep_metadata(target, &mut sent, old);
            return sent;
        }
        (old.clone(), sent.get("status").cloned())
    } else if target.version().status {
        (sent, old.get("status").cloned())
    } else {
        return sent;
    };
    if let Some(members) = object.as_object_mut() {
        match status {
            Some(status) => members.insert("status".into(), status),
            None => members.remove("status"),
        };
    }
    object
}

/// Through the status of most built-in kinds their metadata can be changed; not so of some.
fn keep_metadata(target: &Target, object: &mut Value, old: &Value) {
    let id = &target.resource.id;
    let kept: &[&str] = match (&*id.group, &*id.resource) {
        ("apps", "deployments") => &["labels"],
        ("", "pods") => &["ownerReferences"],
        (
            "flowcontrol.apiserver.k8s.io"
            | "internal.apiserver.k8s.io"
            | "resource.k8s.io"
            | "scheduling.k8s.io"
            | "storage.k8s.io"
            | "storagemigration.k8s.io",
            _,
        )
        | ("certificates.k8s.io", "podcertificaterequests")
        | ("networking.k8s.io", "servicecidrs") => &["labels", "annotations", "finalizers", "ownerReferences"],
        _ => &[],
    };
    let metadata = meta::of(object);
    for name in kept {
        match old["metadata"].get(*name) {
            Some(value) => metadata.insert((*name).to_owned(), value.clone()),
            None => metadata.remove(*name),
        };
    }
}

/// Only `finalize` changes what holds a namespace.
pub(super) fn keep_namespace_finalizers(target: &Target, object: &mut Value, old: &Value) {
    if target.resource.id != kinds::namespaces() {
        return;
    }
    if target.part != Part::Finalize {
        object["spec"] = old["spec"].clone();
    } else if object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
        object["spec"] = serde_json::json!({});
    }
}
