//! One connection: a handshake, requests, and its limits.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::gather::Gathered;
use super::places::{Badge, Place};
use super::pulse::{Active, Pulse};
use super::{ConnectionLimits, Notices};
use crate::auth::User;
use crate::auth::peer::Peer;
use crate::respond::{self, Body};
use crate::server::Server;

/// What a connection has from its listener.
pub(super) struct Context {
    pub(super) tls: TlsAcceptor,
    pub(super) server: Server,
    pub(super) limits: ConnectionLimits,
    pub(super) stop: CancellationToken,
    /// One of so many.
    pub(super) place: Place,
    pub(super) notices: Arc<Notices>,
}

/// Serves a connection to its end, or until it loses its place.
pub(super) async fn serve<S>(stream: S, context: Context)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Context { tls, server, limits, stop, place, notices } = context;
    let served = async {
        let stream = match tokio::time::timeout(limits.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => {
                if let Some(times) = notices.handshake.times() {
                    tracing::info!(times, "a TLS handshake took too long");
                }
                return;
            }
        };
        let peer = peer(&server, stream.get_ref().1);
        let badge = place.badge();
        if peer.is_some() {
            badge.known();
        }
        let age = server.world().random.jitter(limits.age, 0.1);
        let visit = Visit { server, peer, badge, limits, notices, pulse: Arc::default() };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            converse(Gathered::new(stream), Arc::new(visit), age, &stop).await;
        } else {
            converse(stream, Arc::new(visit), age, &stop).await;
        }
    };
    tokio::select! {
        biased;
        () = place.lost() => {}
        () = served => {}
    }
}

/// One peer and its requests.
struct Visit {
    server: Server,
    peer: Option<Peer>,
    badge: Arc<Badge>,
    limits: ConnectionLimits,
    notices: Arc<Notices>,
    pulse: Arc<Pulse>,
}

/// Answers requests until the peer leaves or a limit of time is reached.
async fn converse<S>(stream: S, visit: Arc<Visit>, age: std::time::Duration, stop: &CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let began = Instant::now();
    let service = {
        let visit = Arc::clone(&visit);
        service_fn(move |request| Arc::clone(&visit).answer(request))
    };
    let Visit { limits, notices, pulse, .. } = &*visit;
    let builder = builder(limits);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut closing: Option<Instant> = None;
    loop {
        let idle = pulse.idles_at(began, limits.idle).filter(|_| closing.is_none());
        let stall = pulse.stalls_at(limits.stall);
        let end = closing.map_or(began + age, |since| since + limits.grace);
        // What begins to wait from now on is not over before this.
        let later = Instant::now() + limits.idle.min(limits.stall);
        let next = [idle, stall, Some(end)].into_iter().flatten().fold(later, Instant::min);
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    ended_early(&*error, notices);
                }
                return;
            }
            () = stop.cancelled(), if closing.is_none() => {}
            () = tokio::time::sleep_until(next) => {}
        }
        let reached = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
        if reached(pulse.stalls_at(limits.stall)) {
            if let Some(times) = notices.stalled.times() {
                tracing::info!(times, "a connection is cut: its reader stands still");
            }
            return;
        }
        if reached(closing.map(|since| since + limits.grace)) {
            if let Some(times) = notices.late.times() {
                tracing::info!(times, "a connection is cut: it did not end in time");
            }
            return;
        }
        let over = stop.is_cancelled() || reached(Some(began + age)) || reached(pulse.idles_at(began, limits.idle));
        if over && closing.is_none() {
            closing = Some(Instant::now());
            connection.as_mut().graceful_shutdown();
        }
    }
}

impl Visit {
    async fn answer(self: Arc<Self>, request: http::Request<Incoming>) -> Result<http::Response<Body>, Infallible> {
        let Self { server, peer, badge, limits, notices, pulse } = &*self;
        let _active = Active::new(pulse);
        if pulse.active() >= limits.streams as usize
            && let Some(times) = notices.streams.times()
        {
            tracing::warn!(limit = limits.streams, times, "a connection has all its streams: further ones are refused");
        }
        if head_bytes(&request) > limits.header_bytes as usize {
            if let Some(times) = notices.headers.times() {
                tracing::info!(limit = limits.header_bytes, times, "the headers of a request are too large");
            }
            return Ok(respond::text(431, "Request Header Fields Too Large\n"));
        }
        let head = request.method() == http::Method::HEAD;
        let (parts, mut body) = request.into_parts();
        let version = parts.version;
        let request = http::Request::from_parts(parts, &mut body);
        let mut answer = answer(server, request, peer.as_ref(), Some(badge)).await;
        let is_spent = is_spent(&mut body, answer.status(), limits).await;
        if version < http::Version::HTTP_2 && !is_spent {
            answer.headers_mut().insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
        }
        if answer.status() == http::StatusCode::PAYLOAD_TOO_LARGE
            && let Some(times) = notices.body.times()
        {
            tracing::info!(times, "the body of a request is too large");
        }
        Ok(pulse.watched(if head { without_body(answer) } else { answer }))
    }
}

