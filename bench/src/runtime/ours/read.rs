//! A cache of Pods, and reading it.

use anyhow::{Result, bail};
use concert_api::ObjectKey;
use concert_runtime::{Cache, Informers};

use super::resource;
use crate::runtime::objects::Kind;

/// Starts the watch; gives the cache when the first list is in it.
pub(super) async fn cached(informers: &Informers, strip: bool, index: bool) -> Result<Cache> {
    if !strip {
        bail!("unsupported: the cache always strips managedFields");
    }
    if index {
        bail!("unsupported: no index by a field yet");
    }
    let cache = informers.cache(resource(Kind::Pod));
    cache.synced().await;
    Ok(cache)
}

/// Lists the Pods of one node after the other.
pub(super) fn lists(_pods: &Cache, _count: u64, _nodes: u64) -> Result<u64> {
    bail!("unsupported: no index by a field yet")
}

/// Gets one Pod after the other.
pub(super) fn gets(pods: &Cache, count: u64) -> u64 {
    let known = pods.len().max(1) as u64;
    let key = |at: u64| ObjectKey::new("shop", Kind::Pod.object_name((at * 7919 % known) as u32));
    (0..count).filter(|at| pods.get(&key(*at)).is_some()).count() as u64
}
