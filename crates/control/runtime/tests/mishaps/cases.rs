//! The mishaps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use concert_api::{Gvk, ObjectKey};
use concert_runtime::{Change, Controller, Mapping, Outcome, ReconcileError, Resource, reconcile_fn};
use concert_world::Verdict;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::scene::{Scene, Told, polling};
use crate::{Fault, Place, client, maps, nothing, secrets, widgets};

/// How long what is missing, slow or silent is given.
const A_WHILE: Duration = Duration::from_secs(3);

pub(crate) async fn a_server_is_not_reached(place: &impl Place) {
    let fault = Fault::new("secrets", Verdict::Refuse);
    let suffering = Controller::builder("c").for_(secrets()).run(polling()).unwrap();
    let scene = Scene::new(client(place, &fault).await, Some(suffering));
    let server = format!("the API server at {} cannot be reached", scene.manager.client().host());
    let said: &[&[&str]] = &[&["WARN", "its workers wait for this source", "controller=\"c\"", &server]];
    let metrics = [
        "concert_watch_trouble{cluster=\"\",scope=\"secrets metadata\",trouble=\"failing\"} 1",
        "concert_controller_waiting_sources{controller=\"c\"} 1",
        "rest_client_requests_total{code=\"<error>\",method=\"GET\"",
    ];
    let mend = async || {
        assert!(scene.readiness().contains("cannot be reached"), "{}", scene.readiness());
        let told = scene.logs.count(&["watch is in trouble", "scope=secrets metadata"]);
        assert_eq!(told, 1, "however often it was tried:\n{}", scene.logs.text());
        fault.mend();
    };
    let well =
        || scene.successes("c") > 0 && scene.logs.say(&["INFO", "watch is well again", "scope=secrets metadata"]);
    scene.play(Told { said, metrics: &metrics }, mend, well).await;
}

pub(crate) async fn a_token_has_expired(place: &impl Place) {
    let fault = Fault::new("secrets", Verdict::Fail(401));
    let suffering = Controller::builder("c").for_(secrets()).run(polling()).unwrap();
    let scene = Scene::new(client(place, &fault).await, Some(suffering));
    let said: &[&[&str]] = &[&["WARN", "controller=\"c\"", "they may have expired, get new ones into the kubeconfig"]];
    let metrics = [
        "concert_watch_trouble{cluster=\"\",scope=\"secrets metadata\",trouble=\"failing\"} 1",
        "concert_controller_waiting_sources{controller=\"c\"} 1",
        "rest_client_requests_total{code=\"401\",method=\"GET\"",
    ];
    scene.play(Told { said, metrics: &metrics }, async || fault.mend(), || scene.successes("c") > 0).await;
}

fn definitions() -> Resource {
    let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Resource::cluster(gvk, "customresourcedefinitions")
}

