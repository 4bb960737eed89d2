//! What a kind is called in paths, asked once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use concert_api::Gvk;

use crate::cache::{Informers, Subscription};
use crate::client::{ApiError, Client};
use crate::resource::Resource;
use crate::scope::Scope;

/// Maps kinds to resources. What the server has said is remembered; what it did not know is asked again each time,
/// since kinds come. Kinds that go are forgotten by who [follows](Mapper::follow) definitions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mapper {
    client: Client,
    known: Arc<Mutex<BTreeMap<Gvk, Resource>>>,
    following: Arc<OnceLock<Subscription>>,
}

impl Mapper {
    pub(super) fn new(client: Client) -> Self {
        Self { client, known: Arc::default(), following: Arc::default() }
    }

    /// The resource of a kind; `None` if the server does not serve it.
    ///
    /// # Errors
    /// The server has trouble.
    pub async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>, ApiError> {
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(gvk) {
            return Ok(Some(known.clone()));
        }
        let found = self.client.resource_for(gvk).await?;
        if let Some(resource) = &found {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(gvk.clone(), resource.clone());
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
                known.lock().unwrap_or_else(PoisonError::into_inner).retain(|gvk, _| gvk.group != group);
            })
        });
    }

    /// Forgets a kind: for when its definition has changed or gone.
    pub fn forget(&self, gvk: &Gvk) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(gvk);
    }
}
