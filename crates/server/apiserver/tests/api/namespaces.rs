//! The life of namespaces, and what lives in all of them.

use crate::face::*;
use serde_json::{Value, json};

const SPACES: &str = "/api/v1/namespaces";

async fn with_team() -> Api {
    let api = Api::new().await;
    api.0.publish_certificate("-----BEGIN CERTIFICATE-----");
    assert_eq!(api.post(SPACES, &json!({"metadata": {"name": "team"}})).await.code, 201);
    api.0.settled().await;
    api
}

#[tokio::test(start_paused = true)]
async fn every_namespace_is_furnished_and_stays_so() {
    let api = with_team().await;
    let (account, map) = ("serviceaccounts/default", "configmaps/kube-root-ca.crt");
    let certificate = json!({"ca.crt": "-----BEGIN CERTIFICATE-----"});
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease", "team"] {
        for path in [account, map] {
            assert_eq!(api.get(&format!("{SPACES}/{namespace}/{path}")).await.code, 200, "{namespace} {path}");
        }
    }
    let at = |path: &str| format!("{SPACES}/team/{path}");
    assert_eq!(api.get(&at(map)).await.body["data"], certificate);
    api.delete(&at(account), "").await;
    api.merge(&at(map), json!({"data": {"ca.crt": "other", "more": "x"}, "metadata": {"annotations": null}})).await;
    api.0.settled().await;
    assert_eq!(api.get(&at(account)).await.code, 200, "it came back");
    let restored = api.get(&at(map)).await.body;
    assert_eq!(restored["data"], certificate);
    assert!(restored["metadata"]["annotations"]["kubernetes.io/description"].is_string());
    api.delete(&at(map), "").await;
    api.0.settled().await;
    assert_eq!(api.get(&at(map)).await.code, 200, "it came back");
    api.delete(&format!("{SPACES}/team"), "").await;
    api.0.settled().await;
    assert_eq!((api.get(&at(map)).await.code, api.get(&format!("{SPACES}/team")).await.code), (404, 404));
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_says_what_holds_it() {
    let api = with_team().await;
    let mut held = map("held", "1");
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    api.post(&format!("{SPACES}/team/configmaps"), &held).await;
    api.delete(&format!("{SPACES}/team"), "").await;
    let team = api.get(&format!("{SPACES}/team")).await.body;
    let condition = |kind: &str| -> Value {
        team["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == kind).cloned().unwrap()
    };
    let remaining = condition("NamespaceContentRemaining");
    assert_eq!(
        (&remaining["status"], remaining["message"].as_str().unwrap()),
        (&json!("True"), "Some resources are remaining: configmaps. has 1 resource instances")
    );
    assert_eq!(
        condition("NamespaceFinalizersRemaining")["message"],
        "Some content in the namespace has finalizers remaining: x.io/y in 1 resource instances"
    );
    assert_eq!(condition("NamespaceDeletionContentFailure")["status"], "False");
}

#[tokio::test(start_paused = true)]
async fn finalize_alone_changes_what_holds_a_namespace() {
    let api = Api::new().await;
    let made = api.post(SPACES, &json!({"metadata": {"name": "t"}, "spec": {"finalizers": ["foo.io/x"]}})).await.body;
    assert_eq!(made["spec"]["finalizers"], json!(["foo.io/x", "kubernetes"]));
    let at = format!("{SPACES}/t");
    let label = json!({"kubernetes.io/metadata.name": "t"});
    for patch in [
        json!({"spec": {"finalizers": ["a.io/b"]}}),
        json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}}),
        json!({"metadata": {"labels": null}}),
    ] {
        let same = api.merge(&at, patch.clone()).await;
        assert_eq!((same.code, &same.body["metadata"]["labels"]), (200, &label), "{patch}");
        assert_eq!(same.body["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"], "{patch}");
    }
    let refused = api.merge(&format!("{at}/status"), json!({"status": {"phase": "Terminating"}})).await;
    assert_eq!(
        message(&refused),
        "Namespace \"t\" is invalid: status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    );
    api.delete(&at, "").await;
    let waits = api.get(&at).await.body;
    assert_eq!(waits["spec"]["finalizers"], json!(["foo.io/x"]), "the server's own finalizer is gone, the other holds");
    let finalize = json!({"metadata": {"name": "t"}, "spec": {"finalizers": []}});
    let last = api.put(&format!("{at}/finalize"), &finalize).await;
    assert_eq!((last.code, &last.body["spec"], api.get(&at).await.code), (200, &json!({}), 404));
    assert_eq!(api.get(&format!("{SPACES}/default/finalize")).await.code, 405);
    assert_eq!(api.merge(&format!("{SPACES}/default/finalize"), json!({})).await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn events_expire_after_an_hour() {
    let api = Api::new().await;
    let event = |name: &str| {
        json!({
            "metadata": {"name": name}, "involvedObject": {"kind": "File", "name": "f", "namespace": "default"},
            "reason": "R", "message": "m", "type": "Normal",
        })
    };
    let events = "/api/v1/namespaces/default/events";
    assert_eq!(api.post(events, &event("old")).await.code, 201);
    tokio::time::sleep(std::time::Duration::from_secs(1800)).await;
    assert_eq!(api.post(events, &event("young")).await.code, 201);
    let there = async |name: &str| api.get(&format!("{events}/{name}")).await.code == 200;
    tokio::time::sleep(std::time::Duration::from_secs(1700)).await;
    assert!(there("old").await && there("young").await);
    tokio::time::sleep(std::time::Duration::from_secs(200)).await;
    assert!(!there("old").await && there("young").await);
    tokio::time::sleep(std::time::Duration::from_secs(1800)).await;
    assert!(!there("young").await);
}
