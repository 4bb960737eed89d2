//! Peers that know nothing of the extension, written straight from the original protocol.

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use concert_connector::State;
use concert_external::{Dispatch, ErrorClass, External, KindInfo};
use concert_protocol::external::external_service_server::{ExternalService, ExternalServiceServer};
use concert_protocol::external::request::Op as Ask;
use concert_protocol::external::response::Op as Answer;
use concert_protocol::external::{
    ConnectResponse, CreateResponse, DeleteResponse, DisconnectResponse, DiscoveryRequest, DiscoveryResponse,
    ObserveResponse, Reconciler, Request as Message, Response as Reply, UpdateResponse, reconciler,
};
use futures::{Stream, StreamExt};
use prost::Message as _;
use prost_types::value::Kind;
use serde_json::json;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::support::{SESSION, attempt, connector, gvk, note, open, socket, token};

/// How a create goes.
#[derive(Clone, Copy)]
enum Create {
    Well,
    PlainError,
    WrongArm,
    EmptyAnswer,
    EndOfSession,
    NotANumber,
    TooDeep,
    Sized(usize),
    LateError,
}

#[derive(Clone)]
struct Original(Create);

impl Original {
    fn serve(self, path: &Path) {
        let incoming = UnixListenerStream::new(UnixListener::bind(path).unwrap());
        tokio::spawn(Server::builder().add_service(ExternalServiceServer::new(self)).serve_with_incoming(incoming));
    }

    async fn answer(&self, ask: Option<Ask>) -> Option<Result<Reply, Status>> {
        let answer = match ask {
            Some(Ask::Connect(_)) => Answer::Connect(ConnectResponse::default()),
            Some(Ask::Observe(_)) => Answer::Observe(ObserveResponse::default()),
            Some(Ask::Create(_)) => return self.create().await,
            Some(Ask::Update(_)) => Answer::Update(UpdateResponse::default()),
            Some(Ask::Delete(_)) => Answer::Delete(DeleteResponse::default()),
            Some(Ask::Disconnect(_)) => Answer::Disconnect(DisconnectResponse {}),
            None => return Some(Err(Status::unknown("no matching operation"))),
        };
        Some(Ok(Reply { op: Some(answer) }))
    }

    async fn create(&self) -> Option<Result<Reply, Status>> {
        let with = |kind| {
            let fields = [("x".to_owned(), prost_types::Value { kind: Some(kind) })].into();
            Answer::Create(CreateResponse { resource: Some(prost_types::Struct { fields }), ..Default::default() })
        };
        let answer = match self.0 {
            Create::Well => Answer::Create(CreateResponse::default()),
            Create::PlainError => return Some(Err(Status::unknown("cannot create: quota"))),
            Create::WrongArm => Answer::Observe(ObserveResponse::default()),
            Create::EmptyAnswer => return Some(Ok(Reply { op: None })),
            Create::EndOfSession => return None,
            Create::NotANumber => with(Kind::NumberValue(f64::NAN)),
            Create::TooDeep => {
                let value = |kind| prost_types::Value { kind: Some(kind) };
                let nest = |inner, _| {
                    Kind::StructValue(prost_types::Struct { fields: [("a".to_owned(), value(inner))].into() })
                };
                with((0..60).fold(Kind::NullValue(0), nest))
            }
            Create::Sized(bytes) => {
                let reply = |text: usize| Reply { op: Some(with(Kind::StringValue("x".repeat(text)))) };
                let around = reply(bytes).encoded_len() - bytes;
                let reply = reply(bytes - around);
                assert_eq!(reply.encoded_len(), bytes);
                return Some(Ok(reply));
            }
            Create::LateError => {
                tokio::time::sleep(Duration::from_millis(930)).await;
                return Some(Err(Status::unknown("context deadline exceeded")));
            }
        };
        Some(Ok(Reply { op: Some(answer) }))
    }
}

