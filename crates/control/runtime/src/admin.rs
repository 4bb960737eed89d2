//! The admin page: what a process is doing, as JSON. For people and scripts on the same machine.
//!
//! | path | shows |
//! |---|---|
//! | `/` | all of it |
//! | `/process`, `/clusters`, `/controllers`, `/leases`, `/shards` | a part |
//!
//! It tells names and numbers, never contents of objects and nothing secret. `docs/admin.md` describes the format.

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::cache::{CacheReport, CacheState};
use crate::cluster::Cluster;
use crate::engine::ControllerState;
use crate::lease::Standing;
use crate::manager::Manager;
use crate::serve::{Page, Pages};
use crate::source::Backlog;

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
        "joining": joining, "revision": revision, "objects": report.objects, "bytes": report.bytes, "lagSeconds": report.lag.map(seconds),
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

impl Pages for Admin {
    fn page(&self, path: &str, _: &str) -> Option<Page> {
        let mut parts = self.parts();
        let shown = match path.trim_matches('/') {
            "" => Value::Object(parts),
            part => parts.remove(part)?,
        };
        Some(Page { code: 200, kind: "application/json", text: format!("{shown:#}\n") })
    }
}
