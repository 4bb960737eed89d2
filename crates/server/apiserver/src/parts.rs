//! Subresources of built-in kinds that change their object in a way of their own: pods that are bound, evicted, resized
//! or given further containers, and certificates that are granted. Nothing runs pods here; what is stored is the effect.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use concert_api::{Details, FieldErrors, GroupResource, Gvk, ObjectKey, Status, Time, meta};
use concert_schema::{check_pod_part, part_kind, resized_pod};
use concert_store::Key;
use serde_json::{Value, json};

use crate::Server;
use crate::auth::User;
use crate::body::Media;
use crate::delete::{DeleteOptions, Deleted};
use crate::incoming::{self, Incoming};
use crate::kinds::Resource;
use crate::review;
use crate::target::{Part, Query, Target};
use crate::write::Written;

/// The kinds that are sent to pods, which are of no resource.
static BINDING: LazyLock<Option<Arc<Resource>>> = LazyLock::new(|| kind("", "v1", "Binding"));
static EVICTION: LazyLock<Option<Arc<Resource>>> = LazyLock::new(|| kind("policy", "v1", "Eviction"));

fn kind(group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
    let kind = part_kind(&Gvk::new(group, version, kind));
    Resource::from_builtin(kind.as_slice()).map(Arc::new)
}

/// An object with the part of it that was sent.
pub(crate) fn merged(part: Part, sent: &Value, old: &Value, now: Time) -> Value {
    let mut object = old.clone();
    object["metadata"] = sent["metadata"].clone();
    if matches!(part, Part::EphemeralContainers | Part::Resize) {
        for name in ["labels", "annotations", "finalizers", "ownerReferences"] {
            match old["metadata"].get(name) {
                Some(value) => meta::of(&mut object).insert(name.to_owned(), value.clone()),
                None => meta::of(&mut object).remove(name),
            };
        }
    }
    match part {
        Part::EphemeralContainers => {
            object["spec"]["ephemeralContainers"] = sent["spec"]["ephemeralContainers"].clone();
        }
        Part::Resize => {
            object["spec"] = resized_pod(sent, old)["spec"].take();
        }
        Part::Approval => {
            let mut conditions = sent["status"]["conditions"].clone();
            date_conditions(&mut conditions, &old["status"]["conditions"], now);
            object["status"]["conditions"] = conditions;
        }
        Part::Whole | Part::Status | Part::Scale | Part::Finalize | Part::Binding | Part::Eviction | Part::Node => {}
    }
    object
}

/// A condition says when it was written, and since when it holds.
pub(crate) fn date_conditions(conditions: &mut Value, old: &Value, now: Time) {
    let before: Vec<Value> = old.as_array().cloned().unwrap_or_default();
    for condition in conditions.as_array_mut().into_iter().flatten().filter(|one| one.is_object()) {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.to_string().into();
        }
        if condition["lastTransitionTime"].is_null() {
            let same = |one: &&Value| one["type"] == condition["type"] && one["status"] == condition["status"];
            let since = before.iter().find(same).map(|one| one["lastTransitionTime"].clone());
            let since = since.filter(|time| !time.is_null());
            condition["lastTransitionTime"] = since.unwrap_or_else(|| now.to_string().into());
        }
    }
}

/// What is wrong with a change of a part that has rules of its own; `None` if this is no such part.
pub(crate) fn check(part: Part, object: &Value, old: &Value) -> Option<FieldErrors> {
    check_pod_part(part.name(), object, old)
}

