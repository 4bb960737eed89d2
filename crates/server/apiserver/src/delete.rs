//! Deleting one object: at once, or marked and waiting for finalizers.
//!
//! What follows from it (dependents, contents of namespaces and definitions) is in `housekeeping` and `contents`.

mod options;

use bytes::Bytes;
use concert_api::{Condition, Details, GroupResource, Status, Time, meta};
use concert_store::{Expect, Op, Write, WriteError};
use serde_json::{Value, json};

use crate::Server;
use crate::admission::{Operation, Review};
use crate::classes::is_priority_class;
use crate::contents::owns_others;
use crate::encode;
use crate::kept::Kept;
use crate::kinds;
use crate::target::Target;
use crate::write::{is_released, refused};

pub(crate) use options::{DeleteOptions, FOREGROUND, ORPHAN, Policy, exactly, json_type};

/// Holds a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
pub(crate) const WRITE_TRIES: usize = 100;
/// Namespaces without which nothing works.
const PERMANENT: [&str; 3] = ["default", "kube-public", "kube-system"];
/// Classes of priority that stay.
const PRIORITY_OF_SYSTEM: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// What a delete is answered with.
pub(crate) enum Deleted {
    /// Gone: a Status that says so.
    Gone(Value),
    /// Marked, or gone and of a kind that is answered with itself: the object.
    Marked(Bytes),
}

