//! What a cache knows and how it is asked.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::{LabelSelector, Object, ObjectKey};
use concert_runtime::{Client, Form, Informers, KindSettings, Narrowing, Scope, Transform, Trouble};
use concert_world::{Flow, Valve, World};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::embedded::Server;
use crate::{key, map, maps, secrets, until};

/// A map in a namespace, with labels.
fn labelled(namespace: &str, name: &str, tier: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": namespace, "name": name, "labels": { "tier": tier, "app": "x" } },
        "data": { "a": tier },
    })
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn namespaces() -> concert_runtime::Resource {
    concert_runtime::Resource::cluster(concert_api::Gvk::new("", "v1", "Namespace"), "namespaces")
}

fn names(objects: &[Arc<Object>]) -> BTreeSet<String> {
    objects.iter().map(|object| object.key().to_string()).collect()
}

/// Asserts that exactly these were found.
fn found(objects: &[Arc<Object>], expected: &[&str]) {
    assert_eq!(names(objects), expected.iter().map(|&name| name.to_owned()).collect());
}

/// Indexes, labels and conditions find what a scan would, before and after changes.
pub(crate) async fn objects_are_found(client: &Client, prefix: &str) {
    let name = |n: &str| format!("{prefix}-{n}");
    let known = |n: &str| format!("default/{prefix}-{n}");
    let informers = Informers::new(client.clone());
    let cache = informers.cache(Scope::all(maps()).labelled("app=x"));
    let owner = client.create(&maps(), &map(&name("owner"), "1")).await.unwrap().uid().into_owned();
    for (n, tier) in [("a", "web"), ("b", "web"), ("c", "db")] {
        let mut object = labelled("default", &name(n), tier);
        if n == "c" {
            let reference = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name("owner"), "uid": owner });
            object["metadata"]["ownerReferences"] = json!([reference]);
        }
        client.create(&maps(), &object).await.unwrap();
    }
    let tiers = cache.index(|object| object.labels().remove("tier").into_iter().collect());
    let (owners, labels) = (cache.by_owner(), cache.by_label());
    until("three", || cache.len() == 3).await;
    let (web, db) = ("web".to_owned(), "db".to_owned());
    found(&tiers.get(&web), &[&known("a"), &known("b")]);
    found(&owners.get(&owner), &[&known("c")]);
    assert_eq!((labels.count(&("app".into(), "x".into())), tiers.values()), (3, 2));
    found(&tiers.range("e".to_owned()..), &[&known("a"), &known("b")]);
    let patch = json!({ "metadata": { "labels": { "tier": "db" } } });
    client.merge_patch(&maps(), &key(&name("a")), &patch, None).await.unwrap();
    until("moved", || tiers.count(&db) == 2).await;
    found(&tiers.get(&web), &[&known("b")]);
    let selector = LabelSelector::parse("app=x,tier!=web").unwrap();
    let both = ("app".to_owned(), "x".to_owned());
    found(&cache.find().by(&labels, &both).by(&tiers, &db).list(), &[&known("a"), &known("c")]);
    found(
        &cache.find().by(&tiers, &db).in_namespace("default").labelled(&selector).list(),
        &[&known("a"), &known("c")],
    );
    found(&cache.find().by(&tiers, &db).in_namespace("elsewhere").list(), &[]);
    found(&cache.find().labelled(&selector).list(), &[&known("a"), &known("c")]);
    client.delete(&maps(), &key(&name("c")), &Default::default()).await.unwrap();
    until("gone", || tiers.count(&db) == 1).await;
    found(&owners.get(&owner), &[]);
    for n in ["a", "b", "owner"] {
        client.delete(&maps(), &key(&name(n)), &Default::default()).await.unwrap();
    }
    informers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_are_found_by_what_they_say() {
    objects_are_found(&Server::new().await.client(&World::simulated(1)), "found").await;
}

#[tokio::test(start_paused = true)]
async fn an_index_whose_function_panics_loses_an_object_and_nothing_else() {
    let client = Server::new().await.client(&World::simulated(1));
    let informers = Informers::new(client.clone());
    let cache = informers.cache(maps());
    let index = cache.index(|object| {
        assert!(object.name() != "bad", "oh");
        vec![1]
    });
    for name in ["bad", "good"] {
        client.create(&maps(), &map(name, "1")).await.unwrap();
    }
    until("both", || cache.len() == 2).await;
    found(&index.get(&1), &["default/good"]);
}

