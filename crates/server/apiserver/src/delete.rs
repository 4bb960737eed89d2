//! Deleting: at once, or marked and waiting for finalizers; and what follows from a removal.
//!
//! Namespaces and definitions own other objects. Once one is marked, nothing new can come (writes are guarded by it);
//! what is there is deleted in the background of the request, and whoever removes the last object removes the owner
//! too. A start of the server looks once for what a crash left behind.

use std::sync::Arc;

use bytes::Bytes;
use concert_api::{Condition, Details, Fault, FieldError, GroupResource, Gvk, ObjectKey, Status, decode, meta};
use concert_store::{Expect, Key, Op, Write, WriteError};
use serde_json::{Value, json};

use crate::Server;
use crate::encode;
use crate::kinds::{self, Resource};
use crate::server::Work;
use crate::target::{Query, Target};
use crate::write::{is_released, refused};

/// Holds a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
const WRITE_TRIES: usize = 100;
/// Namespaces without which nothing works.
const PERMANENT: [&str; 3] = ["default", "kube-public", "kube-system"];
const POLICIES: [&str; 3] = ["Foreground", "Background", "Orphan"];

/// What a delete is answered with.
pub(crate) enum Deleted {
    /// Gone: a Status that says so.
    Gone(Value),
    /// Marked: the object.
    Marked(Bytes),
}

/// `DeleteOptions`, as far as they matter.
#[derive(Debug, Default)]
pub(crate) struct DeleteOptions {
    uid: Option<String>,
    resource_version: Option<String>,
    dry_run: bool,
}

impl DeleteOptions {
    /// Reads the body of a DELETE; none at all is fine.
    pub(crate) fn read(body: &[u8], query: &Query) -> Result<Self, Status> {
        let mut options = Self { dry_run: query.dry_run, ..Self::default() };
        check_policy(&query.propagation)?;
        if body.is_empty() {
            return Ok(options);
        }
        let value = decode(body).map_err(|error| Status::bad_request(error.to_string()))?.value;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        check_policy(value["propagationPolicy"].as_str().unwrap_or_default())?;
        options.uid = text(&value["preconditions"]["uid"]);
        options.resource_version = text(&value["preconditions"]["resourceVersion"]);
        options.dry_run |= value["dryRun"].as_array().is_some_and(|list| list.iter().any(|one| one == "All"));
        Ok(options)
    }
}

impl Server {
    /// DELETE of one object.
    pub(crate) async fn delete(&self, target: &Target, options: &DeleteOptions) -> Result<Deleted, Status> {
        let name = target.name.clone().unwrap_or_default();
        let key = target.key(&name);
        for _ in 0..WRITE_TRIES {
            let snapshot = self.store().snapshot();
            let Some(entry) = snapshot.get(&key) else {
                return Err(Status::not_found(&target.resource.id, &name));
            };
            let object = encode::tree(&target.resource, target.version(), entry)?;
            if target.resource.id == kinds::namespaces() && PERMANENT.contains(&name.as_str()) {
                return Err(Status::forbidden(&target.resource.id, &name, "this namespace may not be deleted"));
            }
            check_preconditions(target, options, &object, &name)?;
            let marked = self.marked(target, &object);
            let gone = is_released(target, &marked);
            if !gone && marked == object {
                // Asked again: whatever held it up before is tried again too.
                self.empty_whatever_happens(key).await;
                return Ok(Deleted::Marked(encode::served(&target.resource, target.version(), entry)));
            }
            if options.dry_run {
                let bytes = encode::finished(target.version(), &marked, &entry.revision.to_string());
                return Ok(if gone { Deleted::Gone(success(target, &object)) } else { Deleted::Marked(bytes) });
            }
            let last = if gone { &object } else { &marked };
            let draft = encode::draft(&target.resource, target.version(), last);
            let op = if gone { Op::Delete(draft) } else { Op::Put(draft) };
            let expect = Expect::Revision(entry.revision);
            match self.write(Write { key: key.clone(), expect, guards: Vec::new(), op }).await {
                Ok(_) if gone => {
                    self.after_removal(&key).await;
                    return Ok(Deleted::Gone(success(target, &object)));
                }
                Ok(written) => {
                    let bytes = encode::served(&target.resource, target.version(), &written);
                    self.empty_whatever_happens(key).await;
                    return Ok(Deleted::Marked(bytes));
                }
                Err(WriteError::Conflict { .. }) => {}
                Err(error) => return Err(refused(&error)),
            }
        }
        Err(Status::conflict(&target.resource.id, &name))
    }

