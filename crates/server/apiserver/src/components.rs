//! The parts of a control plane, as clients that still ask for them see them. They are told, not stored.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use concert_api::{GroupResource, ObjectKey, Status};
use concert_store::{Beside, Key};
use serde_json::json;

use crate::beside::{Parsed, Stored};
use crate::encode;
use crate::kinds::{Resource, Version};

/// What is told of what this server has no part for.
const NONE: &str = "not a part of this control plane";

/// Each part, whether it is well, and what it says.
const PARTS: [(&str, &str, &str); 3] =
    [("controller-manager", "False", NONE), ("etcd-0", "True", "ok"), ("scheduler", "False", NONE)];

static COMPONENTS: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new("", "componentstatuses"));

/// All of them, if that is what is asked for.
pub(crate) fn all(resource: &Resource) -> Option<Vec<(ObjectKey, Arc<Stored>)>> {
    (resource.id == *COMPONENTS).then(|| PARTS.map(|part| made(resource.storage(), part)).into())
}

/// The answer where there is none of this name, in the words of the real server.
pub(crate) fn not_found(name: &str) -> Status {
    Status::not_found(&GroupResource::new("", "componentstatus"), name)
}

/// As if it were stored, but it never was: it has no revision.
fn made(version: &Version, (name, healthy, message): (&str, &str, &str)) -> (ObjectKey, Arc<Stored>) {
    let condition = json!({"type": "Healthy", "status": healthy, "message": message});
    let bytes: Bytes = encode::finished(version, &json!({"metadata": {"name": name}, "conditions": [condition]}), "");
    let key = Key { resource: COMPONENTS.clone(), object: ObjectKey::cluster(name) };
    let beside = Parsed::of(&key, &bytes);
    (key.object, Arc::new(Stored { revision: 0, bytes, beside }))
}
