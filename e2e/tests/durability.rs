//! What `concert serve` has acknowledged is there after `kill -9`, whenever it comes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use concert_e2e::{Api, Connection, ControlPlane, Dice, Stopwatch, eventually, on_embedded_only, pause};
use serde_json::{Value, json};

const KILLS: u32 = 100;
const WRITERS: usize = 6;
/// Objects of each writer.
const OBJECTS: u64 = 20;
/// One write in this many is a delete.
const DELETE: u64 = 10;
const SOON: Duration = Duration::from_secs(30);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// One state of one object: its name and the number of the write.
type State = (String, u64);

/// An acknowledged write.
struct Acknowledged {
    /// Zero for a deletion: its answer need not carry one.
    revision: u64,
    name: String,
    /// The number of the write.
    count: u64,
    deleted: bool,
}

/// What a writer knows.
#[derive(Default)]
struct Written {
    acknowledged: Vec<Acknowledged>,
    /// Everything that it tried to write.
    attempted: BTreeSet<State>,
    /// The last write of each object that got no answer: it may have happened.
    unanswered: BTreeMap<String, u64>,
    /// Answers that no write should get.
    strange: Vec<String>,
}

/// What a watch showed: revision, state, and whether it was deleted.
struct Seen {
    revision: u64,
    state: State,
    deleted: bool,
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a revision")
}

fn state(object: &Value) -> State {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    (name, object["data"]["count"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default())
}

/// Writes as fast as it is answered, until told to stop.
fn write(api: &Api, writer: usize, stop: &AtomicBool) -> Written {
    let mut written = Written::default();
    let mut dice = Dice::new(writer as u64);
    let mut connection: Option<Connection> = None;
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let Some(open) = connection.as_mut() else {
            connection = api.connect().ok();
            if connection.is_none() {
                pause(Duration::from_millis(2));
            }
            continue;
        };
        count += 1;
        let name = format!("w{writer}-{}", dice.below(OBJECTS));
        let path = format!("{CONFIG_MAPS}/{name}");
        let data = json!({"data": {"count": count.to_string(), "filler": "x".repeat(200)}});
        let delete = dice.below(DELETE) == 0;
        let outcome = if delete {
            open.request("DELETE", &path, None)
        } else {
            written.attempted.insert((name.clone(), count));
            open.request("PATCH", &path, Some(&data)).and_then(|answer| match answer.code {
                404 => {
                    let mut object = data.clone();
                    object["metadata"] = json!({"name": name});
                    open.request("POST", CONFIG_MAPS, Some(&object))
                }
                _ => Ok(answer),
            })
        };
        match outcome.map(|answer| (answer.code, answer)) {
            Ok((200, _)) if delete => {
                written.acknowledged.push(Acknowledged { revision: 0, name, count, deleted: true })
            }
            Ok((404, _)) if delete => {}
            Ok((200 | 201, answer)) => {
                let revision = revision(&answer.body);
                written.acknowledged.push(Acknowledged { revision, name, count, deleted: false });
            }
            Ok((400..500, answer)) => written.strange.push(format!("{name} {count}: {answer:?}")),
            Ok(_) | Err(_) => {
                written.unanswered.insert(name, count);
                connection = None;
            }
        }
    }
    written
}

/// Watches from `start` on, across every cut, until it has seen the object `end`.
fn watch(api: &Api, start: u64, end: &str, resumptions: &mut u32) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    let mut last = start;
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
        *resumptions += 1;
        while let Ok(Some(change)) = watch.next_change() {
            assert_ne!(change.kind, "ERROR", "resumed at {last}: {}", change.object);
            last = revision(&change.object);
            if change.kind == "BOOKMARK" {
                continue;
            }
            let state = state(&change.object);
            let done = state.0 == end;
            seen.push(Seen { revision: last, state, deleted: change.kind == "DELETED" });
            if done {
                return seen;
            }
        }
    }
}

