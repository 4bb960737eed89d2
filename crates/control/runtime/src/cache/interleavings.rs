//! Caches over many interleavings of their threads, on the shipped types. See [`crate::sync`].

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use concert_api::{Glance, Gvk};
use concert_world::World;
use shuttle::future::block_on;
use shuttle::rand::Rng;
use shuttle::sync::Mutex;
use shuttle::thread::{spawn, yield_now};

use super::feed::{Pen, Running};
use super::*;
use crate::client::Client;
use crate::resource::Resource;
use crate::scope::Namespaces;
use crate::sync::check;
use crate::watch::{Arrived, Event};

fn maps() -> Resource {
    Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps")
}

/// Caches whose watches never begin: the tests write what they would.
fn informers() -> Informers {
    let never = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>()
    });
    Informers::new(Client::in_process(never, World::simulated(1)))
}

fn cache() -> (Informers, Cache) {
    let informers = informers();
    let cache = informers.cache(maps());
    (informers, cache)
}

fn object(namespace: &str, name: &str, revision: u32) -> Arrived {
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{name}","resourceVersion":"{revision}","labels":{{"odd":"{}"}}}}}}"#,
        revision % 2
    );
    let bytes = Bytes::from(json);
    Arrived { glance: Glance::at(&bytes).unwrap(), bytes }
}

/// What a watch of a namespace says: a list, changes, and a second list that misses one.
fn history(namespace: &str, from: u32) -> Vec<Event> {
    let of = |name: &str, at: u32| object(namespace, name, from + at);
    vec![
        Event::Reset,
        Event::Listed(of("a", 1)),
        Event::Listed(of("b", 2)),
        Event::Complete((from + 2).to_string()),
        Event::Applied(of("a", 3)),
        Event::Deleted(of("b", 4)),
        Event::Applied(of("c", 5)),
        Event::Reset,
        Event::Listed(of("a", 6)),
        Event::Complete((from + 6).to_string()),
    ]
}

/// The watch of a namespace.
fn running(cache: &Cache, namespace: &str) -> Running {
    let feeds = cache.shared().feeds.lock().unwrap();
    feeds.running.values().find(|running| running.feed.namespace == namespace).unwrap().clone()
}

/// What the writer of a namespace does, until it is told to stop.
fn write(cache: &Cache, namespace: &str, events: Vec<Event>) -> shuttle::thread::JoinHandle<()> {
    let (shared, running) = (Arc::clone(cache.shared()), running(cache, namespace));
    spawn(move || {
        let mut pen = Pen::new(&shared, &running);
        for event in events {
            if running.stop.is_cancelled() {
                return;
            }
            pen.write(event);
            // There may be more to read already, or not.
            if shuttle::rand::thread_rng().r#gen() {
                pen.settle();
            }
        }
        pen.settle();
    })
}

impl Cache {
    /// Its watch shows an object that is in no namespace.
    pub(crate) fn shows(&self, name: &str, revision: u32) {
        Pen::new(self.shared(), &running(self, "")).write(Event::Applied(object("", name, revision)));
    }

    /// Its watch has come so far; with 0 it is complete.
    pub(crate) fn arrives(&self, revision: u32) {
        let event = if revision == 0 { Event::Complete("0".into()) } else { Event::Progress(revision.to_string()) };
        Pen::new(self.shared(), &running(self, "")).write(event);
    }
}

type Known = BTreeMap<String, String>;

fn known(cache: &Cache) -> Known {
    let text = |object: &Arc<Object>| (object.key().to_string(), object.resource_version().into_owned());
    cache.list().iter().map(text).collect()
}

/// A handler that keeps what it was told, and what was wrong with it.
struct Ear {
    subscription: Option<Subscription>,
    heard: Arc<Mutex<(Known, Vec<String>, bool)>>,
}

