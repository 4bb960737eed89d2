//! One status write, or none: on the embedded server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use concert_api::{Gvk, Object, ObjectKey};
use concert_apiserver::Server;
use concert_reconcile::StatusWriter;
use concert_runtime::{Client, Resource};
use concert_world::World;
use serde_json::{Value, json};

async fn world() -> (Client, Resource, Object) {
    let world = World::simulated(1);
    let client = Client::in_process(Server::in_memory(world.clone()).await, world);
    let crds = Resource::cluster(
        Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        "customresourcedefinitions",
    );
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "status": {"type": "object", "properties": {"kept": {"type": "integer"}}},
    }});
    let definition = json!({
        "metadata": {"name": "things.t.dev"},
        "spec": {"group": "t.dev", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
        }]},
    });
    client.create(&crds, &definition).await.unwrap();
    let things = Resource::cluster(Gvk::new("t.dev", "v1", "Thing"), "things");
    let thing = json!({"apiVersion": "t.dev/v1", "kind": "Thing", "metadata": {"name": "a"}});
    let object = client.create(&things, &thing).await.unwrap();
    (client, things, object)
}

fn always(status: Value) -> impl Fn(&Value) -> Value {
    move |_| status.clone()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_twice_even_if_the_server_prunes_it() {
    let (client, things, object) = world().await;
    let writer = StatusWriter::new(client, things, true);
    let wanted = json!({"kept": 1, "pruned": 2});
    let answer = writer.write(&object, always(wanted.clone())).await.unwrap().unwrap();
    assert_eq!(answer.value().unwrap()["status"], json!({"kept": 1}));
    assert!(writer.write(&answer, always(wanted)).await.unwrap().is_none(), "the server's answer is what counts");
    assert!(writer.write(&answer, always(json!({"kept": 1}))).await.unwrap().is_none());
    assert!(writer.write(&answer, always(json!({"kept": 2}))).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_conflict_computes_the_status_anew() {
    let (client, things, stale) = world().await;
    let key = ObjectKey::cluster("a");
    client.merge_patch(&things, &key, &json!({"spec": {"x": 1}}), None).await.unwrap();
    let writer = StatusWriter::new(client.clone(), things.clone(), true);
    let from_spec = |object: &Value| json!({"kept": object["spec"]["x"].as_i64().unwrap_or(0)});
    let answer = writer.write(&stale, from_spec).await.unwrap().unwrap();
    assert_eq!(answer.value().unwrap()["status"]["kept"], 1);
    client.delete(&things, &key, &concert_runtime::Deletion::default()).await.unwrap();
    assert!(writer.write(&answer, always(json!({"kept": 9}))).await.unwrap().is_none(), "gone is no error");
}
