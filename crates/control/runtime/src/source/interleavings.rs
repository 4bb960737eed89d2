//! Mailboxes, channels and floors over many interleavings, on the shipped types. See [`crate::sync`].

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::Arc;

use concert_api::{Gvk, Object, ObjectKey};
use shuttle::future::block_on;
use shuttle::thread::spawn;

use super::channel::Channel;
use super::*;
use crate::sync::check;

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

fn house() -> Arc<House> {
    let resource = crate::resource::Resource::cluster(Gvk::new("test.dev", "v1", "Thing"), "things");
    let never = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
    });
    let client = crate::client::Client::in_process(never, concert_world::World::simulated(1));
    let informers = Informers::new(client.clone());
    let cache = informers.cache(resource);
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
