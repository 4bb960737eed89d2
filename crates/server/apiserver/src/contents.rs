//! Namespaces and definitions own other objects.
//!
//! Once one is marked, nothing new can come (writes are guarded by it); what is there is deleted in the background of
//! the request, and whoever removes the last object removes the owner too. A start of the server looks once for what a
//! crash left behind.

use std::sync::Arc;

use concert_api::{GroupResource, ObjectKey, meta};
use concert_merge::{Author, Live};
use concert_store::{Expect, Key, Op, Write, WriteError};
use serde_json::Value;

use crate::Server;
use crate::beside::Stored;
use crate::books;
use crate::delete::{CLEANUP, DeleteOptions, WRITE_TRIES, say_terminating};
use crate::encode;
use crate::kinds::{self, Resource, Version};
use crate::server::Work;
use crate::target::{Part, Target};
use crate::terminating::say_nothing_remains;
use crate::write::is_released;

/// Holds a namespace until its contents are gone.
const NAMESPACE: &str = "kubernetes";

impl Server {
    /// Empties it to the end, even if the client that asked for it goes away.
    pub(crate) fn empty_whatever_happens(&self, owner: Key) -> Work {
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
            let _ = Box::pin(self.delete(&target, &DeleteOptions { grace: Some(0), ..DeleteOptions::default() })).await;
        }
        self.release_if_empty(owner).await;
        if owner.resource == kinds::namespaces() {
            self.say_what_remains(owner).await;
        } else if self.has_contents(owner) {
            let (reason, message) = ("InstanceDeletionInProgress", "CustomResource deletion is in progress");
            let now = self.now();
            self.edit(owner, Part::Status, |definition| say_terminating(definition, reason, message, now)).await;
        }
    }

    /// Whether anything is left that dies with this one.
    fn has_contents(&self, owner: &Key) -> bool {
        let snapshot = self.store().snapshot();
        if owner.resource == kinds::definitions() {
            return snapshot.count(&kinds::instances_of(&owner.object.name)) > 0;
        }
        let namespace = Some(owner.object.name.as_ref());
        let kinds = self.kinds();
        let mut resources = kinds.iter().filter(|one| one.namespaced && owner.resource == kinds::namespaces());
        resources.any(|one| snapshot.range(&one.stored_as, namespace, None).next().is_some())
    }

    /// The objects that die with this one.
    pub(crate) fn contents(&self, owner: &Key) -> Vec<(Arc<Resource>, ObjectKey)> {
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
            let id = kinds::instances_of(&owner.object.name);
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
        let terminating = |entry: &Stored| entry.beside.object.as_ref().is_some_and(concert_api::Object::is_deleting);
        let waits = |server: &Self| {
            let snapshot = server.store().snapshot();
            snapshot.get(owner).is_some_and(|entry| terminating(entry)) && !server.has_contents(owner)
        };
        if waits(self) {
            let now = self.now();
            self.edit(owner, Part::Whole, |object| {
                release(object);
                if owner.resource == kinds::namespaces() {
                    say_nothing_remains(object, now);
                }
            })
            .await;
        }
    }

    /// Changes a stored object, or one part of it, by the server itself, if it is there and `change` makes it another. The
    /// last finalizer of a deleting object takes the object with it.
    pub(crate) async fn edit(&self, key: &Key, part: Part, change: impl Fn(&mut Value)) {
        let owns_definitions = key.resource == kinds::definitions();
        for _ in 0..WRITE_TRIES {
            let snapshot = self.store().snapshot();
            let Some(entry) = snapshot.get(key) else { return };
            let Some(resource) = self.kinds().get(&key.resource.group, &key.resource.resource).cloned() else {
                return;
            };
            let version = written_as(&resource, entry);
            let Ok(before) = encode::apart(&resource, version, entry) else { return };
            let mut object = before.clone();
            change(&mut object);
            let last = meta::is_deleting(&object) && is_released(&resource, &object);
            if object == before && !last {
                return;
            }
            let managed = entry.beside.managed();
            let target = Target::stored(&resource, &key.object).part(part).in_version(&version.gvk);
            let op = if last {
                let mut before = before;
                managed.write_to(&mut before);
                Op::Delete(encode::draft(&resource, version, &before))
            } else {
                let live = Live { object: &before, managed: &managed };
                let manager = if owns_definitions { books::SERVER } else { books::HOUSEKEEPING };
                let author = Author { manager, now: self.now() };
                let managed = books::updated(&target, live, &mut object, author);
                managed.write_to(&mut object);
                Op::Put(encode::draft(&resource, version, &object))
            };
            let write = Write { key: key.clone(), expect: Expect::Revision(entry.revision), guards: Vec::new(), op };
            match self.write(write).await {
                Err(WriteError::Conflict { .. }) => {}
                Ok(_) if last => return Box::pin(self.after_removal(key)).await,
                Ok(_) => return,
                Err(error) => return tracing::warn!(%key, %error, "cannot change an object"),
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

/// The version an object was last written in, if its kind still has it.
fn written_as<'a>(resource: &'a Resource, entry: &Stored) -> &'a Version {
    let written = entry.beside.object.as_ref().map(concert_api::Object::api_version);
    let same = |version: &&Version| written.as_deref() == Some(version.gvk.api_version().as_str());
    resource.versions.iter().find(same).unwrap_or_else(|| resource.storage())
}

/// Namespaces and definitions take other objects with them.
pub(crate) fn owns_others(resource: &GroupResource) -> bool {
    *resource == kinds::namespaces() || *resource == kinds::definitions()
}

/// Takes off the finalizers that the server itself holds.
fn release(object: &mut Value) {
    for (pointer, own) in [("/metadata/finalizers", CLEANUP), ("/spec/finalizers", NAMESPACE)] {
        if let Some(list) = object.pointer_mut(pointer).and_then(Value::as_array_mut) {
            list.retain(|one| one != own);
        }
    }
}
