//! Kubernetes Events (`events.k8s.io/v1`): what users read in `kubectl describe` and `kubectl events`.
//!
//! Recording never waits: an event goes into a bounded queue, a [`Teller`] sends it. The same event again is counted
//! on the one that is there (its `series`), many that differ only in their words become one, and an object that makes
//! too many is silenced for a while. Objects share a few lanes, each with one request in flight: events about one
//! object stay in order, and those about others do not wait for them. An event names its object and shows nothing of
//! its content.

mod aggregate;
mod event;
mod recent;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use concert_api::{Gvk, ObjectKey, Time, names};
use concert_world::Random;
use futures::future::join_all;
use prometheus_client::metrics::counter::Counter;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{ApiError, Client};
use crate::resource::Resource;
use aggregate::{Aggregate, Telling};
use event::cut_to;
pub use event::{Event, EventKind, Reference};

/// So many events are on their way at once.
const LANES: usize = 8;
/// Events that wait in a lane; what comes on top is dropped and counted.
const QUEUE: usize = 1024;
/// So many different events, and objects, are remembered by all lanes together, as in client-go.
const REMEMBERED: usize = 4096;
/// How long the end of a process waits for events that are not sent yet.
const FLUSH: Duration = Duration::from_secs(5);
/// How often an event is sent to a server that has trouble, waiting twice as long each time.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The API takes no longer name of who speaks.
const MAX_INSTANCE: usize = 128;

/// Where events are recorded. Cheap to clone, never waits.
#[derive(Clone, Debug)]
pub struct Recorder {
    lanes: Vec<mpsc::Sender<Event>>,
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
        let (started, instance) = (Instant::now(), instance_of(component));
        let lane = |_| {
            let (queue, events) = mpsc::channel(QUEUE);
            let (client, component, instance) = (client.clone(), component.to_owned(), instance.clone());
            let (counters, told) = (counters.clone(), Aggregate::remembering(REMEMBERED / LANES));
            (queue, Lane { client, component, instance, events, counters, told, started })
        };
        let (queues, lanes) = (0..LANES).map(lane).unzip();
        (Self { lanes: queues, counters }, Teller { lanes })
    }

    /// Records that something happened to an object: an [`Object`](concert_api::Object), or the [`Reference::of`] a typed one.
    /// `reason` is one word in camel case.
    pub fn record(&self, about: impl Into<Reference>, kind: EventKind, reason: &str, message: &str) {
        self.tell(Event::new(about, kind, reason, message));
    }

    /// Records an event that says more.
    pub fn tell(&self, event: Event) {
        if self.lanes[lane_of(&event)].try_send(event).is_err() {
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
fn lane_of(event: &Event) -> usize {
    let mut hasher = DefaultHasher::new();
    event.subject().hash(&mut hasher);
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
    instance: String,
    events: mpsc::Receiver<Event>,
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
            tracing::warn!(left = self.events.len(), "some events were not sent before the end");
        }
    }

    /// Sends what comes until `cancel`, then what still waits.
    async fn tell_all(&mut self, cancel: &CancellationToken) {
        loop {
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                event = self.events.recv() => event,
            };
            match event {
                Some(event) => self.tell(event, cancel).await,
                None => return,
            }
        }
        self.events.close();
        while let Some(event) = self.events.recv().await {
            self.tell(event, cancel).await;
        }
    }

    async fn tell(&mut self, event: Event, cancel: &CancellationToken) {
        let random = self.client.world().random.clone();
        let fresh = || name_of(&event, &random);
        let telling = self.told.tell(&event, self.started.elapsed(), fresh);
        if telling == Telling::Dropped {
            self.counters.silenced.inc();
            return;
        }
        for tried in 0..TRIES {
            let Err(error) = self.send(&event, &telling).await else { return };
            let wait = self.client.world().random.jitter(FIRST_WAIT * (1 << tried), 0.2);
            let hopeless = error.code().is_some_and(|code| code < 500 && code != 429) || tried + 1 == TRIES;
            if hopeless || stopped(cancel, wait).await {
                self.counters.failed.inc();
                self.told.forget(&event, telling.name());
                tracing::debug!(error = crate::error_chain(&error), reason = event.reason, "cannot record an event");
                return;
            }
        }
    }

    fn now(&self) -> String {
        Time::from(self.client.world().clock.now()).with_micros()
    }

    async fn send(&self, event: &Event, telling: &Telling) -> Result<(), ApiError> {
        match telling {
            Telling::Dropped => Ok(()),
            Telling::New { name, words } => self.create(event, name, words).await,
            Telling::Again { name, count, words } => self.count(event, name, *count, words).await,
        }
    }

    async fn create(&self, event: &Event, name: &str, words: &str) -> Result<(), ApiError> {
        let mut body = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": { "namespace": event.home(), "name": name },
            "regarding": event.about.value(), "eventTime": self.now(),
            "type": event.kind.as_str(), "reason": event.reason, "action": event.action, "note": words,
            "reportingController": self.component, "reportingInstance": self.instance,
        });
        if let Some(related) = &event.related {
            body["related"] = related.value();
        }
        match self.client.create(&events(), &body).await {
            // An earlier try whose answer was lost.
            Err(error) if error.is_already_exists() => Ok(()),
            result => result.map(drop),
        }
    }

    async fn count(&self, event: &Event, name: &str, count: u32, words: &str) -> Result<(), ApiError> {
        let patch = json!({ "series": { "count": count, "lastObservedTime": self.now() } });
        let key = ObjectKey::new(event.home(), name);
        match self.client.merge_patch(&events(), &key, &patch, None).await {
            // Events live for an hour; this one is over.
            Err(error) if error.is_not_found() => self.create(event, name, words).await,
            result => result.map(drop),
        }
    }
}

/// Waits; `true` at once if it is time to stop.
async fn stopped(cancel: &CancellationToken, wait: Duration) -> bool {
    tokio::time::timeout(wait, cancel.cancelled()).await.is_ok()
}

/// Which of the replicas speaks, as client-go says it: who, and where.
fn instance_of(component: &str) -> String {
    cut_to(&format!("{component}-{}", crate::host_name()), MAX_INSTANCE)
}

/// A fresh name for an event: that of its object, and something that no other has. Where that is no name that events may
/// have (RBAC's `system:x`, very long ones), only what no other has, as in client-go.
fn name_of(event: &Event, random: &Random) -> String {
    let name = format!("{}.{:016x}", event.about.name(), random.u64());
    if names::subdomain_faults(&name).is_empty() { name } else { random.uuid() }
}

fn events() -> Resource {
    Resource::namespaced(Gvk::new("events.k8s.io", "v1", "Event"), "events")
}
