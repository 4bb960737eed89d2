//! What a cache knows and how it is asked.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::{LabelSelector, Object, ObjectKey};
use concert_runtime::{
    Cache, Client, Form, Informers, KindSettings, Namespaces, Narrowing, Scope, Selectors, Transform, Trouble,
};
use concert_world::{Flow, Valve, World};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::embedded::Server;
use crate::place::{self, Place};
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
    found(&tiers.prefix("w"), &[&known("a"), &known("b")]);
    found(&tiers.prefix("wee"), &[]);
    assert_eq!(tiers.prefix("").len(), 3);
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

#[tokio::test(start_paused = true)]
async fn a_transform_or_a_handler_that_panics_costs_what_it_was_asked_about() {
    let client = Server::new().await.client(&World::simulated(1));
    let transform = Transform::new(|object| {
        assert!(object.name() != "bad", "oh");
        Ok(object)
    });
    let defaults = KindSettings { transform: Some(transform), ..KindSettings::default() };
    let informers = Informers::narrowed(client.clone(), Narrowing { defaults, ..Narrowing::default() });
    let cache =
        informers.cache(Scope::all(maps()).in_namespaces(["default"]).with_fields("metadata.name!=kube-root-ca.crt"));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    let _panics = cache.subscribe(|_| panic!("oh"));
    let _hears = cache.subscribe(move |change| log.lock().unwrap().push(change.key.name.to_string()));
    cache.synced().await;
    for name in ["bad", "good"] {
        client.create(&maps(), &map(name, "1")).await.unwrap();
    }
    until("the good one", || cache.get(&key("good")).is_some()).await;
    assert_eq!((cache.len(), cache.state().skipped), (1, 1));
    assert_eq!(*heard.lock().unwrap(), ["good"]);
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

/// Many maps, which are read as a type.
async fn many(count: usize) -> (Client, Informers, Cache) {
    let client = Server::new().await.client(&World::simulated(1));
    for n in 0..count {
        client.create(&maps(), &map(&format!("m{n}"), "1")).await.unwrap();
    }
    let informers = Informers::new(client.clone());
    let cache = informers.cache(Scope::all(maps()).in_namespaces(["default"]));
    cache.synced().await;
    (client, informers, cache)
}

#[tokio::test(start_paused = true)]
async fn what_was_decoded_goes_with_its_version() {
    let (client, informers, cache) = many(2).await;
    let view = cache.typed::<Typed>();
    let read = |name: &str| Arc::downgrade(&view.get(&key(name)).unwrap().unwrap());
    let (changed, deleted) = (read("m0"), read("m1"));
    assert!(changed.upgrade().is_some() && deleted.upgrade().is_some(), "remembered");
    assert_eq!(informers.reports()[0].decoded, 2);
    let old = cache.get(&key("m0")).unwrap();
    client.merge_patch(&maps(), &key("m0"), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    client.delete(&maps(), &key("m1"), &Default::default()).await.unwrap();
    until("both", || cache.len() == 1 && cache.get(&key("m0")).unwrap().revision() > old.revision()).await;
    assert!(changed.upgrade().is_none() && deleted.upgrade().is_none(), "nobody reads these again");
    assert_eq!(view.decode(&old).unwrap().data.a, "1", "but for who has the old one");
    assert_eq!((informers.reports()[0].decoded, read("m0").upgrade().is_some()), (0, true));
}

#[tokio::test(start_paused = true)]
async fn a_long_list_takes_nothing_from_who_reads_the_same_again_and_again() {
    let (_client, informers, cache) = many(1100).await;
    let view = cache.typed::<Typed>();
    let first = Arc::downgrade(&view.get(&key("m7")).unwrap().unwrap());
    assert_eq!(view.list().len(), 1100);
    assert!(first.upgrade().is_some(), "decoded once");
    assert_eq!(informers.reports()[0].decoded, 1, "of what does not fit nothing is remembered");
    for n in 0..1099 {
        view.get(&key(&format!("m{n}"))).unwrap().unwrap();
        view.get(&key("m1099")).unwrap().unwrap();
    }
    let last = Arc::downgrade(&view.get(&key("m1099")).unwrap().unwrap());
    assert_eq!(view.list().len(), 1100);
    assert!(last.upgrade().is_some() && informers.reports()[0].decoded <= 2048);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_reads_is_not_kept_decoded() {
    let (_client, informers, cache) = many(2).await;
    let view = cache.typed::<Typed>();
    let read = |name: &str| Arc::downgrade(&view.get(&key(name)).unwrap().unwrap());
    let (again, once) = (read("m0"), read("m1"));
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        read("m0");
    }
    assert!(again.upgrade().is_some() && once.upgrade().is_none());
    assert_eq!(informers.reports()[0].decoded, 1);
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!((again.upgrade().is_none(), informers.reports()[0].decoded), (true, 0));
}

/// What is not to be kept is not kept of metadata either.
pub(crate) async fn metadata_are_transformed(client: &Client, prefix: &str) {
    let name = format!("{prefix}-m");
    let mut object = labelled("default", &name, "web");
    object["metadata"]["annotations"] =
        json!({ "kubectl.kubernetes.io/last-applied-configuration": "a second copy", "other": "stays" });
    client.create(&maps(), &object).await.unwrap();
    let defaults = KindSettings { transform: Some(Transform::without_last_applied()), ..KindSettings::default() };
    let informers = Informers::narrowed(client.clone(), Narrowing { defaults, ..Narrowing::default() });
    let scope = || Scope::one(maps(), &key(&name));
    for cache in [informers.cache(scope()), informers.cache(scope().metadata_only())] {
        cache.synced().await;
        let annotations = cache.get(&key(&name)).unwrap().annotations();
        assert_eq!(annotations.keys().collect::<Vec<_>>(), ["other"], "{cache:?}");
    }
    client.delete(&maps(), &key(&name), &Default::default()).await.unwrap();
    informers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_of_objects_is_left_out_of_their_metadata() {
    metadata_are_transformed(&Server::new().await.client(&World::simulated(1)), "less").await;
}

/// The data of Secrets are kept of one that is named, and of no others.
pub(crate) async fn secrets_are_kept_one_by_one(client: &Client, case: &str) {
    place::namespace(client, case).await;
    for name in ["a", "b"] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": case, "name": name, "labels": { "of": "us" } },
            "stringData": { "password": "hunter2" },
        });
        client.create(&secrets(), &secret).await.unwrap();
    }
    let informers = Informers::new(client.clone());
    let at = |name: &str| ObjectKey::new(case, name);
    let full = |scope: Scope| informers.cache(Scope { form: Form::Full, ..scope });
    let wide = [
        full(Scope::all(secrets())),
        full(Scope::all(secrets()).in_namespaces([case])),
        full(Scope::all(secrets()).labelled("of=us")),
        full(Scope::one(secrets(), &at("a")).or(|all| all.in_namespaces([case]))),
    ];
    let one = informers.cache(Scope::one(secrets(), &at("a")));
    let says = |object: &Arc<Object>| String::from_utf8_lossy(object.bytes()).contains("aHVudGVyMg==");
    for cache in &wide {
        cache.synced().await;
        assert!(cache.get(&at("b")).is_some() && !cache.list().iter().any(says), "{cache:?}");
    }
    one.synced().await;
    found(&one.list(), &[&format!("{case}/a")]);
    assert!(says(&one.get(&at("a")).unwrap()));
    let patch = json!({ "stringData": { "password": "hunter3" } });
    let changed = client.merge_patch(&secrets(), &at("a"), &patch, None).await.unwrap().revision();
    for cache in wide.iter().chain([&one]) {
        until("the change", || cache.get(&at("a")).unwrap().revision() == changed).await;
        assert!(!cache.list().iter().any(says), "{cache:?}");
    }
    informers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_secrets_only_metadata_are_kept_unless_one_is_named() {
    secrets_are_kept_one_by_one(&Server::new().await.client(&World::simulated(1)), "discreet").await;
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_share_a_cache_and_may_change() {
    let client = Server::new().await.client(&World::simulated(1));
    for name in ["a", "b", "c"] {
        client.create(&namespaces(), &namespace(name)).await.unwrap();
        client.create(&maps(), &labelled(name, "x", "web")).await.unwrap();
    }
    let informers = Informers::new(client.clone());
    let set = Namespaces::new("tenants", ["a", "b"]);
    let cache = informers.cache(Scope::all(maps()).within(&set).labelled("app=x"));
    cache.synced().await;
    found(&cache.list(), &["a/x", "b/x"]);
    let same = informers.cache(Scope::all(maps()).within(&set.clone()).labelled("app=x"));
    let fixed = informers.cache(Scope::all(maps()).in_namespaces(["a", "b"]).labelled("app=x"));
    assert_eq!(informers.caches().len(), 2, "a set has one cache, and nobody else has it");
    fixed.synced().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let _subscription =
        cache.subscribe(move |change| log.lock().unwrap().push(format!("{:?} {}", change.verb(), change.key)));
    seen.lock().unwrap().clear();
    set.set(["b", "c"]);
    until("the new namespace", || cache.get(&ObjectKey::new("c", "x")).is_some()).await;
    assert_eq!(*seen.lock().unwrap(), ["Deleted a/x", "Created c/x"]);
    client.create(&maps(), &labelled("a", "y", "web")).await.unwrap();
    client.create(&maps(), &labelled("b", "y", "web")).await.unwrap();
    until("one more", || cache.len() == 3).await;
    assert_eq!(seen.lock().unwrap().len(), 3, "nothing of a namespace that was left");
    found(&same.list(), &["b/x", "b/y", "c/x"]);
    until("two more", || fixed.len() == 4).await;
    found(&fixed.list(), &["a/x", "a/y", "b/x", "b/y"]);
    set.set::<String>([]);
    until("empty", || cache.is_empty()).await;
    assert!(cache.state().synced, "of nothing all is known");
}

/// A turn that wrote to a namespace waits until the cache has seen it, but not for ever if nobody looks there any more.
#[tokio::test(start_paused = true)]
async fn what_is_left_is_not_waited_for() {
    let client = Server::new().await.client(&World::simulated(1));
    let informers = Informers::new(client.clone());
    let set = Namespaces::new("tenants", ["default"]);
    let cache = informers.cache(Scope::all(maps()).within(&set));
    cache.synced().await;
    let far = 1 << 40;
    let wait = |namespace: &'static str| tokio::time::timeout(Duration::from_secs(5), cache.reaches(namespace, far));
    assert!(wait("default").await.is_err());
    assert!(wait("elsewhere").await.is_ok(), "nobody looks there");
    let (waited, ()) = tokio::join!(wait("default"), async { set.set(["other"]) });
    assert!(waited.is_ok());
}

/// Two selectors of one scope: an object is known once, as long as one of them selects it.
pub(crate) async fn selectors_are_joined(client: &Client, prefix: &str) {
    let (one, two) = (format!("{prefix}-one"), format!("{prefix}-two"));
    let informers = Informers::new(client.clone());
    let scope = Scope::all(maps()).labelled(format!("{one}=y")).or(|all| all.labelled(format!("{two}=y")));
    let cache = informers.cache(scope);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let _subscription =
        cache.subscribe(move |change| log.lock().unwrap().push((change.verb(), change.key.to_string())));
    cache.synced().await;
    let name = format!("{prefix}-x");
    let mut both = map(&name, "1");
    both["metadata"]["labels"] = json!({ &one: "y", &two: "y" });
    client.create(&maps(), &both).await.unwrap();
    until("known", || cache.get(&key(&name)).is_some()).await;
    let relabel = async |labels: Value| {
        let patch = json!({ "metadata": { "labels": labels } });
        let revision = client.merge_patch(&maps(), &key(&name), &patch, None).await.unwrap().revision().unwrap();
        until("seen", || cache.get(&key(&name)).is_none_or(|known| known.revision() >= Some(revision))).await;
    };
    relabel(json!({ &one: null })).await;
    assert!(cache.get(&key(&name)).is_some(), "the other still selects it");
    relabel(json!({ &one: "y", &two: null })).await;
    // Which of the two watches tells first is nobody's to say: it may be gone for a moment.
    until("selected by the first", || cache.get(&key(&name)).is_some()).await;
    relabel(json!({ &one: null })).await;
    until("gone", || cache.is_empty()).await;
    let verbs: Vec<String> = seen.lock().unwrap().iter().map(|(verb, _)| format!("{verb:?}")).collect();
    assert_eq!(
        (verbs.first().map(String::as_str), verbs.last().map(String::as_str)),
        (Some("Created"), Some("Deleted"))
    );
    client.delete(&maps(), &key(&name), &Default::default()).await.unwrap();
    informers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_is_known_while_any_selector_selects_it() {
    selectors_are_joined(&Server::new().await.client(&World::simulated(1)), "joined").await;
}

/// Namespaces are followed by their labels, and the rest of them by name.
pub(crate) async fn namespaces_are_followed(client: &Client, prefix: &str) {
    let place = |n: &str| format!("{prefix}-{n}");
    for n in ["a", "b", "c"] {
        let mut object = namespace(&place(n));
        object["metadata"]["labels"] = json!({ prefix: if n == "c" { "no" } else { "yes" } });
        client.create(&namespaces(), &object).await.unwrap();
        let mut object = labelled(&place(n), "x", "web");
        object["metadata"]["labels"][prefix] = "y".into();
        client.create(&maps(), &object).await.unwrap();
    }
    let informers = Informers::new(client.clone());
    let set = informers.namespaces_labelled(&format!("{prefix}=yes"));
    let ours = informers.cache(Scope::all(maps()).within(&set).labelled(format!("{prefix}=y")));
    let rest = informers.cache(Scope::all(maps()).outside([place("a"), place("b")]).labelled(format!("{prefix}=y")));
    ours.synced().await;
    rest.synced().await;
    found(&ours.list(), &[&format!("{}/x", place("a")), &format!("{}/x", place("b"))]);
    found(&rest.list(), &[&format!("{}/x", place("c"))]);
    for (n, value) in [("b", "no"), ("c", "yes")] {
        let patch = json!({ "metadata": { "labels": { prefix: value } } });
        client.merge_patch(&namespaces(), &ObjectKey::cluster(place(n)), &patch, None).await.unwrap();
    }
    until("followed", || ours.get(&ObjectKey::new(place("c"), "x")).is_some() && ours.len() == 2).await;
    found(&ours.list(), &[&format!("{}/x", place("a")), &format!("{}/x", place("c"))]);
    drop((ours, set, rest));
    until("closed", || informers.caches().is_empty()).await;
    for n in ["a", "b", "c"] {
        client.delete(&maps(), &ObjectKey::new(place(n), "x"), &Default::default()).await.unwrap();
    }
    informers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_followed_by_their_labels() {
    namespaces_are_followed(&Server::new().await.client(&World::simulated(1)), "followed").await;
}

/// The kind's line for the namespace, the kind's line, the defaults for the namespace, the defaults.
#[tokio::test(start_paused = true)]
async fn the_nearest_line_selects() {
    let client = Server::new().await.client(&World::simulated(1));
    for n in ["a", "b", "c", "d"] {
        client.create(&namespaces(), &namespace(n)).await.unwrap();
        for tier in ["web", "db", "log"] {
            client.create(&maps(), &labelled(n, tier, tier)).await.unwrap();
        }
    }
    let tier = |tier: &str| Selectors::labelled(format!("tier={tier}"));
    let open = Selectors::default();
    let namespaces =
        |lines: &[(&str, &Selectors)]| lines.iter().map(|(name, of)| ((*name).to_owned(), (*of).clone())).collect();
    let check = async |kind: Option<KindSettings>, defaults: KindSettings, expected: &[&str]| {
        let kinds = kind.into_iter().map(|kind| (maps().group_resource(), kind)).collect();
        let informers = Informers::narrowed(client.clone(), Narrowing { kinds, defaults, lazy: None });
        let cache = informers.cache(maps());
        cache.synced().await;
        found(&cache.list(), expected);
    };
    let defaults = KindSettings {
        namespaces: namespaces(&[("a", &open), ("b", &tier("db"))]),
        selectors: tier("log"),
        ..KindSettings::default()
    };
    check(None, defaults.clone(), &["a/log", "b/db"]).await;
    let only = KindSettings { namespaces: namespaces(&[("b", &open), ("c", &tier("web"))]), ..KindSettings::default() };
    check(Some(only), defaults.clone(), &["b/db", "c/web"]).await;
    let kind = KindSettings { selectors: tier("web"), ..KindSettings::default() };
    check(Some(kind), defaults.clone(), &["a/web", "b/web"]).await;
    let everything = Selectors::labelled("");
    let kind = KindSettings {
        selectors: everything,
        namespaces: namespaces(&[("a", &tier("db")), ("d", &open)]),
        ..KindSettings::default()
    };
    check(Some(kind), defaults, &["a/db", "d/db", "d/log", "d/web"]).await;
    let rest = KindSettings {
        namespaces: namespaces(&[("a", &open), ("", &tier("web"))]),
        selectors: tier("db"),
        ..KindSettings::default()
    };
    check(Some(rest), KindSettings::default(), &["a/db", "b/web", "c/web", "d/web"]).await;
}

#[tokio::test(start_paused = true)]
async fn who_reads_a_kind_that_nobody_watches_is_told_what_to_do() {
    let client = Server::new().await.client(&World::simulated(1));
    client.create(&maps(), &map("a", "1")).await.unwrap();
    let informers = Informers::new(client.clone());
    let objects = informers.objects_of(maps());
    let advice = "have a controller watch it (for_, owns, watches), keep it open with watched(), or read it with lazily() or live()";
    let refused = objects.get(&key("a")).await.unwrap_err().to_string();
    assert_eq!(refused, format!("cannot read configmaps from the cache: nobody watches configmaps; {advice}"));
    let refused = objects.list(&Default::default()).await.unwrap_err().to_string();
    assert!(refused.ends_with(advice), "{refused}");
    assert!(objects.pages(&Default::default(), 5).next().await.is_err());
    assert!(informers.caches().is_empty(), "and nothing is opened");
    let part = informers.cache(Scope::all(maps()).in_namespaces(["default"]));
    part.synced().await;
    let refused = objects.get(&key("a")).await.unwrap_err().to_string();
    assert!(
        refused.contains(
            "nobody watches configmaps (what is watched of it is configmaps namespace=default: objects_in reads that);"
        ),
        "{refused}"
    );
    assert!(objects.live().get(&key("a")).await.unwrap().is_some());
    let watched = objects.watched();
    assert!(watched.get(&key("a")).await.unwrap().is_some());
    assert!(objects.get(&key("a")).await.unwrap().is_some(), "somebody has it open now");
    drop(watched);
    assert!(objects.get(&key("a")).await.is_err(), "and now nobody");
    // What is written needs no cache.
    objects.create(&map("b", "1")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_may_read_lazily_all_over() {
    let client = Server::new().await.client(&World::simulated(1));
    client.create(&maps(), &map("a", "1")).await.unwrap();
    let narrowing = Narrowing { lazy: Some(Duration::from_secs(60)), ..Narrowing::default() };
    let informers = Informers::narrowed(client.clone(), narrowing);
    let objects = informers.objects_of(maps());
    assert!(informers.caches().is_empty(), "not before somebody reads");
    assert!(objects.get(&key("a")).await.unwrap().is_some());
    assert_eq!(informers.caches().len(), 1);
    let here = concert_runtime::Selection { namespace: "default".into(), ..Default::default() };
    objects.create(&map("b", "1")).await.unwrap();
    assert_eq!(objects.list(&here).await.unwrap().len(), 2, "its own writes are seen");
    assert!(objects.if_opened().get(&key("a")).await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(informers.caches().is_empty(), "closed when nobody reads");
    assert!(objects.if_opened().get(&key("a")).await.is_err());
}

/// A lazy cache is there while somebody reads it.
pub(crate) async fn a_lazy_cache_comes_and_goes(place: &Place, case: &str) {
    let client = place.client(&place.world()).await;
    place::namespace(&client, case).await;
    let idle = place.a_while();
    let make = async |name: &str| client.create(&maps(), &labelled(case, name, "web")).await.unwrap();
    let at = |name: &str| ObjectKey::new(case, name);
    make("a").await;
    let informers = Informers::new(client.clone());
    let objects = informers.objects_of(maps());
    let (lazy, others) = (objects.lazily(idle), objects.if_opened());
    drop(objects);
    assert!(informers.caches().is_empty());
    let refused = others.get(&at("a")).await.unwrap_err().to_string();
    assert!(refused.starts_with("cannot read configmaps from the cache: nobody watches configmaps; "), "{refused}");
    assert!(lazy.get(&at("a")).await.unwrap().is_some());
    assert_eq!(informers.caches().len(), 1);
    assert!(others.get(&at("a")).await.unwrap().is_some(), "somebody has it open");
    tokio::time::sleep(idle * 2 / 3).await;
    lazy.get(&at("a")).await.unwrap();
    tokio::time::sleep(idle * 2 / 3).await;
    assert_eq!(informers.caches().len(), 1, "it was read just now");
    tokio::time::sleep(idle / 2).await;
    until("closed", || informers.caches().is_empty()).await;
    make("b").await;
    assert!(lazy.get(&at("b")).await.unwrap().is_some(), "opened again");
    tokio::time::timeout(Duration::from_secs(1), informers.stop()).await.expect("one that is open holds up no end");
}

#[tokio::test(start_paused = true)]
async fn a_lazy_cache_is_opened_by_a_read_and_closed_when_idle() {
    a_lazy_cache_comes_and_goes(&Place::in_process().await, "lazy").await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_a_name_is_refused() {
    let client = Server::new().await.client(&World::simulated(1));
    client.create(&maps(), &map("a", "1")).await.unwrap();
    let informers = Informers::new(client.clone());
    let check = async |scope: Scope| {
        let done = concert_runtime::reconcile_fn(|_| async { Ok(concert_runtime::Outcome::Done) });
        let refused = concert_runtime::Controller::builder("c").for_(scope.clone()).run(done).unwrap_err().to_string();
        let why = "a namespace has no name; name it, or leave in_namespaces (or outside) out for all of them";
        assert_eq!(refused, format!("cannot build controller \"c\": {scope}: {why}"));
        let cache = informers.cache(scope);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!cache.state().synced && cache.is_empty(), "not everything: {cache:?}");
        assert_eq!(cache.state().trouble, Some(Trouble::Failing(why.to_owned())));
    };
    check(Scope::all(maps()).in_namespaces([""])).await;
    check(Scope::all(maps()).in_namespaces(["default", ""])).await;
    check(Scope::all(maps()).outside([""])).await;
    let set = Namespaces::new("tenants", [""]);
    let cache = informers.cache(Scope::all(maps()).within(&set));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(cache.is_empty() && cache.state().trouble.is_some(), "{:?}", cache.state());
    set.set(["default"]);
    until("one with a name", || cache.len() == 1).await;
    assert!(cache.state().synced && cache.state().trouble.is_none(), "{:?}", cache.state());
}

#[tokio::test(start_paused = true)]
async fn an_empty_page_is_not_the_last_if_another_follows() {
    let serve = tower::service_fn(|request: http::Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let object = json!({ "metadata": { "namespace": "default", "name": "a", "resourceVersion": "5" } });
        let (items, next) = match query.split('&').find_map(|pair| pair.strip_prefix("continue=")) {
            None => (json!([]), "1"),
            Some("1") => (json!([object]), "2"),
            Some(_) => (json!([]), ""),
        };
        let page = json!({ "metadata": { "resourceVersion": "5", "continue": next }, "items": items }).to_string();
        async move {
            Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::new(bytes::Bytes::from(page))))
        }
    });
    let client = Client::in_process(serve, World::simulated(1));
    let mut pages = client.objects_of(maps()).pages(&Default::default(), 2);
    assert_eq!(pages.next().await.unwrap().map(|page| page.len()), Some(1));
    assert_eq!(pages.next().await.unwrap().map(|page| page.len()), None);
    assert_eq!(client.list(&maps(), &Default::default()).await.unwrap().objects.len(), 1);
}

/// Pages of a cache, and of a server, are of the moment of the first.
pub(crate) async fn pages_are_alike(client: &Client, case: &str) {
    place::namespace(client, case).await;
    let informers = Informers::new(client.clone());
    for n in 0..7 {
        client.create(&maps(), &labelled(case, &format!("m{n}"), "web")).await.unwrap();
    }
    let here = concert_runtime::Selection { namespace: case.into(), labels: "app=x".into(), ..Default::default() };
    let late = ObjectKey::new(case, "late");
    let narrow = informers.objects_in(Scope::all(maps()).in_namespaces([case]).labelled("app=x"));
    for objects in [informers.objects_of(maps()).watched(), client.objects_of(maps()), narrow.watched()] {
        if let Some(cache) = objects.cache() {
            // What somebody else deleted is not waited for by who reads.
            cache.synced().await;
            until("the late one is gone", || cache.get(&late).is_none()).await;
        }
        let mut pages = objects.pages(&here, 3);
        let mut sizes = vec![pages.next().await.unwrap().unwrap().len()];
        client.create(&maps(), &labelled(case, "late", "web")).await.unwrap();
        while let Some(page) = pages.next().await.unwrap() {
            sizes.push(page.len());
        }
        client.delete(&maps(), &late, &Default::default()).await.unwrap();
        assert_eq!((sizes.iter().sum::<usize>(), sizes.len()), (7, 3), "{sizes:?} of {objects:?}");
    }
    let cache = informers.cache(Scope::all(maps()).labelled("app=x"));
    until("seven", || cache.find().in_namespace(case).list().len() == 7).await;
    assert_eq!(cache.find().in_namespace(case).limit(2).list().len(), 2);
    assert_eq!(cache.find().in_namespace(case).pages(5).map(|page| page.len()).collect::<Vec<_>>(), [5, 2]);
    informers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pages_are_of_one_moment() {
    pages_are_alike(&Server::new().await.client(&World::simulated(1)), "pages").await;
}

#[tokio::test(start_paused = true)]
async fn what_a_process_says_of_a_kind_holds_where_a_controller_says_nothing() {
    let client = Server::new().await.client(&World::simulated(1));
    client.create(&namespaces(), &namespace("a")).await.unwrap();
    for (namespace, tier) in [("default", "web"), ("a", "web"), ("a", "db")] {
        client.create(&maps(), &labelled(namespace, tier, tier)).await.unwrap();
    }
    let here = KindSettings {
        namespaces: [("a".to_owned(), Selectors::default())].into(),
        selectors: Selectors::labelled("app=x"),
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

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_closed_is_not_measured_any_more() {
    let client = Server::new().await.client(&World::simulated(1));
    let manager = concert_runtime::Manager::new(client, concert_runtime::ManagerSettings::new("m"));
    let measured = || manager.metrics().text().lines().filter(|line| line.contains("scope=\"configmaps\"")).count();
    let cache = manager.informers().cache(maps());
    cache.synced().await;
    assert!(measured() > 3);
    drop(cache);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(measured(), 0);
}
