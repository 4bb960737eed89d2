//! What a store promises, in memory and on disk.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use concert_api::{GroupResource, ObjectKey};
use concert_store::{
    Draft, Durability, EventKind, Expect, Key, Op, OpenError, Options, RestoreError, RevisionError, Store, Window,
    Write, WriteError, check, inspect_backup, restore,
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
        let options = Options { durability, window: Window { bytes: 80_000, ..Window::default() }, quota: None };
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
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("concert store restore --data-dir"), "{error}");
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

#[tokio::test]
async fn over_quota_nothing_new_is_taken_and_deleting_works() {
    let backend = Arc::new(redb_memory::Shared::default());
    let options = Options { quota: Some(10_000), ..Options::default() };
    let store = Store::<()>::open_on(redb_memory::Handle(Arc::clone(&backend)), options, &World::simulated(1)).unwrap();
    let mut names = Vec::new();
    let refused = loop {
        let name = format!("o{}", names.len());
        match put(&store, &name, Expect::Absent, 1).await {
            Ok(revision) => names.push((name, revision)),
            Err(error) => break error,
        }
    };
    let text = refused.to_string();
    assert!(matches!(refused, WriteError::OverQuota { quota: 10_000, .. }), "{text}");
    assert!(text.contains("of 10000 bytes") && text.contains("--quota"), "{text}");
    assert!(store.snapshot().bytes() <= 10_000 && names.len() > 100, "{} objects", names.len());

    let (name, revision) = &names[0];
    let marked = put(&store, name, Expect::Revision(*revision), 123_456_789).await.unwrap();
    assert!(delete(&store, name, marked).await.is_ok(), "an object can be marked, and deleted");
    assert!(delete(&store, &names[1].0, names[1].1).await.is_ok());
    assert!(put(&store, "new", Expect::Absent, 1).await.is_ok(), "there is room again");
    store.close();
    let again = Store::<()>::open_on(redb_memory::Handle(backend), options, &World::simulated(1)).unwrap();
    assert_eq!(again.snapshot().bytes(), store.snapshot().bytes(), "what is used is known again");
}

#[tokio::test]
async fn an_object_has_four_mebibytes_at_most() {
    const MOST: usize = 4 << 20;
    let store = memory();
    let of_length = |length: usize| {
        let text = |filling: &str| format!(r#"{{"data":{{"v":"{filling}"}},"metadata":{{"name":"a","uid":"u"}}}}"#);
        let revision = r#""resourceVersion":"1","#;
        let text = text(&"x".repeat(length - text("").len() - revision.len()));
        let at = text.find("\"uid\"").unwrap();
        let op = Op::Put(Draft::new(text.into_bytes(), at));
        store.write(Write { key: key("a"), expect: Expect::Absent, guards: Vec::new(), op })
    };
    let refused = of_length(MOST + 1).await.unwrap_err();
    assert!(matches!(refused, WriteError::TooLarge { length: 4_194_305, limit: 4_194_304, .. }), "{refused}");
    assert_eq!(of_length(MOST).await.unwrap().bytes.len(), MOST);
}

#[tokio::test]
async fn a_few_large_events_leave_the_window_too() {
    let store = Store::<()>::in_memory(&World::simulated(1), Window { age: Duration::from_secs(300), bytes: 4_000 });
    for value in 0..40 {
        put(&store, &format!("o{value}"), Expect::Absent, value).await.unwrap();
    }
    let kept = store.events_after(store.floor(), 100).unwrap().len();
    assert!((8..16).contains(&kept), "{kept} events of some 330 bytes each are kept");
}

/// Whoever has seen a write that a crash took back must begin anew, whatever is opened how often since.
#[tokio::test]
async fn after_a_crash_without_sync_old_revisions_are_gone() {
    let backend = Arc::new(redb_memory::Shared::default());
    let handle = || redb_memory::Handle(Arc::clone(&backend));
    let options = Options { durability: Durability::None, ..Options::default() };
    let store = Store::<()>::open_on(handle(), options, &World::simulated(1)).unwrap();
    put(&store, "a", Expect::Absent, 1).await.unwrap();
    let durable = backend.lock().unwrap().clone();
    let seen = put(&store, "b", Expect::Absent, 1).await.unwrap();
    drop(store);
    *backend.lock().unwrap() = durable;
    for _ in 0..3 {
        let again = Store::<()>::open_on(handle(), Options::default(), &World::simulated(1)).unwrap();
        assert!(text(&again, "a").is_some() && text(&again, "b").is_none());
        let gone = again.events_after(seen, 10).unwrap_err();
        assert!(matches!(gone, RevisionError::Compacted { .. }), "{gone}");
        let name = format!("n{}", again.snapshot().revision());
        assert!(put(&again, &name, Expect::Absent, 1).await.unwrap() > seen);
    }
}

/// A sync that hangs holds up writers, and nobody else.
#[test]
fn readers_do_not_wait_for_the_disk() {
    let gate = Arc::new(redb_memory::Gate::default());
    let backend = redb_memory::Gated(redb_memory::Handle(Arc::default()), Arc::clone(&gate));
    let store = Store::<()>::open_on(backend, Options::default(), &World::simulated(1)).unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime().block_on(put(&store, "a", Expect::Absent, 1)).unwrap();
    gate.close();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| runtime().block_on(put(&store, "b", Expect::Absent, 1)));
        gate.wait_until_asked();
        for _ in 0..1000 {
            assert!(text(&store, "a").is_some() && text(&store, "b").is_none());
            assert_eq!(store.snapshot_at(0).unwrap().len(), 0);
            assert_eq!(store.events_after(0, 9).unwrap().len(), 1);
        }
        assert!(!writer.is_finished());
        gate.open();
        assert_eq!(writer.join().unwrap().unwrap(), 2);
    });
    assert!(text(&store, "b").is_some());
}

