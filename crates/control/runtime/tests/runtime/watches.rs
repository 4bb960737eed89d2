//! Caches that follow a server through trouble.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use concert_runtime::{Client, Informers, Scope, Trouble};
use concert_world::{Call, Flow, Gate, Valve, Verdict, World};
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::{Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};

use crate::embedded::Server;
use crate::{define_widgets, key, map, maps, until, widgets};

/// A cache sees creations, changes and deletions, whatever was there before.
pub(crate) async fn a_cache_follows(client: &Client, prefix: &str) {
    let name = |n: u32| format!("{prefix}-{n}");
    for n in 0..7 {
        client.create(&maps(), &map(&name(n), "1")).await.unwrap();
    }
    let informers = Informers::new(client.clone());
    let cache = informers.cache(maps());
    cache.synced().await;
    assert!((0..7).all(|n| cache.get(&key(&name(n))).is_some()), "pages of a list belong together");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (log, ours) = (Arc::clone(&seen), prefix.to_owned());
    let subscription = cache.subscribe(move |change| {
        if change.key.name.starts_with(&ours) {
            log.lock().unwrap().push(format!("{:?} {} {:?}", change.verb(), change.key.name, change.origin));
        }
    });
    assert_eq!(seen.lock().unwrap().len(), 7, "who comes late is told what is there");
    seen.lock().unwrap().clear();
    client.merge_patch(&maps(), &key(&name(0)), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    client.delete(&maps(), &key(&name(1)), &Default::default()).await.unwrap();
    client.create(&maps(), &map(&name(9), "1")).await.unwrap();
    until("three changes", || seen.lock().unwrap().len() == 3).await;
    let expected = [
        format!("Updated {} Watched", name(0)),
        format!("Deleted {} Watched", name(1)),
        format!("Created {} Watched", name(9)),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert!(!String::from_utf8_lossy(cache.get(&key(&name(0))).unwrap().bytes()).contains("managedFields"));
    drop(subscription);
    for n in [0, 2, 3, 4, 5, 6, 9] {
        client.delete(&maps(), &key(&name(n)), &Default::default()).await.unwrap();
    }
    until("all gone", || cache.get(&key(&name(9))).is_none()).await;
    informers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cache_follows_its_server() {
    a_cache_follows(&Server::new().await.client(&World::simulated(1)), "a").await;
}

#[tokio::test(start_paused = true)]
async fn after_a_gap_vanished_objects_are_deleted_and_the_rest_is_kept() {
    let valve = Valve::by(|_| Flow::Deliver);
    let world = World { valve: valve.clone(), ..World::simulated(1) };
    let client = Server::new().await.client(&world);
    client.create(&maps(), &map("kept", "1")).await.unwrap();
    client.create(&maps(), &map("vanished", "1")).await.unwrap();
    let informers = Informers::new(client.clone());
    let cache = informers.cache(maps());
    cache.synced().await;
    let kept = cache.get(&key("kept")).unwrap();
    valve.set(|delivery| if delivery.event == "DELETED" { Flow::Drop } else { Flow::Deliver });
    client.delete(&maps(), &key("vanished"), &Default::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(cache.get(&key("vanished")).is_some(), "nobody told");
    valve.set(|delivery| if delivery.event == "APPLIED" { Flow::Gone } else { Flow::Deliver });
    client.create(&maps(), &map("new", "1")).await.unwrap();
    until("the new one", || cache.get(&key("new")).is_some()).await;
    assert!(cache.get(&key("vanished")).is_none());
    assert!(Arc::ptr_eq(&kept, &cache.get(&key("kept")).unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_goes_on_without_a_gap() {
    let valve = Valve::by(|_| Flow::Deliver);
    let world = World { valve: valve.clone(), ..World::simulated(1) };
    let client = Server::new().await.client(&world);
    let informers = Informers::new(client.clone());
    let cache = informers.cache(maps());
    cache.synced().await;
    valve.set(|delivery| if delivery.event == "APPLIED" { Flow::Cut } else { Flow::Deliver });
    client.create(&maps(), &map("a", "1")).await.unwrap();
    until("trouble", || matches!(cache.state().trouble, Some(Trouble::Failing(_)))).await;
    client.create(&maps(), &map("b", "1")).await.unwrap();
    valve.set(|_| Flow::Deliver);
    until("both", || cache.len() == 2).await;
    assert_eq!(cache.state().trouble, None);
}

/// A server of the old kind, which refuses lists as events, and has one object nobody can read, in its list and in its
/// watch.
async fn with_bad_objects(request: Request<Body>) -> Result<Response<Full<Bytes>>, Infallible> {
    let asks = |what: &str| request.uri().query().is_some_and(|query| query.contains(what));
    let watches = asks("watch=true");
    if asks("sendInitialEvents") {
        let status =
            json!({ "kind": "Status", "code": 422, "reason": "Invalid", "message": "sendInitialEvents: Forbidden" });
        return Ok(Response::builder().status(422).body(Full::new(Bytes::from(status.to_string()))).unwrap());
    }
    let object = |name: Value| json!({ "metadata": { "namespace": "default", "name": name, "resourceVersion": "5" } });
    let frame = |name: Value| format!("{}\n", json!({ "type": "ADDED", "object": object(name) }));
    let text = if watches {
        frame(json!(7)) + "not even JSON\n" + &frame(json!("watched"))
    } else {
        json!({ "metadata": { "resourceVersion": "1" }, "items": [object(json!(null)), object(json!("listed"))] })
            .to_string()
    };
    Ok(Response::new(Full::new(Bytes::from(text))))
}

/// A server whose list as events breaks off, after the end of an object that it had told before.
async fn breaking_off(request: Request<Body>) -> Result<Response<Full<Bytes>>, Infallible> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let object = |name: &str, at: u32| json!({ "metadata": { "namespace": "default", "name": name, "resourceVersion": at.to_string() } });
    let text = if query.contains("sendInitialEvents") {
        let frames = [("ADDED", object("gone", 5)), ("DELETED", object("gone", 6))];
        frames.map(|(kind, object)| format!("{}\n", json!({ "type": kind, "object": object }))).concat()
    } else if query.contains("watch=true") {
        assert!(query.contains("resourceVersion=9"), "it goes on from the list, and from nowhere else: {query}");
        String::new()
    } else {
        json!({ "metadata": { "resourceVersion": "9" }, "items": [object("listed", 3)] }).to_string()
    };
    Ok(Response::new(Full::new(Bytes::from(text))))
}

#[tokio::test(start_paused = true)]
async fn a_list_as_events_that_breaks_off_is_followed_by_pages() {
    let informers = Informers::new(Client::in_process(tower::service_fn(breaking_off), World::simulated(1)));
    let cache = informers.cache(maps());
    cache.synced().await;
    assert_eq!(cache.list().iter().map(|object| object.name().into_owned()).collect::<Vec<_>>(), ["listed"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn one_bad_object_does_not_hide_the_others() {
    let client = Client::in_process(tower::service_fn(with_bad_objects), World::simulated(1));
    let informers = Informers::new(client);
    let cache = informers.cache(maps());
    until("the watched one", || cache.get(&key("watched")).is_some()).await;
    assert!(cache.get(&key("listed")).is_some());
    assert_eq!(cache.state().skipped, 3);
}

/// A server that answers everything with an object that is no list, once there was one.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_list_is_not_an_empty_one() {
    let listed = Arc::new(AtomicBool::new(false));
    let once = Arc::clone(&listed);
    let serve = tower::service_fn(move |request: Request<Body>| {
        let watches = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let text = match once.fetch_or(!watches, Ordering::Relaxed) {
            false if !watches => {
                let object = json!({ "metadata": { "namespace": "default", "name": "kept", "resourceVersion": "5" } });
                json!({ "metadata": { "resourceVersion": "5" }, "items": [object] }).to_string()
            }
            true if watches => {
                let gone = json!({ "kind": "Status", "code": 410, "message": "too old" });
                format!("{}\n", json!({ "type": "ERROR", "object": gone }))
            }
            _ => "{}".to_owned(),
        };
        async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text)))) }
    });
    let informers = Informers::new(Client::in_process(serve, World::simulated(1)));
    let cache = informers.cache(maps());
    cache.synced().await;
    until("trouble", || cache.state().trouble.is_some()).await;
    assert!(cache.get(&key("kept")).is_some(), "nobody said that it is gone");
}

#[tokio::test(start_paused = true)]
async fn a_kind_may_come_later() {
    let client = Server::new().await.client(&World::simulated(1));
    let informers = Informers::new(client.clone());
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&told);
    informers.on_trouble(|_, _| panic!("this is nobody else's trouble"));
    informers.on_trouble(move |scope, trouble| hears.lock().unwrap().push(format!("{scope}: {trouble}")));
    let (widget, map) = (informers.cache(widgets()), informers.cache(maps()));
    map.synced().await;
    until("trouble", || widget.state().trouble == Some(Trouble::KindMissing)).await;
    assert_eq!(told.lock().unwrap()[0], "widgets.test.dev: the server does not know this kind");
    define_widgets(&client).await;
    widget.synced().await;
    assert_eq!(widget.state().trouble, None);
}

#[tokio::test(start_paused = true)]
async fn one_watch_serves_all_and_ends_with_the_last_handle() {
    let world = World::simulated(1);
    let informers = Informers::new(Server::new().await.client(&world));
    let (one, two) = (informers.cache(maps()), informers.cache(maps()));
    one.synced().await;
    two.synced().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let watches = || world.journal.lines().iter().filter(|line| line.contains("WATCH")).count();
    assert_eq!((watches(), informers.states().len()), (1, 1));
    drop((one, two));
    assert!(informers.states().is_empty());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(watches(), 1, "nobody watches any longer");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_that_ends_in_good_order_goes_on_at_once() {
    // Every watch of this server ends after a minute in which nothing happened.
    let watches = Arc::new(Mutex::new(0));
    let count = Arc::clone(&watches);
    let serve = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let list = query.contains("sendInitialEvents");
        *count.lock().unwrap() += u32::from(!list);
        let mark = json!({ "type": "BOOKMARK", "object": { "metadata": { "resourceVersion": "5", "annotations": { "k8s.io/initial-events-end": "true" } } } });
        let text = if list { format!("{mark}\n") } else { String::new() };
        let ends = async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            None::<Result<http_body::Frame<Bytes>, Infallible>>
        };
        let said = futures::stream::once(async move { Ok(http_body::Frame::data(Bytes::from(text))) });
        let body = StreamBody::new(said.chain(futures::stream::once(ends).filter_map(std::future::ready)).boxed());
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    let informers = Informers::new(Client::in_process(serve, World::simulated(1)));
    let cache = informers.cache(maps());
    cache.synced().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!((58..=60).contains(&*watches.lock().unwrap()), "one a minute: {watches:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_reached_is_not_heard_of() {
    let (valve, gate) = (Valve::by(|_| Flow::Deliver), Switch::default());
    let world = World { valve: valve.clone(), gate: Arc::new(gate.clone()), ..World::simulated(1) };
    let client = Server::new().await.client(&world);
    let informers = Informers::new(client.clone());
    let cache = informers.cache(maps());
    cache.synced().await;
    let lag = || informers.reports()[0].lag.unwrap();
    valve.set(|_| Flow::Cut);
    client.create(&maps(), &map("a", "1")).await.unwrap();
    until("cut", || cache.state().trouble.is_some()).await;
    gate.0.store(true, Ordering::Relaxed);
    valve.set(|_| Flow::Deliver);
    let before = lag();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(lag() >= before + Duration::from_secs(300), "{:?}, and tried again and again", lag());
    gate.0.store(false, Ordering::Relaxed);
    until("it is back", || cache.len() == 1).await;
    assert!(lag() < Duration::from_secs(1), "{:?}", lag());
}

/// A server that never says how far it is (or whose words are lost) is heard of each time that it opens a watch.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_opened_anew_is_heard_of_without_bookmarks() {
    let valve = Valve::by(|_| Flow::Deliver);
    let world = World { valve: valve.clone(), ..World::simulated(1) };
    let client = Server::new().await.client(&world);
    let informers = Informers::new(client);
    let cache = informers.cache(maps());
    cache.synced().await;
    valve.set(|_| Flow::Cut);
    let cut = async {
        while cache.state().trouble.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), cut).await.expect("a bookmark comes, and the watch is cut");
    valve.set(|_| Flow::Drop);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(cache.state().trouble, None, "it is open again");
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let lag = informers.reports()[0].lag.unwrap();
        assert!(lag < Duration::from_secs(330), "{lag:?}: no longer than a watch lives");
    }
}

/// Never answers what is asked about one namespace.
#[derive(Debug)]
struct Deaf;

impl Gate for Deaf {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        if call.key.contains("deaf") { Verdict::Hang } else { Verdict::Pass }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_never_heard_of_lags_since_it_began() {
    let world = World { gate: Arc::new(Deaf), ..World::simulated(1) };
    let informers = Informers::new(Server::new().await.client(&world));
    let cache = informers.cache(Scope::all(maps()).in_namespaces(["default", "deaf"]));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!cache.state().synced);
    let lag = informers.reports()[0].lag.unwrap();
    assert!(lag >= Duration::from_secs(600), "{lag:?}");
}

/// Lets nobody through while it is set.
#[derive(Clone, Debug, Default)]
struct Switch(Arc<AtomicBool>);

impl Gate for Switch {
    fn admit(&self, _: &Call<'_>) -> Verdict {
        if self.0.load(Ordering::Relaxed) { Verdict::Refuse } else { Verdict::Pass }
    }
}
