//! The standard health service: serving until told to stop.

use std::pin::Pin;

use concert_protocol::health::health_check_response::ServingStatus;
use concert_protocol::health::health_server::Health as HealthService;
use concert_protocol::health::{HealthCheckRequest, HealthCheckResponse};
use futures::{Stream, StreamExt, stream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

pub(super) struct Health {
    stop: CancellationToken,
}

impl Health {
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self { stop }
    }
}

fn says(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl HealthService for Health {
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let stopping = self.stop.is_cancelled();
        Ok(Response::new(says(if stopping { ServingStatus::NotServing } else { ServingStatus::Serving })))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let stop = self.stop.clone();
        let stopped = async move {
            stop.cancelled().await;
            Ok(says(ServingStatus::NotServing))
        };
        let serving = stream::once(async { Ok(says(ServingStatus::Serving)) });
        Ok(Response::new(Box::pin(serving.chain(stream::once(stopped)))))
    }
}