impl Ear {
    fn new(cache: &Cache) -> Self {
        let heard = Arc::new(Mutex::new((Known::new(), Vec::new(), false)));
        let hears = Arc::clone(&heard);
        let subscription = cache.subscribe(move |change| {
            let mut heard = hears.lock().unwrap();
            let (known, wrong, over) = &mut *heard;
            let key = change.key.to_string();
            let before = match &change.new {
                Some(new) => known.insert(key.clone(), new.resource_version().into_owned()),
                None => known.remove(&key),
            };
            // The end of an object is told with its last state, which is newer than what was known.
            let old = change.old.as_ref().map(|old| old.resource_version().into_owned());
            let fits = if change.new.is_some() { before == old } else { before.is_some() };
            if !fits || *over {
                wrong.push(format!("{change:?} after {before:?}, over: {over}"));
            }
        });
        Self { subscription: Some(subscription), heard }
    }

    /// Listens no longer: not a word from here on.
    fn leave(&mut self) {
        self.subscription = None;
        self.heard.lock().unwrap().2 = true;
    }

    fn check(&self, knows: Option<&Known>) {
        let heard = self.heard.lock().unwrap();
        assert!(heard.1.is_empty(), "{:?}", heard.1);
        assert!(knows.is_none_or(|knows| *knows == heard.0), "heard {:?}, known is {knows:?}", heard.0);
    }
}

#[test]
fn who_joins_or_leaves_misses_nothing_and_hears_nothing_twice() {
    check(|| {
        let (_informers, cache) = cache();
        let writer = write(&cache, "", history("n", 0));
        let (joins, leaves) = (cache.clone(), cache.clone());
        let joins = spawn(move || Ear::new(&joins));
        let leaves = spawn(move || {
            let mut ear = Ear::new(&leaves);
            yield_now();
            ear.leave();
            ear
        });
        writer.join().unwrap();
        joins.join().unwrap().check(Some(&known(&cache)));
        leaves.join().unwrap().check(None);
        assert_eq!(known(&cache), Known::from([("n/a".to_owned(), "6".to_owned())]));
    });
}

#[test]
fn an_index_that_is_added_meanwhile_is_complete_and_never_wrong() {
    check(|| {
        let (_informers, cache) = cache();
        let writer = write(&cache, "", history("n", 0));
        let reads = cache.clone();
        let reader = spawn(move || {
            let index = reads.by_label();
            for value in ["0", "1", "0", "1"] {
                let value = ("odd".to_owned(), value.to_owned());
                assert!(index.get(&value).iter().all(|object| object.labels().get("odd") == Some(&value.1)));
            }
            index
        });
        let index = reader.join().unwrap();
        writer.join().unwrap();
        let of = |value: &str| index.count(&("odd".to_owned(), value.to_owned()));
        assert_eq!((of("0"), of("1"), index.values()), (1, 0, 1), "a at 6 alone");
    });
}

#[test]
fn who_is_told_to_leave_a_namespace_brings_nothing_back() {
    check(|| {
        let informers = informers();
        let set = Namespaces::new("some", ["n", "stays"]);
        let cache = informers.cache(Scope::all(maps()).within(&set));
        let mut ear = Ear::new(&cache);
        let (old, stays) = (write(&cache, "n", history("n", 0)), write(&cache, "stays", history("stays", 0)));
        let changes = cache.clone();
        let changes = spawn(move || {
            set.set(["stays"]);
            changes.shared().follow();
            let left = known(&changes);
            assert!(left.keys().all(|key| key.starts_with("stays/")), "{left:?}");
            assert!(changes.shared().progress.borrow().feeds.keys().all(|feed| feed.namespace != "n"));
            set.set(["n", "stays"]);
            changes.shared().follow();
            // Another watch of the same namespace, further than the first will ever be.
            let again = write(&changes, "n", history("n", 100));
            again.join().unwrap();
        });
        for thread in [old, stays, changes] {
            thread.join().unwrap();
        }
        let expected = [("n/a", "106"), ("stays/a", "6")].map(|(key, at)| (key.to_owned(), at.to_owned()));
        assert_eq!(known(&cache), Known::from(expected));
        ear.check(Some(&known(&cache)));
        ear.leave();
        assert_eq!((cache.state().revision, cache.state().synced), (6, true));
    });
}

