//! Which lists and watches there are, and which are refused. Words asked of kube-apiserver v1.37.1.

use crate::face::*;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn options_that_do_not_go_together_are_refused() {
    let api = Api::with_files().await;
    let words = |text: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: {text}");
    for (query, code, text) in [
        (
            "resourceVersionMatch=Exact",
            422,
            words(
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
        ),
        (
            "resourceVersionMatch=NotOlderThan&resourceVersion=0&continue=abc",
            422,
            words("resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"),
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            422,
            words(
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
        ),
        (
            "resourceVersionMatch=Bogus&resourceVersion=5",
            422,
            words(
                "resourceVersionMatch: Unsupported value: \"Bogus\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
        ),
        (
            "watch=1&continue=abc",
            422,
            words("resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"),
        ),
        (
            "watch=1&resourceVersionMatch=Exact&resourceVersion=5",
            422,
            words(
                "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
            ),
        ),
        (
            "watch=1&sendInitialEvents=true",
            422,
            words(
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
        ),
        (
            "continue=abc",
            400,
            "invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of value"
                .into(),
        ),
        (
            "continue=eyJ2Ijoi",
            400,
            "invalid continue token: continue key is not valid: unexpected end of JSON input".into(),
        ),
        (
            "watch=1&resourceVersion=abc",
            500,
            "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax".into(),
        ),
    ] {
        let answer = api.get(&format!("{MAPS}?{query}")).await;
        assert_eq!((answer.code, message(&answer)), (code, text.as_str()), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_of_the_past_are_exact_or_gone() {
    let api = Api::new().await;
    let mut revisions = Vec::new();
    for n in 0..400 {
        let made = api.post(MAPS, &map(&format!("m{n:03}"), "1")).await.body;
        revisions.push(made["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
    }
    let count = |list: &Value| list["items"].as_array().map(Vec::len);
    let exact = api.get(&format!("{MAPS}?resourceVersion={}&resourceVersionMatch=Exact", revisions[9])).await.body;
    assert_eq!((count(&exact), &exact["metadata"]["resourceVersion"]), (Some(10), &json!(revisions[9])));
    let newer =
        api.get(&format!("{MAPS}?resourceVersion={}&resourceVersionMatch=NotOlderThan", revisions[9])).await.body;
    assert_eq!(count(&newer), Some(400));
    let limited = api.get(&format!("{MAPS}?resourceVersion={}&limit=500", revisions[9])).await.body;
    assert_eq!(count(&limited), Some(10), "with a limit, exact");
    assert_eq!(count(&api.get(&format!("{MAPS}?resourceVersion=0&limit=1")).await.body), Some(400), "no limit");

    let page = api.get(&format!("{MAPS}?limit=100")).await.body;
    for n in 0..300 {
        api.post(MAPS, &map(&format!("n{n:03}"), "1")).await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(400)).await;
    api.post(MAPS, &map("o", "1")).await;
    let gone = api.get(&format!("{MAPS}?resourceVersion={}&resourceVersionMatch=Exact", revisions[9])).await;
    assert_eq!((gone.code, message(&gone)), (410, "The resourceVersion for the provided list is too old."));
    let token = page["metadata"]["continue"].as_str().unwrap();
    let expired = api.get(&format!("{MAPS}?limit=1000&continue={token}")).await;
    assert_eq!((expired.code, &expired.body["reason"]), (410, &json!("Expired")));
    let fresh = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = api.get(&format!("{MAPS}?limit=1000&continue={fresh}")).await.body;
    assert_eq!(count(&rest), Some(601), "the rest as it is by now");
}

#[tokio::test(start_paused = true)]
async fn watches_of_the_future_wait_and_state_of_the_future_is_refused() {
    let api = Api::new().await;
    api.post(MAPS, &map("a", "1")).await;
    assert_eq!(api.watch(&format!("{MAPS}?resourceVersion=99999&")).await, Vec::<Value>::new(), "nothing comes");
    let none = api.watch(&format!("{MAPS}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan&")).await;
    assert_eq!(none, Vec::<Value>::new(), "only what comes");
    let path = format!("{MAPS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999&");
    let refused = api.watch(&path).await;
    assert_eq!((&refused[0]["type"], &refused[0]["object"]["code"]), (&json!("ERROR"), &json!(504)));
    let one = api.get(&format!("{MAPS}/a?watch=1")).await.body;
    assert_eq!(one["metadata"]["name"], "a", "one object cannot be watched by its name in the path");
    assert_eq!(api.get(&format!("{MAPS}/a?resourceVersion=99999")).await.code, 504);
    assert_eq!(api.get(&format!("{MAPS}/a?resourceVersion=x")).await.code, 500);
}

#[tokio::test(start_paused = true)]
async fn definitions_say_what_their_objects_can_be_selected_by() {
    let api = Api::new().await;
    let fields = json!([{"jsonPath": ".spec.path"}, {"jsonPath": ".spec.size"}]);
    assert_eq!(api.post(CRDS, &definition(json!({"selectableFields": fields}))).await.code, 201);
    for (name, path, size) in [("a", "x", 1), ("b", "y", 2)] {
        let mut object = file(name);
        object["spec"] = json!({"path": path, "size": size});
        api.post(FILES, &object).await;
    }
    let names = async |selector: &str| {
        let list = api.get(&format!("{FILES}?fieldSelector={selector}")).await.body;
        let names = list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("spec.path%3Dx").await, "a");
    assert_eq!(names("spec.size%3D2").await, "b");
    assert_eq!(names("spec.size!%3D2,metadata.namespace%3Ddefault").await, "a");
    let before = api.get(FILES).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    api.merge(&format!("{FILES}/b"), json!({"spec": {"path": "x"}})).await;
    api.merge(&format!("{FILES}/a"), json!({"spec": {"path": "z"}})).await;
    let events = api.watch(&format!("{FILES}?resourceVersion={before}&fieldSelector=spec.path%3Dx&")).await;
    let kinds: Vec<&str> = events.iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ADDED", "DELETED"], "what begins to fit comes, what ceases to fit goes");
    let refused = api.get(&format!("{FILES}?fieldSelector=spec.bogus%3Dx")).await;
    assert_eq!((refused.code, message(&refused)), (400, "field label not supported: spec.bogus"));
}

#[tokio::test(start_paused = true)]
async fn built_in_kinds_have_selectable_fields_too() {
    let api = Api::new().await;
    for (path, code, words) in [
        ("/api/v1/namespaces?fieldSelector=status.phase%3DActive", 200, ""),
        ("/api/v1/secrets?fieldSelector=type%3DOpaque", 200, ""),
        ("/apis/events.k8s.io/v1/events?fieldSelector=regarding.kind%3DPod", 200, ""),
        ("/api/v1/secrets?fieldSelector=typ%3Dx", 400, "field label not supported: typ"),
        (
            "/apis/events.k8s.io/v1/events?fieldSelector=involvedObject.kind%3DPod",
            400,
            "field label not supported: involvedObject.kind",
        ),
        (
            "/apis/coordination.k8s.io/v1/leases?fieldSelector=spec.x%3Dy",
            400,
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
    ] {
        let answer = api.get(path).await;
        assert_eq!((answer.code, message(&answer)), (code, words), "{path}");
    }
    let active = api.get("/api/v1/namespaces?fieldSelector=status.phase%3DActive").await.body;
    assert_eq!(active["items"].as_array().map(Vec::len), Some(4));
}
