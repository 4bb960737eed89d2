//! Writes on a store, and the plain model that says what it must hold.

use std::collections::BTreeMap;
use std::future::Future;

use concert_api::{GroupResource, ObjectKey};
use concert_store::{Draft, EventKind, Expect, Key, Op, Options, Store, Write};
use concert_world::World;

use crate::disk::Disk;

const OBJECTS: u64 = 12;

/// Randomness from a seed (splitmix64).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }
}

fn key(name: &str) -> Key {
    Key { resource: GroupResource::new("", "configmaps"), object: ObjectKey::new("default", name) }
}

fn draft(name: &str, value: usize) -> Draft {
    let filler = "x".repeat(value % 700);
    let text = format!(r#"{{"data":{{"v":"{value}","f":"{filler}"}},"metadata":{{"name":"{name}","uid":"u"}}}}"#);
    let at = text.find("\"uid\"").unwrap();
    Draft::new(text.into_bytes(), at)
}

/// Nothing here waits: the store commits inline.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("an inline store does not wait"),
    }
}

/// A write: which object, and its value; `None` is a deletion.
struct Step {
    revision: u64,
    name: String,
    value: Option<usize>,
}

/// Everything that was written, in order.
#[derive(Default)]
pub(crate) struct Model {
    steps: Vec<Step>,
}

impl Model {
    /// The state after the first `count` writes.
    fn state(&self, count: usize) -> BTreeMap<&str, (u64, usize)> {
        let mut state = BTreeMap::new();
        for step in &self.steps[..count] {
            match step.value {
                Some(value) => state.insert(step.name.as_str(), (step.revision, value)),
                None => state.remove(step.name.as_str()),
            };
        }
        state
    }

    pub(crate) fn revision_after(&self, count: usize) -> u64 {
        self.steps[..count].last().map_or(0, |step| step.revision)
    }

    /// After how many writes the model was as the store is, with its history.
    pub(crate) fn compare(&self, store: &Store<()>) -> Result<usize, String> {
        let (snapshot, floor) = (store.snapshot(), store.floor());
        let count = self.steps.partition_point(|step| step.revision <= snapshot.revision());
        // After a crash without sync the revision is ahead of the content, which ends anywhere before it.
        let newest = snapshot.iter().map(|(_, entry)| entry.revision).max().unwrap_or(0);
        let ahead = floor == snapshot.revision() && count == self.steps.len();
        let mut counts = (self.steps.partition_point(|step| step.revision < newest)..=count).rev();
        let same = |count: usize| {
            let expected = self.state(count);
            expected.len() == snapshot.len()
                && expected.iter().all(|(name, (revision, value))| {
                    snapshot.get(&key(name)).is_some_and(|entry| {
                        entry.revision == *revision && entry.bytes == finished(name, *value, *revision)
                    })
                })
        };
        let found = if ahead { counts.find(|count| same(*count)) } else { counts.next().filter(|count| same(*count)) };
        let found = found.ok_or_else(|| format!("the state at {} never was", snapshot.revision()))?;
        let events = store.events_after(floor, usize::MAX).map_err(|error| error.to_string())?;
        let steps = self.steps[..found].iter().filter(|step| step.revision > floor);
        let expected: Vec<_> = steps.map(|step| (step.revision, step.name.clone(), step.value.is_none())).collect();
        let events: Vec<_> = events
            .iter()
            .map(|event| (event.revision, event.key.object.name.to_string(), event.kind == EventKind::Delete))
            .collect();
        if events == expected { Ok(found) } else { Err(format!("events {events:?} instead of {expected:?}")) }
    }

    /// The store still works: writes an object of its own.
    pub(crate) fn write_one_more(&self, store: &Store<()>) -> u64 {
        let op = Op::Put(draft("more", 1));
        let write = Write { key: key("more"), expect: Expect::Absent, guards: Vec::new(), op };
        now(store.write(write)).expect("an opened store can be written").revision
    }
}

fn finished(name: &str, value: usize, revision: u64) -> Vec<u8> {
    let draft = draft(name, value);
    let text = std::str::from_utf8(draft.bytes()).unwrap();
    let at = text.find("\"uid\"").unwrap();
    format!("{}\"resourceVersion\":\"{revision}\",{}", &text[..at], &text[at..]).into_bytes()
}

/// A workload that has run.
pub(crate) struct Workload {
    pub(crate) disk: Disk,
    pub(crate) store: Store<()>,
    pub(crate) model: Model,
    pub(crate) acknowledged: usize,
}

pub(crate) fn run(disk: Disk, options: Options, writes: usize, seed: u64) -> Workload {
    let workload = try_run(disk, options, writes, seed).expect("a good disk");
    assert_eq!(workload.acknowledged, writes);
    assert!(writes < 100 || workload.store.floor() > 0, "a checkpoint was made");
    workload
}

/// Writes until the disk fails; `None` if it already fails to open.
pub(crate) fn try_run(disk: Disk, options: Options, writes: usize, seed: u64) -> Option<Workload> {
    let store = Store::<()>::open_on(disk.clone(), options, &World::real()).ok()?;
    let (mut model, mut dice, mut acknowledged) = (Model::default(), Dice::new(seed), 0);
    let mut live: BTreeMap<String, u64> = BTreeMap::new();
    let mut last = store.snapshot().revision();
    for value in 0..writes {
        let name = format!("o{}", dice.below(OBJECTS));
        let old = live.get(&name).copied();
        let delete = old.is_some() && dice.below(4) == 0;
        let op = if delete { Op::Delete(draft(&name, value)) } else { Op::Put(draft(&name, value)) };
        let expect = old.map_or(Expect::Absent, Expect::Revision);
        let answer = now(store.write(Write { key: key(&name), expect, guards: Vec::new(), op }));
        // A write without an answer may have happened, with the next revision.
        last = answer.as_ref().map_or(last + 1, |entry| entry.revision);
        model.steps.push(Step { revision: last, name: name.clone(), value: (!delete).then_some(value) });
        if answer.is_err() {
            break;
        }
        acknowledged += 1;
        disk.acknowledge(acknowledged);
        if delete {
            live.remove(&name);
        } else {
            live.insert(name, last);
        }
    }
    Some(Workload { disk, store, model, acknowledged })
}