#[test]
fn who_waits_for_a_revision_is_woken_and_then_sees_it() {
    check(|| {
        let (_informers, cache) = cache();
        let writer = write(&cache, "", history("n", 0));
        // Of each revision, how far a is then at least.
        let waits = [(0, 1), (3, 3), (5, 3), (6, 6)].map(|(revision, least)| {
            let cache = cache.clone();
            spawn(move || {
                block_on(cache.reaches("n", revision));
                // The list after it may have come as well, but nothing older.
                let at = cache.get(&ObjectKey::new("n", "a")).unwrap().revision().unwrap();
                assert!(at >= least, "a is at {at} when {revision} was reached");
            })
        });
        writer.join().unwrap();
        waits.into_iter().for_each(|wait| wait.join().unwrap());
    });
}

#[test]
fn who_reads_its_own_writes_waits_for_them_and_no_longer() {
    check(|| {
        let (_informers, cache) = cache();
        let key = |name: &str| ObjectKey::new("n", name);
        let writer = write(&cache, "", history("n", 0));
        let own = cache.clone();
        let own = spawn(move || {
            block_on(own.synced());
            own.expect(&Object::parse(object("n", "c", 5).bytes).unwrap());
            own.expect_gone(&key("b"));
            block_on(own.shows_expected(|_| true));
            assert!(own.get(&key("b")).is_none());
            assert!(own.shared().expected.lock().unwrap().is_empty());
            assert!(own.shared().expected_gone.lock().unwrap().is_empty());
        });
        writer.join().unwrap();
        own.join().unwrap();
    });
}

#[test]
fn a_scope_has_one_living_watch_as_long_as_somebody_has_a_handle() {
    check(|| {
        let informers = Arc::new(informers());
        let asks = [0, 1, 2].map(|_| {
            let informers = Arc::clone(&informers);
            spawn(move || {
                for _ in 0..2 {
                    let cache = informers.cache(maps());
                    yield_now();
                    assert!(!cache.shared().stop.is_cancelled(), "somebody has a handle");
                    let other = informers.opened(maps()).expect("it is open");
                    assert!(cache.is(&other), "one for all");
                }
            })
        });
        asks.into_iter().for_each(|ask| ask.join().unwrap());
        assert!(informers.opened(maps()).is_none() && informers.states().is_empty());
    });
}

#[test]
fn a_lazy_cache_that_closes_while_a_read_opens_it_is_open_to_who_reads() {
    check(|| {
        let informers = Arc::new(informers());
        let idle = std::time::Duration::from_secs(60);
        let name = (Scope::all(maps()), idle);
        let readers = [0, 1].map(|_| {
            let informers = Arc::clone(&informers);
            spawn(move || {
                let lazy = informers.lazy(maps(), idle);
                for _ in 0..2 {
                    let cache = lazy.cache();
                    yield_now();
                    assert!(!cache.shared().stop.is_cancelled(), "somebody has a handle");
                    let other = informers.opened(maps()).expect("it is open");
                    assert!(cache.is(&other), "one for all");
                }
            })
        });
        let (closes, of) = (Arc::clone(&informers), name.clone());
        let closer = spawn(move || {
            for _ in 0..3 {
                // Whenever it was read last, that is long ago.
                assert!(closes.lazies().close_if_idle(&of, Instant::now() + idle * 2).is_none());
                yield_now();
            }
        });
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        closer.join().unwrap();
        assert!(informers.lazies().close_if_idle(&name, Instant::now() + idle * 2).is_none());
        assert!(informers.opened(maps()).is_none() && informers.states().is_empty(), "closed");
    });
}

#[test]
fn what_is_decoded_while_it_changes_is_of_its_version_and_kept_no_longer() {
    check(|| {
        let (_informers, cache) = cache();
        let writer = write(&cache, "", history("n", 0));
        let readers = [0, 1].map(|_| {
            let view = cache.typed::<serde_json::Value>();
            spawn(move || {
                for _ in 0..3 {
                    for object in view.cache().list() {
                        let decoded = view.decode(&object).unwrap();
                        assert_eq!(decoded["metadata"]["resourceVersion"], *object.resource_version());
                    }
                    yield_now();
                }
            })
        });
        writer.join().unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        let memo = &cache.shared().memo;
        let now = cache.list();
        let kept = now.iter().filter(|object| memo.find::<serde_json::Value>(object).is_some()).count();
        assert_eq!(memo.len(), kept, "nothing that the cache does not have any more");
    });
}
