//! What a turn writes itself: its event starts no other turn, and never hides what somebody else wrote.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_runtime::{Controller, Mapping, Objects, Outcome, Patch, Scope, Trigger, reconcile_fn};
use concert_world::{Flow, Valve, World};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::controllers::engine;
use crate::embedded::Server;
use crate::{key, map, maps, until};

/// How the turn writes what is there already.
#[derive(Clone, Copy, Debug)]
enum Write {
    Apply,
    Patch,
    Locked,
    Replace,
}

async fn write(objects: &Objects<ConfigMap>, how: Write) {
    let same = json!({ "metadata": { "namespace": "default", "name": "a" }, "data": { "mine": "1" } });
    let read = objects.live().get(&key("a")).await.unwrap().unwrap();
    match how {
        Write::Apply => drop(objects.apply(&same, true).await.unwrap()),
        Write::Patch => drop(objects.patch(&key("a"), &Patch::raw_merge(same)).await.unwrap()),
        Write::Locked => {
            let version = read.metadata.resource_version.clone();
            let lock = json!([{ "op": "replace", "path": "/metadata/resourceVersion", "value": version }]);
            drop(objects.patch(&key("a"), &Patch::raw_json(lock)).await.unwrap());
        }
        Write::Replace => drop(objects.replace(&read).await.unwrap()),
    }
}

/// A turn reads from a cache that lags behind somebody else's write, and writes what changes nothing: the answer is that
/// write, but not the turn's own.
async fn a_write_that_changes_nothing(how: Write, event_first: bool) {
    let valve = Valve::by(|_| Flow::Deliver);
    let client = Server::new().await.client(&World { valve: valve.clone(), ..World::simulated(1) });
    let (engine, _) = engine(&client);
    let objects: Objects<ConfigMap> = engine.informers().objects();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, user, opened) = (Arc::clone(&seen), client.clone(), valve.clone());
    let reconciler = reconcile_fn(move |request| {
        let (log, user, opened, objects) = (Arc::clone(&log), user.clone(), opened.clone(), objects.within(&request));
        async move {
            let object = request.object().await?.unwrap().value().unwrap();
            log.lock().unwrap().push(object["data"]["a"].as_str().unwrap().to_owned());
            if object["data"]["a"] == "1" {
                opened.set(|_| Flow::Hold);
                user.merge_patch(&maps(), &request.key, &json!({ "data": { "a": "2" } }), None).await?;
                write(&objects, how).await;
                if event_first {
                    opened.set(|_| Flow::Deliver);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            Ok(Outcome::Done)
        }
    });
    let first = json!({ "metadata": { "namespace": "default", "name": "a" }, "data": { "mine": "1" } });
    client.objects::<ConfigMap>().apply(&first, true).await.unwrap();
    client.merge_patch(&maps(), &key("a"), &json!({ "data": { "a": "1" } }), None).await.unwrap();
    engine.add(Controller::builder("c").for_(maps()).run(reconciler).unwrap()).unwrap();
    until("the first turn", || !seen.lock().unwrap().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    valve.set(|_| Flow::Deliver);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*seen.lock().unwrap(), ["1", "2"], "{how:?}, event first: {event_first}");
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_swallows_nobody_elses_change() {
    for how in [Write::Apply, Write::Patch, Write::Locked, Write::Replace] {
        for event_first in [true, false] {
            a_write_that_changes_nothing(how, event_first).await;
        }
    }
}

/// What a turn changes with a lock, replaces or creates is its own.
#[tokio::test(start_paused = true)]
async fn what_can_only_be_its_own_starts_no_turn() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, _) = engine(&client);
    let objects: Objects<ConfigMap> = engine.informers().objects();
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = Arc::clone(&seen);
    let reconciler = reconcile_fn(move |request| {
        let (log, objects) = (Arc::clone(&log), objects.within(&request));
        async move {
            let Some(read) = request.object().await? else { return Ok(Outcome::Done) };
            let before: ConfigMap = read.decode().unwrap();
            log.lock().unwrap().push(read.value().unwrap()["data"]["a"].clone());
            let with = |at: &str| {
                let mut after = before.clone();
                after.data.get_or_insert_default().insert("b".into(), at.into());
                after
            };
            let merged = objects.patch(&request.key, &Patch::merge(&before, &with("1"))?.locked()?).await?.unwrap();
            let mut listed = with("2");
            listed.metadata.resource_version.clone_from(&merged.metadata.resource_version);
            let listed = objects.patch(&request.key, &Patch::json(&merged, &listed)?.locked()?).await?.unwrap();
            let mut replaced = with("3");
            replaced.metadata.resource_version.clone_from(&listed.metadata.resource_version);
            objects.replace(&replaced).await?;
            Ok(Outcome::Done)
        }
    });
    engine.add(Controller::builder("c").for_(maps()).run(reconciler).unwrap()).unwrap();
    client.create(&maps(), &map("a", "1")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*seen.lock().unwrap(), ["1"]);
    engine.stop().await;
}

