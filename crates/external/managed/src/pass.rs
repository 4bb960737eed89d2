//! One pass over one object: plan a step, carry it out, plan again.

use std::time::Duration;

use concert_api::{Condition, Object, Time, meta};
use concert_external::{
    Attempt, Begin, Change, CreateToken, Creation, Dispatch, EXTERNAL_NAME, External, ExternalError, FINALIZER, Marks,
    Observation, Operation, Policy, Session, Settled, Situation, Step, Wait, begin, external_name, plan,
};
use concert_runtime::{ApiError, EventKind, Outcome, ReconcileError, Request, priority};
use serde_json::{Map, Value, json};

use crate::managed::Managed;
use crate::reply;

/// What must be written after a create is tried for about two minutes, even while the process stops: only a process
/// that dies meanwhile leaves an unknown outcome.
const RECORD_TRIES: u32 = 30;
const RECORD_WAIT: Duration = Duration::from_millis(50);
const RECORD_WAIT_MAX: Duration = Duration::from_secs(5);
/// How often something that should appear is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A condition's message has at most this many bytes.
const MESSAGE_MAX: usize = 1024;

type Pass1<T> = Result<T, ReconcileError>;

/// The state of a pass: the object as the server last answered it.
pub(crate) struct Pass<'a> {
    managed: &'a Managed,
    request: &'a Request,
    stored: Object,
    object: Value,
    /// The generation that this pass plans on.
    generation: i64,
    /// What the provider last said about the object, to be reported.
    reply: Option<Value>,
    /// It was asked to change or delete the external resource: once per pass is enough.
    acted: bool,
}

/// What comes after a step.
enum Next {
    /// Plan again on the same observation.
    Replan,
    /// Look again.
    Observe,
    /// The pass is over.
    End(Outcome),
}

/// A conversation and what it saw.
struct Seen {
    session: Box<dyn Session>,
    observation: Observation,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(managed: &'a Managed, request: &'a Request, stored: Object) -> Pass1<Self> {
        let object = stored.value().map_err(ReconcileError::terminal)?;
        let generation = stored.generation();
        Ok(Self { managed, request, stored, object, generation, reply: None, acted: false })
    }

    pub(crate) async fn run(&mut self) -> Pass1<Outcome> {
        match begin(&self.object) {
            Begin::Paused => self.paused().await,
            Begin::Invalid(error) => {
                self.warn("CannotUseInvalidManagementPolicy", &error.to_string());
                self.report(&[self.not_synced(&error.to_string())]).await?;
                Ok(Outcome::Done)
            }
            Begin::Orphan => self.release().await,
            Begin::Observe(policy) => self.drive(policy).await,
        }
    }

    /// After a conflict: the next pass must not start from what we knew.
    pub(crate) async fn catch_up(&self) {
        if let Ok(Some(fresh)) = self.managed.client.get(&self.managed.resource, &self.request.key).await {
            self.request.wrote(&fresh);
        }
    }

    /// Converses with the provider until there is nothing to do at once.
    async fn drive(&mut self, policy: Policy) -> Pass1<Outcome> {
        self.settle_never_sent().await?;
        loop {
            let mut seen = match self.observe().await {
                Ok(seen) => seen,
                Err(error) => return self.failed(&error).await,
            };
            let next = loop {
                let step = self.plan(policy, &seen.observation);
                tracing::debug!(key = %self.request.key, ?step, "planned");
                match self.carry_out(step, policy, &mut seen).await {
                    Ok(Next::Replan) => {}
                    Ok(next) => break Ok(next),
                    Err(error) => break Err(error),
                }
            };
            self.disconnect(seen.session).await;
            match next? {
                Next::End(outcome) => return Ok(outcome),
                Next::Observe | Next::Replan => {}
            }
        }
    }

    fn plan(&self, policy: Policy, observation: &Observation) -> Step {
        let marks = Marks::of(&self.object);
        let key = &self.request.key;
        let create = marks.token.as_ref().map_or("", CreateToken::as_str);
        let absent_for = if observation.exists || marks.creation == Creation::None {
            self.managed.memory.is_present(key);
            Duration::ZERO
        } else {
            self.managed.memory.absent_for(key, create)
        };
        plan(&Situation {
            object: &self.object,
            policy,
            kind: &self.managed.kind,
            observation,
            absent_for,
            call_deadline: self.managed.session_timeout(),
            deleted: self.managed.memory.deleted(key),
        })
    }