impl Server {
    /// POST to what can be done to a pod.
    pub(crate) async fn act(
        &self,
        target: &Target,
        query: &Query,
        media: Media,
        body: &[u8],
    ) -> Result<Written, Status> {
        let kind = if target.part == Part::Eviction { &*EVICTION } else { &*BINDING };
        let kind = kind.as_ref().ok_or_else(|| Status::internal("this kind is not known"))?;
        let object =
            ObjectKey::new(target.namespace.as_deref().unwrap_or_default(), target.name.as_deref().unwrap_or_default());
        let Incoming { value, warnings, .. } =
            incoming::read(&Target::stored(kind, &object), media, body, query.field_validation)?;
        let named = meta::text(&value, "name");
        // A binding that is not sent to a pod names it.
        let target = &if target.name.is_none() {
            target.at(&ObjectKey { name: named.into(), ..object })
        } else {
            target.clone()
        };
        let key = target.named_key()?;
        let key = Key { resource: GroupResource::new("", "pods"), ..key };
        if !named.is_empty() && *named != *key.object.name {
            let kind = &kind.kind;
            return Err(Status::bad_request(format!("name in URL does not match name in {kind} object")));
        }
        if target.part == Part::Eviction {
            self.evict(target, query, &value).await?;
        } else {
            self.bind(&key, query, &value).await?;
        }
        let object = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(Written { code: 201, object: Bytes::from(object.to_string()), warnings })
    }

    async fn evict(&self, target: &Target, query: &Query, eviction: &Value) -> Result<(), Status> {
        let mut whole = target.clone();
        whole.part = Part::Whole;
        let options = match eviction.get("deleteOptions").filter(|options| options.is_object()) {
            Some(options) => DeleteOptions::read(Media::Json, options.to_string().as_bytes(), query)?,
            None => DeleteOptions::read(Media::Json, b"", query)?,
        };
        match self.delete(&whole, &options).await? {
            Deleted::Gone(_) | Deleted::Marked(_) => Ok(()),
        }
    }

    async fn bind(&self, key: &Key, query: &Query, binding: &Value) -> Result<(), Status> {
        let name = &key.object.name;
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Err(Status::failure(500, "", "target.name: Required value"));
        }
        let entry = self.store().snapshot().get(key).cloned();
        let Some(entry) = entry else { return Err(Status::not_found(&key.resource, name)) };
        let pod: Value = serde_json::from_slice(&entry.bytes).map_err(Status::internal)?;
        let taken = |why: String| Err(Status::conflict_because(&GroupResource::new("", "pods/binding"), name, &why));
        if meta::is_deleting(&pod) {
            return taken(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
            return taken(format!("pod {name} is already assigned to node {node:?}"));
        }
        if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            return taken(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        if !query.dry_run {
            let now = self.now();
            self.edit(key, Part::Binding, |pod| assign(pod, node, &binding["metadata"], now)).await;
        }
        Ok(())
    }
}

fn assign(pod: &mut Value, node: &str, metadata: &Value, now: Time) {
    pod["spec"]["nodeName"] = node.into();
    for (name, value) in metadata["annotations"].as_object().into_iter().flatten() {
        meta::set_annotation(pod, name, value.as_str().unwrap_or_default());
    }
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now.to_string(),
    });
    let status = &mut pod["status"];
    if let Some(status) = status.as_object_mut() {
        status.remove("nominatedNodeName");
    }
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    conditions.push(scheduled);
    status["conditions"] = conditions.into();
}

/// A request for a certificate says who asked.
pub(crate) fn sign(request: &mut Value, caller: Option<&User>) {
    let user = caller.cloned().unwrap_or_else(User::administrator);
    let Some(spec) = request["spec"].as_object_mut() else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    for (name, value) in review::described(&user).as_object().cloned().unwrap_or_default() {
        spec.insert(name, value);
    }
}

/// What only a node could answer, and there are none.
pub(crate) fn no_node(server: &Server, target: &Target) -> Status {
    let name = target.name.as_deref().unwrap_or_default();
    let key = match target.named_key() {
        Ok(key) => key,
        Err(status) => return status,
    };
    if server.store().snapshot().get(&key).is_none() {
        return Status::not_found(&key.resource, name);
    }
    match target.resource.kind.as_str() {
        "Pod" => Status::bad_request(format!("pod {name} does not have a host assigned")),
        "Service" => {
            let message = format!("no endpoints available for service {name:?}");
            Status::failure(503, "ServiceUnavailable", message).with(Details::default())
        }
        _ => Status::failure(503, "ServiceUnavailable", "this server has no nodes").with(Details::default()),
    }
}
