//! Kubernetes Events (`events.k8s.io/v1`): what users read in `kubectl describe` and `kubectl events`.
//!
//! Recording never waits: an event goes into a bounded queue, a [`Teller`] sends it. The same event again is counted
//! on the one that is there (its `series`), many that differ only in their words become one, and an object that makes
//! too many is silenced for a while. Objects share a few lanes, each with one request in flight: events about one
//! object stay in order, and those about others do not wait for them. An event names its object and shows nothing of
//! its content.

mod aggregate;
mod recent;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use concert_api::{Gvk, Object, ObjectKey, Time, names};
use concert_world::Random;
use futures::future::join_all;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{ApiError, Client};
use crate::resource::Resource;
use aggregate::{Aggregate, Telling};

/// So many events are on their way at once.
const LANES: usize = 8;
/// Events that wait in a lane; what comes on top is dropped and counted.
const QUEUE: usize = 1024;
/// So many different events, and objects, are remembered by all lanes together, as in client-go.
const REMEMBERED: usize = 4096;
/// Longer messages are cut.
const MAX_MESSAGE: usize = 1024;
/// How long the end of a process waits for events that are not sent yet.
const FLUSH: Duration = Duration::from_secs(5);
/// How often an event is sent to a server that has trouble, waiting twice as long each time.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// What we did when it happened; the API wants a word for it.
const ACTION: &str = "Reconciling";

/// How an event looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// As it should be.
    Normal,
    /// Somebody may have to act.
    Warning,
}

impl EventKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One event, before it is sent.
#[derive(Clone, Debug)]
struct Note {
    namespace: String,
    name: String,
    involved: Value,
    kind: EventKind,
    reason: String,
    message: String,
}

impl Note {
    fn about(object: &Object, kind: EventKind, reason: &str, message: &str) -> Self {
        let involved = json!({
            "apiVersion": object.api_version(), "kind": object.kind(), "namespace": object.namespace(),
            "name": object.name(), "uid": object.uid(), "resourceVersion": object.resource_version(),
        });
        let (namespace, name) = (object.namespace().into_owned(), object.name().into_owned());
        Self { namespace, name, involved, kind, reason: reason.to_owned(), message: cut(message) }
    }

    /// Which object it is about.
    fn subject(&self) -> String {
        let part = |field: &str| self.involved[field].as_str().unwrap_or_default();
        format!("{} {}/{} {}", part("kind"), self.namespace, self.name, part("uid"))
    }

    /// Events about cluster-scoped objects live in `default`.
    fn home(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

/// Cuts a message at a character's end.
fn cut(message: &str) -> String {
    if message.len() <= MAX_MESSAGE {
        return message.to_owned();
    }
    let end = (0..=MAX_MESSAGE - 3).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &message[..end])
}

/// Where events are recorded. Cheap to clone, never waits.
#[derive(Clone, Debug)]
pub struct Recorder {
    lanes: Vec<mpsc::Sender<Note>>,
    counters: EventCounters,
}

/// What became of events that nobody will read.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventCounters {
    /// Too many waited to be sent.
    pub(crate) dropped: Counter,
    /// Too many were about one object.
    pub(crate) silenced: Counter,
    /// The server did not take them.
    pub(crate) failed: Counter,
}

impl Recorder {
    /// A recorder, and what sends its events. `component` is who speaks, as `kubectl describe` shows it.
    #[must_use]
    pub fn new(client: Client, component: impl Into<String>) -> (Self, Teller) {
        Self::counting(client, &component.into(), EventCounters::default())
    }

    pub(crate) fn counting(client: Client, component: &str, counters: EventCounters) -> (Self, Teller) {
        let started = Instant::now();
        let lane = |_| {
            let (queue, notes) = mpsc::channel(QUEUE);
            let (client, component, counters) = (client.clone(), component.to_owned(), counters.clone());
            (
                queue,
                Lane { client, component, notes, counters, told: Aggregate::remembering(REMEMBERED / LANES), started },
            )
        };
        let (queues, lanes) = (0..LANES).map(lane).unzip();
        (Self { lanes: queues, counters }, Teller { lanes })
    }

    /// Records that something happened to an object. `reason` is one word in camel case.
    pub fn record(&self, object: &Object, kind: EventKind, reason: &str, message: &str) {
        if self.lanes[lane_of(object)].try_send(Note::about(object, kind, reason, message)).is_err() {
            self.counters.dropped.inc();
        }
    }

    /// How many events were dropped because too many waited.
    #[must_use]
    pub fn dropped(&self) -> &Counter {
        &self.counters.dropped
    }

    /// How many events the server did not take.
    #[must_use]
    pub fn failed(&self) -> &Counter {
        &self.counters.failed
    }
}