    async fn carry_out(&mut self, step: Step, policy: Policy, seen: &mut Seen) -> Pass1<Next> {
        match step {
            Step::Hold => self.hold().await.map(|()| Next::Replan),
            Step::RecordCreated => {
                let annotations = self.reply_annotations();
                self.record(Marks::outcome(true, self.now()), annotations).await?;
                self.tell("CreatedExternalResource", "Found the external resource that an interrupted create had made");
                Ok(Next::Replan)
            }
            Step::LateInitialize => {
                seen.observation.late_initialized = false;
                self.late_initialize().await.map(|()| Next::Replan)
            }
            Step::Create(token) => self.create(token, seen).await,
            Step::Update => self.update(seen).await,
            Step::Delete => self.delete(seen).await,
            Step::Release => self.release().await.map(Next::End),
            Step::Settled(settled) => self.settled(settled, &seen.observation, policy).await.map(Next::End),
            Step::Wait(wait) => self.wait(wait).await.map(Next::End),
            Step::Stop => self.stop().await.map(Next::End),
        }
    }

    // --- conversations ---------------------------------------------------------------------------------------------

    /// Opens a session and looks.
    async fn observe(&mut self) -> Result<Seen, ExternalError> {
        let mut shown = self.object.clone();
        if let Some((key, name)) = self.default_name() {
            // The provider may rely on it; it is persisted with the write that holds the object.
            meta::set_annotation(&mut shown, &key, name.as_str().unwrap_or_default());
        }
        let attempt = Attempt {
            gvk: self.managed.resource.gvk.clone(),
            token: Marks::of(&self.object).token,
            timeout: self.managed.session_timeout(),
        };
        let connected = self.managed.external.connect(&shown, attempt).await?;
        let mut session = connected.session;
        match session.observe(&shown).await {
            Ok(observation) => {
                self.reply = observation.object.clone().or(connected.object);
                Ok(Seen { session, observation })
            }
            Err(error) => {
                self.disconnect(session).await;
                Err(error)
            }
        }
    }

    async fn disconnect(&self, session: Box<dyn Session>) {
        if let Err(error) = session.disconnect().await {
            tracing::debug!(key = %self.request.key, %error, "cannot disconnect from the provider");
        }
    }

    /// Writes the intent, creates, writes the outcome.
    async fn create(&mut self, token: CreateToken, seen: &mut Seen) -> Pass1<Next> {
        self.announce(&token).await?;
        let created = seen.session.create(&self.object, &token).await;
        self.managed.memory.set_never_sent(&self.request.key, None);
        // Whatever was absent before this create says nothing about what it makes.
        self.managed.memory.is_present(&self.request.key);
        match created {
            Ok(change) => {
                self.keep_reply(&change);
                let annotations = self.reply_annotations();
                self.record(Marks::outcome(true, self.now()), annotations).await?;
                self.tell("CreatedExternalResource", "Successfully requested creation of external resource");
                Ok(Next::Observe)
            }
            Err(error) => {
                if error.dispatch != Dispatch::Unknown {
                    self.record(Marks::outcome(false, self.now()), Map::new()).await?;
                }
                self.failed(&error).await.map(Next::End)
            }
        }
    }

    async fn update(&mut self, seen: &mut Seen) -> Pass1<Next> {
        if self.acted {
            // It accepted the update and still differs: try again at poll speed rather than in a loop.
            self.report(&[self.synced()]).await?;
            return Ok(Next::End(self.next_poll()));
        }
        self.acted = true;
        match seen.session.update(&self.object).await {
            Ok(change) => {
                self.keep_reply(&change);
                let what = if seen.observation.diff.is_empty() {
                    String::new()
                } else {
                    format!(": {}", seen.observation.diff)
                };
                self.tell(
                    "UpdatedExternalResource",
                    &format!("Successfully requested update of external resource{what}"),
                );
                Ok(Next::Observe)
            }
            Err(error) => self.failed(&error).await.map(Next::End),
        }
    }

