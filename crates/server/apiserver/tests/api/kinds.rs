//! Built-in kinds: stored, defaulted, and with what can be done to them.

use std::collections::BTreeSet;

use crate::face::*;
use http::Method;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}})
}

fn deployment(name: &str) -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "img"}]}});
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
}

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
}

#[tokio::test(start_paused = true)]
async fn workloads_get_defaults_generations_and_scales() {
    let api = Api::new().await;
    let made = api.post(DEPLOYMENTS, &deployment("d")).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(made.body["spec"]["replicas"], 1);
    assert_eq!(made.body["spec"]["strategy"]["rollingUpdate"], json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
    assert_eq!(made.body["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!((&made.body["metadata"]["generation"], &made.body["status"]), (&json!(1), &json!({})));
    let scaled = api.merge(&format!("{DEPLOYMENTS}/d/scale"), json!({"spec": {"replicas": 3}})).await;
    assert_eq!((scaled.code, &scaled.body["status"]["selector"]), (200, &json!("a=b")), "{}", scaled.body);
    let status = api.merge(&format!("{DEPLOYMENTS}/d/status"), json!({"status": {"replicas": 3}})).await;
    assert_eq!((&status.body["metadata"]["generation"], &status.body["spec"]["replicas"]), (&json!(2), &json!(3)));
    let refused = api.post(DEPLOYMENTS, &json!({"metadata": {"name": "e"}})).await;
    assert_eq!(refused.code, 422);
    assert!(message(&refused).contains("spec.selector: Required value"), "{}", message(&refused));
}

#[tokio::test(start_paused = true)]
async fn services_that_come_at_once_get_addresses_of_their_own() {
    let api = Api::new().await;
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let made = futures::future::join_all(names.iter().map(async |name| api.post(SERVICES, &service(name)).await)).await;
    let found = |path: &str| -> BTreeSet<String> {
        made.iter().filter_map(|one| one.body.pointer(path)).map(ToString::to_string).collect()
    };
    assert_eq!(found("/spec/clusterIP").len(), 20);
    assert_eq!(found("/spec/ports/0/nodePort").len(), 20);
    let mut taken = service("taken");
    taken["spec"]["clusterIP"] = made[0].body["spec"]["clusterIP"].clone();
    let refused = api.post(SERVICES, &taken).await;
    assert_eq!(refused.code, 422);
    assert!(message(&refused).contains("provided IP is already allocated"), "{}", message(&refused));
    let own = api.get(&format!("{SERVICES}/kubernetes")).await;
    assert_eq!((own.code, &own.body["spec"]["clusterIP"]), (200, &json!("10.0.0.1")));
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_evicted_and_end_in_time() {
    let api = Api::new().await;
    for name in ["a", "b"] {
        assert_eq!(api.post(PODS, &pod(name)).await.code, 201);
    }
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(api.post(&format!("{PODS}/a/binding"), &binding).await.code, 201);
    assert_eq!(api.post(&format!("{PODS}/a/binding"), &binding).await.code, 409);
    // A pod on a node has time to end, one on none has not.
    let marked = api.delete(&format!("{PODS}/a"), "").await;
    assert_eq!(marked.body["metadata"]["deletionGracePeriodSeconds"], 30, "{}", marked.body);
    assert_eq!(api.get(&format!("{PODS}/a")).await.code, 200);
    api.delete(&format!("{PODS}/a?gracePeriodSeconds=0"), "").await;
    assert_eq!(api.get(&format!("{PODS}/a")).await.code, 404);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}});
    assert_eq!(api.post(&format!("{PODS}/b/eviction"), &eviction).await.code, 201);
    assert_eq!(api.get(&format!("{PODS}/b")).await.code, 404);
    assert_eq!(api.get(&format!("{PODS}/b/log")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn one_of_many_bindings_of_a_pod_wins() {
    let api = Api::new().await;
    assert_eq!(api.post(PODS, &pod("a")).await.code, 201);
    let nodes: Vec<String> = (0..16).map(|number| format!("n{number}")).collect();
    let bindings = nodes.iter().map(async |node| {
        let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}});
        api.post(&format!("{PODS}/a/binding"), &binding).await.code
    });
    let codes = futures::future::join_all(bindings).await;
    let winners: Vec<&String> =
        nodes.iter().zip(&codes).filter(|(_, code)| **code == 201).map(|(node, _)| node).collect();
    let bound = api.get(&format!("{PODS}/a")).await;
    assert_eq!(winners, [bound.body["spec"]["nodeName"].as_str().unwrap()], "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, 201 | 409)), "{codes:?}");
}

/// Whatever stands in an annotation: the object can be read, changed and deleted in both versions.
#[tokio::test(start_paused = true)]
async fn annotations_of_an_autoscaler_that_are_no_metrics_are_forgotten() {
    let api = Api::new().await;
    let path = |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let deep = format!("{}{}", "[".repeat(126), "]".repeat(126));
    for note in [deep.as_str(), "[1]", "[{\"type\":5}]", "[{\"resource\":[]}]", "{", ""] {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let annotations = json!({"autoscaling.alpha.kubernetes.io/metrics": note, "kept": "yes"});
        let spec = json!({"maxReplicas": 3, "scaleTargetRef": target});
        let made =
            api.post(&path("v1"), &json!({"metadata": {"name": "h", "annotations": annotations}, "spec": spec})).await;
        assert_eq!(made.code, 201, "{}", made.body);
        assert_eq!(made.body["metadata"]["annotations"], json!({"kept": "yes"}));
        assert_eq!(made.body["spec"]["targetCPUUtilizationPercentage"], 80);
        let changed = api.merge(&format!("{}/h", path("v2")), json!({"spec": {"minReplicas": 2}})).await;
        assert_eq!(changed.code, 200, "{}", changed.body);
        assert_eq!(api.delete(&format!("{}/h", path("v1")), "").await.code, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn both_versions_of_an_autoscaler_are_one_object() {
    let api = Api::new().await;
    let path = |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let spec = json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50, "scaleTargetRef": target});
    let made = api.post(&path("v1"), &json!({"metadata": {"name": "h"}, "spec": spec})).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let two = api.get(&format!("{}/h", path("v2"))).await;
    assert_eq!(two.body["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50, "{}", two.body);
    let changed = api.merge(&format!("{}/h", path("v2")), json!({"spec": {"maxReplicas": 7}})).await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let one = api.get(&format!("{}/h", path("v1"))).await;
    assert_eq!(one.body["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(one.body["spec"]["maxReplicas"], 7);
}

#[tokio::test(start_paused = true)]
async fn claims_that_no_pod_names_can_be_deleted() {
    let api = Api::new().await;
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}});
    let made = api.post(CLAIMS, &json!({"metadata": {"name": "c"}, "spec": spec})).await;
    assert_eq!(made.body["spec"]["resources"]["requests"]["storage"], "1Gi", "{}", made.body);
    let mut user = pod("p");
    user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    assert_eq!(api.post(PODS, &user).await.code, 201);
    api.delete(&format!("{CLAIMS}/c"), "").await;
    assert_eq!(api.get(&format!("{CLAIMS}/c")).await.code, 200);
    api.delete(&format!("{PODS}/p"), "").await;
    api.delete(&format!("{CLAIMS}/c"), "").await;
    assert_eq!(api.get(&format!("{CLAIMS}/c")).await.code, 404);
}

/// A small body whose defaults would fill the memory.
#[tokio::test(start_paused = true)]
async fn defaults_have_their_limit() {
    let api = Api::new().await;
    let containers: Vec<Value> = (0..200_000).map(|_| json!({})).collect();
    let refused = api.post(PODS, &json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})).await;
    assert_eq!(refused.code, 413, "{}", refused.body);
}

#[tokio::test(start_paused = true)]
async fn documents_are_there_for_every_group() {
    let api = Api::new().await;
    let index = api.get("/openapi/v3").await;
    let paths = index.body["paths"].as_object().unwrap().clone();
    assert!(paths.len() > 20, "{}", index.body);
    for name in paths.keys() {
        let document = api.get(&format!("/openapi/v3/{name}")).await;
        assert_eq!(document.code, 200, "{name}");
        let schemas = document.body["components"]["schemas"].as_object().unwrap();
        let text = document.body.to_string();
        for reference in text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(schemas.contains_key(reference), "{name} refers to {reference}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_takes_the_name_away_is_warned_of_and_refused() {
    let api = Api::new().await;
    let nodes = "/api/v1/nodes";
    assert_eq!(api.post(nodes, &json!({"metadata": {"name": "n"}})).await.code, 201);
    let patch = json!({"$retainKeys": ["spec"], "spec": {"taints": [{"$retainKeys": []}]}}).to_string();
    let at = format!("{nodes}/n?fieldValidation=Warn");
    let refused = api.send(Method::PATCH, &at, "application/strategic-merge-patch+json", patch).await;
    assert_eq!(refused.code, 400, "{}", refused.body);
    assert_eq!(refused.warnings.len(), 1, "{:?}", refused.warnings);
    assert!(refused.warnings[0].contains("spec.taints[0].$retainKeys"), "{:?}", refused.warnings);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_came_through_its_status_stays_without_an_address() {
    let api = Api::new().await;
    let config = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]},
    });
    let at = format!("{SERVICES}/s/status?fieldManager=m");
    let made = api.send(Method::PATCH, &at, "application/apply-patch+yaml", config.to_string()).await;
    assert_eq!((made.code, &made.body["spec"]["clusterIP"]), (201, &Value::Null), "{}", made.body);
    let changed = api.merge(&format!("{SERVICES}/s"), json!({"spec": {"ports": [{"port": 2}]}})).await;
    assert_eq!((changed.code, &changed.body["spec"]["clusterIP"]), (200, &Value::Null), "{}", changed.body);
    assert_eq!(changed.body["spec"]["ipFamilies"], json!(["IPv4"]));
}
