//! Reading one's own writes: a floor per key below which the cache may not be when a worker takes it.
//!
//! The cache keeps its one writer. A turn that wrote says so; the next turn of that key waits until the cache has
//! seen at least that revision, and if it takes too long reads live.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use concert_api::{Object, ObjectKey};

use crate::cache::{Cache, Mark};
use crate::client::{ApiError, Client};
use crate::scope::{Feed, Scope};
use crate::sync::{Mutex, RwLock};

/// How long a turn waits for the cache before it reads live.
const PATIENCE: Duration = Duration::from_secs(2);

/// So many keys may have floors before those are looked for that are of no use any more: of most, no turn ever asks.
const SWEEP: usize = 4096;

/// How far each watch of a source must be.
type Floors = BTreeMap<(u64, Feed), Mark>;

/// The floors of keys.
struct Kept<K> {
    by_key: BTreeMap<K, Floors>,
    /// With so many, they are swept. Twice what was left the last time, so that it costs little whatever is left.
    sweep_at: usize,
}

/// The caches of one controller, and the floors of its keys.
pub(crate) struct Freshness<K> {
    client: Client,
    caches: RwLock<Caches>,
    floors: Mutex<Kept<K>>,
}

#[derive(Default)]
struct Caches {
    /// Those it listens to, by the number of the source, and the client of their cluster.
    all: BTreeMap<u64, (Cache, Client)>,
    /// Which of them is that of its own objects, if it has such.
    own: Option<u64>,
}

impl Caches {
    /// Whether a watch is so far; what nobody listens to any more is.
    fn are_past(&self, (source, feed): &(u64, Feed), mark: Mark) -> bool {
        self.all.get(source).is_none_or(|(cache, _)| cache.is_past(feed, mark))
    }
}

impl<K: Ord + Clone> Freshness<K> {
    pub(crate) fn new(client: Client) -> Self {
        let floors = Mutex::new(Kept { by_key: BTreeMap::new(), sweep_at: SWEEP });
        Self { client, caches: RwLock::default(), floors }
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
        let (Some(gvk), Some(_)) = (written.gvk(), written.revision()) else { return false };
        let client = client.unwrap_or(&self.client);
        let caches = self.caches.read().unwrap_or_else(PoisonError::into_inner);
        let (mut listens, mut raised) = (false, Floors::new());
        for (source, (cache, of)) in &caches.all {
            let Scope { resource, .. } = cache.scope();
            if resource.gvk.group != gvk.group || resource.gvk.kind != gvk.kind || !client.is_of_same_server(of) {
                continue;
            }
            listens = true;
            let (feeds, mark) = cache.hearing(written);
            raised.extend(feeds.into_iter().map(|feed| ((*source, feed), mark)));
        }
        if !raised.is_empty() {
            self.raise(key, raised, &caches);
        }
        listens
    }

    fn raise(&self, key: &K, raised: Floors, caches: &Caches) {
        let mut kept = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
        let floors = kept.by_key.entry(key.clone()).or_default();
        for (of, mark) in raised {
            let floor = floors.entry(of).or_insert(mark);
            *floor = floor.later(mark);
        }
        if kept.by_key.len() > kept.sweep_at {
            kept.by_key.retain(|_, floors| floors.iter().any(|(of, mark)| !caches.are_past(of, *mark)));
            kept.sweep_at = SWEEP.max(kept.by_key.len() * 2);
        }
    }

    /// Waits until the caches have seen what was written for `key`; says whether they did in time.
    pub(crate) async fn catch_up(&self, key: &K) -> bool {
        let floors = self.floors.lock().unwrap_or_else(PoisonError::into_inner).by_key.get(key).cloned();
        let Some(floors) = floors else { return true };
        let waits: Vec<(Cache, &Feed, Mark)> = {
            let caches = self.caches.read().unwrap_or_else(PoisonError::into_inner);
            let known = |((source, feed), mark)| Some((caches.all.get(source)?.0.clone(), feed, *mark));
            floors.iter().filter_map(known).collect()
        };
        let all = async {
            for (cache, feed, mark) in &waits {
                cache.passes(feed, *mark).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, all).await.is_ok();
        if in_time {
            let mut kept = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.by_key.get(key) == Some(&floors) {
                kept.by_key.remove(key);
            }
        }
        in_time
    }
}

impl Freshness<ObjectKey> {
    /// The cache of its own objects, if it has such.
    fn own(&self) -> Result<Option<(Cache, Client)>, ApiError> {
        let caches = self.caches.read().unwrap_or_else(PoisonError::into_inner);
        let Some(own) = caches.own else { return Ok(None) };
        // Not "there is none": whoever believed that would clean up after an object that is there.
        let ended = || ApiError::Uncached { action: "read its own object".into(), why: "its controller has ended".into() };
        caches.all.get(&own).cloned().map(Some).ok_or_else(ended)
    }

    /// The controller's own object, from the cache or live.
    pub(crate) async fn object(&self, key: &ObjectKey, stale: bool) -> Result<Option<Arc<Object>>, ApiError> {
        let Some((own, client)) = self.own()? else { return Ok(None) };
        if !stale {
            return Ok(own.get(key));
        }
        Ok(client.get_of(own.scope(), key).await?.map(Arc::new))
    }
}
