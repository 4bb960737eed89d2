//! Controllers, and what they have done.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject};
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::Store;
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt, predicates, reflector, watcher};
use kube::{Client, ResourceExt};

/// Objects that a subscriber of a shared store may lag behind, as in kube's own examples.
const BUFFER: usize = 128;
/// Controllers that share a store begin by then, or never.
const BEGIN: Duration = Duration::from_secs(30);

/// What reconciles have seen.
pub struct Tally {
    began: Mutex<Instant>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    count: u64,
    /// From sending to reconciling, in nanoseconds, of what was sent while we looked.
    latencies: Vec<u64>,
    /// When the last object was done that was there from the beginning.
    initial: Duration,
}

impl Default for Tally {
    fn default() -> Self {
        Self { began: Mutex::new(Instant::now()), seen: Mutex::default() }
    }
}

impl Tally {
    fn begin(&self) {
        *self.began.lock().unwrap() = Instant::now();
    }

    fn note(&self, sent: u64) {
        let mut seen = self.seen.lock().unwrap();
        seen.count += 1;
        if sent == 0 {
            seen.initial = self.began.lock().unwrap().elapsed();
        } else {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
            seen.latencies.push(now.saturating_sub(sent));
        }
    }

    /// The figures; latencies begin anew.
    pub fn report(&self) -> String {
        let mut seen = self.seen.lock().unwrap();
        let mut latencies = std::mem::take(&mut seen.latencies);
        latencies.sort_unstable();
        let at = |share: f64| {
            latencies.get(((latencies.len() as f64 * share) as usize).min(latencies.len().saturating_sub(1)))
        };
        let (p50, p99) = (at(0.5).copied().unwrap_or(0), at(0.99).copied().unwrap_or(0));
        let (count, live, initial) = (seen.count, latencies.len(), seen.initial.as_nanos());
        format!("count={count} live={live} p50={p50} p99={p99} initial={initial}")
    }
}

/// A controller of Pods that looks at changed generations only; each turn takes `micros`. Gives its store when it is full.
pub async fn pods(client: &Client, workers: usize, micros: usize, tally: &Arc<Tally>) -> Result<Store<Pod>> {
    let (store, writer) = reflector::store();
    let changes = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|pod| pod.managed_fields_mut().clear())
        .reflect(writer)
        .touched_objects()
        .predicate_filter(predicates::generation, PredicateConfig::default());
    tally.begin();
    let reconcile = move |pod: Arc<Pod>, tally: Arc<Tally>| async move {
        let sent = pod.annotations().get("bench.concert.dev/sent").and_then(|sent| sent.parse().ok());
        if micros > 0 {
            tokio::time::sleep(Duration::from_micros(micros as u64)).await;
        }
        tally.note(sent.unwrap_or(0));
        Ok::<Action, Infallible>(Action::await_change())
    };
    let controller =
        Controller::for_stream(changes, store.clone()).with_config(Config::default().concurrency(workers as u16));
    let run = controller.run(reconcile, |_, _, _| Action::await_change(), Arc::clone(tally));
    tokio::spawn(run.for_each(|_| async {}));
    until(|| tally.seen.lock().unwrap().count > 0).await;
    Ok(store)
}

/// Waits for a controller's first reconcile: it comes when its store is complete. (Waiting for the store itself beside
/// the controller that waits for it too would take away its wake-up: there is room for one.)
async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// So many controllers of Pods, which share one watch and one store.
pub async fn share(client: &Client, count: usize, tally: &Arc<Tally>) -> Result<()> {
    let (store, writer) = reflector::store_shared(BUFFER);
    let mut begun = Vec::new();
    for _ in 0..count {
        let subscriber = writer.subscribe().context("a shared store has subscribers")?;
        let first = Arc::new(AtomicBool::new(false));
        begun.push(Arc::clone(&first));
        let reconcile = move |pod: Arc<Pod>, tally: Arc<Tally>| {
            first.store(true, Ordering::Relaxed);
            async move {
                let sent = pod.annotations().get("bench.concert.dev/sent").and_then(|sent| sent.parse().ok());
                tally.note(sent.unwrap_or(0));
                Ok::<Action, Infallible>(Action::await_change())
            }
        };
        let controller = Controller::for_shared_stream(subscriber, store.clone());
        let controller = controller.with_config(Config::default().concurrency(1));
        let run = controller.run(reconcile, |_, _, _| Action::await_change(), Arc::clone(tally));
        tokio::spawn(run.for_each(|_| async {}));
    }
    let changes = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|pod| pod.managed_fields_mut().clear())
        .reflect_shared(writer);
    tokio::spawn(changes.for_each(|_| async {}));
    // All of them wait for the store, which wakes one: the others begin with what happens next.
    let all = until(|| begun.iter().all(|first| first.load(Ordering::Relaxed)));
    tokio::time::timeout(BEGIN, all).await.context("not all controllers of the shared store have begun")
}

/// A controller for each of so many custom kinds.
pub async fn kinds(client: &Client, count: usize, tally: &Arc<Tally>) -> Result<()> {
    let mut begun = Vec::new();
    for number in 0..count {
        let kind = crate::kind(number);
        let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
        let writer = reflector::store::Writer::new(kind.clone());
        let store = writer.as_reader();
        let changes = watcher(api, watcher::Config::default())
            .default_backoff()
            .modify(|object: &mut DynamicObject| object.managed_fields_mut().clear())
            .reflect(writer)
            .touched_objects();
        let controller =
            Controller::for_stream_with(changes, store, kind).with_config(Config::default().concurrency(1));
        let first = Arc::new(AtomicBool::new(false));
        begun.push(Arc::clone(&first));
        let reconcile = move |object: Arc<DynamicObject>, tally: Arc<Tally>| {
            first.store(true, Ordering::Relaxed);
            async move {
                let sent = object.annotations().get("bench.concert.dev/sent").and_then(|sent| sent.parse().ok());
                tally.note(sent.unwrap_or(0));
                Ok::<Action, Infallible>(Action::await_change())
            }
        };
        let run = controller.run(reconcile, |_, _, _| Action::await_change(), Arc::clone(tally));
        tokio::spawn(run.for_each(|_| async {}));
    }
    until(|| begun.iter().all(|first| first.load(Ordering::Relaxed))).await;
    Ok(())
}
