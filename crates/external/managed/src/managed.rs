//! The reconciler of one kind.

use std::sync::Arc;
use std::time::Duration;

use concert_api::{Gvk, ObjectKey, go_duration};
use concert_external::{External, KindInfo};
use concert_reconcile::StatusWriter;
use concert_runtime::controller::BuildError;
use concert_runtime::{Client, Controller, Outcome, ReconcileError, Reconciler, Recorder, Request, Resource};

use crate::gated::Gated;
use crate::memory::Memory;
use crate::pass::Pass;
use crate::wake::desired_state_changed;

/// Backoff of a failing object, as in Crossplane.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Polls of many objects must not fall together.
const POLL_JITTER: f64 = 0.1;
/// Time for writes to the API after the provider's time is up.
const GRACE: Duration = Duration::from_secs(30);
/// Overrides the poll interval of one object; a Go duration.
const POLL_INTERVAL: &str = "crossplane.io/poll-interval";

/// How a kind is reconciled.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How often an object in a steady state is looked at.
    pub poll_interval: Duration,
    /// How long one conversation with the provider may take, unless its provider says.
    pub session_timeout: Duration,
    /// Objects reconciled at the same time.
    pub workers: usize,
    /// Whether the kind's status is a subresource.
    pub status_subresource: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(60),
            session_timeout: Duration::from_secs(60),
            workers: 10,
            status_subresource: true,
        }
    }
}

/// Reconciles the objects of one kind with one provider.
#[derive(Debug)]
pub struct Managed {
    pub(crate) client: Client,
    pub(crate) resource: Resource,
    pub(crate) external: Gated,
    pub(crate) kind: KindInfo,
    pub(crate) recorder: Recorder,
    pub(crate) settings: Settings,
    pub(crate) status: StatusWriter,
    pub(crate) memory: Arc<Memory>,
}

impl Managed {
    /// A reconciler of `resource` through `external`, whose provider announces `kind` about it.
    #[must_use]
    pub fn new(
        client: Client,
        recorder: Recorder,
        resource: Resource,
        external: Arc<dyn External>,
        kind: KindInfo,
        settings: Settings,
    ) -> Self {
        let external = Gated::new(external, client.world());
        let status = StatusWriter::new(client.clone(), resource.clone(), settings.status_subresource);
        Self { client, resource, external, kind, recorder, settings, status, memory: Arc::default() }
    }

    /// The name of the controller of a kind.
    #[must_use]
    pub fn controller_name(gvk: &Gvk) -> String {
        format!("managed/{}.{}", gvk.kind.to_lowercase(), gvk.group)
    }

    /// The controller that runs it.
    ///
    /// # Errors
    /// Never in practice: the description is fixed.
    pub fn controller(self) -> Result<Controller, BuildError> {
        let wakes = desired_state_changed(Arc::clone(&self.memory), self.settings.status_subresource);
        Controller::builder(Self::controller_name(&self.resource.gvk))
            .for_(self.resource.clone())
            .when(wakes)
            .workers(self.kind.max_concurrent.unwrap_or(self.settings.workers))
            .backoff(BACKOFF.0, BACKOFF.1)
            // The pass keeps its own deadlines; this one is for what nobody thought of.
            .timeout(self.session_timeout() * 4 + GRACE)
            .run(self)
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        self.kind.session_timeout.unwrap_or(self.settings.session_timeout)
    }

    /// When a settled object that has this annotation is looked at again.
    ///
    /// # Errors
    /// The annotation cannot be read: when it is then, and what to say about it.
    pub(crate) fn next_poll(&self, annotation: Option<&str>) -> Result<Outcome, (Outcome, String)> {
        let after = |interval: Duration| {
            Outcome::After(self.client.world().random.jitter(interval.max(Duration::from_millis(100)), POLL_JITTER))
        };
        let usual = self.kind.poll_interval.unwrap_or(self.settings.poll_interval);
        let Some(text) = annotation else { return Ok(after(usual)) };
        go_duration(text).filter(|own| !own.is_zero()).map(after).ok_or_else(|| {
            let fix = "write a number with a unit, such as 30s or 1m0s";
            (
                after(usual),
                format!("annotation {POLL_INTERVAL}: {text:?} is not a duration; {fix}. Until then {usual:?}"),
            )
        })
    }

    pub(crate) fn poll_annotation() -> &'static str {
        POLL_INTERVAL
    }

    fn forget(&self, key: &ObjectKey) {
        self.memory.forget(key);
        self.status.forget(key);
    }
}

impl Reconciler for Managed {
    async fn reconcile(&self, request: &Request) -> Result<Outcome, ReconcileError> {
        let Some(object) = request.object().await? else {
            self.forget(&request.key);
            return Ok(Outcome::Done);
        };
        let mut pass = Pass::new(self, request, (*object).clone())?;
        let result = pass.run().await;
        if let Some(error) = result.as_ref().err().filter(|error| error.is_conflict()) {
            tracing::debug!(key = %request.key, error = %error, "somebody else was faster");
            pass.catch_up().await;
        }
        result
    }
}
