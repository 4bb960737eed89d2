//! What is done to pods: they are put on nodes, and evicted. Each is one write, decided on the pod that it changes.

use concert_api::{Fault, FieldError, FieldErrors, GroupResource, Status, Time, meta, names};
use concert_store::{Expect, Key, Op, Write, WriteError};
use serde_json::{Value, json};

use crate::Server;
use crate::body::Media;
use crate::delete::{DeleteOptions, Deleted, WRITE_TRIES, check_preconditions};
use crate::encode;
use crate::target::{Part, Query, Target};
use crate::write::refused;

impl Server {
    /// Puts a pod on a node.
    pub(super) async fn bind(&self, target: &Target, query: &Query, binding: &Value) -> Result<(), Status> {
        let errors = binding_faults(&binding["target"]);
        if !errors.is_empty() {
            let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let told = if told.len() == 1 { told.concat() } else { format!("[{}]", told.join(", ")) };
            return Err(Status::failure(500, "", told));
        }
        let name = target.name.as_deref().unwrap_or_default();
        let change = |pod: &mut Value, revision: u64| -> Result<(), Status> {
            check_meant(target, &binding["metadata"], pod, revision)?;
            check_bindable(name, pod)?;
            assign(pod, binding, self.now());
            Ok(())
        };
        self.change_pod(target, query.dry_run, change).await.map(|_| ())
    }

    /// Deletes a pod, and notes on it why.
    pub(super) async fn evict(&self, target: &Target, query: &Query, eviction: &Value) -> Result<(), Status> {
        check_dry_runs(query, &eviction["deleteOptions"]["dryRun"])?;
        let whole = target.clone().part(Part::Whole);
        let mut options = match eviction.get("deleteOptions").filter(|options| options.is_object()) {
            Some(options) => DeleteOptions::read(Media::Json, options.to_string().as_bytes(), query)?,
            None => DeleteOptions::read(Media::Json, b"", query)?,
        };
        options.dry_run |= query.dry_run;
        if !options.dry_run {
            let now = self.now();
            let note = |pod: &mut Value, _: u64| -> Result<(), Status> {
                check_preconditions(&whole, &options, pod, meta::text(pod, "name"))?;
                let target = json!({
                    "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                    "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
                });
                set_condition(&mut pod["status"], target, now);
                Ok(())
            };
            let revision = self.change_pod(&whole, false, note).await?;
            // It was us who changed it.
            options.resource_version = options.resource_version.map(|_| revision.to_string());
        }
        match self.delete(&whole, &options).await? {
            Deleted::Gone(_) | Deleted::Marked(_) => Ok(()),
        }
    }

    /// Changes a pod if nobody changed it since `change` looked at it, or looks again. Nobody owns what is changed so.
    /// Gives its revision then.
    async fn change_pod(
        &self,
        target: &Target,
        is_dry: bool,
        change: impl Fn(&mut Value, u64) -> Result<(), Status>,
    ) -> Result<u64, Status> {
        let id = GroupResource::new("", "pods");
        let key = Key { resource: id.clone(), ..target.named_key()? };
        let resource = self.kinds().get("", "pods").cloned().ok_or_else(|| Status::internal("there are no pods"))?;
        let version = resource.storage();
        for _ in 0..WRITE_TRIES {
            let snapshot = self.store().snapshot();
            let Some(entry) = snapshot.get(&key) else { return Err(Status::not_found(&id, &key.object.name)) };
            let before = encode::tree(&resource, version, entry)?;
            let mut pod = before.clone();
            change(&mut pod, entry.revision)?;
            if is_dry || pod == before {
                return Ok(entry.revision);
            }
            let op = Op::Put(encode::draft(&resource, version, &pod));
            let expect = Expect::Revision(entry.revision);
            match self.write(Write { key: key.clone(), expect, guards: Vec::new(), op }).await {
                Ok(entry) => return Ok(entry.revision),
                Err(WriteError::Conflict { .. }) => {}
                Err(error) => return Err(refused(&error)),
            }
        }
        Err(Status::conflict(&id, &key.object.name))
    }
}

/// An eviction and the deletion that it asks for are tried alike.
fn check_dry_runs(query: &Query, inner: &Value) -> Result<(), Status> {
    let inner: Vec<&str> = inner.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !query.dry_run || inner.is_empty() || inner == ["All"] {
        return Ok(());
    }
    let inner = inner.join(" ");
    let told = format!("Non-matching dry-run options in request and content: [All] and [{inner}]");
    Err(Status::failure(500, "", told))
}

fn binding_faults(target: &Value) -> FieldErrors {
    let text = |field: &str| target[field].as_str().unwrap_or_default();
    let (kind, node) = (text("kind"), text("name"));
    let is_node = matches!(kind, "" | "Node");
    let mut errors = FieldErrors::new();
    if !is_node {
        let allowed = vec!["Node".to_owned(), "<empty>".to_owned()];
        errors.push(FieldError::new("target.kind", Fault::NotSupported(kind.into(), allowed), ""));
    }
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    } else if is_node {
        errors
            .extend(names::subdomain_faults(node).into_iter().map(|why| FieldError::invalid("target.name", node, why)));
    }
    errors
}

/// Refuses another pod, or another version of it, than the one that was meant.
fn check_meant(target: &Target, meant: &Value, pod: &Value, revision: u64) -> Result<(), Status> {
    let revision = revision.to_string();
    let named = [
        ("UID", meant["uid"].as_str(), meta::text(pod, "uid")),
        ("ResourceVersion", meant["resourceVersion"].as_str(), revision.as_str()),
    ];
    for (what, wanted, found) in named {
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty() && *wanted != found) else { continue };
        let name = target.name.as_deref().unwrap_or_default();
        let namespace = target.namespace.as_deref().unwrap_or_default();
        // The real server shows the place in its own store.
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        );
        return Err(Status::conflict_because(&GroupResource::new("", "pods"), name, &why));
    }
    Ok(())
}

fn check_bindable(name: &str, pod: &Value) -> Result<(), Status> {
    let taken = |why: String| Err(Status::conflict_because(&GroupResource::new("", "pods/binding"), name, &why));
    if meta::is_deleting(pod) {
        return taken(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return taken(format!("pod {name} is already assigned to node {node:?}"));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return taken(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

fn assign(pod: &mut Value, binding: &Value, now: Time) {
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    for field in ["annotations", "labels"] {
        for (name, value) in binding["metadata"][field].as_object().into_iter().flatten() {
            pod["metadata"][field][name] = value.clone();
        }
    }
    let status = &mut pod["status"];
    if let Some(status) = status.as_object_mut() {
        status.remove("nominatedNodeName");
    }
    set_condition(status, json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null}), now);
}

/// Says something in a status, and since when it is so.
fn set_condition(status: &mut Value, mut condition: Value, now: Time) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    condition["lastTransitionTime"] = now.to_string().into();
    match conditions.iter_mut().find(|one| one["type"] == condition["type"]) {
        Some(before) => {
            if before["status"] == condition["status"] && !before["lastTransitionTime"].is_null() {
                condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
            }
            *before = condition;
        }
        None => conditions.push(condition),
    }
}
