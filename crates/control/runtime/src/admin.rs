//! The admin page: what a process is doing, as JSON. For people and scripts on the same machine.
//!
//! | path | shows |
//! |---|---|
//! | `/` | all of it |
//! | `/process`, `/clusters`, `/controllers`, `/leases`, `/shards` | a part |
//! | `/controllers/NAME` | one controller with its keys |
//! | `/caches?scope=…` | what is in a cache |
//! | `/debug/…` | profiles (feature `debug`) |
//!
//! It tells names and numbers, never contents of objects and nothing secret. `docs/admin.md` describes the format.

use concert_queue::Whereabouts;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::cache::{Cache, CacheReport, CacheState};
use crate::cluster::Cluster;
use crate::controller::QueuedKey;
use crate::engine::ControllerState;
use crate::lease::Standing;
use crate::manager::Manager;
use crate::serve::{Page, Pages, Visit};
use crate::source::Backlog;

/// So many keys are listed unless another number is asked for.
const LISTED: usize = 1000;

/// See the module.
pub(crate) struct Admin {
    manager: Manager,
    since: Instant,
}

impl Admin {
    pub(crate) fn new(manager: Manager) -> Self {
        Self { manager, since: Instant::now() }
    }

    fn parts(&self) -> Map<String, Value> {
        let own = [self.manager.cluster().clone()];
        let clusters: Vec<Value> = own.iter().chain(&self.manager.clusters().list()).map(cluster).collect();
        let controllers: Vec<Value> = self.manager.engine().list().iter().map(controller).collect();
        let mut parts = Map::new();
        parts.insert("process".to_owned(), self.process());
        parts.insert("clusters".to_owned(), clusters.into());
        parts.insert("controllers".to_owned(), controllers.into());
        parts.insert("leases".to_owned(), self.leases());
        parts.insert("shards".to_owned(), self.shards());
        parts
    }

    fn process(&self) -> Value {
        json!({
            "name": self.manager.settings().name,
            "version": env!("CARGO_PKG_VERSION"),
            "id": std::process::id(),
            "upSeconds": seconds(self.since.elapsed()),
            "waitsFor": self.manager.not_ready(),
            "tokio": tokio_now(),
        })
    }

    fn leases(&self) -> Value {
        let Some(lease) = &self.manager.settings().lease else { return json!([]) };
        let (leader, fence) = match &*self.manager.standing().borrow() {
            Standing::Unknown => (None, None),
            Standing::Following { leader } => (Some(leader.clone()), None),
            Standing::Leading { fence } => (Some(lease.identity.clone()), Some(fence.clone())),
        };
        json!([{
            "namespace": lease.namespace, "name": lease.name, "identity": lease.identity,
            "leads": fence.is_some(), "leader": leader, "fence": fence,
        }])
    }

    fn shards(&self) -> Value {
        match (&self.manager.settings().shards, self.manager.shards()) {
            (Some(settings), Some(shards)) => json!({
                "name": settings.lease.name, "identity": settings.lease.identity,
                "count": shards.count(), "held": shards.held(),
            }),
            _ => Value::Null,
        }
    }
}

fn cluster(cluster: &Cluster) -> Value {
    let watches: Vec<Value> = cluster.informers().reports().iter().map(watch).collect();
    json!({ "name": cluster.name(), "host": cluster.client().host(), "watches": watches })
}

fn watch(report: &CacheReport) -> Value {
    let CacheState { synced, joining, revision, trouble, skipped, .. } = &report.state;
    json!({
        "scope": report.scope.to_string(), "version": report.scope.resource.gvk.version, "synced": synced,
        "joining": joining, "revision": revision, "objects": report.objects, "bytes": report.bytes, "decoded": report.decoded,
        "lagSeconds": report.lag.map(seconds),
        "skipped": skipped, "undecodable": report.undecodable, "trouble": trouble.as_ref().map(ToString::to_string),
    })
}

