//! The watches that feed a cache: which there are, and what their events do.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use concert_api::{Glance, ObjectKey};
use futures::poll;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::handlers::{Handlers, nanoseconds};
use super::store::Change;
use super::union::{FeedNumber, Step};
use super::{CacheState, Shared};
use crate::client::Client;
use crate::scope::Feed;
use crate::watch::{Event, Subject, Trouble, Watch};

/// So many changes may be written before it is said how far the watch is.
const MOST_UNSAID: usize = 64;

/// The watches that are running.
#[derive(Default)]
pub(super) struct Feeding {
    next: FeedNumber,
    pub(super) running: BTreeMap<Feed, Running>,
}

/// One watch.
#[derive(Clone)]
pub(super) struct Running {
    pub(super) feed: Feed,
    number: FeedNumber,
    pub(super) stop: CancellationToken,
}

impl Running {
    /// What the store knows it by in a union. Not the name of a namespace: what such a watch lists is swept by the union.
    fn name(&self) -> String {
        format!("#{}", self.number)
    }
}

impl Shared {
    /// Begins to feed the cache, and to follow the sets of namespaces that its scope names.
    pub(super) fn begin(self: &Arc<Self>) {
        for set in self.scope.sets() {
            let (shared, mut changes) = (Arc::clone(self), set.changes());
            let task = move |_| async move {
                let follow = async {
                    while changes.changed().await.is_ok() {
                        shared.follow();
                    }
                };
                // Between two changes nothing is half done.
                shared.stop.run_until_cancelled(follow).await;
            };
            self.spawner.spawn(format!("namespaces of {}", self.scope), task);
        }
        self.follow();
    }

    /// Has exactly those watches running that the scope asks for now, each in a task of its own.
    pub(super) fn follow(self: &Arc<Self>) {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked under the lock: who comes later knows at least as much.
        let (wanted, settled) = self.scope.feeds();
        let fault = self.scope.fault_now();
        self.progress.send_modify(|progress| {
            progress.remember();
            progress.fault = fault;
        });
        let left: Vec<Feed> = feeds.running.keys().filter(|feed| !wanted.contains(feed)).cloned().collect();
        for running in left.iter().filter_map(|feed| feeds.running.remove(feed)) {
            running.stop.cancel();
            self.leave(&running);
        }
        for feed in wanted {
            if feeds.running.contains_key(&feed) {
                continue;
            }
            let running = Running { feed: feed.clone(), number: feeds.next, stop: self.stop.child_token() };
            feeds.next += 1;
            self.progress.send_modify(|progress| {
                let waits = CacheState { heard: Some(Instant::now()), ..CacheState::default() };
                progress.feeds.insert(feed.clone(), waits);
            });
            feeds.running.insert(feed, running.clone());
            let shared = Arc::clone(self);
            self.spawner.spawn(format!("watch {}", self.scope), move |client| shared.run(client, running));
        }
        self.progress.send_if_modified(|progress| settled != std::mem::replace(&mut progress.settled, settled));
    }

    fn leave(&self, running: &Running) {
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let changes = match &self.union {
            Some(union) => {
                let steps = union.lock().unwrap_or_else(PoisonError::into_inner).leave(running.number);
                let vanished = |step| match step {
                    Step::Vanished(key) => store.vanished(&key),
                    Step::Apply(_) => None,
                };
                let changes = steps.into_iter().filter_map(vanished).collect();
                store.forget_feed(&running.name());
                changes
            }
            None => store.leave(&running.feed.namespace),
        };
        drop(store);
        self.tell(&mut handlers, &changes, Instant::now());
        self.progress.send_modify(|progress| {
            progress.feeds.remove(&running.feed);
        });
    }

    /// Takes the events of one watch until it is stopped.
    async fn run(self: Arc<Self>, client: Client, running: Running) {
        let (resource, form) = (self.scope.resource.clone(), self.scope.form);
        let mut watch = Watch::new(client, Subject { resource, selection: running.feed.selection(), form });
        let mut pen = Pen::new(&self, &running);
        let mut stopped = pin!(running.stop.cancelled());
        while !running.stop.is_cancelled() {
            let mut next = pin!(watch.next());
            let event = match poll!(next.as_mut()) {
                Poll::Ready(event) => event,
                Poll::Pending => {
                    pen.settle();
                    tokio::select! {
                        biased;
                        () = &mut stopped => return,
                        event = next => event,
                    }
                }
            };
            pen.write(event);
        }
    }