#[derive(Debug, Deserialize, Serialize)]
struct Typed {
    data: Data,
}

#[derive(Debug, Deserialize, Serialize)]
struct Data {
    a: String,
}

#[tokio::test(start_paused = true)]
async fn a_typed_view_decodes_once_and_one_that_does_not_fit_stays_alone() {
    let client = Server::new().await.client(&World::simulated(1));
    client.create(&maps(), &map("fits", "1")).await.unwrap();
    let mut other = map("odd", "1");
    other["data"] = json!({ "b": "no a" });
    client.create(&maps(), &other).await.unwrap();
    let informers = Informers::new(client.clone());
    let cache = informers.cache(maps());
    cache.synced().await;
    let view = cache.typed::<Typed>();
    let (one, two) = (view.get(&key("fits")).unwrap().unwrap(), view.get(&key("fits")).unwrap().unwrap());
    assert_eq!(one.data.a, "1");
    assert!(Arc::ptr_eq(&one, &two), "decoded once");
    assert!(view.get(&key("none")).unwrap().is_none());
    let error = view.get(&key("odd")).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read ConfigMap default/odd as ") && error.contains("missing field `a`"),
        "{error}"
    );
    assert_eq!(view.list().len(), 1);
    client.merge_patch(&maps(), &key("fits"), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    until("the change", || view.get(&key("fits")).unwrap().unwrap().data.a == "2").await;
    assert_eq!(one.data.a, "1", "what was read before stays as it was");
}