/// The lane of an object: always the same, so that what is told about it stays in order.
fn lane_of(object: &Object) -> usize {
    let mut hasher = DefaultHasher::new();
    (object.uid(), object.namespace(), object.name()).hash(&mut hasher);
    (hasher.finish() % LANES as u64) as usize
}

/// Sends what a [`Recorder`] takes in.
#[derive(Debug)]
pub struct Teller {
    lanes: Vec<Lane>,
}

impl Teller {
    /// Sends events until `cancel`; then sends what still waits, for a few seconds at most.
    pub async fn run(self, cancel: CancellationToken) {
        join_all(self.lanes.into_iter().map(|lane| lane.run(cancel.clone()))).await;
    }
}

#[derive(Debug)]
struct Lane {
    client: Client,
    component: String,
    notes: mpsc::Receiver<Note>,
    counters: EventCounters,
    told: Aggregate,
    started: Instant,
}

impl Lane {
    async fn run(mut self, cancel: CancellationToken) {
        let over = async {
            cancel.cancelled().await;
            tokio::time::sleep(FLUSH).await;
        };
        let told = tokio::select! {
            biased;
            () = self.tell_all(&cancel) => true,
            () = over => false,
        };
        if !told {
            tracing::warn!(left = self.notes.len(), "some events were not sent before the end");
        }
    }

    /// Sends what comes until `cancel`, then what still waits.
    async fn tell_all(&mut self, cancel: &CancellationToken) {
        loop {
            let note = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                note = self.notes.recv() => note,
            };
            match note {
                Some(note) => self.tell(note, cancel).await,
                None => return,
            }
        }
        self.notes.close();
        while let Some(note) = self.notes.recv().await {
            self.tell(note, cancel).await;
        }
    }

    async fn tell(&mut self, note: Note, cancel: &CancellationToken) {
        let random = self.client.world().random.clone();
        let fresh = || name_of(&note, &random);
        let telling = self.told.tell(&note, self.started.elapsed(), fresh);
        if telling == Telling::Dropped {
            self.counters.silenced.inc();
            return;
        }
        for tried in 0..TRIES {
            let Err(error) = self.send(&note, &telling).await else { return };
            let wait = self.client.world().random.jitter(FIRST_WAIT * (1 << tried), 0.2);
            let hopeless = error.code().is_some_and(|code| code < 500 && code != 429) || tried + 1 == TRIES;
            if hopeless || stopped(cancel, wait).await {
                self.counters.failed.inc();
                self.told.forget(&note, telling.name());
                tracing::debug!(error = crate::error_chain(&error), reason = note.reason, "cannot record an event");
                return;
            }
        }
    }

    fn now(&self) -> String {
        Time::from(self.client.world().clock.now()).with_micros()
    }

    async fn send(&self, note: &Note, telling: &Telling) -> Result<(), ApiError> {
        match telling {
            Telling::Dropped => Ok(()),
            Telling::New { name, words } => self.create(note, name, words).await,
            Telling::Again { name, count, words } => self.count(note, name, *count, words).await,
        }
    }

    async fn create(&self, note: &Note, name: &str, words: &str) -> Result<(), ApiError> {
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": { "namespace": note.home(), "name": name },
            "regarding": note.involved, "eventTime": self.now(),
            "type": note.kind.as_str(), "reason": note.reason, "action": ACTION, "note": words,
            "reportingController": self.component, "reportingInstance": self.component,
        });
        match self.client.create(&events(), &event).await {
            // An earlier try whose answer was lost.
            Err(error) if error.is_already_exists() => Ok(()),
            result => result.map(drop),
        }
    }

    async fn count(&self, note: &Note, name: &str, count: u32, words: &str) -> Result<(), ApiError> {
        let patch = json!({ "series": { "count": count, "lastObservedTime": self.now() } });
        let key = ObjectKey::new(note.home(), name);
        match self.client.merge_patch(&events(), &key, &patch, None).await {
            // Events live for an hour; this one is over.
            Err(error) if error.is_not_found() => self.create(note, name, words).await,
            result => result.map(drop),
        }
    }
}

/// Waits; `true` at once if it is time to stop.
async fn stopped(cancel: &CancellationToken, wait: Duration) -> bool {
    tokio::time::timeout(wait, cancel.cancelled()).await.is_ok()
}

/// A fresh name for an event: that of its object, and something that no other has. Where that is no name that events may
/// have (RBAC's `system:x`, very long ones), only what no other has, as in client-go.
fn name_of(note: &Note, random: &Random) -> String {
    let name = format!("{}.{:016x}", note.name, random.u64());
    if names::subdomain_faults(&name).is_empty() { name } else { random.uuid() }
}

fn events() -> Resource {
    Resource::namespaced(Gvk::new("events.k8s.io", "v1", "Event"), "events")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        let long = "ä".repeat(2000);
        let short = cut(&long);
        assert!(short.len() <= MAX_MESSAGE && short.ends_with("ä..."));
        assert_eq!(cut("short"), "short");
    }
}
