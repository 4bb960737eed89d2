//! The scale subresource of custom resources.

use crate::face::*;
use http::Method;
use serde_json::{Value, json};

async fn scalable() -> Api {
    let api = Api::new().await;
    let mut definition = definition(json!({}));
    let version = &mut definition["spec"]["versions"][0];
    version["subresources"]["scale"] = json!({
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    });
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"] = json!({"type": "integer"});
    let made = api.post(CRDS, &definition).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(api.post(FILES, &file("a")).await.code, 201);
    api
}

fn scale(replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "default"}, "spec": {"replicas": replicas}})
}

#[tokio::test(start_paused = true)]
async fn replicas_are_read_and_written_through_the_paths() {
    let api = scalable().await;
    let (at, object) = (format!("{FILES}/a/scale"), format!("{FILES}/a"));
    let none = api.get(&at).await;
    assert_eq!(
        (none.code, message(&none)),
        (500, "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist")
    );
    let put = api.put(&at, &scale(4)).await;
    assert_eq!(
        (put.code, &put.body["spec"], &put.body["status"]),
        (200, &json!({"replicas": 4}), &json!({"replicas": 0}))
    );
    assert_eq!(put.body["kind"], "Scale");
    api.merge(&format!("{object}/status"), json!({"status": {"replicas": 2, "selector": "a=b"}})).await;
    let patched = api.merge(&at, json!({"spec": {"replicas": 5}})).await;
    assert_eq!(patched.body["status"], json!({"replicas": 2, "selector": "a=b"}));
    let stored = api.get(&object).await.body;
    assert_eq!((&stored["spec"]["replicas"], &stored["metadata"]["generation"]), (&json!(5), &json!(3)));
    assert_eq!(api.get(&at).await.body["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"]);
    let json = json!([{"op": "replace", "path": "/spec/replicas", "value": 8}]).to_string();
    let json = api.send(Method::PATCH, &at, "application/json-patch+json", json).await;
    assert_eq!(json.body["spec"]["replicas"], 8, "{}", json.body);
    let dry = api.put(&format!("{at}?dryRun=All"), &scale(44)).await;
    assert_eq!((&dry.body["spec"]["replicas"], &api.get(&at).await.body["spec"]["replicas"]), (&json!(44), &json!(8)));
    assert_eq!(api.merge(&at, json!({"spec": {"replicas": null}})).await.body["spec"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_first_number_brings_the_defaults_beside_it() {
    let api = Api::new().await;
    let mut definition = definition(json!({}));
    let version = &mut definition["spec"]["versions"][0];
    version["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
        "type": "object",
        "properties": {"replicas": {"type": "integer"}, "a": {"type": "object", "default": {}}},
    });
    assert_eq!(api.post(CRDS, &definition).await.code, 201);
    let mut bare = file("a");
    bare.as_object_mut().unwrap().remove("spec");
    let made = api.post(FILES, &bare).await;
    assert_eq!((made.code, made.body.get("spec")), (201, None), "{}", made.body);
    assert_eq!(api.merge(&format!("{FILES}/a/scale"), json!({"spec": {"replicas": 1}})).await.code, 200);
    assert_eq!(api.get(&format!("{FILES}/a")).await.body["spec"], json!({"a": {}, "replicas": 1}));
}

#[tokio::test(start_paused = true)]
async fn wrong_scales_are_refused_in_the_real_servers_words() {
    let api = scalable().await;
    let at = format!("{FILES}/a/scale");
    let mut other = scale(1);
    other["metadata"]["name"] = "b".into();
    let mut stale = scale(1);
    stale["metadata"]["resourceVersion"] = "1".into();
    for (answer, code, words) in [
        (
            api.merge(&at, json!({"spec": {"replicas": -1}})).await,
            422,
            "File.probe.test \"a\" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer",
        ),
        (api.put(&at, &other).await, 400, "the name of the object (b) does not match the name on the URL (a)"),
        (
            api.put(&at, &stale).await,
            409,
            "Operation cannot be fulfilled on files.probe.test \"a\": the object has been modified; please apply your changes to the latest version and try again",
        ),
        (
            api.put(&at, &file("a")).await,
            400,
            "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (api.get(&format!("{FILES}/nope/scale")).await, 404, "files.probe.test \"nope\" not found"),
        (api.delete(&at, "").await, 405, "delete is not supported on resources of kind \"files.probe.test\""),
    ] {
        assert_eq!((answer.code, message(&answer)), (code, words));
    }
    let wrong = api.merge(&at, json!({"spec": {"replicas": "x"}})).await;
    assert_eq!(wrong.code, 422);
    let (begin, end) =
        (" \"\" is invalid: patch: Invalid value: ", "into Go struct field ScaleSpec.spec.replicas of type int32");
    assert!(message(&wrong).starts_with(begin) && message(&wrong).ends_with(end), "{}", wrong.body);
    let mut bogus = scale(1);
    bogus["spec"]["bogus"] = 1.into();
    assert_eq!(api.put(&at, &bogus).await.warnings, ["299 - \"unknown field \\\"spec.bogus\\\"\""]);
}

#[tokio::test(start_paused = true)]
async fn scale_is_discovered() {
    let api = scalable().await;
    let resources = api.get("/apis/probe.test/v1").await.body;
    assert_eq!(
        resources["resources"][2],
        json!({
            "name": "files/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
            "kind": "Scale", "verbs": ["get", "patch", "update"],
        })
    );
    let document = api.get("/openapi/v3/apis/probe.test/v1").await.body;
    let path = "/apis/probe.test/v1/namespaces/{namespace}/files/{name}/scale";
    assert!(document["paths"][path]["patch"].is_object());
    assert!(document["components"]["schemas"]["io.k8s.api.autoscaling.v1.Scale"].is_object());
}
