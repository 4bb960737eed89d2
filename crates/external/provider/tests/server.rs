//! The SDK's server, called by a client that is not ours: the generated one.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use concert_protocol::external::connected_external_service_client::ConnectedExternalServiceClient;
use concert_protocol::external::external_service_client::ExternalServiceClient;
use concert_protocol::external::request::Op as Ask;
use concert_protocol::external::response::Op as Answer;
use concert_protocol::external::{
    ConnectRequest, CreateRequest, DisconnectRequest, ObserveRequest, Request, Response, UpdateRequest,
};
use concert_protocol::health::HealthCheckRequest;
use concert_protocol::health::health_check_response::ServingStatus;
use concert_protocol::health::health_client::HealthClient;
use concert_protocol::{to_json, to_struct};
use concert_provider::{Changed, Context, Kind, Listen, Observed, Provider, ProviderError, Ready, Resource};
use prost::Message;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Status};

#[derive(Kind, JsonSchema, Serialize, Deserialize)]
#[kind(group = "a.example.org", version = "v1", kind = "Thing")]
struct ThingParameters {
    value: i64,
}

#[derive(Kind, JsonSchema, Serialize, Deserialize)]
#[kind(group = "a.example.org", version = "v1", kind = "Other")]
struct OtherParameters {}

#[derive(Default, JsonSchema, Serialize, Deserialize)]
struct Nothing {}

#[derive(Clone, Default)]
struct Things(Arc<Mutex<BTreeMap<String, i64>>>);

impl Resource for Things {
    type Parameters = ThingParameters;
    type Observation = Nothing;

    async fn observe(&self, ctx: &mut Context, _: &ThingParameters) -> Result<Observed<Nothing>, ProviderError> {
        let found = self.0.lock().unwrap().get(ctx.name()).copied();
        let ready = if found == Some(0) { Ready::No("it is empty".into()) } else { Ready::Yes };
        Ok(found.map_or(Observed::Absent, |value| Observed::present(json!({ "value": value }), Nothing {}, ready)))
    }

    async fn create(&self, ctx: &mut Context, wanted: &ThingParameters) -> Result<Changed, ProviderError> {
        self.0.lock().unwrap().insert(ctx.name().to_owned(), wanted.value);
        Ok(Changed::default())
    }

    async fn update(&self, ctx: &mut Context, wanted: &ThingParameters) -> Result<Changed, ProviderError> {
        self.create(ctx, wanted).await
    }

    async fn delete(&self, ctx: &mut Context, _: &ThingParameters) -> Result<Changed, ProviderError> {
        self.0.lock().unwrap().remove(ctx.name());
        Ok(Changed::default())
    }
}

struct Others;

impl Resource for Others {
    type Parameters = OtherParameters;
    type Observation = Nothing;

    async fn observe(&self, _: &mut Context, _: &OtherParameters) -> Result<Observed<Nothing>, ProviderError> {
        Ok(Observed::Absent)
    }
    async fn create(&self, _: &mut Context, _: &OtherParameters) -> Result<Changed, ProviderError> {
        Err(ProviderError::unsupported("read-only"))
    }
    async fn update(&self, _: &mut Context, _: &OtherParameters) -> Result<Changed, ProviderError> {
        Err(ProviderError::unsupported("read-only"))
    }
    async fn delete(&self, _: &mut Context, _: &OtherParameters) -> Result<Changed, ProviderError> {
        Ok(Changed::default())
    }
}

struct Served {
    channel: Channel,
    things: Things,
    _stop: tokio_util::sync::DropGuard,
}

async fn serve() -> Served {
    let listener = "127.0.0.1:0".parse::<Listen>().unwrap().bind().await.unwrap();
    let address = listener.address();
    let stop = CancellationToken::new();
    let things = Things::default();
    let provider = Provider::new("test", "1").resource(things.clone()).resource(Others);
    tokio::spawn(provider.serve(listener, stop.clone()));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    Served { channel, things, _stop: stop.drop_guard() }
}

fn object(kind: &str) -> Value {
    json!({
        "apiVersion": "a.example.org/v1", "kind": kind, "unknown": { "field": [1, 2.5, null] },
        "metadata": { "name": "x", "uid": "u", "resourceVersion": "9" },
        "spec": { "forProvider": { "value": 7 } },
    })
}

fn connect(object: &Value) -> Ask {
    Ask::Connect(ConnectRequest { resource: Some(to_struct(object).unwrap()), ..Default::default() })
}

fn observe(object: &Value) -> Ask {
    Ask::Observe(ObserveRequest { resource: Some(to_struct(object).unwrap()), ..Default::default() })
}

fn create(object: &Value) -> Ask {
    Ask::Create(CreateRequest { resource: Some(to_struct(object).unwrap()), ..Default::default() })
}

/// Sends all requests, half-closes, and gives back the answers and how it ended.
async fn talk(served: &Served, asks: Vec<Ask>) -> (Vec<Answer>, Result<(), Status>) {
    let requests = asks.into_iter().map(|ask| Request { named: "whatever".into(), op: Some(ask) });
    let mut client = ExternalServiceClient::new(served.channel.clone());
    let mut replies = client.session(tokio_stream::iter(requests.collect::<Vec<_>>())).await.unwrap().into_inner();
    let mut answers = Vec::new();
    loop {
        match replies.message().await {
            Ok(Some(Response { op })) => answers.extend(op),
            Ok(None) => return (answers, Ok(())),
            Err(status) => return (answers, Err(status)),
        }
    }
}

