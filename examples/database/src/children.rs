//! What a database is made of.

use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::{Value, json};

use crate::Database;

/// The label of everything that belongs to a database.
pub(crate) const APP: &str = "database";

fn labels(name: &str) -> Value {
    json!({ "app": APP, "database": name })
}

/// The StatefulSet as it is created.
pub(crate) fn stateful_set(database: &Database, namespace: &str, name: &str) -> StatefulSet {
    let password = json!({ "secretKeyRef": { "name": database.spec.password_secret, "key": "password" } });
    let container = json!({
        "name": "database", "image": database.spec.image, "env": [{ "name": "PASSWORD", "valueFrom": password }],
    });
    let set = json!({
        "metadata": { "namespace": namespace, "name": name, "labels": labels(name) },
        "spec": {
            "serviceName": name,
            "replicas": database.spec.replicas,
            "selector": { "matchLabels": labels(name) },
            "template": { "metadata": { "labels": labels(name) }, "spec": { "containers": [container] } },
        },
    });
    serde_json::from_value(set).expect("it is written above")
}

/// What of the Service is ours to say; others may say more.
pub(crate) fn service(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": { "namespace": namespace, "name": name, "labels": labels(name) },
        "spec": { "clusterIP": "None", "selector": labels(name), "ports": [{ "name": "sql", "port": 5432 }] },
    })
}