fn nothing_acknowledged_is_lost(server: &ControlPlane) {
    let (api, stop) = (server.api(), AtomicBool::new(false));
    let watch_took = Stopwatch::start();
    let start = revision(&api.request("GET", CONFIG_MAPS, None).expect("an answer").body);
    let mut resumptions = 0;
    let (written, seen, slowest) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&api, start, "end", &mut resumptions));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (api, stop) = (&api, &stop);
                scope.spawn(move || write(api, writer, stop))
            })
            .collect();
        let mut dice = Dice::new(50);
        let mut slowest = Duration::ZERO;
        for _ in 0..KILLS {
            pause(dice.between(Duration::from_millis(5), Duration::from_millis(250)));
            server.kill9();
            let restart = Stopwatch::start();
            server.start();
            slowest = slowest.max(restart.elapsed());
        }
        pause(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        let written: Vec<Written> = writers.into_iter().map(|writer| writer.join().expect("a writer")).collect();
        let end = json!({"metadata": {"name": "end"}});
        eventually("the last write", SOON, || match api.request("POST", CONFIG_MAPS, Some(&end)) {
            Ok(answer) if [201, 409].contains(&answer.code) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        (written, watcher.join().expect("the watcher"), slowest)
    });

    let strange: Vec<&String> = written.iter().flat_map(|writer| &writer.strange).collect();
    assert!(strange.is_empty(), "{} strange answers: {:?}", strange.len(), &strange[..strange.len().min(5)]);
    let acknowledged: usize = written.iter().map(|writer| writer.acknowledged.len()).sum();
    check_revisions(&written, &seen);
    check_final_state(&api, &written, &seen);
    println!(
        "{KILLS} kills of `concert serve` under {WRITERS} writers in {:.1} s: {acknowledged} acknowledged writes, \
         {} events over {resumptions} watches, slowest restart {slowest:.0?}",
        watch_took.elapsed().as_secs_f64(),
        seen.len(),
    );
    assert!(acknowledged > 1_000, "too few writes to show anything: {acknowledged}");
    assert!(resumptions > KILLS / 2, "the watch was hardly cut: {resumptions}");
}

/// The watch showed every acknowledged write, at the revision of its answer, and nothing that nobody wrote.
fn check_revisions(written: &[Written], seen: &[Seen]) {
    let mut by_revision: BTreeMap<u64, &Seen> = BTreeMap::new();
    for pair in seen.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        assert!(a.revision < b.revision, "revision {} after {}: {:?} {:?}", b.revision, a.revision, b.state, a.state);
    }
    by_revision.extend(seen.iter().map(|event| (event.revision, event)));
    let mut used: BTreeMap<u64, &str> = BTreeMap::new();
    for writer in written {
        let mut last = 0;
        let writes = writer.acknowledged.iter().filter(|write| !write.deleted);
        for Acknowledged { revision, name, count, .. } in writes {
            assert!(*revision > last, "{name} {count}: revision {revision} was acknowledged after {last}");
            last = *revision;
            let other = used.insert(*revision, name);
            assert!(other.is_none(), "revision {revision} was used twice: {name} {count} and {other:?}");
            let event = by_revision.get(revision);
            let event = event.unwrap_or_else(|| panic!("the watch missed {name} {count} at revision {revision}"));
            assert_eq!((&event.state.0, event.state.1, event.deleted), (name, *count, false), "at revision {revision}");
        }
    }
    let wrote: BTreeSet<&State> = written.iter().flat_map(|writer| &writer.attempted).collect();
    for event in seen.iter().filter(|event| event.state.0.starts_with('w')) {
        assert!(wrote.contains(&event.state), "nobody wrote {:?} at revision {}", event.state, event.revision);
    }
}

/// Every object is as its last acknowledged write left it, or as a later one without an answer did; the watch says the
/// same as the list.
fn check_final_state(api: &Api, written: &[Written], seen: &[Seen]) {
    let list = api.request("GET", CONFIG_MAPS, None).expect("an answer").body;
    let items = list["items"].as_array().expect("items");
    let listed: BTreeMap<String, (u64, u64)> =
        items.iter().map(|item| (state(item), revision(item))).map(|((name, count), at)| (name, (count, at))).collect();
    let mut shown: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for event in seen {
        let (name, count) = event.state.clone();
        if event.deleted {
            shown.remove(&name);
        } else {
            shown.insert(name, (count, event.revision));
        }
    }
    assert_eq!(shown, listed, "what the watch showed is what there is");
    for writer in written {
        let last: BTreeMap<&String, &Acknowledged> = writer.acknowledged.iter().map(|one| (&one.name, one)).collect();
        for (name, Acknowledged { count, deleted, .. }) in last {
            let now = listed.get(name).map(|(count, _)| *count);
            let expected = (!deleted).then_some(*count);
            let later = writer.unanswered.get(name).is_some_and(|unanswered| unanswered > count);
            assert!(now == expected || later, "{name}: {expected:?} was acknowledged last, and {now:?} is there");
        }
    }
}

on_embedded_only!(nothing_acknowledged_is_lost);
