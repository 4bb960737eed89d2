//! Typed and dynamic objects: reads from the cache, writes to the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use concert_api::{Gvk, ObjectKey};
use concert_runtime::{
    Client, Controller, Deletion, Done, Informers, KindSettings, Narrowing, Objects, Outcome, Owner, Ownership, Patch,
    Resource, Scope, Selection, Selectors, reconcile_fn, set_owner,
};
use concert_world::{Call, Flow, Gate, Valve, Verdict, World};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use serde_json::{Value, json};

use crate::controllers::engine;
use crate::embedded::Server;
use crate::{key, map, maps, secrets};

fn typed(name: &str, data: &str) -> ConfigMap {
    serde_json::from_value(map(name, data)).unwrap()
}

fn says(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("a")).map_or("", String::as_str)
}

/// What a type can be asked to do, on any server.
pub(crate) async fn a_typed_life(client: &Client, prefix: &str) {
    let (name, informers) = (format!("{prefix}-typed"), Informers::new(client.clone()));
    let maps = informers.objects::<ConfigMap>().watched();
    let made = maps.create(&typed(&name, "1")).await.unwrap();
    assert_eq!(says(&maps.get(&key(&name)).await.unwrap().unwrap()), "1", "its own write, from the cache");
    let mut changed = made.clone();
    changed.data.as_mut().unwrap().insert("b".into(), "2".into());
    let patch = Patch::merge(&made, &changed).unwrap().locked().unwrap();
    let patched = maps.patch(&key(&name), &patch).await.unwrap().unwrap();
    assert_eq!(patched.data.as_ref().unwrap().len(), 2);
    let stale = maps.patch(&key(&name), &patch).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
    let mut other = made.clone();
    other.data.as_mut().unwrap().insert("c".into(), "3".into());
    let stale = maps.patch(&key(&name), &Patch::json(&made, &other).unwrap().locked().unwrap()).await.unwrap_err();
    assert!(stale.is_conflict(), "{stale}");
    assert!(maps.patch(&key(&name), &Patch::merge(&made, &made).unwrap()).await.unwrap().is_none());
    let mut changed = patched.clone();
    changed.data.as_mut().unwrap().remove("a");
    let by_places = Patch::json(&patched, &changed).unwrap();
    assert_eq!(maps.patch(&key(&name), &by_places).await.unwrap().unwrap().data.unwrap().len(), 1);
    let held = maps.get(&key(&name)).await.unwrap().unwrap();
    let held = maps.hold(&held, "test.dev/hold").await.unwrap().unwrap();
    assert!(maps.hold(&held, "test.dev/hold").await.unwrap().is_none());
    assert!(maps.delete(&key(&name), &Default::default()).await.unwrap());
    let going = maps.live().get(&key(&name)).await.unwrap().unwrap();
    assert!(going.metadata.deletion_timestamp.is_some());
    maps.release(&going, "test.dev/hold").await.unwrap().unwrap();
    assert!(maps.live().get(&key(&name)).await.unwrap().is_none());
    assert!(!maps.delete(&key(&name), &Default::default()).await.unwrap());
    informers.stop().await;
}

/// Applies own fields, and conflicts name whose they are.
pub(crate) async fn applies_own_fields(client: &Client, prefix: &str) {
    let name = format!("{prefix}-applied");
    let ours: Objects<ConfigMap> = client.objects();
    let theirs: Objects<Value> = client.clone().with_field_manager("theirs").objects_of(maps());
    let applied = ours.apply(&typed(&name, "1"), false).await.unwrap();
    assert_eq!(says(&applied), "1");
    let other = json!({ "metadata": { "namespace": "default", "name": name }, "data": { "a": "2", "b": null } });
    let conflict = theirs.apply(&other, false).await.unwrap_err();
    assert!(conflict.is_conflict() && conflict.to_string().contains(".data.a"), "{conflict}");
    assert_eq!(theirs.apply(&other, true).await.unwrap()["data"], json!({ "a": "2" }));
    let nothing = json!({ "metadata": { "namespace": "default", "name": name } });
    assert_eq!(theirs.apply(&nothing, false).await.unwrap()["data"], Value::Null, "what is not said any more goes");
    let this = Selection { namespace: "default".into(), fields: format!("metadata.name={name}"), ..Default::default() };
    ours.delete_all(&this, &Deletion::default()).await.unwrap();
    assert!(ours.get(&key(&name)).await.unwrap().is_none());
}

