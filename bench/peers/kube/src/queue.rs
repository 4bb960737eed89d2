//! Keys through the applier: what stands behind every `Controller`.

use std::convert::Infallible;
use std::sync::Arc;

use futures::{StreamExt, stream};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::controller::{Action, Config, ReconcileReason, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::watcher::Event;

/// So many keys at a time, as the other subjects.
const WORKERS: u16 = 10;

/// Keys, and the store of small objects that the applier looks them up in.
#[derive(Default)]
pub struct Keys {
    keys: Vec<ObjectRef<DynamicObject>>,
    store: Option<Store<DynamicObject>>,
}

impl Keys {
    pub fn new(count: usize) -> Self {
        let kind: ApiResource = crate::kind(0);
        let mut writer = Writer::new(kind.clone());
        writer.apply_watcher_event(&Event::Init);
        let mut keys = Vec::with_capacity(count);
        for number in 0..count {
            let object = DynamicObject::new(&format!("key-{number:07}"), &kind).within("shop");
            keys.push(ObjectRef::from_obj_with(&object, kind.clone()));
            writer.apply_watcher_event(&Event::InitApply(object));
        }
        writer.apply_watcher_event(&Event::InitDone);
        Self { keys, store: Some(writer.as_reader()) }
    }

    /// Adds all keys at once, and returns when each has been reconciled.
    pub async fn pass(&self) {
        let Some(store) = self.store.clone() else { return };
        let request = |obj_ref: &ObjectRef<DynamicObject>| {
            Ok::<_, Infallible>(ReconcileRequest { obj_ref: obj_ref.clone(), reason: ReconcileReason::Unknown })
        };
        let requests = stream::iter(self.keys.iter().map(request));
        let reconcile = |_, ()| futures::future::ready(Ok::<Action, Infallible>(Action::await_change()));
        let reconcile = move |object: Arc<DynamicObject>, _: Arc<()>| reconcile(object, ());
        let config = Config::default().concurrency(WORKERS);
        let ended = applier(reconcile, |_, _, _| Action::await_change(), Arc::new(()), store, requests, config);
        ended.for_each(|_| async {}).await;
    }
}
