//! Controllers: what starts a reconcile, and what its end means.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::{Object, ObjectKey};
use concert_runtime::{
    Backoff, BuildError, Client, Controller, Engine, EngineError, Informers, Mapping, Metrics, Outcome, Predicate,
    ReconcileError, Reconciler, Request, reconcile_fn,
};
use concert_world::{Flow, Valve, World};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::embedded::Server;
use crate::{define_widgets, key, map, maps, secrets, until, widgets};

/// What reconciles were asked for, and what they saw.
type Log = Arc<Mutex<Vec<String>>>;

pub(crate) fn engine(client: &Client) -> (Engine, Metrics) {
    let metrics = Metrics::new();
    let engine = Engine::new(Informers::new(client.clone()), metrics.clone());
    engine.go();
    (engine, metrics)
}

fn logging(log: &Log, prefix: &str) -> impl Reconciler + use<> {
    let (log, prefix) = (Arc::clone(log), prefix.to_owned());
    reconcile_fn(move |request| {
        let (log, prefix) = (Arc::clone(&log), prefix.clone());
        async move {
            if request.key.name.starts_with(&prefix) {
                let data = request.object().await?.map(|object| object.value().unwrap()["data"]["a"].clone());
                let seen = data.map_or_else(|| "gone".to_owned(), |data| data.as_str().unwrap_or_default().to_owned());
                log.lock().unwrap().push(format!("{} {seen}: {}", request.key.name, request.reason));
            }
            Ok(Outcome::Done)
        }
    })
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

/// Creation, change and deletion of an object and of what it owns each start a reconcile.
pub(crate) async fn changes_start_reconciles(client: &Client, prefix: &str) {
    let log = Log::default();
    let name = format!("{prefix}-x");
    let (engine, _) = engine(client);
    client.create(&maps(), &map(&name, "1")).await.unwrap();
    let controller = Controller::builder("maps").for_(maps()).owns(secrets()).run(logging(&log, prefix)).unwrap();
    engine.add(controller).unwrap();
    let next = |expected: String| {
        let log = Arc::clone(&log);
        async move {
            until(&expected, || !log.lock().unwrap().is_empty()).await;
            assert_eq!(take(&log), [expected]);
        }
    };
    next(format!("{name} 1: initial")).await;
    let changed = client.merge_patch(&maps(), &key(&name), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    next(format!("{name} 2: updated")).await;
    client.create(&secrets(), &owned_by(&changed)).await.unwrap();
    next(format!("{name} 2: owned object changed")).await;
    client.delete(&secrets(), &key(&format!("{name}-child")), &Default::default()).await.unwrap();
    next(format!("{name} 2: owned object changed")).await;
    client.delete(&maps(), &key(&name), &Default::default()).await.unwrap();
    next(format!("{name} gone: deleted")).await;
    engine.stop().await;
}

fn owned_by(owner: &Object) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "namespace": "default", "name": format!("{}-child", owner.name()),
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name(), "uid": owner.uid(), "controller": true,
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn every_change_starts_a_reconcile() {
    changes_start_reconciles(&Server::new().await.client(&World::simulated(1)), "a").await;
}

#[tokio::test(start_paused = true)]
async fn predicates_and_mappings_decide_what_matters() {
    let (log, client) = (Log::default(), Server::new().await.client(&World::simulated(1)));
    let (engine, _) = engine(&client);
    let follow = Mapping::each(|object| vec![ObjectKey::new("default", object.labels()["for"].as_str())]);
    let controller = Controller::builder("c").watches(maps(), follow).when(Predicate::labels_changed());
    engine.add(controller.run(logging(&log, "")).unwrap()).unwrap();
    let mut object = map("x", "1");
    object["metadata"]["labels"] = json!({ "for": "one" });
    client.create(&maps(), &object).await.unwrap();
    until("the first", || !log.lock().unwrap().is_empty()).await;
    client.merge_patch(&maps(), &key("x"), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    let patch = json!({ "metadata": { "labels": { "for": "two" } } });
    client.merge_patch(&maps(), &key("x"), &patch, None).await.unwrap();
    until("old and new", || log.lock().unwrap().len() == 3).await;
    let names: Vec<String> = take(&log).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["one", "one", "two"], "the change of data did not matter");
}

/// Ends every turn as it is told, and notes when turns began.
struct Scripted<F>(F, Mutex<Vec<(ObjectKey, Duration, u32)>>, Instant);

impl<F: Fn(u32) -> Result<Outcome, ReconcileError> + Send + Sync + 'static> Reconciler for Scripted<F> {
    async fn reconcile(&self, request: &Request) -> Result<Outcome, ReconcileError> {
        self.1.lock().unwrap().push((request.key.clone(), self.2.elapsed(), request.attempt));
        (self.0)(request.attempt)
    }
}

async fn turns(
    script: impl Fn(u32) -> Result<Outcome, ReconcileError> + Send + Sync + 'static,
    count: usize,
) -> (Vec<u64>, String) {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, metrics) = engine(&client);
    let scripted = Arc::new(Scripted(script, Mutex::default(), Instant::now()));
    let controller = Controller::builder("c").for_(maps()).backoff(Duration::from_secs(1), Duration::from_secs(60));
    engine.add(controller.timeout(Duration::from_secs(300)).run(Arc::clone(&scripted)).unwrap()).unwrap();
    client.create(&maps(), &map("a", "1")).await.unwrap();
    tokio::time::timeout(Duration::from_secs(3600), async {
        while scripted.1.lock().unwrap().len() < count {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let turns = scripted.1.lock().unwrap();
    let gaps = turns.windows(2).take(count - 1).map(|pair| (pair[1].1 - pair[0].1).as_secs());
    (gaps.collect(), metrics.text())
}

#[tokio::test(start_paused = true)]
async fn failures_wait_longer_each_time_and_panics_are_fenced() {
    let script = |attempt| match attempt {
        0 => Err(ReconcileError::retry("one")),
        1 => panic!("two"),
        2 => Ok(Outcome::Backoff),
        3 => Err(ReconcileError::retry("four").after(Duration::from_secs(50))),
        _ => Ok(Outcome::Done),
    };
    let (gaps, metrics) = turns(script, 5).await;
    assert_eq!(gaps, [1, 2, 4, 50]);
    for line in [
        "controller_runtime_reconcile_total{controller=\"c\",result=\"error\"} 3",
        "controller_runtime_reconcile_total{controller=\"c\",result=\"requeue\"} 1",
        "controller_runtime_reconcile_total{controller=\"c\",result=\"success\"} 1",
        "controller_runtime_reconcile_panics_total{controller=\"c\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is missing in:\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_not_tried_again_and_a_conflict_is_quiet() {
    let (gaps, metrics) = turns(|_| Err(ReconcileError::terminal("no")), 1).await;
    assert!(gaps.is_empty() && metrics.contains("terminal_reconcile_errors_total{controller=\"c\"} 1"), "{metrics}");
    let turn = AtomicUsize::new(0);
    let conflict = move |attempt| {
        assert_eq!(attempt, 0, "conflicts are no failures");
        match turn.fetch_add(1, Ordering::SeqCst) {
            0..3 => Err(ReconcileError::conflict("busy")),
            _ => Ok(Outcome::Done),
        }
    };
    let (gaps, metrics) = turns(conflict, 4).await;
    assert_eq!(gaps, [0, 0, 0], "at once");
    for line in [
        "controller_runtime_reconcile_errors_total{controller=\"c\"} 0",
        "controller_runtime_reconcile_total{controller=\"c\",result=\"error\"} 0",
        "controller_runtime_reconcile_total{controller=\"c\",result=\"requeue\"} 3",
        "concert_reconcile_conflicts_total{controller=\"c\"} 3",
        "concert_workqueue_backoffs_total{name=\"c\",controller=\"c\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is missing in:\n{metrics}");
    }
}

/// A conflict that a program wraps in an error of its own.
#[derive(Debug, thiserror::Error)]
#[error("cannot save")]
struct Wrapped(#[source] concert_runtime::ApiError);

#[tokio::test(start_paused = true)]
async fn a_conflict_after_a_lost_event_is_solved_by_reading_live() {
    let valve = Valve::by(|_| Flow::Deliver);
    let client = Server::new().await.client(&World { valve: valve.clone(), ..World::simulated(1) });
    let (engine, metrics) = engine(&client);
    client.create(&maps(), &map("a", "1")).await.unwrap();
    let objects = engine.informers().objects_of(maps());
    let log = Log::default();
    let (writer, seen) = (client.clone(), Arc::clone(&log));
    let reconciler = reconcile_fn(move |request| {
        let (writer, seen, objects) = (writer.clone(), Arc::clone(&seen), objects.clone());
        async move {
            let own = request.object().await?.unwrap().value().unwrap();
            let read = objects.within(&request).get(&request.key).await?.unwrap();
            assert_eq!(own["metadata"]["resourceVersion"], read["metadata"]["resourceVersion"]);
            seen.lock().unwrap().push(own["data"]["a"].as_str().unwrap().to_owned());
            if own["data"]["a"] == "1" && seen.lock().unwrap().len() == 1 {
                return Ok(Outcome::Done);
            }
            let mut wanted = own;
            wanted["data"]["b"] = "done".into();
            let saved = writer.replace(&maps(), &wanted, None).await;
            saved.map_err(|error| ReconcileError::retry(Wrapped(error)))?;
            Ok(Outcome::Done)
        }
    });
    engine.add(Controller::builder("c").for_(maps()).run(reconciler).unwrap()).unwrap();
    until("the first turn", || log.lock().unwrap().len() == 1).await;
    valve.set(|_| Flow::Drop);
    client.merge_patch(&maps(), &key("a"), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    engine.poke("c", key("a"));
    until("a turn that reads live", || log.lock().unwrap().len() == 4).await;
    assert_eq!(take(&log), ["1", "1", "1", "2"], "the cache is believed twice");
    let saved = client.get(&maps(), &key("a")).await.unwrap().unwrap();
    until("saved", || metrics.text().contains("result=\"success\"} 2")).await;
    assert_eq!(
        client.get(&maps(), &key("a")).await.unwrap().unwrap().value().unwrap()["data"]["b"],
        "done",
        "{saved:?}"
    );
    assert!(metrics.text().contains("concert_reconcile_conflicts_total{controller=\"c\"} 2"));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_reconcile_is_cut_and_polls_come_back() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, metrics) = engine(&client);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let reconciler = reconcile_fn(move |_| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            if call == 0 {
                std::future::pending::<()>().await;
            }
            Ok(Outcome::After(Duration::from_secs(60)))
        }
    });
    let controller = Controller::builder("c").for_(maps()).timeout(Duration::from_secs(5)).run(reconciler).unwrap();
    engine.add(controller).unwrap();
    client.create(&maps(), &map("a", "1")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5 + 60 * 10 + 1)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 12);
    assert!(metrics.text().contains("reconcile_timeouts_total{controller=\"c\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn keys_run_side_by_side_but_never_with_themselves() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, _) = engine(&client);
    let running: Arc<Mutex<Vec<ObjectKey>>> = Arc::default();
    let most = Arc::new(AtomicUsize::new(0));
    let (busy, peak) = (Arc::clone(&running), Arc::clone(&most));
    let reconciler = reconcile_fn(move |request| {
        let (busy, peak) = (Arc::clone(&busy), Arc::clone(&peak));
        async move {
            {
                let mut busy = busy.lock().unwrap();
                assert!(!busy.contains(&request.key), "twice at a time");
                busy.push(request.key.clone());
                peak.fetch_max(busy.len(), Ordering::SeqCst);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            busy.lock().unwrap().retain(|key| *key != request.key);
            Ok(Outcome::Done)
        }
    });
    engine.add(Controller::builder("c").for_(maps()).workers(3).run(reconciler).unwrap()).unwrap();
    for round in 0..4 {
        for n in 0..6 {
            let name = format!("m{n}");
            let patch = json!({ "data": { "a": round.to_string() } });
            if round == 0 {
                client.create(&maps(), &map(&name, "0")).await.unwrap();
            } else {
                client.merge_patch(&maps(), &key(&name), &patch, None).await.unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert!(running.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_turn_never_starts_from_before_its_own_last_write() {
    let valve = Valve::by(|_| Flow::Deliver);
    let world = World { valve: valve.clone(), ..World::simulated(1) };
    let client = Server::new().await.client(&world);
    let (engine, _) = engine(&client);
    let log = Log::default();
    let (writer, seen, held) = (client.clone(), Arc::clone(&log), valve.clone());
    let reconciler = reconcile_fn(move |request| {
        let (writer, seen, held) = (writer.clone(), Arc::clone(&seen), held.clone());
        async move {
            let object = request.object().await?.unwrap();
            let (data, before) = (object.value().unwrap()["data"]["a"].clone(), object.resource_version());
            seen.lock().unwrap().push(data.as_str().unwrap().to_owned());
            if data == "1" {
                held.set(|_| Flow::Hold);
                let patch = json!({ "metadata": { "resourceVersion": before }, "data": { "a": "2" } });
                request.wrote_upon(&before, &writer.merge_patch(&maps(), &request.key, &patch, None).await?);
                return Ok(Outcome::After(Duration::ZERO));
            }
            Ok(Outcome::Done)
        }
    });
    engine.add(Controller::builder("c").for_(maps()).run(reconciler).unwrap()).unwrap();
    let began = Instant::now();
    client.create(&maps(), &map("a", "1")).await.unwrap();
    until("two turns", || log.lock().unwrap().len() == 2).await;
    assert_eq!(take(&log), ["1", "2"], "the cache lags, so the second turn reads live");
    assert!(began.elapsed() >= Duration::from_secs(2), "after having waited for the cache");
    valve.set(|_| Flow::Deliver);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(take(&log).is_empty(), "the event of its own write starts no turn");
    client.merge_patch(&maps(), &key("a"), &json!({ "data": { "a": "3" } }), None).await.unwrap();
    until("somebody else's write", || !log.lock().unwrap().is_empty()).await;
    assert_eq!(take(&log), ["3"]);
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_write_during_a_turn_is_not_taken_for_its_own() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, _) = engine(&client);
    let log = Log::default();
    let (writer, seen) = (client.clone(), Arc::clone(&log));
    let reconciler = reconcile_fn(move |request| {
        let (writer, seen) = (writer.clone(), Arc::clone(&seen));
        async move {
            let data = request.object().await?.unwrap().value().unwrap()["data"]["a"].as_str().unwrap().to_owned();
            seen.lock().unwrap().push(data);
            let user = json!({ "data": { "a": "user" } });
            let user = writer.merge_patch(&maps(), &request.key, &user, None).await?;
            let (before, turns) = (user.resource_version(), seen.lock().unwrap().len().min(2).to_string());
            let ours = json!({ "metadata": { "resourceVersion": before, "annotations": { "turns": turns } } });
            request.wrote_upon(&before, &writer.merge_patch(&maps(), &request.key, &ours, None).await?);
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(Outcome::Done)
        }
    });
    engine.add(Controller::builder("c").for_(maps()).run(reconciler).unwrap()).unwrap();
    client.create(&maps(), &map("a", "1")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(take(&log), ["1", "user"], "a second turn for the user's write, none for ours");
}

#[tokio::test(start_paused = true)]
async fn controllers_come_and_go_without_disturbing_each_other() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, _) = engine(&client);
    let (one, two) = (Log::default(), Log::default());
    let build = |name: &str, log: &Log| Controller::builder(name).for_(maps()).run(logging(log, "")).unwrap();
    engine.add(build("one", &one)).unwrap();
    engine.add(Controller::builder("stuck").for_(widgets()).run(logging(&one, "")).unwrap()).unwrap();
    assert_eq!(engine.add(build("one", &two)), Err(EngineError::NameInUse("one".into())));
    client.create(&maps(), &map("a", "1")).await.unwrap();
    until("one works", || take(&one) == ["a 1: created"]).await;
    engine.add(build("two", &two)).unwrap();
    until("two is told what is there", || take(&two) == ["a 1: initial"]).await;
    assert!(engine.remove("one").await && !engine.remove("one").await);
    client.merge_patch(&maps(), &key("a"), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    until("two goes on", || take(&two) == ["a 2: updated"]).await;
    assert!(take(&one).is_empty());
    let states: Vec<_> = engine.list().into_iter().map(|state| (state.name.clone(), state.is_synced())).collect();
    assert_eq!(states, [("stuck".to_owned(), false), ("two".to_owned(), true)]);
    define_widgets(&client).await;
    until("no longer stuck", || engine.list()[0].is_synced()).await;
    assert!(engine.poke("two", key("a")));
    until("asked for", || take(&two) == ["a 2: asked for"]).await;
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_what_is_in_flight() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, _) = engine(&client);
    let finished = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&finished);
    let reconciler = reconcile_fn(move |_| {
        let count = Arc::clone(&count);
        async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            count.fetch_add(1, Ordering::SeqCst);
            Ok(Outcome::After(Duration::ZERO))
        }
    });
    engine.add(Controller::builder("c").for_(maps()).run(reconciler).unwrap()).unwrap();
    client.create(&maps(), &map("a", "1")).await.unwrap();
    client.create(&maps(), &map("b", "1")).await.unwrap();
    until("busy", || engine.busy() == ["c default/a"]).await;
    engine.stop().await;
    assert_eq!(finished.load(Ordering::SeqCst), 1, "the one in flight, and no other");
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let nothing = || reconcile_fn(|_| async { Ok(Outcome::Done) });
    let fault = |builder: concert_runtime::controller::Builder| builder.run(nothing()).unwrap_err();
    assert_eq!(fault(Controller::builder("c")), BuildError::NoSource("c".into()));
    assert_eq!(fault(Controller::builder("c").for_(maps()).for_(secrets())), BuildError::TwoKinds("c".into()));
    assert_eq!(fault(Controller::builder("c").owns(maps())), BuildError::OwnsWithoutFor("c".into()));
    assert_eq!(Backoff::default().wait(40), Duration::from_secs(1000));
}
