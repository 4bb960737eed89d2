//! What the load server holds: collections of numbered objects, and who watches them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use crate::runtime::objects::{Encoding, FIRST_REVISION, Forms, Kind, Version};
use crate::runtime::protocol::Reply;

/// Objects are changed in this order, so that neighbours in time are no neighbours in a list.
const STRIDE: u64 = 7919;

/// What to hold.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Pods, spread over nodes.
    Pods {
        /// How many.
        count: u32,
        /// Over how many nodes.
        nodes: u32,
    },
    /// ConfigMaps of 2 KB, or of 1 KB.
    Maps {
        /// How many.
        count: u32,
        /// Of which size.
        kind: Kind,
    },
    /// Custom kinds, and Pods beside them.
    Kinds {
        /// How many kinds.
        kinds: u32,
        /// How many objects of each.
        count: u32,
        /// How many Pods.
        pods: u32,
    },
}

/// Of which kinds objects are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Of all, in turns.
    All,
    /// Pods.
    Pods,
    /// Custom kinds, in turns.
    Custom,
}

impl Which {
    fn names(self, kind: Kind) -> bool {
        match self {
            Self::All => true,
            Self::Pods => kind == Kind::Pod,
            Self::Custom => matches!(kind, Kind::Custom(_)),
        }
    }
}

/// The server's state.
#[derive(Debug, Default)]
pub struct Site {
    collections: RwLock<BTreeMap<String, Arc<Collection>>>,
    revision: AtomicU64,
    /// Pages of lists, lists that were sent to their end (as pages or as events), and watches that were opened.
    pub(super) lists: AtomicUsize,
    pub(super) complete: AtomicUsize,
    pub(super) watches: AtomicUsize,
    /// Connections that are open.
    pub(super) connections: AtomicUsize,
    /// What changes objects beside the lines of the driver.
    writer: Mutex<Option<AbortHandle>>,
}

/// The objects of a kind.
#[derive(Debug)]
pub(super) struct Collection {
    pub(super) kind: Kind,
    json: Forms,
    protobuf: Option<Forms>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    objects: Vec<Version>,
    /// Watches may not begin before it.
    floor: u64,
    watchers: Vec<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    encoding: Encoding,
    frames: UnboundedSender<Bytes>,
}

impl Site {
    /// Holds this and nothing else. Who watches is cut off.
    pub fn hold(&self, content: Content) {
        let revision = self.next_revision();
        let (kinds, nodes): (Vec<(Kind, u32)>, u32) = match content {
            Content::Pods { count, nodes } => (vec![(Kind::Pod, count)], nodes),
            Content::Maps { count, kind } => (vec![(kind, count)], 1),
            Content::Kinds { kinds, count, pods } => {
                let custom = (0..kinds).map(|number| (Kind::Custom(number), count));
                (custom.chain((pods > 0).then_some((Kind::Pod, pods))).collect(), 1)
            }
        };
        let collections = kinds.into_iter().map(|(kind, count)| {
            let object = |number| Version { number, revision, generation: 0, node: number % nodes.max(1), sent: 0 };
            let state = State { objects: (0..count).map(object).collect(), floor: 0, watchers: Vec::new() };
            (collection_path(kind), Arc::new(Collection::new(kind, state)))
        });
        *self.collections.write().unwrap_or_else(PoisonError::into_inner) = collections.collect();
    }

    pub(super) fn next_revision(&self) -> u64 {
        FIRST_REVISION + self.revision.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn revision(&self) -> u64 {
        FIRST_REVISION + self.revision.load(Ordering::SeqCst)
    }

    pub(super) fn collection(&self, path: &str) -> Option<Arc<Collection>> {
        self.collections.read().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    /// Every kind that is held.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        self.collections.read().unwrap_or_else(PoisonError::into_inner).values().map(|c| c.kind).collect()
    }

    /// Changes one object of the kinds that `which` names, the one whose turn it is, and tells who watches.
    pub fn change(&self, which: Which, turn: u64, spec: bool) {
        let collections = self.collections.read().unwrap_or_else(PoisonError::into_inner);
        let mut named = collections.values().filter(|collection| which.names(collection.kind));
        let count = named.clone().count().max(1) as u64;
        let Some(collection) = named.nth((turn % count) as usize) else { return };
        let turn = turn / count;
        let number = (turn * STRIDE % collection.len().max(1) as u64) as usize;
        collection.change(number, self.next_revision(), spec);
    }

    /// From now on this changes objects, and what did before does not any more.
    pub(super) fn write(&self, writer: Option<AbortHandle>) {
        let mut current = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *current, writer) {
            before.abort();
        }
    }

