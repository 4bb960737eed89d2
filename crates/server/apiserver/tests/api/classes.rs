//! Classes that are looked up (asked of kube-apiserver v1.37.1).

use serde_json::{Value, json};

use crate::face::*;

const DEFAULT: &str = "/api/v1/namespaces/default";

fn claim(name: &str) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    json!({"metadata": {"name": name}, "spec": spec})
}

fn pod(name: &str, class: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "priorityClassName": class, "containers": [{"name": "c", "image": "i:1"}],
    }})
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_class_that_is_marked() {
    let api = Api::with_files().await;
    let claims = format!("{DEFAULT}/persistentvolumeclaims");
    assert_eq!(api.post(&claims, &claim("before")).await.body["spec"].get("storageClassName"), None);
    let mark = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    for (name, annotations) in [("plain", json!({})), ("marked", mark)] {
        let class = json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": "p"});
        assert_eq!(api.post("/apis/storage.k8s.io/v1/storageclasses", &class).await.code, 201);
    }
    assert_eq!(api.post(&claims, &claim("after")).await.body["spec"]["storageClassName"], "marked");
    let mut other = claim("other");
    other["spec"]["storageClassName"] = "".into();
    assert_eq!(api.post(&claims, &other).await.body["spec"]["storageClassName"], "");
}

#[tokio::test(start_paused = true)]
async fn an_ingress_gets_the_class_that_is_marked() {
    let api = Api::with_files().await;
    let mark = json!({"ingressclass.kubernetes.io/is-default-class": "true"});
    let class = json!({"metadata": {"name": "marked", "annotations": mark}, "spec": {"controller": "a.b/c"}});
    assert_eq!(api.post("/apis/networking.k8s.io/v1/ingressclasses", &class).await.code, 201);
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}});
    let made = api.post("/apis/networking.k8s.io/v1/namespaces/default/ingresses", &ingress).await;
    assert_eq!(made.body["spec"]["ingressClassName"], "marked", "{}", message(&made));
}

#[tokio::test(start_paused = true)]
async fn a_pod_counts_what_its_class_says() {
    let api = Api::with_files().await;
    let pods = format!("{DEFAULT}/pods");
    let made = api.post(&pods, &pod("a", "system-node-critical")).await;
    assert_eq!(made.body["spec"]["priority"], 2_000_001_000, "{}", message(&made));
    let refused = api.post(&pods, &pod("b", "none")).await;
    let words = "pods \"b\" is forbidden: no PriorityClass with name none was found";
    assert_eq!((refused.code, message(&refused)), (403, words));
    let class = json!({"metadata": {"name": "usual"}, "value": 7, "globalDefault": true, "preemptionPolicy": "Never"});
    assert_eq!(api.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.code, 201);
    let spec = api.post(&pods, &pod("c", "")).await.body["spec"].clone();
    let found = ["priority", "priorityClassName", "preemptionPolicy"].map(|name| spec[name].clone());
    assert_eq!(found, [json!(7), json!("usual"), json!("Never")]);
}

#[tokio::test(start_paused = true)]
async fn only_one_class_of_priority_is_the_default() {
    const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let api = Api::with_files().await;
    let class = |name: &str, default: bool| json!({"metadata": {"name": name}, "value": 10, "globalDefault": default});
    assert_eq!(api.post(CLASSES, &class("a", true)).await.code, 201);
    let words = "priorityclasses.scheduling.k8s.io \"b\" is forbidden: PriorityClass a is already marked as default. Only one default can exist";
    let refused = api.post(CLASSES, &class("b", true)).await;
    assert_eq!((refused.code, message(&refused)), (403, words));
    assert_eq!(api.post(CLASSES, &class("b", false)).await.code, 201);
    let refused = api.merge(&format!("{CLASSES}/b"), json!({"globalDefault": true})).await;
    assert_eq!((refused.code, message(&refused)), (403, words));
    assert_eq!(api.merge(&format!("{CLASSES}/a"), json!({"description": "d"})).await.code, 200);
    let kept = api.delete(&format!("{CLASSES}/system-node-critical"), "").await;
    let words = "priorityclasses.scheduling.k8s.io \"system-node-critical\" is forbidden: this is a system priority class and cannot be deleted";
    assert_eq!((kept.code, message(&kept)), (403, words));
}
