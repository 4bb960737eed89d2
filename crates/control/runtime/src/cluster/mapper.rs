//! What a kind is called in paths, asked once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use concert_api::Gvk;
use tokio::time::Instant;

use crate::cache::{Informers, Origin, Subscription};
use crate::client::{ApiError, Client};
use crate::resource::Resource;
use crate::scope::Scope;

/// A server tells of a definition that came, changed or went before its discovery follows. What it says of such a group is
/// not remembered for so long.
const SETTLES: Duration = Duration::from_secs(30);

/// Maps kinds to resources. What the server has said is remembered, but for groups whose definitions were just seen to
/// change; what it did not know is asked again each time, since kinds come. Kinds that go are forgotten by who [follows](Mapper::follow) definitions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mapper {
    client: Client,
    known: Arc<Mutex<Known>>,
    following: Arc<OnceLock<Subscription>>,
}

#[derive(Debug, Default)]
struct Known {
    kinds: BTreeMap<Gvk, Resource>,
    /// Groups whose definitions changed of late, and when.
    changed: BTreeMap<Arc<str>, Instant>,
}

impl Known {
    fn learn(&mut self, gvk: &Gvk, resource: &Resource) {
        self.changed.retain(|_, at| at.elapsed() < SETTLES);
        if !self.changed.contains_key(&*gvk.group) {
            self.kinds.insert(gvk.clone(), resource.clone());
        }
    }
}

impl Mapper {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn new(client: Client) -> Self {
        Self { client, known: Arc::default(), following: Arc::default() }
    }

    /// The resource of a kind; `None` if the server does not serve it.
    ///
    /// # Errors
    /// The server has trouble.
    pub async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>, ApiError> {
        if let Some(known) = self.known().kinds.get(gvk) {
            return Ok(Some(known.clone()));
        }
        let found = self.client.resource_for(gvk).await?;
        if let Some(resource) = &found {
            self.known().learn(gvk, resource);
        }
        Ok(found)
    }

    /// Forgets kinds by itself from now on, when their definitions change or go. It watches the metadata of
    /// CustomResourceDefinitions for that, so it has to be allowed to. Must be called within a tokio runtime.
    pub fn follow(&self, informers: &Informers) {
        self.following.get_or_init(|| {
            let definition = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
            let definitions = Resource::cluster(definition, "customresourcedefinitions");
            let known = Arc::downgrade(&self.known);
            informers.cache(Scope::all(definitions).metadata_only()).subscribe(move |change| {
                // A definition is called PLURAL.GROUP.
                let (Some(known), Some((_, group))) = (known.upgrade(), change.key.name.split_once('.')) else {
                    return;
                };
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                known.kinds.retain(|gvk, _| gvk.group != group);
                // What is there from the start has been served for long.
                if change.origin != Origin::Initial {
                    known.changed.insert(group.into(), Instant::now());
                }
            })
        });
    }

    /// Forgets a kind: for when its definition has changed or gone.
    pub fn forget(&self, gvk: &Gvk) {
        self.known().kinds.remove(gvk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_said_of_a_group_that_has_just_changed_is_not_remembered() {
        let (gvk, other) = (Gvk::new("x.dev", "v1", "File"), Gvk::new("y.dev", "v1", "File"));
        let mut known = Known::default();
        let learn = |known: &mut Known, gvk: &Gvk| {
            known.learn(gvk, &Resource::namespaced(gvk.clone(), "files"));
            known.kinds.contains_key(gvk)
        };
        assert!(learn(&mut known, &gvk) && learn(&mut known, &other));
        known.kinds.clear();
        known.changed.insert("x.dev".into(), Instant::now());
        assert!(learn(&mut known, &other) && !learn(&mut known, &gvk), "discovery may still have the one that went");
        tokio::time::advance(SETTLES).await;
        assert!(learn(&mut known, &gvk) && known.changed.is_empty());
    }
}
