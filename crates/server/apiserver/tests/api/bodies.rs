//! Bodies in YAML, and bodies that are wrong. Words asked of kube-apiserver v1.37.1.

use crate::face::*;
use http::Method;
use serde_json::json;

const YAML: &str = "application/yaml";

#[tokio::test(start_paused = true)]
async fn objects_may_come_in_yaml() {
    let api = Api::with_files().await;
    let made =
        api.send(Method::POST, MAPS, YAML, "metadata:\n  name: m\ndata:\n  a: \"yes\"\n  b: |\n    hi\n".into()).await;
    assert_eq!((made.code, &made.body["data"]), (201, &json!({"a": "yes", "b": "hi\n"})), "{}", made.body);
    let put = api.send(Method::PUT, &format!("{MAPS}/m"), YAML, "metadata: {name: m}\ndata: {a: x}\n".into()).await;
    assert_eq!((put.code, &put.body["data"]), (200, &json!({"a": "x"})));
    let twice = "metadata:\n  name: z\nbogus: 1\ndata:\n  a: \"1\"\n  a: \"2\"\n";
    let warned = api.send(Method::POST, MAPS, YAML, twice.into()).await;
    assert_eq!(
        warned.warnings,
        ["299 - \"line 6: key \\\"a\\\" already set in map\"", "299 - \"unknown field \\\"bogus\\\"\""]
    );
    let strict = api.send(Method::POST, &format!("{MAPS}?fieldValidation=Strict"), YAML, twice.into()).await;
    assert_eq!(
        message(&strict),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  line 6: key \"a\" already set in map, unknown field \"bogus\""
    );
    let truth = api.send(Method::POST, MAPS, YAML, "metadata: {name: t}\ndata: {a: yes}\n".into()).await;
    assert_eq!(
        message(&truth),
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal bool into Go struct field ConfigMap.data of type string"
    );
    let deleted = api.send(Method::DELETE, &format!("{MAPS}/m"), YAML, "propagationPolicy: Foreground".into()).await;
    assert_eq!(deleted.body["metadata"]["finalizers"], json!(["foregroundDeletion"]), "{}", deleted.body);
}

#[tokio::test(start_paused = true)]
async fn wrong_bodies_are_refused_in_the_real_servers_words() {
    let api = Api::with_files().await;
    api.post(MAPS, &map("a", "1")).await;
    let unrecognized = |why: &str| format!("the object provided is unrecognized (must be of type ConfigMap): {why}");
    for (media, body, words) in [
        (
            YAML,
            "data: {~: x}",
            unrecognized(
                "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"x\" (646174613a207b7e3a20787d)",
            ),
        ),
        (
            "application/json",
            " ",
            unrecognized("couldn't get version/kind; json parse error: unexpected end of JSON input (20)"),
        ),
        (
            "application/json",
            "[]",
            unrecognized(
                "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (5b5d)",
            ),
        ),
    ] {
        let answer = api.send(Method::POST, MAPS, media, body.into()).await;
        assert_eq!((answer.code, message(&answer)), (400, words.as_str()), "{body:?}");
    }
    // An empty document in YAML is an empty object.
    assert_eq!(api.send(Method::POST, MAPS, YAML, "".into()).await.code, 422);
    let at = format!("{MAPS}/a");
    let operations = vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001];
    for (media, body, code, reason, words) in [
        (
            "application/json-patch+json",
            json!(operations).to_string(),
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
        (
            "application/json-patch+json",
            "{}".into(),
            400,
            "BadRequest",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        ("application/json-patch+json", "[1".into(), 400, "BadRequest", "invalid JSON patch"),
        (
            "application/merge-patch+json",
            "[1]".into(),
            400,
            "BadRequest",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            "application/merge-patch+json",
            "{\"metadata\":null}".into(),
            400,
            "BadRequest",
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        ("application/merge-patch+yaml", "a: b".into(), 415, "UnsupportedMediaType", "415: Unsupported Media Type"),
    ] {
        let answer = api.send(Method::PATCH, &at, media, body).await;
        assert_eq!((answer.code, answer.body["reason"].as_str(), message(&answer)), (code, Some(reason), words));
    }
    let mut other = map("a", "2");
    other["metadata"]["uid"] = "zz".into();
    other["metadata"]["resourceVersion"] = "1".into();
    let uid = api.get(&at).await.body["metadata"]["uid"].as_str().unwrap().to_owned();
    let refused = api.put(&at, &other).await;
    assert_eq!(
        message(&refused),
        format!(
            "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: zz, UID in object meta: {uid}"
        ),
        "the uid counts before the version"
    );
}

#[tokio::test(start_paused = true)]
async fn options_of_writes_are_checked() {
    let api = Api::new().await;
    let manager = format!("{MAPS}?fieldManager={}", "x".repeat(129));
    for (path, words) in [
        (
            manager.as_str(),
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            "/api/v1/namespaces/default/configmaps?dryRun=All&dryRun=Foo",
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"All\",\"Foo\"]: supported values: \"All\"",
        ),
    ] {
        let answer = api.post(path, &map("a", "1")).await;
        assert_eq!((answer.code, message(&answer)), (422, words));
    }
    assert_eq!(api.post(&format!("{MAPS}?dryRun=All&dryRun=All"), &map("a", "1")).await.code, 201);
    assert_eq!(api.get(MAPS).await.body["items"], json!([]));
}
