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
#[cfg(all(test, feature = "shuttle"))]
mod interleavings;
mod sync;

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use concert_api::{Object, ObjectKey};
use concert_queue::{Call, Intake};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;

pub(crate) use channel::Mailbox;
pub use channel::{Backlog, Channel};

use crate::cache::{Cache, CacheState, Change, Informers, Listener, Origin, Subscription};
use crate::controller::ControllerError;
use crate::engine::KeyFilter;
use crate::floors::Freshness;
use crate::metrics::ControllerMetrics;
use crate::reconciler::Key;
use crate::scope::Scope;
use crate::sync::{Mutex, MutexGuard};
use crate::tasks::TaskGroup;
use crate::trigger::{Fire, Listening, Role, Trigger, WhenMissing};
use crate::worker::Failing;
use channel::Letter;

/// A resync is spread over its period in at most so many steps.
const RESYNC_STEPS: usize = 256;
/// A mapping that has not done with a change so long after it came is behind.
const BEHIND: Duration = Duration::from_secs(30);
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
    priority: i32,
    metrics: ControllerMetrics,
}

impl<K: Key> Clone for Sink<K> {
    fn clone(&self) -> Self {
        Self { intake: Arc::clone(&self.intake), priority: self.priority, metrics: self.metrics.clone() }
    }
}

impl<K: Key> Sink<K> {
    pub(crate) fn new(intake: Arc<Intake<K>>, priority: i32, metrics: ControllerMetrics) -> Self {
        Self { intake, priority, metrics }
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
        if !delay.is_zero() {
            self.metrics.retried();
        }
        self.intake.add_after(key, delay, Call { priority: self.priority, reason, revision: None });
    }

    fn put(&self, keys: Vec<K>, call: Call) {
        if !keys.is_empty() {
            self.intake.add(keys, call);
        }
    }
}

impl<K> std::fmt::Debug for Sink<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sink(priority {})", self.priority)
    }
}

/// What all sources of a controller stand on.
pub(crate) struct Ground<K: Key> {
    pub(crate) controller: Arc<str>,
    pub(crate) informers: Informers,
    pub(crate) sink: Sink<K>,
    pub(crate) freshness: Arc<Freshness<K>>,
    pub(crate) failing: Failing,
    /// How often objects are looked at again where a source does not say.
    pub(crate) resync: Option<Duration>,
}

/// The sources of one controller.
pub(crate) struct Sources<K: Key> {
    ground: Ground<K>,
    next: AtomicU64,
    /// `None` when the controller has ended: nothing starts any more.
    active: Mutex<Option<BTreeMap<u64, Active<K>>>>,
}

/// One of them. Dropping it ends it.
struct Active<K: Key> {
    name: String,
    /// `None` if workers do not wait for it.
    missing: Option<WhenMissing>,
    cache: Option<Cache>,
    fire: Arc<Fire<K>>,
    subscription: Option<Subscription>,
    /// How long it holds up its watch.
    listener: Arc<Listener>,
    /// What its mapping has not done yet, where that may take its time.
    mailbox: Option<Arc<Mailbox>>,
    tasks: TaskGroup,
}

impl<K: Key> Sources<K> {
    pub(crate) fn new(ground: Ground<K>) -> Arc<Self> {
        Arc::new(Self { ground, next: AtomicU64::new(0), active: Mutex::new(Some(BTreeMap::new())) })
    }

    fn active(&self) -> MutexGuard<'_, Option<BTreeMap<u64, Active<K>>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes something from every source, in the order they were added.
    fn each<T>(&self, take: impl Fn(&Active<K>) -> Option<T>) -> Vec<T> {
        self.active().iter().flat_map(BTreeMap::values).filter_map(take).collect()
    }

    /// Starts to listen to what workers wait for; gives the number of the source.
    pub(crate) fn add(&self, trigger: Trigger<K>) -> u64 {
        let missing = trigger.missing;
        self.listen(trigger, Some(missing))
    }

    /// Starts to listen to what workers do not wait for.
    pub(crate) fn add_later(&self, trigger: Trigger<K>) -> u64 {
        self.listen(trigger, None)
    }

