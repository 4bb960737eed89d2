//! What a running controller listens to: sources that come and go.
//!
//! ```text
//!  cache ──────────────── quick mapping ─────────────────► queue
//!  cache ──► mailbox ──► task: slow mapping ─────────────► queue
//!  Channel ─► mailbox ──► task: any mapping ─────────────► queue
//!  EventSource ─────────► task of its own, with a Sink ──► queue
//! ```
//!
//! Nothing here can hold up the writer of a cache or the sender of an event: where a mapping may take its time, a
//! mailbox stands between them, with at most one change per object in it.

mod channel;
mod sync;

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use concert_api::ObjectKey;
use concert_queue::{Call, Intake};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;

pub use channel::Channel;
pub(crate) use channel::Mailbox;

use crate::cache::{Cache, CacheState, Change, Informers, Origin, Subscription};
use crate::controller::ControllerError;
use crate::floors::Freshness;
use crate::metrics::ControllerMetrics;
use crate::reconciler::Key;
use crate::scope::Scope;
use crate::tasks::TaskGroup;
use crate::trigger::{Fire, Listening, Role, Trigger, WhenMissing};
use crate::worker::Failing;

/// A resync is spread over its period in at most so many steps.
const RESYNC_STEPS: usize = 256;
/// By which share the period of a resync varies, so that processes that started together drift apart.
const RESYNC_JITTER: f64 = 0.1;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// Anything that knows which keys should be reconciled, and when: a timer, a message bus, another system.
///
/// It runs from when its controller is added, also before workers begin, until it is removed or the controller stops;
/// then it is dropped where it waits. One that returns is over. An error ends its controller: one that wants to try
/// again does so itself. A function from a [`Sink`] to a future is a source.
pub trait EventSource<K: Key = ObjectKey>: Send + 'static {
    /// Puts keys into the sink.
    fn run(self, sink: Sink<K>) -> impl Future<Output = Result<(), BoxError>> + Send;
}

impl<K: Key, F, Fut> EventSource<K> for F
where
    F: FnOnce(Sink<K>) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send,
{
    fn run(self, sink: Sink<K>) -> impl Future<Output = Result<(), BoxError>> + Send {
        self(sink)
    }
}

/// Where a source puts keys. Never waits: a key that is queued already is queued once.
pub struct Sink<K = ObjectKey> {
    intake: Arc<Intake<K>>,
    metrics: ControllerMetrics,
    priority: i32,
}

impl<K: Key> Clone for Sink<K> {
    fn clone(&self) -> Self {
        Self { intake: Arc::clone(&self.intake), metrics: self.metrics.clone(), priority: self.priority }
    }
}

impl<K: Key> Sink<K> {
    pub(crate) fn new(intake: Arc<Intake<K>>, metrics: ControllerMetrics, priority: i32) -> Self {
        Self { intake, metrics, priority }
    }

    /// The same sink for keys of another urgency.
    #[must_use]
    pub fn with_priority(&self, priority: i32) -> Self {
        Self { priority, ..self.clone() }
    }

    /// Has a key reconciled. `reason` is for people.
    pub fn add(&self, key: K, reason: &'static str) {
        self.add_all([key], reason);
    }

    /// Has keys reconciled.
    pub fn add_all(&self, keys: impl IntoIterator<Item = K>, reason: &'static str) {
        let keys: Vec<K> = keys.into_iter().collect();
        self.put(keys, Call { priority: self.priority, reason, revision: None });
    }

    /// Has a key reconciled after a while.
    pub fn add_after(&self, key: K, delay: Duration, reason: &'static str) {
        self.metrics.added(1);
        self.intake.add_after(key, delay, Call { priority: self.priority, reason, revision: None });
    }

    fn put(&self, keys: Vec<K>, call: Call) {
        if !keys.is_empty() {
            self.metrics.added(keys.len());
            self.intake.add(keys, call);
        }
    }
}

impl<K> std::fmt::Debug for Sink<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sink(priority {})", self.priority)
    }
}

/// The sources of one controller.
pub(crate) struct Sources<K: Key> {
    controller: Arc<str>,
    informers: Informers,
    sink: Sink<K>,
    freshness: Arc<Freshness<K>>,
    failing: Failing,
    active: Mutex<BTreeMap<u64, Active>>,
}

/// One of them. Dropping it ends it.
struct Active {
    name: String,
    missing: WhenMissing,
    cache: Option<Cache>,
    _subscription: Option<Subscription>,
    _tasks: TaskGroup,
}

