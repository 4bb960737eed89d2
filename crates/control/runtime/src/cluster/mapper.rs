//! What a kind is called in paths, asked once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use concert_api::Gvk;

use crate::client::{ApiError, Client};
use crate::resource::Resource;

/// Maps kinds to resources. What the server has said is remembered; what it did not know is asked again each time,
/// since kinds come. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mapper {
    client: Client,
    known: Arc<Mutex<BTreeMap<Gvk, Resource>>>,
}

impl Mapper {
    pub(super) fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
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

    /// Forgets a kind: for when its definition has changed or gone.
    pub fn forget(&self, gvk: &Gvk) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(gvk);
    }
}
