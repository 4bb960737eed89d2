//! One reconcile's conversation with a provider.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use concert_external::{
    BoxFuture, Change, ConnectionDetails, CreateToken, Dispatch, ErrorClass, ExternalError, Observation, Operation,
    Secret, Session,
};
use concert_protocol::external::external_service_client::ExternalServiceClient;
use concert_protocol::external::request::Op as Ask;
use concert_protocol::external::response::Op as Answer;
use concert_protocol::external::{
    ConnectRequest, CreateRequest, DeleteRequest, DisconnectRequest, ObserveRequest, Request, Response, UpdateRequest,
};
use concert_protocol::{Details, MAX_MESSAGE_BYTES, OUTCOME_UNKNOWN, to_json, to_struct};
use prost::Message;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::fault::{Fault, Peer};
use crate::outbox::{Outbox, Outgoing};
use crate::trail::{Observed, Trail};

/// How long closing a session may take: it has done its work by then.
const DISCONNECT: Duration = Duration::from_secs(5);

/// Sessions with one provider at once: more wait for their turn.
pub(crate) const SESSIONS: usize = 64;

/// No session is longer, whatever was asked: clocks and headers have their limits.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// An answer counts as the provider's own verdict only if this share of the time was left: near the deadline a
/// cancelled handler answers all kinds of things.
const MARGIN: u32 = 10;

/// An open stream, in lock-step.
pub(crate) struct Conversation {
    peer: Peer,
    named: String,
    token: String,
    timeout: Duration,
    deadline: Instant,
    outbox: Outbox,
    incoming: Incoming,
    trail: Trail,
    _place: OwnedSemaphorePermit,
}

/// The replies. The stream opens with the first of them: a server may not even send headers before.
enum Incoming {
    Opening(BoxFuture<'static, Result<Streaming<Response>, Status>>),
    Open(Box<Streaming<Response>>),
    Over,
}

/// What was asked of whom, for how long.
pub(crate) struct Opening {
    pub(crate) peer: Peer,
    pub(crate) channel: Channel,
    pub(crate) named: String,
    pub(crate) token: String,
    pub(crate) timeout: Duration,
    /// One for each session that may be open at once.
    pub(crate) places: Arc<Semaphore>,
}

impl Conversation {
    /// Opens a stream and connects; gives back the conversation and the provider's reply object.
    pub(crate) async fn open(opening: Opening, object: &Value) -> Result<(Self, Option<Value>), ExternalError> {
        let trail = Trail::default();
        let timeout = opening.timeout.min(LONGEST);
        let place = place(opening.places, timeout, &opening.peer).await?;
        let observed = Observed { channel: opening.channel, trail: trail.clone() };
        let client = ExternalServiceClient::new(observed)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let (outbox, outgoing) = Outbox::new();
        let mut conversation = Self {
            peer: opening.peer,
            named: opening.named,
            token: opening.token,
            timeout,
            deadline: Instant::now() + timeout,
            outbox,
            incoming: Incoming::Opening(Box::pin(start(client, outgoing, timeout))),
            trail,
            _place: place,
        };
        let create_token = conversation.token.clone();
        let ask = Ask::Connect(ConnectRequest { resource: wire(Operation::Connect, object)?, create_token });
        let answer = conversation.ask(Operation::Connect, ask).await?;
        let Answer::Connect(reply) = answer else { return Err(conversation.wrong_arm(Operation::Connect, &answer)) };
        let object = conversation.object(Operation::Connect, reply.resource)?;
        Ok((conversation, object))
    }

    /// Sends one request and waits for its answer.
    async fn ask(&mut self, operation: Operation, ask: Ask) -> Result<Answer, ExternalError> {
        let request = Request { named: self.named.clone(), op: Some(ask) };
        let size = request.encoded_len();
        if size > MAX_MESSAGE_BYTES {
            let text = format!("the object takes {size} bytes on the wire, the limit is {MAX_MESSAGE_BYTES}");
            return Err(ExternalError::not_sent(operation, ErrorClass::Invalid, text));
        }
        if matches!(self.incoming, Incoming::Over) {
            let text = format!("the session with {} has ended", self.peer);
            return Err(ExternalError::not_sent(operation, ErrorClass::Unavailable, text));
        }
        self.outbox.put(request);
        let answer = timeout_at(self.deadline, self.incoming.next()).await;
        match answer {
            Ok(Ok(Some(Response { op: Some(answer) }))) => Ok(answer),
            Ok(Ok(Some(Response { op: None }))) => Err(self.broken(operation, "its answer is empty")),
            Ok(Ok(None)) => Err(self.broken(operation, "it ended the session without an answer")),
            Ok(Err(status)) => Err(self.failed(operation, &status)),
            Err(_) => Err(self.fail(operation, Fault::timeout(&self.peer, self.timeout), false)),
        }
    }

