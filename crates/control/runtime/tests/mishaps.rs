//! What goes wrong is told: each mishap has a message that says what to do about it, a metric, and stops nothing else.
//! In a process of its own: who listens to logs is a matter of the whole process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::{Gvk, ObjectKey};
use concert_apiserver::{Authorization, Server, User};
use concert_runtime::manager::Context;
use concert_runtime::serve::Pages;
use concert_runtime::{
    Client, Controller, Manager, ManagerSettings, Outcome, Phase, ReconcileError, Reconciler, Resource, Source, Stop,
    reconcile_fn,
};
use concert_world::{Call, Gate, Verdict, World};
use serde_json::json;
use tower::ServiceExt;
use tracing::subscriber::DefaultGuard;

fn maps() -> Resource {
    Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps")
}

fn secrets() -> Resource {
    Resource::namespaced(Gvk::new("", "v1", "Secret"), "secrets")
}

fn widgets() -> Resource {
    Resource::namespaced(Gvk::new("test.dev", "v1", "Widget"), "widgets")
}

/// What is logged in this thread.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logs {
    fn listen() -> (Self, DefaultGuard) {
        let logs = Self::default();
        let to = logs.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(move || to.clone());
        (logs, tracing::subscriber::set_default(subscriber.finish()))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Whether one line has all of these words.
    fn say(&self, words: &[&str]) -> bool {
        self.text().lines().any(|line| words.iter().all(|word| line.contains(word)))
    }
}

/// Answers requests about something in its own way, from a moment on.
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

/// Polls, so that it is seen whether it still works.
fn polling() -> impl Reconciler {
    reconcile_fn(|_| async { Ok(Outcome::After(Duration::from_secs(10))) })
}

/// A process with a controller that has nothing to do with the mishap, and perhaps one that suffers from it.
struct Scene {
    manager: Manager,
    logs: Logs,
    _guard: DefaultGuard,
}

impl Scene {
    async fn new(client: Client, sufferer: Option<Controller>) -> Self {
        let (logs, _guard) = Logs::listen();
        let manager = Manager::new(client, ManagerSettings::new("m"));
        manager.add_controller(Controller::builder("calm").for_(maps()).run(polling()).unwrap()).unwrap();
        sufferer.into_iter().for_each(|controller| manager.add_controller(controller).unwrap());
        Self { manager, logs, _guard }
    }

    fn shows(&self, metric: &str) -> bool {
        self.manager.metrics().text().lines().any(|line| line.starts_with(metric))
    }

    /// How many turns of a controller went well.
    fn successes(&self, controller: &str) -> u64 {
        let text = self.manager.metrics().text();
        let sum = |line: &str| {
            let line = line.strip_prefix("controller_runtime_reconcile_total{controller=\"")?;
            let (name, rest) = line.split_once('"')?;
            let good = rest.contains("success") || rest.contains("requeue_after");
            (name == controller && good).then(|| rest.rsplit(' ').next()?.parse::<u64>().ok())?
        };
        text.lines().filter_map(sum).sum()
    }

    fn readiness(&self) -> String {
        self.manager.probes().page("/readyz", "verbose").unwrap().text
    }

    /// Runs for a while; the controller that has nothing to do with it has to go on working. Then for another while
    /// after `mended`.
    async fn play(&self, expected: &[&[&str]], metrics: &[&str], mended: impl AsyncFnOnce()) {
        let stop = Stop::default();
        let (drain, abort) = (stop.drain.clone(), stop.abort.clone());
        let story = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let before = self.successes("calm");
            tokio::time::sleep(Duration::from_secs(130)).await;
            for words in expected {
                assert!(self.logs.say(words), "{words:?} is not said in:\n{}", self.logs.text());
            }
            for metric in metrics {
                assert!(self.shows(metric), "{metric} is missing in:\n{}", self.manager.metrics().text());
            }
            assert!(self.successes("calm") >= before + 10, "the other one goes on");
            mended().await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            drain.cancel();
            abort.cancel();
        };
        let _ = tokio::join!(self.manager.clone().run(stop), story);
    }
}

async fn in_process(fault: &Fault) -> Client {
    let client = |world| async { Client::in_process(Server::in_memory(World::simulated(0)).await, world) };
    let client = client(World { gate: Arc::new(fault.clone()), ..World::simulated(1) }).await;
    for (resource, name) in [(maps(), "a"), (maps(), "b"), (secrets(), "s")] {
        let object = json!({ "metadata": { "namespace": "default", "name": name } });
        // Behind the fault's back.
        let mended = std::mem::replace(&mut *fault.verdict.lock().unwrap(), Verdict::Pass);
        client.create(&resource, &object).await.unwrap();
        *fault.verdict.lock().unwrap() = mended;
    }
    client
}

