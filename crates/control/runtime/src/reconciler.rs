//! What a controller's author writes, and what it is given.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use concert_api::{Object, ObjectKey};
use concert_queue::{Intake, Outcome, Revision};
use tokio_util::sync::CancellationToken;

use crate::client::{ApiError, Client};
use crate::floors::Freshness;
use crate::objects::{OwnError, PatchError};
use crate::worker::TurnId;

/// What names a piece of work. Mostly an [`ObjectKey`]; anything that can be compared, hashed and shown will do, such as
/// an object's key together with the name of its cluster.
pub trait Key: Clone + Eq + Hash + Ord + fmt::Display + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Ord + fmt::Display + Send + Sync + 'static> Key for K {}

/// Makes the world look as one object says. Called with a key when anything that may matter changed, also when the
/// object is gone; never twice at a time for one key.
pub trait Reconciler<K: Key = ObjectKey>: Send + Sync + 'static {
    /// Looks at the present state and takes the next steps.
    fn reconcile(&self, request: &Request<K>) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send;
}

type Reconciling<'a> = Pin<Box<dyn Future<Output = Result<Outcome, ReconcileError>> + Send + 'a>>;

/// [`Reconciler`] as an object.
pub(crate) trait AnyReconciler<K: Key>: Send + Sync {
    fn reconcile_boxed<'a>(&'a self, request: &'a Request<K>) -> Reconciling<'a>;
}

impl<K: Key, R: Reconciler<K>> AnyReconciler<K> for R {
    fn reconcile_boxed<'a>(&'a self, request: &'a Request<K>) -> Reconciling<'a> {
        Box::pin(self.reconcile(request))
    }
}

impl<K: Key, R: Reconciler<K>> Reconciler<K> for Arc<R> {
    fn reconcile(&self, request: &Request<K>) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send {
        R::reconcile(self, request)
    }
}

/// A reconciler of objects made of a function.
pub fn reconcile_fn<F, Fut>(function: F) -> impl Reconciler
where
    F: Fn(Request) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, ReconcileError>> + Send,
{
    reconcile_keys_fn(function)
}

/// A reconciler of keys of any sort made of a function, whose argument says of which: `|request: Request<MyKey>| …`.
pub fn reconcile_keys_fn<K, F, Fut>(function: F) -> impl Reconciler<K>
where
    K: Key,
    F: Fn(Request<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, ReconcileError>> + Send,
{
    struct Function<F>(F);

    impl<K, F, Fut> Reconciler<K> for Function<F>
    where
        K: Key,
        F: Fn(Request<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, ReconcileError>> + Send,
    {
        fn reconcile(&self, request: &Request<K>) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send {
            (self.0)(request.clone())
        }
    }

    Function(function)
}

/// One turn of one key.
pub struct Request<K: Key = ObjectKey> {
    /// The key, mostly of an object.
    pub key: K,
    /// How urgent it was.
    pub priority: i32,
    /// How many failures in a row came before. Conflicts with other writers are none.
    pub attempt: u32,
    /// Why it was queued.
    pub reason: &'static str,
    /// Unique to this turn; in logs.
    pub id: TurnId,
    pub(crate) freshness: Arc<Freshness<K>>,
    pub(crate) intake: Arc<Intake<K>>,
    /// Whether the cache cannot be believed: it did not catch up with our own writes in time, or turn after turn met a
    /// conflict.
    pub(crate) stale: bool,
    pub(crate) stopping: CancellationToken,
}

impl<K: Key> Clone for Request<K> {
    fn clone(&self) -> Self {
        let (freshness, intake) = (Arc::clone(&self.freshness), Arc::clone(&self.intake));
        let Self { key, priority, attempt, reason, id, stale, stopping, .. } = self;
        let (key, stopping) = (key.clone(), stopping.clone());
        let (priority, attempt, reason, id, stale) = (*priority, *attempt, *reason, *id, *stale);
        Self { key, priority, attempt, reason, id, freshness, intake, stale, stopping }
    }
}

impl Request {
    /// The object as it is now: from the cache, or read live where the cache lags behind what we wrote ourselves, or
    /// where turn after turn met a conflict.
    /// `None` if it is gone.
    ///
    /// # Errors
    /// A live read failed. A controller without `for_` has no object of its own and always gets `None`.
    pub async fn object(&self) -> Result<Option<Arc<Object>>, ApiError> {
        self.freshness.object(&self.key, self.stale).await
    }
}

impl<K: Key> Request<K> {
    /// Tells that this turn wrote `written` (the server's answer): the next turn of this key will not start from an older
    /// state. Its event starts one all the same: a write that changes nothing is answered with what somebody else
    /// wrote, and that may not be missed (see [`Request::wrote_upon`]). For kinds the controller does not listen to,
    /// nothing happens. What was written to another cluster than the process's own is told by
    /// [`Objects::within`](crate::Objects::within).
    pub fn wrote(&self, written: &Object) {
        self.note(None, None, written);
    }

    /// As [`Request::wrote`], of a write that the server would have refused had the object not been at the
    /// resourceVersion `before`; empty for a create. An answer with another one is of our own making, and its event does
    /// not start a turn (a turn that wants another gives back [`Outcome::After`]).
    pub fn wrote_upon(&self, before: &str, written: &Object) {
        self.note(None, Some(before), written);
    }

    /// As [`Request::wrote_upon`], to the cluster of this client; without `before`, as [`Request::wrote`].
    pub(crate) fn wrote_through(&self, client: &Client, before: Option<&str>, written: &Object) {
        self.note(Some(client), before, written);
    }

    fn note(&self, client: Option<&Client>, before: Option<&str>, written: &Object) {
        let ours = before.is_some_and(|before| before != written.resource_version());
        let sources = self.freshness.wrote(&self.key, client, written);
        if let Some(number) = written.revision().filter(|_| ours) {
            sources.into_iter().for_each(|source| self.intake.wrote(&self.key, Revision { number, source }));
        }
    }

    /// If this turn is followed by another ([`Outcome::After`], [`Outcome::Backoff`] or an error), that is queued with
    /// this priority; without a word from the turn, with its own. Of this and what others ask for, the higher counts.
    pub fn set_priority(&self, priority: i32) {
        self.intake.set_priority(&self.key, priority);
    }

    /// Cancelled when the controller stops: the turn may go on to its end, but long waits should end early. And when the turn
    /// is over, however it ends: by itself, by its timeout, by a panic, with a lost lease. What it starts beside itself
    /// should end then.
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }
}

impl<K: Key> fmt::Debug for Request<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({}, {:?}, attempt {})", self.key, self.reason, self.attempt)
    }
}