    fn failed(&mut self, operation: Operation, status: &Status) -> ExternalError {
        if !self.trail.answered() {
            return self.fail(operation, Fault::on_the_way(&self.peer, status, self.timeout), false);
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        let in_time = left > self.timeout / MARGIN;
        let said = !matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Ok);
        let knows = Details::of(status).reason.as_deref() != Some(OUTCOME_UNKNOWN);
        let knows = knows && !could_not_answer(status);
        self.fail(operation, Fault::answered(&self.peer, status), in_time && said && knows)
    }

    fn broken(&mut self, operation: Operation, problem: &str) -> ExternalError {
        self.fail(operation, Fault::protocol(&self.peer, problem), false)
    }

    fn wrong_arm(&mut self, operation: Operation, answer: &Answer) -> ExternalError {
        let got = match answer {
            Answer::Connect(_) => "connect",
            Answer::Observe(_) => "observe",
            Answer::Create(_) => "create",
            Answer::Update(_) => "update",
            Answer::Delete(_) => "delete",
            Answer::Disconnect(_) => "disconnect",
        };
        self.broken(operation, &format!("it answered {got} when asked to {operation}"))
    }

    /// Ends the conversation: a session never survives an error.
    fn fail(&mut self, operation: Operation, fault: Fault, verdict: bool) -> ExternalError {
        self.incoming = Incoming::Over;
        let dispatch = match (self.outbox.take_back(), verdict) {
            (true, _) => Dispatch::NotSent,
            (false, true) => Dispatch::Failed,
            (false, false) => Dispatch::Unknown,
        };
        let Fault { class, message, field, retry_after } = fault;
        ExternalError { operation, class, dispatch, message, field, retry_after }
    }

    /// The object of a reply; absent means unchanged.
    fn object(
        &mut self,
        operation: Operation,
        reply: Option<prost_types::Struct>,
    ) -> Result<Option<Value>, ExternalError> {
        // A provider that has nothing to say may also send an object without fields.
        let Some(reply) = reply.filter(|reply| !reply.fields.is_empty()) else { return Ok(None) };
        to_json(&reply).map(Some).map_err(|error| self.broken(operation, &error.to_string()))
    }

    async fn observe_now(&mut self, object: &Value) -> Result<Observation, ExternalError> {
        let operation = Operation::Observe;
        let request = ObserveRequest { resource: wire(operation, object)?, create_token: self.token.clone() };
        let answer = self.ask(operation, Ask::Observe(request)).await?;
        let Answer::Observe(reply) = answer else { return Err(self.wrong_arm(operation, &answer)) };
        Ok(Observation {
            exists: reply.resource_exists,
            up_to_date: reply.resource_up_to_date,
            late_initialized: reply.resource_late_initialized,
            object: self.object(operation, reply.resource)?,
            connection: secrets(reply.connection_details),
            diff: reply.diff,
        })
    }

    async fn create_now(&mut self, object: &Value, token: &CreateToken) -> Result<Change, ExternalError> {
        let operation = Operation::Create;
        let create_token = token.as_str().to_owned();
        let request = CreateRequest { resource: wire(operation, object)?, create_token };
        let answer = self.ask(operation, Ask::Create(request)).await?;
        let Answer::Create(reply) = answer else { return Err(self.wrong_arm(operation, &answer)) };
        self.change(operation, reply.resource, reply.connection_details, reply.additional_details)
    }

    async fn update_now(&mut self, object: &Value) -> Result<Change, ExternalError> {
        let operation = Operation::Update;
        let request = UpdateRequest { resource: wire(operation, object)?, ..Default::default() };
        let answer = self.ask(operation, Ask::Update(request)).await?;
        let Answer::Update(reply) = answer else { return Err(self.wrong_arm(operation, &answer)) };
        self.change(operation, reply.resource, reply.connection_details, reply.additional_details)
    }