    fn listen(&self, trigger: Trigger<K>, missing: Option<WhenMissing>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if self.active().is_none() {
            return number;
        }
        let own = trigger.role == Role::For;
        let resync = trigger.resync.or(self.ground.resync).filter(|period| !period.is_zero());
        let informers = trigger.informers.clone().unwrap_or_else(|| self.ground.informers.clone());
        let (origin, fire) = trigger.split(number);
        let (name, fire) = (fire.name.clone(), Arc::new(fire));
        let mut tasks = TaskGroup::new(CancellationToken::new());
        let (mut cache, mut subscription, mut letters) = (None, None, None);
        let listener = Listener::new(Arc::clone(&self.ground.controller), name.clone());
        let replayed = Arc::clone(&fire);
        match origin {
            Listening::Kind(scope) => {
                let opened = informers.cache(scope);
                // Before anything is told: the first turn may write already.
                self.ground.freshness.join(number, opened.clone(), informers.client().clone(), own);
                letters = fire.is_slow().then(Arc::<Mailbox>::default);
                subscription = Some(self.subscribe(&opened, &listener, &fire, letters.as_ref(), &mut tasks));
                if let Some(period) = resync {
                    tasks.spawn("resync", self.resync(opened.clone(), Arc::clone(&fire), period));
                }
                cache = Some(opened);
            }
            Listening::Channel(mailbox) => {
                letters = Some(Arc::clone(&mailbox));
                let controller = Arc::clone(&self.ground.controller);
                drop(tasks.spawn("channel", read(controller, mailbox, fire, self.ground.sink.clone())));
            }
            Listening::Custom(_, run) => {
                let sink = self.ground.sink.with_priority(fire.priorities.event);
                drop(tasks.spawn("source", self.watch_over(name.clone(), run, sink)));
            }
        }
        let added = Active { name, missing, cache, fire: replayed, subscription, listener, mailbox: letters, tasks };
        let mut active = self.active();
        match &mut *active {
            Some(active) => drop(active.insert(number, added)),
            // It ended meanwhile; what was begun is dropped outside the lock.
            None => {
                drop(active);
                self.ground.freshness.leave(number);
                drop(added);
            }
        }
        number
    }

    fn subscribe(
        &self,
        cache: &Cache,
        listener: &Arc<Listener>,
        fire: &Arc<Fire<K>>,
        mailbox: Option<&Arc<Mailbox>>,
        tasks: &mut TaskGroup,
    ) -> Subscription {
        let (sink, quick, listener) = (self.ground.sink.clone(), Arc::clone(fire), Arc::clone(listener));
        let Some(mailbox) = mailbox.cloned() else {
            return cache.subscribe_as(listener, move |change| {
                if quick.matters(change) {
                    sink.put(quick.quick(change), quick.call(change));
                }
            });
        };
        let controller = Arc::clone(&self.ground.controller);
        tasks.spawn("slow mapping", read(controller, Arc::clone(&mailbox), Arc::clone(fire), sink));
        cache.subscribe_as(listener, move |change| {
            if quick.matters(change) {
                mailbox.put(change.clone());
            }
        })
    }

