//! The gate as a tower layer: below everything that retries, above the transport.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use concert_world::{Actor, Gateway, Stopped, World};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

/// How often the same call was sent before; travels in the request's extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempt(pub u32);

/// The body of what comes back through the gate.
type Reply = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Puts the gate of a world in front of a transport.
#[derive(Clone, Debug)]
pub(crate) struct GateLayer {
    gateway: Gateway,
}

impl GateLayer {
    pub(crate) fn new(world: &World) -> Self {
        Self { gateway: Gateway::new(world) }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { inner, gateway: self.gateway.clone() }
    }
}

/// A transport behind the gate.
#[derive(Clone, Debug)]
pub(crate) struct Gated<S> {
    inner: S,
    gateway: Gateway,
}

impl<S, B> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Reply;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fresh = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, fresh);
        let gateway = self.gateway.clone();
        Box::pin(async move {
            let attempt = request.extensions().get::<Attempt>().copied().unwrap_or_default();
            let entered = gateway.enter(Actor::Api, verb(&request), request.uri().path(), attempt.0).await;
            let passage = match entered {
                Ok(passage) => passage,
                Err(Stopped::Failed(code)) => return Ok(failed(code)),
                Err(stopped) => return Err(stopped.into()),
            };
            let response = ready.call(request).await.map_err(Into::into)?;
            passage.leave()?;
            Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}

/// The method, except that a watch is called what it is.
fn verb(request: &Request<Body>) -> &str {
    let watches = request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
    if watches { "WATCH" } else { request.method().as_str() }
}

/// The answer of a server that has trouble.
fn failed(code: u16) -> Reply {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("the gate answered with code {code}"), "reason": "", "code": code,
    });
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}
