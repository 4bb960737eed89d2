//! What goes wrong is told: each mishap has a message that says what to do about it, a metric, and stops nothing else.
//! In a process of its own: who listens to logs is a matter of the whole process.
//!
//! Every case is a function over a [`Place`]: in process and on a paused clock, and over TCP on both servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod cases;
mod in_process;
mod scene;
mod servers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::Gvk;
use concert_runtime::{Client, Resource};
use concert_world::{Call, Gate, Verdict, World};
use serde_json::json;

fn maps() -> Resource {
    Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps")
}

fn secrets() -> Resource {
    Resource::namespaced(Gvk::new("", "v1", "Secret"), "secrets")
}

fn widgets() -> Resource {
    Resource::namespaced(Gvk::new("test.dev", "v1", "Widget"), "widgets")
}

/// Where a mishap happens.
trait Place {
    /// A world for clients.
    fn world(&self) -> World;
    /// A client of the administrator.
    async fn client(&self, world: World) -> Client;
    /// Blocks whoever calls it.
    fn block(time: Duration);
    /// A client of somebody who may read ConfigMaps and nothing else, and who that is.
    async fn reader(&self) -> (Client, String);
}

/// Answers requests about something in its own way, until it is mended.
#[derive(Clone, Debug)]
struct Fault {
    about: &'static str,
    verdict: Arc<Mutex<Verdict>>,
}

impl Fault {
    fn new(about: &'static str, verdict: Verdict) -> Self {
        Self { about, verdict: Arc::new(Mutex::new(verdict)) }
    }

    fn mend(&self) {
        *self.verdict.lock().unwrap() = Verdict::Pass;
    }
}

impl Gate for Fault {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        if call.key.contains(self.about) { self.verdict.lock().unwrap().clone() } else { Verdict::Pass }
    }
}

/// A client that meets a fault, and objects to be reconciled.
async fn client(place: &impl Place, fault: &Fault) -> Client {
    let admin = place.client(place.world()).await;
    for (resource, name) in [(maps(), "a"), (maps(), "b"), (secrets(), "s")] {
        let created = admin.create(&resource, &json!({ "metadata": { "namespace": "default", "name": name } })).await;
        assert!(created.as_ref().is_ok() || created.as_ref().unwrap_err().is_already_exists(), "{created:?}");
    }
    place.client(World { gate: Arc::new(fault.clone()), ..place.world() }).await
}

fn nothing() -> Fault {
    Fault::new("nothing", Verdict::Pass)
}