/// Why a turn failed, and what that means for the next.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct ReconcileError {
    source: Box<dyn std::error::Error + Send + Sync>,
    class: Class,
    retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Retry,
    Terminal,
    Conflict,
}

impl ReconcileError {
    fn of(class: Class, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: source.into(), class, retry_after: None }
    }

    /// Worth another try, after a while that grows. If its cause is that somebody else was faster, it is a
    /// [conflict](Self::conflict).
    pub fn retry(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = source.into();
        let class = if is_caused_by_conflict(&*source) { Class::Conflict } else { Class::Retry };
        Self::of(class, source)
    }

    /// Not worth another try until something changes.
    pub fn terminal(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::of(Class::Terminal, source)
    }

    /// Somebody else was faster: a quiet, quick retry.
    pub fn conflict(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::of(Class::Conflict, source)
    }

    /// Not to be tried again before this time has passed.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// Whether trying again makes no sense until something changes.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.class == Class::Terminal
    }

    /// Whether the server found what was sent to be wrong, and will again.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.source.downcast_ref::<ApiError>().is_some_and(ApiError::is_invalid)
    }

    /// Whether somebody else was faster.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.class == Class::Conflict
    }

    /// When it may be tried again at the earliest.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The cause with its own causes, each said once.
    #[must_use]
    pub fn full(&self) -> String {
        crate::error_chain(&*self.source)
    }
}

/// However deep somebody wrapped it. A conflict about who owns a field does not go away by itself.
fn is_caused_by_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut chain = std::iter::successors(Some(error), |error| error.source());
    chain
        .any(|error| error.downcast_ref::<ApiError>().is_some_and(|api| api.is_conflict() && !api.is_owned_by_others()))
}

impl From<OwnError> for ReconcileError {
    fn from(error: OwnError) -> Self {
        Self::terminal(error)
    }
}

impl From<PatchError> for ReconcileError {
    fn from(error: PatchError) -> Self {
        Self::terminal(error)
    }
}

impl From<ApiError> for ReconcileError {
    fn from(error: ApiError) -> Self {
        let retry_after = error.retry_after();
        Self { retry_after, ..Self::retry(error) }
    }
}
