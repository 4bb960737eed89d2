//! Controllers on real sockets, while their server is restarted, the network cuts and stalls, kinds come and go, and
//! permissions come late, or a proxy stands between. On both servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod cuts;
mod handover;
mod network;
mod proxies;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::Gvk;
use concert_e2e::{ControlPlane, Embedded, environment, eventually, on_both_servers};
use concert_runtime::{
    Client, Controller, Manager, ManagerSettings, Outcome, ReconcileError, Resource, Scope, Source, Stop, Trouble,
    reconcile_fn,
};
use concert_world::{Journal, World};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const SOON: Duration = Duration::from_secs(60);

fn maps() -> Resource {
    Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps")
}

fn widgets() -> Resource {
    Resource::namespaced(Gvk::new("test.dev", "v1", "Widget"), "widgets")
}

const WIDGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.dev}
spec:
  group: test.dev
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
";

/// What a controller saw last of each object: its data, or that it is gone.
type Seen = Arc<Mutex<BTreeMap<String, Option<String>>>>;

/// A process with two controllers, in a thread of its own.
struct Running {
    manager: Manager,
    maps: Seen,
    widgets: Seen,
    /// What was asked of the server, and what it sent.
    journal: Journal,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

fn noting(name: &str, resource: Resource, seen: &Seen) -> Controller {
    let seen = Arc::clone(seen);
    let note = reconcile_fn(move |request| {
        let seen = Arc::clone(&seen);
        async move {
            let object = request.object().await?;
            let says = object.map(|object| object.field(&["data", "a"]).map_or_else(String::new, text));
            seen.lock().unwrap().insert(request.key.name.to_string(), says);
            Ok::<_, ReconcileError>(Outcome::Done)
        }
    });
    Controller::builder(name).for_(Scope::all(resource).in_namespaces(["default"])).run(note).unwrap()
}

fn text(raw: &[u8]) -> String {
    serde_json::from_slice(raw).unwrap_or_default()
}

impl Running {
    fn start(kubeconfig: PathBuf) -> Self {
        let (maps_seen, widgets_seen, stop) = (Seen::default(), Seen::default(), CancellationToken::new());
        let (send, receive) = std::sync::mpsc::channel();
        let (one, two, drain) = (maps_seen.clone(), widgets_seen.clone(), stop.clone());
        let journal = Journal::on();
        let world = World { journal: journal.clone(), ..World::real() };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let source = Source { kubeconfig: Some(kubeconfig), context: None };
                let client = Client::connect(&source, world).await.unwrap();
                let manager = Manager::new(client, ManagerSettings::new("servers"));
                manager.add_controller(noting("maps", maps(), &one)).unwrap();
                manager.add_controller(noting("widgets", widgets(), &two)).unwrap();
                send.send(manager.clone()).unwrap();
                manager.run(Stop::on(drain, CancellationToken::new())).await.unwrap();
            });
        });
        let (manager, thread) = (receive.recv().unwrap(), Some(thread));
        Self { manager, maps: maps_seen, widgets: widgets_seen, journal, stop, thread }
    }

    fn sees(&self, seen: &Seen, name: &str, wanted: Option<&str>) {
        eventually(&format!("{name} is seen as {wanted:?}"), SOON, || match seen.lock().unwrap().get(name) {
            Some(says) if says.as_deref() == wanted => Ok(()),
            other => Err(format!("{other:?}; {:?}", self.manager.informers().states())),
        });
    }

    fn trouble(&self, resource: &Resource, wanted: fn(&Trouble) -> bool) {
        eventually("the trouble is told", SOON, || {
            let states = self.manager.informers().states();
            let ours = states.into_iter().find(|(scope, _)| scope.resource == *resource).unwrap();
            if ours.1.trouble.as_ref().is_some_and(wanted) { Ok(()) } else { Err(format!("{:?}", ours.1)) }
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the process did not end well");
    }
}

fn put(server: &ControlPlane, kind: &str, name: &str, data: &str) {
    let api_version = if kind == "Widget" { "test.dev/v1" } else { "v1" };
    let object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name, "namespace": "default" }, "data": { "a": data } });
    eventually("it is stored", SOON, || server.kubectl().apply_stdin(&object.to_string()).result().map(drop));
}

