//! A cache of Pods (or of ConfigMaps), and reading it.

use anyhow::{Context, Result};
use concert_api::{Object, ObjectKey};
use concert_runtime::{Cache, Index, Informers, KindSettings, Narrowing};

use super::resource;
use crate::runtime::objects::Kind;

/// A cache, and its Pods by node where that was asked for.
#[derive(Debug)]
pub(super) struct Pods {
    cache: Cache,
    nodes: Option<Index<String>>,
}

impl Pods {
    /// Starts the watch; gives the cache when the first list is in it.
    pub(super) async fn cached(informers: &Informers, kind: Kind, strip: bool, index: bool) -> Self {
        let kept = KindSettings { managed_fields: true, ..KindSettings::default() };
        let keeping =
            || Informers::narrowed(informers.client().clone(), Narrowing { defaults: kept, ..Narrowing::default() });
        let informers = if strip { informers.clone() } else { keeping() };
        let cache = informers.cache(resource(kind));
        let nodes = index.then(|| cache.index(node));
        cache.synced().await;
        Self { cache, nodes }
    }

    /// Of a cache that is there.
    pub(super) fn of(cache: Cache) -> Self {
        Self { cache, nodes: None }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.cache.len() as u64
    }

    /// Lists the Pods of one node after the other.
    pub(super) fn lists(&self, count: u64, nodes: u64) -> Result<u64> {
        let index = self.nodes.as_ref().context("there is no index by node")?;
        let list = |at: u64| index.get(&format!("node-{:04}", at % nodes.max(1))).len() as u64;
        Ok((0..count).map(list).sum())
    }

    /// Gets one Pod after the other.
    pub(super) fn gets(&self, count: u64) -> u64 {
        let known = self.len().max(1);
        let key = |at: u64| ObjectKey::new("shop", Kind::Pod.object_name((at * 7919 % known) as u32));
        (0..count).filter(|at| self.cache.get(&key(*at)).is_some()).count() as u64
    }
}

/// The node that a Pod is on.
fn node(pod: &Object) -> Vec<String> {
    let raw = pod.field(&["spec", "nodeName"]);
    raw.and_then(|raw| serde_json::from_slice(raw).ok()).into_iter().collect()
}
