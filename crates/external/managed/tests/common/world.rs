//! A server that knows a kind, and a process that reconciles it with a cloud: for tests and the determinism check.

use std::sync::Arc;
use std::time::Duration;

use concert_api::Gvk;
use concert_apiserver::Server;
use concert_external::{External, KindInfo, NamePolicy};
use concert_managed::{Managed, Settings};
use concert_runtime::{Client, Manager, ManagerSettings, Resource, Stop};
use concert_testkit::Cloud;
use concert_world::World;
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) const VISIBLE_AFTER: Duration = Duration::from_secs(3);
const SESSION_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn servers() -> Resource {
    Resource::cluster(Gvk::new("cloud.test", "v1", "Server"), "servers")
}

/// A server with the definition in it.
pub(crate) async fn prepared() -> Server {
    let world = World::simulated(0);
    let server = Server::in_memory(world.clone()).await;
    let client = Client::in_process(server.clone(), world);
    let definitions = Resource::cluster(
        Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        "customresourcedefinitions",
    );
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "servers.cloud.test"},
        "spec": {"group": "cloud.test", "scope": "Cluster", "names": {"plural": "servers", "kind": "Server"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
        }]},
    });
    client.create(&definitions, &definition).await.unwrap();
    server
}

/// One life of the process.
pub(crate) async fn run(server: Server, cloud: Cloud, names: NamePolicy, world: World) {
    let client = Client::in_process(server, world);
    let manager = Manager::new(client, ManagerSettings::new("test"));
    let kind = KindInfo {
        names,
        consistency_window: VISIBLE_AFTER,
        session_timeout: Some(SESSION_TIMEOUT),
        ..KindInfo::plain(servers().gvk)
    };
    let external: Arc<dyn External> = Arc::new(cloud);
    let managed = Managed::new(
        manager.client().clone(),
        manager.recorder().clone(),
        servers(),
        external,
        kind,
        Settings::default(),
    );
    manager.engine().add(managed.controller().unwrap()).unwrap();
    manager.run(Stop::on(CancellationToken::new(), CancellationToken::new())).await.unwrap();
}
