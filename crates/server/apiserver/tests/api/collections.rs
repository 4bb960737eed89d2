//! Deleting many objects at once.

use crate::face::*;
use http::Method;
use serde_json::{Value, json};

async fn filled() -> Api {
    let api = Api::with_files().await;
    for (name, tier) in [("a", "web"), ("b", "db"), ("c", "web"), ("d", "web")] {
        let mut object = map(name, "1");
        object["metadata"]["labels"] = json!({"tier": tier});
        if name == "d" {
            object["metadata"]["finalizers"] = json!(["x.io/y"]);
        }
        api.post(MAPS, &object).await;
    }
    api
}

fn names(list: &Value) -> String {
    let names = list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap());
    names.collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_selection_is_deleted_and_shown_as_it_was() {
    let api = filled().await;
    let dry = api.delete(&format!("{MAPS}?labelSelector=tier%3Dweb&dryRun=All"), "").await;
    assert_eq!((names(&dry.body).as_str(), names(&api.get(MAPS).await.body).as_str()), ("a c d", "a b c d"));
    let some = api.delete(&format!("{MAPS}?labelSelector=tier%3Dweb&limit=1"), "").await;
    assert_eq!((&some.body["kind"], names(&some.body).as_str()), (&json!("ConfigMapList"), "a"));
    assert!(some.body["metadata"]["continue"].is_string());
    let rest = api.delete(&format!("{MAPS}?labelSelector=tier%3Dweb"), "{\"propagationPolicy\":\"Background\"}").await;
    assert_eq!((rest.code, names(&rest.body).as_str()), (200, "c d"));
    assert_eq!(rest.body["items"][1]["metadata"].get("deletionTimestamp"), None, "as it was found");
    assert_eq!(names(&api.get(MAPS).await.body), "b d");
    assert!(api.get(&format!("{MAPS}/d")).await.body["metadata"]["deletionTimestamp"].is_string());
    let all = api.delete(MAPS, "").await;
    assert_eq!(names(&all.body), "b d");
    assert_eq!(names(&api.get(MAPS).await.body), "d");
}

#[tokio::test(start_paused = true)]
async fn collections_that_cannot_be_deleted_say_so() {
    let api = filled().await;
    for (path, code) in [
        ("/api/v1/namespaces", 405),
        ("/api/v1/configmaps", 405),
        ("/apis/probe.test/v1/files", 404),
        ("/api/v1/namespaces/default/configmaps?labelSelector=a%20b", 400),
        ("/api/v1/namespaces/default/configmaps?fieldSelector=spec.x%3D1", 400),
    ] {
        assert_eq!(api.delete(path, "").await.code, code, "{path}");
    }
    let other = json!({"preconditions": {"uid": "other"}}).to_string();
    assert_eq!(api.delete(MAPS, &other).await.code, 409);
    assert_eq!(names(&api.get(MAPS).await.body), "a b c d");
}

#[tokio::test(start_paused = true)]
async fn methods_that_are_not_there_are_refused_in_the_real_servers_words() {
    let api = filled().await;
    api.post(FILES, &file("a")).await;
    let at = format!("{FILES}/a");
    for (method, path, code, words) in [
        (
            Method::POST,
            format!("{at}/status"),
            405,
            "create is not supported on resources of kind \"files.probe.test\"",
        ),
        (
            Method::DELETE,
            format!("{at}/status"),
            405,
            "delete is not supported on resources of kind \"files.probe.test\"",
        ),
        (Method::GET, format!("{at}/bogus"), 404, "files.probe.test \"a\" not found"),
        (Method::GET, format!("{MAPS}/a/status"), 404, "the server could not find the requested resource"),
        (Method::PUT, FILES.to_owned(), 400, "name must be provided"),
        (Method::PATCH, FILES.to_owned(), 400, "name must be provided"),
        (Method::PUT, MAPS.to_owned(), 405, "the server does not allow this method on the requested resource"),
        (
            Method::POST,
            "/api/v1/configmaps".to_owned(),
            405,
            "the server does not allow this method on the requested resource",
        ),
        (Method::HEAD, MAPS.to_owned(), 405, "the server does not allow this method on the requested resource"),
    ] {
        let answer = api.send(method.clone(), &path, "application/json", "{}".into()).await;
        assert_eq!((answer.code, message(&answer)), (code, words), "{method} {path}");
    }
    assert_eq!(api.send(Method::HEAD, &at, "", String::new()).await.code, 200);
}