    async fn delete(&mut self, seen: &mut Seen) -> Pass1<Next> {
        if self.acted {
            // It accepted the deletion and is still there: that may take a while.
            self.report(&[deleting(), self.synced()]).await?;
            return Ok(Next::End(Outcome::Backoff));
        }
        self.acted = true;
        let outcome = seen.session.delete(&self.object).await;
        if let Err(error) = outcome {
            return self.failed(&error).await.map(Next::End);
        }
        self.managed.memory.set_deleted(&self.request.key);
        self.tell("DeletedExternalResource", "Successfully requested deletion of external resource");
        Ok(Next::Observe)
    }

    /// Takes over what an answer says, if it says anything.
    fn keep_reply(&mut self, change: &Change) {
        if change.object.is_some() {
            self.reply.clone_from(&change.object);
        }
    }

    // --- writes to the object --------------------------------------------------------------------------------------

    /// Finalizer, external name, token and `pending`, on exactly the version that was planned on.
    async fn announce(&mut self, token: &CreateToken) -> Pass1<()> {
        // Until the provider is called, whatever becomes of this write, nothing has been sent.
        self.managed.memory.set_never_sent(&self.request.key, Some(token.clone()));
        let mut annotations = into_map(Marks::pending(token, self.now()));
        annotations.extend(self.default_name());
        self.patch_held(annotations).await
    }

    async fn hold(&mut self) -> Pass1<()> {
        let mut annotations = self.reply_annotations();
        annotations.extend(self.default_name());
        self.patch_held(annotations).await
    }

    fn default_name(&self) -> Option<(String, Value)> {
        let stored = self.stored.annotation(EXTERNAL_NAME);
        let name = stored.is_none().then(|| external_name(&self.object, &self.managed.kind)).flatten()?;
        Some((EXTERNAL_NAME.to_owned(), name.into()))
    }

    async fn patch_held(&mut self, annotations: Map<String, Value>) -> Pass1<()> {
        let mut finalizers = self.stored.finalizers();
        let mut metadata = json!({"resourceVersion": self.stored.resource_version(), "annotations": annotations});
        if !finalizers.iter().any(|one| one == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
            metadata["finalizers"] = finalizers.into();
        }
        self.patch(&json!({"metadata": metadata})).await?;
        Ok(())
    }

    async fn late_initialize(&mut self) -> Pass1<()> {
        let Some(spec) = reply::spec_additions(&self.object, self.reply.as_ref()) else { return Ok(()) };
        let metadata = json!({"resourceVersion": self.stored.resource_version()});
        self.patch(&json!({"metadata": metadata, "spec": spec})).await?;
        // Our own additions are not a change that somebody wants to see observed.
        self.generation = self.stored.generation();
        Ok(())
    }

    /// Writes the outcome of a create, whatever it takes: only the uid must be right. As long as nobody else writes, also
    /// the version, so that it is known for our own.
    async fn record(&mut self, outcome: Value, mut annotations: Map<String, Value>) -> Pass1<()> {
        annotations.extend(into_map(outcome));
        let metadata = json!({"uid": self.stored.uid(), "annotations": annotations});
        let mut patch = json!({"metadata": metadata});
        patch["metadata"]["resourceVersion"] = self.stored.resource_version().into();
        let mut wait = RECORD_WAIT;
        for attempt in 1..=RECORD_TRIES {
            match self.patch(&patch).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_not_found() || error.is_invalid() || attempt == RECORD_TRIES => {
                    return Err(error.into());
                }
                Err(error) if error.is_conflict() && patch["metadata"]["resourceVersion"].is_string() => {
                    patch["metadata"] = metadata.clone();
                }
                Err(error) => {
                    tracing::warn!(key = %self.request.key, %error, attempt, "cannot record the outcome of a create; trying again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RECORD_WAIT_MAX);
                }
            }
        }
        Ok(())
    }

