//! Events that users read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use concert_api::Gvk;
use concert_runtime::{
    Client, Event, EventKind, Manager, ManagerSettings, Recorder, Reference, Resource, Selection, Stop,
};
use concert_world::{Call, Gate, Verdict, World};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::clients::On;
use crate::embedded::Server;
use crate::{key, map, maps};

/// The same event is one object with a count.
pub(crate) async fn events_are_told_and_counted(client: &Client, name: &str) {
    let object = client.create(&maps(), &map(name, "1")).await.unwrap();
    let (recorder, teller) = Recorder::new(client.clone(), "concert");
    let cancel = CancellationToken::new();
    for _ in 0..5 {
        recorder.record(&object, EventKind::Warning, "CannotCreate", "no disk");
    }
    recorder.record(&object, EventKind::Normal, "Created", "done");
    cancel.cancel();
    teller.run(cancel).await;
    let here = Selection { namespace: "default".into(), ..Selection::default() };
    let events = Resource::namespaced(Gvk::new("events.k8s.io", "v1", "Event"), "events");
    let all = client.list(&events, &here).await.unwrap();
    let ours = all.objects.iter().map(|event| event.value().unwrap());
    let mut ours: Vec<String> = ours
        .filter(|event| event["regarding"]["uid"] == *object.uid())
        .map(|event| format!("{} {} {} x{}", event["type"], event["reason"], event["note"], event["series"]["count"]))
        .collect();
    ours.sort();
    assert_eq!(ours, ["\"Normal\" \"Created\" \"done\" xnull", "\"Warning\" \"CannotCreate\" \"no disk\" x5"]);
    // kubectl describe asks for them in the old form.
    let events = Resource::namespaced(Gvk::new("", "v1", "Event"), "events");
    let all = client.list(&events, &here).await.unwrap();
    let old = all.objects.iter().map(|event| event.value().unwrap());
    let old = old.filter(|event| event["involvedObject"]["uid"] == *object.uid() && event["message"] == "no disk");
    assert_eq!(old.map(|event| event["series"]["count"].clone()).collect::<Vec<_>>(), [5]);
    client.delete(&maps(), &key(name), &Default::default()).await.unwrap();
}

/// The events about an object, as the server has them.
async fn told_of(client: &Client, namespace: &str, uid: &str) -> Vec<Value> {
    let events = Resource::namespaced(Gvk::new("events.k8s.io", "v1", "Event"), "events");
    let here = Selection { namespace: namespace.into(), ..Selection::default() };
    let all = client.list(&events, &here).await.unwrap();
    let all = all.objects.iter().map(|event| event.value().unwrap());
    all.filter(|event| event["regarding"]["uid"] == uid).collect()
}

