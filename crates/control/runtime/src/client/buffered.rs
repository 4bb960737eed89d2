//! A connection that is read in large pieces. TLS reads four kilobytes at a time, which is three calls of the kernel for
//! one Pod; a copy costs a tenth of them.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tower::ServiceExt;
use tower::util::MapResponse;

use super::route::Opener;

/// As much as two full records of TLS.
const PIECE: usize = 32 << 10;

/// Opens connections.
pub(super) type Connector = MapResponse<Opener, fn(TokioIo<TcpStream>) -> Buffered>;

/// What is opened, read in large pieces.
pub(super) fn buffered(opener: Opener) -> Connector {
    <Opener as ServiceExt<Uri>>::map_response(opener, Buffered::new as fn(_) -> _)
}

/// See the module.
pub(super) struct Buffered(TokioIo<BufReader<TcpStream>>);

impl Buffered {
    fn new(stream: TokioIo<TcpStream>) -> Self {
        Self(TokioIo::new(BufReader::with_capacity(PIECE, stream.into_inner())))
    }
}

impl Connection for Buffered {
    fn connected(&self) -> Connected {
        self.0.inner().get_ref().connected()
    }
}

impl Read for Buffered {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl Write for Buffered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
