//! What the server does unasked: it collects garbage, furnishes namespaces and lets events expire.
//!
//! One task follows the store's history, as a watcher does, and keeps a [`Ledger`]; it needs no hooks in the write path
//! and no informers. What a crash left half done is found when the ledger begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use concert_api::{GroupResource, ObjectKey, Time};
use concert_store::Key;
use serde_json::Value;
use tokio::task::AbortHandle;

use crate::Server;
use crate::beside::Stored;
use crate::collect::{Ledger, Verdict};
use crate::delete::{DeleteOptions, FOREGROUND, ORPHAN, Policy, exactly};
use crate::kinds;
use crate::target::{Part, Target};

/// Events read at once.
const BATCH: usize = 1024;
/// Events live this long after they were last written.
const EVENT_LIFE: Duration = Duration::from_secs(3600);
/// Expired events are looked for at most this often.
const EVENT_ROUND: Duration = Duration::from_secs(60);

/// The state of the housekeeping, and the task that does it.
#[derive(Debug, Default)]
pub(crate) struct Housekeeping {
    ledger: tokio::sync::Mutex<Ledger>,
    /// Every namespace must be looked at again.
    refurnish: AtomicBool,
    task: std::sync::Mutex<Option<AbortHandle>>,
}

impl Housekeeping {
    /// The same knowledge, for a fork.
    pub(crate) fn fork(&self) -> Self {
        // Whoever is busy with it knows more than the fork's state has; the fork then looks for itself.
        let ledger = self.ledger.try_lock().map(|ledger| ledger.clone()).unwrap_or_default();
        Self { ledger: tokio::sync::Mutex::new(ledger), ..Self::default() }
    }

    /// There is something new for every namespace.
    pub(crate) fn refurnish(&self) {
        self.refurnish.store(true, Ordering::Release);
    }

