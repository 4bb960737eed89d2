//! Mailboxes, channels and floors over many interleavings, on the shipped types. See [`crate::sync`].

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::Arc;

use concert_api::{Gvk, Object, ObjectKey};
use concert_queue::{Backoff, Desk, Settings};
use shuttle::future::block_on;
use shuttle::thread::spawn;

use super::channel::Channel;
use super::*;
use crate::client::Client;
use crate::resource::Resource;
use crate::sync::check;
use crate::trigger::Mapping;

fn object(name: &str, at: u32) -> Arc<Object> {
    let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{at}"}}}}"#);
    Arc::new(Object::parse(json.into()).unwrap())
}

fn at(object: Option<&Arc<Object>>) -> u32 {
    object.map_or(0, |object| object.resource_version().parse().unwrap())
}

/// Changes of one object, one after the other: from 0 (nothing) to the last.
fn changes(name: &str, last: u32) -> Vec<Change> {
    let state = |at: u32| (at > 0).then(|| object(name, at));
    let key = ObjectKey::cluster(name);
    let change = |n: u32| Change { key: key.clone(), old: state(n - 1), new: state(n), origin: Origin::Watched };
    (1..=last).map(change).collect()
}

#[test]
fn a_mailbox_loses_no_state_whatever_it_folds_and_always_wakes_its_reader() {
    check(|| {
        let mailbox = Arc::new(Mailbox::default());
        let writers = ["a", "b"].map(|name| {
            let mailbox = Arc::clone(&mailbox);
            spawn(move || changes(name, 3).into_iter().for_each(|change| mailbox.put(change)))
        });
        let reads = Arc::clone(&mailbox);
        let reader = spawn(move || {
            let mut reached = BTreeMap::from([("a".to_owned(), 0), ("b".to_owned(), 0)]);
            let mut letters = 0;
            while reached.values().any(|at| *at < 3) {
                let Letter { change, .. } = block_on(reads.next());
                letters += 1;
                let reached = reached.get_mut(&*change.key.name).unwrap();
                assert_eq!(at(change.old.as_ref()), *reached, "what was before is what was told last");
                *reached = at(change.new.as_ref());
            }
            letters
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let letters = reader.join().unwrap();
        let Backlog { waiting, folded, .. } = mailbox.backlog();
        assert_eq!((waiting, folded + letters), (0, 6), "every change was told or folded");
    });
}

#[test]
fn a_channel_reaches_who_reads_it_and_forgets_who_left() {
    check(|| {
        let channel = Channel::new();
        let stays = channel.open();
        let (sends, opens) = (channel.clone(), channel.clone());
        let sender = spawn(move || (1..=3).for_each(|n| sends.send(object("a", n))));
        let comes_and_goes = spawn(move || drop(opens.open()));
        let reader = spawn(move || {
            let mut seen = 0;
            while seen < 3 {
                let now = at(block_on(stays.next()).change.new.as_ref());
                assert!(now > seen, "{now} after {seen}");
                seen = now;
            }
        });
        for thread in [sender, comes_and_goes, reader] {
            thread.join().unwrap();
        }
    });
}

/// A floor and the cache it waits for.
struct House {
    freshness: Freshness<ObjectKey>,
    cache: Cache,
    _informers: Informers,
}

fn things() -> Resource {
    Resource::cluster(Gvk::new("test.dev", "v1", "Thing"), "things")
}

/// Of a server that never answers.
fn client() -> Client {
    let never = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
    });
    Client::in_process(never, concert_world::World::simulated(1))
}

fn house() -> Arc<House> {
    let client = client();
    let informers = Informers::new(client.clone());
    let cache = informers.cache(things());
    let freshness = Freshness::new(client.clone());
    freshness.join(0, cache.clone(), client, true);
    Arc::new(House { freshness, cache, _informers: informers })
}

