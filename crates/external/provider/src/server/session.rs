//! One session: requests in, replies out, in lock-step.

use std::collections::HashMap;
use std::pin::Pin;
use std::time::Duration;

use concert_external::{ConnectionDetails, Gvk, Observation};
use concert_protocol::external::request::Op as Ask;
use concert_protocol::external::response::Op as Answer;
use concert_protocol::external::{
    ConnectRequest, ConnectResponse, CreateResponse, DeleteResponse, DisconnectResponse, ObserveResponse,
    Request as Message, Response as Reply, UpdateResponse,
};
use futures::Stream;
use serde_json::Value;
use tonic::{Code, Status, Streaming};

use super::{Face, gvk_of};
use crate::ProviderError;
use crate::handler::Effect;

/// How long a session may be silent before it is ended: longer than any reconciler's deadline.
const IDLE: Duration = Duration::from_secs(10 * 60);

/// How long a session that is between two requests may go on when the provider stops.
const LAST_WORD: Duration = Duration::from_secs(1);

pub(crate) type Replies = Pin<Box<dyn Stream<Item = Result<Reply, Status>> + Send>>;

/// Answers every request in turn; ends well when the client ends, and with a status at the first error.
pub(super) fn converse(face: Face, inbound: Streaming<Message>) -> Replies {
    let session = Session { face, connected: None };
    Box::pin(futures::stream::unfold(Some((session, inbound)), |state| async move {
        let (mut session, mut inbound) = state?;
        let message = match session.listen(&mut inbound).await {
            Ok(message) => message?,
            Err(status) => return Some((Err(status), None)),
        };
        match session.answer(message).await {
            Ok(answer) => Some((Ok(Reply { op: Some(answer) }), Some((session, inbound)))),
            Err(status) => Some((Err(status), None)),
        }
    }))
}

struct Session {
    face: Face,
    /// The kind, and the create token if it was given.
    connected: Option<(Gvk, String)>,
}

impl Session {
    /// The next request, or `None` at the end of them.
    async fn listen(&self, inbound: &mut Streaming<Message>) -> Result<Option<Message>, Status> {
        let stopping = async {
            self.face.house().stop.cancelled().await;
            tokio::time::sleep(LAST_WORD).await;
        };
        tokio::select! {
            biased;
            message = inbound.message() => message,
            () = stopping => Err(Status::unavailable("the provider is stopping")),
            () = tokio::time::sleep(IDLE) => Err(Status::deadline_exceeded("the session was silent for too long")),
        }
    }

    async fn answer(&mut self, message: Message) -> Result<Answer, Status> {
        match message.op {
            None => Err(Status::invalid_argument("the request names no operation that this provider knows")),
            Some(Ask::Connect(request)) => self.connect(request),
            Some(Ask::Observe(request)) => {
                let token = self.check("observe", request.resource.as_ref(), request.create_token)?;
                self.face.observe(request.resource.as_ref(), &token).await.map(Answer::Observe)
            }
            Some(Ask::Create(request)) => {
                let token = self.check("create", request.resource.as_ref(), request.create_token)?;
                self.face.create(request.resource.as_ref(), &token).await.map(Answer::Create)
            }
            Some(Ask::Update(request)) => {
                let token = self.check("update", request.resource.as_ref(), String::new())?;
                self.face.update(request.resource.as_ref(), &token).await.map(Answer::Update)
            }
            Some(Ask::Delete(request)) => {
                let token = self.check("delete", request.resource.as_ref(), String::new())?;
                self.face.delete(request.resource.as_ref(), &token).await.map(Answer::Delete)
            }
            Some(Ask::Disconnect(_)) => {
                self.connected = None;
                Ok(Answer::Disconnect(DisconnectResponse {}))
            }
        }
    }

    fn connect(&mut self, request: ConnectRequest) -> Result<Answer, Status> {
        let (handler, _) = self.face.route(request.resource.as_ref(), "")?;
        self.connected = Some((handler.gvk(), request.create_token));
        Ok(Answer::Connect(ConnectResponse { resource: request.resource, connection_details: HashMap::new() }))
    }

    /// An operation needs a session of the object's kind. Gives back the token to use.
    fn check(&self, operation: &str, resource: Option<&prost_types::Struct>, token: String) -> Result<String, Status> {
        let refuse = |text: String| Status::new(Code::FailedPrecondition, text);
        let (connected, first) =
            self.connected.as_ref().ok_or_else(|| refuse(format!("cannot {operation}: connect must come first")))?;
        // Only the two fields that say the kind are looked at here; the operation converts the whole object.
        let field = |name: &str| match resource?.fields.get(name)?.kind.as_ref()? {
            prost_types::value::Kind::StringValue(text) => Some(Value::from(text.as_str())),
            _ => None,
        };
        let head = serde_json::json!({ "apiVersion": field("apiVersion"), "kind": field("kind") });
        let got = gvk_of(&head)?;
        if got != *connected {
            return Err(refuse(format!("cannot {operation}: the session is for {connected}, the object is {got}")));
        }
        Ok(if token.is_empty() { first.clone() } else { token })
    }
}

impl Face {
    pub(super) async fn observe(
        &self,
        resource: Option<&prost_types::Struct>,
        token: &str,
    ) -> Result<ObserveResponse, Status> {
        let (handler, visit) = self.route(resource, token)?;
        let observation: Observation = handler.observe(self.house(), visit).await?;
        Ok(ObserveResponse {
            resource: observation.object.as_ref().map(encode).transpose()?,
            connection_details: expose(observation.connection),
            resource_exists: observation.exists,
            resource_up_to_date: observation.up_to_date,
            resource_late_initialized: observation.late_initialized,
            diff: observation.diff,
        })
    }

    pub(super) async fn create(
        &self,
        resource: Option<&prost_types::Struct>,
        token: &str,
    ) -> Result<CreateResponse, Status> {
        let (handler, visit) = self.route(resource, token)?;
        let Effect { object, changed } = handler.create(self.house(), visit).await?;
        Ok(CreateResponse {
            resource: Some(encode(&object)?),
            connection_details: expose(changed.connection),
            additional_details: changed.details.into_iter().collect(),
        })
    }

    pub(super) async fn update(
        &self,
        resource: Option<&prost_types::Struct>,
        token: &str,
    ) -> Result<UpdateResponse, Status> {
        let (handler, visit) = self.route(resource, token)?;
        let Effect { object, changed } = handler.update(self.house(), visit).await?;
        Ok(UpdateResponse {
            resource: Some(encode(&object)?),
            connection_details: expose(changed.connection),
            additional_details: changed.details.into_iter().collect(),
        })
    }

    pub(super) async fn delete(
        &self,
        resource: Option<&prost_types::Struct>,
        token: &str,
    ) -> Result<DeleteResponse, Status> {
        let (handler, visit) = self.route(resource, token)?;
        let Effect { object, changed } = handler.delete(self.house(), visit).await?;
        Ok(DeleteResponse {
            resource: Some(encode(&object)?),
            additional_details: changed.details.into_iter().collect(),
        })
    }
}

fn encode(object: &Value) -> Result<prost_types::Struct, Status> {
    concert_protocol::to_struct(object).map_err(|error| ProviderError::broken(error.to_string()).into())
}

fn expose(connection: ConnectionDetails) -> HashMap<String, Vec<u8>> {
    connection.into_iter().map(|(key, secret)| (key, secret.expose().to_vec())).collect()
}
