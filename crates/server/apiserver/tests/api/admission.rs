//! Hooks in the write pipeline.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::face::*;
use concert_api::{GroupResource, Status};
use concert_apiserver::{Admission, Operation, Review, Server, Verdict};
use concert_world::World;
use serde_json::{Value, json};

/// Labels what is written, refuses what is called `bad`, and remembers what it saw.
#[derive(Default)]
struct Hook(Mutex<Vec<String>>);

impl Hook {
    fn note(&self, step: &str, review: &Review<'_>, object: &Value) {
        if review.kind.kind == "File" {
            let seen = format!("{step} {:?}{} size {}", review.operation, review.subresource, object["spec"]["size"]);
            self.0.lock().unwrap().push(seen);
        }
    }
}

impl Admission for Hook {
    fn mutate<'a>(&'a self, review: &'a Review<'a>, object: &'a mut Value) -> Verdict<'a> {
        self.note("mutate", review, object);
        object["metadata"]["labels"]["seen"] = "yes".into();
        object["spec"]["bogus"] = 1.into();
        Box::pin(std::future::ready(Ok(vec!["labelled".to_owned()])))
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, object: &'a Value) -> Verdict<'a> {
        self.note("validate", review, object);
        let bad = review.name == "bad" || (review.name == "kept" && review.operation == Operation::Delete);
        let refusal =
            Status::forbidden(&GroupResource::new("probe.test", review.resource), review.name, "not this one");
        Box::pin(std::future::ready(if bad { Err(refusal) } else { Ok(Vec::new()) }))
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_change_what_is_written_then_object_to_it() {
    let hook = Arc::new(Hook::default());
    let hooks: Vec<Arc<dyn Admission>> = vec![Arc::clone(&hook) as _];
    let api = Api(Server::in_memory_admitting(World::simulated(1), hooks).await);
    assert_eq!(api.post(CRDS, &definition(json!({}))).await.code, 201);
    let made = api.post(FILES, &file("a")).await;
    assert_eq!(made.warnings, ["299 - \"labelled\""]);
    assert_eq!(made.body["metadata"]["labels"]["seen"], "yes");
    assert_eq!(made.body["spec"], json!({"path": "x", "size": 3}), "what a hook adds is pruned too");
    let refused = api.post(FILES, &file("bad")).await;
    assert_eq!((refused.code, message(&refused)), (403, "files.probe.test \"bad\" is forbidden: not this one"));
    assert_eq!(api.get(&format!("{FILES}/bad")).await.code, 404);
    let cleared = api.merge(&format!("{FILES}/a"), json!({"metadata": {"labels": null}, "spec": {"size": 9}})).await;
    assert_eq!(cleared.body["metadata"]["labels"]["seen"], "yes", "patches pass too");
    api.merge(&format!("{FILES}/a/status"), json!({"status": {"x": 1}})).await;
    api.post(FILES, &file("kept")).await;
    assert_eq!(api.delete(&format!("{FILES}/kept"), "").await.code, 403);
    assert_eq!(api.delete(FILES, "").await.code, 403, "collections pass too");
    let seen = hook.0.lock().unwrap().join(", ");
    let expected = [
        "mutate Create size 3, validate Create size 3", // a
        "mutate Create size 3, validate Create size 3", // bad
        "mutate Update size 9, validate Update size 9",
        "mutate Updatestatus size 9, validate Updatestatus size 9",
        "mutate Create size 3, validate Create size 3", // kept
        "validate Delete size 3",
        "validate Delete size 9, validate Delete size 3",
    ];
    assert_eq!(seen, expected.join(", "));
}

#[tokio::test(start_paused = true)]
async fn what_is_invalid_is_not_shown_to_validating_hooks() {
    let hook = Arc::new(Hook::default());
    let hooks: Vec<Arc<dyn Admission>> = vec![Arc::clone(&hook) as _];
    let api = Api(Server::in_memory_admitting(World::simulated(1), hooks).await);
    api.post(CRDS, &definition(json!({}))).await;
    let mut wrong = file("a");
    wrong["spec"]["path"] = 3.into();
    assert_eq!(api.post(FILES, &wrong).await.code, 422);
    assert_eq!(hook.0.lock().unwrap().join(", "), "mutate Create size 3");
}

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Makes a service of its own, with the address of the one it is asked about.
#[derive(Default)]
struct Rival(OnceLock<Server>);

impl Admission for Rival {
    fn validate<'a>(&'a self, review: &'a Review<'a>, object: &'a Value) -> Verdict<'a> {
        Box::pin(async move {
            if let Some(server) = self.0.get().filter(|_| review.name == "asked") {
                let address = &object["spec"]["clusterIP"];
                let rival =
                    json!({"metadata": {"name": "rival"}, "spec": {"clusterIP": address, "ports": [{"port": 1}]}});
                Api(server.clone()).post(SERVICES, &rival).await;
            }
            Ok(Vec::new())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_write_services_while_it_is_asked_about_one() {
    let hook = Arc::new(Rival::default());
    let hooks: Vec<Arc<dyn Admission>> = vec![Arc::clone(&hook) as _];
    let api = Api(Server::in_memory_admitting(World::simulated(1), hooks).await);
    assert!(hook.0.set(api.0.clone()).is_ok());
    let asked = json!({"metadata": {"name": "asked"}, "spec": {"ports": [{"port": 1}]}});
    let made = tokio::time::timeout(Duration::from_secs(60), api.post(SERVICES, &asked)).await;
    let made = made.expect("nobody waits for what the hook waits for");
    assert_eq!(made.code, 201, "{}", made.body);
    let rival = api.get(&format!("{SERVICES}/rival")).await;
    assert_eq!(rival.code, 200, "{}", rival.body);
    assert_ne!(made.body["spec"]["clusterIP"], rival.body["spec"]["clusterIP"]);
    let path = format!("{SERVICES}/asked");
    let changed = api.merge(&path, json!({"metadata": {"labels": {"a": "b"}}}));
    let changed = tokio::time::timeout(Duration::from_secs(60), changed).await;
    assert_eq!(changed.expect("nor when it is changed").code, 200);
}