    /// Ends every watch with 410.
    pub fn expire(&self) {
        let floor = self.next_revision();
        for collection in self.collections.read().unwrap_or_else(PoisonError::into_inner).values() {
            let mut state = collection.state();
            state.floor = floor;
            for watcher in std::mem::take(&mut state.watchers) {
                let end = collection.forms(watcher.encoding).map(Forms::expired).unwrap_or_default();
                let _ = watcher.frames.send(end.into()); // who has gone needs no end
            }
        }
    }

    /// Sends a bookmark to everybody.
    pub fn mark(&self) {
        for collection in self.collections.read().unwrap_or_else(PoisonError::into_inner).values() {
            let revision = self.revision();
            collection.state().tell(|encoding| collection.forms(encoding).map(|forms| forms.bookmark(revision, false)));
        }
    }

    /// What happened so far.
    #[must_use]
    pub fn state(&self) -> Reply {
        let collections = self.collections.read().unwrap_or_else(PoisonError::into_inner);
        let watching: usize = collections.values().map(|collection| collection.watching()).sum();
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed) as u64;
        Reply::default()
            .with("lists", count(&self.lists))
            .with("complete", count(&self.complete))
            .with("watches", count(&self.watches))
            .with("connections", count(&self.connections))
            .with("watching", watching as u64)
    }
}

/// The path of a kind's objects in all namespaces.
fn collection_path(kind: Kind) -> String {
    let root = if kind.api_version() == "v1" { "/api/v1".to_owned() } else { format!("/apis/{}", kind.api_version()) };
    format!("{root}/{}", kind.plural())
}

impl Collection {
    fn new(kind: Kind, state: State) -> Self {
        let json = kind.forms(Encoding::Json).expect("everything has JSON");
        Self { kind, json, protobuf: kind.forms(Encoding::Protobuf), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The templates of an encoding, if there are any.
    pub(super) fn forms(&self, encoding: Encoding) -> Option<&Forms> {
        match encoding {
            Encoding::Json => Some(&self.json),
            Encoding::Protobuf => self.protobuf.as_ref(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.state().objects.len()
    }

    /// Some objects as they are now.
    pub(super) fn objects(&self, range: std::ops::Range<usize>) -> Vec<Version> {
        self.state().objects.get(range).unwrap_or_default().to_vec()
    }

    /// The object of this name.
    pub(super) fn find(&self, name: &str) -> Option<Version> {
        let number: usize = name.rsplit('-').next()?.parse().ok()?;
        self.state().objects.get(number).copied()
    }

    /// A new version of an object; everybody is told, the bytes are made once for each encoding.
    pub(super) fn change(&self, number: usize, revision: u64, spec: bool) {
        let mut state = self.state();
        let Some(object) = state.objects.get_mut(number) else { return };
        object.revision = revision;
        object.generation += u32::from(spec);
        object.sent = nanoseconds();
        let version = *object;
        state.tell(|encoding| {
            let forms = self.forms(encoding)?;
            let mut out = Vec::new();
            forms.modified.render(&version, &mut out);
            Some(out)
        });
    }

    /// Whether a watch may begin after this revision.
    pub(super) fn is_known(&self, after: u64) -> bool {
        after >= self.state().floor
    }

    /// Joins those who are told, and gives what changed after `after` meanwhile.
    pub(super) fn join(&self, encoding: Encoding, after: Option<u64>) -> (Vec<Version>, UnboundedReceiver<Bytes>) {
        let (frames, receiver) = unbounded_channel();
        let mut state = self.state();
        state.watchers.push(Watcher { encoding, frames });
        let newer = |object: &&Version| after.is_some_and(|after| object.revision > after);
        let mut missed: Vec<Version> = state.objects.iter().filter(newer).copied().collect();
        missed.sort_unstable_by_key(|object| object.revision);
        (missed, receiver)
    }

    fn watching(&self) -> usize {
        let mut state = self.state();
        state.watchers.retain(|watcher| !watcher.frames.is_closed());
        state.watchers.len()
    }
}

impl State {
    fn tell(&mut self, encode: impl Fn(Encoding) -> Option<Vec<u8>>) {
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            if !self.watchers.iter().any(|watcher| watcher.encoding == encoding) {
                continue;
            }
            let Some(frame) = encode(encoding).map(Bytes::from) else { continue };
            self.watchers.retain(|watcher| watcher.encoding != encoding || watcher.frames.send(frame.clone()).is_ok());
        }
    }
}

/// Since 1970: all processes of the machine read the same clock.
#[must_use]
pub fn nanoseconds() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