impl<K: Key> Sources<K> {
    pub(crate) fn new(
        controller: Arc<str>,
        informers: Informers,
        sink: Sink<K>,
        freshness: Arc<Freshness<K>>,
        failing: Failing,
    ) -> Arc<Self> {
        Arc::new(Self { controller, informers, sink, freshness, failing, active: Mutex::default() })
    }

    fn active(&self) -> MutexGuard<'_, BTreeMap<u64, Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to listen; gives the number of the source.
    pub(crate) fn add(&self, trigger: Trigger<K>) -> u64 {
        let number = self.active().last_key_value().map_or(0, |(last, _)| last + 1);
        let (missing, resync, own) = (trigger.missing, trigger.resync, trigger.role == Role::For);
        let (origin, fire) = trigger.split();
        let (name, fire) = (fire.name.clone(), Arc::new(fire));
        let mut tasks = TaskGroup::new(CancellationToken::new());
        let (mut cache, mut subscription) = (None, None);
        match origin {
            Listening::Kind(scope) => {
                let opened = self.informers.cache(scope);
                // Before anything is told: the first turn may write already.
                self.freshness.join(number, opened.clone(), own);
                subscription = Some(self.subscribe(&opened, &fire, &mut tasks));
                if let Some(period) = resync {
                    tasks.spawn("resync", self.resync(opened.clone(), Arc::clone(&fire), period));
                }
                cache = Some(opened);
            }
            Listening::Channel(mailbox) => drop(tasks.spawn("channel", read(mailbox, fire, self.sink.clone()))),
            Listening::Custom(_, run) => {
                let sink = self.sink.with_priority(fire.priorities.event);
                drop(tasks.spawn("source", self.watch_over(name.clone(), run, sink)));
            }
        }
        let active = Active { name, missing, cache, _subscription: subscription, _tasks: tasks };
        self.active().insert(number, active);
        number
    }

    fn subscribe(&self, cache: &Cache, fire: &Arc<Fire<K>>, tasks: &mut TaskGroup) -> Subscription {
        let (sink, quick) = (self.sink.clone(), Arc::clone(fire));
        if !fire.is_slow() {
            return cache.subscribe(move |change| {
                if quick.matters(change) {
                    sink.put(quick.quick(change), quick.call(change));
                }
            });
        }
        let mailbox = Arc::new(Mailbox::default());
        tasks.spawn("slow mapping", read(Arc::clone(&mailbox), Arc::clone(fire), sink));
        cache.subscribe(move |change| {
            if quick.matters(change) {
                mailbox.put(change.clone());
            }
        })
    }

    /// Looks at every object again, all of them once per period.
    fn resync(&self, cache: Cache, fire: Arc<Fire<K>>, period: Duration) -> impl Future<Output = ()> + Send + use<K> {
        let (sink, random) = (self.sink.clone(), self.informers.client().world().random.clone());
        async move {
            cache.synced().await;
            loop {
                let period = random.jitter(period, RESYNC_JITTER);
                let objects = cache.list();
                let steps = objects.len().clamp(1, RESYNC_STEPS);
                for step in 0..steps {
                    tokio::time::sleep(period / u32::try_from(steps).unwrap_or(1)).await;
                    for object in &objects[objects.len() * step / steps..objects.len() * (step + 1) / steps] {
                        // As it is by now; one that is gone has been told.
                        let Some(now) = cache.get(&object.key()) else { continue };
                        let (key, old) = (now.key(), Some(Arc::clone(&now)));
                        let change = Change { key, old, new: Some(now), origin: Origin::Resync };
                        if fire.matters(&change) {
                            let call = fire.call(&change);
                            sink.put(fire.map(change).await, call);
                        }
                    }
                }
            }
        }
    }

    /// Runs a source of the author's: what goes wrong with it ends the controller.
    fn watch_over(
        &self,
        source: String,
        run: Box<dyn FnOnce(Sink<K>) -> Running + Send>,
        sink: Sink<K>,
    ) -> impl Future<Output = ()> + Send + use<K> {
        let (controller, failing) = (self.controller.to_string(), self.failing.clone());
        async move {
            let ended = AssertUnwindSafe(async { run(sink).await }).catch_unwind().await;
            let why = match ended {
                Ok(Ok(())) => return,
                Ok(Err(error)) => crate::error_chain(&*error),
                Err(panic) => format!("it panicked: {}", crate::worker::panic_text(&*panic)),
            };
            failing.fail(ControllerError::Source { controller, source_name: source, why });
        }
    }

