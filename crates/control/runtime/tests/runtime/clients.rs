//! Requests, and what their failures mean.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_runtime::{Client, Controller, Deletion, Informers, Outcome, Propagation, Selection, Sender, reconcile_fn};
use concert_world::{Call, Gate, Verdict, World};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::embedded::Server;
use crate::{key, map, maps};

/// Create, read, change, list and delete.
pub(crate) async fn life_of_an_object(client: &Client, name: &str) {
    let created = client.create(&maps(), &map(name, "1")).await.unwrap();
    assert!(client.create(&maps(), &map(name, "1")).await.unwrap_err().is_already_exists());
    let read = client.get(&maps(), &key(name)).await.unwrap().unwrap();
    assert_eq!((read.uid(), &*read.kind()), (created.uid(), "ConfigMap"));
    let mut stale = read.value().unwrap();
    client.merge_patch(&maps(), &key(name), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    stale["data"]["a"] = "3".into();
    let conflict = client.replace(&maps(), &stale, None).await.unwrap_err();
    assert!(conflict.is_conflict() && !conflict.outcome_unknown(), "{conflict}");
    let all = client.list(&maps(), &Selection { namespace: "default".into(), ..Selection::default() }).await.unwrap();
    let listed = all.objects.iter().find(|object| object.name() == name).unwrap();
    assert_eq!((&*listed.api_version(), listed.value().unwrap()["data"]["a"].as_str()), ("v1", Some("2")));
    let other = Deletion { uid: Some("another".into()), ..Deletion::default() };
    assert!(client.delete(&maps(), &key(name), &other).await.unwrap_err().is_conflict());
    let ours = Deletion { uid: Some(created.uid().into_owned()), ..Deletion::default() };
    client.delete(&maps(), &key(name), &ours).await.unwrap();
    assert!(client.get(&maps(), &key(name)).await.unwrap().is_none());
    assert!(client.delete(&maps(), &key(name), &ours).await.unwrap_err().is_not_found());
    let no_such_kind = concert_runtime::Resource::cluster(concert_api::Gvk::new("no.such.dev", "v1", "X"), "xs");
    if let Err(error) = client.get(&no_such_kind, &key("x")).await {
        assert!(error.is_kind_missing(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_live_and_die() {
    life_of_an_object(&Server::new().await.client(&World::simulated(1)), "a").await;
}

/// Gives the same verdict to every call of one verb.
#[derive(Debug)]
pub(crate) struct On(pub(crate) &'static str, pub(crate) Verdict);

impl Gate for On {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        if call.verb == self.0 { self.1.clone() } else { Verdict::Pass }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_says_whether_it_may_have_happened() {
    let server = Server::new().await;
    let attempt = |verdict: Verdict, name: &'static str| {
        let world = World { gate: Arc::new(On("POST", verdict)), ..World::simulated(1) };
        let client = server.client(&world);
        async move {
            let error = client.create(&maps(), &map(name, "1")).await.unwrap_err();
            let exists = client.get(&maps(), &key(name)).await.unwrap().is_some();
            (error.outcome_unknown(), exists, error.to_string())
        }
    };
    let (unknown, exists, _) = attempt(Verdict::Refuse, "refused").await;
    assert!(!unknown && !exists);
    let (unknown, exists, message) = attempt(Verdict::LoseReply, "lost").await;
    assert!(unknown && exists, "{message}");
    let (unknown, exists, message) = attempt(Verdict::Hang, "hung").await;
    assert!(unknown && !exists);
    assert_eq!(message, "cannot create configmaps default/hung: no answer within 30 s");
    let (unknown, exists, _) = attempt(Verdict::Fail(429), "busy").await;
    assert!(!unknown && !exists);
    let (unknown, ..) = attempt(Verdict::Fail(503), "down").await;
    assert!(unknown, "a proxy may have passed it on");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_once() {
    let world = World { gate: Arc::new(On("GET", Verdict::Fail(503))), ..World::simulated(1) };
    let before = tokio::time::Instant::now();
    assert_eq!(Server::new().await.client(&world).get(&maps(), &key("a")).await.unwrap_err().code(), Some(503));
    assert_eq!(world.journal.lines().len(), 1);
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_dead_life_changes_nothing() {
    let (server, world) = (Server::new().await, World::simulated(1));
    let client = server.client(&world);
    world.incarnation.kill();
    assert!(!client.create(&maps(), &map("a", "1")).await.unwrap_err().outcome_unknown());
    let next = server.client(&world.reincarnated());
    assert!(next.get(&maps(), &key("a")).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_kept_and_what_would_come_too_late_is_refused() {
    let client =
        Server::new().await.client(&World::simulated(1)).with_limit(2.0, 2).with_deadline(Duration::from_secs(3));
    let began = tokio::time::Instant::now();
    for _ in 0..6 {
        assert!(client.get(&maps(), &key("none")).await.unwrap().is_none());
    }
    assert_eq!(began.elapsed(), Duration::from_secs(2), "two at once, then two a second");
    let asked = (0..20).map(|_| async { client.get(&maps(), &key("none")).await.is_ok() });
    let answered = futures::future::join_all(asked).await.into_iter().filter(|ok| *ok).count();
    assert_eq!(answered, 5, "those whose turn comes before the deadline, which leaves no time to the sixth");
    assert_eq!(began.elapsed(), Duration::from_millis(4500), "and who was refused owes nothing");
    assert!(client.get(&maps(), &key("none")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_whose_words_never_come_does_not_end_a_watch() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let balancer = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        count.fetch_add(1, Ordering::SeqCst);
        let words = futures::stream::pending::<Result<http_body::Frame<bytes::Bytes>, Infallible>>();
        let answer = http::Response::builder().status(503).body(http_body_util::StreamBody::new(words)).unwrap();
        async move { Ok::<_, Infallible>(answer) }
    });
    let client = Client::in_process(balancer, World::simulated(1));
    let informers = Informers::new(client);
    let cache = informers.cache(maps());
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(asked.load(Ordering::SeqCst) > 5, "it goes on trying: {asked:?}");
    assert!(cache.state().trouble.is_some(), "{:?}", cache.state());
}

/// Notes how often each call was sent before, and has all fail.
#[derive(Debug, Default)]
struct Attempts(Mutex<Vec<u32>>);

impl Gate for Attempts {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        self.0.lock().unwrap().push(call.attempt);
        Verdict::Fail(503)
    }
}

#[tokio::test(start_paused = true)]
async fn the_gate_knows_how_often_a_call_was_sent() {
    let gate = Arc::new(Attempts::default());
    let client = Server::new().await.client(&World { gate: Arc::clone(&gate) as _, ..World::simulated(1) });
    client.with_retries().get(&maps(), &key("a")).await.unwrap_err();
    let attempts = gate.0.lock().unwrap().clone();
    assert!(
        attempts.len() > 2 && attempts.iter().copied().eq(0..u32::try_from(attempts.len()).unwrap()),
        "{attempts:?}"
    );
}

/// What a layer sees of a delete, which nobody else carries out.
#[tokio::test(start_paused = true)]
async fn a_delete_says_what_becomes_of_dependents_and_how_long_it_may_take() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&said);
    let layer = tower::layer::layer_fn(move |_inner: Sender| {
        let noted = Arc::clone(&noted);
        tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let noted = Arc::clone(&noted);
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                noted.lock().unwrap().push(serde_json::from_slice::<Value>(&body).unwrap());
                Ok::<_, Infallible>(http::Response::new(http_body_util::Full::new(bytes::Bytes::from("{}"))))
            }
        })
    });
    let client = Server::new().await.client(&World::simulated(1));
    client.create(&maps(), &map("a", "1")).await.unwrap();
    let watched = client.clone().layered(&layer);
    let (propagation, grace) = (Some(Propagation::Orphan), Some(Duration::from_millis(4_100)));
    watched.delete(&maps(), &key("a"), &Deletion { propagation, grace, ..Deletion::default() }).await.unwrap();
    let all = Selection { namespace: "default".into(), ..Selection::default() };
    let foreground = Deletion { propagation: Some(Propagation::Foreground), ..Deletion::default() };
    watched.with_dry_run().delete_all(&maps(), &all, &foreground).await.unwrap();
    assert!(client.get(&maps(), &key("a")).await.unwrap().is_some(), "the layer answered itself");
    let (kind, version) = ("DeleteOptions", "v1");
    assert_eq!(
        *said.lock().unwrap(),
        [
            json!({ "kind": kind, "apiVersion": version, "propagationPolicy": "Orphan", "gracePeriodSeconds": 5 }),
            json!({ "kind": kind, "apiVersion": version, "propagationPolicy": "Foreground", "dryRun": ["All"] }),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_layer_sees_each_try_and_changes_nothing_else() {
    let gate = Arc::new(Sick::default());
    let client = Server::new().await.client(&World { gate: Arc::clone(&gate) as _, ..World::simulated(1) });
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let count = move |request: http::Request<kube::client::Body>| {
        counted.fetch_add(1, Ordering::SeqCst);
        request
    };
    let layered = client
        .clone()
        .layered(&tower::layer::layer_fn(move |inner: Sender| tower::util::MapRequest::new(inner, count.clone())));
    layered.create(&maps(), &map("well", "1")).await.unwrap();
    assert!(layered.get(&maps(), &key("well")).await.unwrap().is_some());
    assert!(layered.get(&maps(), &key("nobody")).await.unwrap().is_none());
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    let plain = client.with_retries().get(&maps(), &key("sick")).await.unwrap_err();
    let before = gate.0.swap(0, Ordering::SeqCst);
    let error = layered.with_retries().get(&maps(), &key("sick")).await.unwrap_err();
    assert_eq!(error.to_string(), plain.to_string());
    let (seen, sent) = (tries.load(Ordering::SeqCst), gate.0.load(Ordering::SeqCst));
    assert!(before > 1 && sent > 0 && seen == 3 + sent, "{before} without it, {sent} with it, of which it saw {seen}");
}

/// Refuses to read one object, and counts how often it is asked.
#[derive(Debug, Default)]
struct Sick(AtomicUsize);

impl Gate for Sick {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        if !call.key.ends_with("/configmaps/sick") {
            return Verdict::Pass;
        }
        self.0.fetch_add(1, Ordering::SeqCst);
        Verdict::Fail(503)
    }
}

/// Row 8 of the reliability reference: at most twenty requests a minute for a key while they fail.
#[tokio::test(start_paused = true)]
async fn a_key_whose_reads_fail_asks_less_and_less_often() {
    let gate = Arc::new(Sick::default());
    let client = Server::new().await.client(&World { gate: Arc::clone(&gate) as _, ..World::simulated(1) });
    let (engine, _) = crate::controllers::engine(&client);
    let live = client.objects_of(maps()).live();
    let read = reconcile_fn(move |request| {
        let live = live.clone();
        async move { Ok(live.get(&request.key).await.map(|_| Outcome::Done)?) }
    });
    client.create(&maps(), &map("sick", "1")).await.unwrap();
    engine.add(Controller::builder("maps").for_(maps()).run(read).unwrap()).unwrap();
    for minute in 0..5 {
        let before = gate.0.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let asked = gate.0.load(Ordering::SeqCst) - before;
        assert!(asked <= 20 && (asked > 5 || minute > 0), "{asked} requests in minute {minute}");
    }
    engine.stop().await;
}