fn controller(state: &ControllerState) -> Value {
    let source = |(scope, state): &(crate::scope::Scope, CacheState)| json!({ "scope": scope.to_string(), "synced": state.synced });
    let flight = |(key, running): &(String, std::time::Duration)| json!({ "key": key, "seconds": seconds(*running) });
    let backlog = |(source, backlog): &(String, Backlog)| {
        let Backlog { waiting, oldest, folded } = backlog;
        json!({ "source": source, "waiting": waiting, "oldestSeconds": oldest.map(seconds), "folded": folded })
    };
    json!({
        "name": state.name, "sources": state.sources.iter().map(source).collect::<Vec<_>>(),
        "waitsFor": state.waits_for, "workers": state.workers, "failure": state.failure.as_ref().map(ToString::to_string),
        "ready": state.ready, "waiting": state.waiting, "oldestSeconds": state.oldest.map(seconds),
        "inFlight": state.in_flight.iter().map(flight).collect::<Vec<_>>(),
        "mailboxes": state.backlogs.iter().map(backlog).collect::<Vec<_>>(),
    })
}

/// To the millisecond: nobody reads more.
fn seconds(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

/// What tokio says of itself: whether workers are all busy, and whether tasks become more and more.
fn tokio_now() -> Value {
    let Ok(runtime) = Handle::try_current() else { return Value::Null };
    let metrics = runtime.metrics();
    let worker = |number: usize| {
        json!({
            "busySeconds": seconds(metrics.worker_total_busy_duration(number)),
            "parks": metrics.worker_park_count(number),
        })
    };
    let workers: Vec<Value> = (0..metrics.num_workers()).map(worker).collect();
    json!({ "tasks": metrics.num_alive_tasks(), "waiting": metrics.global_queue_depth(), "workers": workers })
}

fn queued(key: &QueuedKey) -> Value {
    let QueuedKey { key, whereabouts, priority, failures, reason } = key;
    let (place, time) = match whereabouts {
        Whereabouts::InFlight { again: false } => ("in flight", None),
        Whereabouts::InFlight { again: true } => ("in flight, and once more", None),
        Whereabouts::Ready(since) => ("ready", Some(("readySeconds", since))),
        Whereabouts::Waiting(due) => ("waiting", Some(("dueInSeconds", due))),
    };
    let mut shown = json!({
        "key": key, "place": place, "priority": priority, "failures": failures, "reason": reason,
    });
    if let Some((name, time)) = time {
        shown[name] = seconds(*time).into();
    }
    shown
}

fn cached((cluster, cache): (&str, &Cache), limit: usize) -> Value {
    let known = cache.list();
    let object = |object: &std::sync::Arc<concert_api::Object>| {
        json!({
            "key": object.key().to_string(), "resourceVersion": object.resource_version(), "bytes": object.bytes().len(),
        })
    };
    let objects: Vec<Value> = known.iter().take(limit).map(object).collect();
    json!({ "cluster": cluster, "scope": cache.scope().to_string(), "count": known.len(), "objects": objects })
}

impl Admin {
    /// One controller with its keys.
    fn one_controller(&self, name: &str, limit: usize) -> Option<Value> {
        let state = self.manager.engine().list().into_iter().find(|state| state.name == name)?;
        let keys = self.manager.engine().keys(name, limit)?;
        let mut shown = controller(&state);
        shown["keys"] = keys.iter().map(queued).collect();
        Some(shown)
    }

    /// What is in the caches whose scopes have this text.
    fn caches(&self, scope: &str, limit: usize) -> Value {
        let (own, further) = ([self.manager.cluster().clone()], self.manager.clusters().list());
        let all = own.iter().chain(&further).flat_map(|cluster| {
            let same = cluster.informers().caches().into_iter().filter(|cache| cache.scope().to_string() == scope);
            same.map(|cache| cached((cluster.name(), &cache), limit)).collect::<Vec<_>>()
        });
        all.collect()
    }

    fn show(&self, visit: &Visit<'_>) -> Option<Value> {
        let limit = visit.values("limit").find_map(|limit| limit.parse().ok()).unwrap_or(LISTED);
        match visit.path.trim_matches('/') {
            "" => Some(Value::Object(self.parts())),
            "caches" => Some(self.caches(&visit.values("scope").next()?, limit)),
            part => match part.strip_prefix("controllers/") {
                Some(name) => self.one_controller(name, limit),
                None => self.parts().remove(part),
            },
        }
    }
}

impl Pages for Admin {
    fn page<'a>(&'a self, visit: Visit<'a>) -> BoxFuture<'a, Option<Page>> {
        Box::pin(async move {
            #[cfg(feature = "debug")]
            if let Some(page) = crate::debug::page(&visit).await {
                return Some(page);
            }
            let shown = self.show(&visit)?;
            Some(Page { code: 200, kind: "application/json", body: format!("{shown:#}\n").into() })
        })
    }
}