#[tonic::async_trait]
impl ExternalService for Original {
    async fn discover(&self, _: Request<DiscoveryRequest>) -> Result<Response<DiscoveryResponse>, Status> {
        let reference =
            reconciler::Reference { api_version: gvk().api_version(), kind: gvk().kind, ..Default::default() };
        let known = Reconciler { named: gvk().to_string(), r#for: Some(reference), ..Default::default() };
        let reconcilers = vec![Reconciler::default(), known];
        Ok(Response::new(DiscoveryResponse { version: "v1alpha1".into(), reconcilers, ..Default::default() }))
    }

    type SessionStream = Pin<Box<dyn Stream<Item = Result<Reply, Status>> + Send>>;

    async fn session(&self, request: Request<Streaming<Message>>) -> Result<Response<Self::SessionStream>, Status> {
        let state = Some((self.clone(), request.into_inner()));
        let replies = futures::stream::unfold(state, |state| async move {
            let (original, mut inbound) = state?;
            let message = inbound.message().await.ok()??;
            let reply = original.answer(message.op).await?;
            let next = reply.is_ok().then_some((original, inbound));
            Some((reply, next))
        });
        Ok(Response::new(replies.boxed()))
    }
}

#[tokio::test]
async fn an_original_provider_works_with_everything_new_off() {
    let (_dir, path) = socket();
    Original(Create::Well).serve(&path);
    let connector = connector(&path);
    let discovery = connector.discover().await.unwrap();
    assert_eq!(discovery.kinds, [KindInfo::plain(gvk())]);
    assert!(discovery.features.is_empty() && discovery.crds.is_empty());

    let object = note(json!({ "text": "x" }));
    let connected = connector.connect(&object, attempt(SESSION)).await.unwrap();
    assert_eq!(connected.object, None, "an absent reply object means unchanged");
    let mut session = connected.session;
    assert_eq!(session.observe(&object).await.unwrap().object, None);
    assert_eq!(session.create(&object, &token()).await.unwrap().object, None);
    session.disconnect().await.unwrap();

    // It has no health service, which is taken as healthy.
    let cancel = CancellationToken::new();
    let run = tokio::spawn(connector.clone().run(cancel.clone()));
    connector.state().wait_for(|state| matches!(state, State::Connected { .. })).await.unwrap();
    cancel.cancel();
    run.await.unwrap();
}

#[tokio::test]
async fn a_create_that_goes_wrong_is_failed_only_if_the_provider_says_so() {
    for (create, class, dispatch, words) in [
        (Create::PlainError, ErrorClass::Other, Dispatch::Failed, "cannot create: quota"),
        (Create::WrongArm, ErrorClass::Protocol, Dispatch::Unknown, "it answered observe when asked to create"),
        (Create::EmptyAnswer, ErrorClass::Protocol, Dispatch::Unknown, "its answer is empty"),
        (Create::EndOfSession, ErrorClass::Protocol, Dispatch::Unknown, "it ended the session without an answer"),
        (Create::NotANumber, ErrorClass::Protocol, Dispatch::Unknown, "cannot convert x: NaN is not a JSON number"),
        (Create::TooDeep, ErrorClass::Protocol, Dispatch::Unknown, "recursion limit reached"),
        (Create::Sized((4 << 20) + 1), ErrorClass::Protocol, Dispatch::Unknown, "its message is larger than 4 MiB"),
    ] {
        let (_dir, path) = socket();
        Original(create).serve(&path);
        let object = note(json!({ "text": "x" }));
        let mut session = open(&connector(&path), &object).await;
        let error = session.create(&object, &token()).await.unwrap_err();
        assert_eq!((error.class, error.dispatch), (class, dispatch), "{error}");
        assert!(error.message.contains(words) && !error.message.contains("rpc error"), "{error}");
        session.disconnect().await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_of_four_mebibytes_is_taken() {
    let (_dir, path) = socket();
    Original(Create::Sized(4 << 20)).serve(&path);
    let object = note(json!({ "text": "x" }));
    let mut session = open(&connector(&path), &object).await;
    let reply = session.create(&object, &token()).await.unwrap().object.unwrap();
    assert!(reply["x"].as_str().unwrap().len() > (4 << 20) - 100);
}

#[tokio::test]
async fn an_error_close_to_the_deadline_proves_nothing() {
    let (_dir, path) = socket();
    Original(Create::LateError).serve(&path);
    let object = note(json!({ "text": "x" }));
    let connector = connector(&path);
    let mut session = connector.connect(&object, attempt(Duration::from_secs(1))).await.unwrap().session;
    assert_eq!(session.create(&object, &token()).await.unwrap_err().dispatch, Dispatch::Unknown);
}
