//! Reading one's own writes: a floor per key below which the cache may not be when a worker takes it.
//!
//! The cache keeps its one writer. A turn that wrote says so; the next turn of that key waits until the cache has
//! seen at least that revision, and if it takes too long reads live.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use concert_api::{Object, ObjectKey};

use crate::cache::Cache;
use crate::client::{ApiError, Client};
use crate::scope::Scope;

/// How long a turn waits for the cache before it reads live.
const PATIENCE: Duration = Duration::from_secs(2);

/// The caches of one controller, and the floors of its keys.
pub(crate) struct Freshness {
    client: Client,
    /// The caches it listens to.
    caches: Vec<Cache>,
    /// The one of its own objects, if it has such.
    own: Option<Cache>,
    /// Key → index of a cache, and a namespace → revision it must have reached there.
    floors: Mutex<BTreeMap<ObjectKey, BTreeMap<(usize, String), u64>>>,
}

impl Freshness {
    pub(crate) fn new(client: Client, caches: Vec<Cache>, own: Option<Cache>) -> Self {
        Self { client, caches, own, floors: Mutex::default() }
    }

    /// Raises the floor of `key` to what was just written.
    pub(crate) fn wrote(&self, key: &ObjectKey, written: &Object) {
        let (Some(gvk), Some(revision)) = (written.gvk(), written.revision()) else { return };
        let namespace = written.namespace();
        let shows = |cache: &Cache| {
            let Scope { resource, .. } = cache.scope();
            resource.gvk.group == gvk.group && resource.gvk.kind == gvk.kind && cache.scope().shows(&namespace)
        };
        let mut floors = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, _) in self.caches.iter().enumerate().filter(|(_, cache)| shows(cache)) {
            let floor = floors.entry(key.clone()).or_default().entry((index, namespace.to_string())).or_default();
            *floor = (*floor).max(revision);
        }
    }

    /// Waits until the caches have seen what was written for `key`; says whether they did in time.
    pub(crate) async fn catch_up(&self, key: &ObjectKey) -> bool {
        let floors = self.floors.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        let Some(floors) = floors else { return true };
        let all = async {
            for ((index, namespace), revision) in &floors {
                self.caches[*index].reaches(namespace, *revision).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, all).await.is_ok();
        if in_time {
            let mut all = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
            if all.get(key) == Some(&floors) {
                all.remove(key);
            }
        }
        in_time
    }

    /// The controller's own object, from the cache or live.
    pub(crate) async fn object(&self, key: &ObjectKey, stale: bool) -> Result<Option<Arc<Object>>, ApiError> {
        let Some(own) = &self.own else { return Ok(None) };
        if !stale {
            return Ok(own.get(key));
        }
        Ok(self.client.get(&own.scope().resource, key).await?.map(Arc::new))
    }
}
