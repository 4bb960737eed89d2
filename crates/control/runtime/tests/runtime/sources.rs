//! Sources: what a controller listens to, where that comes from, and what happens when it is not there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::{Object, ObjectKey};
use concert_runtime::{
    Change, Channel, Controller, ControllerError, Mapping, Namespaces, Origin, Outcome, Predicate, Priorities,
    Reconciler, Request, Scope, Sink, Trigger, Verb, WhenMissing, reconcile_fn, reconcile_keys_fn,
};
use concert_world::{Call, Gate, Verdict, World};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::controllers::engine;
use crate::embedded::Server;
use crate::place::{Place, namespace};
use crate::{define_widgets, key, map, maps, secrets, until, widgets};

/// Keys that were reconciled, why and how urgently, in order.
type Log = Arc<Mutex<Vec<String>>>;

fn noting(log: &Log) -> impl Reconciler + use<> {
    let log = Arc::clone(log);
    reconcile_fn(move |request| {
        log.lock().unwrap().push(format!("{} {} {}", request.key, request.reason, request.priority));
        async { Ok(Outcome::Done) }
    })
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

async fn next(log: &Log, expected: &str) {
    until(expected, || !log.lock().unwrap().is_empty()).await;
    assert_eq!(take(log), [expected]);
}

fn event(name: &str) -> Object {
    Object::parse(json!({ "metadata": { "namespace": "default", "name": name } }).to_string().into()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn events_from_outside_pass_predicates_and_mappings() {
    let client = Server::new().await.client(&World::simulated(1));
    let ((engine, _), log, channel) = (engine(&client), Log::default(), Channel::new());
    let trigger = Trigger::channel(&channel, Mapping::own())
        .when(Predicate::verbs(&[Verb::Generic]))
        .when(Predicate::new(|change| &*change.key.name != "ignored"))
        .priorities(Priorities { event: 7, ..Priorities::default() });
    channel.send(event("early"));
    engine.add(Controller::builder("c").on(trigger).run(noting(&log)).unwrap()).unwrap();
    next(&log, "default/early external event 7").await;
    channel.send(event("ignored"));
    channel.send(event("late"));
    next(&log, "default/late external event 7").await;
    assert_eq!(engine.list()[0].source_names, ["a channel"]);
}

#[tokio::test(start_paused = true)]
async fn a_sender_is_never_held_up_and_events_about_one_key_are_folded() {
    let client = Server::new().await.client(&World::simulated(1));
    let ((engine, _), log, channel) = (engine(&client), Log::default(), Channel::new());
    let mapped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&mapped);
    let slow = Mapping::slow(move |change: Change| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            vec![change.key]
        }
    });
    engine.add(Controller::builder("c").on(Trigger::channel(&channel, slow)).run(noting(&log)).unwrap()).unwrap();
    let began = Instant::now();
    for n in 0..1000 {
        channel.send(event(&format!("e{}", n % 3)));
        tokio::task::yield_now().await;
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    until("all", || log.lock().unwrap().len() >= 4).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(mapped.load(Ordering::SeqCst), 4, "one that was being mapped, and then one for each key");
}

#[tokio::test(start_paused = true)]
async fn a_slow_mapping_holds_up_neither_the_watch_nor_other_controllers() {
    let client = Server::new().await.client(&World::simulated(1));
    let ((engine, _), slow, quick) = (engine(&client), Log::default(), Log::default());
    let seen: Log = Log::default();
    let states = Arc::clone(&seen);
    let mapping = Mapping::slow(move |change: Change| {
        let data = |object: &Option<Arc<Object>>| {
            object.as_ref().map_or("-".to_owned(), |object| object.value().unwrap()["data"]["a"].to_string())
        };
        states.lock().unwrap().push(format!("{} to {}", data(&change.old), data(&change.new)));
        async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            vec![change.key]
        }
    });
    engine.add(Controller::builder("slow").watches(maps(), mapping).run(noting(&slow)).unwrap()).unwrap();
    engine.add(Controller::builder("quick").for_(maps()).run(noting(&quick)).unwrap()).unwrap();
    let began = Instant::now();
    client.create(&maps(), &map("a", "0")).await.unwrap();
    next(&quick, "default/a created 0").await;
    for n in 1..=9 {
        let patch = json!({ "data": { "a": n.to_string() } });
        client.merge_patch(&maps(), &key("a"), &patch, None).await.unwrap();
        next(&quick, "default/a updated 0").await;
    }
    assert!(began.elapsed() < Duration::from_secs(20));
    until("the slow one", || slow.lock().unwrap().len() == 2).await;
    assert_eq!(take(&seen), ["- to \"0\"", "\"0\" to \"9\""], "all that came meanwhile is one change");
}