fn thing(at: u32) -> Object {
    let json =
        format!(r#"{{"apiVersion":"test.dev/v1","kind":"Thing","metadata":{{"name":"a","resourceVersion":"{at}"}}}}"#);
    Object::parse(json.into()).unwrap()
}

#[test]
fn who_wrote_sees_it_whoever_else_waits_or_writes_for_the_same_key() {
    check(|| {
        let (house, key) = (house(), ObjectKey::cluster("a"));
        let turns = [1, 2].map(|revision| {
            let (house, key) = (Arc::clone(&house), key.clone());
            spawn(move || {
                assert_eq!(house.freshness.wrote(&key, None, &thing(revision)), [0]);
                assert!(block_on(house.freshness.catch_up(&key)), "nothing is late: time stands still");
                let seen = house.cache.state().revision;
                assert!(seen >= u64::from(revision), "{seen} although {revision} was written");
            })
        });
        let feeds = Arc::clone(&house);
        let writer = spawn(move || (0..=2).for_each(|revision| feeds.cache.arrives(revision)));
        turns.into_iter().for_each(|turn| turn.join().unwrap());
        writer.join().unwrap();
        assert!(block_on(house.freshness.catch_up(&key)));
    });
}

#[test]
fn a_source_that_leaves_is_waited_for_by_nobody() {
    check(|| {
        let (house, key) = (house(), ObjectKey::cluster("a"));
        house.cache.arrives(0);
        let leaves = Arc::clone(&house);
        let leaves = spawn(move || leaves.freshness.leave(0));
        let (writes, of) = (Arc::clone(&house), key.clone());
        let writes = spawn(move || writes.freshness.wrote(&of, None, &thing(7)));
        writes.join().unwrap();
        leaves.join().unwrap();
        // Whether it was asked in time or not: from now on nothing is waited for.
        assert!(block_on(house.freshness.catch_up(&key)));
    });
}

/// The sources of a controller whose workers never begin.
struct Listens {
    sources: Arc<Sources<ObjectKey>>,
    intake: Arc<Intake<ObjectKey>>,
    informers: Informers,
}

fn listens() -> Arc<Listens> {
    let informers = Informers::new(client());
    let desk = Desk::new(Settings::default(), Box::new(Backoff::default()), None);
    let intake = Arc::new(Intake::new(desk, 1, || Duration::ZERO));
    let sources = Sources::new(Ground {
        controller: "c".into(),
        informers: informers.clone(),
        sink: Sink::new(Arc::clone(&intake), 0, crate::metrics::Metrics::new().controller("c")),
        freshness: Arc::new(Freshness::new(informers.client().clone())),
        failing: Failing::default(),
        resync: None,
    });
    Arc::new(Listens { sources, intake, informers })
}

impl Listens {
    fn ready(&self) -> usize {
        self.intake.look(|desk, _| desk.queue().len())
    }

    /// Whom a write to a thing concerns.
    fn hears(&self) -> Vec<u64> {
        self.sources.ground.freshness.wrote(&ObjectKey::cluster("a"), None, &thing(7))
    }
}

#[test]
fn a_source_that_is_removed_while_it_is_replayed_tells_nothing_afterwards() {
    check(|| {
        let listens = listens();
        // It is there before, and after: somebody else has it.
        let cache = listens.informers.cache(things());
        cache.shows("a", 1);
        let number = listens.sources.add(Trigger::kind(things(), Mapping::own()));
        let all: KeyFilter = Arc::new(|_| true);
        let replays = Arc::clone(&listens);
        let replays = spawn(move || {
            replays.sources.replay(&all);
            // What is spawned is not run here; this is what it does.
            let again = {
                let active = replays.sources.active();
                let active = active.as_ref().and_then(|active| active.get(&number));
                active.and_then(|active| Some((active.cache.clone()?, Arc::clone(&active.fire))))
            };
            if let Some((cache, fire)) = again {
                block_on(tell_again(cache, fire, replays.sources.ground.sink.clone(), all));
            }
        });
        let writes = cache.clone();
        let writes = spawn(move || writes.shows("b", 2));
        let (looks, removes) = (Arc::clone(&listens), Arc::clone(&listens));
        let looks = spawn(move || {
            assert!(looks.sources.names().len() <= 1 && looks.sources.handlers().len() <= 1);
            assert!(looks.sources.awaited().len() <= 1 && looks.sources.states().len() <= 1);
        });
        let removes = spawn(move || removes.sources.remove(number));
        for thread in [replays, writes, looks, removes] {
            thread.join().unwrap();
        }
        let before = listens.ready();
        assert!((1..=2).contains(&before), "a was told at the beginning, b perhaps: {before}");
        cache.shows("c", 3);
        assert_eq!(listens.ready(), before, "nobody listens any more");
        assert!(listens.sources.names().is_empty() && listens.hears().is_empty());
    });
}

#[test]
fn a_source_that_is_added_while_its_controller_ends_is_gone_with_it() {
    check(|| {
        let listens = listens();
        let adds = [false, true].map(|removes| {
            let adds = Arc::clone(&listens);
            spawn(move || {
                let number = adds.sources.add_later(Trigger::kind(things(), Mapping::own()));
                let watching = Watching::new(&adds.sources, number);
                if removes { drop(watching) } else { watching.keep() }
            })
        });
        let ends = Arc::clone(&listens);
        let ends = spawn(move || {
            ends.sources.silence();
            ends.sources.end();
        });
        adds.into_iter().for_each(|thread| thread.join().unwrap());
        ends.join().unwrap();
        assert!(listens.sources.names().is_empty() && listens.hears().is_empty());
        assert!(listens.informers.opened(things()).is_none(), "nobody has its cache open");
    });
}