#[tokio::test]
async fn a_session_survives_disconnect_and_another_kind_and_ends_well() {
    let served = serve().await;
    let (thing, other) = (object("Thing"), object("Other"));
    let asks = vec![
        connect(&thing),
        observe(&thing),
        create(&thing),
        Ask::Disconnect(DisconnectRequest {}),
        connect(&other),
        observe(&other),
        connect(&thing),
        observe(&thing),
    ];
    let (answers, end) = talk(&served, asks).await;
    end.expect("ending the requests is no error");
    assert_eq!(answers.len(), 8);
    let Answer::Observe(last) = &answers[7] else { panic!("{:?}", answers[7]) };
    assert!(last.resource_exists && last.resource_up_to_date);
    let echoed = to_json(last.resource.as_ref().unwrap()).unwrap();
    for field in ["apiVersion", "kind", "metadata", "spec", "unknown"] {
        assert_eq!(echoed[field], thing[field], "{field} is echoed as it was");
    }
    assert_eq!(echoed["status"]["conditions"][0]["status"], "True");
}

#[tokio::test]
async fn misuse_has_meaningful_codes() {
    let served = serve().await;
    let (thing, other) = (object("Thing"), object("Other"));
    let nothing = || Ask::Update(UpdateRequest::default());
    for (asks, code, words) in [
        (vec![observe(&thing)], Code::FailedPrecondition, "cannot observe: connect must come first"),
        (
            vec![connect(&thing), observe(&other)],
            Code::FailedPrecondition,
            "the session is for a.example.org/v1, Kind=Thing",
        ),
        (vec![connect(&json!({ "kind": "Thing" }))], Code::InvalidArgument, "apiVersion"),
        (
            vec![connect(&object("Missing"))],
            Code::Unimplemented,
            "does not know the kind a.example.org/v1, Kind=Missing",
        ),
        (vec![connect(&thing), nothing()], Code::InvalidArgument, "apiVersion"),
        (vec![connect(&other), create(&other)], Code::Unimplemented, "read-only"),
    ] {
        let status = talk(&served, asks).await.1.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(words), "{status}");
    }
    let mut strange = to_struct(&thing).unwrap();
    let nan = prost_types::Value { kind: Some(prost_types::value::Kind::NumberValue(f64::NAN)) };
    strange.fields.insert("weight".into(), nan);
    let asks = vec![Ask::Connect(ConnectRequest { resource: Some(strange), ..Default::default() })];
    let status = talk(&served, asks).await.1.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "cannot convert weight: NaN is not a JSON number")
    );
    let mut client = ExternalServiceClient::new(served.channel.clone());
    let empty = Request { named: String::new(), op: None };
    let mut replies = client.session(tokio_stream::iter([empty])).await.unwrap().into_inner();
    assert_eq!(replies.message().await.unwrap_err().code(), Code::InvalidArgument);
}

/// A request of just so many bytes.
fn sized(bytes: usize) -> Ask {
    let ask = |fill: usize| {
        let mut object = object("Other");
        object["fill"] = "x".repeat(fill).into();
        observe(&object)
    };
    let length = |ask: &Ask| Request { named: "whatever".into(), op: Some(ask.clone()) }.encoded_len();
    let around = length(&ask(bytes)) - bytes;
    let ask = ask(bytes - around);
    assert_eq!(length(&ask), bytes);
    ask
}

#[tokio::test]
async fn a_message_has_four_mebibytes() {
    let served = serve().await;
    let (answers, end) = talk(&served, vec![connect(&object("Other")), sized(4 << 20)]).await;
    assert!(answers.len() == 2 && end.is_ok(), "{end:?}");
    let (answers, end) = talk(&served, vec![connect(&object("Other")), sized((4 << 20) + 1)]).await;
    assert_eq!((answers.len(), end.unwrap_err().code()), (1, Code::OutOfRange));
}

#[tokio::test]
async fn operations_work_without_a_session() {
    let served = serve().await;
    let mut client = ConnectedExternalServiceClient::new(served.channel.clone());
    let resource = Some(to_struct(&object("Thing")).unwrap());
    client.create(CreateRequest { resource: resource.clone(), ..Default::default() }).await.unwrap();
    assert_eq!(served.things.0.lock().unwrap()["x"], 7);
    served.things.0.lock().unwrap().insert("x".into(), 0);
    let seen = client.observe(ObserveRequest { resource, ..Default::default() }).await.unwrap().into_inner();
    assert!(seen.resource_exists && !seen.resource_up_to_date);
    assert_eq!(seen.diff, "spec.forProvider.value: wanted 7, found 0");
    let status = to_json(&seen.resource.unwrap()).unwrap()["status"].clone();
    assert_eq!(status["conditions"][0]["reason"], "Unavailable");
    assert_eq!(status["conditions"][0]["message"], "it is empty");
}

#[tokio::test]
async fn health_is_served() {
    let served = serve().await;
    let mut client = HealthClient::new(served.channel.clone());
    let response = client.check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(response.get_ref().status(), ServingStatus::Serving);
    let mut watch = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    drop(served);
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
}