/// Nor does what it applies or patches without a lock, as long as nobody else comes between; whether that makes an object or
/// changes it.
#[tokio::test(start_paused = true)]
async fn what_it_applies_in_step_with_its_cache_starts_no_turn() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, _) = engine(&client);
    let objects: Objects<Value> = engine.informers().objects_of(maps()).watched();
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = Arc::clone(&seen);
    let reconciler = reconcile_fn(move |request| {
        let (log, objects) = (Arc::clone(&log), objects.within(&request));
        async move {
            let Some(read) = request.object().await? else { return Ok(Outcome::Done) };
            let a = read.value().unwrap()["data"]["a"].clone();
            log.lock().unwrap().push(a.clone());
            let applied = |name: &str, a: &Value| json!({ "metadata": { "namespace": "default", "name": name }, "data": { "b": a } });
            objects.apply(&applied("a", &a), true).await?;
            objects.get(&request.key).await?;
            objects.patch(&request.key, &Patch::raw_merge(json!({ "data": { "c": a } }))).await?;
            objects.apply(&applied("child", &a), true).await?;
            Ok(Outcome::Done)
        }
    });
    let of_parent = Trigger::kind(Scope::one(maps(), &key("child")), Mapping::each(|_| vec![key("a")]));
    let controller = Controller::builder("c").for_(Scope::one(maps(), &key("a"))).on(of_parent);
    engine.add(controller.run(reconciler).unwrap()).unwrap();
    client.create(&maps(), &map("a", "1")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*seen.lock().unwrap(), ["1"]);
    client.merge_patch(&maps(), &key("a"), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*seen.lock().unwrap(), ["1", "2"]);
    engine.stop().await;
}

/// Turns of the controllers of a scope that see `1` write `2`, while the cache is told nothing, and want another turn.
async fn a_floor_below(scope: Scope, relabels: bool) -> (Vec<Value>, Duration, Duration) {
    let valve = Valve::by(|_| Flow::Deliver);
    let client = Server::new().await.client(&World { valve: valve.clone(), ..World::simulated(1) });
    let (engine, _) = engine(&client);
    let objects: Objects<Value> = client.objects_of(maps());
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (log, hold) = (Arc::clone(&seen), valve.clone());
    let reconciler = reconcile_fn(move |request| {
        let (log, hold, objects) = (Arc::clone(&log), hold.clone(), objects.within(&request));
        async move {
            let read = request.object().await?.map_or(Value::Null, |object| object.value().unwrap());
            log.lock().unwrap().push(read["data"]["a"].clone());
            if read["data"]["a"] != "1" {
                return Ok(Outcome::Done);
            }
            hold.set(|_| Flow::Hold);
            let mut after = read.clone();
            after["data"]["a"] = "2".into();
            if relabels {
                after["metadata"]["labels"]["tier"] = "db".into();
            }
            objects.patch(&request.key, &Patch::merge(&read, &after)?.locked()?).await?;
            Ok(Outcome::After(Duration::ZERO))
        }
    });
    engine.add(Controller::builder("c").for_(scope).run(reconciler).unwrap()).unwrap();
    let labels = json!({ "tier": "web" });
    let map = json!({ "metadata": { "namespace": "default", "name": "a", "labels": labels }, "data": { "a": "1" } });
    let began = tokio::time::Instant::now();
    client.create(&maps(), &map).await.unwrap();
    until("two turns", || seen.lock().unwrap().len() == 2).await;
    let waited = began.elapsed();
    valve.set(|_| Flow::Deliver);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let began = tokio::time::Instant::now();
    engine.poke("c", key("a"));
    until("a third turn", || seen.lock().unwrap().len() >= 3).await;
    let again = began.elapsed();
    engine.stop().await;
    // What leaves one part and comes into another may be told as gone in between, which starts one more.
    let seen = seen.lock().unwrap()[..3].to_vec();
    (seen, waited, again)
}

