//! Subresources of built-in kinds that change their object in a way of their own: pods that are bound, evicted, resized
//! or given further containers, and certificates that are granted. Nothing runs pods here; what is stored is the effect.

pub(crate) mod certificate;
mod pod;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use concert_api::{Details, FieldErrors, Gvk, ObjectKey, Status, Time, meta};
use concert_schema::{check_pod_part, part_kind, resized_pod};
use serde_json::{Value, json};

use crate::Server;
use crate::body::Media;
use crate::incoming::{self, Incoming};
use crate::kinds::Resource;
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
            certificate::date_conditions(&mut conditions, &old["status"]["conditions"], now);
            object["status"]["conditions"] = conditions;
        }
        Part::Whole | Part::Status | Part::Scale | Part::Finalize | Part::Binding | Part::Eviction | Part::Node => {}
    }
    object
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
        let (media, body) = in_one_version(target, media, body);
        let Incoming { value, warnings, .. } =
            incoming::read(&Target::stored(kind, &object), media, &body, query.field_validation)?;
        let named = meta::text(&value, "name");
        // A binding that is not sent to a pod names it.
        let target = &if target.name.is_none() {
            target.at(&ObjectKey { name: named.into(), ..object })
        } else {
            target.clone()
        };
        if target.name.as_deref() != Some(named) {
            let kind = &kind.kind;
            return Err(Status::bad_request(format!("name in URL does not match name in {kind} object")));
        }
        if target.part == Part::Eviction {
            self.evict(target, query, &value).await?;
        } else {
            self.bind(target, query, &value).await?;
        }
        let object = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(Written { code: 201, object: Bytes::from(object.to_string()), warnings })
    }
}

/// An eviction of the version before is the same.
fn in_one_version<'a>(target: &Target, media: Media, body: &'a [u8]) -> (Media, Cow<'a, [u8]>) {
    let decoded = Some(body).filter(|_| target.part == Part::Eviction).and_then(|body| media.decode(body).ok());
    match decoded.map(|document| document.value) {
        Some(mut value) if value["apiVersion"] == "policy/v1beta1" => {
            value["apiVersion"] = "policy/v1".into();
            (Media::Json, Cow::Owned(value.to_string().into_bytes()))
        }
        Some(_) | None => (media, Cow::Borrowed(body)),
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