#[tokio::test(start_paused = true)]
async fn a_source_of_ones_own_puts_keys_in_and_its_error_ends_the_controller() {
    let client = Server::new().await.client(&World::simulated(1));
    let ((engine, _), log) = (engine(&client), Log::default());
    let ticks = |sink: Sink| async move {
        sink.add_after(key("later"), Duration::from_secs(5), "tick");
        sink.with_priority(3).add(key("now"), "tick");
        tokio::time::sleep(Duration::from_secs(20)).await;
        Err("the bus is gone".into())
    };
    engine.add(Controller::builder("c").on(Trigger::source("bus", ticks)).run(noting(&log)).unwrap()).unwrap();
    next(&log, "default/now tick 3").await;
    next(&log, "default/later tick 0").await;
    let error = engine.failure().await;
    assert_eq!(error.to_string(), "controller \"c\" cannot listen to bus: the bus is gone");
    assert_eq!(engine.list()[0].failure, Some(error));
    assert!(engine.remove("c").await);
}

#[tokio::test(start_paused = true)]
async fn sources_end_with_their_controller_however_that_ends() {
    for abort in [true, false] {
        let client = Server::new().await.client(&World::simulated(1));
        let ((engine, _), log) = (engine(&client), Log::default());
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let source = Trigger::source("held", |_: Sink| async move {
            let _held = held;
            std::future::pending().await
        });
        engine.add(Controller::builder("c").for_(maps()).on(source).run(noting(&log)).unwrap()).unwrap();
        let handle = engine.handle::<ObjectKey>("c").unwrap();
        until("it runs", || engine.list()[0].is_synced()).await;
        assert_eq!((Arc::strong_count(&alive), engine.informers().states().len()), (2, 1));
        if abort {
            engine.abort();
        } else {
            engine.stop().await;
        }
        until("it has ended", || Arc::strong_count(&alive) == 1).await;
        assert!(engine.informers().states().is_empty());
        handle.watch(Trigger::kind(maps(), Mapping::own())).keep();
        assert!(engine.informers().states().is_empty(), "nothing starts on behalf of what is gone");
    }
}

/// Object keys of several clusters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Far(&'static str, ObjectKey);

