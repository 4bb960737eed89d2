//! What lives in every namespace: its default ServiceAccount, and the certificate of this server. Whoever removes or
//! changes them finds them again.

use std::sync::LazyLock;

use concert_api::{GroupResource, ObjectKey, Status};
use concert_store::Key;
use serde_json::{Value, json};

use crate::Server;
use crate::body::Media;
use crate::books::{HOUSEKEEPING, SERVER};
use crate::services::{FIRST_ADDRESS, SERVICES};
use crate::target::{Part, Query, Target};

const ACCOUNT: &str = "default";
/// How those inside of a cluster call this server.
const SERVICE: &str = "kubernetes";
const CERTIFICATE: &str = "kube-root-ca.crt";
const ANNOTATION: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains the certificate with which clients inside of this control plane can verify its API server; nothing else should be verified with it.";

/// What counts more than all that users can say: name, value, and for whom it is.
const CRITICAL: [(&str, i64, &str); 2] = [
    ("system-node-critical", 2_000_001_000, "For pods of the system that have to stay on their node."),
    ("system-cluster-critical", 2_000_000_000, "For pods of the system that have to run, on whatever node."),
];

static ACCOUNTS: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new("", "serviceaccounts"));
static PRIORITIES: LazyLock<GroupResource> =
    LazyLock::new(|| GroupResource::new("scheduling.k8s.io", "priorityclasses"));
static MAPS: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new("", "configmaps"));

/// Whether this is one of them.
pub(crate) fn is_one(key: &Key) -> bool {
    (key.resource == *ACCOUNTS && *key.object.name == *ACCOUNT)
        || (key.resource == *SERVICES && *key.object.name == *SERVICE && *key.object.namespace == *"default")
        || (key.resource == *MAPS && *key.object.name == *CERTIFICATE)
}

impl Server {
    /// Sees to it that a namespace has what every namespace has, as long as it lives.
    pub(crate) async fn furnish(&self, namespace: &str) {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
        self.put_there(HOUSEKEEPING, &ACCOUNTS, namespace, ACCOUNT, &account).await;
        if namespace == "default" {
            self.put_there(SERVER, &SERVICES, namespace, SERVICE, &own_service()).await;
            for (name, value, description) in CRITICAL {
                let class = priority_class(name, value, description);
                self.put_there(SERVER, &PRIORITIES, "", name, &class).await;
            }
        }
        let Some(certificate) = self.root_certificate() else { return };
        let data = json!({"ca.crt": certificate});
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": CERTIFICATE, "annotations": {ANNOTATION: DESCRIPTION}},
        });
        self.put_there(HOUSEKEEPING, &MAPS, namespace, CERTIFICATE, &map).await;
        let key = Key { resource: MAPS.clone(), object: ObjectKey::new(namespace, CERTIFICATE) };
        self.edit(&key, Part::Whole, |stored| restore(stored, &data)).await;
    }

    async fn put_there(&self, manager: &str, resource: &GroupResource, namespace: &str, name: &str, object: &Value) {
        let key = Key { resource: resource.clone(), object: ObjectKey::new(namespace, name) };
        if self.store().snapshot().get(&key).is_some() {
            return;
        }
        let Some(resource) = self.kinds().get(&resource.group, &resource.resource).cloned() else { return };
        let mut target = Target::stored(&resource, &key.object);
        target.name = None;
        let created = self.create(&target, &Query::own(manager), Media::Json, object.to_string().as_bytes()).await;
        // Somebody was faster, or the namespace is going.
        let expected = |status: &Status| matches!(status.reason, "AlreadyExists" | "Forbidden" | "NotFound");
        if let Err(status) = &created
            && !expected(status)
        {
            tracing::warn!(%key, %status, "cannot furnish a namespace");
        }
    }
}

fn own_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": SERVICE, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": FIRST_ADDRESS.to_string(),
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        },
    })
}

fn priority_class(name: &str, value: i64, description: &str) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
        "value": value, "description": description,
    })
}

fn restore(stored: &mut Value, data: &Value) {
    stored["data"] = data.clone();
    if concert_api::meta::annotation(stored, ANNOTATION).is_none_or(str::is_empty) {
        concert_api::meta::set_annotation(stored, ANNOTATION, DESCRIPTION);
    }
}
