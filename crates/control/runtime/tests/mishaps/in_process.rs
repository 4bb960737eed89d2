//! On the embedded server, in process and on a paused clock.

use std::time::Duration;

use concert_api::Gvk;
use concert_apiserver::{Authorization, Server, User};
use concert_runtime::manager::Context;
use concert_runtime::{Client, Phase, Resource, Source, Stop};
use concert_world::World;
use futures::FutureExt;
use serde_json::json;
use tower::ServiceExt;

use crate::scene::Scene;
use crate::{Place, cases, client, nothing};

struct InProcess(Server);

impl InProcess {
    async fn new() -> Self {
        let server = Server::in_memory(World::simulated(0)).await;
        server.authorize_by(Authorization::Rbac).await.unwrap();
        Self(server)
    }
}

impl Place for InProcess {
    fn world(&self) -> World {
        World::simulated(1)
    }

    async fn client(&self, world: World) -> Client {
        Client::in_process(self.0.clone(), world)
    }

    fn block(time: Duration) {
        // What the clock is moved by is moved when it is asked for the first time.
        assert!(tokio::time::advance(time).now_or_never().is_none());
    }

    async fn reader(&self) -> (Client, String) {
        let admin = self.client(World::simulated(2)).await;
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
        let as_rita = self.0.clone().map_request(|mut request: http::Request<_>| {
            request.extensions_mut().insert(User::new("rita", &[]));
            request
        });
        (Client::in_process(as_rita, World::simulated(1)), "rita".to_owned())
    }
}

macro_rules! cases {
    ($($name:ident),+ $(,)?) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            cases::$name(&InProcess::new().await).await;
        }
    )+};
}

cases!(
    a_server_is_not_reached,
    a_token_has_expired,
    a_kind_is_missing_and_then_an_object_cannot_be_read,
    a_verb_is_forbidden,
    a_reconcile_panics,
    a_reconcile_never_returns,
    a_handler_is_slower_than_its_events,
    a_quick_mapping_blocks,
);

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
async fn a_component_that_never_says_that_it_is_ready_is_named() {
    let scene = Scene::new(client(&InProcess::new().await, &nothing()).await, None);
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