    /// A create that this very process announced but never sent has failed, and nobody need wait for it.
    async fn settle_never_sent(&mut self) -> Pass1<()> {
        let marks = Marks::of(&self.object);
        let key = &self.request.key;
        let Some(token) = marks.token.filter(|token| self.managed.memory.never_sent(key, token)) else { return Ok(()) };
        if marks.creation == Creation::Unknown {
            tracing::debug!(%key, %token, "announced but never sent");
            self.record(Marks::outcome(false, self.now()), Map::new()).await?;
        }
        self.managed.memory.set_never_sent(&self.request.key, None);
        Ok(())
    }

    /// Takes our finalizer off: the object may go.
    async fn release(&mut self) -> Pass1<Outcome> {
        let finalizers: Vec<String> = self.stored.finalizers().into_iter().filter(|one| one != FINALIZER).collect();
        if finalizers.len() == self.stored.finalizers().len() {
            return Ok(Outcome::Done);
        }
        let metadata = json!({"resourceVersion": self.stored.resource_version(), "finalizers": finalizers});
        match self.patch(&json!({"metadata": metadata})).await {
            Ok(()) => Ok(Outcome::Done),
            Err(error) if error.is_not_found() => Ok(Outcome::Done),
            Err(error) => Err(error.into()),
        }
    }

    async fn patch(&mut self, patch: &Value) -> Result<(), ApiError> {
        let written = self.managed.client.merge_patch(&self.managed.resource, &self.request.key, patch, None).await?;
        self.wrote(patch["metadata"]["resourceVersion"].as_str(), &written);
        self.object = written.value().unwrap_or_default();
        self.stored = written;
        Ok(())
    }

    /// What was written over the very version that it insisted on is ours; any other answer may be somebody else's.
    fn wrote(&self, before: Option<&str>, written: &Object) {
        match before.filter(|before| *before != written.resource_version()) {
            Some(before) => {
                self.managed.memory.wrote(written);
                self.request.wrote_upon(before, written);
            }
            None => self.request.wrote(written),
        }
    }

    fn reply_annotations(&self) -> Map<String, Value> {
        reply::new_annotations(&self.object, self.reply.as_ref())
    }

    // --- reports ---------------------------------------------------------------------------------------------------

    async fn settled(&mut self, settled: Settled, observation: &Observation, policy: Policy) -> Pass1<Outcome> {
        let new_annotations = !self.reply_annotations().is_empty();
        if new_annotations && observation.exists && (policy.delete || policy.create) {
            self.hold().await?;
        }
        let condition = match settled {
            Settled::UpToDate | Settled::MayNotUpdate | Settled::MayNotCreate => self.synced(),
            Settled::NothingToObserve => {
                let text = "observe failed: external resource does not exist";
                self.warn("CannotObserveExternalResource", text);
                self.not_synced(text)
            }
        };
        self.report(&[condition]).await?;
        Ok(self.next_poll())
    }

    async fn wait(&mut self, wait: Wait) -> Pass1<Outcome> {
        let deletes = meta::is_deleting(&self.object);
        let phase = if deletes { deleting() } else { creating() };
        match wait {
            Wait::OtherFinalizers => {
                self.report(&[deleting(), self.synced()]).await?;
                Ok(Outcome::Backoff)
            }
            Wait::Visible(left) => {
                self.reply = None;
                self.report(&[phase, self.synced()]).await?;
                Ok(Outcome::After(left.min(LOOK_AGAIN)))
            }
            Wait::Outcome(left) => {
                let text = "create was interrupted; waiting to learn whether it took effect";
                if Condition::find(&self.object, "Synced").is_none_or(|now| now.message != text) {
                    self.tell("PendingExternalResource", "Waiting to learn whether an interrupted create took effect");
                }
                self.reply = None;
                self.report(&[phase, self.not_synced(text)]).await?;
                Ok(Outcome::After(left.min(LOOK_AGAIN)))
            }
        }
    }

    /// Only a person can find out what came of a create.
    async fn stop(&mut self) -> Pass1<Outcome> {
        let text = format!(
            "cannot determine creation result: the provider cannot tell whether an interrupted create took effect. Look for the \
             external resource; if it exists, set the annotation {EXTERNAL_NAME} to its id; then remove the annotation {}",
            concert_external::CREATE_PENDING
        );
        self.warn("CannotInitializeManagedResource", &text);
        self.reply = None;
        let phase = if meta::is_deleting(&self.object) { deleting() } else { creating() };
        self.report(&[phase, self.not_synced(&text)]).await?;
        Ok(Outcome::Done)
    }

