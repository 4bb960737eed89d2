//! The gRPC face of a provider.

mod health;
mod session;
mod unary;

use std::future::Future;
use std::sync::Arc;

use concert_external::Gvk;
use concert_protocol::external::connected_external_service_server::ConnectedExternalServiceServer;
use concert_protocol::external::external_service_server::{ExternalService, ExternalServiceServer};
use concert_protocol::external::{DiscoveryRequest, DiscoveryResponse, Request as Message};
use concert_protocol::health::health_server::HealthServer;
use concert_protocol::{MAX_MESSAGE_BYTES, VERSION, features};
use serde_json::Value;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::creates::Creates;
use crate::handler::{Handler, House, Visit};
use crate::listen::Socket;
use crate::provider::GRACE;
use crate::{Listener, Provider, ProviderError};

/// Sessions that one connection may have open; further ones wait. A reconciler has ten workers unless it is told otherwise.
const MAX_STREAMS: u32 = 100;

/// Serves until `cancel`, then for at most [`GRACE`] until sessions and creates have ended.
pub(crate) async fn serve(
    provider: Provider,
    listener: Listener,
    cancel: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let tasks = TaskTracker::new();
    let house = House {
        world: provider.world.clone(),
        creates: Creates::default(),
        tasks: tasks.clone(),
        stop: cancel.clone(),
    };
    let face = Face(Arc::new(Inner { provider, house: Arc::new(house) }));
    let router = Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .add_service(
            ExternalServiceServer::new(face.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        )
        .add_service(
            ConnectedExternalServiceServer::new(face)
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        )
        .add_service(
            HealthServer::new(health::Health::new(cancel.clone()))
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
        );
    let stop = cancel.clone().cancelled_owned();
    let outcome = match listener.0 {
        Socket::Tcp(listener) => {
            let serving = router.serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop);
            within_grace(serving, &cancel).await
        }
        Socket::Unix(listener, _file) => {
            let serving = router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop);
            within_grace(serving, &cancel).await
        }
    };
    tasks.close();
    if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
        tracing::warn!(running = tasks.len(), "creates were still running when the provider stopped");
    }
    outcome
}

async fn within_grace<E>(serving: impl Future<Output = Result<(), E>>, cancel: &CancellationToken) -> Result<(), E> {
    let patience = async {
        cancel.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        biased;
        outcome = serving => outcome,
        () = patience => Ok(()),
    }
}

/// The services, cheap to clone.
#[derive(Clone)]
pub(crate) struct Face(Arc<Inner>);

struct Inner {
    provider: Provider,
    house: Arc<House>,
}

impl Face {
    /// The object of a request, and the handler of its kind.
    fn route(
        &self,
        resource: Option<&prost_types::Struct>,
        token: &str,
    ) -> Result<(Arc<dyn Handler>, Visit), ProviderError> {
        let resource = resource.ok_or_else(|| ProviderError::invalid("resource", "is missing from the request"))?;
        let object = concert_protocol::to_json(resource)
            .map_err(|error| ProviderError::invalid(error.path().to_owned(), error.to_string()))?;
        let gvk = gvk_of(&object)?;
        let unknown = || {
            let name = self.0.provider.name();
            ProviderError::unsupported(format!("provider {name:?} does not know the kind {gvk}"))
        };
        let handler = self.0.provider.handlers.get(&gvk).ok_or_else(unknown)?;
        let token = (!token.is_empty()).then(|| token.to_owned());
        Ok((Arc::clone(handler), Visit { object, token }))
    }

    fn house(&self) -> Arc<House> {
        Arc::clone(&self.0.house)
    }
}

fn gvk_of(object: &Value) -> Result<Gvk, ProviderError> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    Gvk::from_api_version(text("apiVersion"), text("kind"))
        .ok_or_else(|| ProviderError::invalid("apiVersion", "the object needs a well-formed apiVersion and a kind"))
}

#[tonic::async_trait]
impl ExternalService for Face {
    async fn discover(&self, _: Request<DiscoveryRequest>) -> Result<Response<DiscoveryResponse>, Status> {
        Ok(Response::new(DiscoveryResponse {
            version: VERSION.to_owned(),
            reconcilers: self.0.provider.handlers.values().map(|handler| handler.announce()).collect(),
            features: features::ALL.map(str::to_owned).to_vec(),
        }))
    }

    type SessionStream = session::Replies;

    async fn session(&self, request: Request<Streaming<Message>>) -> Result<Response<session::Replies>, Status> {
        Ok(Response::new(session::converse(self.clone(), request.into_inner())))
    }
}
