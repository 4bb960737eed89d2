//! Whether the provider itself ended a call, seen below tonic: tonic reports a lost connection in the same words.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tonic::body::Body as TonicBody;
use tonic::transport::Channel;
use tower::Service;

const GRPC_STATUS: &str = "grpc-status";

/// Set once a `grpc-status` arrived, in a trailer or in a response that has nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail(Arc<AtomicBool>);

impl Trail {
    /// Whether the provider itself said how the call ended.
    pub(crate) fn answered(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    fn note(&self, headers: &http::HeaderMap) {
        if headers.contains_key(GRPC_STATUS) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

/// A channel whose replies leave a trail.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) channel: Channel,
    pub(crate) trail: Trail,
}

impl Service<http::Request<TonicBody>> for Observed {
    type Response = http::Response<ObservedBody>;
    type Error = tonic::transport::Error;
    type Future = concert_external::BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<http::Request<TonicBody>>::poll_ready(&mut self.channel, cx)
    }

    fn call(&mut self, request: http::Request<TonicBody>) -> Self::Future {
        let reply = self.channel.call(request);
        let trail = self.trail.clone();
        Box::pin(async move {
            let reply = reply.await?;
            trail.note(reply.headers());
            Ok(reply.map(|body| ObservedBody { body, trail }))
        })
    }
}

/// A reply's body; notes its trailers.
pub(crate) struct ObservedBody {
    body: TonicBody,
    trail: Trail,
}

impl Body for ObservedBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            self.trail.note(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
