//! Server-side apply, and what others see of it.

use std::sync::Arc;

use crate::face::*;
use concert_apiserver::{Admission, Review, Server, Verdict};
use concert_world::World;
use http::Method;
use serde_json::{Value, json};

const APPLY: &str = "application/apply-patch+yaml";

impl Api {
    async fn apply(&self, path: &str, manager: &str, body: &Value) -> Answer {
        let path = format!("{path}?fieldManager={manager}");
        self.send(Method::PATCH, &path, APPLY, body.to_string()).await
    }
}

fn sized(name: &str, size: i64) -> Value {
    json!({
        "apiVersion": "probe.test/v1", "kind": "File", "metadata": {"name": name}, "spec": {"path": "x", "size": size},
    })
}

fn data(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// Manager, operation and fields of each entry.
fn owners(object: &Value) -> Vec<(String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    entries.iter().map(|entry| (text(entry, "manager"), text(entry, "operation"), entry["fieldsV1"].clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn an_apply_creates_changes_and_then_does_nothing() {
    let api = Api::with_files().await;
    let path = format!("{FILES}/a");
    let made = api.apply(&path, "me", &file("a")).await;
    assert_eq!((made.code, &made.body["spec"]), (201, &json!({"path": "x", "size": 3})));
    let owned = json!({"f:spec": {"f:path": {}}});
    assert_eq!(owners(&made.body), [("me".to_owned(), "Apply".to_owned(), owned)], "defaults are nobody's");
    let changed = api.apply(&path, "me", &sized("a", 4)).await;
    assert_eq!((changed.code, &changed.body["spec"]["size"]), (200, &json!(4)));
    let again = api.apply(&path, "me", &sized("a", 4)).await;
    assert_eq!(again.body, changed.body, "the same revision, the same time");
    let dropped = api.apply(&path, "me", &file("a")).await;
    assert_eq!(dropped.body["spec"]["size"], 3, "what is not applied any more has its default again");
}

#[tokio::test(start_paused = true)]
async fn what_only_the_server_sets_makes_no_change_of_an_apply_however_late_it_comes() {
    let api = Api::with_files().await;
    let path = format!("{MAPS}/a");
    let mut map = data("a", json!({"a": "1"}));
    let made = api.apply(&path, "me", &map).await;
    let own = [("creationTimestamp", json!("2020-01-01T00:00:00Z")), ("generation", json!(77)), ("uid", json!(""))];
    for (field, value) in own {
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
        map["metadata"][field] = value;
        assert_eq!(api.apply(&path, "me", &map).await.body, made.body, "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_apply_says_who_it_is_and_what_it_is_about() {
    let api = Api::with_files().await;
    let path = format!("{FILES}/a");
    let send = async |query: &str, body: &str| {
        api.send(Method::PATCH, &format!("{path}{query}"), APPLY, body.to_owned()).await
    };
    for (query, body, code, words) in [
        ("", "{}", 422, "fieldManager: Required value: is required for apply patch"),
        ("?fieldManager=me", "[]", 400, "error decoding patch: error unmarshaling JSON: "),
        ("?fieldManager=me", "a: [", 400, "error encoding patch: yaml: "),
        ("?fieldManager=me", "{a: [", 400, "error decoding patch: error converting YAML to JSON: yaml: "),
        ("?fieldManager=me", "", 400, "invalid object type: /, Kind="),
        ("?fieldManager=me", "{apiVersion: v1, kind: File}", 400, "invalid object type: /v1, Kind=File"),
        (
            "?fieldManager=me",
            "{apiVersion: probe.test/v1, kind: File, metadata: {name: other}, spec: {path: x}}",
            400,
            "the name of the object (other) does not match the name on the URL (a)",
        ),
        (
            "?fieldManager=me",
            "{apiVersion: probe.test/v1, kind: File, metadata: {name: a, managedFields: []}}",
            400,
            "metadata.managedFields must be nil",
        ),
        (
            "?fieldManager=me",
            "{apiVersion: probe.test/v1, kind: File, metadata: {name: a}, spec: {path: 1}}",
            500,
            "failed to create typed patch object (/a; probe.test/v1, Kind=File): .spec.path: expected string, got &value.valueUnstructured{Value:1}",
        ),
        ("?fieldManager=me", "{apiVersion: probe.test/v1, kind: File, metadata: {name: a}}", 201, ""),
    ] {
        let answer = send(query, body).await;
        assert_eq!(answer.code, code, "{body}: {}", answer.body);
        assert!(message(&answer).contains(words), "{body}: {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn conflicts_name_the_owner_and_are_won_by_force() {
    let api = Api::with_files().await;
    let path = format!("{FILES}/a");
    api.apply(&path, "one", &sized("a", 1)).await;
    let refused = api.apply(&path, "two", &sized("a", 2)).await;
    assert_eq!((refused.code, refused.body["reason"].as_str()), (409, Some("Conflict")));
    assert_eq!(message(&refused), "Apply failed with 1 conflict: conflict with \"one\": .spec.size");
    let forced = api.apply(&path, "two&force=true", &sized("a", 2)).await;
    assert_eq!((forced.code, &forced.body["spec"]["size"]), (200, &json!(2)));
    let who: Vec<String> = owners(&forced.body).into_iter().map(|owner| owner.0).collect();
    assert_eq!(who, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn every_other_write_is_booked_too() {
    let api = Api::with_files().await;
    let agent = |name: &str| format!("{MAPS}?fieldManager={name}");
    let made = api.post(&agent("maker"), &data("m", json!({"a": "1"}))).await;
    let all = json!({"f:data": {".": {}, "f:a": {}}});
    assert_eq!(owners(&made.body), [("maker".to_owned(), "Update".to_owned(), all)]);
    let patched = api.merge(&format!("{MAPS}/m?fieldManager=patcher"), json!({"data": {"b": "2"}})).await;
    let new = json!({"f:data": {"f:b": {}}});
    assert_eq!(owners(&patched.body)[1], ("patcher".to_owned(), "Update".to_owned(), new));
    let mut object = patched.body.clone();
    object["data"] = json!({"b": "2"});
    let replaced = api.put(&format!("{MAPS}/m?fieldManager=putter"), &object).await;
    let who: Vec<Value> = owners(&replaced.body).into_iter().map(|owner| owner.2).collect();
    assert_eq!(who, [json!({"f:data": {}}), json!({"f:data": {"f:b": {}}})], "what is gone is nobody's");
    let reset = api.merge(&format!("{MAPS}/m"), json!({"metadata": {"managedFields": [{}]}})).await;
    assert_eq!(reset.body["metadata"]["managedFields"], Value::Null);
    assert_eq!(api.get(&format!("{MAPS}/m")).await.body["metadata"]["managedFields"], Value::Null);
}

/// A hook that spoils the books.
struct Spoiler;

impl Admission for Spoiler {
    fn mutate<'a>(&'a self, review: &'a Review<'a>, object: &'a mut Value) -> Verdict<'a> {
        if review.kind.kind == "ConfigMap" && review.name == "m" {
            assert_eq!(owners(object).len(), 1, "hooks see the books");
            object["metadata"]["managedFields"][0]["operation"] = "Nonsense".into();
            object["data"]["hook"] = "was here".into();
        }
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_spoils_the_books_is_told_so() {
    let api = Api(Server::in_memory_admitting(World::simulated(1), vec![Arc::new(Spoiler)]).await);
    let made = api.apply(&format!("{MAPS}/m"), "me", &data("m", json!({"a": "1"}))).await;
    assert_eq!(made.code, 201, "{}", made.body);
    assert!(made.warnings[0].contains("invalid state after admission"), "{:?}", made.warnings);
    let owned = json!({"f:data": {"f:a": {}}});
    assert_eq!(owners(&made.body), [("me".to_owned(), "Apply".to_owned(), owned)], "what a hook adds is nobody's");
}

#[tokio::test(start_paused = true)]
async fn many_appliers_at_once_lose_nothing() {
    let api = Api::new().await;
    let path = format!("{MAPS}/shared");
    let applies = (0..40).map(|number| {
        let (api, path) = (Api(api.0.clone()), path.clone());
        tokio::spawn(async move {
            let config = data("shared", json!({format!("k{number}"): "v"}));
            api.apply(&path, &format!("m{number}"), &config).await.code
        })
    });
    let mut created = 0;
    for apply in applies.collect::<Vec<_>>() {
        match apply.await.unwrap() {
            201 => created += 1,
            code => assert_eq!(code, 200),
        }
    }
    assert_eq!(created, 1, "one creates, the others change");
    let object = api.get(&path).await.body;
    assert_eq!(object["data"].as_object().unwrap().len(), 40);
    assert_eq!(owners(&object).len(), 40, "those who apply are never put together");
}

/// One manager that goes from version to version, and drops on the way what only the other one names.
#[tokio::test(start_paused = true)]
async fn what_was_applied_in_another_version_is_pruned_there() {
    let api = Api::new().await;
    let apply = async |version: &str, spec: Value| {
        let path = format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/a");
        let api_version = format!("autoscaling/{version}");
        let body = json!({"apiVersion": api_version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": spec});
        api.apply(&path, "one", &body).await.body["spec"].clone()
    };
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"});
    apply("v1", json!({"maxReplicas": 3, "scaleTargetRef": target})).await;
    let two = apply("v2", json!({"minReplicas": 2, "scaleTargetRef": {"name": "y"}})).await;
    assert_eq!((&two["minReplicas"], &two["maxReplicas"]), (&json!(2), &json!(3)));
    let one = apply("v1", json!({"scaleTargetRef": target})).await;
    assert_eq!((&one["minReplicas"], &one["maxReplicas"]), (&json!(1), &json!(3)));
}

#[tokio::test(start_paused = true)]
async fn a_scale_has_the_owners_of_its_number() {
    let api = Api::new().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    assert_eq!(api.apply(&format!("{path}/web"), "me", &web).await.code, 201);
    let scaled = api.merge(&format!("{path}/web/scale?fieldManager=scaler"), json!({"spec": {"replicas": 3}})).await;
    assert_eq!((scaled.code, &scaled.body["metadata"]["managedFields"]), (200, &Value::Null));
    let object = api.get(&format!("{path}/web")).await.body;
    let scaler = &object["metadata"]["managedFields"][1];
    assert_eq!((&scaler["manager"], &scaler["subresource"]), (&json!("scaler"), &json!("scale")));
    assert_eq!(scaler["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    let refused = api.apply(&format!("{path}/web"), "me", &web).await;
    assert_eq!(refused.code, 409, "{}", refused.body);
    assert!(message(&refused).contains("conflict with \"scaler\" with subresource \"scale\" using apps/v1"));
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_none_creates_nothing() {
    let api = Api::new().await;
    let mut config = data("m", json!({"a": "1"}));
    config["metadata"]["resourceVersion"] = "abc".into();
    let answer = api.apply(&format!("{MAPS}/m"), "me", &config).await;
    assert_eq!((answer.code, message(&answer)), (500, "strconv.ParseUint: parsing \"abc\": invalid syntax"));
}

#[tokio::test(start_paused = true)]
async fn books_that_make_no_sense_are_kept_out() {
    let api = Api::new().await;
    for (number, fields) in [json!("s"), json!([1]), json!(5), json!(true)].into_iter().enumerate() {
        let mut object = data(&format!("m{number}"), json!({"a": "1"}));
        object["metadata"]["managedFields"] = json!([{
            "manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        }]);
        let made = api.post(&format!("{MAPS}?fieldManager=me"), &object).await;
        assert_eq!((made.code, owners(&made.body)[0].0.as_str()), (201, "me"), "{}", made.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_few_letters_are_not_much_work() {
    let api = Api::new().await;
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (name, below) in "bcdefghi".chars().zip("abcdefgh".chars()) {
        let items = vec![format!("*{below}"); 10].join(",");
        bomb.push_str(&format!("{name}: &{name} [{items}]\n"));
    }
    let answer = api.send(Method::PATCH, &format!("{MAPS}/m?fieldManager=me"), APPLY, bomb).await;
    assert_eq!(answer.code, 400);
    assert!(message(&answer).contains("excessive aliasing"), "{}", answer.body);
}