    async fn paused(&mut self) -> Pass1<Outcome> {
        let mut condition = Condition::new("Synced", false, "ReconcilePaused", "");
        condition.observed_generation = Some(self.generation);
        let known = Condition::find(&self.object, "Synced").is_some_and(|now| now.reason == "ReconcilePaused");
        if !known {
            self.tell(
                "ReconciliationPaused",
                "Reconciliation is paused via the pause annotation or an empty list of management policies",
            );
        }
        self.report(&[condition]).await?;
        Ok(Outcome::Done)
    }

    /// An operation failed: say so on the object, and come back later.
    async fn failed(&mut self, error: &ExternalError) -> Pass1<Outcome> {
        let reason = match error.operation {
            Operation::Connect => "CannotConnectToProvider",
            Operation::Observe => "CannotObserveExternalResource",
            Operation::Create => "CannotCreateExternalResource",
            Operation::Update => "CannotUpdateExternalResource",
            Operation::Delete => "CannotDeleteExternalResource",
            Operation::Disconnect => "CannotDisconnectFromProvider",
        };
        self.warn(reason, &error.to_string());
        let mut conditions = vec![self.not_synced(&error.to_string())];
        match error.operation {
            Operation::Create => conditions.push(creating()),
            Operation::Delete => conditions.push(deleting()),
            Operation::Connect | Operation::Observe | Operation::Update | Operation::Disconnect => {}
        }
        self.reply = None;
        self.report(&conditions).await?;
        if error.class.is_terminal() {
            // Only a change of the object helps, and that wakes us; the world may change too, at poll speed.
            return Ok(self.next_poll());
        }
        let retry = ReconcileError::retry(error.clone());
        Err(match error.retry_after {
            Some(after) => retry.after(after),
            None => retry,
        })
    }

    /// Writes what the provider said and these conditions, if that is news.
    async fn report(&mut self, conditions: &[Condition]) -> Pass1<()> {
        let (generation, now, reply) = (self.generation, self.now(), self.reply.clone());
        let wanted = |fresh: &Value| {
            let mut object = fresh.clone();
            reply::take_status(&mut object, reply.as_ref(), generation, now);
            for condition in conditions {
                let mut condition = condition.clone();
                condition.observed_generation = Some(generation);
                condition.set(&mut object, now);
            }
            object["status"].take()
        };
        let written = self.managed.status.write(&self.stored, wanted).await?;
        if let Some(written) = written {
            self.wrote(Some(&self.stored.resource_version()), &written);
            self.object = written.value().unwrap_or_default();
            self.stored = written;
        }
        Ok(())
    }

    fn synced(&self) -> Condition {
        Condition::new("Synced", true, "ReconcileSuccess", "")
    }

    fn not_synced(&self, message: &str) -> Condition {
        let end = (0..=MESSAGE_MAX.min(message.len())).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        Condition::new("Synced", false, "ReconcileError", &message[..end])
    }

    fn next_poll(&self) -> Outcome {
        // Whoever waits for a change comes first.
        self.request.set_priority(priority::POLL);
        self.managed.next_poll(meta::annotation(&self.object, Managed::poll_annotation())).unwrap_or_else(
            |(outcome, problem)| {
                if self.managed.memory.is_news(&self.stored.key(), &problem) {
                    self.warn("InvalidAnnotation", &problem);
                }
                outcome
            },
        )
    }

    fn tell(&self, reason: &str, message: &str) {
        self.managed.recorder.record(&self.stored, EventKind::Normal, reason, message);
    }

    fn warn(&self, reason: &str, message: &str) {
        self.managed.recorder.record(&self.stored, EventKind::Warning, reason, message);
    }

    fn now(&self) -> Time {
        Time::from_unix_seconds(Time::from(self.managed.client.world().clock.now()).unix_seconds())
    }
}

fn creating() -> Condition {
    Condition::new("Ready", false, "Creating", "")
}

fn deleting() -> Condition {
    Condition::new("Ready", false, "Deleting", "")
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
