//! Subresources of built-in kinds that change their object in a way of their own: pods that are bound, evicted, resized
//! or given further containers, and certificates that are granted. Nothing runs pods here; what is stored is the effect.

pub(crate) mod certificate;
mod pod;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use concert_api::{Details, FieldError, FieldErrors, Gvk, ObjectKey, Status, Time, meta};
use concert_schema::part_kind;
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
    match part {
        Part::EphemeralContainers => {
            object["spec"]["ephemeralContainers"] = sent["spec"]["ephemeralContainers"].clone();
        }
        Part::Resize => resize(&mut object, sent),
        Part::Approval => {
            let mut conditions = sent["status"]["conditions"].clone();
            certificate::date_conditions(&mut conditions, &old["status"]["conditions"], now);
            object["status"]["conditions"] = conditions;
        }
        Part::Whole | Part::Status | Part::Scale | Part::Finalize | Part::Binding | Part::Eviction | Part::Node => {}
    }
    object
}

/// Takes what containers may use from a pod.
fn resize(object: &mut Value, sent: &Value) {
    for list in ["containers", "initContainers"] {
        let containers = object["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers {
            let wanted = sent["spec"][list].as_array().into_iter().flatten();
            if let Some(wanted) = wanted.into_iter().find(|one| one["name"] == container["name"]) {
                container["resources"] = wanted["resources"].clone();
                if let Some(policy) = wanted.get("resizePolicy") {
                    container["resizePolicy"] = policy.clone();
                }
            }
        }
    }
}

/// What is wrong with a change of a part.
pub(crate) fn check(part: Part, object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if part != Part::EphemeralContainers {
        return errors;
    }
    let list = |object: &Value| object["spec"]["ephemeralContainers"].as_array().cloned().unwrap_or_default();
    let new = list(object);
    for (place, before) in list(old).into_iter().enumerate() {
        let field = format!("spec.ephemeralContainers[{place}]");
        let name = before["name"].as_str().unwrap_or_default();
        match new.iter().find(|one| one["name"] == name) {
            None => {
                let detail = format!("existing ephemeral containers {name:?} may not be removed\n");
                errors.push(FieldError::forbidden("spec.ephemeralContainers", detail));
            }
            Some(after) if *after != before => {
                let detail = format!("existing ephemeral containers {name:?} may not be changed\n");
                errors.push(FieldError::forbidden(field, detail));
            }
            Some(_) => {}
        }
    }
    errors
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