fn nothing() -> Fault {
    Fault::new("nothing", Verdict::Pass)
}

#[tokio::test(start_paused = true)]
async fn a_wrong_kubeconfig_is_named_with_what_to_do() {
    // A process that knows no cluster ends at once: there is nobody to show a metric.
    let source = Source { kubeconfig: Some("/nowhere/config".into()), ..Source::default() };
    let error = Client::connect(&source, World::simulated(1)).await.unwrap_err().to_string();
    assert!(error.contains("\"/nowhere/config\" (from --kubeconfig)") && error.contains("name a readable"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    std::fs::write(&file, "clusters: {what: is this}").unwrap();
    let source = Source { kubeconfig: Some(file), ..Source::default() };
    let error = Client::connect(&source, World::simulated(1)).await.unwrap_err().to_string();
    assert!(error.contains("cannot use kubeconfig"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_reached_is_told_and_tried_again() {
    let fault = Fault::new("secrets", Verdict::Refuse);
    let suffering = Controller::builder("c").for_(secrets()).run(polling()).unwrap();
    let scene = Scene::new(in_process(&fault).await, Some(suffering)).await;
    let said: &[&[&str]] = &[&["WARN", "its workers wait for this source", "controller=\"c\"", "cannot be reached"]];
    let metrics = [
        "concert_watch_trouble{cluster=\"\",scope=\"secrets metadata\",trouble=\"failing\"} 1",
        "concert_controller_waiting_sources{controller=\"c\"} 1",
        "rest_client_requests_total{code=\"<error>\",method=\"GET\"",
    ];
    scene
        .play(said, &metrics, async || {
            assert!(scene.readiness().contains("cannot be reached"), "{}", scene.readiness());
            fault.mend();
        })
        .await;
    assert!(scene.successes("c") > 0, "and it begins when the server is there");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_has_expired_is_told() {
    let fault = Fault::new("secrets", Verdict::Fail(401));
    let suffering = Controller::builder("c").for_(secrets()).run(polling()).unwrap();
    let scene = Scene::new(in_process(&fault).await, Some(suffering)).await;
    let said: &[&[&str]] = &[&["WARN", "controller=\"c\"", "they may have expired, get new ones into the kubeconfig"]];
    let metrics = [
        "concert_watch_trouble{cluster=\"\",scope=\"secrets metadata\",trouble=\"failing\"} 1",
        "concert_controller_waiting_sources{controller=\"c\"} 1",
        "rest_client_requests_total{code=\"401\",method=\"GET\"",
    ];
    scene.play(said, &metrics, async || fault.mend()).await;
    assert!(scene.successes("c") > 0, "and it begins with a new one");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_missing_is_told() {
    let client = in_process(&nothing()).await;
    let suffering = Controller::builder("c").for_(widgets()).run(polling()).unwrap();
    let scene = Scene::new(client.clone(), Some(suffering)).await;
    let said: &[&[&str]] = &[
        &["WARN", "controller=\"c\"", "widgets.test.dev", "the server does not know this kind"],
        &["ERROR", "controller waits for a source", "widgets.test.dev"],
    ];
    let metrics = [
        "concert_watch_trouble{cluster=\"\",scope=\"widgets.test.dev\",trouble=\"kind_missing\"} 1",
        "concert_controller_waiting_sources{controller=\"c\"} 1",
        "rest_client_requests_total{code=\"404\",method=\"GET\"",
    ];
    scene.play(said, &metrics, async || {}).await;
}

/// A client that acts as a user who may read ConfigMaps and nothing else.
async fn reader() -> Client {
    let server = Server::in_memory(World::simulated(0)).await;
    server.authorize_by(Authorization::Rbac).await.unwrap();
    let admin = Client::in_process(server.clone(), World::simulated(2));
    let rbac = |kind: &str, plural| Resource::cluster(Gvk::new("rbac.authorization.k8s.io", "v1", kind), plural);
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"] }]);
    let role = json!({ "metadata": { "name": "reader" }, "rules": rules });
    admin.create(&rbac("ClusterRole", "clusterroles"), &role).await.unwrap();
    let binding = json!({
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "rita" }],
    });
    admin.create(&rbac("ClusterRoleBinding", "clusterrolebindings"), &binding).await.unwrap();
    let object = json!({ "metadata": { "namespace": "default", "name": "a" } });
    admin.create(&maps(), &object).await.unwrap();
    let as_rita = server.map_request(|mut request: http::Request<_>| {
        request.extensions_mut().insert(User::new("rita", &[]));
        request
    });
    Client::in_process(as_rita, World::simulated(1))
}

#[tokio::test(start_paused = true)]
async fn a_verb_that_is_forbidden_is_told() {
    let scene = Scene::new(reader().await, None).await;
    let writer = scene.manager.client().clone();
    let writes = reconcile_fn(move |request| {
        let writer = writer.clone();
        async move {
            writer.merge_patch(&maps(), &request.key, &json!({ "data": { "a": "1" } }), None).await?;
            Ok(Outcome::Done)
        }
    });
    scene.manager.add_controller(Controller::builder("writes").for_(maps()).run(writes).unwrap()).unwrap();
    scene.manager.add_controller(Controller::builder("c").for_(secrets()).run(polling()).unwrap()).unwrap();
    let said: &[&[&str]] = &[
        &["WARN", "its workers wait for this source", "controller=\"c\"", "User \"rita\" cannot watch resource"],
        &["WARN", "reconcile failed", "controller=writes", "name=a", "cannot patch resource"],
    ];
    let metrics = [
        "concert_watch_trouble{cluster=\"\",scope=\"secrets metadata\",trouble=\"forbidden\"} 1",
        "concert_controller_waiting_sources{controller=\"c\"} 1",
        "controller_runtime_reconcile_total{controller=\"writes\",result=\"error\"} 1",
        "rest_client_requests_total{code=\"403\",method=\"PATCH\"",
    ];
    scene.play(said, &metrics, async || {}).await;
}

/// Panics at one object, never ends at another.
fn wild(request: &ObjectKey) -> bool {
    &*request.name == "a"
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_panics_is_told() {
    let panics = reconcile_fn(|request| async move {
        assert!(!wild(&request.key), "out of cheese");
        Ok::<_, ReconcileError>(Outcome::Done)
    });
    let suffering = Controller::builder("c").for_(maps()).run(panics).unwrap();
    let scene = Scene::new(in_process(&nothing()).await, Some(suffering)).await;
    let said: &[&[&str]] = &[&["ERROR", "reconcile panicked", "controller=c", "name=a", "out of cheese"]];
    let metrics = [
        "controller_runtime_reconcile_panics_total{controller=\"c\"} 1",
        "controller_runtime_reconcile_errors_total{controller=\"c\"} 1",
    ];
    scene.play(said, &metrics, async || {}).await;
    assert!(scene.successes("c") >= 1, "other keys are served");
    assert!(!scene.shows("controller_runtime_reconcile_errors_total{controller=\"c\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_never_returns_is_told() {
    let hang = || {
        reconcile_fn(|request| async move {
            if wild(&request.key) {
                std::future::pending::<()>().await;
            }
            Ok(Outcome::Done)
        })
    };
    let patient = Controller::builder("patient").for_(maps()).workers(2).run(hang()).unwrap();
    let scene = Scene::new(in_process(&nothing()).await, Some(patient)).await;
    let strict = Controller::builder("strict").for_(maps()).timeout(Duration::from_secs(5)).run(hang()).unwrap();
    scene.manager.add_controller(strict).unwrap();
    let said: &[&[&str]] = &[
        &["WARN", "reconcile is still running", "controller=patient", "name=a", "seconds=60"],
        &["ERROR", "reconcile took too long", "controller=strict", "name=a", "seconds=5"],
    ];
    let metrics = [
        "workqueue_longest_running_processor_seconds{name=\"patient\",controller=\"patient\"} 1",
        "controller_runtime_active_workers{controller=\"patient\"} 1",
        "controller_runtime_reconcile_timeouts_total{controller=\"strict\"} ",
    ];
    scene.play(said, &metrics, async || {}).await;
    assert!(!scene.shows("controller_runtime_reconcile_timeouts_total{controller=\"strict\"} 0"));
    assert!(scene.successes("patient") >= 1 && scene.successes("strict") >= 1, "other keys are served");
}

#[tokio::test(start_paused = true)]
async fn a_component_that_never_says_that_it_is_ready_is_named() {
    let scene = Scene::new(in_process(&nothing()).await, None).await;
    let silent = |context: Context| async move {
        context.cancel.cancelled().await;
        Ok(())
    };
    scene.manager.add(Phase::Warmup, "mute", silent).unwrap();
    let (hold, stop) = (scene.manager.clone(), Stop::default());
    let drain = stop.drain.clone();
    let story = async {
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert!(!hold.standing().borrow().leads(), "the next phase waits");
        let words =
            ["WARN", "have not said that they are ready", "phase=\"warmup\"", "components=\"mute\"", "seconds=10"];
        assert!(scene.logs.say(&words), "{}", scene.logs.text());
        assert!(
            scene.readiness().contains("components failed: waits for mute (of phase warmup)"),
            "{}",
            scene.readiness()
        );
        assert_eq!(hold.not_ready(), ["mute (of phase warmup)"]);
        drain.cancel();
    };
    let (ended, ()) = tokio::join!(hold.clone().run(stop), story);
    ended.unwrap();
}