/// A writer does not wait for ever; what became of its write, it can read later.
#[tokio::test(start_paused = true)]
async fn a_write_that_the_disk_does_not_answer_is_unknown() {
    let gate = Arc::new(redb_memory::Gate::default());
    let backend = redb_memory::Gated(redb_memory::Handle(Arc::default()), Arc::clone(&gate));
    let store = Store::<()>::open_threaded_on(backend, Options::default(), &World::simulated(1)).unwrap();
    gate.close();
    let unknown = put(&store, "a", Expect::Absent, 1).await.unwrap_err();
    assert!(matches!(unknown, WriteError::Unknown { .. }), "{unknown}");
    assert!(unknown.to_string().contains("within 30 s"), "{unknown}");
    assert!(text(&store, "a").is_none());
    gate.open();
    store.close();
    assert!(text(&store, "a").is_some(), "it happened after all");
}

#[tokio::test]
async fn a_backup_of_a_running_store_becomes_a_new_one() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::<()>::open(first.path(), Options::default(), &World::real()).unwrap();
    for value in 0..2000 {
        put(&store, &format!("o{value}"), Expect::Absent, value).await.unwrap();
    }
    let mut pieces = store.backup();
    let mut backup = pieces.next().unwrap().to_vec();
    put(&store, "later", Expect::Absent, 1).await.unwrap();
    delete(&store, "o1999", 2000).await.unwrap();
    pieces.for_each(|piece| backup.extend_from_slice(&piece));

    let info = restore(second.path(), backup.as_slice(), &World::real()).unwrap();
    assert_eq!((info.revision, info.objects, info.cluster_id.as_str()), (2000, 2000, store.cluster_id()));
    let exists = restore(second.path(), backup.as_slice(), &World::real()).unwrap_err();
    assert!(matches!(exists, RestoreError::Exists(_)), "{exists}");
    let report = check(second.path()).unwrap();
    assert_eq!((report.objects, report.events), (2000, 0));
    let restored = Store::<()>::open(second.path(), Options::default(), &World::real()).unwrap();
    assert_ne!(restored.cluster_id(), store.cluster_id());
    assert!(text(&restored, "o1999").is_some() && text(&restored, "later").is_none());
    for revision in [1, 2000, store.snapshot().revision(), store.snapshot().revision() + 100_000] {
        let gone = restored.events_after(revision, 1).unwrap_err();
        assert!(matches!(gone, RevisionError::Compacted { .. }), "{gone}");
    }
    let again = put(&restored, "o5", Expect::Revision(6), 1).await.unwrap();
    assert!(again > 1_000_000_000);

    for cut in (0..backup.len()).step_by(997) {
        assert!(inspect_backup(&backup[..cut]).is_err(), "cut at {cut}");
        let mut flipped = backup.clone();
        flipped[cut] ^= 16;
        assert!(inspect_backup(flipped.as_slice()).is_err(), "flipped at {cut}");
    }
    let third = tempfile::tempdir().unwrap();
    let refused = restore(third.path(), &backup[..backup.len() - 1], &World::real()).unwrap_err();
    assert!(matches!(refused, RestoreError::Damaged(_)), "{refused}");
    assert_eq!(std::fs::read_dir(third.path()).unwrap().count(), 0, "nothing is left of it");
}