    pub(crate) fn stop(&self) {
        if let Some(task) = self.task.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

impl Server {
    /// Starts the task unless it runs. It ends with the server, or with the runtime.
    pub(crate) fn keep_house(&self) {
        let mut task = self.housekeeping().task.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let weak = self.downgrade();
        let mut revisions = self.store().revisions();
        let work = async move {
            let mut expiry = None;
            loop {
                revisions.borrow_and_update();
                let Some(server) = weak.upgrade() else { return };
                server.settled().await;
                // A younger event cannot expire before the oldest one.
                expiry = expiry.or_else(|| server.next_expiry());
                drop(server);
                tokio::select! {
                    biased;
                    changed = revisions.changed() => if changed.is_err() { return },
                    () = sleep_until(expiry) => {
                        let Some(server) = weak.upgrade() else { return };
                        server.expire_events().await;
                        expiry = None;
                    }
                }
            }
        };
        *task = Some(tokio::spawn(work).abort_handle());
    }

    /// Resolves when everything has been done that follows from what was written before: garbage is collected, new
    /// namespaces are furnished.
    pub async fn settled(&self) {
        let mut ledger = self.housekeeping().ledger.lock().await;
        loop {
            self.catch_up(&mut ledger);
            if self.housekeeping().refurnish.swap(false, Ordering::AcqRel) {
                let namespaces = kinds::namespaces();
                let snapshot = self.store().snapshot();
                for (object, _) in snapshot.range(&namespaces, None, None) {
                    ledger.look_at(Key { resource: namespaces.clone(), object: object.clone() });
                }
            }
            let Some(key) = ledger.next() else { return };
            self.look_at(&mut ledger, &key).await;
        }
    }

    fn catch_up(&self, ledger: &mut Ledger) {
        let kinds = self.kinds();
        loop {
            let events = ledger.seen().and_then(|seen| self.store().events_after(seen, BATCH).ok());
            let Some(events) = events else {
                ledger.restart(&self.store().snapshot());
                return;
            };
            for event in &events {
                ledger.note(event, &kinds);
            }
            if events.len() < BATCH {
                return;
            }
        }
    }

    /// Does what follows from an object's state.
    async fn look_at(&self, ledger: &mut Ledger, key: &Key) {
        let snapshot = self.store().snapshot();
        let Some(entry) = snapshot.get(key) else { return };
        if key.resource == kinds::namespaces() && !entry.beside.is_deleting() {
            self.furnish(&key.object.name).await;
        }
        match ledger.verdict(key, &snapshot, &self.kinds()) {
            Verdict::Keep => {}
            Verdict::Forget(owners) => {
                self.edit(key, Part::Whole, |object| forget(object, |uid| owners.contains(uid))).await
            }
            Verdict::Delete(policy) => self.collect(key, entry, policy).await,
            Verdict::BreakAndDelete => {
                self.edit(key, Part::Whole, unblock).await;
                self.collect(key, entry, Some(Policy::Foreground)).await;
            }
            Verdict::Await(dependents) => {
                let waits = |key: &Key| snapshot.get(key).is_some_and(|entry| entry.beside.waits_for(FOREGROUND));
                dependents.into_iter().filter(|key| !waits(key)).for_each(|key| ledger.look_at(key));
            }
            Verdict::Orphan(dependents) => {
                let owner = entry.beside.uid();
                for dependent in dependents {
                    self.edit(&dependent, Part::Whole, |object| forget(object, |uid| *uid == *owner)).await;
                }
                self.edit(key, Part::Whole, |object| drop_finalizer(object, ORPHAN)).await;
            }
            Verdict::Release => self.edit(key, Part::Whole, |object| drop_finalizer(object, FOREGROUND)).await,
        }
    }

    async fn collect(&self, key: &Key, entry: &Stored, policy: Option<Policy>) {
        let Some(resource) = self.kinds().get(&key.resource.group, &key.resource.resource).cloned() else { return };
        let target = Target::stored(&resource, &key.object);
        // There are no nodes that would let pods end.
        let options = DeleteOptions { policy, grace: Some(0), ..exactly(&entry.beside.uid()) };
        tracing::debug!(%key, ?policy, "collecting garbage");
        if let Err(status) = self.delete(&target, &options).await {
            tracing::debug!(%key, %status, "cannot collect");
        }
    }

    /// When the oldest event expires, by tokio's clock.
    fn next_expiry(&self) -> Option<tokio::time::Instant> {
        let snapshot = self.store().snapshot();
        let now = Time::from(self.world().clock.now());
        let oldest = snapshot.range(&events(), None, None).map(|(_, entry)| last_written(entry)).min()?;
        let left = EVENT_LIFE.saturating_sub(now.since(oldest)).max(EVENT_ROUND);
        Some(tokio::time::Instant::now() + left)
    }

    async fn expire_events(&self) {
        let now = Time::from(self.world().clock.now());
        let snapshot = self.store().snapshot();
        let expired: Vec<(ObjectKey, String)> = snapshot
            .range(&events(), None, None)
            .filter(|(_, entry)| now.since(last_written(entry)) >= EVENT_LIFE)
            .map(|(key, entry)| (key.clone(), entry.beside.uid().into_owned()))
            .collect();
        let Some(resource) = self.kinds().get("", "events").map(Arc::clone) else { return };
        for (key, uid) in expired {
            // Somebody else may have removed it meanwhile.
            let _ = self.delete(&Target::stored(&resource, &key), &exactly(&uid)).await;
        }
    }
}

fn events() -> GroupResource {
    GroupResource::new("", "events")
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// When an event was last written, as far as it says: the newest of its times.
fn last_written(event: &Stored) -> Time {
    const TIMES: [&str; 5] =
        ["metadata.creationTimestamp", "lastTimestamp", "eventTime", "series.lastObservedTime", "firstTimestamp"];
    let times = TIMES.iter().filter_map(|field| event.beside.field(field).parse().ok());
    times.max().unwrap_or_else(|| Time::from_unix_seconds(0))
}

/// Removes references to owners.
fn forget(object: &mut Value, is_forgotten: impl Fn(&str) -> bool) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
        owners.retain(|owner| !is_forgotten(owner["uid"].as_str().unwrap_or_default()));
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}

/// Owners no longer wait for this object.
fn unblock(object: &mut Value) {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten().filter(|owner| owner["blockOwnerDeletion"] == true) {
        owner["blockOwnerDeletion"] = false.into();
    }
}

fn drop_finalizer(object: &mut Value, finalizer: &str) {
    let kept = concert_api::meta::finalizers(object).into_iter().filter(|one| *one != finalizer);
    let kept = kept.map(str::to_owned).collect();
    crate::delete::set_finalizers(object, kept);
}
