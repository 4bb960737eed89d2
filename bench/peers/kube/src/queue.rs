//! Keys through the applier: what stands behind every `Controller`.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::controller::{Action, Config, ReconcileReason, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::watcher::Event;

/// So many keys at a time, as the other subjects.
const WORKERS: u16 = 10;
/// An applier that gives nothing for so long has nothing left.
const QUIET: Duration = Duration::from_millis(100);

/// Keys, and the store of small objects that the applier looks them up in.
#[derive(Default)]
pub struct Keys {
    keys: Arc<Vec<ObjectRef<DynamicObject>>>,
    store: Option<Store<DynamicObject>>,
    /// Without it, the store would count as abandoned.
    _writer: Option<Writer<DynamicObject>>,
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
        Self { keys: Arc::new(keys), store: Some(writer.as_reader()), _writer: Some(writer) }
    }

    /// Adds all keys at once, and returns when each has been reconciled.
    pub async fn pass(&self) -> Result<()> {
        let (keys, count) = (Arc::clone(&self.keys), self.keys.len());
        let all = self.reconciled((0..count).map(move |at| keys[at].clone()))?.take(count);
        let reconciled = all.filter(|reconciled| futures::future::ready(*reconciled)).count().await;
        ensure!(reconciled == count, "only {reconciled} of {count} keys were reconciled");
        Ok(())
    }

    /// Adds a few keys again and again while they are reconciled, and returns when nothing is left to do.
    pub async fn repeat(&self, few: usize, adds: usize) -> Result<()> {
        let (keys, added) = (Arc::clone(&self.keys), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&added);
        let mut reconciled = self.reconciled((0..adds).map(move |at| {
            count.fetch_add(1, Ordering::Relaxed);
            keys[at % few].clone()
        }))?;
        loop {
            let next = tokio::time::timeout(QUIET, reconciled.next()).await;
            if next.is_err() && added.load(Ordering::Relaxed) == adds {
                return Ok(());
            }
        }
    }

    /// Whether each went well that the applier was asked for.
    fn reconciled(
        &self,
        keys: impl Iterator<Item = ObjectRef<DynamicObject>> + Send + 'static,
    ) -> Result<BoxStream<'static, bool>> {
        let store = self.store.clone().context("there are no keys")?;
        let request = |obj_ref| Ok::<_, Infallible>(ReconcileRequest { obj_ref, reason: ReconcileReason::Unknown });
        // An applier whose requests end forgets those that it has not begun: they must seem to go on.
        let requests = stream::iter(keys.map(request)).chain(stream::pending());
        let reconcile = |_, ()| futures::future::ready(Ok::<Action, Infallible>(Action::await_change()));
        let reconcile = move |object: Arc<DynamicObject>, _: Arc<()>| reconcile(object, ());
        let config = Config::default().concurrency(WORKERS);
        let ended = applier(reconcile, |_, _, _| Action::await_change(), Arc::new(()), store, requests, config);
        Ok(ended.map(|ended| ended.is_ok()).boxed())
    }
}