/// Whether nothing of a request's body is left to come, so that the next request can follow it. Of one that was refused
/// before its body was read, the rest is passed over, if there is not too much of it: many clients look for an answer only
/// when they have sent everything, and take a reset before that for the answer.
async fn is_spent(body: &mut Incoming, status: http::StatusCode, limits: &ConnectionLimits) -> bool {
    if http_body::Body::is_end_stream(body) {
        return true;
    }
    let (most, time) = if status == http::StatusCode::UNAUTHORIZED {
        (limits.unread_of_strangers, limits.patience_with_strangers)
    } else {
        (limits.unread, limits.headers)
    };
    let rest = async {
        let mut passed = 0;
        while let Some(frame) = body.frame().await {
            passed += frame.ok()?.data_ref().map_or(0, bytes::Bytes::len);
            if passed > most {
                return None;
            }
        }
        Some(())
    };
    tokio::time::timeout(time, rest).await.ok().flatten().is_some()
}

/// The bytes of a request before its body, as HTTP/1 writes them.
fn head_bytes<B>(request: &http::Request<B>) -> usize {
    let uri = request.uri().path_and_query().map_or(1, |path| path.as_str().len());
    let line = request.method().as_str().len() + " ".len() + uri + " HTTP/1.1\r\n".len();
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    line + headers.sum::<usize>() + "\r\n".len()
}

/// Tells why a connection ended early: most peers just leave, but some have reached a limit.
fn ended_early(error: &(dyn std::error::Error + 'static), notices: &Notices) {
    let ours = error.downcast_ref::<hyper::Error>();
    let cause = std::iter::successors(Some(error), |error| error.source()).last().map(ToString::to_string);
    let cause = cause.unwrap_or_default();
    let told = match ours {
        Some(error) if error.is_parse_too_large() => notices.headers.times(),
        Some(error) if error.is_timeout() => notices.late.times(),
        Some(_) if cause.contains("calm") || cause.contains("too_many") => notices.abuse.times(),
        Some(_) | None => None,
    };
    match told {
        Some(times) => tracing::info!(%error, cause, times, "a connection is closed: a limit is reached"),
        None => tracing::debug!(%error, "a connection ended early"),
    }
}

/// Every timeout of hyper needs its timer: without one it does nothing, and says nothing.
fn builder(limits: &ConnectionLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_headers(limits.header_count)
        .max_buf_size(limits.header_bytes as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        .max_pending_accept_reset_streams(limits.pending_resets)
        .max_local_error_reset_streams(limits.error_resets)
        .max_send_buf_size(limits.send_buffer)
        .initial_stream_window_size(limits.receive_buffer)
        .initial_connection_window_size(limits.receive_buffer)
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.ping);
    builder
}

/// The answer to HEAD: all but the body, which HTTP/2 clients take for a fault.
fn without_body(response: http::Response<Body>) -> http::Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = http_body::Body::size_hint(&body).exact() {
        parts.headers.insert(http::header::CONTENT_LENGTH, length.into());
    }
    http::Response::from_parts(parts, http_body_util::Empty::new().boxed_unsync())
}

/// Who is at the other end, if they have shown a certificate that we believe.
fn peer(server: &Server, tls: &rustls::ServerConnection) -> Option<Peer> {
    let identity = server.access().identity();
    identity.clients.as_ref()?.peer(tls.peer_certificates()?, server.world().clock.now())
}