/// Of many events that differ only in their words the later ones are one object with a count.
pub(crate) async fn events_alike_become_one(client: &Client, name: &str) {
    let object = client.create(&maps(), &map(name, "1")).await.unwrap();
    let (recorder, teller) = Recorder::new(client.clone(), "concert");
    let long = "x".repeat(1020);
    for n in 0..13 {
        recorder.record(&object, EventKind::Warning, "CannotCreate", &format!("try {n} {long}"));
    }
    let failed = recorder.failed().clone();
    drop(recorder);
    teller.run(CancellationToken::new()).await;
    let told = told_of(client, "default", &object.uid()).await;
    let combined = |event: &&Value| event["note"].as_str().unwrap().starts_with("(combined from similar events): try ");
    let counts: Vec<Value> = told.iter().filter(combined).map(|event| event["series"]["count"].clone()).collect();
    assert_eq!((told.len(), counts, failed.get()), (11, vec![json!(3)], 0));
    client.delete(&maps(), &key(name), &Default::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_alike_are_told_as_one() {
    events_alike_become_one(&Server::new().await.client(&World::simulated(1)), "a").await;
}

/// Not every name of an object may be part of an event's name.
pub(crate) async fn events_about_odd_names_are_told(client: &Client) {
    let roles = Resource::cluster(Gvk::new("rbac.authorization.k8s.io", "v1", "ClusterRole"), "clusterroles");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [],
        "metadata": { "name": "system:concert:Odd_one" },
    });
    let role = client.create(&roles, &role).await.unwrap();
    let object = client.create(&maps(), &map(&"n".repeat(253), "1")).await.unwrap();
    let (recorder, teller) = Recorder::new(client.clone(), "concert");
    for object in [&role, &object] {
        recorder.record(object, EventKind::Normal, "Created", "done");
        recorder.record(object, EventKind::Normal, "Created", "done");
    }
    let failed = recorder.failed().clone();
    drop(recorder);
    teller.run(CancellationToken::new()).await;
    assert_eq!(failed.get(), 0);
    for object in [&role, &object] {
        let told = told_of(client, "default", &object.uid()).await;
        let counts: Vec<&Value> = told.iter().map(|event| &event["series"]["count"]).collect();
        assert_eq!(counts, [2], "{}", object.name());
        let name = told[0]["metadata"]["name"].as_str().unwrap();
        assert!(concert_api::names::subdomain_faults(name).is_empty(), "{name}");
    }
    client.delete(&roles, &concert_api::ObjectKey::new("", &*role.name()), &Default::default()).await.unwrap();
    client.delete(&maps(), &object.key(), &Default::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_are_told_whatever_the_name_of_their_object() {
    events_about_odd_names_are_told(&Server::new().await.client(&World::simulated(1))).await;
}

/// An event says about which object it is, typed or not, which other has to do with it, what was done, and who says so.
pub(crate) async fn events_say_what_was_done_and_by_whom(client: &Client, name: &str) {
    let object = client.create(&maps(), &map(name, "1")).await.unwrap();
    let other = client.create(&maps(), &map(&format!("{name}-other"), "1")).await.unwrap();
    let typed: ConfigMap = serde_json::from_slice(object.bytes()).unwrap();
    let (recorder, teller) = Recorder::new(client.clone(), "concert");
    recorder.record(&object, EventKind::Normal, "Seen", "same");
    recorder.record(Reference::of(&typed), EventKind::Normal, "Seen", "same");
    let copied = || Event::new(Reference::of(&typed), EventKind::Normal, "Seen", "same");
    recorder.tell(copied().action("Copying").related(&other));
    recorder.tell(copied().action("Copying").related(&other));
    recorder.tell(copied().action(&"x".repeat(200)));
    let failed = recorder.failed().clone();
    drop(recorder);
    teller.run(CancellationToken::new()).await;
    assert_eq!(failed.get(), 0);
    let told = told_of(client, "default", &object.uid()).await;
    let say = |event: &Value| {
        let by = format!("{} {}", event["reportingController"], event["reportingInstance"]);
        let related = event["related"]["uid"].as_str().unwrap_or_default().to_owned();
        (event["action"].as_str().unwrap().to_owned(), related, event["series"]["count"].clone(), by)
    };
    let mut said: Vec<_> = told.iter().map(say).collect();
    said.sort_by(|one, other| one.0.cmp(&other.0));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let by = format!("\"concert\" \"concert-{host}\"");
    let long = format!("{}...", "x".repeat(125));
    let nobody = String::new;
    assert_eq!(
        said,
        [
            ("Copying".to_owned(), other.uid().into_owned(), json!(2), by.clone()),
            ("Reconciling".to_owned(), nobody(), json!(2), by.clone()),
            (long, nobody(), Value::Null, by),
        ]
    );
    for object in [&object, &other] {
        client.delete(&maps(), &object.key(), &Default::default()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn events_say_what_was_done() {
    events_say_what_was_done_and_by_whom(&Server::new().await.client(&World::simulated(1)), "a").await;
}

#[tokio::test(start_paused = true)]
async fn events_are_told() {
    events_are_told_and_counted(&Server::new().await.client(&World::simulated(1)), "a").await;
}

#[tokio::test(start_paused = true)]
async fn recording_never_waits() {
    let client = Server::new().await.client(&World::simulated(1));
    let object = client.create(&maps(), &map("a", "1")).await.unwrap();
    let (recorder, _teller) = Recorder::new(client, "concert");
    let before = tokio::time::Instant::now();
    for n in 0..2000 {
        recorder.record(&object, EventKind::Normal, "Created", &n.to_string());
    }
    assert_eq!((recorder.dropped().get(), before.elapsed()), (2000 - 1024, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn one_slow_request_does_not_hold_up_events_about_other_objects() {
    let server = Server::new().await;
    let client = server.client(&World::simulated(1));
    let mut objects = Vec::new();
    for n in 0..80 {
        objects.push(client.create(&maps(), &map(&format!("m{n}"), "1")).await.unwrap());
    }
    let slow = World { gate: Arc::new(On("POST", Verdict::Delay(Duration::from_millis(100)))), ..World::simulated(1) };
    let (recorder, teller) = Recorder::new(server.client(&slow), "concert");
    for object in &objects {
        recorder.record(object, EventKind::Normal, "Created", "done");
    }
    drop(recorder);
    let before = tokio::time::Instant::now();
    teller.run(CancellationToken::new()).await;
    assert!(before.elapsed() < Duration::from_secs(3), "80 requests of 0.1 s took {:?}", before.elapsed());
    let events = Resource::namespaced(Gvk::new("", "v1", "Event"), "events");
    assert_eq!(client.list(&events, &Selection::default()).await.unwrap().objects.len(), 80);
}

#[tokio::test(start_paused = true)]
async fn events_wait_for_a_server_that_has_trouble_but_not_for_ever() {
    let server = Server::new().await;
    let object = server.client(&World::simulated(1)).create(&maps(), &map("a", "1")).await.unwrap();
    let told = |failing: u32| {
        let (server, object) = (server.clone(), object.clone());
        async move {
            let gate = Arc::new(Failing(AtomicU32::new(failing)));
            let (recorder, teller) = Recorder::new(server.client(&World { gate, ..World::simulated(2) }), "concert");
            recorder.record(&object, EventKind::Normal, &format!("After{failing}"), "done");
            drop(recorder);
            let before = tokio::time::Instant::now();
            teller.run(CancellationToken::new()).await;
            let events = Resource::namespaced(Gvk::new("events.k8s.io", "v1", "Event"), "events");
            let all = server.client(&World::simulated(3)).list(&events, &Selection::default()).await.unwrap();
            let told = all.objects.iter().any(|event| event.value().unwrap()["reason"] == format!("After{failing}"));
            (told, before.elapsed().as_secs())
        }
    };
    let ((soon, waited), (never, gave_up)) = (told(3).await, told(100).await);
    assert!(soon && (5..9).contains(&waited), "{waited}");
    assert!(!never && (12..19).contains(&gave_up), "{gave_up}");
}

/// Refuses the first few calls.
#[derive(Debug)]
struct Failing(AtomicU32);

impl Gate for Failing {
    fn admit(&self, _: &Call<'_>) -> Verdict {
        let left = self.0.load(Ordering::SeqCst);
        self.0.store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 0 { Verdict::Pass } else { Verdict::Refuse }
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_shows_nothing_of_its_object() {
    let client = Server::new().await.client(&World::simulated(1));
    let object = client.create(&maps(), &map("a", "canary-51c0")).await.unwrap();
    let (recorder, teller) = Recorder::new(client.clone(), "concert");
    recorder.record(&object, EventKind::Normal, "Created", "done");
    let cancel = CancellationToken::new();
    cancel.cancel();
    teller.run(cancel).await;
    let events = Resource::namespaced(Gvk::new("events.k8s.io", "v1", "Event"), "events");
    let all = client.list(&events, &Selection::default()).await.unwrap();
    assert_eq!(all.objects.len(), 1);
    assert!(!String::from_utf8_lossy(all.objects[0].bytes()).contains("canary-51c0"));
}

/// Events are never answered.
fn mute(server: &Server) -> Client {
    server.client(&World { gate: Arc::new(On("POST", Verdict::Hang)), ..World::simulated(2) })
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_not_answered_holds_up_the_end_for_a_few_seconds_only() {
    let server = Server::new().await;
    let object = server.client(&World::simulated(1)).create(&maps(), &map("a", "1")).await.unwrap();
    let (recorder, teller) = Recorder::new(mute(&server), "concert");
    recorder.record(&object, EventKind::Normal, "Created", "done");
    recorder.record(&object, EventKind::Normal, "Seen", "done");
    let cancel = CancellationToken::new();
    let told = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
        tokio::time::Instant::now()
    };
    let ((), told) = tokio::join!(teller.run(cancel.clone()), told);
    assert_eq!(told.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn who_aborts_a_process_does_not_wait_for_its_events() {
    let server = Server::new().await;
    let object = server.client(&World::simulated(1)).create(&maps(), &map("a", "1")).await.unwrap();
    let manager = Manager::new(mute(&server), ManagerSettings::new("m"));
    let (stop, recorder) = (Stop::default(), manager.recorder().clone());
    let (drain, abort) = (stop.drain.clone(), stop.abort.clone());
    let told = async {
        recorder.record(&object, EventKind::Normal, "Created", "done");
        tokio::time::sleep(Duration::from_secs(1)).await;
        drain.cancel();
        tokio::time::sleep(Duration::from_secs(2)).await;
        abort.cancel();
        tokio::time::Instant::now()
    };
    let (ended, told) = tokio::join!(manager.run(stop), told);
    ended.unwrap();
    assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
}