    /// Ends a source.
    pub(crate) fn remove(&self, number: u64) {
        let ended = self.active().remove(&number);
        self.freshness.leave(number);
        // Outside the lock: it ends a subscription, and perhaps a watch.
        drop(ended);
    }

    /// Ends the flow of keys; what is in flight may still read the caches.
    pub(crate) fn silence(&self) {
        let mut silenced = Vec::new();
        for active in self.active().values_mut() {
            silenced.push(active._subscription.take());
            let quiet = TaskGroup::new(CancellationToken::new());
            drop(std::mem::replace(&mut active._tasks, quiet));
        }
    }

    /// Ends all sources.
    pub(crate) fn end(&self) {
        let ended = std::mem::take(&mut *self.active());
        ended.keys().for_each(|number| self.freshness.leave(*number));
    }

    /// The kinds it listens to, and how far each cache is.
    pub(crate) fn states(&self) -> Vec<(Scope, CacheState)> {
        let caches: Vec<Cache> = self.active().values().filter_map(|active| active.cache.clone()).collect();
        caches.iter().map(|cache| (cache.scope().clone(), cache.state())).collect()
    }

    /// What its workers wait for before they begin, and why it is not there.
    pub(crate) fn awaited(&self) -> Vec<String> {
        let needed: Vec<Cache> = {
            let active = self.active();
            let needed = active.values().filter(|active| active.missing != WhenMissing::Optional);
            needed.filter_map(|active| active.cache.clone()).collect()
        };
        let waits = needed.iter().map(|cache| (cache.scope(), cache.state())).filter(|(_, state)| !state.synced);
        let say = |(scope, state): (&Scope, CacheState)| match state.trouble {
            Some(trouble) => format!("{scope}: {trouble}"),
            None => format!("{scope} is being listed"),
        };
        waits.map(say).collect()
    }

    /// Waits until every source is complete, or need not be.
    ///
    /// # Errors
    /// A source that must be there is not.
    pub(crate) async fn synced(&self, limit: Duration) -> Result<(), ControllerError> {
        let waits: Vec<_> = {
            let active = self.active();
            let kinds = active.values().filter_map(|active| Some((active.cache.clone()?, active.missing)));
            kinds.map(|(cache, missing)| sync::wait(&self.controller, cache, missing, limit)).collect()
        };
        futures::future::try_join_all(waits).await.map(drop)
    }

    /// The cache of a source, if it has one.
    fn cache(&self, number: u64) -> Option<Cache> {
        self.active().get(&number)?.cache.clone()
    }

    /// The names of all, in the order they were added.
    pub(crate) fn names(&self) -> Vec<String> {
        self.active().values().map(|active| active.name.clone()).collect()
    }
}

/// Maps what is in a mailbox, at the pace of the mapping.
async fn read<K: Key>(mailbox: Arc<Mailbox>, fire: Arc<Fire<K>>, sink: Sink<K>) {
    loop {
        let change = mailbox.next().await;
        // What came through a cache was judged when it came; events from outside are judged here.
        if change.origin != Origin::External || fire.matters(&change) {
            let call = fire.call(&change);
            sink.put(fire.map(change).await, call);
        }
    }
}

/// A source that was added to a running controller. Dropping it ends the source.
#[must_use = "dropping it ends the source at once"]
pub struct Watching<K: Key = ObjectKey> {
    sources: Weak<Sources<K>>,
    number: u64,
}

impl<K: Key> Watching<K> {
    pub(crate) fn new(sources: &Arc<Sources<K>>, number: u64) -> Self {
        Self { sources: Arc::downgrade(sources), number }
    }

    /// Resolves when everything that is there has been told; never, if the controller is gone.
    pub async fn synced(&self) {
        let Some(sources) = self.sources.upgrade() else { return std::future::pending().await };
        let cache = sources.cache(self.number);
        drop(sources);
        if let Some(cache) = cache {
            cache.synced().await;
        }
    }

    /// Leaves the source to the controller, for as long as that lives.
    pub fn keep(mut self) {
        self.sources = Weak::new();
    }
}

impl<K: Key> Drop for Watching<K> {
    fn drop(&mut self) {
        if let Some(sources) = self.sources.upgrade() {
            sources.remove(self.number);
        }
    }
}

impl<K: Key> std::fmt::Debug for Watching<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watching({})", self.number)
    }
}
