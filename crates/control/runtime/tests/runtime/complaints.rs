//! What goes wrong quietly is counted, and told once: mappings slower than their changes, objects that cannot be read.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::Gvk;
use concert_runtime::{
    Change, Client, Controller, Manager, ManagerSettings, Mapping, Namespaces, Outcome, Resource, Scope, reconcile_fn,
};
use concert_world::World;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::controllers::engine;
use crate::embedded::Server;
use crate::{define_widgets, key, maps, until, widgets};

/// The warnings of this thread, one per line.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<u8>>>);

impl Write for Warnings {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Warnings {
    fn listen() -> (Self, tracing::subscriber::DefaultGuard) {
        let warnings = Self::default();
        let to = warnings.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_ansi(false)
            .with_writer(move || to.clone())
            .finish();
        (warnings, tracing::subscriber::set_default(subscriber))
    }

    fn with(&self, what: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(what)).map(ToOwned::to_owned).collect()
    }
}

fn labelled(name: &str, data: &str) -> Value {
    json!({ "metadata": { "namespace": "default", "name": name, "labels": { "x": "y" } }, "data": { "a": data } })
}

async fn create(client: &Client, names: &[&str]) {
    for name in names {
        client.create(&maps(), &labelled(name, "1")).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_mapping_slower_than_its_changes_is_shown_and_told_once() {
    let (warnings, _guard) = Warnings::listen();
    let client = Server::new().await.client(&World::simulated(1));
    let ((engine, metrics), gate) = (engine(&client), Arc::new(Semaphore::new(0)));
    let waits = Arc::clone(&gate);
    let slow = Mapping::slow(move |change: Change| {
        let gate = Arc::clone(&waits);
        async move {
            gate.acquire().await.unwrap().forget();
            vec![change.key]
        }
    });
    let done = reconcile_fn(|_| async { Ok(Outcome::Done) });
    let builder = Controller::builder("tortoise").watches(Scope::all(maps()).labelled("x=y"), slow);
    engine.add(builder.run(done).unwrap()).unwrap();
    create(&client, &["a", "b", "c"]).await;
    client.merge_patch(&maps(), &key("c"), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    until("two wait", || engine.list()[0].backlogs[0].1.waiting == 2).await;
    tokio::time::sleep(Duration::from_secs(25)).await;
    let told = || warnings.with("slower than its changes");
    assert_eq!(told().len(), 0, "not yet");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(told().len(), 1, "{:?}", told());
    assert!(
        told()[0].contains("controller=\"tortoise\" source=\"configmaps labels=x=y\" waiting=2 folded=1"),
        "{told:?}",
        told = told()
    );
    let of = "{controller=\"tortoise\",source=\"configmaps labels=x=y\"}";
    let shows = |line: &str| metrics.text().lines().any(|found| found.starts_with(line));
    assert!(shows(&format!("concert_source_waiting{of} 2")), "{}", metrics.text());
    assert!(shows(&format!("concert_source_oldest_seconds{of} 62")), "{}", metrics.text());
    assert!(
        shows(&format!("concert_source_folded_total{of} 1")) && shows(&format!("concert_source_folded_total{of} 1"))
    );

    gate.add_permits(3);
    until("it caught up", || engine.list()[0].backlogs[0].1.waiting == 0).await;
    assert!(shows(&format!("concert_source_oldest_seconds{of} 0")));
    create(&client, &["d"]).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(told().len(), 2, "it had caught up before");
    assert!(engine.remove("tortoise").await);
    assert!(!shows("concert_source_waiting{"), "{}", metrics.text());
}

#[derive(Deserialize)]
struct Widget {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    size: u32,
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_shape_is_counted_and_told_once_per_version() {
    let (warnings, _guard) = Warnings::listen();
    let client = Server::new().await.client(&World::simulated(1));
    define_widgets(&client).await;
    let manager = Manager::new(client.clone(), ManagerSettings::new("m"));
    let cache = manager.informers().cache(widgets());
    let widget = |name: &str, size: Value| json!({ "apiVersion": "test.dev/v1", "kind": "Widget", "metadata": { "namespace": "default", "name": name }, "spec": { "size": size } });
    until("the kind", || cache.state().synced).await;
    client.create(&widgets(), &widget("good", json!(1))).await.unwrap();
    client.create(&widgets(), &widget("bad", json!("canary-7f3a"))).await.unwrap();
    until("both", || cache.len() == 2).await;
    let view = cache.typed::<Widget>();
    let sizes = || view.list().iter().map(|widget| widget.spec.size).collect::<Vec<_>>();
    for _ in 0..3 {
        assert_eq!(sizes(), [1]);
    }
    assert!(view.get(&key("bad")).is_err());
    let told = || warnings.with("left out");
    assert_eq!(told().len(), 1, "{:?}", told());
    assert!(told()[0].contains("Widget default/bad") && !told()[0].contains("canary"), "{:?}", told());
    let counted = |n: u32| {
        let line = format!("concert_undecodable_objects_total{{cluster=\"\",kind=\"Widget.test.dev\"}} {n}\n");
        let text = manager.metrics().text();
        assert!(text.contains(&line), "{text}");
    };
    counted(1);
    counted(1);
    client.merge_patch(&widgets(), &key("bad"), &json!({ "spec": { "size": -1 } }), None).await.unwrap();
    let changed = |object: &[u8]| object.windows(9).any(|part| part == br#""size":-1"#);
    until("the change", || changed(cache.get(&key("bad")).unwrap().bytes())).await;
    assert_eq!((sizes(), sizes()), (vec![1], vec![1]));
    assert_eq!(told().len(), 2, "another version: {:?}", told());
    counted(2);
    assert_eq!(manager.informers().reports()[0].undecodable, 2);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_counted_once_where_two_caches_have_one_name() {
    let client = Server::new().await.client(&World::simulated(1));
    define_widgets(&client).await;
    let manager = Manager::new(client.clone(), ManagerSettings::new("m"));
    let namespaces = Resource::cluster(Gvk::new("", "v1", "Namespace"), "namespaces");
    client.create(&namespaces, &json!({ "metadata": { "name": "other" } })).await.unwrap();
    // Two sets of one name: who looks at the caches by their texts takes them for one.
    let open = |namespace: &str| {
        manager.informers().cache(Scope::all(widgets()).within(&Namespaces::new("ours", [namespace])))
    };
    let caches = [open("default"), open("other")];
    for cache in &caches {
        until("the kind", || cache.state().synced).await;
    }
    for (namespace, name) in [("default", "one"), ("default", "two"), ("other", "three")] {
        let metadata = json!({ "namespace": namespace, "name": name });
        client.create(&widgets(), &json!({ "apiVersion": "test.dev/v1", "kind": "Widget", "metadata": metadata, "spec": { "size": "big" } })).await.unwrap();
    }
    until("all", || caches.iter().map(|cache| cache.len()).sum::<usize>() == 3).await;
    let shows = |line: &str| {
        let text = manager.metrics().text();
        assert!(text.contains(&format!("{line}\n")), "{line} in {text}");
    };
    let counter = |n: u32| format!("concert_undecodable_objects_total{{cluster=\"\",kind=\"Widget.test.dev\"}} {n}");
    for cache in &caches {
        assert!(cache.typed::<Widget>().list().is_empty());
    }
    for _ in 0..3 {
        shows(&counter(3));
        shows("concert_cache_objects{cluster=\"\",scope=\"widgets.test.dev within=ours\"} 3");
    }
    let patch = json!({ "spec": { "size": "bigger" } });
    client.merge_patch(&widgets(), &key("one"), &patch, None).await.unwrap();
    until("the change", || caches[0].state().revision > caches[1].list()[0].revision().unwrap()).await;
    assert!(caches[0].typed::<Widget>().list().is_empty());
    // Nobody looked before it was closed.
    drop(caches);
    shows(&counter(4));
}