    async fn delete_now(&mut self, object: &Value) -> Result<Change, ExternalError> {
        let operation = Operation::Delete;
        let answer = self.ask(operation, Ask::Delete(DeleteRequest { resource: wire(operation, object)? })).await?;
        let Answer::Delete(reply) = answer else { return Err(self.wrong_arm(operation, &answer)) };
        self.change(operation, reply.resource, HashMap::new(), reply.additional_details)
    }

    fn change(
        &mut self,
        operation: Operation,
        resource: Option<prost_types::Struct>,
        connection: HashMap<String, Vec<u8>>,
        details: HashMap<String, String>,
    ) -> Result<Change, ExternalError> {
        let object = self.object(operation, resource)?;
        Ok(Change { object, connection: secrets(connection), details: details.into_iter().collect() })
    }

    async fn disconnect_now(mut self) {
        if matches!(self.incoming, Incoming::Over) {
            return;
        }
        self.timeout = DISCONNECT;
        self.deadline = Instant::now() + DISCONNECT;
        if let Err(error) = self.ask(Operation::Disconnect, Ask::Disconnect(DisconnectRequest {})).await {
            tracing::debug!(error = &error as &dyn std::error::Error, "a session did not close well");
        }
    }
}

/// Waits for one of the places for sessions, for as long as a session may take.
async fn place(places: Arc<Semaphore>, limit: Duration, peer: &Peer) -> Result<OwnedSemaphorePermit, ExternalError> {
    let busy = || {
        let text = format!("all {SESSIONS} sessions with {peer} are in use, and none became free within {limit:?}");
        ExternalError::not_sent(Operation::Connect, ErrorClass::Unavailable, text)
    };
    tokio::time::timeout(limit, places.acquire_owned()).await.ok().and_then(Result::ok).ok_or_else(busy)
}

async fn start(
    mut client: ExternalServiceClient<Observed>,
    outgoing: Outgoing,
    timeout: Duration,
) -> Result<Streaming<Response>, Status> {
    let mut request = tonic::Request::new(outgoing);
    request.set_timeout(timeout);
    client.session(request).await.map(tonic::Response::into_inner)
}

impl Incoming {
    async fn next(&mut self) -> Result<Option<Response>, Status> {
        if let Self::Opening(opening) = self {
            *self = Self::Open(Box::new(opening.await?));
        }
        match self {
            Self::Open(stream) => stream.message().await,
            Self::Opening(_) | Self::Over => Ok(None),
        }
    }
}

/// Whether the provider had an answer that is too large to send: whatever it did, it has done. In the words of tonic
/// and of Go.
fn could_not_answer(status: &Status) -> bool {
    let words = ["encoded message length too large", "trying to send message larger than max"];
    words.iter().any(|words| status.message().contains(words))
}

fn wire(operation: Operation, object: &Value) -> Result<Option<prost_types::Struct>, ExternalError> {
    to_struct(object).map(Some).map_err(|error| {
        let refused = ExternalError::not_sent(operation, ErrorClass::Invalid, error.to_string());
        if error.path().is_empty() { refused } else { refused.with_field(error.path()) }
    })
}

fn secrets(details: HashMap<String, Vec<u8>>) -> ConnectionDetails {
    details.into_iter().map(|(key, value)| (key, Secret::new(value))).collect()
}

impl Session for Conversation {
    fn observe<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Observation, ExternalError>> {
        Box::pin(self.observe_now(object))
    }

    fn create<'a>(
        &'a mut self,
        object: &'a Value,
        token: &'a CreateToken,
    ) -> BoxFuture<'a, Result<Change, ExternalError>> {
        Box::pin(self.create_now(object, token))
    }

    fn update<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Change, ExternalError>> {
        Box::pin(self.update_now(object))
    }

    fn delete<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Change, ExternalError>> {
        Box::pin(self.delete_now(object))
    }

    fn disconnect(self: Box<Self>) -> BoxFuture<'static, Result<(), ExternalError>> {
        Box::pin(async move {
            self.disconnect_now().await;
            Ok(())
        })
    }
}
