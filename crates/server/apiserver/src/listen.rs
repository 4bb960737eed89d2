//! The TLS listener, with limits on everything a peer can ask for.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::access::Identity;
use crate::auth::User;
use crate::auth::peer::Peer;
use crate::pki::{Pki, PkiError};
use crate::respond::{self, Body};
use crate::server::Server;

/// Connections at once; further ones wait.
const CONNECTIONS: usize = 1000;
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(30);
const HEADER_BYTES: u32 = 16 << 10;
/// client-go puts all its watches on one connection.
const STREAMS: u32 = 1000;
/// How long requests may take to end once the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}; choose another address with --listen (port 0 picks a free one)")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// There are no certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
}

/// A bound address, ready to serve.
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
    tls: TlsAcceptor,
    identity: Arc<Identity>,
}

impl Listener {
    /// Binds an address; port 0 picks a free one.
    ///
    /// # Errors
    /// The address is in use or not ours, or no certificate can be made for it.
    pub async fn bind(address: SocketAddr, pki: &Pki) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Bind { address, source };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let bound = tcp.local_addr().map_err(failed)?;
        let tls = TlsAcceptor::from(pki.server_config(bound.ip())?);
        Ok(Self { tcp, address: bound, tls, identity: Arc::new(pki.identity()?) })
    }

    /// The URL it listens on.
    #[must_use]
    pub fn url(&self) -> String {
        let address = match self.address.ip() {
            ip if ip.is_unspecified() => SocketAddr::new([127, 0, 0, 1].into(), self.address.port()),
            _ => self.address,
        };
        format!("https://{address}")
    }

    /// Serves until `stop`; then ends watches, lets requests finish, and closes.
    pub async fn serve(self, server: Server, stop: CancellationToken) {
        server.know(Arc::clone(&self.identity));
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        loop {
            let permit = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                permit = Arc::clone(&permits).acquire_owned() => permit,
            };
            let (Ok(permit), Some(stream)) = (permit, self.accept(&stop).await) else { break };
            while connections.try_join_next().is_some() {}
            let (tls, server) = (self.tls.clone(), server.clone());
            let watcher = graceful.watcher();
            connections.spawn(connection(stream, permit, tls, server, watcher));
        }
        server.stop_watches();
        let ended = tokio::time::timeout(GRACE, graceful.shutdown()).await;
        if ended.is_err() {
            tracing::warn!("some connections did not end in time");
        }
        connections.shutdown().await;
    }

    async fn accept(&self, stop: &CancellationToken) -> Option<TcpStream> {
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                accepted = self.tcp.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    // Events are small and should not wait for more.
                    let _ = stream.set_nodelay(true);
                    return Some(stream);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
    tls: TlsAcceptor,
    server: Server,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let stream = match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let peer = Arc::new(peer(&server, stream.get_ref().1));
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (server, peer) = (server.clone(), Arc::clone(&peer));
        async move { Ok::<_, Infallible>(answer(&server, request, (*peer).as_ref()).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS).max_header_list_size(HEADER_BYTES);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Who is at the other end, if they have shown a certificate that we believe.
fn peer(server: &Server, tls: &rustls::ServerConnection) -> Option<Peer> {
    let identity = server.access().identity();
    identity.clients.as_ref()?.peer(tls.peer_certificates()?, server.world().clock.now())
}

/// Answers a request from outside: nothing of it is looked at, and nothing of its body read, before it is known who
/// sent it.
async fn answer(server: &Server, mut request: http::Request<Incoming>, peer: Option<&Peer>) -> http::Response<Body> {
    let user: User = match server.authenticate(request.headers(), peer) {
        Ok(user) => user,
        Err(status) => return respond::failure(&status),
    };
    request.extensions_mut().insert(user);
    server.answer(request).await
}
