//! The runtime through its public face, in process and on a paused clock.
//!
//! Every case is a function over a [`Client`](concert_runtime::Client), so that the same case runs on any server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod admin;
mod both;
mod caches;
mod clients;
mod complaints;
mod controllers;
mod determinism;
mod embedded;
mod events;
mod handover;
mod kinds;
mod leases;
mod managers;
mod objects;
mod own_writes;
mod place;
mod requests;
mod roles;
mod secured;
mod shards;
mod sources;
mod storms;
mod turns;
mod watches;

use std::time::Duration;

use concert_api::{Gvk, ObjectKey};
use concert_runtime::Resource;
use serde_json::{Value, json};

/// ConfigMaps: every server has them.
fn maps() -> Resource {
    Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps")
}

fn secrets() -> Resource {
    Resource::namespaced(Gvk::new("", "v1", "Secret"), "secrets")
}

fn map(name: &str, data: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "default", "name": name }, "data": { "a": data } })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// Waits (in virtual time) until something holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a minute passed and still not: {what}");
}

/// A kind that no server has by itself.
fn widgets() -> Resource {
    Resource::namespaced(Gvk::new("test.dev", "v1", "Widget"), "widgets")
}

/// Makes a server have it.
async fn define_widgets(client: &concert_runtime::Client) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.test.dev" },
        "spec": {
            "group": "test.dev", "scope": "Namespaced", "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    client.create(&Resource::cluster(gvk, "customresourcedefinitions"), &definition).await.unwrap();
}