/// Nothing that happened is missed, whether the server ends well or not.
fn a_server_is_restarted(server: &ControlPlane) {
    let running = Running::start(server.kubeconfig());
    put(server, "ConfigMap", "stays", "1");
    put(server, "ConfigMap", "goes", "1");
    running.sees(&running.maps, "stays", Some("1"));
    running.sees(&running.maps, "goes", Some("1"));
    for (round, ends) in [ControlPlane::stop as fn(&ControlPlane) -> _, kill].into_iter().enumerate() {
        ends(server);
        running.trouble(&maps(), |trouble| matches!(trouble, Trouble::Failing(_)));
        server.start();
        put(server, "ConfigMap", "stays", &format!("after {round}"));
        running.sees(&running.maps, "stays", Some(&format!("after {round}")));
    }
    server.kubectl().ok(&["delete", "configmap", "goes"]);
    running.sees(&running.maps, "goes", None);
}

fn kill(server: &ControlPlane) -> concert_e2e::Exit {
    server.kill9();
    concert_e2e::Exit::Signal(9)
}

/// A kind that is not there, comes, vanishes and comes back concerns nobody else.
fn a_kind_comes_and_goes(server: &ControlPlane) {
    let running = Running::start(server.kubeconfig());
    running.trouble(&widgets(), |trouble| *trouble == Trouble::KindMissing);
    put(server, "ConfigMap", "beside", "1");
    running.sees(&running.maps, "beside", Some("1"));
    for round in ["1", "2"] {
        server.kubectl().apply_stdin(WIDGETS).ok();
        put(server, "Widget", "w", round);
        running.sees(&running.widgets, "w", Some(round));
        server.kubectl().ok(&["delete", "crd", "widgets.test.dev"]);
        running.sees(&running.widgets, "w", None);
        running.trouble(&widgets(), |trouble| *trouble == Trouble::KindMissing);
        put(server, "ConfigMap", "beside", &format!("after {round}"));
        running.sees(&running.maps, "beside", Some(&format!("after {round}")));
    }
}

on_both_servers!(a_server_is_restarted, a_kind_comes_and_goes);

/// What is not allowed is told at once, and found when it is.
fn a_permission_comes_late(server: &ControlPlane) {
    let kubectl = server.kubectl();
    kubectl.ok(&["create", "serviceaccount", "robot"]);
    let token = kubectl.ok(&["create", "token", "robot"]);
    let path = server.directory().join("robot.kubeconfig");
    std::fs::copy(server.kubeconfig(), &path).unwrap();
    let robot = concert_e2e::Kubectl::new(&path);
    robot.ok(&["config", "set-credentials", "robot", &format!("--token={}", token.trim())]);
    robot.ok(&["config", "set-context", "--current", "--user=robot"]);
    let running = Running::start(path);
    running.trouble(&maps(), |trouble| matches!(trouble, Trouble::Forbidden(why) if why.contains("configmaps")));
    put(server, "ConfigMap", "secretly", "1");
    kubectl.ok(&["create", "role", "reader", "--verb=get,list,watch", "--resource=configmaps"]);
    kubectl.ok(&["create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:robot"]);
    running.sees(&running.maps, "secretly", Some("1"));
    assert!(running.widgets.lock().unwrap().is_empty());
}

#[test]
fn a_permission_that_comes_late_is_found_on_embedded() {
    if let Err(missing) = environment::kubectl() {
        return missing.skip();
    }
    let options = Embedded::new(environment::binary("concert")).argument("--authorization-mode=RBAC");
    a_permission_comes_late(&ControlPlane::embedded_with(options));
}

#[test]
fn a_permission_that_comes_late_is_found_on_reference() {
    concert_e2e::on_reference(a_permission_comes_late);
}
