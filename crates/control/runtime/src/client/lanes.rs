//! The transport: HTTP/2 where the server speaks it, one connection for calls, others for watches.
//!
//! A connection carries a limited number of streams (servers allow 100 to 250), and who comes too many waits without a
//! word. A watch is a stream that stays. So watches have connections of their own, [`PER_LANE`] on each, and a call never
//! waits behind them.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use tower::{BoxError, Service};

use super::buffered::Connector;

/// Watches that share a connection.
const PER_LANE: usize = 64;
/// A connection that is silent for so long is asked whether it still lives, and dropped if it does not say so in time.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(15);
/// How much a stream, and all streams of a connection, may send ahead of who reads them. Eight that are not read leave room
/// for the others.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 9 * STREAM_WINDOW;

type Transport = Client<HttpsConnector<Connector>, Body>;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct Lanes {
    connector: HttpsConnector<Connector>,
    calls: Transport,
    watches: Arc<Mutex<Vec<Lane>>>,
}

/// A connection for watches.
struct Lane {
    transport: Transport,
    /// Held by each watch on it.
    ticket: Arc<()>,
}

impl Lane {
    fn load(&self) -> usize {
        Arc::strong_count(&self.ticket) - 1
    }
}

impl Lanes {
    pub(super) fn new(connector: HttpsConnector<Connector>) -> Self {
        Self { calls: transport(&connector), connector, watches: Arc::default() }
    }

    /// A connection with room for one more watch.
    fn lane(&self) -> (Transport, Arc<()>) {
        let mut lanes = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.iter().find(|lane| lane.load() < PER_LANE) {
            return (lane.transport.clone(), Arc::clone(&lane.ticket));
        }
        let lane = Lane { transport: transport(&self.connector), ticket: Arc::new(()) };
        let room = (lane.transport.clone(), Arc::clone(&lane.ticket));
        lanes.push(lane);
        room
    }
}

fn transport(connector: &HttpsConnector<Connector>) -> Transport {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PONG)
        // Always: hyper takes a connection with one stream for idle when the pool has let go of it, which happens to one
        // of two that were opened at once; a watch on it would not notice that it is dead.
        .http2_keep_alive_while_idle(true)
        .build(connector.clone())
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|term| term == "watch=true"))
}

impl Service<Request<Body>> for Lanes {
    type Response = Response<Carried>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Carried>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (transport, ticket) = if is_watch(&request) {
            let (transport, ticket) = self.lane();
            (transport, Some(ticket))
        } else {
            (self.calls.clone(), None)
        };
        Box::pin(async move {
            let response = transport.request(request).await?;
            Ok(response.map(|body| Carried { body, _ticket: ticket }))
        })
    }
}

/// An answer that holds its place on a connection until it is dropped.
pub(super) struct Carried {
    body: Incoming,
    _ticket: Option<Arc<()>>,
}

impl HttpBody for Carried {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
