//! A `Store` kept by a watcher, and reading it.

use std::fmt::Debug;
use std::hash::Hash;

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, Resource};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use serde::de::DeserializeOwned;

/// Starts the watch; gives the store when the first list is in it.
pub async fn cached<K>(api: Api<K>, kind: K::DynamicType, strip: bool) -> Result<Store<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Clone + Debug + Eq + Hash + Send + Sync,
{
    let writer = reflector::store::Writer::<K>::new(kind);
    let store = writer.as_reader();
    let events = watcher(api, watcher::Config::default()).default_backoff().modify(move |object| {
        if strip {
            object.managed_fields_mut().clear();
        }
    });
    tokio::spawn(async move {
        let mut events = std::pin::pin!(events.reflect(writer));
        while events.next().await.is_some() {}
    });
    store.wait_until_ready().await?;
    Ok(store)
}

/// Lists the Pods of one node after the other. There is no index: every list looks at every Pod.
pub fn lists(pods: &Store<Pod>, count: usize, nodes: usize) -> usize {
    let list = |at: usize| {
        let node = format!("node-{:04}", at % nodes);
        pods.state_filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref() == Some(&node))).len()
    };
    (0..count).map(list).sum()
}

/// Gets one Pod after the other.
pub fn gets(pods: &Store<Pod>, count: usize) -> usize {
    let known = pods.len().max(1);
    let get = |at: &usize| pods.get(&ObjectRef::new(&format!("pod-{:07}", at * 7919 % known)).within("shop")).is_some();
    (0..count).filter(get).count()
}