impl std::fmt::Display for Far {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

#[tokio::test(start_paused = true)]
async fn keys_can_be_of_any_sort() {
    let client = Server::new().await.client(&World::simulated(1));
    let ((engine, _), log) = (engine(&client), Log::default());
    let seen = Arc::clone(&log);
    let reconciler = reconcile_keys_fn(move |request: Request<Far>| {
        seen.lock().unwrap().push(request.key.to_string());
        async { Ok(Outcome::Done) }
    });
    let both = Mapping::new(|change| vec![Far("west", change.key.clone()), Far("east", change.key.clone())]);
    engine.add(Controller::of_keys("far").watches(maps(), both).run(reconciler).unwrap()).unwrap();
    client.create(&maps(), &map("a", "1")).await.unwrap();
    until("both", || log.lock().unwrap().len() == 2).await;
    assert_eq!(take(&log), ["east:default/a", "west:default/a"]);
    assert!(!engine.poke("far", key("a")), "not a key of this controller");
    assert!(engine.poke("far", Far("north", key("b"))));
    next(&log, "north:default/b").await;
}

/// The maps of a case, but for the one that a server may put there.
fn of(case: &str) -> Scope {
    Scope::all(maps()).in_namespaces([case]).with_fields("metadata.name!=kube-root-ca.crt")
}

fn named(case: &str, name: &str) -> Value {
    json!({ "metadata": { "namespace": case, "name": name } })
}

/// A source that is added to a controller that runs tells all there is; one that is removed tells nothing more.
pub(crate) async fn sources_come_and_go(place: &Place, case: &str) {
    let client = place.client(&place.world()).await;
    namespace(&client, case).await;
    let ((engine, _), log) = (engine(&client), Log::default());
    engine.add(Controller::builder("c").for_(of(case)).run(noting(&log)).unwrap()).unwrap();
    until("it is complete", || engine.list()[0].is_synced()).await;
    client.create(&maps(), &named(case, "a")).await.unwrap();
    next(&log, &format!("{case}/a created 0")).await;
    let secret = || Trigger::kind(Scope::all(secrets()).in_namespaces([case]), Mapping::own());
    client.create(&secrets(), &named(case, "s")).await.unwrap();
    let handle = engine.handle::<ObjectKey>("c").unwrap();
    let watching = handle.watch(secret());
    watching.synced().await;
    next(&log, &format!("{case}/s initial -100")).await;
    client.create(&secrets(), &named(case, "t")).await.unwrap();
    next(&log, &format!("{case}/t watched object changed 0")).await;
    assert_eq!(engine.informers().states().len(), 2);
    drop(watching);
    until("unwatched", || engine.informers().states().len() == 1).await;
    client.create(&secrets(), &named(case, "u")).await.unwrap();
    tokio::time::sleep(place.a_while()).await;
    assert!(take(&log).is_empty(), "nobody listens any more");
    handle.watch(secret()).keep();
    until("all three", || log.lock().unwrap().len() == 3).await;
    engine.stop().await;
    handle.poke(ObjectKey::new(case, "a"));
}

#[tokio::test(start_paused = true)]
async fn sources_come_and_go_while_a_controller_runs() {
    sources_come_and_go(&Place::in_process().await, "sources").await;
}

/// A kind that is missing is waited for, ends a controller, or is done without; then it comes.
pub(crate) async fn a_kind_is_missing(place: &Place, case: &str) {
    let client = place.client(&place.world()).await;
    namespace(&client, case).await;
    let ((engine, metrics), log) = (engine(&client), Log::default());
    let build = |name: &str, missing| {
        let builder = Controller::builder(name).for_(of(case)).watches(widgets(), Mapping::own()).when_missing(missing);
        builder.run(noting(&log)).unwrap()
    };
    client.create(&maps(), &named(case, "a")).await.unwrap();
    engine.add(build("fail", WhenMissing::Fail)).unwrap();
    let began = Instant::now();
    let error = engine.failure().await;
    assert!(began.elapsed() < Duration::from_secs(1), "at once");
    let text = "controller \"fail\" cannot listen to widgets.test.dev: the server does not know this kind";
    assert_eq!(error.to_string(), text);
    assert!(take(&log).is_empty(), "its workers never began");
    engine.add(build("wait", WhenMissing::Wait)).unwrap();
    tokio::time::sleep(place.a_while()).await;
    assert!(take(&log).is_empty(), "its workers wait");
    assert!(metrics.text().contains("concert_controller_waiting_sources{controller=\"wait\"} 1"), "{}", metrics.text());
    let states = engine.list();
    assert_eq!(states[1].waits_for, ["widgets.test.dev: the server does not know this kind"]);
    engine.add(build("optional", WhenMissing::Optional)).unwrap();
    let initial = format!("{case}/a initial -100");
    next(&log, &initial).await;
    define_widgets(&client).await;
    next(&log, &initial).await;
    let mut widget = named(case, "w");
    (widget["apiVersion"], widget["kind"]) = ("test.dev/v1".into(), "Widget".into());
    client.create(&widgets(), &widget).await.unwrap();
    until("both are told", || log.lock().unwrap().len() == 2).await;
    engine.stop().await;
    let gvk = concert_api::Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions = concert_runtime::Resource::cluster(gvk, "customresourcedefinitions");
    client.delete(&definitions, &ObjectKey::cluster("widgets.test.dev"), &Default::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_waited_for_or_fatal_or_optional() {
    a_kind_is_missing(&Place::in_process().await, "missing").await;
}

/// Lists of secrets are refused, or never answered.
#[derive(Debug)]
struct NoSecrets(Verdict);

impl Gate for NoSecrets {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        if call.key.contains("secrets") { self.0.clone() } else { Verdict::Pass }
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_never_complete_is_named_with_its_cause() {
    let gate = Arc::new(NoSecrets(Verdict::Delay(Duration::from_secs(3600))));
    let client = Server::new().await.client(&World { gate, ..World::simulated(1) });
    let ((engine, _), log) = (engine(&client), Log::default());
    let builder = Controller::builder("c").for_(maps()).watches(secrets(), Mapping::own());
    let builder = builder.when_missing(WhenMissing::Fail).sync_timeout(Duration::from_secs(7));
    engine.add(builder.run(noting(&log)).unwrap()).unwrap();
    let began = Instant::now();
    let ControllerError::Source { source_name, why, .. } = engine.failure().await else { panic!("another failure") };
    assert_eq!((source_name.as_str(), why.as_str()), ("secrets metadata", "it was still being listed after 7s"));
    assert_eq!(began.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_resync_looks_at_everything_again_without_haste_and_is_known_as_such() {
    let client = Server::new().await.client(&World::simulated(1));
    let ((engine, _), log, quiet) = (engine(&client), Log::default(), Log::default());
    for n in 0..10 {
        client.create(&maps(), &map(&format!("m{n}"), "1")).await.unwrap();
    }
    let hour = Duration::from_secs(3600);
    let builder = Controller::builder("c").for_(maps()).resync(hour);
    engine
        .add(builder.when(Predicate::new(|change| change.origin != Origin::Initial)).run(noting(&log)).unwrap())
        .unwrap();
    let builder = Controller::builder("quiet").for_(maps()).resync(hour).when(Predicate::generation_changed());
    engine.add(builder.run(noting(&quiet)).unwrap()).unwrap();
    tokio::time::sleep(hour / 2).await;
    let half = take(&log);
    assert!((3..=7).contains(&half.len()), "spread over the hour: {half:?}");
    assert!(half.iter().all(|line| line.ends_with("resync -100")), "{half:?}");
    tokio::time::sleep(hour * 3 / 5).await;
    assert!(take(&log).len() + half.len() >= 10, "each object once");
    assert_eq!(take(&quiet).len(), 10, "the first list only: a predicate on changes drops a resync");
}

#[tokio::test(start_paused = true)]
async fn everything_is_looked_at_again_twice_a_day_unless_told_otherwise() {
    let client = Server::new().await.client(&World::simulated(1));
    let ((engine, _), [usual, late, never]) = (engine(&client), [Log::default(), Log::default(), Log::default()]);
    let in_default = || Scope::all(maps()).in_namespaces(["default"]);
    for n in 0..5 {
        client.create(&maps(), &map(&format!("m{n}"), "1")).await.unwrap();
    }
    let builder = |name: &str, log: &Log| (Controller::builder(name), noting(log));
    let (controller, reconciler) = builder("usual", &usual);
    engine.add(controller.for_(in_default()).run(reconciler).unwrap()).unwrap();
    let (controller, reconciler) = builder("never", &never);
    engine.add(controller.for_(in_default()).resync(Duration::ZERO).run(reconciler).unwrap()).unwrap();
    let (controller, reconciler) = builder("late", &late);
    engine.add(controller.on(Trigger::channel(&Channel::new(), Mapping::own())).run(reconciler).unwrap()).unwrap();
    let handle = engine.handle::<ObjectKey>("late").unwrap();
    handle.watch(Trigger::kind(in_default(), Mapping::own())).keep();
    let resyncs = |log: &Log| log.lock().unwrap().iter().filter(|line| line.ends_with("resync -100")).count();
    // Ten hours, a tenth more or less.
    tokio::time::sleep(Duration::from_secs(9 * 3600 * 3 / 5)).await;
    assert!((1..5).contains(&resyncs(&usual)) && (1..5).contains(&resyncs(&late)), "spread over the time");
    tokio::time::sleep(Duration::from_secs(11 * 3600 - 9 * 3600 * 3 / 5)).await;
    assert!((5..=6).contains(&resyncs(&usual)) && (5..=6).contains(&resyncs(&late)), "each object");
    assert_eq!(take(&never).len(), 5, "the first list only");
}

#[tokio::test(start_paused = true)]
async fn workers_begin_again_whatever_came_meanwhile() {
    let client = Server::new().await.client(&World::simulated(1));
    let ((engine, metrics), log) = (engine(&client), Log::default());
    engine.add(Controller::builder("c").for_(maps()).run(noting(&log)).unwrap()).unwrap();
    client.create(&maps(), &map("a", "1")).await.unwrap();
    next(&log, "default/a created 0").await;
    let handle = engine.handle::<ObjectKey>("c").unwrap();
    handle.watch(Trigger::kind(widgets(), Mapping::own())).keep();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(engine.list()[0].waits_for, Vec::<String>::new(), "workers do not wait for what is added later");
    assert!(metrics.text().contains("concert_controller_waiting_sources{controller=\"c\"} 0"));
    engine.stand_by();
    engine.at_rest().await;
    engine.go();
    next(&log, "default/a initial -100").await;
}

#[tokio::test(start_paused = true)]
async fn workers_begin_again_although_a_namespace_that_joined_is_forbidden() {
    let gate = Arc::new(Forbidden("/namespaces/late/"));
    let client = Server::new().await.client(&World { gate, ..World::simulated(1) });
    let ((engine, _), log) = (engine(&client), Log::default());
    let tenants = Namespaces::new("tenants", ["default"]);
    let scope = Scope::all(maps()).within(&tenants);
    engine.add(Controller::builder("c").for_(scope).run(noting(&log)).unwrap()).unwrap();
    client.create(&maps(), &map("a", "1")).await.unwrap();
    next(&log, "default/a created 0").await;
    tenants.set(["default", "late"]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    engine.stand_by();
    engine.at_rest().await;
    engine.go();
    next(&log, "default/a initial -100").await;
}

/// What is about a path is forbidden.
#[derive(Debug)]
struct Forbidden(&'static str);

impl Gate for Forbidden {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        if call.key.contains(self.0) { Verdict::Fail(403) } else { Verdict::Pass }
    }
}
