//! What a store promises, in memory and on disk.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use concert_api::{GroupResource, ObjectKey};
use concert_store::{
    Draft, Durability, EventKind, Expect, Key, Op, OpenError, Options, RevisionError, Store, Window, Write, WriteError,
};
use concert_world::World;
use proptest::prelude::*;

fn key(name: &str) -> Key {
    Key { resource: GroupResource::new("", "configmaps"), object: ObjectKey::new("default", name) }
}

fn draft(name: &str, value: u32) -> Draft {
    let text = format!(r#"{{"data":{{"v":"{value}"}},"metadata":{{"name":"{name}","uid":"u"}}}}"#);
    let at = text.find("\"uid\"").unwrap();
    Draft::new(text.into_bytes(), at)
}

async fn put(store: &Store<()>, name: &str, expect: Expect, value: u32) -> Result<u64, WriteError> {
    let write = Write { key: key(name), expect, guards: Vec::new(), op: Op::Put(draft(name, value)) };
    store.write(write).await.map(|entry| entry.revision)
}

async fn delete(store: &Store<()>, name: &str, revision: u64) -> Result<u64, WriteError> {
    let write = Write {
        key: key(name),
        expect: Expect::Revision(revision),
        guards: Vec::new(),
        op: Op::Delete(draft(name, 0)),
    };
    store.write(write).await.map(|entry| entry.revision)
}

fn text(store: &Store<()>, name: &str) -> Option<String> {
    store.snapshot().get(&key(name)).map(|entry| String::from_utf8(entry.bytes.to_vec()).unwrap())
}

fn memory() -> Store<()> {
    Store::in_memory(&World::simulated(1), Window::default())
}

#[tokio::test]
async fn a_write_is_compared_and_carries_its_revision() {
    let store = memory();
    assert_eq!(put(&store, "a", Expect::Absent, 1).await.unwrap(), 1);
    let exists = put(&store, "a", Expect::Absent, 2).await.unwrap_err();
    assert!(matches!(exists, WriteError::Conflict { current: Some(1), .. }), "{exists}");
    assert_eq!(put(&store, "a", Expect::Revision(1), 3).await.unwrap(), 2);
    assert!(put(&store, "a", Expect::Revision(1), 4).await.is_err());
    assert!(text(&store, "a").unwrap().contains(r#""resourceVersion":"2""#));
    assert_eq!(delete(&store, "a", 2).await.unwrap(), 3);
    assert!(text(&store, "a").is_none());
    let gone = delete(&store, "a", 2).await.unwrap_err();
    assert!(matches!(gone, WriteError::Conflict { current: None, .. }));
}

#[tokio::test]
async fn a_write_is_guarded_by_what_it_depends_on() {
    let store = memory();
    put(&store, "owner", Expect::Absent, 1).await.unwrap();
    let child = |revision| Write {
        key: key("child"),
        expect: Expect::Absent,
        guards: vec![(key("owner"), revision)],
        op: Op::Put(draft("child", 1)),
    };
    put(&store, "owner", Expect::Revision(1), 2).await.unwrap();
    let refused = store.write(child(1)).await.unwrap_err();
    assert!(
        matches!(&refused, WriteError::Conflict { key: guard, current: Some(2) } if *guard == key("owner")),
        "{refused}"
    );
    assert!(store.write(child(2)).await.is_ok());
}

#[tokio::test]
async fn events_tell_every_write_once_in_order() {
    let store = memory();
    put(&store, "a", Expect::Absent, 1).await.unwrap();
    put(&store, "a", Expect::Revision(1), 2).await.unwrap();
    delete(&store, "a", 2).await.unwrap();
    let events = store.events_after(0, 10).unwrap();
    let shape: Vec<_> = events.iter().map(|event| (event.revision, event.kind, event.old.is_some())).collect();
    assert_eq!(shape, [(1, EventKind::Put, false), (2, EventKind::Put, true), (3, EventKind::Delete, true)]);
    assert_eq!(store.events_after(2, 10).unwrap().len(), 1);
    assert_eq!(store.events_after(3, 10).unwrap().len(), 0);
    let future = store.events_after(4, 10).unwrap_err();
    assert_eq!(future, RevisionError::Future { asked: 4, current: 3 });
}

#[tokio::test]
async fn an_old_state_can_be_read_until_it_leaves_the_window() {
    let store = Store::<()>::in_memory(&World::simulated(1), Window { age: Duration::from_secs(300), bytes: 100_000 });
    put(&store, "a", Expect::Absent, 1).await.unwrap();
    put(&store, "b", Expect::Absent, 1).await.unwrap();
    delete(&store, "a", 1).await.unwrap();
    let then = store.snapshot_at(1).unwrap();
    assert!(then.get(&key("a")).is_some() && then.get(&key("b")).is_none() && then.revision() == 1);
    let mut revision = 2;
    for value in 0..1000 {
        revision = put(&store, "b", Expect::Revision(revision), value).await.unwrap();
    }
    let gone = store.snapshot_at(1).unwrap_err();
    assert!(matches!(gone, RevisionError::Compacted { asked: 1, .. }), "{gone}");
    assert!(store.snapshot_at(store.floor()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn old_events_leave_the_window_by_age() {
    let store = memory();
    for value in 0..300 {
        put(&store, &format!("o{value}"), Expect::Absent, value).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(301)).await;
    put(&store, "new", Expect::Absent, 1).await.unwrap();
    assert_eq!(store.floor(), 300);
    assert_eq!(store.snapshot().len(), 301);
}

#[tokio::test]
async fn a_fork_shares_the_past_and_nothing_else() {
    let store = memory();
    for value in 0..1000 {
        put(&store, &format!("o{value}"), Expect::Absent, value).await.unwrap();
    }
    let fork = store.fork(&World::simulated(2), Window::default());
    put(&fork, "fork", Expect::Absent, 1).await.unwrap();
    put(&store, "origin", Expect::Absent, 1).await.unwrap();
    assert!(text(&fork, "fork").is_some() && text(&fork, "origin").is_none() && text(&store, "fork").is_none());
    assert_eq!(fork.events_after(1000, 10).unwrap().len(), 1);
}

#[tokio::test]
async fn everything_is_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::real();
    for durability in [Durability::Sync, Durability::Interval(Duration::from_millis(10)), Durability::None] {
        let path = directory.path().join(format!("{durability:?}"));
        let options = Options { durability, window: Window { bytes: 80_000, ..Window::default() } };
        let store = Store::<()>::open(&path, options, &world).unwrap();
        let id = store.cluster_id().to_owned();
        for value in 0..600 {
            put(&store, &format!("o{value}"), Expect::Absent, value).await.unwrap();
        }
        delete(&store, "o1", 2).await.unwrap();
        let (floor, revision) = (store.floor(), store.snapshot().revision());
        assert!(floor > 0, "the checkpoint was used");
        store.close();
        assert!(matches!(put(&store, "x", Expect::Absent, 1).await, Err(WriteError::Closed)));
        let again = Store::<()>::open(&path, options, &world).unwrap();
        assert_eq!((again.cluster_id(), again.snapshot().revision(), again.floor()), (id.as_str(), revision, floor));
        assert_eq!(again.snapshot().len(), 599);
        assert!(text(&again, "o1").is_none() && text(&again, "o599").unwrap().contains("\"599\""));
        assert_eq!(again.events_after(revision - 1, 9).unwrap()[0].kind, EventKind::Delete);
    }
}

#[tokio::test]
async fn a_second_process_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::<()>::open(directory.path(), Options::default(), &World::real()).unwrap();
    let second = Store::<()>::open(directory.path(), Options::default(), &World::real()).unwrap_err();
    assert!(matches!(second, OpenError::InUse(_)), "{second}");
    assert!(second.to_string().contains("another concert process"), "{second}");
    drop(store);
    Store::<()>::open(directory.path(), Options::default(), &World::real()).unwrap();
}

#[tokio::test]
async fn garbage_is_refused_with_a_clear_message() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("concert.redb"), vec![7u8; 100_000]).unwrap();
    let error = Store::<()>::open(directory.path(), Options::default(), &World::real()).unwrap_err();
    assert!(error.to_string().contains("cannot open the store"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_are_grouped_and_each_revision_is_used_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::<()>::open(directory.path(), Options::default(), &World::real()).unwrap();
    let writers: Vec<_> = (0..64)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut revisions = Vec::new();
                for value in 0..20 {
                    revisions.push(put(&store, &format!("w{writer}-{value}"), Expect::Absent, value).await.unwrap());
                }
                revisions
            })
        })
        .collect();
    let mut all = Vec::new();
    for writer in writers {
        all.extend(writer.await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (1..=64 * 20).collect::<Vec<u64>>());
}

#[derive(Clone, Debug)]
enum Act {
    Put(u8, u32),
    Delete(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![(0u8..6, any::<u32>()).prop_map(|(k, v)| Act::Put(k, v)), (0u8..6).prop_map(Act::Delete)];
    prop::collection::vec(act, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The store agrees with a plain map at every revision, and so does a store opened again on the same file.
    #[test]
    fn agrees_with_a_plain_map(acts in acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let backend = Arc::new(redb_memory::Shared::default());
            let world = World::simulated(1);
            let store = Store::<()>::open_on(redb_memory::Handle(Arc::clone(&backend)), Options::default(), &world).unwrap();
            let mut model: BTreeMap<String, (u64, u32)> = BTreeMap::new();
            let mut states = vec![model.clone()];
            for act in acts {
                match act {
                    Act::Put(k, value) => {
                        let name = format!("o{k}");
                        let expect = model.get(&name).map_or(Expect::Absent, |(revision, _)| Expect::Revision(*revision));
                        let revision = put(&store, &name, expect, value).await.unwrap();
                        model.insert(name, (revision, value));
                    }
                    Act::Delete(k) => {
                        let name = format!("o{k}");
                        let Some((revision, _)) = model.remove(&name) else { continue };
                        delete(&store, &name, revision).await.unwrap();
                    }
                }
                states.push(model.clone());
            }
            store.close();
            let again = Store::<()>::open_on(redb_memory::Handle(backend), Options::default(), &world).unwrap();
            for store in [&store, &again] {
                for (revision, state) in states.iter().enumerate() {
                    let snapshot = store.snapshot_at(revision as u64).unwrap();
                    let found: BTreeMap<String, u64> =
                        snapshot.iter().map(|(key, entry)| (key.object.name.to_string(), entry.revision)).collect();
                    let expected: BTreeMap<String, u64> = state.iter().map(|(name, (revision, _))| (name.clone(), *revision)).collect();
                    assert_eq!(found, expected, "at revision {revision}");
                }
            }
        });
    }
}

/// A disk in memory that outlives the database on it.
mod redb_memory {
    use std::io;
    use std::sync::{Arc, Mutex};

    pub(crate) type Shared = Mutex<Vec<u8>>;

    #[derive(Debug)]
    pub(crate) struct Handle(pub(crate) Arc<Shared>);

    impl redb::StorageBackend for Handle {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock().unwrap().len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let start = usize::try_from(offset).unwrap();
            out.copy_from_slice(&self.0.lock().unwrap()[start..start + out.len()]);
            Ok(())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let start = usize::try_from(offset).unwrap();
            self.0.lock().unwrap()[start..start + data.len()].copy_from_slice(data);
            Ok(())
        }
    }
}
