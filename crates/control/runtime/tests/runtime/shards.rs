//! Keys shared out over replicas: never two on one key, all shards held soon, whoever comes and goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::{Gvk, ObjectKey};
use concert_runtime::manager::ManagerError;
use concert_runtime::{
    Client, Controller, Manager, ManagerSettings, Outcome, Resource, Scope, Selection, ShardSettings, Shards, Stop,
    TaskGroup, reconcile_fn,
};
use concert_world::{Call, Gate, Verdict, World};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::embedded::Server;
use crate::{key, map, maps, until};

const SHARDS: u32 = 8;
const KEYS: usize = 40;

/// Who works on which key at the moment, and how many turns each replica has begun.
#[derive(Debug, Default)]
struct Book {
    working: BTreeMap<ObjectKey, &'static str>,
    turns: BTreeMap<(&'static str, ObjectKey), usize>,
    /// Keys that two worked on. Noted, since a panic in a turn is fenced.
    met: Vec<String>,
}

type Books = Arc<Mutex<Book>>;

/// Takes a note of a turn's beginning and, whatever becomes of it, of its end.
struct Entry(Books, ObjectKey);

impl Entry {
    fn new(books: &Books, who: &'static str, key: &ObjectKey) -> Self {
        let mut book = books.lock().unwrap();
        if let Some(other) = book.working.insert(key.clone(), who) {
            book.met.push(format!("{other} and {who} work on {key}"));
        }
        *book.turns.entry((who, key.clone())).or_default() += 1;
        Self(Arc::clone(books), key.clone())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.lock().unwrap().working.remove(&self.1);
    }
}

struct Replica {
    world: World,
    shards: Shards,
    drain: CancellationToken,
    tasks: TaskGroup<Result<(), ManagerError>>,
}

/// A replica whose turns take two seconds, and which looks at each key every few seconds.
fn replica(server: &Server, who: &'static str, seed: u64, books: &Books) -> Replica {
    let world = World::simulated(seed);
    replica_of(server.client(&world), who, books)
}

fn replica_of(client: Client, who: &'static str, books: &Books) -> Replica {
    let world = client.world().clone();
    let shards = ShardSettings { count: SHARDS, ..ShardSettings::new("default", "maps", who) };
    let settings = ManagerSettings { shards: Some(shards), ..ManagerSettings::new(who) };
    let manager = Manager::new(client, settings);
    let (books, shards) = (Arc::clone(books), manager.shards().unwrap().clone());
    let slow = reconcile_fn(move |request| {
        let entry = Entry::new(&books, who, &request.key);
        async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            drop(entry);
            Ok(Outcome::After(Duration::from_secs(3)))
        }
    });
    let maps = Scope::all(maps()).labelled("shared=yes");
    manager.add_controller(Controller::builder("maps").for_(maps).workers(KEYS).run(slow).unwrap()).unwrap();
    let drain = CancellationToken::new();
    let mut tasks = TaskGroup::new(CancellationToken::new());
    tasks.spawn(who, manager.run(Stop::on(drain.clone(), CancellationToken::new())));
    Replica { world, shards, drain, tasks }
}

async fn server_with_keys() -> (Server, Client) {
    let server = Server::new().await;
    let client = server.client(&World::simulated(100));
    create_keys(&client).await;
    (server, client)
}

async fn create_keys(client: &Client) {
    for n in 0..KEYS {
        let mut object = map(&format!("m{n}"), "1");
        object["metadata"]["labels"] = json!({ "shared": "yes" });
        client.create(&maps(), &object).await.unwrap();
    }
}

