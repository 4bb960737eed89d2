//! The connection to a provider, and the news of its loss.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_util::either::Either;
use tonic::transport::{Channel, ClientTlsConfig};

use crate::endpoint::{Endpoint, Target};

/// How long opening a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// After how much silence TCP asks whether the peer still exists. (HTTP/2 pings below five minutes make a Go server
/// hang up, so there are none.)
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// One HTTP/2 connection: opened when first needed, opened again when lost.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) channel: Channel,
    losses: watch::Receiver<u64>,
}

impl Line {
    /// A line to `endpoint`; nothing is sent yet.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, tonic::transport::Error> {
        let (lost, losses) = watch::channel(0);
        let (scheme, authority) = match (&endpoint.target, endpoint.tls) {
            (Target::Unix(_), _) => ("http", "localhost".to_owned()),
            (Target::Tcp { host, port }, tls) => (if tls { "https" } else { "http" }, authority(host, *port)),
        };
        let mut builder =
            tonic::transport::Endpoint::from_shared(format!("{scheme}://{authority}"))?.connect_timeout(CONNECT);
        if let (Target::Tcp { host, .. }, true) = (&endpoint.target, endpoint.tls) {
            builder = builder.tls_config(ClientTlsConfig::new().with_native_roots().domain_name(host))?;
        }
        let target = endpoint.target.clone();
        let connector = tower::service_fn(move |_: Uri| open(target.clone(), lost.clone()));
        Ok(Self { channel: builder.connect_with_connector_lazy(connector), losses })
    }

    /// Changes each time the connection is lost.
    pub(crate) fn losses(&self) -> watch::Receiver<u64> {
        self.losses.clone()
    }
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

async fn open(target: Target, lost: watch::Sender<u64>) -> io::Result<TokioIo<Wire>> {
    let inner = match target {
        Target::Unix(path) => Either::Right(UnixStream::connect(path).await?),
        Target::Tcp { host, port } => {
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            sockopt::set_socket_keepalive(&stream, true)?;
            sockopt::set_tcp_keepidle(&stream, TCP_KEEPALIVE)?;
            Either::Left(stream)
        }
    };
    Ok(TokioIo::new(Wire { inner, _loss: Loss(lost) }))
}

/// Tells of a lost connection when the socket is dropped, which hyper does as soon as the peer is gone.
struct Loss(watch::Sender<u64>);

impl Drop for Loss {
    fn drop(&mut self) {
        self.0.send_modify(|losses| *losses += 1);
    }
}

struct Wire {
    inner: Either<TcpStream, UnixStream>,
    _loss: Loss,
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