    /// The object with its deletion mark, as far as it does not have one.
    fn marked(&self, target: &Target, object: &Value) -> Value {
        let mut marked = object.clone();
        let owns_others = target.resource.id == kinds::definitions() && self.has_instances(meta::text(object, "name"));
        if meta::is_deleting(object) {
            return marked;
        }
        if owns_others {
            let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            finalizers.push(CLEANUP.into());
            meta::of(&mut marked).insert("finalizers".into(), finalizers.into());
            let mut condition = Condition::new(
                "Terminating",
                true,
                "InstanceDeletionInProgress",
                "CustomResource deletion is in progress",
            );
            condition.observed_generation = None;
            condition.set(&mut marked, self.now());
        }
        meta::set_text(&mut marked, "deletionTimestamp", self.now().to_string());
        if target.resource.id == kinds::namespaces() {
            marked["status"]["phase"] = "Terminating".into();
        } else {
            meta::of(&mut marked).insert("deletionGracePeriodSeconds".into(), 0.into());
        }
        if target.resource.is_custom() {
            let generation = meta::generation(object) + 1;
            meta::of(&mut marked).insert("generation".into(), generation.into());
        }
        marked
    }

    fn has_instances(&self, definition: &str) -> bool {
        self.store().snapshot().count(&instances_of(definition)) > 0
    }

    /// Empties it to the end, even if the client that asked for it goes away.
    fn empty_whatever_happens(&self, owner: Key) -> Work {
        if !owns_others(&owner.resource) {
            return Box::pin(std::future::ready(()));
        }
        let server = self.clone();
        Box::pin(self.in_background(Box::pin(async move { server.empty(&owner).await })))
    }

    /// Deletes what a terminating namespace or definition holds, then that itself if nothing is left.
    async fn empty(&self, owner: &Key) {
        let contents = self.contents(owner);
        for (resource, object) in contents {
            let target = Target::stored(&resource, &object);
            // Somebody else may have removed it meanwhile.
            let _ = Box::pin(self.delete(&target, &DeleteOptions::default())).await;
        }
        self.release_if_empty(owner).await;
    }

    /// The objects that die with this one.
    fn contents(&self, owner: &Key) -> Vec<(Arc<Resource>, ObjectKey)> {
        let snapshot = self.store().snapshot();
        let kinds = self.kinds();
        let all = |resource: &Arc<Resource>, namespace: Option<&str>| -> Vec<(Arc<Resource>, ObjectKey)> {
            snapshot
                .range(&resource.stored_as, namespace, None)
                .map(|(key, _)| (Arc::clone(resource), key.clone()))
                .collect()
        };
        if owner.resource == kinds::namespaces() {
            let namespace = owner.object.name.as_ref();
            kinds.iter().filter(|one| one.namespaced).flat_map(|one| all(one, Some(namespace))).collect()
        } else if owner.resource == kinds::definitions() {
            let id = instances_of(&owner.object.name);
            kinds.iter().filter(|one| one.id == id).flat_map(|one| all(one, None)).collect()
        } else {
            Vec::new()
        }
    }

    /// After an object is gone: whoever waited for it to be the last goes too.
    pub(crate) async fn after_removal(&self, removed: &Key) {
        let mut owners = Vec::new();
        if !removed.object.namespace.is_empty() {
            let namespace = ObjectKey::cluster(Arc::clone(&removed.object.namespace));
            owners.push(Key { resource: kinds::namespaces(), object: namespace });
        }
        if !removed.resource.group.is_empty() {
            let definition = ObjectKey::cluster(removed.resource.to_string());
            owners.push(Key { resource: kinds::definitions(), object: definition });
        }
        for owner in owners {
            self.release_if_empty(&owner).await;
        }
    }

