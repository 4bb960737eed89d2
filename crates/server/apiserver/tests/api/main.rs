//! What the server answers, through its public face, in process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use bytes::Bytes;
use concert_apiserver::Server;
use concert_world::World;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

mod admission;
mod apply;
mod bodies;
mod classes;
mod collections;
mod face;
mod garbage;
mod habits;
mod kinds;
mod lists;
mod many;
mod namespaces;
mod openapi;
mod protobuf;
mod scale;

use face::*;

/// Requests that the real server refuses, with its code, reason and words (asked of kube-apiserver v1.37.1).
#[tokio::test(start_paused = true)]
async fn refusals_use_the_real_servers_words() {
    let api = Api::with_files().await;
    assert_eq!(api.post(FILES, &file("a")).await.code, 201);
    let without_path = json!({"apiVersion": "probe.test/v1", "kind": "File", "metadata": {"name": "b"}, "spec": {}});
    let mut bogus = file("b");
    bogus["spec"]["bogus"] = 1.into();
    let cases = [
        (api.post(FILES, &file("a")).await, 409, "AlreadyExists", "files.probe.test \"a\" already exists"),
        (
            api.post("/apis/probe.test/v1/namespaces/nope/files", &file("a")).await,
            404,
            "NotFound",
            "namespaces \"nope\" not found",
        ),
        (
            api.post(FILES, &without_path).await,
            422,
            "Invalid",
            "File.probe.test \"b\" is invalid: spec.path: Required value",
        ),
        (
            api.post(&format!("{FILES}?fieldValidation=Strict"), &bogus).await,
            400,
            "BadRequest",
            "File in version \"v1\" cannot be handled as a File: strict decoding error: unknown field \"spec.bogus\"",
        ),
        (
            api.post(FILES, &json!({"apiVersion": "probe.test/v1", "kind": "Fil", "metadata": {"name": "b"}})).await,
            422,
            "Invalid",
            "Fil.probe.test \"b\" is invalid: kind: Invalid value: \"Fil\": must be File",
        ),
        (
            api.post(FILES, &json!({"apiVersion": "probe.test/v2", "kind": "File"})).await,
            400,
            "BadRequest",
            "the API version in the data (probe.test/v2) does not match the expected API version (probe.test/v1)",
        ),
        (
            api.post(MAPS, &json!({"metadata": {"name": "c", "namespace": "other"}})).await,
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            api.post(MAPS, &json!({"metadata": {}})).await,
            422,
            "Invalid",
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (
            api.put(&format!("{FILES}/a"), &file("a")).await,
            422,
            "Invalid",
            "files.probe.test \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        ),
        (
            api.put(&format!("{FILES}/zz"), &file("a")).await,
            400,
            "BadRequest",
            "the name of the object (a) does not match the name on the URL (zz)",
        ),
        (
            api.merge(&format!("{FILES}/a"), json!({"metadata": {"resourceVersion": "1"}})).await,
            409,
            "Conflict",
            "Operation cannot be fulfilled on files.probe.test \"a\": the object has been modified; please apply your changes to the latest version and try again",
        ),
        (
            api.get(&format!("{MAPS}?labelSelector=a%20b")).await,
            400,
            "BadRequest",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (
            api.get("/apis/probe.test/v1/files?fieldSelector=spec.x=1").await,
            400,
            "BadRequest",
            "field label not supported: spec.x",
        ),
        (
            api.get(&format!("{MAPS}?resourceVersion=abc")).await,
            400,
            "BadRequest",
            "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        (
            api.get("/apis/probe.test/v1/files?resourceVersion=99999999").await,
            504,
            "Timeout",
            "Timeout: Too large resource version: 99999999, current: 13",
        ),
        (
            api.send(Method::POST, MAPS, "text/plain", "{}".into()).await,
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        ),
    ];
    for (answer, code, reason, text) in cases {
        assert_eq!((answer.code, answer.body["reason"].as_str(), message(&answer)), (code, Some(reason), text));
        assert_eq!(answer.body["code"], code);
    }
    for path in ["/nope", "/apis/nope.test/v1/x", "/apis/probe.test/v1/nope", "/apis/probe.test/v9"] {
        assert_eq!(api.get(path).await.body, "404 page not found\n", "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_lives_and_dies() {
    let api = Api::with_files().await;
    let mut sent = file("a");
    sent["spec"]["bogus"] = 1.into();
    sent["status"] = json!({"x": 1});
    let created = api.post(FILES, &sent).await;
    assert_eq!(created.warnings, ["299 - \"unknown field \\\"spec.bogus\\\"\""]);
    assert_eq!(created.body["spec"], json!({"path": "x", "size": 3}), "pruned and defaulted");
    assert_eq!((created.body.get("status"), &created.body["metadata"]["generation"]), (None, &json!(1)));
    let at = format!("{FILES}/a");
    let same = api.merge(&at, json!({"spec": {"path": "x"}})).await;
    assert_eq!(same.body, created.body, "nothing changed: the same resourceVersion");
    let labelled = api.merge(&at, json!({"metadata": {"labels": {"l": "1"}}})).await;
    assert_eq!(labelled.body["metadata"]["generation"], 1, "labels do not count");
    let changed = api.merge(&at, json!({"spec": {"size": null}, "status": {"x": 2}})).await;
    assert_eq!((&changed.body["spec"]["size"], changed.body.get("status")), (&json!(3), None), "the default is back");
    let status = api.merge(&format!("{at}/status"), json!({"spec": {"path": "y"}, "status": {"x": 2}})).await;
    assert_eq!((&status.body["spec"]["path"], &status.body["status"]), (&json!("x"), &json!({"x": 2})));
    let grown = api.merge(&at, json!({"spec": {"size": 9}})).await;
    assert_eq!((&grown.body["metadata"]["generation"], &grown.body["status"]["x"]), (&json!(2), &json!(2)));

    api.merge(&at, json!({"metadata": {"finalizers": ["a.io/f"]}})).await;
    let marked = api.delete(&at, "").await;
    assert!(marked.body["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked.body["metadata"]["generation"], 3, "the mark counts");
    assert_eq!(api.delete(&at, "").await.body, marked.body, "a second delete changes nothing");
    let more = api.merge(&at, json!({"metadata": {"finalizers": ["a.io/f", "b.io/g"]}})).await;
    assert_eq!(more.code, 422, "{}", more.body);
    assert!(message(&more).contains("no new finalizers can be added if the object is being deleted"));
    let last = api.merge(&at, json!({"metadata": {"finalizers": []}})).await;
    assert_eq!((last.code, api.get(&at).await.code), (200, 404));
    let again = api.post(FILES, &file("a")).await;
    assert_ne!(again.body["metadata"]["uid"], created.body["metadata"]["uid"]);
    let gone = api.delete(&at, "").await;
    assert_eq!((&gone.body["status"], &gone.body["details"]["kind"]), (&json!("Success"), &json!("files")));
}

#[tokio::test(start_paused = true)]
async fn deletes_obey_preconditions() {
    let api = Api::new().await;
    let made = api.post(MAPS, &map("a", "1")).await.body;
    let at = format!("{MAPS}/a");
    for (precondition, code) in [
        (json!({"uid": "other"}), 409),
        (json!({"resourceVersion": "1"}), 409),
        (json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}), 200),
    ] {
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": precondition}).to_string();
        assert_eq!(api.delete(&at, &body).await.code, code, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_are_paged_at_one_revision() {
    let api = Api::new().await;
    for n in 0..10 {
        api.post(MAPS, &map(&format!("m{n}"), "1")).await;
    }
    let first = api.get(&format!("{MAPS}?limit=4")).await.body;
    assert_eq!(first["metadata"]["remainingItemCount"], 6);
    assert!(first["items"][0].get("kind").is_none(), "items of built-in kinds have none");
    api.delete(&format!("{MAPS}/m5"), "").await;
    api.post(MAPS, &map("m55", "1")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = api.get(&format!("{MAPS}?limit=100&continue={token}")).await.body;
    let names: Vec<&str> =
        rest["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["m4", "m5", "m6", "m7", "m8", "m9"], "as it was when the first page was read");
    assert_eq!(rest["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_eq!(api.get(&format!("{MAPS}?limit=1&continue=abc")).await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn selectors_select() {
    let api = Api::new().await;
    for (name, tier) in [("a", "web"), ("b", "db"), ("c", "web")] {
        let mut object = map(name, "1");
        object["metadata"]["labels"] = json!({"tier": tier});
        api.post(MAPS, &object).await;
    }
    let names = async |query: &str| {
        let list = api.get(&format!("{MAPS}?{query}")).await.body;
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("labelSelector=tier%3Dweb").await, "a c");
    assert_eq!(names("labelSelector=tier+notin+(web)").await, "b");
    assert_eq!(names("fieldSelector=metadata.name%3Db").await, "b");
    assert_eq!(names("fieldSelector=metadata.name!%3Db,metadata.namespace%3Ddefault").await, "a c");
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "File", "name": "f", "uid": "u", "namespace": "default"}, "reason": "R", "message": "m", "type": "Normal",
    });
    let made = api.post("/api/v1/namespaces/default/events", &event).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let found = api.get("/api/v1/events?fieldSelector=involvedObject.uid%3Du,involvedObject.kind%3DFile").await;
    assert_eq!(found.body["items"].as_array().map(Vec::len), Some(1), "{}", found.body);
    let other = api.get("/apis/events.k8s.io/v1/namespaces/default/events/e").await;
    assert_eq!((&other.body["regarding"]["name"], &other.body["note"]), (&json!("f"), &json!("m")), "{}", other.body);
}

#[tokio::test(start_paused = true)]
async fn watches_tell_every_event_once_and_resume() {
    let api = Api::new().await;
    let before = api.get(MAPS).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut object = map("a", "1");
    object["metadata"]["labels"] = json!({"tier": "web"});
    api.post(MAPS, &object).await;
    api.merge(&format!("{MAPS}/a"), json!({"metadata": {"labels": {"tier": "db"}}})).await;
    api.merge(&format!("{MAPS}/a"), json!({"metadata": {"labels": {"tier": "web"}}})).await;
    api.delete(&format!("{MAPS}/a"), "").await;
    let kinds = |events: &[Value]| {
        events.iter().map(|one| one["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let all = api.watch(&format!("{MAPS}?resourceVersion={before}&")).await;
    assert_eq!(kinds(&all), "ADDED MODIFIED MODIFIED DELETED");
    let selected = api.watch(&format!("{MAPS}?resourceVersion={before}&labelSelector=tier%3Dweb&")).await;
    assert_eq!(kinds(&selected), "ADDED DELETED ADDED DELETED", "what no longer fits is gone, for this watcher");
    let second = all[1]["object"]["metadata"]["resourceVersion"].as_str().unwrap();
    assert_eq!(kinds(&api.watch(&format!("{MAPS}?resourceVersion={second}&")).await), "MODIFIED DELETED");
    let revisions: Vec<u64> =
        all.iter().map(|one| one["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()).collect();
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
}

#[tokio::test(start_paused = true)]
async fn watches_begin_with_the_state_and_end_with_a_bookmark() {
    let api = Api::new().await;
    api.post(MAPS, &map("a", "1")).await;
    let plain = api.watch(&format!("{MAPS}?")).await;
    assert_eq!((plain.len(), &plain[0]["type"]), (1, &json!("ADDED")));
    let list = api
        .watch(&format!("{MAPS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&"))
        .await;
    assert_eq!(list[1]["type"], "BOOKMARK");
    assert_eq!(list[1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(list.len(), 2, "no other one before so short a deadline");
    let longer = api.get(&format!("{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=130")).await.body;
    let bookmarks = longer.as_str().unwrap().lines().filter(|line| line.contains("BOOKMARK")).count();
    assert_eq!(bookmarks, 4, "after the state, every minute, and once more before the deadline: {longer}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_too_old_gets_410() {
    let api = Api::new().await;
    for n in 0..400 {
        api.post(MAPS, &map(&format!("m{n}"), "1")).await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(400)).await;
    api.post(MAPS, &map("new", "1")).await;
    let events = api.watch(&format!("{MAPS}?resourceVersion=1&")).await;
    assert_eq!((&events[0]["type"], &events[0]["object"]["reason"]), (&json!("ERROR"), &json!("Expired")));
    assert_eq!(events.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn definitions_are_established_at_once_and_their_objects_go_with_them() {
    let api = Api::new().await;
    let made = api.post(CRDS, &definition(json!({}))).await.body;
    let conditions = made["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|one| one["status"] == "True"), "{made}");
    assert_eq!(made["status"]["acceptedNames"]["singular"], "file");
    api.post(FILES, &file("a")).await;
    let mut held = file("b");
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    api.post(FILES, &held).await;
    let at = format!("{CRDS}/files.probe.test");
    let deleted = api.delete(&at, "").await;
    assert!(deleted.body["metadata"]["deletionTimestamp"].is_string(), "it waits for its objects: {}", deleted.body);
    assert_eq!((api.get(&format!("{FILES}/a")).await.code, api.get(&format!("{FILES}/b")).await.code), (404, 200));
    assert_eq!(api.post(FILES, &file("c")).await.code, 403);
    api.merge(&format!("{FILES}/b"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!((api.get(&at).await.code, api.get(FILES).await.code), (404, 404));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_content_with_it() {
    let api = Api::new().await;
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "team"}})).await;
    let maps = "/api/v1/namespaces/team/configmaps";
    let mut held = map("held", "1");
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    api.post(maps, &held).await;
    api.post(maps, &map("free", "1")).await;
    let deleted = api.delete("/api/v1/namespaces/team", "").await;
    assert_eq!(deleted.body["status"]["phase"], "Terminating", "{}", deleted.body);
    let refused = api.post(maps, &map("late", "1")).await;
    assert_eq!((refused.code, &refused.body["details"]["causes"][0]["reason"]), (403, &json!("NamespaceTerminating")));
    api.merge(&format!("{maps}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(api.get("/api/v1/namespaces/team").await.code, 404);
}

/// However a namespace is filled while it goes, and whoever asks for its end and hangs up: it goes.
#[tokio::test]
async fn nothing_slips_into_a_namespace_that_goes() {
    for round in 0..10 {
        let api = Api::new().await;
        let name = format!("team{round}");
        api.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await;
        let maps = format!("/api/v1/namespaces/{name}/configmaps");
        for n in 0..50 {
            api.post(&maps, &map(&format!("m{n}"), "1")).await;
        }
        let writers = (0..8).map(|writer| {
            let (api, maps) = (Api(api.0.clone()), maps.clone());
            async move {
                for n in 0..20 {
                    api.post(&maps, &map(&format!("w{writer}-{n}"), "1")).await;
                    tokio::task::yield_now().await;
                }
            }
        });
        let path = format!("/api/v1/namespaces/{name}");
        let hang_up = tokio::time::timeout(std::time::Duration::from_micros(200), api.delete(&path, ""));
        let (_, _) = tokio::join!(hang_up, futures::future::join_all(writers));
        for _ in 0..1000 {
            if api.get(&path).await.code == 404 {
                break;
            }
            if api.get(&path).await.body["status"]["phase"] == "Active" {
                // It hung up before the mark was written; somebody asks again.
                api.delete(&path, "").await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        assert_eq!(api.get(&path).await.code, 404, "round {round}");
        assert_eq!(api.get("/api/v1/configmaps").await.body["items"], json!([]), "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_everything_needs_cannot_be_deleted() {
    let api = Api::new().await;
    let refused = api.delete("/api/v1/namespaces/default", "").await;
    assert_eq!(refused.code, 403);
    assert_eq!(message(&refused), "namespaces \"default\" is forbidden: this namespace may not be deleted");
}

#[tokio::test(start_paused = true)]
async fn options_that_are_none_are_refused() {
    let api = Api::new().await;
    api.post(MAPS, &map("a", "1")).await;
    let at = format!("{MAPS}/a");
    let body = map("b", "1");
    for (answer, code, words) in [
        (api.get(&format!("{MAPS}?limit=abc")).await, 400, "strconv.ParseInt: parsing \"abc\": invalid syntax"),
        (api.get(&format!("{MAPS}?timeoutSeconds=x")).await, 400, "strconv.ParseInt: parsing \"x\": invalid syntax"),
        (
            api.post(&format!("{MAPS}?fieldValidation=Bogus"), &body).await,
            422,
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Bogus\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        ),
        (
            api.post(&format!("{MAPS}?dryRun=Foo"), &body).await,
            422,
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Foo\"]: supported values: \"All\"",
        ),
        (
            api.delete(&format!("{at}?propagationPolicy=Bogus"), "").await,
            422,
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Bogus\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
        ),
        (
            api.get(&format!("{MAPS}?sendInitialEvents=true")).await,
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
    ] {
        assert_eq!((answer.code, message(&answer)), (code, words));
    }
    assert_eq!(api.get(&at).await.code, 200, "nothing was deleted");
}

#[tokio::test(start_paused = true)]
async fn several_versions_show_one_object() {
    let api = Api::new().await;
    let mut definition = definition(json!({}));
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        json!({"path": {"type": "string"}, "color": {"type": "string", "default": "red"}});
    definition["spec"]["versions"].as_array_mut().unwrap().push(second);
    assert_eq!(api.post(CRDS, &definition).await.code, 201);
    api.post(FILES, &file("a")).await;
    let seen = api.get("/apis/probe.test/v2/namespaces/default/files/a").await.body;
    // As on the real server: what this version does not know is hidden, and its defaults are for what is written in it.
    assert_eq!((&seen["apiVersion"], &seen["spec"]), (&json!("probe.test/v2"), &json!({"path": "x"})));
    let list = api.get("/apis/probe.test/v2/namespaces/default/files").await.body;
    assert_eq!(list["items"][0]["spec"], json!({"path": "x"}));
    assert_eq!(api.get(&format!("{FILES}/a")).await.body["spec"]["size"], 3);
    let mut other = file("b");
    other["apiVersion"] = "probe.test/v2".into();
    other["spec"]["color"] = "blue".into();
    api.post("/apis/probe.test/v2/namespaces/default/files", &other).await;
    let stored = api.get(&format!("{FILES}/b")).await.body;
    assert_eq!(stored["spec"], json!({"path": "x", "size": 3}), "the storage version's schema sees it too");
    let back = api.get("/apis/probe.test/v2/namespaces/default/files/b").await.body;
    assert_eq!(back["spec"], json!({"path": "x"}), "what the storage version does not know is lost");
    let again = api.put(&format!("{FILES}/b"), &stored).await.body;
    assert_eq!(again["metadata"]["generation"], 1, "what was read and written again is no change");
}

#[tokio::test(start_paused = true)]
async fn whole_numbers_stay_whole() {
    let api = Api::with_files().await;
    let text = file("a").to_string().replace("\"path\":\"x\"", "\"path\":\"x\",\"size\":4.0");
    let made = api.send(Method::POST, FILES, "application/json", text).await;
    assert_eq!((made.code, made.body["spec"]["size"].to_string().as_str()), (201, "4"));
}

#[tokio::test(start_paused = true)]
async fn a_changed_schema_shows_on_old_objects() {
    let api = Api::with_files().await;
    api.post(FILES, &file("a")).await;
    let spec = json!({"type": "object", "properties": {"path": {"type": "string"}, "mode": {"type": "string", "default": "rw"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let stored = api.get(&format!("{CRDS}/files.probe.test")).await.body;
    let mut changed = stored.clone();
    changed["spec"]["versions"][0]["schema"] = schema;
    let put = api.put(&format!("{CRDS}/files.probe.test"), &changed).await;
    assert_eq!((put.code, &put.body["metadata"]["generation"]), (200, &json!(2)), "{}", put.body);
    let seen = api.get(&format!("{FILES}/a")).await.body;
    assert_eq!(seen["spec"], json!({"path": "x", "mode": "rw"}));
}

#[tokio::test(start_paused = true)]
async fn people_get_tables() {
    let api = Api::with_files().await;
    api.post(FILES, &file("a")).await;
    let table = Request::get(FILES).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
    let response = api.0.answer(table.body(Full::<Bytes>::default()).unwrap()).await;
    let table: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "Size"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 3]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn discovery_and_openapi_show_every_kind() {
    let api = Api::with_files().await;
    let groups = api.get("/apis").await.body.to_string();
    assert!(groups.contains("probe.test/v1") && groups.contains("coordination.k8s.io/v1"), "{groups}");
    let resources = api.get("/apis/probe.test/v1").await.body;
    assert_eq!(resources["resources"][1]["name"], "files/status");
    let core = api.get("/api/v1").await.body.to_string();
    for resource in ["configmaps", "secrets", "serviceaccounts", "namespaces", "events"] {
        assert!(core.contains(resource), "{resource}");
    }
    let index = api.get("/openapi/v3").await.body;
    for document in ["api/v1", "apis/probe.test/v1", "apis/coordination.k8s.io/v1", "apis/apiextensions.k8s.io/v1"] {
        let url = index["paths"][document]["serverRelativeURL"].as_str().unwrap();
        let body = api.get(url).await.body;
        let text = body.to_string();
        for reference in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(body["components"]["schemas"].get(name).is_some(), "{document} lacks {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_have_a_limit() {
    let api = Api::new().await;
    let fits = map("fits", &"x".repeat(900 << 10)).to_string();
    assert_eq!(api.send(Method::POST, MAPS, "application/json", fits).await.code, 201);
    let large = map("large", &"x".repeat(3 << 20)).to_string();
    let refused = api.send(Method::POST, MAPS, "application/json", large).await;
    assert_eq!((refused.code, message(&refused)), (413, "Request entity too large: limit is 3145728"));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(api.send(Method::POST, MAPS, "application/json", deep).await.code, 400);
}

#[tokio::test]
async fn a_fork_is_made_in_under_a_millisecond() {
    let api = Api::with_files().await;
    for n in 0..1000 {
        api.post(FILES, &file(&format!("f{n}"))).await;
    }
    let clock = tokio::time::Instant::now();
    let forks: Vec<Server> = (0..100).map(|seed| api.0.fork(World::simulated(seed))).collect();
    let each = clock.elapsed() / 100;
    assert!(each < std::time::Duration::from_millis(1), "{each:?}");
    let fork = Api(forks.into_iter().next().unwrap());
    assert_eq!(fork.delete(&format!("{FILES}/f1"), "").await.code, 200);
    assert_eq!((fork.get(&format!("{FILES}/f1")).await.code, api.get(&format!("{FILES}/f1")).await.code), (404, 200));
}

#[tokio::test(start_paused = true)]
async fn generated_names_and_dry_runs() {
    let api = Api::new().await;
    let body = json!({"metadata": {"generateName": "gen-"}});
    let dry = api.post(&format!("{MAPS}?dryRun=All"), &body).await;
    assert_eq!(dry.code, 201);
    let name = dry.body["metadata"]["name"].as_str().unwrap();
    assert!(name.len() == 9 && name.starts_with("gen-"), "{name}");
    assert_eq!(api.get(MAPS).await.body["items"], json!([]), "nothing was written");
    let (a, b) = (api.post(MAPS, &body).await.body, api.post(MAPS, &body).await.body);
    assert_ne!(a["metadata"]["name"], b["metadata"]["name"]);
}

mod any_request {
    use super::*;
    use proptest::prelude::*;

    /// A server with a definition and an object, made once.
    fn prepared() -> &'static Server {
        static PREPARED: std::sync::OnceLock<Server> = std::sync::OnceLock::new();
        PREPARED.get_or_init(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let api = Api::with_files().await;
                api.post(FILES, &file("a")).await;
                api.0
            })
        })
    }

    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            prop::sample::select(vec![
                "api",
                "apis",
                "v1",
                "namespaces",
                "default",
                "configmaps",
                "probe.test",
                "files",
                "a",
                "status",
                "openapi",
                "v3",
                "events",
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                "leases",
                "%2e%2e",
                "%00",
                "",
                "healthz",
            ])
            .prop_map(str::to_owned),
            "[^ ?#]{0,6}".prop_map(|text| text.replace(|c: char| !c.is_ascii_graphic(), "_")),
        ]
    }

    fn query() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec![
            "watch",
            "limit",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "labelSelector",
            "fieldSelector",
            "timeoutSeconds",
            "fieldValidation",
            "sendInitialEvents",
            "allowWatchBookmarks",
            "dryRun",
            "includeObject",
        ]);
        let value = prop_oneof![
            prop::sample::select(vec![
                "true",
                "1",
                "0",
                "999999999999",
                "Strict",
                "NotOlderThan",
                "Exact",
                "a%3Db",
                "All"
            ])
            .prop_map(str::to_owned),
            "[a-zA-Z0-9%=!,()]{0,12}",
        ];
        prop::collection::vec((key, value), 0..4)
            .prop_map(|pairs| pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&"))
    }

    fn body() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            Just(file("a").to_string().into_bytes()),
            Just(definition(json!({"schema": {"openAPIV3Schema": {"type": "wrong"}}})).to_string().into_bytes()),
            Just(br#"[{"op":"add","path":"/spec/-","value":1}]"#.to_vec()),
            Just(br#"{"metadata":null,"spec":[],"status":3}"#.to_vec()),
            Just(br#"{"metadata":{"name":"a","finalizers":[3],"labels":{"x":null},"ownerReferences":{}}}"#.to_vec()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Whatever a client sends, it gets an answer, and the server still works.
        #[test]
        fn is_answered(
            pieces in prop::collection::vec(piece(), 0..8), query in query(), body in body(),
            method in prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"]),
            media in prop::sample::select(vec![
                "application/json", "application/merge-patch+json", "application/json-patch+json", "text/x", "",
            ]),
        ) {
            let prepared = prepared();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let api = Api(prepared.fork(World::simulated(3)));
                let uri = format!("/{}?{query}", pieces.join("/"));
                let Ok(uri) = uri.parse::<http::Uri>() else { return };
                let request = Request::builder().method(method).uri(uri).header("content-type", media);
                let response = api.0.answer(request.body(Full::<Bytes>::from(body.clone())).unwrap()).await;
                let code = response.status().as_u16();
                let body = tokio::time::timeout(std::time::Duration::from_secs(7200), response.into_body().collect()).await;
                assert!(body.is_ok(), "a watch ends by its deadline");
                assert!(code < 500 || code == 504 || code == 500, "{code}");
                assert_eq!(api.get("/api/v1/namespaces/default").await.code, 200);
            });
        }
    }
}

#[tokio::test]
async fn rules_of_definitions_hold_on_every_write() {
    let api = Api::new().await;
    let schema = |rules: Value| {
        json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": rules,
            "properties": {"size": {"type": "integer"}}}}})
    };
    let definition = |rules: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "ruled.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "ruled", "kind": "Ruled"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema(rules)}}]}})
    };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let refused = api.post(definitions, &definition(json!([{"rule": "self.sise > 1"}]))).await;
    assert_eq!(refused.code, 422);
    assert!(refused.body["message"].as_str().unwrap().contains("undefined field 'sise'"), "{}", refused.body);
    let rules = json!([{"rule": "self.size < 5"}, {"rule": "self.size >= oldSelf.size", "message": "only up"}]);
    assert_eq!(api.post(definitions, &definition(rules)).await.code, 201);
    let object = |size: i64| json!({"apiVersion": "example.com/v1", "kind": "Ruled", "metadata": {"name": "a"}, "spec": {"size": size}});
    let refused = api.post("/apis/example.com/v1/ruled", &object(5)).await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.body["message"],
        "Ruled.example.com \"a\" is invalid: spec: Invalid value: failed rule: self.size < 5"
    );
    assert_eq!(api.post("/apis/example.com/v1/ruled", &object(3)).await.code, 201);
    let refused = api.merge("/apis/example.com/v1/ruled/a", json!({"spec": {"size": 2}})).await;
    assert_eq!(
        (refused.code, &refused.body["details"]["causes"][0]["message"]),
        (422, &json!("Invalid value: only up"))
    );
    assert_eq!(api.merge("/apis/example.com/v1/ruled/a", json!({"spec": {"size": 4}})).await.code, 200);
}