/// Two replicas share, one leaves, the other takes its share; then nothing of the group is left held.
pub(crate) async fn replicas_share_and_leave(client: &Client) {
    create_keys(client).await;
    let books = Books::default();
    let (a, mut b) = (replica_of(client.clone(), "a", &books), replica_of(client.clone(), "b", &books));
    // Generous: on a real server time is real, and the machine may be busy.
    settled(&[&a, &b], Duration::from_secs(90)).await;
    until("every key is worked on", || everything_is_worked_on(&books, &[("a", &a), ("b", &b)])).await;
    b.drain.cancel();
    b.tasks.join_next().await.unwrap().result.unwrap().unwrap();
    settled(&[&a], Duration::from_secs(90)).await;
    until("every key is worked on", || everything_is_worked_on(&books, &[("a", &a)])).await;
    let Replica { drain, mut tasks, .. } = a;
    drain.cancel();
    tasks.join_next().await.unwrap().result.unwrap().unwrap();
    assert_eq!(books.lock().unwrap().met, Vec::<String>::new());
    for n in 0..KEYS {
        client.delete(&maps(), &key(&format!("m{n}")), &Default::default()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn two_replicas_share_and_leave() {
    replicas_share_and_leave(&Server::new().await.client(&World::simulated(1))).await;
}

fn held(replicas: &[&Replica]) -> Vec<usize> {
    replicas.iter().map(|replica| replica.shards.held().len()).collect()
}

async fn settled(replicas: &[&Replica], bound: Duration) -> Duration {
    let began = tokio::time::Instant::now();
    let share = SHARDS.div_ceil(u32::try_from(replicas.len()).unwrap()) as usize;
    loop {
        let now = held(replicas);
        if now.iter().sum::<usize>() == SHARDS as usize && now.iter().all(|count| *count <= share) {
            return began.elapsed();
        }
        assert!(began.elapsed() < bound, "{now:?} are held after {bound:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_share_the_keys_whoever_comes_and_goes() {
    let ((server, client), books) = (server_with_keys().await, Books::default());
    let a = replica(&server, "a", 1, &books);
    let alone = settled(&[&a], Duration::from_secs(10)).await;
    let (b, c) = (replica(&server, "b", 2, &books), replica(&server, "c", 3, &books));
    let shared = settled(&[&a, &b, &c], Duration::from_secs(20)).await;
    until("every key is worked on by its holder", || {
        everything_is_worked_on(&books, &[("a", &a), ("b", &b), ("c", &c)])
    })
    .await;
    // What changes is told to the holder, and to nobody else.
    client.merge_patch(&maps(), &key("m7"), &json!({ "data": { "a": "2" } }), None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(held(&[&a, &b, &c]).iter().sum::<usize>(), SHARDS as usize);

    // One dies without a word: what it still does is refused, and it gives up by itself.
    b.world.incarnation.kill();
    let after_a_death = settled(&[&a, &c], Duration::from_secs(30)).await;
    until("every key is worked on", || everything_is_worked_on(&books, &[("a", &a), ("c", &c)])).await;

    // One goes in order: it drains first, and the other need not wait for its leases to be over.
    let Replica { drain, mut tasks, .. } = c;
    drain.cancel();
    tasks.join_next().await.unwrap().result.unwrap().unwrap();
    let after_a_leave = settled(&[&a], Duration::from_secs(6)).await;
    until("every key is worked on", || everything_is_worked_on(&books, &[("a", &a)])).await;
    assert_eq!(books.lock().unwrap().met, Vec::<String>::new());
    let measured = [alone, shared, after_a_death, after_a_leave];
    let bounds = [1, 8, 25, 4].map(Duration::from_secs);
    assert!(measured.iter().zip(&bounds).all(|(took, bound)| took <= bound), "{measured:?}");
}

/// Whether each key has just been worked on by the replica that holds its shard.
fn everything_is_worked_on(books: &Books, replicas: &[(&'static str, &Replica)]) -> bool {
    let book = books.lock().unwrap();
    (0..KEYS).all(|n| {
        let key = key(&format!("m{n}"));
        let holder = replicas.iter().find(|(_, replica)| replica.shards.owns(&key.to_string()));
        holder.is_some_and(|(who, replica)| {
            assert!(replica.shards.fence(&key.to_string()).is_some());
            book.turns.contains_key(&(*who, key.clone()))
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_cut_off_stops_before_others_take_over() {
    let ((server, _), books) = (server_with_keys().await, Books::default());
    let (a, mut b) = (replica(&server, "a", 1, &books), replica(&server, "b", 2, &books));
    settled(&[&a, &b], Duration::from_secs(20)).await;
    b.world.incarnation.kill();
    let ended = b.tasks.join_next().await.unwrap().result.unwrap();
    assert!(matches!(ended, Err(ManagerError::Lease(_))), "{ended:?}");
    assert!(b.shards.held().is_empty() && b.shards.fence("default/m1").is_none());
    assert!(a.shards.held().len() < SHARDS as usize, "nobody took over yet");
    settled(&[&a], Duration::from_secs(20)).await;
    assert_eq!(books.lock().unwrap().met, Vec::<String>::new());
}

/// From a moment on, gives some sort of request about leases a verdict of its own.
#[derive(Clone, Debug, Default)]
struct Trouble(Arc<Mutex<Option<(&'static str, Verdict)>>>);

impl Gate for Trouble {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        let (presence, list) = (call.key.contains("maps-member-"), call.key.ends_with("/leases"));
        match &*self.0.lock().unwrap() {
            Some(("lists", verdict)) if list && call.verb == "GET" => verdict.clone(),
            Some(("presence", verdict)) if presence => verdict.clone(),
            Some(("both", verdict)) if presence || list => verdict.clone(),
            Some(("writes of shards", verdict)) if !presence && call.verb == "PUT" => verdict.clone(),
            _ => Verdict::Pass,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_renewed_whatever_else_fails() {
    let troubles = ["lists", "presence", "both"];
    let troubles = troubles.into_iter().flat_map(|about| [(about, Verdict::Fail(500)), (about, Verdict::Hang)]);
    for trouble in troubles {
        let ((server, _), books) = (server_with_keys().await, Books::default());
        let gate = Trouble::default();
        let world = World { gate: Arc::new(gate.clone()), ..World::simulated(1) };
        let a = replica_of(server.client(&world), "a", &books);
        settled(&[&a], Duration::from_secs(10)).await;
        *gate.0.lock().unwrap() = Some(trouble.clone());
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(held(&[&a]), [SHARDS as usize], "trouble with {trouble:?}");
        *gate.0.lock().unwrap() = None;
        let b = replica(&server, "b", 2, &books);
        settled(&[&a, &b], Duration::from_secs(20)).await;
        assert_eq!(books.lock().unwrap().met, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_during_a_handover_ends_nothing() {
    let ((server, _), books) = (server_with_keys().await, Books::default());
    let gate = Trouble::default();
    let mut a = replica_of(server.client(&World { gate: Arc::new(gate.clone()), ..World::simulated(1) }), "a", &books);
    settled(&[&a], Duration::from_secs(10)).await;
    // Shorter than what it takes to lose a lease: whatever is written meanwhile is carried out, and not heard of.
    *gate.0.lock().unwrap() = Some(("writes of shards", Verdict::LoseReply));
    let b = replica(&server, "b", 2, &books);
    tokio::time::sleep(Duration::from_secs(5)).await;
    *gate.0.lock().unwrap() = None;
    settled(&[&a, &b], Duration::from_secs(20)).await;
    let ended = tokio::time::timeout(Duration::from_secs(30), a.tasks.join_next()).await;
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!(held(&[&a, &b]), [4, 4]);
    assert_eq!(books.lock().unwrap().met, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn replicas_whose_identities_look_alike_are_two() {
    let ((server, client), books) = (server_with_keys().await, Books::default());
    let replicas = [replica(&server, "pod.a", 1, &books), replica(&server, "pod-a", 2, &books)];
    settled(&replicas.each_ref(), Duration::from_secs(30)).await;
    let leases = Resource::namespaced(Gvk::new("coordination.k8s.io", "v1", "Lease"), "leases");
    let members = Selection { labels: "concert.dev/shard-member".into(), ..Selection::default() };
    let present = client.list(&leases, &members).await.unwrap().objects;
    let names: Vec<String> = present.iter().map(|lease| lease.name().into_owned()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"maps-member-pod-a".to_owned()), "who needs no change keeps its name: {names:?}");
    assert!(names.iter().any(|name| name.starts_with("maps-member-pod-a-")), "{names:?}");
}

#[test]
fn the_name_of_shards_has_to_be_the_value_of_a_label() {
    let checked = |name: &str| ShardSettings::new("home", name, "me").check().map_err(|error| error.to_string());
    assert_eq!(checked(&"n".repeat(63)), Ok(()));
    let why = "its name labels the Leases of its shards, so it has at most 63 characters, not 64";
    let name = "n".repeat(64);
    assert_eq!(checked(&name), Err(format!("cannot use lease home/{name}: {why}")));
}