/// A kind of things that have a size.
fn definition() -> Value {
    json!({
        "metadata": { "name": "widgets.test.dev" },
        "spec": {
            "group": "test.dev", "scope": "Namespaced", "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

fn widget(name: &str, size: &Value) -> Value {
    json!({ "apiVersion": "test.dev/v1", "kind": "Widget", "metadata": { "namespace": "default", "name": name }, "spec": { "size": size } })
}

#[derive(Deserialize)]
struct Widget {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    size: u32,
}

/// A kind is missing; when it comes, one of its objects cannot be read.
pub(crate) async fn a_kind_is_missing_and_then_an_object_cannot_be_read(place: &impl Place) {
    let client = client(place, &nothing()).await;
    let scene = Scene::new(client.clone(), None);
    let typed = scene.manager.informers().cache(widgets()).typed::<Widget>();
    let measures = reconcile_fn(move |request| {
        let typed = typed.clone();
        async move {
            let sizes: u32 = typed.list().iter().map(|widget| widget.spec.size).sum();
            let own = typed.get(&request.key).map_err(ReconcileError::terminal)?;
            assert!(own.is_none_or(|own| own.spec.size <= sizes));
            Ok(Outcome::After(Duration::from_secs(1)))
        }
    });
    let suffering = Controller::builder("c").for_(widgets()).sync_timeout(A_WHILE).run(measures).unwrap();
    scene.manager.add_controller(suffering).unwrap();
    let said: &[&[&str]] = &[
        &["WARN", "controller=\"c\"", "widgets.test.dev", "the server does not know this kind"],
        &["ERROR", "controller waits for a source", "widgets.test.dev"],
    ];
    let metrics = [
        "concert_watch_trouble{cluster=\"\",scope=\"widgets.test.dev\",trouble=\"kind_missing\"} 1",
        "concert_controller_waiting_sources{controller=\"c\"} 1",
        "rest_client_requests_total{code=\"404\",method=\"GET\"",
    ];
    let comes = async || {
        let remark = "[+]caches ok: without widgets.test.dev: the server does not know this kind";
        assert!(scene.readiness().contains(remark), "{}", scene.readiness());
        client.create(&definitions(), &definition()).await.unwrap();
        for (name, size) in [("good", json!(1)), ("bad", json!("canary-7f3a"))] {
            let object = widget(name, &size);
            // It takes a moment until a new kind is served.
            let mut tries = 0;
            while let Err(error) = client.create(&widgets(), &object).await {
                tries += 1;
                assert!(tries < 300, "{error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    let told = || {
        scene.successes("c") > 2
            && scene.logs.say(&["WARN", "left out", "Widget default/bad"])
            && scene.logs.say(&["reconcile failed", "controller=c", "name=bad", "invalid type"])
            && scene.shows("concert_undecodable_objects_total{cluster=\"\",kind=\"Widget.test.dev\"} 1")
            && scene.shows("concert_cache_decoded_objects{cluster=\"\",scope=\"widgets.test.dev\"} 1")
            && scene.shows("controller_runtime_terminal_reconcile_errors_total{controller=\"c\"} ")
            && !scene.shows("controller_runtime_terminal_reconcile_errors_total{controller=\"c\"} 0")
    };
    scene.play(Told { said, metrics: &metrics }, comes, told).await;
    assert!(!scene.logs.text().contains("canary"), "what is in objects is not told");
    client.delete(&definitions(), &ObjectKey::new("", "widgets.test.dev"), &Default::default()).await.unwrap();
}

pub(crate) async fn a_verb_is_forbidden(place: &impl Place) {
    drop(client(place, &nothing()).await);
    let (reader, name) = place.reader().await;
    let scene = Scene::new(reader, None);
    let writer = scene.manager.client().clone();
    let writes = reconcile_fn(move |request| {
        let writer = writer.clone();
        async move {
            writer.merge_patch(&maps(), &request.key, &json!({ "data": { "a": "1" } }), None).await?;
            Ok(Outcome::Done)
        }
    });
    scene.manager.add_controller(Controller::builder("writes").for_(maps()).run(writes).unwrap()).unwrap();
    scene.manager.add_controller(Controller::builder("c").for_(secrets()).run(polling()).unwrap()).unwrap();
    let cannot = format!("User \"{name}\" cannot watch resource");
    let said: &[&[&str]] = &[
        &["WARN", "its workers wait for this source", "controller=\"c\"", &cannot],
        &["WARN", "reconcile failed", "controller=writes", "name=a", "cannot patch resource"],
    ];
    let metrics = [
        "concert_watch_trouble{cluster=\"\",scope=\"secrets metadata\",trouble=\"forbidden\"} 1",
        "concert_controller_waiting_sources{controller=\"c\"} 1",
        "rest_client_requests_total{code=\"403\",method=\"PATCH\"",
    ];
    let counted = || !scene.shows("controller_runtime_reconcile_total{controller=\"writes\",result=\"error\"} 0");
    scene.play(Told { said, metrics: &metrics }, async || {}, counted).await;
}

/// Something goes wrong at one object.
fn wild(request: &ObjectKey) -> bool {
    &*request.name == "a"
}

pub(crate) async fn a_reconcile_panics(place: &impl Place) {
    let panics = reconcile_fn(|request| async move {
        assert!(!wild(&request.key), "out of cheese");
        Ok::<_, ReconcileError>(Outcome::Done)
    });
    let suffering = Controller::builder("c").for_(maps()).run(panics).unwrap();
    let scene = Scene::new(client(place, &nothing()).await, Some(suffering));
    let said: &[&[&str]] = &[&["ERROR", "reconcile panicked", "controller=c", "name=a", "out of cheese"]];
    let metrics = ["controller_runtime_reconcile_panics_total{controller=\"c\"} "];
    let counted = || {
        let count =
            |name: &str| scene.shows(&format!("controller_runtime_reconcile_{name}_total{{controller=\"c\"}} 0"));
        // Other keys are served.
        !count("panics") && !count("errors") && scene.successes("c") >= 1
    };
    scene.play(Told { said, metrics: &metrics }, async || {}, counted).await;
}

pub(crate) async fn a_reconcile_never_returns(place: &impl Place) {
    let hang = || {
        reconcile_fn(|request| async move {
            if wild(&request.key) {
                std::future::pending::<()>().await;
            }
            Ok(Outcome::Done)
        })
    };
    let patient = Controller::builder("patient").for_(maps()).workers(2).slow_after(A_WHILE).run(hang()).unwrap();
    let scene = Scene::new(client(place, &nothing()).await, Some(patient));
    let strict = Controller::builder("strict").for_(maps()).timeout(A_WHILE).run(hang()).unwrap();
    scene.manager.add_controller(strict).unwrap();
    let said: &[&[&str]] = &[
        &["WARN", "reconcile is still running", "controller=patient", "key=default/a", "seconds=3"],
        &["ERROR", "reconcile took too long", "controller=strict", "name=a", "seconds=3"],
    ];
    let metrics = [
        "workqueue_longest_running_processor_seconds{name=\"patient\",controller=\"patient\"} 3",
        "controller_runtime_active_workers{controller=\"patient\"} 1",
        "controller_runtime_reconcile_timeouts_total{controller=\"strict\"} ",
    ];
    let counted = || {
        !scene.shows("controller_runtime_reconcile_timeouts_total{controller=\"strict\"} 0")
            && scene.successes("patient") >= 1
            && scene.successes("strict") >= 1
    };
    scene.play(Told { said, metrics: &metrics }, async || {}, counted).await;
}

/// A mapping takes its time, and its objects change faster.
pub(crate) async fn a_handler_is_slower_than_its_events(place: &impl Place) {
    let client = client(place, &nothing()).await;
    let slow = Mapping::slow(|change: Change| async move {
        tokio::time::sleep(Duration::from_secs(25)).await;
        vec![change.key]
    });
    let builder =
        Controller::builder("c").watches(concert_runtime::Scope::all(maps()).in_namespaces(["default"]), slow);
    let scene = Scene::new(client.clone(), Some(builder.run(polling()).unwrap()));
    for name in ["c", "d"] {
        let object = json!({ "metadata": { "namespace": "default", "name": name } });
        client.create(&maps(), &object).await.unwrap();
    }
    for round in 0..5 {
        let patch = json!({ "data": { "round": round.to_string() } });
        client.merge_patch(&maps(), &ObjectKey::new("default", "b"), &patch, None).await.unwrap();
    }
    let said: &[&[&str]] = &[&[
        "WARN",
        "the mapping of this source is slower than its changes",
        "controller=\"c\"",
        "source=\"configmaps namespace=default\"",
    ]];
    let metrics = [
        "concert_source_waiting{controller=\"c\",source=\"configmaps namespace=default\"} ",
        "concert_source_oldest_seconds{controller=\"c\",source=\"configmaps namespace=default\"} ",
    ];
    let waits = || !scene.shows("concert_source_waiting{controller=\"c\",source=\"configmaps namespace=default\"} 0");
    scene.play(Told { said, metrics: &metrics }, async || assert!(waits()), || scene.successes("c") > 0).await;
}

/// A mapping that should be quick blocks, and with it the watch.
pub(crate) async fn a_quick_mapping_blocks<P: Place + 'static>(place: &P) {
    let client = client(place, &nothing()).await;
    let blocks = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&blocks);
    let mapping = Mapping::new(move |change: &Change| {
        if asked.load(Ordering::SeqCst) {
            P::block(Duration::from_millis(300));
        }
        vec![change.key.clone()]
    });
    let scope = concert_runtime::Scope::all(maps()).in_namespaces(["default"]);
    let suffering = Controller::builder("c").watches(scope, mapping).run(polling()).unwrap();
    let scene = Scene::new(client, Some(suffering));
    let words = ["WARN", "holds up the watch", "controller=\"c\"", "source=\"configmaps namespace=default\""];
    let metrics = [
        "concert_source_handler_seconds_total{controller=\"c\",source=\"configmaps namespace=default\"} ",
        "concert_watch_handler_seconds_total{cluster=\"\",scope=\"configmaps namespace=default\"} ",
    ];
    let mended = async || {
        let nothing =
            "concert_source_handler_seconds_total{controller=\"c\",source=\"configmaps namespace=default\"} 0.0";
        assert!(!scene.shows(nothing), "{}", scene.manager.metrics().text());
        assert_eq!(scene.logs.count(&words), 1, "not for every change:\n{}", scene.logs.text());
        blocks.store(false, Ordering::SeqCst);
    };
    scene.play(Told { said: &[&words], metrics: &metrics }, mended, || scene.successes("c") > 0).await;
}
