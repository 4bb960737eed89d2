//! On both servers, over TCP.

use std::path::PathBuf;
use std::time::Duration;

use concert_e2e::{ControlPlane, Embedded, Kubectl, environment};
use concert_runtime::{Client, Controller, Source};
use concert_world::World;

use crate::scene::{Scene, Told, polling};
use crate::{Place, cases, client, maps, nothing};

impl Place for ControlPlane {
    fn world(&self) -> World {
        World::real()
    }

    async fn client(&self, world: World) -> Client {
        connect(self.kubeconfig(), world).await
    }

    #[expect(clippy::disallowed_methods, reason = "that somebody does is the mishap")]
    fn block(time: Duration) {
        std::thread::sleep(time);
    }

    async fn reader(&self) -> (Client, String) {
        let kubectl = self.kubectl();
        kubectl.ok(&["create", "serviceaccount", "rita"]);
        kubectl.ok(&["create", "clusterrole", "reader", "--verb=get,list,watch", "--resource=configmaps"]);
        kubectl.ok(&[
            "create",
            "clusterrolebinding",
            "reader",
            "--clusterrole=reader",
            "--serviceaccount=default:rita",
        ]);
        let token = kubectl.ok(&["create", "token", "rita"]);
        let path = with_token(self, "rita", token.trim());
        (connect(path, World::real()).await, "system:serviceaccount:default:rita".to_owned())
    }
}

async fn connect(kubeconfig: PathBuf, world: World) -> Client {
    Client::connect(&Source { kubeconfig: Some(kubeconfig), context: None }, world).await.unwrap()
}

/// A kubeconfig of somebody else.
fn with_token(server: &ControlPlane, name: &str, token: &str) -> PathBuf {
    let path = server.directory().join(format!("{name}.kubeconfig"));
    std::fs::copy(server.kubeconfig(), &path).unwrap();
    let kubectl = Kubectl::new(&path);
    kubectl.ok(&["config", "set-credentials", name, &format!("--token={token}")]);
    kubectl.ok(&["config", "set-context", "--current", &format!("--user={name}")]);
    path
}

/// The server itself says that it does not know a token. Who uses it has another cluster beside it that works.
async fn a_token_is_refused(server: &ControlPlane) {
    let stranger = connect(with_token(server, "stranger", "not-a-token"), World::real()).await;
    let scene = Scene::new(client(server, &nothing()).await, None);
    let far = scene.manager.clusters().add("far", stranger).unwrap();
    let suffering = Controller::builder("c").for_(maps()).in_cluster(&far).run(polling()).unwrap();
    scene.manager.add_controller(suffering).unwrap();
    let said: &[&[&str]] = &[&["WARN", "controller=\"c\"", "they may have expired, get new ones into the kubeconfig"]];
    let metrics = [
        "concert_watch_trouble{cluster=\"far\",scope=\"configmaps\",trouble=\"failing\"} 1",
        "concert_controller_waiting_sources{controller=\"c\"} 1",
        "rest_client_requests_total{code=\"401\",method=\"GET\"",
    ];
    scene.play(Told { said, metrics: &metrics }, async || {}, || true).await;
}

/// A kubeconfig that trusts somebody else.
async fn a_certificate_is_not_trusted(server: &ControlPlane) {
    let path = server.directory().join("distrustful.kubeconfig");
    std::fs::copy(server.kubeconfig(), &path).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem();
    let authority = server.directory().join("other.crt");
    std::fs::write(&authority, other).unwrap();
    let kubectl = Kubectl::new(&path);
    let cluster = kubectl.ok(&["config", "view", "--output=jsonpath={.contexts[0].context.cluster}"]);
    let authority = format!("--certificate-authority={}", authority.display());
    kubectl.ok(&["config", "set-cluster", &cluster, &authority]);
    let client = connect(path, World::real()).await;
    let error = client.get(&maps(), &concert_api::ObjectKey::new("default", "a")).await.unwrap_err();
    let said = concert_runtime::error_chain(&error);
    let words =
        ["cannot get configmaps default/a", client.host(), "either certificate-authority is wrong, or it is another"];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

fn every_mishap_is_told(server: &ControlPlane) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        cases::a_server_is_not_reached(server).await;
        cases::a_token_has_expired(server).await;
        a_token_is_refused(server).await;
        a_certificate_is_not_trusted(server).await;
        cases::a_kind_is_missing_and_then_an_object_cannot_be_read(server).await;
        cases::a_verb_is_forbidden(server).await;
        cases::a_reconcile_panics(server).await;
        cases::a_reconcile_never_returns(server).await;
        cases::a_handler_is_slower_than_its_events(server).await;
        cases::a_quick_mapping_blocks(server).await;
    });
}

#[test]
fn every_mishap_is_told_on_embedded() {
    if let Err(missing) = environment::kubectl() {
        return missing.skip();
    }
    let options = Embedded::new(environment::binary("concert")).argument("--authorization-mode=RBAC");
    every_mishap_is_told(&ControlPlane::embedded_with(options));
}

#[test]
fn every_mishap_is_told_on_reference() {
    concert_e2e::on_reference(every_mishap_is_told);
}
