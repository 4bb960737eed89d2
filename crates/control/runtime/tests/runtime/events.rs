//! Events that users read.

use std::sync::Arc;
use std::time::Duration;

use concert_api::Gvk;
use concert_runtime::{Client, EventKind, Recorder, Resource, Selection};
use concert_world::{Verdict, World};
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
    let events = Resource::namespaced(Gvk::new("", "v1", "Event"), "events");
    let all = client.list(&events, &Selection { namespace: "default".into(), ..Selection::default() }).await.unwrap();
    let ours = all.objects.iter().map(|event| event.value().unwrap());
    let mut ours: Vec<String> = ours
        .filter(|event| event["involvedObject"]["uid"] == *object.uid())
        .map(|event| format!("{} {} {} x{}", event["type"], event["reason"], event["message"], event["count"]))
        .collect();
    ours.sort();
    assert_eq!(ours, ["\"Normal\" \"Created\" \"done\" x1", "\"Warning\" \"CannotCreate\" \"no disk\" x5"]);
    client.delete(&maps(), &key(name), &Default::default()).await.unwrap();
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
