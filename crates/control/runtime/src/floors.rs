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
    /// which sources listen to such objects.
    pub(crate) fn wrote(&self, key: &K, client: Option<&Client>, written: &Object) -> Vec<u64> {
        let (Some(gvk), Some(_)) = (written.gvk(), written.revision()) else { return Vec::new() };
        let client = client.unwrap_or(&self.client);
        let caches = self.caches.read().unwrap_or_else(PoisonError::into_inner);
        let (mut listens, mut raised) = (Vec::new(), Floors::new());
        for (source, (cache, of)) in &caches.all {
            let Scope { resource, .. } = cache.scope();
            if resource.gvk.group != gvk.group || resource.gvk.kind != gvk.kind || !client.is_of_same_server(of) {
                continue;
            }
            listens.push(*source);
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
            let open = |source: &u64| caches.all.get(source).map(|(cache, _)| cache.clone());
            floors.iter().filter_map(|((source, feed), mark)| Some((open(source)?, feed, *mark))).collect()
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
        let ended =
            || ApiError::Uncached { action: "read its own object".into(), why: "its controller has ended".into() };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Informers, Resource};
    use std::sync::atomic::{AtomicU64, Ordering};

    use bytes::Bytes;
    use concert_api::Gvk;
    use concert_world::World;
    use http_body_util::Full;

    /// A server that has nothing. It is at revision 500, and when it is asked how that goes on, restored to 5.
    fn empty() -> Client {
        let asked = Arc::new(AtomicU64::new(0));
        let serve = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let at = |revision: u64| {
                format!(
                    r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{revision}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
                )
            };
            let line = match asked.fetch_add(1, Ordering::SeqCst) {
                0 => at(500),
                1 => r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#.to_owned(),
                _ => at(5),
            };
            let body = Full::new(Bytes::from(format!("{line}\n")));
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(body)))
        });
        Client::in_process(serve, World::simulated(1))
    }

    fn written(name: &str, revision: u64) -> Object {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"n","name":"{name}","resourceVersion":"{revision}"}}}}"#
        );
        Object::parse(json.into()).unwrap()
    }

    async fn house() -> (Informers, Freshness<ObjectKey>) {
        let client = empty();
        let informers = Informers::new(client.clone());
        let cache = informers.cache(Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps"));
        cache.synced().await;
        let freshness = Freshness::new(client.clone());
        freshness.join(0, cache, client, true);
        (informers, freshness)
    }

    #[tokio::test(start_paused = true)]
    async fn floors_of_keys_that_no_turn_asks_for_are_forgotten_once_they_are_of_no_use() {
        let (_informers, freshness) = house().await;
        for n in 0..3 * SWEEP {
            // Every tenth is still to come.
            let revision = if n % 10 == 0 { 501 } else { 500 };
            freshness.wrote(&ObjectKey::new("n", format!("k{n}")), None, &written("child", revision));
        }
        let kept = freshness.floors.lock().unwrap();
        assert!(kept.by_key.len() <= SWEEP + SWEEP / 2, "{}", kept.by_key.len());
        let waiting = |floors: &&Floors| floors.values().any(|mark| mark.revision == 501);
        assert_eq!(kept.by_key.values().filter(waiting).count(), (3 * SWEEP).div_ceil(10), "none of these");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_server_has_lost_holds_up_no_turn() {
        let (_informers, freshness) = house().await;
        let key = ObjectKey::new("n", "a");
        freshness.wrote(&key, None, &written("a", 501));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let began = tokio::time::Instant::now();
        assert!(freshness.catch_up(&key).await);
        assert_eq!(began.elapsed(), Duration::ZERO);
        freshness.wrote(&key, None, &written("a", 6));
        assert!(!freshness.catch_up(&key).await, "what is written now is waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_has_ended_does_not_tell_that_its_objects_are_gone() {
        let (_informers, freshness) = house().await;
        let key = ObjectKey::new("n", "a");
        assert!(freshness.object(&key, false).await.unwrap().is_none());
        freshness.leave(0);
        let error = freshness.object(&key, false).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot read its own object: its controller has ended");
    }
}