/// Metadata arrive without the rest, under the kind that was asked for.
pub(crate) async fn metadata_alone(client: &Client, prefix: &str) {
    let name = format!("{prefix}-m");
    client.create(&maps(), &labelled("default", &name, "web")).await.unwrap();
    let informers = Informers::new(client.clone());
    let cache = informers.cache(Scope::all(maps()).labelled("tier=web").metadata_only());
    cache.synced().await;
    let object = cache.get(&key(&name)).unwrap();
    assert_eq!((&*object.kind(), &*object.api_version(), object.labels().len()), ("ConfigMap", "v1", 2));
    let text = String::from_utf8_lossy(object.bytes()).into_owned();
    assert!(!text.contains("\"data\"") && !text.contains("managedFields"), "{text}");
    let patch = json!({ "metadata": { "annotations": { "x": "y" } } });
    client.merge_patch(&maps(), &key(&name), &patch, None).await.unwrap();
    until("the change", || cache.get(&key(&name)).unwrap().annotation("x").is_some()).await;
    assert_eq!(&*cache.get(&key(&name)).unwrap().kind(), "ConfigMap");
    client.delete(&maps(), &key(&name), &Default::default()).await.unwrap();
    until("gone", || cache.is_empty()).await;
    informers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn metadata_are_watched_alone() {
    metadata_alone(&Server::new().await.client(&World::simulated(1)), "meta").await;
}

#[tokio::test(start_paused = true)]
async fn of_secrets_only_metadata_are_kept_unless_one_is_named() {
    let client = Server::new().await.client(&World::simulated(1));
    for name in ["a", "b"] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": "default", "name": name },
            "stringData": { "password": "hunter2" },
        });
        client.create(&secrets(), &secret).await.unwrap();
    }
    let informers = Informers::new(client.clone());
    let all = informers.cache(Scope { form: Form::Full, ..Scope::all(secrets()) });
    let one = informers.cache(Scope::one(secrets(), &key("a")));
    all.synced().await;
    one.synced().await;
    let says = |object: &Arc<Object>| String::from_utf8_lossy(object.bytes()).contains("aHVudGVyMg==");
    assert!(all.len() >= 2 && !all.list().iter().any(says));
    found(&one.list(), &["default/a"]);
    assert!(says(&one.get(&key("a")).unwrap()));
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_share_a_cache_and_may_change() {
    let client = Server::new().await.client(&World::simulated(1));
    for name in ["a", "b", "c"] {
        client.create(&namespaces(), &namespace(name)).await.unwrap();
        client.create(&maps(), &labelled(name, "x", "web")).await.unwrap();
    }
    let informers = Informers::new(client.clone());
    let cache = informers.cache(Scope::all(maps()).in_namespaces(["a", "b"]).labelled("app=x"));
    cache.synced().await;
    found(&cache.list(), &["a/x", "b/x"]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let _subscription =
        cache.subscribe(move |change| log.lock().unwrap().push(format!("{:?} {}", change.verb(), change.key)));
    seen.lock().unwrap().clear();
    cache.set_namespaces(&BTreeSet::from(["b".to_owned(), "c".to_owned()]));
    until("the new namespace", || cache.get(&ObjectKey::new("c", "x")).is_some()).await;
    assert_eq!(*seen.lock().unwrap(), ["Deleted a/x", "Created c/x"]);
    client.create(&maps(), &labelled("a", "y", "web")).await.unwrap();
    client.create(&maps(), &labelled("b", "y", "web")).await.unwrap();
    until("one more", || cache.len() == 3).await;
    assert_eq!(seen.lock().unwrap().len(), 3, "nothing of a namespace that was left");
}

#[tokio::test(start_paused = true)]
async fn what_a_process_says_of_a_kind_holds_where_a_controller_says_nothing() {
    let client = Server::new().await.client(&World::simulated(1));
    client.create(&namespaces(), &namespace("a")).await.unwrap();
    for (namespace, tier) in [("default", "web"), ("a", "web"), ("a", "db")] {
        client.create(&maps(), &labelled(namespace, tier, tier)).await.unwrap();
    }
    let here = KindSettings {
        namespaces: BTreeSet::from(["a".to_owned()]),
        labels: "app=x".into(),
        transform: Some(Transform::tree(|object| object["data"] = json!({ "left": "out" }))),
        managed_fields: true,
        ..KindSettings::default()
    };
    let narrowing = Narrowing { kinds: [(maps().group_resource(), here)].into(), ..Narrowing::default() };
    let informers = Informers::narrowed(client.clone(), narrowing);
    let (open, said) = (informers.cache(maps()), informers.cache(Scope::all(maps()).labelled("tier=db")));
    open.synced().await;
    said.synced().await;
    found(&open.list(), &["a/db", "a/web"]);
    found(&said.list(), &["a/db"]);
    let text = String::from_utf8_lossy(open.list()[0].bytes()).into_owned();
    assert!(text.contains("\"left\":\"out\"") && text.contains("managedFields"), "{text}");
    assert!(open.bytes() > text.len());
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_expired_histories_costs_no_change() {
    let valve = Valve::by(|_| Flow::Deliver);
    let world = World { valve: valve.clone(), ..World::simulated(1) };
    let client = Server::new().await.client(&world);
    for n in 0..50 {
        client.create(&maps(), &map(&format!("m{n}"), "1")).await.unwrap();
    }
    let informers = Informers::new(client.clone());
    let cache = informers.cache(Scope::all(maps()).in_namespaces(["default"]));
    cache.synced().await;
    let before = cache.list();
    let told = Arc::new(Mutex::new(0));
    let count = Arc::clone(&told);
    let _subscription = cache.subscribe(move |_| *count.lock().unwrap() += 1);
    valve.set(|delivery| if delivery.event == "APPLIED" { Flow::Gone } else { Flow::Deliver });
    for round in 0..5 {
        client.merge_patch(&maps(), &key("m0"), &json!({ "data": { "a": round.to_string() } }), None).await.unwrap();
        let seen = || cache.typed::<Typed>().get(&key("m0")).unwrap().unwrap().data.a == round.to_string();
        until("found by a list", seen).await;
    }
    assert_eq!(*told.lock().unwrap(), before.len() + 5, "the initial ones, and each change once");
    let unchanged = before.iter().filter(|object| cache.list().iter().any(|now| Arc::ptr_eq(now, object))).count();
    assert_eq!(unchanged, before.len() - 1, "the very same entries");
}

#[tokio::test(start_paused = true)]
async fn lists_are_asked_for_as_events() {
    let world = World::simulated(1);
    let client = Server::new().await.client(&world);
    let informers = Informers::new(client);
    let cache = informers.cache(maps());
    cache.synced().await;
    let lines = world.journal.lines();
    assert!(lines.iter().any(|line| line.contains("WATCH") || line.contains("watch")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("call") && line.contains("LIST")), "{lines:?}");
    assert_eq!(cache.state().trouble, None::<Trouble>);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(cache.state().heard.is_some());
}