    fn suffers(&self, running: &Running, trouble: &Trouble) {
        // Each time it is tried again the same may be wrong: that is no news.
        if self.trouble_of(running).as_ref() == Some(trouble) {
            tracing::debug!(scope = %self.scope, trouble = %trouble, "watch is still in trouble");
        } else {
            tracing::warn!(scope = %self.scope, trouble = %trouble, "watch is in trouble, and is tried again");
        }
        self.spawner.tell(&self.scope, trouble);
        self.note(running, &|state| state.trouble = Some(trouble.clone()));
    }

    /// Everything up to this revision has been seen, as far as it says.
    fn reached(&self, running: &Running, revision: u64, complete: bool) {
        self.memo.age(Instant::now());
        let recovers = Cell::new(false);
        self.note(running, &|state| {
            state.synced |= complete;
            state.listing &= !complete;
            recovers.set(state.trouble.take().is_some());
            // A list says how far it is; a server that lost its history may be less far than before.
            let before = if complete { 0 } else { state.revision };
            state.revision = before.max(revision);
        });
        if recovers.get() {
            tracing::info!(scope = %self.scope, "watch is well again");
        }
    }

    /// What was wrong with a watch last, if it still is.
    fn trouble_of(&self, running: &Running) -> Option<Trouble> {
        self.progress.borrow().feeds.get(&running.feed).and_then(|state| state.trouble.clone())
    }

    fn skip(&self, running: &Running, bytes: &[u8], why: &str) {
        if self.complaints.is_new(bytes) {
            let key = Glance::at(bytes).map_or_else(|_| "unknown".to_owned(), |glance| glance.key.to_string());
            tracing::warn!(scope = %self.scope, key, why, "object skipped: it cannot be read");
        }
        self.note(running, &|state| state.skipped += 1);
    }

    fn hand_out(&self, running: &Running, event: Event) {
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        // Who was told to leave meanwhile brings nothing back.
        if running.stop.is_cancelled() {
            return;
        }
        let began = Instant::now();
        let bytes = match &event {
            Event::Listed(arrived) | Event::Applied(arrived) => arrived.bytes.clone(),
            _ => Bytes::new(),
        };
        let (changes, unread) = self.apply(running, event);
        let kept = Instant::now();
        self.decoding.fetch_add(nanoseconds(kept.duration_since(began)), Ordering::Relaxed);
        self.tell(&mut handlers, &changes, kept);
        if let Some(why) = unread {
            self.skip(running, &bytes, &why);
        }
    }

    fn tell(&self, handlers: &mut Handlers, changes: &[Change], began: Instant) {
        let told = handlers.tell(changes, began);
        self.handling.fetch_add(nanoseconds(told.duration_since(began)), Ordering::Relaxed);
    }

    /// What an event changes, and why objects could not be read.
    fn apply(&self, running: &Running, event: Event) -> (Vec<Change>, Option<String>) {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let Some(union) = &self.union else {
            return match store.apply(&running.feed.namespace, event) {
                Ok(changes) => (changes, None),
                Err(why) => (Vec::new(), Some(why.to_string())),
            };
        };
        let (mut changes, mut unread) = (Vec::new(), None);
        let name = running.name();
        let steps = union.lock().unwrap_or_else(PoisonError::into_inner).take(running.number, event);
        for step in steps {
            match step {
                Step::Apply(event) => match store.apply(&name, event) {
                    Ok(more) => changes.extend(more),
                    Err(why) => unread = Some(why.to_string()),
                },
                Step::Vanished(key) => changes.extend(store.vanished(&key)),
            }
        }
        (changes, unread)
    }

