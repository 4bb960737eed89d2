//! Habits of the real server that clients see and no schema says (asked of kube-apiserver v1.37.1).

use serde_json::json;

use crate::face::*;

#[tokio::test(start_paused = true)]
async fn a_refused_write_warns_all_the_same() {
    let api = Api::with_files().await;
    let mut wrong = file("a");
    wrong["spec"] = json!({"bogus": 1});
    wrong["metadata"]["finalizers"] = json!(["bare"]);
    let refused = api.post(FILES, &wrong).await;
    assert_eq!((refused.code, refused.warnings), (422, vec!["299 - \"unknown field \\\"spec.bogus\\\"\"".to_owned()]));
    let mut odd = definition(json!({}));
    odd["metadata"]["name"] = "odds.probe.test".into();
    odd["spec"]["names"] = json!({"plural": "odds", "kind": "Odd"});
    odd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": {
        "type": "string", "format": "made-up", "example": "", "description": "", "x-kubernetes-validations": [{"rule": "true", "message": ""}],
    }}});
    let made = api.post(CRDS, &odd).await;
    assert_eq!(made.warnings, ["299 - \"unrecognized format \\\"made-up\\\"\""]);
    assert_eq!(
        made.body.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec"),
        Some(
            &json!({"type": "string", "format": "made-up", "example": "", "x-kubernetes-validations": [{"rule": "true"}]})
        ),
        "what is empty goes"
    );
    let at = format!("{CRDS}/odds.probe.test");
    let status = api.merge(&format!("{at}/status"), json!({"metadata": {"labels": {"a": "b"}}, "spec": {}})).await;
    assert_eq!((&status.body["metadata"]["labels"], status.warnings.len()), (&json!({"a": "b"}), 0));
    assert_eq!(api.merge(&at, json!({"metadata": {"labels": null}})).await.warnings.len(), 0, "it was so before");
}

#[tokio::test(start_paused = true)]
async fn owners_of_others_are_marked_before_they_go() {
    let api = Api::with_files().await;
    let at = format!("{CRDS}/files.probe.test");
    let other = json!({"preconditions": {"uid": "other"}}).to_string();
    assert!(message(&api.delete(&at, &other).await).contains(": precondition failed: UID in precondition: other, UID"));
    assert_eq!(api.delete(&at, "").await.body["kind"], "CustomResourceDefinition");
    assert_eq!(api.get(&at).await.code, 404, "it had no objects");
    let space = "/api/v1/namespaces/t";
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "t", "namespace": "ignored"}})).await;
    api.put(&format!("{space}/finalize"), &json!({"metadata": {"name": "t"}})).await;
    assert_eq!(api.delete(space, "").await.body["status"]["phase"], "Terminating");
    assert_eq!(api.get(space).await.code, 404, "nothing held it");
    let robot = "/api/v1/namespaces/default/serviceaccounts";
    api.post(robot, &json!({"metadata": {"name": "robot"}})).await;
    assert_eq!(api.delete(&format!("{robot}/robot"), "").await.body["metadata"]["name"], "robot");
}

#[tokio::test(start_paused = true)]
async fn patches_are_refused_in_the_real_servers_words() {
    let api = Api::with_files().await;
    let mut held = file("a");
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    api.post(FILES, &held).await;
    let at = format!("{FILES}/a");
    for (path, patch, code, words, causes) in [
        (format!("{at}?force=false"), json!({}), 422, "force: Forbidden: may not be specified for non-apply patch", 1),
        (at.clone(), json!(null), 400, "Invalid JSON Patch", 0),
        (at.clone(), json!({"metadata": {"resourceVersion": null}}), 422, "Invalid value: 0: must be specified", 1),
        (
            at.clone(),
            json!({"metadata": {"uid": "x"}}),
            422,
            "metadata.uid: Invalid value: \"x\": field is immutable",
            2,
        ),
        (
            at.clone(),
            json!({"metadata": {"labels": {"a b": "c"}}}),
            422,
            "metadata.labels: Invalid value: \"a b\": ",
            3,
        ),
        (
            at.clone(),
            json!({"metadata": {"deletionGracePeriodSeconds": 5}}),
            422,
            "Invalid value: 5: field is immutable",
            2,
        ),
        (at.clone(), json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}), 422, "field is immutable", 2),
    ] {
        let refused = api.merge(&path, patch.clone()).await;
        let found = refused.body["details"]["causes"].as_array().map_or(0, Vec::len);
        assert_eq!((refused.code, found), (code, causes), "{patch}: {}", refused.body);
        assert!(message(&refused).contains(words) && !message(&refused).contains(": ["), "{patch}: {}", refused.body);
    }
    api.delete(&at, "").await;
    assert!(message(&api.post(FILES, &file("a")).await).starts_with("object is being deleted: files.probe.test"));
}

#[tokio::test(start_paused = true)]
async fn the_old_paths_of_watches_still_lead_there() {
    let api = Api::with_files().await;
    let start = api.get(MAPS).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for (path, object) in [(MAPS, map("a", "x")), (MAPS, map("b", "x")), (FILES, file("a")), (FILES, file("b"))] {
        assert_eq!(api.post(path, &object).await.code, 201);
    }
    for (path, expected) in [
        ("/api/v1/watch/namespaces/default/configmaps", 2),
        ("/api/v1/watch/namespaces/default/configmaps/a", 1),
        ("/apis/probe.test/v1/watch/files", 2),
        ("/apis/probe.test/v1/watch/namespaces/default/files/b", 1),
    ] {
        let events = api.watch(&format!("{path}?resourceVersion={start}&")).await;
        let added = events.iter().filter(|event| event["type"] == "ADDED").count();
        assert_eq!((added, events.len()), (expected, expected), "{path}: {events:?}");
    }
    assert_eq!(api.post("/api/v1/watch/namespaces/default/configmaps", &json!({})).await.code, 405);
}
