//! What a turn writes itself: its event starts no other turn, and never hides what somebody else wrote.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::ObjectKey;
use concert_runtime::{Controller, Mapping, Objects, Outcome, Patch, Scope, Trigger, reconcile_fn};
use concert_world::{Flow, Valve, World};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::controllers::engine;
use crate::place::{Place, namespace};
use crate::{maps, until};

/// The maps of a case.
fn of(case: &str) -> Scope {
    Scope::all(maps()).in_namespaces([case])
}

/// The map that turns are about.
fn a(case: &str) -> ObjectKey {
    ObjectKey::new(case, "a")
}

fn is_a(key: &ObjectKey) -> bool {
    &*key.name == "a"
}

fn labelled(case: &str, tier: &str) -> Value {
    let labels = json!({ "tier": format!("{case}-{tier}") });
    json!({ "metadata": { "namespace": case, "name": "a", "labels": labels }, "data": { "a": "1" } })
}

/// How the turn writes what is there already.
#[derive(Clone, Copy, Debug)]
enum Write {
    Apply,
    Patch,
    Locked,
    Replace,
}

async fn write(objects: &Objects<ConfigMap>, case: &str, how: Write) {
    let same = json!({ "metadata": { "namespace": case, "name": "a" }, "data": { "mine": "1" } });
    let read = objects.live().get(&a(case)).await.unwrap().unwrap();
    match how {
        Write::Apply => drop(objects.apply(&same, true).await.unwrap()),
        Write::Patch => drop(objects.patch(&a(case), &Patch::raw_merge(same)).await.unwrap()),
        Write::Locked => {
            let version = read.metadata.resource_version.clone();
            let lock = json!([{ "op": "replace", "path": "/metadata/resourceVersion", "value": version }]);
            drop(objects.patch(&a(case), &Patch::raw_json(lock)).await.unwrap());
        }
        Write::Replace => drop(objects.replace(&read).await.unwrap()),
    }
}