    /// Removes a terminating namespace or definition that holds nothing any more.
    async fn release_if_empty(&self, owner: &Key) {
        for _ in 0..WRITE_TRIES {
            let snapshot = self.store().snapshot();
            let Some(entry) = snapshot.get(owner) else { return };
            let terminating = entry.beside.object.as_ref().is_some_and(concert_api::Object::is_deleting);
            if !terminating || !self.contents(owner).is_empty() {
                return;
            }
            let Some(resource) = self.kinds().get(&owner.resource.group, &owner.resource.resource).cloned() else {
                return;
            };
            let Ok(before) = encode::tree(&resource, resource.storage(), entry) else { return };
            let mut object = before.clone();
            release(&mut object);
            let target = Target::stored(&resource, &owner.object);
            if object == before {
                // Somebody else holds it.
                return;
            }
            let draft = encode::draft(&resource, resource.storage(), &object);
            let op = if is_released(&target, &object) { Op::Delete(draft) } else { Op::Put(draft) };
            let write = Write { key: owner.clone(), expect: Expect::Revision(entry.revision), guards: Vec::new(), op };
            match self.write(write).await {
                Err(WriteError::Conflict { .. }) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Looks once for terminating namespaces and definitions that a crash left behind. Nobody waits for it.
    pub(crate) fn sweep(&self) {
        let server = self.clone();
        drop(self.in_background(Box::pin(async move { server.empty_all().await })));
    }

    async fn empty_all(&self) {
        let snapshot = self.store().snapshot();
        for resource in [kinds::namespaces(), kinds::definitions()] {
            for (object, entry) in snapshot.range(&resource, None, None) {
                if entry.beside.object.as_ref().is_some_and(concert_api::Object::is_deleting) {
                    self.empty(&Key { resource: resource.clone(), object: object.clone() }).await;
                }
            }
        }
    }
}

/// Namespaces and definitions take other objects with them.
fn owns_others(resource: &GroupResource) -> bool {
    *resource == kinds::namespaces() || *resource == kinds::definitions()
}

/// The resource whose objects a definition defines, by the definition's name `plural.group`.
fn instances_of(definition: &str) -> GroupResource {
    let (plural, group) = definition.split_once('.').unwrap_or((definition, ""));
    GroupResource::new(group, plural)
}

/// Takes off the finalizers that the server itself holds.
fn release(object: &mut Value) {
    if let Some(list) = object["metadata"]["finalizers"].as_array_mut() {
        list.retain(|one| one != CLEANUP);
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        && spec.contains_key("finalizers")
    {
        spec.insert("finalizers".into(), json!([]));
    }
}

fn check_policy(policy: &str) -> Result<(), Status> {
    if policy.is_empty() || POLICIES.contains(&policy) {
        return Ok(());
    }
    let known = POLICIES.iter().chain(&["nil"]).map(ToString::to_string).collect();
    let error = FieldError::new("propagationPolicy", Fault::NotSupported(policy.into(), known), "");
    Err(Status::invalid(&Gvk::new("meta.k8s.io", "", "DeleteOptions"), "", &[error]))
}

fn check_preconditions(target: &Target, options: &DeleteOptions, object: &Value, name: &str) -> Result<(), Status> {
    // The real server names the kind here, not the resource.
    let named = GroupResource::new(target.resource.id.group.as_ref(), target.resource.kind.as_str());
    let uid = meta::text(object, "uid");
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(Status::conflict_because(&named, name, &why));
    }
    let version = meta::text(object, "resourceVersion");
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        );
        return Err(Status::conflict_because(&named, name, &why));
    }
    Ok(())
}

fn success(target: &Target, object: &Value) -> Value {
    let details = Details {
        name: meta::text(object, "name").to_owned(),
        group: target.resource.id.group.to_string(),
        kind: target.resource.id.resource.to_string(),
        uid: meta::text(object, "uid").to_owned(),
        ..Details::default()
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