/// Create, change, leave alone; status apart from the rest; strategic patches of lists.
pub(crate) async fn creates_or_updates(client: &Client, prefix: &str) {
    let name = format!("{prefix}-web");
    let deployments: Objects<Deployment> = client.objects();
    let initial: Deployment = serde_json::from_value(json!({
        "metadata": { "namespace": "default", "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "image": "b:1" }] },
            },
        },
    }))
    .unwrap();
    let scale = |replicas: i32| move |it: &mut Deployment| it.spec.replicas = Some(replicas);
    let (made, done) = deployments.create_or_update(initial.clone(), scale(1)).await.unwrap();
    assert_eq!(done, Done::Created);
    assert_eq!(deployments.create_or_update(initial.clone(), scale(1)).await.unwrap().1, Done::Unchanged);
    let (scaled, done) = deployments.create_or_update(initial.clone(), scale(2)).await.unwrap();
    assert_eq!((done, scaled.spec.replicas), (Done::Updated, Some(2)));
    let renamed = deployments.create_or_update(initial, |it| it.metadata.name = Some("other".into())).await;
    assert!(renamed.unwrap_err().to_string().contains("it may not be renamed"));
    let mut image = scaled.clone();
    image.spec.template.spec.as_mut().unwrap().containers[1].image = Some("b:2".into());
    let patch = Patch::strategic(deployments.resource(), &scaled, &image).unwrap();
    assert_eq!(patch.body()["spec"]["template"]["spec"]["containers"], json!([{ "name": "b", "image": "b:2" }]));
    let patched = deployments.patch(&key(&name), &patch).await.unwrap().unwrap();
    assert_eq!(patched.spec.template.spec.unwrap().containers[1].image.as_deref(), Some("b:2"));
    let status = Patch::raw_merge(json!({ "status": { "observedGeneration": 7 }, "spec": { "replicas": 9 } }));
    let with_status = deployments.status().patch(&key(&name), &status).await.unwrap().unwrap();
    let seen = (with_status.status.unwrap().observed_generation, with_status.spec.replicas);
    assert_eq!(seen, (Some(7), Some(2)), "a status write changes nothing else");
    let scales = deployments.part::<Scale>("scale");
    let mut scale = (*scales.get(&key(&name)).await.unwrap().unwrap()).clone();
    assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(2));
    scale.spec.as_mut().unwrap().replicas = Some(5);
    assert_eq!(scales.replace(&scale).await.unwrap().spec.unwrap().replicas, Some(5));
    assert_eq!(deployments.get(&key(&name)).await.unwrap().unwrap().spec.replicas, Some(5));
    let accounts = client.objects::<ServiceAccount>();
    let account = json!({ "metadata": { "namespace": "default", "name": format!("{prefix}-robot") } });
    accounts.create(&serde_json::from_value(account.clone()).unwrap()).await.unwrap();
    let mut request = account;
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["kind"] = "TokenRequest".into();
    request["spec"] = json!({ "audiences": [], "expirationSeconds": 600 });
    let tokens = accounts.part::<TokenRequest>("token");
    let token = tokens.create(&serde_json::from_value(request).unwrap()).await.unwrap();
    assert!(!token.status.unwrap().token.unwrap_or_default().is_empty());
    let mut child = typed(&format!("{name}-child"), "1");
    set_owner(&mut child, &Owner::of(&made), Ownership::Controller).unwrap();
    let child = client.objects::<ConfigMap>().create(&child).await.unwrap();
    assert_eq!(child.metadata.owner_references.unwrap()[0].uid, made.metadata.uid.unwrap());
    for (key, part) in [(key(&name), "deployments"), (key(&format!("{name}-child")), "maps")] {
        let deleted = match part {
            "maps" => client.objects::<ConfigMap>().delete(&key, &Default::default()).await,
            _ => deployments.delete(&key, &Default::default()).await,
        };
        deleted.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_type_is_created_patched_held_and_deleted() {
    a_typed_life(&Server::new().await.client(&World::simulated(1)), "life").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_is_owned() {
    applies_own_fields(&Server::new().await.client(&World::simulated(1)), "own").await;
}

#[tokio::test(start_paused = true)]
async fn an_object_is_made_to_be_as_it_should() {
    creates_or_updates(&Server::new().await.client(&World::simulated(1)), "be").await;
}

/// The cache of Secrets has metadata only: whoever took that for a Secret would erase its data.
#[tokio::test(start_paused = true)]
async fn secrets_are_read_whole() {
    let client = Server::new().await.client(&World::simulated(1));
    let informers = Informers::new(client.clone());
    let secrets: Objects<k8s_openapi::api::core::v1::Secret> = informers.objects();
    let secret = json!({ "metadata": { "namespace": "default", "name": "s" }, "stringData": { "a": "1", "b": "2" } });
    secrets.create(&serde_json::from_value(secret).unwrap()).await.unwrap();
    let read = secrets.get(&key("s")).await.unwrap().unwrap();
    assert_eq!(read.data.as_ref().unwrap().len(), 2);
    let label =
        |it: &mut k8s_openapi::api::core::v1::Secret| it.metadata.labels = Some([("x".into(), "y".into())].into());
    let (written, done) = secrets.create_or_update((*read).clone(), label).await.unwrap();
    assert_eq!((written.data.unwrap().len(), done), (2, Done::Updated));
}

#[tokio::test(start_paused = true)]
async fn handles_of_one_cache_see_each_others_writes() {
    let client = Server::new().await.client(&World::simulated(1));
    let informers = Informers::new(client.clone());
    let [one, two] = [(); 2].map(|()| informers.objects::<ConfigMap>().watched());
    for round in 0..20 {
        one.apply(&typed("shared", &round.to_string()), true).await.unwrap();
        assert_eq!(says(&two.get(&key("shared")).await.unwrap().unwrap()), round.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_is_gone_at_once_for_who_deleted_it() {
    let client = Server::new().await.client(&World::simulated(1));
    let informers = Informers::new(client.clone());
    let maps = informers.objects::<ConfigMap>().watched();
    for round in 0..20 {
        let (_, done) = maps.create_or_update(typed("again", "1"), |_| {}).await.unwrap();
        assert_eq!(done, Done::Created, "round {round}");
        assert!(maps.get(&key("again")).await.unwrap().is_some());
        assert!(maps.delete(&key("again"), &Default::default()).await.unwrap());
        assert!(maps.get(&key("again")).await.unwrap().is_none(), "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn strategic_patches_are_for_built_in_kinds() {
    let error = Patch::strategic(&crate::widgets(), &json!({}), &json!({ "a": 1 })).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot make a strategic merge patch of widgets.test.dev/v1: it is not a built-in kind; use Patch::merge"
    );
    let unread = Patch::merge(&json!({}), &json!({ "a": 1 })).unwrap().locked().unwrap_err().to_string();
    assert!(unread.contains("read it from the server first"), "{unread}");
}

#[tokio::test(start_paused = true)]
async fn a_read_after_a_write_waits_for_the_cache_and_then_asks() {
    let valve = Valve::by(|_| Flow::Deliver);
    let world = World { valve: valve.clone(), ..World::simulated(1) };
    let client = Server::new().await.client(&world);
    let informers = Informers::new(client.clone());
    let maps = informers.objects::<ConfigMap>().watched();
    maps.create(&typed("a", "1")).await.unwrap();
    maps.create(&typed("b", "1")).await.unwrap();
    assert_eq!(maps.list(&Selection::default()).await.unwrap().iter().filter(|map| says(map) == "1").count(), 2);
    valve.set(|delivery| if delivery.event == "APPLIED" { Flow::Hold } else { Flow::Deliver });
    maps.patch(&key("a"), &Patch::raw_merge(json!({ "data": { "a": "2" } }))).await.unwrap();
    let before = tokio::time::Instant::now();
    assert_eq!(says(&maps.get(&key("a")).await.unwrap().unwrap()), "2", "asked, because the cache does not come");
    assert!(before.elapsed() >= Duration::from_secs(2));
    let before = tokio::time::Instant::now();
    assert_eq!(says(&maps.get(&key("b")).await.unwrap().unwrap()), "1");
    assert_eq!(before.elapsed(), Duration::ZERO, "what was not written is not waited for");
    valve.set(|_| Flow::Deliver);
    crate::until("the cache", || {
        maps.cache().unwrap().typed::<ConfigMap>().get(&key("a")).unwrap().is_some_and(|map| says(&map) == "2")
    })
    .await;
    let fields = Selection { fields: "data.a=1".into(), ..Selection::default() };
    assert!(maps.list(&fields).await.unwrap_err().to_string().contains("a cache cannot select by fields"));
    let labels = Selection { labels: "a in".into(), ..Selection::default() };
    assert!(maps.list(&labels).await.unwrap_err().is_invalid());
    assert_eq!(maps.get(&ObjectKey::new("default", "none")).await.unwrap(), None);
}

/// Loses every reply to a write, and two of three to reads.
#[derive(Debug, Default)]
struct Lossy(AtomicUsize);

impl Gate for Lossy {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        let answered = self.0.fetch_add(1, Ordering::SeqCst) % 3 == 2;
        if answered && call.verb == "GET" { Verdict::Pass } else { Verdict::LoseReply }
    }
}

#[tokio::test(start_paused = true)]
async fn reads_are_tried_again_and_writes_only_if_they_were_not_taken() {
    let gate = Arc::new(Lossy::default());
    let world = World { gate: gate.clone(), ..World::simulated(1) };
    let client = Server::new().await.client(&world);
    let maps: Objects<ConfigMap> = client.objects();
    let calls = || gate.0.load(Ordering::SeqCst);
    assert!(maps.get(&key("none")).await.unwrap().is_none());
    assert_eq!(calls(), 3, "twice lost, then answered");
    let lost = maps.create(&typed("a", "1")).await.unwrap_err();
    assert!(lost.outcome_unknown(), "{lost}");
    assert_eq!(calls(), 4, "a write that may have happened is not repeated");
}

/// A cache is of some objects; who asks the server because it lags is shown no others.
#[tokio::test(start_paused = true)]
async fn a_live_read_past_a_cache_stays_within_its_scope() {
    let valve = Valve::by(|_| Flow::Deliver);
    let client = Server::new().await.client(&World { valve: valve.clone(), ..World::simulated(1) });
    for namespace in ["a", "b", "c"] {
        let of = Resource::cluster(Gvk::new("", "v1", "Namespace"), "namespaces");
        client.create(&of, &json!({ "metadata": { "name": namespace } })).await.unwrap();
        for (name, tier) in [("x", "web"), ("y", "db")] {
            let labels = json!({ "tier": tier, "of": "us" });
            let map = json!({ "metadata": { "namespace": namespace, "name": name, "labels": labels } });
            client.create(&crate::maps(), &map).await.unwrap();
        }
    }
    let all = |labels: &str| Selectors { labels: Some(labels.to_owned()), ..Selectors::default() };
    let namespaces = [("a".to_owned(), Selectors::default()), ("b".to_owned(), all("tier=web"))];
    let defaults = KindSettings { namespaces: namespaces.into(), ..KindSettings::default() };
    let informers = Informers::narrowed(client, Narrowing { defaults, ..Narrowing::default() });
    let maps = informers.objects::<ConfigMap>().watched();
    let names = |found: &[Arc<ConfigMap>]| -> Vec<String> {
        let name = |map: &Arc<ConfigMap>| {
            format!("{}/{}", map.metadata.namespace.as_ref().unwrap(), map.metadata.name.as_ref().unwrap())
        };
        found.iter().map(name).filter(|name| !name.ends_with("kube-root-ca.crt")).collect()
    };
    let at = |namespace: &str, name: &str| ObjectKey::new(namespace, name);
    maps.cache().unwrap().synced().await;
    for lags in [false, true] {
        if lags {
            valve.set(|_| Flow::Hold);
            maps.patch(&at("a", "x"), &Patch::raw_merge(json!({ "data": { "a": "2" } }))).await.unwrap();
        }
        let before = tokio::time::Instant::now();
        let list = async |selection: Selection| names(&maps.list(&selection).await.unwrap());
        let labelled = |namespace: &str, labels: &str| Selection {
            namespace: namespace.into(),
            labels: labels.into(),
            ..Selection::default()
        };
        assert_eq!(list(labelled("", "")).await, ["a/x", "a/y", "b/x"], "lags: {lags}");
        assert_eq!(list(labelled("", "tier=web")).await, ["a/x", "b/x"]);
        assert_eq!(list(labelled("b", "of=us")).await, ["b/x"]);
        assert!(list(labelled("c", "")).await.is_empty());
        let mut pages = maps.pages(&labelled("", "of=us"), 2);
        assert_eq!(names(&pages.next().await.unwrap().unwrap()), ["a/x", "a/y"]);
        assert_eq!(names(&pages.next().await.unwrap().unwrap()), ["b/x"]);
        assert!(pages.next().await.unwrap().is_none());
        for (namespace, name, shown) in [("a", "x", true), ("b", "x", true), ("b", "y", false), ("c", "x", false)] {
            if lags {
                maps.patch(&at(namespace, name), &Patch::raw_merge(json!({ "data": { "a": "3" } }))).await.unwrap();
            }
            let found = maps.get(&at(namespace, name)).await.unwrap();
            assert_eq!(found.is_some(), shown, "{namespace}/{name}, lags: {lags}");
        }
        assert_eq!(before.elapsed() > Duration::from_secs(2), lags);
    }
    informers.stop().await;
}

/// Some maps: those with a label of their own.
fn some(prefix: &str) -> Scope {
    Scope::all(maps()).in_namespaces(["default"]).labelled(format!("{prefix}=us"))
}

fn labelled(prefix: &str, n: &str, value: &str) -> ConfigMap {
    let mut made = map(&format!("{prefix}-{n}"), "1");
    made["metadata"]["labels"] = json!({ prefix: value });
    serde_json::from_value(made).unwrap()
}

/// What a controller is for is what its reconciler reads: one watch, its own writes, and nothing else of the kind.
pub(crate) async fn some_objects_are_read_and_written(client: &Client, prefix: &str) {
    let (engine, _) = engine(client);
    let nothing = reconcile_fn(|_| async { Ok(Outcome::Done) });
    engine.add(Controller::builder("c").for_(some(prefix)).run(nothing).unwrap()).unwrap();
    let mine: Objects<ConfigMap> = engine.informers().objects_in(some(prefix));
    let at = |n: &str| key(&format!("{prefix}-{n}"));
    client.objects().create(&labelled(prefix, "other", "them")).await.unwrap();
    for n in ["a", "b"] {
        mine.create(&labelled(prefix, n, "us")).await.unwrap();
    }
    let names = async |selection: &Selection| -> Vec<String> {
        mine.list(selection).await.unwrap().iter().map(|map| map.metadata.name.clone().unwrap()).collect()
    };
    let (all, a) = (Selection::default(), format!("{prefix}-a"));
    assert_eq!(names(&all).await, [a.clone(), format!("{prefix}-b")], "its own writes, and no others");
    let by_data = mine.cache().unwrap().typed::<ConfigMap>().index(|map| vec![says(map).to_owned()]);
    mine.patch(&at("a"), &Patch::raw_merge(json!({ "data": { "a": "2" } }))).await.unwrap();
    assert_eq!(says(&mine.get(&at("a")).await.unwrap().unwrap()), "2");
    assert_eq!(by_data.get(&"2".to_owned()).len(), 1);
    let began = tokio::time::Instant::now();
    mine.patch(&at("other"), &Patch::raw_merge(json!({ "data": { "a": "2" } }))).await.unwrap();
    assert_eq!(mine.get(&at("other")).await.unwrap(), None, "it is not among them");
    assert_eq!(names(&all).await.len(), 2);
    assert!(began.elapsed() < Duration::from_secs(1), "nobody waits for what the watch never tells");
    mine.patch(&at("b"), &Patch::raw_merge(json!({ "metadata": { "labels": { prefix: "them" } } }))).await.unwrap();
    assert_eq!(mine.get(&at("b")).await.unwrap(), None, "it has left");
    assert_eq!(mine.pages(&all, 5).next().await.unwrap().unwrap().len(), 1);
    assert!(mine.delete(&at("a"), &Default::default()).await.unwrap());
    assert!(names(&all).await.is_empty());
    assert_eq!(engine.informers().caches().len(), 1, "one watch for all of it");
    let refused = engine.informers().objects::<ConfigMap>().get(&at("b")).await.unwrap_err().to_string();
    assert!(refused.contains(&format!("labels={prefix}=us: objects_in reads that);")), "{refused}");
    for n in ["b", "other"] {
        client.delete(&maps(), &at(n), &Default::default()).await.unwrap();
    }
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_narrowed_controller_is_for_is_read_with_its_own_watch() {
    some_objects_are_read_and_written(&Server::new().await.client(&World::simulated(1)), "some").await;
}

/// Kinds of which a moment's lag is too much, and Secrets, are read from the server, and no more of them than was said.
pub(crate) async fn some_kinds_are_read_live(client: &Client, prefix: &str) {
    let live = KindSettings { live: true, ..KindSettings::default() };
    let kinds = [(maps().group_resource(), live)].into();
    let informers = Informers::narrowed(client.clone(), Narrowing { kinds, ..Narrowing::default() });
    let (all, some): (Objects<ConfigMap>, Objects<ConfigMap>) =
        (informers.objects(), informers.objects_in(some(prefix)));
    let at = |n: &str| key(&format!("{prefix}-{n}"));
    for (n, value) in [("a", "us"), ("b", "us"), ("other", "them")] {
        all.create(&labelled(prefix, n, value)).await.unwrap();
    }
    assert!(all.watched().get(&at("other")).await.unwrap().is_some());
    assert_eq!(some.get(&at("other")).await.unwrap(), None);
    assert!(some.get(&at("a")).await.unwrap().is_some());
    assert_eq!(some.list(&Selection::default()).await.unwrap().len(), 2);
    let first = Selection { fields: format!("metadata.name={prefix}-a"), ..Selection::default() };
    assert_eq!(some.list(&first).await.unwrap().len(), 1, "the server can select by fields");
    let either = Scope::one(maps(), &at("a")).or(|all| all.with_fields(format!("metadata.name={prefix}-other")));
    for objects in [some, informers.objects_in(either)] {
        let (mut pages, mut sizes) = (objects.pages(&Selection::default(), 1), Vec::new());
        while let Some(page) = pages.next().await.unwrap() {
            sizes.push(page.len());
        }
        assert_eq!(sizes, [1, 1], "{objects:?}");
    }
    for n in ["a", "b", "other"] {
        let made = json!({
            "metadata": { "namespace": "default", "name": format!("{prefix}-{n}"), "labels": { prefix: n } },
            "stringData": { "password": "hunter2" },
        });
        client.create(&secrets(), &made).await.unwrap();
    }
    let which = Scope::all(secrets()).labelled(format!("{prefix} in (a,b)"));
    let secret: Objects<Secret> = informers.objects_in(which);
    assert!(secret.get(&at("a")).await.unwrap().unwrap().data.as_ref().unwrap().contains_key("password"), "whole");
    assert_eq!(secret.get(&at("other")).await.unwrap(), None);
    assert_eq!(secret.watched().list(&Selection::default()).await.unwrap().len(), 2);
    assert!(informers.caches().is_empty(), "nothing was opened");
    for n in ["a", "b", "other"] {
        client.delete(&maps(), &at(n), &Default::default()).await.unwrap();
        client.delete(&secrets(), &at(n), &Default::default()).await.unwrap();
    }
    informers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_read_live_are_read_no_further_than_was_said() {
    some_kinds_are_read_live(&Server::new().await.client(&World::simulated(1)), "live").await;
}

/// What is written and deleted before the cache has seen any of it does not come back as a ghost.
#[tokio::test(start_paused = true)]
async fn what_was_created_and_deleted_at_once_is_never_shown() {
    let valve = Valve::by(|_| Flow::Deliver);
    let client = Server::new().await.client(&World { valve: valve.clone(), ..World::simulated(1) });
    let informers = Informers::new(client);
    let maps = informers.objects::<ConfigMap>().watched();
    maps.cache().unwrap().synced().await;
    for before in [false, true] {
        if before {
            // An earlier one of the same name is known.
            maps.create(&typed("a", "0")).await.unwrap();
            assert!(maps.get(&key("a")).await.unwrap().is_some());
        }
        valve.set(|_| Flow::Hold);
        if before {
            maps.delete(&key("a"), &Default::default()).await.unwrap();
        }
        let made = maps.create(&typed("a", "1")).await.unwrap().metadata.resource_version.unwrap();
        maps.delete(&key("a"), &Default::default()).await.unwrap();
        let made: u64 = made.parse().unwrap();
        valve.set(move |delivery| {
            let last = delivery.event == "DELETED" && delivery.revision.parse::<u64>().unwrap() > made;
            if last { Flow::Hold } else { Flow::Deliver }
        });
        assert_eq!(maps.get(&key("a")).await.unwrap(), None, "an earlier one: {before}");
        assert!(maps.cache().unwrap().get(&key("a")).is_some(), "the cache has it still");
        valve.set(|_| Flow::Deliver);
        crate::until("the cache", || maps.cache().unwrap().get(&key("a")).is_none()).await;
        assert_eq!(maps.get(&key("a")).await.unwrap(), None);
    }
    informers.stop().await;
}

/// A kind that nobody has open is listed once, not by each handle that reads it.
#[tokio::test(start_paused = true)]
async fn handles_that_read_lazily_share_what_one_of_them_opened() {
    let world = World::simulated(1);
    let client = Server::new().await.client(&world);
    client.create(&maps(), &map("a", "1")).await.unwrap();
    let idle = Duration::from_secs(60);
    let informers = Informers::narrowed(client, Narrowing { lazy: Some(idle), ..Narrowing::default() });
    let lists = || world.journal.lines().iter().filter(|line| line.contains("WATCH")).count();
    let before = lists();
    for _ in 0..20 {
        let read = informers.objects::<ConfigMap>().get(&key("a")).await.unwrap();
        assert!(read.is_some());
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let opened: Vec<_> = informers.caches();
    assert_eq!(opened.len(), 1);
    let (cache, seen) = (opened[0].clone(), opened[0].state().revision);
    drop(opened);
    assert_eq!(informers.objects::<ConfigMap>().cache().map(|now| now.scope().clone()), Some(cache.scope().clone()));
    assert!(seen > 0 && cache.state().has_been_synced);
    drop(cache);
    tokio::time::sleep(idle * 2).await;
    assert!(informers.caches().is_empty(), "closed when nobody has read for a while");
    informers.objects::<ConfigMap>().lazily(idle).get(&key("a")).await.unwrap().unwrap();
    assert_eq!(informers.caches().len(), 1);
    assert_eq!(lists() - before, 2, "one for twenty handles, one after it was closed");
    informers.stop().await;
}

/// A server that was restored counts from where it was then; nobody waits for what it has lost.
#[tokio::test(start_paused = true)]
async fn what_a_server_has_lost_is_not_waited_for() {
    let (old, restored) = (Server::new().await, Server::new().await);
    let world = World::simulated(1);
    for _ in 0..50 {
        old.client(&world).create(&maps(), &map("filler", "1")).await.unwrap();
        old.client(&world).delete(&maps(), &key("filler"), &Default::default()).await.unwrap();
    }
    restored.client(&world).create(&maps(), &map("a", "restored")).await.unwrap();
    let (valve, swapped) = (Valve::by(|_| Flow::Deliver), Arc::new(AtomicUsize::new(0)));
    let client = {
        let (old, restored, swapped) = (old.clone(), restored.clone(), Arc::clone(&swapped));
        let serve = tower::service_fn(move |request| {
            let server = if swapped.load(Ordering::SeqCst) == 0 { old.clone() } else { restored.clone() };
            tower::ServiceExt::oneshot(server.service(), request)
        });
        Client::in_process(serve, World { valve: valve.clone(), ..world.clone() })
    };
    let informers = Informers::new(client.clone());
    let maps = informers.objects::<ConfigMap>().watched();
    maps.create(&typed("a", "1")).await.unwrap();
    maps.create(&typed("b", "1")).await.unwrap();
    assert!(maps.get(&key("a")).await.unwrap().is_some());
    // The server is lost together with our last writes, of which the cache has heard nothing.
    valve.set(|_| Flow::Hold);
    maps.patch(&key("a"), &Patch::raw_merge(json!({ "data": { "a": "2" } }))).await.unwrap();
    maps.delete(&key("b"), &Default::default()).await.unwrap();
    swapped.store(1, Ordering::SeqCst);
    valve.set(|delivery| if delivery.event == "LISTED" { Flow::Deliver } else { Flow::Gone });
    let cache = maps.cache().unwrap();
    crate::until("the restored one", || {
        cache.typed::<ConfigMap>().get(&key("a")).unwrap().is_some_and(|a| says(&a) == "restored")
    })
    .await;
    valve.set(|_| Flow::Deliver);
    let before = tokio::time::Instant::now();
    assert_eq!(says(&maps.get(&key("a")).await.unwrap().unwrap()), "restored");
    let names: Vec<_> =
        maps.list(&Selection::default()).await.unwrap().iter().map(|map| map.metadata.name.clone().unwrap()).collect();
    assert!(names.contains(&"a".to_owned()) && !names.contains(&"b".to_owned()), "{names:?}");
    assert_eq!(before.elapsed(), Duration::ZERO);
    maps.create(&typed("b", "restored")).await.unwrap();
    assert_eq!(says(&maps.get(&key("b")).await.unwrap().unwrap()), "restored", "what is written now is waited for");
    informers.stop().await;
}
