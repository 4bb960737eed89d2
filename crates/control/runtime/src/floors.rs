//! Reading one's own writes: a floor per key below which the cache may not be when a worker takes it.
//!
//! The cache keeps its one writer. A turn that wrote says so; the next turn of that key waits until the cache has
//! seen at least that revision, and if it takes too long reads live.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use concert_api::{Object, ObjectKey};

use crate::cache::Cache;
use crate::client::{ApiError, Client};
use crate::scope::Scope;
use crate::sync::{Mutex, RwLock};

/// How long a turn waits for the cache before it reads live.
const PATIENCE: Duration = Duration::from_secs(2);

/// The revision that each cache (a source and a namespace) must have reached.
type Floors = BTreeMap<(u64, String), u64>;

/// The caches of one controller, and the floors of its keys.
pub(crate) struct Freshness<K> {
    client: Client,
    caches: RwLock<Caches>,
    /// Key → source, and a namespace → revision that its cache must have reached there.
    floors: Mutex<BTreeMap<K, Floors>>,
}

#[derive(Default)]
struct Caches {
    /// Those it listens to, by the number of the source, and the client of their cluster.
    all: BTreeMap<u64, (Cache, Client)>,
    /// Which of them is that of its own objects, if it has such.
    own: Option<u64>,
}

impl<K: Ord + Clone> Freshness<K> {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, caches: RwLock::default(), floors: Mutex::default() }
    }

    /// A source joins; `own` if it is that of the controller's own objects.
    pub(crate) fn join(&self, source: u64, cache: Cache, client: Client, own: bool) {
        let mut caches = self.caches.write().unwrap_or_else(PoisonError::into_inner);
        if own {
            caches.own = Some(source);
        }
        caches.all.insert(source, (cache, client));
    }

    /// A source leaves: nothing is waited for on its account.
    pub(crate) fn leave(&self, source: u64) {
        self.caches.write().unwrap_or_else(PoisonError::into_inner).all.remove(&source);
    }

    /// Raises the floor of `key` to what was just written, through this client or that of the process's own cluster. Says
    /// whether anybody listens to such objects.
    pub(crate) fn wrote(&self, key: &K, client: Option<&Client>, written: &Object) -> bool {
        let (Some(gvk), Some(revision)) = (written.gvk(), written.revision()) else { return false };
        let (namespace, client) = (written.namespace(), client.unwrap_or(&self.client));
        let caches = self.caches.read().unwrap_or_else(PoisonError::into_inner);
        let mut floors = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
        let mut listens = false;
        for (source, (cache, of)) in &caches.all {
            let Scope { resource, .. } = cache.scope();
            if resource.gvk.group != gvk.group || resource.gvk.kind != gvk.kind || !client.is_of_same_server(of) {
                continue;
            }
            listens = true;
            if cache.shows(&namespace) {
                let floor = floors.entry(key.clone()).or_default().entry((*source, namespace.to_string())).or_default();
                *floor = (*floor).max(revision);
            }
        }
        listens
    }

    /// Waits until the caches have seen what was written for `key`; says whether they did in time.
    pub(crate) async fn catch_up(&self, key: &K) -> bool {
        let floors = self.floors.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        let Some(floors) = floors else { return true };
        let waits: Vec<(Cache, String, u64)> = {
            let caches = self.caches.read().unwrap_or_else(PoisonError::into_inner);
            let known = |((source, namespace), floor): (&(u64, String), &u64)| {
                Some((caches.all.get(source)?.0.clone(), namespace.clone(), *floor))
            };
            floors.iter().filter_map(known).collect()
        };
        let all = async {
            for (cache, namespace, revision) in waits {
                cache.reaches(&namespace, revision).await;
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
}

impl Freshness<ObjectKey> {
    fn own(&self) -> Option<(Cache, Client)> {
        let caches = self.caches.read().unwrap_or_else(PoisonError::into_inner);
        caches.all.get(&caches.own?).cloned()
    }

    /// The controller's own object, from the cache or live.
    pub(crate) async fn object(&self, key: &ObjectKey, stale: bool) -> Result<Option<Arc<Object>>, ApiError> {
        let Some((own, client)) = self.own() else { return Ok(None) };
        if !stale {
            return Ok(own.get(key));
        }
        Ok(client.get_of(own.scope(), key).await?.map(Arc::new))
    }
}