    /// Looks at every object again, all of them once per period.
    fn resync(&self, cache: Cache, fire: Arc<Fire<K>>, period: Duration) -> impl Future<Output = ()> + Send + use<K> {
        let (sink, random) = (self.ground.sink.clone(), self.ground.informers.client().world().random.clone());
        async move {
            cache.synced().await;
            loop {
                let period = random.jitter(period, RESYNC_JITTER);
                let steps = cache.len().clamp(1, RESYNC_STEPS);
                let mut after = None;
                for step in 0..steps {
                    tokio::time::sleep(period / u32::try_from(steps).unwrap_or(1)).await;
                    for object in share(&cache, after.as_ref(), steps - step) {
                        after = Some(object.key());
                        let (key, old) = (object.key(), Some(Arc::clone(&object)));
                        let change = Change { key, old, new: Some(object), origin: Origin::Resync };
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
        let (controller, failing) = (self.ground.controller.to_string(), self.ground.failing.clone());
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
        let ended = self.active().as_mut().and_then(|active| active.remove(&number));
        self.ground.freshness.leave(number);
        // Outside the lock: it ends a subscription, and perhaps a watch.
        drop(ended);
    }

    /// Has all that is known of kinds start turns of these keys, as if the controller had just begun.
    pub(crate) fn replay(&self, keys: &KeyFilter) {
        for active in self.active().iter_mut().flat_map(BTreeMap::values_mut) {
            let Some(cache) = active.cache.clone() else { continue };
            let (fire, sink, keys) = (Arc::clone(&active.fire), self.ground.sink.clone(), Arc::clone(keys));
            active.tasks.reap();
            active.tasks.spawn("replay", tell_again(cache, fire, sink, keys));
        }
    }

    /// Ends the flow of keys; what is in flight may still read the caches.
    pub(crate) fn silence(&self) {
        let mut silenced = Vec::new();
        for active in self.active().iter_mut().flat_map(BTreeMap::values_mut) {
            let quiet = TaskGroup::new(CancellationToken::new());
            silenced.push((active.subscription.take(), std::mem::replace(&mut active.tasks, quiet)));
        }
    }

    /// Ends all sources.
    pub(crate) fn end(&self) {
        let ended = self.active().take();
        ended.iter().flat_map(BTreeMap::keys).for_each(|number| self.ground.freshness.leave(*number));
    }

    /// The kinds it listens to, and how far each cache is.
    pub(crate) fn states(&self) -> Vec<(Scope, CacheState)> {
        let caches = self.each(|active| active.cache.clone());
        caches.iter().map(|cache| (cache.scope().clone(), cache.state())).collect()
    }

    /// What its workers wait for before they begin, and why it is not there.
    pub(crate) fn awaited(&self) -> Vec<String> {
        let needed = self.each(|active| {
            active.cache.clone().filter(|_| active.missing.is_some_and(|missing| missing != WhenMissing::Optional))
        });
        let waits =
            needed.iter().map(|cache| (cache.scope(), cache.state())).filter(|(_, state)| !state.has_been_synced);
        let say = |(scope, state): (&Scope, CacheState)| match state.trouble {
            Some(trouble) => format!("{scope}: {trouble}"),
            None => format!("{scope} is being listed"),
        };
        waits.map(say).collect()
    }

    /// Waits until every source that workers wait for has been complete, or need not be.
    ///
    /// # Errors
    /// A source that must be there is not.
    pub(crate) async fn synced(&self, limit: Duration) -> Result<(), ControllerError> {
        let kinds = self.each(|active| Some((active.cache.clone()?, active.missing?)));
        let waits =
            kinds.into_iter().map(|(cache, missing)| sync::wait(&self.ground.controller, cache, missing, limit));
        futures::future::try_join_all(waits).await.map(drop)
    }

    /// The cache of a source, if it has one.
    fn cache(&self, number: u64) -> Option<Cache> {
        self.active().as_ref()?.get(&number)?.cache.clone()
    }

    /// What the mappings that may take their time have not done yet, by the name of the source.
    pub(crate) fn backlogs(&self) -> Vec<(String, Backlog)> {
        self.each(|active| Some((active.name.clone(), active.mailbox.as_ref()?.backlog())))
    }

    /// How long those that listen to kinds have held up their watches, by the name of the source.
    pub(crate) fn handlers(&self) -> Vec<(String, Duration)> {
        self.each(|active| active.cache.is_some().then(|| (active.name.clone(), active.listener.took())))
    }

    /// The names of all, in the order they were added.
    pub(crate) fn names(&self) -> Vec<String> {
        self.each(|active| Some(active.name.clone()))
    }
}

/// The next objects of a cache after a key: one of `shares` equal shares of those that are left, as they are now.
fn share(cache: &Cache, after: Option<&ObjectKey>, shares: usize) -> Vec<Arc<Object>> {
    let mut left = cache.list();
    let gone = after.map_or(0, |after| left.partition_point(|object| object.key() <= *after));
    left.drain(..gone);
    left.truncate(left.len().div_ceil(shares));
    left
}

/// Tells all that a cache knows, as far as it starts turns of these keys.
async fn tell_again<K: Key>(cache: Cache, fire: Arc<Fire<K>>, sink: Sink<K>, keys: KeyFilter) {
    for object in cache.list() {
        let (key, origin) = (object.key(), Origin::Initial);
        let change = Change { key, old: None, new: Some(object), origin };
        if fire.matters(&change) {
            let call = fire.call(&change);
            let mut found = fire.map(change).await;
            found.retain(|key| keys(&key.to_string()));
            sink.put(found, call);
        }
    }
}

/// Maps what is in a mailbox, at the pace of the mapping. Says once when it falls behind, and again only after it had
/// caught up.
async fn read<K: Key>(controller: Arc<str>, mailbox: Arc<Mailbox>, fire: Arc<Fire<K>>, sink: Sink<K>) {
    let mut behind = false;
    loop {
        let Letter { change, since } = mailbox.next().await;
        // What came through a cache was judged when it came; events from outside are judged here.
        if change.origin != Origin::External || fire.matters(&change) {
            let call = fire.call(&change);
            let mut mapping = std::pin::pin!(fire.map(change));
            let keys = tokio::select! {
                biased;
                keys = &mut mapping => keys,
                () = tokio::time::sleep_until(since + BEHIND), if !behind => {
                    behind = true;
                    fall_behind(&controller, &fire.name, &mailbox);
                    mapping.await
                }
            };
            sink.put(keys, call);
        }
        behind &= mailbox.backlog().waiting > 0;
    }
}

fn fall_behind(controller: &str, source: &str, mailbox: &Mailbox) {
    let Backlog { waiting, folded, .. } = mailbox.backlog();
    tracing::warn!(
        controller,
        source,
        waiting,
        folded,
        "the mapping of this source is slower than its changes: keys come {BEHIND:?} late or more"
    );
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