/// Whatever a source selects: the next turn of a key sees what the last one wrote.
#[tokio::test(start_paused = true)]
async fn a_turn_sees_its_last_write_whatever_its_source_selects() {
    let web = || Scope::all(maps()).labelled("tier=web");
    let scopes = [
        ("labels", web()),
        ("namespace and labels", web().in_namespaces(["default"])),
        ("one", Scope::one(maps(), &key("a"))),
        ("fields", Scope::all(maps()).with_fields("metadata.namespace!=other,metadata.name=a")),
        ("two that overlap", web().or(|all| all.labelled("tier=cache"))),
    ];
    for (name, scope) in scopes {
        let (seen, waited, again) = a_floor_below(scope, false).await;
        assert_eq!(seen, ["1", "2", "2"], "{name}");
        assert!(waited >= Duration::from_secs(2) && again < Duration::from_secs(1), "{name}: {waited:?}, {again:?}");
    }
    for (name, scope) in [("labels", web()), ("two that overlap", web().or(|all| all.labelled("tier=cache")))] {
        let (seen, waited, again) = a_floor_below(scope, true).await;
        assert_eq!(seen[..2], [json!("1"), Value::Null], "{name}: it does not belong to it any more");
        assert!(waited >= Duration::from_secs(2) && again < Duration::from_secs(1), "{name}: {waited:?}, {again:?}");
    }
    // It moves from one part to the other.
    let (seen, waited, again) = a_floor_below(web().or(|all| all.labelled("tier=db")), true).await;
    assert_eq!(seen, ["1", "2", "2"]);
    assert!(waited >= Duration::from_secs(2) && again < Duration::from_secs(1), "{waited:?}, {again:?}");
}

/// Two sources tell of one write; neither starts a turn.
#[tokio::test(start_paused = true)]
async fn an_own_write_that_two_sources_tell_of_starts_no_turn() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, _) = engine(&client);
    let objects: Objects<Value> = client.objects_of(maps());
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = Arc::clone(&seen);
    let reconciler = reconcile_fn(move |request| {
        let (log, objects) = (Arc::clone(&log), objects.within(&request));
        async move {
            let Some(read) = request.object().await? else { return Ok(Outcome::Done) };
            let before = read.value().unwrap();
            log.lock().unwrap().push(before["data"]["a"].clone());
            if log.lock().unwrap().len() > 20 {
                return Ok(Outcome::Done);
            }
            let mut after = before.clone();
            after["data"]["turns"] = log.lock().unwrap().len().to_string().into();
            objects.patch(&request.key, &Patch::merge(&before, &after)?.locked()?).await?;
            Ok(Outcome::Done)
        }
    });
    let labelled = Trigger::kind(Scope::all(maps()).labelled("tier=web"), Mapping::own());
    engine.add(Controller::builder("c").for_(maps()).on(labelled).run(reconciler).unwrap()).unwrap();
    let labels = json!({ "tier": "web" });
    let map = json!({ "metadata": { "namespace": "default", "name": "a", "labels": labels }, "data": { "a": "1" } });
    client.create(&maps(), &map).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = seen.lock().unwrap().len();
    assert!(before <= 2, "{before} turns: two sources tell that it was created");
    engine.poke("c", key("a"));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(seen.lock().unwrap().len(), before + 1);
    engine.stop().await;
}
