//! The TLS listener, with limits on everything a peer can ask for.

mod connection;
mod gather;
mod places;
mod pulse;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::access::Identity;
use crate::pki::{Pki, PkiError};
use crate::seldom::Seldom;
use crate::server::Server;

use places::Places;

/// How long requests may take to end once the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// What a peer may ask of the listener. The defaults are meant for everybody; stricter ones are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at once. If there are more, the oldest that has not authenticated is closed; if all have, further
    /// ones wait to be accepted.
    pub connections: usize,
    /// For the TLS handshake.
    pub handshake: Duration,
    /// For the headers of an HTTP/1 request, counted from the end of the last one.
    pub headers: Duration,
    /// Bytes of the headers of a request.
    pub header_bytes: u32,
    /// Headers of an HTTP/1 request.
    pub header_count: usize,
    /// Bytes of the body of a refused request that are passed over, so that the answer is seen and the connection can go on;
    /// if there are more, an HTTP/1 connection is closed after the answer, and an HTTP/2 request reset.
    pub unread: usize,
    /// The same where it is not known who sent it.
    pub unread_of_strangers: usize,
    /// And for how long: what is small comes with the headers.
    pub patience_with_strangers: Duration,
    /// HTTP/2 requests at once on one connection: client-go puts all its watches on one.
    pub streams: u32,
    /// Requests that were taken back before they were looked at.
    pub pending_resets: usize,
    /// Requests that we took back because they were wrong.
    pub error_resets: usize,
    /// Bytes of an HTTP/2 answer that wait for a slow reader.
    pub send_buffer: usize,
    /// Bytes of bodies of HTTP/2 requests on one connection that have come and wait for us.
    pub receive_buffer: u32,
    /// How often an HTTP/2 peer is asked whether it is there, and how long it may take to say so.
    pub ping: Duration,
    /// Without a request.
    pub idle: Duration,
    /// How long a reader may stand still.
    pub stall: Duration,
    /// After this time, give or take a tenth, the peer is asked to connect anew.
    pub age: Duration,
    /// How long a connection that was told to end may take.
    pub grace: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 1000,
            handshake: Duration::from_secs(10),
            headers: Duration::from_secs(30),
            header_bytes: 16 << 10,
            header_count: 100,
            unread: 4 << 20,
            unread_of_strangers: 16 << 10,
            patience_with_strangers: Duration::from_secs(1),
            streams: 1000,
            pending_resets: 20,
            error_resets: 1024,
            send_buffer: 128 << 10,
            receive_buffer: 256 << 10,
            ping: Duration::from_secs(30),
            idle: Duration::from_secs(2 * 60),
            stall: Duration::from_secs(60),
            age: Duration::from_secs(30 * 60),
            // A watch may live for an hour, and ends by itself.
            grace: Duration::from_secs(5 * 60),
        }
    }
}

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
    limits: ConnectionLimits,
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
        let identity = Arc::new(pki.identity()?);
        Ok(Self { tcp, address: bound, tls, identity, limits: ConnectionLimits::default() })
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(self, limits: ConnectionLimits) -> Self {
        Self { limits, ..self }
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
        server.know(self.identity);
        serve(self.tcp, self.tls, self.limits, server, stop).await;
    }
}

/// Where connections come from.
trait Source: Send + Sync {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next one.
    fn next(&self) -> impl Future<Output = std::io::Result<Self::Stream>> + Send;
}

impl Source for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> std::io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Events are small and should not wait for more.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// When limits of connections were last told of.
#[derive(Debug, Default)]
struct Notices {
    handshake: Seldom,
    headers: Seldom,
    stalled: Seldom,
    late: Seldom,
    streams: Seldom,
    abuse: Seldom,
    body: Seldom,
    accept: Seldom,
}

async fn serve<S: Source>(
    source: S,
    tls: TlsAcceptor,
    limits: ConnectionLimits,
    server: Server,
    stop: CancellationToken,
) {
    let places = Places::new(limits.connections);
    let notices = Arc::new(Notices::default());
    let mut connections = JoinSet::new();
    let accept = async {
        loop {
            let stream = accepted(&source, &places, &notices).await;
            let place = places.take().await;
            while connections.try_join_next().is_some() {}
            let context = connection::Context {
                tls: tls.clone(),
                server: server.clone(),
                limits,
                stop: stop.clone(),
                place,
                notices: Arc::clone(&notices),
            };
            connections.spawn(connection::serve(stream, context));
        }
    };
    // Who is not served yet finds nobody.
    stop.run_until_cancelled(accept).await;
    server.stop_watches();
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
    connections.shutdown().await;
}

/// The next connection, however long it takes.
async fn accepted<S: Source>(source: &S, places: &Places, notices: &Notices) -> S::Stream {
    loop {
        match source.next().await {
            Ok(stream) => return stream,
            Err(error) => {
                if let Some(times) = notices.accept.times() {
                    tracing::warn!(%error, times, "cannot accept a connection");
                }
                // Most often there are no descriptors left.
                places.make_room();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
