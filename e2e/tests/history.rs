//! What 64 clients see of `concert serve`, while it is killed again and again, could have happened one after the other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use concert_e2e::history::{Act, Event, Key, Operation, Outcome, check};
use concert_e2e::{Answer, Api, Connection, ControlPlane, Dice, Stopwatch, eventually, on_embedded_only, pause};
use serde_json::{Value, json};

const CLIENTS: u64 = 64;
const OPERATIONS: u64 = 100_000;
const KILLS: u64 = 12;
const WATCHES: usize = 4;
/// Few, so that clients meet.
const OBJECTS: u64 = 48;
const SOON: Duration = Duration::from_secs(30);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const END: &str = "end";

/// What all clients share.
struct Run {
    api: Api,
    /// Moments: each is later than those before it, for everybody.
    clock: AtomicU64,
    /// Values: each write has its own.
    values: AtomicU64,
    answered: AtomicU64,
}

fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn revision(object: &Value) -> u64 {
    number(&object["metadata"]["resourceVersion"])
}

fn value(object: &Value) -> u64 {
    number(&object["data"]["value"])
}

fn name(object: &Value) -> Key {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// One client: what it knows of the objects is what it saw last.
struct Client<'a> {
    run: &'a Run,
    dice: Dice,
    connection: Option<Connection>,
    known: BTreeMap<Key, u64>,
    operations: Vec<Operation>,
}

impl Client<'_> {
    fn choose(&mut self) -> Act {
        let key = format!("o{}", self.dice.below(OBJECTS));
        let fresh = || self.run.values.fetch_add(1, Ordering::Relaxed) + 1;
        let known = self.known.get(&key).copied();
        match (self.dice.below(100), known) {
            (0..15, _) => Act::Create(key, fresh()),
            (15..35, Some(revision)) => Act::Replace(key, fresh(), revision),
            (35..60, _) => Act::Patch(key, fresh()),
            (60..70, Some(revision)) => Act::Delete(key, revision),
            (70..78, _) => Act::List,
            _ => Act::Get(key),
        }
    }

    /// Asks, and writes down what came of it. Without a connection it makes one first: that is no operation.
    fn step(&mut self) {
        let Some(mut connection) = self.connection.take().or_else(|| self.run.api.connect().ok()) else {
            return pause(Duration::from_millis(2));
        };
        let act = self.choose();
        let begun = self.run.clock.fetch_add(1, Ordering::SeqCst);
        let answer = send(&mut connection, &act);
        let ended = self.run.clock.fetch_add(1, Ordering::SeqCst);
        let outcome = match answer {
            Ok(answer) => {
                self.connection = Some(connection);
                read(&act, &answer)
            }
            Err(_) => Outcome::Unknown,
        };
        if outcome != Outcome::Unknown {
            self.run.answered.fetch_add(1, Ordering::Relaxed);
        }
        self.learn(&act, &outcome);
        self.operations.push(Operation { begun, ended, act, outcome });
    }

    fn learn(&mut self, act: &Act, outcome: &Outcome) {
        if let Outcome::Listed(_, items) = outcome {
            self.known = items.iter().map(|(key, (revision, _))| (key.clone(), *revision)).collect();
        }
        let (Act::Create(key, _) | Act::Replace(key, ..) | Act::Patch(key, _) | Act::Delete(key, _) | Act::Get(key)) =
            act
        else {
            return;
        };
        match outcome {
            Outcome::Written(revision) | Outcome::Found(revision, _) => {
                self.known.insert(key.clone(), *revision);
            }
            Outcome::Deleted | Outcome::Absent | Outcome::Conflict => {
                self.known.remove(key);
            }
            Outcome::Exists | Outcome::Unknown | Outcome::Listed(..) => {}
        }
    }
}

fn send(connection: &mut Connection, act: &Act) -> std::io::Result<Answer> {
    let path = |key: &str| format!("{CONFIG_MAPS}/{key}");
    let data = |value: &u64| json!({"value": value.to_string()});
    match act {
        Act::Create(key, value) => {
            let object = json!({"metadata": {"name": key}, "data": data(value)});
            connection.request("POST", CONFIG_MAPS, Some(&object))
        }
        Act::Replace(key, value, revision) => {
            let metadata = json!({"name": key, "resourceVersion": revision.to_string()});
            connection.request("PUT", &path(key), Some(&json!({"metadata": metadata, "data": data(value)})))
        }
        Act::Patch(key, value) => connection.request("PATCH", &path(key), Some(&json!({"data": data(value)}))),
        Act::Delete(key, revision) => {
            let options = json!({"preconditions": {"resourceVersion": revision.to_string()}});
            connection.request("DELETE", &path(key), Some(&options))
        }
        Act::Get(key) => connection.request("GET", &path(key), None),
        Act::List => connection.request("GET", CONFIG_MAPS, None),
    }
}