/// Answers a request from outside: nothing of it is looked at, and nothing of its body read, before it is known who
/// sent it.
async fn answer<B>(
    server: &Server,
    mut request: http::Request<B>,
    peer: Option<&Peer>,
    badge: Option<&Arc<Badge>>,
) -> http::Response<Body>
where
    B: http_body::Body<Data: Send> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let user: User = match server.authenticate(request.headers(), peer) {
        Ok(user) => user,
        Err(status) => {
            let encoding = respond::plain(request.headers());
            return respond::encoded(encoding, respond::failure(&status)).await;
        }
    };
    if let Some(badge) = badge {
        badge.known();
    }
    request.extensions_mut().insert(user);
    server.answer(request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Pki;
    use crate::target::{Route, route};
    use concert_world::World;
    use http_body_util::Full;

    /// A body that nobody may read.
    struct Unread;

    impl http_body::Body for Unread {
        type Data = bytes::Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Infallible>>> {
            panic!("the body is read");
        }
    }

    /// One path for every sort of route. A new sort does not compile before it is here, and the test fails before it
    /// has a path.
    const SORTS: usize = 9;

    fn sort(path: &str) -> usize {
        match route(path) {
            Some(Route::Discovery(_)) => 0,
            Some(Route::OpenApi(_)) => 1,
            Some(Route::OpenApiV2) => 2,
            Some(Route::Version) => 3,
            Some(Route::Health(_)) => 4,
            Some(Route::Resource(_)) => 5,
            Some(Route::Backup) => 6,
            Some(Route::Index) => 7,
            None => 8,
        }
    }

    /// Paths of every route there is: all resources, from the registry, and all else.
    fn paths(server: &Server) -> Vec<String> {
        let fixed = [
            "/",
            "/api",
            "/apis",
            "/api/v1",
            "/openapi/v2",
            "/openapi/v3",
            "/openapi/v3/api/v1",
            "/version",
            "/healthz",
            "/livez",
            "/readyz",
            "/readyz/ping",
            crate::BACKUP_PATH,
            "/foo",
        ];
        let mut paths: Vec<String> = fixed.iter().map(ToString::to_string).collect();
        for ((group, version), resources) in server.kinds().group_versions() {
            let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
            paths.push(base.clone());
            for (resource, _) in resources {
                let scope = if resource.namespaced { "/namespaces/default" } else { "" };
                let collection = format!("{base}{scope}/{}", resource.id.resource);
                paths.extend(
                    ["", "?watch=1", "/x", "/x/status", "/x/scale", "/x/token"].map(|end| format!("{collection}{end}")),
                );
            }
        }
        let found: std::collections::BTreeSet<usize> =
            paths.iter().map(|path| sort(path.split('?').next().unwrap_or_default())).collect();
        assert_eq!(found, (0..SORTS).collect(), "every sort of route has a path here");
        paths
    }

    fn request<B>(method: &str, path: &str, token: Option<&str>, body: B) -> http::Request<B> {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        request.body(body).unwrap()
    }

    async fn token(server: &Server, administrator: &str, spec: &str) -> String {
        use http_body_util::BodyExt;
        let path = "/api/v1/namespaces/default/serviceaccounts/sa/token";
        let body = Full::<bytes::Bytes>::from(format!("{{\"spec\":{spec}}}"));
        let answer = answer(server, request("POST", path, Some(administrator), body), None, None).await;
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let object: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        format!("Bearer {}", object["status"]["token"].as_str().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn every_route_is_closed_to_whoever_is_not_known() {
        let world = World::simulated(1);
        let pki = Pki::ephemeral(&world).unwrap();
        let server = Server::in_memory(world).await;
        server.know(Arc::new(pki.identity().unwrap()));
        let administrator = format!("Bearer {}", pki.token().expose());
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let account = Full::<bytes::Bytes>::from("{\"metadata\":{\"name\":\"sa\"}}");
        assert_eq!(
            answer(&server, request("POST", accounts, Some(&administrator), account), None, None).await.status(),
            201
        );
        let expired = token(&server, &administrator, "{}").await;
        tokio::time::advance(std::time::Duration::from_secs(3600)).await;
        let good = token(&server, &administrator, "{}").await;
        let other = token(&server, &administrator, "{\"audiences\":[\"other\"]}").await;
        let forged = format!("{}x", &good[..good.len() - 1]);
        let bad = [
            None,
            Some("Bearer wrong"),
            Some("Basic wrong"),
            Some(""),
            Some(expired.as_str()),
            Some(&other),
            Some(&forged),
        ];
        let paths = paths(&server);
        for path in &paths {
            for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"] {
                for token in bad {
                    let answer = answer(&server, request(method, path, token, Unread), None, None).await;
                    assert_eq!(answer.status(), 401, "{method} {path} {token:?}");
                }
            }
            for token in [&administrator, &good] {
                let answer =
                    answer(&server, request("GET", path, Some(token), Full::<bytes::Bytes>::default()), None, None)
                        .await;
                assert_ne!(answer.status(), 401, "{path}");
            }
        }
        assert!(paths.len() > 100, "{}", paths.len());
    }
}