impl Server {
    /// DELETE of one object.
    pub(crate) async fn delete(&self, target: &Target, options: &DeleteOptions) -> Result<Deleted, Status> {
        let name = target.name.clone().unwrap_or_default();
        let key = target.named_key()?;
        for _ in 0..WRITE_TRIES {
            let snapshot = self.store().snapshot();
            let Some(entry) = snapshot.get(&key) else {
                return Err(Status::not_found(&target.resource.id, &name));
            };
            let object = encode::tree(&target.resource, target.version(), entry)?;
            if target.resource.id == kinds::namespaces() && PERMANENT.contains(&name.as_str()) {
                return Err(Status::forbidden(&target.resource.id, &name, "this namespace may not be deleted"));
            }
            if is_priority_class(target) && PRIORITY_OF_SYSTEM.contains(&name.as_str()) {
                let why = "this is a system priority class and cannot be deleted";
                return Err(Status::forbidden(&target.resource.id, &name, why));
            }
            check_readable(target, options, &name)?;
            check_preconditions(target, options, &object, &name)?;
            let review = Review::of(Operation::Delete, target, &name, Some(&object), options.dry_run);
            self.consult(&review, &object).await?;
            let marked = self.marked(target, &object, options);
            // Whoever owns others is marked first, even with nothing that holds it.
            let gone = is_released(&target.resource, &marked)
                && (meta::is_deleting(&object) || !owns_others(&target.resource.id));
            if !gone && marked == object {
                // Asked again: whatever held it up before is tried again too.
                self.empty_whatever_happens(key).await;
                return Ok(Deleted::Marked(encode::served(&target.resource, target.version(), entry)));
            }
            if options.dry_run {
                let shown = if gone && !shows_end(target) { &object } else { &marked };
                let bytes = encode::finished(target.version(), shown, &entry.revision.to_string());
                let gone = gone && !is_returned(target);
                return Ok(if gone { Deleted::Gone(success(target, &object)) } else { Deleted::Marked(bytes) });
            }
            // Watchers see the last state that was stored.
            let last = if gone { &object } else { &marked };
            let draft = encode::draft(&target.resource, target.version(), last);
            let op = if gone { Op::Delete(draft) } else { Op::Put(draft) };
            let expect = Expect::Revision(entry.revision);
            match self.write(Write { key: key.clone(), expect, guards: Vec::new(), op }).await {
                Ok(removed) if gone => {
                    self.after_removal(&key).await;
                    if is_returned(target) {
                        let revision = removed.revision.to_string();
                        let shown = if shows_end(target) || meta::is_deleting(&object) { &marked } else { &object };
                        return Ok(Deleted::Marked(encode::finished(target.version(), shown, &revision)));
                    }
                    return Ok(Deleted::Gone(success(target, &object)));
                }
                Ok(written) => {
                    written.beside.remember(Kept::of(&target.resource, target.version(), last, None));
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

    /// The object with its deletion mark and the finalizers that the options ask for.
    fn marked(&self, target: &Target, object: &Value, options: &DeleteOptions) -> Value {
        let mut marked = object.clone();
        if target.resource.collects() {
            let finalizers = Policy::finalizers(options.policy, &meta::finalizers(object));
            set_finalizers(&mut marked, finalizers);
        }
        self.unprotect(target, &mut marked);
        if meta::is_deleting(object) {
            // Who asks again may be in more of a hurry.
            let left = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            if let Some(grace) = options.grace.filter(|grace| *grace < left) {
                meta::of(&mut marked).insert("deletionGracePeriodSeconds".into(), grace.max(0).into());
            }
            return marked;
        }
        if target.resource.id == kinds::definitions() {
            hold_definition(&mut marked, self.now());
        }
        let grace = grace_of(target, object, options);
        let at = Time::from_unix_seconds(self.now().unix_seconds().saturating_add(grace));
        meta::set_text(&mut marked, "deletionTimestamp", at.to_string());
        if target.resource.id == kinds::namespaces() {
            marked["status"]["phase"] = "Terminating".into();
        }
        if !owns_others(&target.resource.id) {
            meta::of(&mut marked).insert("deletionGracePeriodSeconds".into(), grace.into());
        }
        if meta::generation(object) > 0 && !owns_others(&target.resource.id) {
            let generation = meta::generation(object) + 1;
            meta::of(&mut marked).insert("generation".into(), generation.into());
        }
        marked
    }
}

/// How long the end of an object takes. Only pods on nodes take time.
fn grace_of(target: &Target, object: &Value, options: &DeleteOptions) -> i64 {
    let is_pod = target.resource.kind == "Pod" && !target.resource.is_custom();
    let on_node = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !is_pod || !on_node || over {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(0);
    options.grace.unwrap_or(own).max(0)
}

/// What holds volumes and claims of them that are in use.
const PROTECTION: [(&str, &str); 2] =
    [("PersistentVolumeClaim", "kubernetes.io/pvc-protection"), ("PersistentVolume", "kubernetes.io/pv-protection")];

impl Server {
    /// Nothing uses volumes here but pods that name their claims: what no pod names is not held.
    fn unprotect(&self, target: &Target, object: &mut Value) {
        let kind = target.resource.kind.as_str();
        let Some((_, finalizer)) = PROTECTION.iter().find(|(known, _)| *known == kind && !target.resource.is_custom())
        else {
            return;
        };
        let used = match kind {
            "PersistentVolume" => object["status"]["phase"] == "Bound",
            _ => self.is_claimed(meta::text(object, "namespace"), meta::text(object, "name")),
        };
        if !used {
            let kept = meta::finalizers(object).into_iter().filter(|one| one != finalizer);
            let kept = kept.map(str::to_owned).collect();
            set_finalizers(object, kept);
        }
    }

    fn is_claimed(&self, namespace: &str, claim: &str) -> bool {
        let snapshot = self.store().snapshot();
        let pods = GroupResource::new("", "pods");
        snapshot.range(&pods, Some(namespace), None).any(|(_, entry)| {
            let pod: Value = serde_json::from_slice(&entry.bytes).unwrap_or_default();
            let over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            let mut volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            !over && volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
        })
    }
}

/// A definition waits for its objects, and says so.
fn hold_definition(definition: &mut Value, now: concert_api::Time) {
    let mut finalizers: Vec<String> = meta::finalizers(definition).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|one| one == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
    }
    set_finalizers(definition, finalizers);
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    say_terminating(definition, "InstanceDeletionPending", message, now);
}

/// Says how far the deletion of a definition is.
pub(crate) fn say_terminating(definition: &mut Value, reason: &str, message: &str, now: concert_api::Time) {
    let mut condition = Condition::new("Terminating", true, reason, message);
    condition.observed_generation = None;
    condition.set(definition, now);
}

/// Whether a deletion is answered with the object that is gone.
/// Of a pod it is shown how it ends, also if that takes no time.
fn shows_end(target: &Target) -> bool {
    target.resource.kind == "Pod" && !target.resource.is_custom()
}

fn is_returned(target: &Target) -> bool {
    target.resource.builtin.is_some_and(|builtin| builtin.returned)
}

/// Sets the finalizers; without any, the field goes too.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    if finalizers.is_empty() {
        meta::of(object).remove("finalizers");
    } else {
        meta::of(object).insert("finalizers".into(), finalizers.into());
    }
}

/// What can be read cannot be deleted as what cannot.
fn check_readable(target: &Target, options: &DeleteOptions, name: &str) -> Result<(), Status> {
    if !options.unreadable {
        return Ok(());
    }
    let id = &target.resource.id;
    if *id == kinds::namespaces() {
        let why = "no unsafe deleter provided, can not honor ignoreStoreReadErrorWithClusterBreakingPotential";
        return Err(Status::internal(why));
    }
    let in_group = target.resource.is_custom() || *id == kinds::definitions();
    let group = if in_group { format!("{}/", id.group) } else { String::new() };
    let namespace = target.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{}/{namespace}{name}, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage",
        id.resource
    );
    Err(Status::conflict_because(id, name, &why))
}

/// Refuses another object, or another version of it, than the one that was meant.
pub(crate) fn check_preconditions(
    target: &Target,
    options: &DeleteOptions,
    object: &Value,
    name: &str,
) -> Result<(), Status> {
    let uid = meta::text(object, "uid");
    let version = meta::text(object, "resourceVersion");
    if owns_others(&target.resource.id) {
        for (what, wanted, found) in
            [("UID", &options.uid, uid), ("ResourceVersion", &options.resource_version, version)]
        {
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
                let failed = if target.resource.id == kinds::namespaces() { "Precondition" } else { "precondition" };
                let why = format!("{failed} failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
                return Err(Status::conflict_because(&target.resource.id, name, &why));
            }
        }
        return Ok(());
    }
    // The real server names the kind here, not the resource.
    let named = GroupResource::new(target.group_of_errors(), target.resource.kind.as_str());
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        );
        return Err(Status::conflict_because(&named, name, &why));
    }
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