fn read(act: &Act, answer: &Answer) -> Outcome {
    let body = &answer.body;
    match (answer.code, act) {
        (500.., _) => Outcome::Unknown,
        (404, _) => Outcome::Absent,
        (409, Act::Create(..)) => Outcome::Exists,
        (409, _) => Outcome::Conflict,
        (200, Act::Delete(..)) => Outcome::Deleted,
        (200, Act::Get(_)) => Outcome::Found(revision(body), value(body)),
        (200, Act::List) => {
            let items = body["items"].as_array().expect("items");
            let items = items.iter().map(|item| (name(item), (revision(item), value(item)))).collect();
            Outcome::Listed(revision(body), items)
        }
        (200 | 201, _) => Outcome::Written(revision(body)),
        _ => panic!("{act:?} was answered with {answer:?}"),
    }
}

/// Watches from `last` on, across every cut, until the end.
fn watch(api: &Api, mut last: u64) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let path = format!("{CONFIG_MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={last}");
        let mut watch = match api.watch(&path) {
            Ok(watch) => watch,
            Err(error) if error.to_string().starts_with("no watch") => panic!("cannot resume at {last}: {error}"),
            Err(_) => {
                pause(Duration::from_millis(2));
                continue;
            }
        };
        while let Ok(Some(change)) = watch.next_change() {
            assert_ne!(change.kind, "ERROR", "resumed at {last}: {}", change.object);
            last = revision(&change.object);
            let key = name(&change.object);
            if key == END {
                return events;
            }
            if change.kind != "BOOKMARK" {
                let value = (change.kind != "DELETED").then(|| value(&change.object));
                events.push(Event { revision: last, key, value, added: change.kind == "ADDED" });
            }
        }
    }
}

fn what_many_clients_see_could_have_happened_in_order(server: &ControlPlane) {
    let run =
        Run { api: server.api(), clock: AtomicU64::new(0), values: AtomicU64::new(0), answered: AtomicU64::new(0) };
    let took = Stopwatch::start();
    let list = run.api.request("GET", CONFIG_MAPS, None).expect("an answer").body;
    for old in list["items"].as_array().expect("items") {
        run.api.request("DELETE", &format!("{CONFIG_MAPS}/{}", name(old)), None).expect("an answer");
    }
    let start = revision(&run.api.request("GET", CONFIG_MAPS, None).expect("an answer").body);
    let (operations, mut watches) = std::thread::scope(|scope| {
        let watches: Vec<_> = (0..WATCHES).map(|_| scope.spawn(|| watch(&run.api, start))).collect();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|seed| {
                let run = &run;
                scope.spawn(move || {
                    let (dice, operations) = (Dice::new(seed), Vec::new());
                    let mut client = Client { run, dice, connection: None, known: BTreeMap::new(), operations };
                    while run.answered.load(Ordering::Relaxed) < OPERATIONS {
                        client.step();
                    }
                    client.operations
                })
            })
            .collect();
        for kill in 1..=KILLS {
            while run.answered.load(Ordering::Relaxed) < kill * OPERATIONS / (KILLS + 1) {
                pause(Duration::from_millis(1));
            }
            server.kill9();
            server.start();
        }
        let operations: Vec<_> = clients.into_iter().flat_map(|client| client.join().expect("a client")).collect();
        let end = json!({"metadata": {"name": END}});
        eventually("the last write", SOON, || match run.api.request("POST", CONFIG_MAPS, Some(&end)) {
            Ok(answer) if [201, 409].contains(&answer.code) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        let watches: Vec<_> = watches.into_iter().map(|watch| watch.join().expect("a watch")).collect();
        (operations, watches)
    });
    let elapsed = took.elapsed();
    let log = watches.pop().expect("a watch");
    for other in &watches {
        assert_eq!(other.len(), log.len(), "every watch shows everything");
    }
    check(&operations, &log, &watches).unwrap_or_else(|violation| panic!("{violation}"));
    let unknown = operations.iter().filter(|operation| operation.outcome == Outcome::Unknown).count();
    let answered = operations.len() - unknown;
    println!(
        "{answered} operations of {CLIENTS} clients in {:.1} s with {KILLS} kills ({unknown} without an answer), {} events \
         in each of {WATCHES} watches: in order",
        elapsed.as_secs_f64(),
        log.len(),
    );
    assert!(answered >= 100_000 && log.len() > 10_000, "{answered}, {}", log.len());
}

on_embedded_only!(what_many_clients_see_could_have_happened_in_order);
