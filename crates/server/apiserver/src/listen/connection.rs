//! One connection: a handshake, requests, and its limits.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::ConnectionLimits;
use super::pulse::{Active, Pulse};
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
    pub(super) permit: OwnedSemaphorePermit,
}

/// Serves a connection to its end.
pub(super) async fn serve(stream: TcpStream, context: Context) {
    let Context { tls, server, limits, stop, permit } = context;
    let stream = match tokio::time::timeout(limits.handshake, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::info!("a TLS handshake took too long"),
    };
    let peer = Arc::new(peer(&server, stream.get_ref().1));
    let began = Instant::now();
    let age = server.world().random.jitter(limits.age, 0.1);
    let pulse = Arc::new(Pulse::default());
    let readers = Arc::clone(&pulse);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (server, peer, pulse) = (server.clone(), Arc::clone(&peer), Arc::clone(&readers));
        async move {
            let _active = Active::new(&pulse);
            let answer = answer(&server, request, (*peer).as_ref()).await;
            Ok::<_, Infallible>(pulse.watched(answer))
        }
    });
    let builder = builder(&limits);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut ticks = tokio::time::interval(limits.tick());
    let mut closing = None;
    loop {
        let now = tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                break;
            }
            () = stop.cancelled(), if closing.is_none() => Instant::now(),
            now = ticks.tick() => now,
        };
        if pulse.is_stalled(limits.stall) {
            tracing::info!("a connection is cut: its reader stands still");
            break;
        }
        let over = stop.is_cancelled() || began.elapsed() >= age || pulse.is_idle(began, limits.idle);
        if over && closing.is_none() {
            closing = Some(now);
            connection.as_mut().graceful_shutdown();
        }
        if closing.is_some_and(|since| since.elapsed() >= limits.grace) {
            tracing::info!("a connection is cut: it did not end in time");
            break;
        }
    }
    drop(permit);
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
        .keep_alive_interval(limits.ping)
        .keep_alive_timeout(limits.ping);
    builder
}

/// Who is at the other end, if they have shown a certificate that we believe.
fn peer(server: &Server, tls: &rustls::ServerConnection) -> Option<Peer> {
    let identity = server.access().identity();
    identity.clients.as_ref()?.peer(tls.peer_certificates()?, server.world().clock.now())
}

/// Answers a request from outside: nothing of it is looked at, and nothing of its body read, before it is known who
/// sent it.
async fn answer<B>(server: &Server, mut request: http::Request<B>, peer: Option<&Peer>) -> http::Response<Body>
where
    B: http_body::Body<Data: Send> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let user: User = match server.authenticate(request.headers(), peer) {
        Ok(user) => user,
        Err(status) => return respond::failure(&status),
    };
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
    const SORTS: usize = 8;

    fn sort(path: &str) -> usize {
        match route(path) {
            Some(Route::Discovery(_)) => 0,
            Some(Route::OpenApi(_)) => 1,
            Some(Route::OpenApiV2) => 2,
            Some(Route::Version) => 3,
            Some(Route::Health) => 4,
            Some(Route::Resource(_)) => 5,
            Some(Route::Backup) => 6,
            None => 7,
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
        let answer = answer(server, request("POST", path, Some(administrator), body), None).await;
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
        assert_eq!(answer(&server, request("POST", accounts, Some(&administrator), account), None).await.status(), 201);
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
                    let answer = answer(&server, request(method, path, token, Unread), None).await;
                    assert_eq!(answer.status(), 401, "{method} {path} {token:?}");
                }
            }
            for token in [&administrator, &good] {
                let answer =
                    answer(&server, request("GET", path, Some(token), Full::<bytes::Bytes>::default()), None).await;
                assert_ne!(answer.status(), 401, "{path}");
            }
        }
        assert!(paths.len() > 100, "{}", paths.len());
    }
}
