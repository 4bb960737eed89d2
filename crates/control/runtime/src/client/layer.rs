//! Layers of one's own around all that a client sends.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::Client;

impl Client {
    /// The same client with a layer around all that it sends: it sees each request, each try of it, before the gate does,
    /// and each answer; it may change either, answer itself, or fail. For tests and for what no setting covers.
    ///
    /// ```
    /// # use concert_runtime::Client;
    /// # fn example(client: Client) {
    /// use kube::client::Body;
    ///
    /// let tagged = client.layered(&tower::layer::layer_fn(|inner| {
    ///     tower::util::MapRequest::new(inner, |mut request: http::Request<Body>| {
    ///         request.headers_mut().insert("x-tenant", http::HeaderValue::from_static("blue"));
    ///         request
    ///     })
    /// }));
    /// # }
    /// ```
    #[must_use]
    pub fn layered<L, B>(self, layer: &L) -> Self
    where
        L: Layer<Sender>,
        L::Service: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        <L::Service as Service<Request<Body>>>::Future: Send + 'static,
        <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let namespace = self.kube.default_namespace().to_owned();
        Self { kube: kube::Client::new(layer.layer(Sender(self.kube)), namespace), ..self }
    }
}

/// What a layer of [`Client::layered`] is laid around: sends requests.
#[derive(Clone)]
pub struct Sender(kube::Client);

impl Service<Request<Body>> for Sender {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move { client.send(request).await })
    }
}