/// A turn reads from a cache that lags behind somebody else's write, and writes what changes nothing: the answer is that
/// write, but not the turn's own.
async fn a_write_that_changes_nothing(place: &Place, case: &str, how: Write, event_first: bool) {
    let valve = Valve::by(|_| Flow::Deliver);
    let client = place.client(&World { valve: valve.clone(), ..place.world() }).await;
    namespace(&client, case).await;
    let (engine, _) = engine(&client);
    let objects: Objects<ConfigMap> = engine.informers().objects_in(of(case));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (log, user, opened, own) = (Arc::clone(&seen), client.clone(), valve.clone(), case.to_owned());
    let reconciler = reconcile_fn(move |request| {
        let (log, user, opened, objects) = (Arc::clone(&log), user.clone(), opened.clone(), objects.within(&request));
        let case = own.clone();
        async move {
            // A server may put others there.
            let Some(object) = request.object().await?.filter(|_| is_a(&request.key)) else { return Ok(Outcome::Done) };
            let object = object.value().unwrap();
            log.lock().unwrap().push(object["data"]["a"].as_str().unwrap().to_owned());
            if object["data"]["a"] == "1" {
                opened.set(|_| Flow::Hold);
                user.merge_patch(&maps(), &request.key, &json!({ "data": { "a": "2" } }), None).await?;
                write(&objects, &case, how).await;
                if event_first {
                    opened.set(|_| Flow::Deliver);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            Ok(Outcome::Done)
        }
    });
    let first = json!({ "metadata": { "namespace": case, "name": "a" }, "data": { "mine": "1" } });
    client.objects::<ConfigMap>().apply(&first, true).await.unwrap();
    client.merge_patch(&maps(), &a(case), &json!({ "data": { "a": "1" } }), None).await.unwrap();
    engine.add(Controller::builder("c").for_(of(case)).run(reconciler).unwrap()).unwrap();
    until("the first turn", || !seen.lock().unwrap().is_empty()).await;
    // As long as its last write is waited for, and more.
    tokio::time::sleep(Duration::from_secs(5)).await;
    valve.set(|_| Flow::Deliver);
    tokio::time::sleep(place.a_while()).await;
    assert_eq!(*seen.lock().unwrap(), ["1", "2"], "{how:?}, event first: {event_first}");
    engine.stop().await;
}

/// However it is written, and whichever comes first.
pub(crate) async fn writes_that_change_nothing(place: &Place, case: &str) {
    let ways = [Write::Apply, Write::Patch, Write::Locked, Write::Replace];
    let all = ways.into_iter().flat_map(|how| [(how, true), (how, false)]).enumerate();
    join_all(all.map(|(n, (how, event_first))| async move {
        a_write_that_changes_nothing(place, &format!("{case}-{n}"), how, event_first).await;
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_swallows_nobody_elses_change() {
    writes_that_change_nothing(&Place::in_process().await, "nothing").await;
}

/// What a turn changes with a lock, replaces or creates is its own.
pub(crate) async fn what_can_only_be_its_own(place: &Place, case: &str) {
    let client = place.client(&place.world()).await;
    namespace(&client, case).await;
    let (engine, _) = engine(&client);
    let objects: Objects<ConfigMap> = engine.informers().objects_in(of(case));
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = Arc::clone(&seen);
    let reconciler = reconcile_fn(move |request| {
        let (log, objects) = (Arc::clone(&log), objects.within(&request));
        async move {
            let Some(read) = request.object().await?.filter(|_| is_a(&request.key)) else { return Ok(Outcome::Done) };
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
    engine.add(Controller::builder("c").for_(of(case)).run(reconciler).unwrap()).unwrap();
    client.create(&maps(), &labelled(case, "web")).await.unwrap();
    until("a turn", || !seen.lock().unwrap().is_empty()).await;
    tokio::time::sleep(place.a_while()).await;
    assert_eq!(*seen.lock().unwrap(), ["1"]);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_can_only_be_its_own_starts_no_turn() {
    what_can_only_be_its_own(&Place::in_process().await, "own").await;
}

/// Nor does what it applies or patches without a lock, as long as nobody else comes between; whether that makes an object or
/// changes it.
pub(crate) async fn what_it_applies_in_step(place: &Place, case: &str) {
    let client = place.client(&place.world()).await;
    namespace(&client, case).await;
    let (engine, _) = engine(&client);
    let objects: Objects<Value> = engine.informers().objects_of(maps()).watched();
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = Arc::clone(&seen);
    let reconciler = reconcile_fn(move |request| {
        let (log, objects) = (Arc::clone(&log), objects.within(&request));
        async move {
            let Some(read) = request.object().await?.filter(|_| is_a(&request.key)) else { return Ok(Outcome::Done) };
            let a = read.value().unwrap()["data"]["a"].clone();
            log.lock().unwrap().push(a.clone());
            // It is in step if its cache has seen as much as that of the controller.
            objects.cache().unwrap().reaches(&request.key.namespace, read.revision().unwrap()).await;
            let namespace = &request.key.namespace;
            let applied = |name: &str, a: &Value| json!({ "metadata": { "namespace": &**namespace, "name": name }, "data": { "b": a } });
            objects.apply(&applied("a", &a), true).await?;
            objects.get(&request.key).await?;
            objects.patch(&request.key, &Patch::raw_merge(json!({ "data": { "c": a } }))).await?;
            objects.apply(&applied("child", &a), true).await?;
            Ok(Outcome::Done)
        }
    });
    let parent = a(case);
    let of_parent =
        Trigger::kind(Scope::one(maps(), &ObjectKey::new(case, "child")), Mapping::each(move |_| vec![parent.clone()]));
    let controller = Controller::builder("c").for_(Scope::one(maps(), &a(case))).on(of_parent);
    engine.add(controller.run(reconciler).unwrap()).unwrap();
    client.create(&maps(), &labelled(case, "web")).await.unwrap();
    until("a turn", || !seen.lock().unwrap().is_empty()).await;
    tokio::time::sleep(place.a_while()).await;
    assert_eq!(*seen.lock().unwrap(), ["1"]);
    client.merge_patch(&maps(), &a(case), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    until("another", || seen.lock().unwrap().len() > 1).await;
    tokio::time::sleep(place.a_while()).await;
    assert_eq!(*seen.lock().unwrap(), ["1", "2"]);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_it_applies_in_step_with_its_cache_starts_no_turn() {
    what_it_applies_in_step(&Place::in_process().await, "step").await;
}

/// Turns of the controllers of a scope that see `1` write `2`, while the cache is told nothing, and want another turn.
async fn a_floor_below(place: &Place, case: &str, scope: Scope, relabels: bool) -> (Vec<Value>, Duration, Duration) {
    let valve = Valve::by(|_| Flow::Deliver);
    let client = place.client(&World { valve: valve.clone(), ..place.world() }).await;
    namespace(&client, case).await;
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
                after["metadata"]["labels"]["tier"] = format!("{}-db", request.key.namespace).into();
            }
            objects.patch(&request.key, &Patch::merge(&read, &after)?.locked()?).await?;
            Ok(Outcome::After(Duration::ZERO))
        }
    });
    engine.add(Controller::builder("c").for_(scope).run(reconciler).unwrap()).unwrap();
    let began = tokio::time::Instant::now();
    client.create(&maps(), &labelled(case, "web")).await.unwrap();
    until("two turns", || seen.lock().unwrap().len() == 2).await;
    let waited = began.elapsed();
    valve.set(|_| Flow::Deliver);
    tokio::time::sleep(place.a_while()).await;
    let began = tokio::time::Instant::now();
    engine.poke("c", a(case));
    until("a third turn", || seen.lock().unwrap().len() >= 3).await;
    let again = began.elapsed();
    engine.stop().await;
    // What leaves one part and comes into another may be told as gone in between, which starts one more.
    let seen = seen.lock().unwrap()[..3].to_vec();
    (seen, waited, again)
}

/// Its name, what a controller is for, and whether its turn relabels the object.
type Floor<'a> = (&'a str, &'a dyn Fn(&str) -> Scope, bool);

/// Whatever a source selects: the next turn of a key sees what the last one wrote.
pub(crate) async fn floors_of_all_scopes(place: &Place, case: &str) {
    let tier = |case: &str, tier: &str| format!("tier={case}-{tier}");
    let web = |case: &str| Scope::all(maps()).labelled(tier(case, "web"));
    let two = |case: &str, other: &str| web(case).or(|all| all.labelled(tier(case, other)));
    let fields = |case: &str| Scope::all(maps()).with_fields(format!("metadata.namespace={case},metadata.name=a"));
    let cases: [Floor<'_>; 8] = [
        ("labels", &web, false),
        ("both", &|case| web(case).in_namespaces([case]), false),
        ("one", &|case| Scope::one(maps(), &a(case)), false),
        ("fields", &fields, false),
        ("overlap", &|case| two(case, "cache"), false),
        ("labels-left", &web, true),
        ("overlap-left", &|case| two(case, "cache"), true),
        ("moved", &|case| two(case, "db"), true),
    ];
    join_all(cases.map(|(name, scope, relabels)| async move {
        let case = format!("{case}-{name}");
        let (seen, waited, again) = a_floor_below(place, &case, scope(&case), relabels).await;
        // Who was relabelled does not belong to it any more, unless it moved from one part to the other.
        let sees = if name.ends_with("left") { Value::Null } else { json!("2") };
        assert_eq!(seen[..2], [json!("1"), sees.clone()], "{name}");
        assert!(seen[2] == sees || relabels, "{name}: {seen:?}");
        assert!(waited >= Duration::from_secs(2) && again < Duration::from_secs(1), "{name}: {waited:?}, {again:?}");
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_sees_its_last_write_whatever_its_source_selects() {
    floors_of_all_scopes(&Place::in_process().await, "floor").await;
}

/// Two sources tell of one write; neither starts a turn.
pub(crate) async fn an_own_write_of_two_sources(place: &Place, case: &str) {
    let client = place.client(&place.world()).await;
    namespace(&client, case).await;
    let (engine, _) = engine(&client);
    let objects: Objects<Value> = client.objects_of(maps());
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = Arc::clone(&seen);
    let reconciler = reconcile_fn(move |request| {
        let (log, objects) = (Arc::clone(&log), objects.within(&request));
        async move {
            let Some(read) = request.object().await?.filter(|_| is_a(&request.key)) else { return Ok(Outcome::Done) };
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
    let web = Trigger::kind(Scope::all(maps()).labelled(format!("tier={case}-web")), Mapping::own());
    engine.add(Controller::builder("c").for_(of(case)).on(web).run(reconciler).unwrap()).unwrap();
    client.create(&maps(), &labelled(case, "web")).await.unwrap();
    until("a turn", || !seen.lock().unwrap().is_empty()).await;
    tokio::time::sleep(place.a_while()).await;
    let before = seen.lock().unwrap().len();
    assert!(before <= 2, "{before} turns: two sources tell that it was created");
    engine.poke("c", a(case));
    until("one more", || seen.lock().unwrap().len() > before).await;
    tokio::time::sleep(place.a_while()).await;
    assert_eq!(seen.lock().unwrap().len(), before + 1);
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_own_write_that_two_sources_tell_of_starts_no_turn() {
    an_own_write_of_two_sources(&Place::in_process().await, "two").await;
}