    /// Whether a watch shows an object at the moment, where several may.
    pub(super) fn is_shown_by(&self, feed: &Feed, key: &ObjectKey) -> bool {
        let Some(union) = &self.union else { return true };
        let feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        let number = feeds.running.get(feed).map(|running| running.number);
        drop(feeds);
        number.is_some_and(|number| union.lock().unwrap_or_else(PoisonError::into_inner).is_shown_by(number, key))
    }

    /// Who was told to leave has nothing more to say: another one may look by now.
    fn note(&self, running: &Running, change: &dyn Fn(&mut CacheState)) {
        self.progress.send_modify(|progress| {
            if let Some(state) = progress.feeds.get_mut(&running.feed).filter(|_| !running.stop.is_cancelled()) {
                let before = state.revision;
                change(state);
                // Whoever waits for what was written before waits in vain.
                progress.history += u64::from(state.revision < before);
                // Who is not reached is not heard of.
                if !matches!(state.trouble, Some(Trouble::Failing(_))) {
                    state.heard = Some(Instant::now());
                }
            }
        });
    }
}

/// Writes the events of one watch. Readers see each at once; how far the watch is, is said when there are no more for the
/// moment.
pub(super) struct Pen<'a> {
    shared: &'a Shared,
    running: &'a Running,
    /// So many changes are written and not said.
    unsaid: usize,
    /// The latest revision among them; 0 if they have no numbers.
    revision: u64,
}

impl<'a> Pen<'a> {
    pub(super) fn new(shared: &'a Shared, running: &'a Running) -> Self {
        Self { shared, running, unsaid: 0, revision: 0 }
    }

    pub(super) fn write(&mut self, event: Event) {
        let Self { shared, running, .. } = *self;
        if let Event::Applied(arrived) | Event::Deleted(arrived) = &event {
            let revision = arrived.glance.resource_version.parse().unwrap_or(0);
            shared.hand_out(running, event);
            (self.unsaid, self.revision) = (self.unsaid + 1, self.revision.max(revision));
            if self.unsaid >= MOST_UNSAID {
                self.settle();
            }
            return;
        }
        self.settle();
        match &event {
            Event::Trouble(trouble) => shared.suffers(running, trouble),
            Event::Skipped { why, bytes } => shared.skip(running, bytes, why),
            Event::Opened => shared.note(running, &|state| state.trouble = None),
            Event::Listed(_) => shared.hand_out(running, event),
            Event::Reset => {
                shared.note(running, &|state| state.listing = true);
                shared.hand_out(running, event);
            }
            Event::Complete(at) | Event::Progress(at) => {
                let (at, complete) = (at.parse().unwrap_or(0), matches!(event, Event::Complete(_)));
                shared.hand_out(running, event);
                shared.reached(running, at, complete);
            }
            Event::Applied(_) | Event::Deleted(_) => {}
        }
    }

    /// Says how far the watch is.
    pub(super) fn settle(&mut self) {
        // Also where versions are no numbers: whoever waits looks again.
        if std::mem::take(&mut self.unsaid) > 0 {
            self.shared.reached(self.running, std::mem::take(&mut self.revision), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Informers, Namespaces, Resource, Scope};
    use concert_world::World;
    use http_body_util::Full;

    /// A server that has nothing, and says so at once.
    fn empty() -> Client {
        let mark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let serve = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
            let body = Full::new(Bytes::from(format!("{mark}\n")));
            Ok::<_, std::convert::Infallible>(http::Response::new(body))
        });
        Client::in_process(serve, World::simulated(1))
    }

    #[tokio::test(start_paused = true)]
    async fn watches_of_a_union_are_forgotten_with_their_namespaces() {
        let informers = Informers::new(empty());
        let maps = Resource::namespaced(concert_api::Gvk::new("", "v1", "ConfigMap"), "configmaps");
        let set = Namespaces::new("tenants", ["a"]);
        // One object may be in both parts.
        let cache = informers.cache(Scope::all(maps).within(&set).or(|all| all.labelled("shared")));
        for name in ["a", "b", "c", "a", "d", "b"] {
            set.set([name]);
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            cache.synced().await;
        }
        let store = cache.shared().store.read().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(store.feeds(), 2, "one of the namespace, one of what is shared");
    }
}