#[tokio::test]
async fn a_check_changes_nothing_and_finds_damage() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(check(directory.path()), Err(OpenError::Missing(_))));
    let store = Store::<()>::open(directory.path(), Options::default(), &World::real()).unwrap();
    for value in 0..100 {
        put(&store, &format!("o{value}"), Expect::Absent, value).await.unwrap();
    }
    assert!(matches!(check(directory.path()), Err(OpenError::InUse(_))));
    let file = directory.path().join("concert.redb");
    let crashed = std::fs::read(&file).unwrap();
    drop(store);
    for (content, clean) in [(crashed, None), (std::fs::read(&file).unwrap(), Some(true))] {
        std::fs::write(&file, &content).unwrap();
        let report = check(directory.path()).unwrap();
        assert_eq!((report.objects, report.revision, report.floor, report.events), (100, 100, 0, 100));
        assert!(clean.is_none_or(|clean| report.clean == clean));
        assert!(std::fs::read(&file).unwrap() == content, "the file is as it was");
    }
    let mut content = std::fs::read(&file).unwrap();
    let at = content.windows(8).rposition(|window| window == b"\"v\":\"57\"").unwrap();
    content[at + 5] ^= 1;
    std::fs::write(&file, &content).unwrap();
    for error in [
        check(directory.path()).unwrap_err(),
        Store::<()>::open(directory.path(), Options::default(), &World::real()).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(matches!(error, OpenError::Damaged { .. }) && text.contains("concert store restore"), "{text}");
    }
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
    use std::sync::{Arc, Condvar, Mutex};

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

    /// Lets syncs through, or not.
    #[derive(Debug, Default)]
    pub(crate) struct Gate {
        closed_and_asked: Mutex<(bool, bool)>,
        changed: Condvar,
    }

    impl Gate {
        pub(crate) fn close(&self) {
            self.closed_and_asked.lock().unwrap().0 = true;
        }

        pub(crate) fn open(&self) {
            self.closed_and_asked.lock().unwrap().0 = false;
            self.changed.notify_all();
        }

        pub(crate) fn wait_until_asked(&self) {
            let state = self.closed_and_asked.lock().unwrap();
            drop(self.changed.wait_while(state, |(_, asked)| !*asked).unwrap());
        }

        fn pass(&self) {
            let mut state = self.closed_and_asked.lock().unwrap();
            if state.0 {
                state.1 = true;
                self.changed.notify_all();
                drop(self.changed.wait_while(state, |(closed, _)| *closed).unwrap());
            }
        }
    }

    /// A disk whose syncs wait at a gate.
    #[derive(Debug)]
    pub(crate) struct Gated(pub(crate) Handle, pub(crate) Arc<Gate>);

    impl redb::StorageBackend for Gated {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.1.pass();
            self.0.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.write(offset, data)
        }
    }
}
