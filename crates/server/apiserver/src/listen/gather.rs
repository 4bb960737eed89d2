//! Many small frames, few writes.
//!
//! HTTP/2 flushes after every frame. When 50 watchers of one connection are told of a change, that is 50 TLS records and 50
//! system calls, here and at the reader. A [`Gathered`] connection puts a flush off until the connection is polled again,
//! behind what else is ready to run: by then the other frames are there, too. One client alone waits for one turn of the
//! scheduler.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// So much is gathered: one TLS record.
const RECORD: usize = 16 << 10;

/// A connection whose small writes go out together. For HTTP/2 only, which reads whenever it is polled: a flush that was put
/// off is made by the next read.
pub(super) struct Gathered<S> {
    inner: S,
    /// Written, and not yet given to `inner`.
    waiting: BytesMut,
    flush: Flush,
}

/// How things stand with what was written since the last flush.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// There is nothing.
    Done,
    /// Nobody has asked for a flush.
    Unasked,
    /// One was asked for, and has been put off.
    Due,
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, waiting: BytesMut::new(), flush: Flush::Done }
    }

    /// Gives all that waits to `inner`.
    fn poll_empty(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            match ready!(Pin::new(&mut self.inner).poll_write(context, &self.waiting))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.waiting.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_flush_now(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_empty(context))?;
        ready!(Pin::new(&mut self.inner).poll_flush(context))?;
        self.flush = Flush::Done;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.flush == Flush::Due
            && let Poll::Ready(Err(error)) = self.poll_flush_now(context)
        {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.flush == Flush::Done {
            self.flush = Flush::Unasked;
        }
        if self.waiting.len() + length > RECORD {
            ready!(self.poll_empty(context))?;
        }
        if length > RECORD {
            return Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        }
        for slice in slices {
            self.waiting.extend_from_slice(slice);
        }
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.flush == Flush::Unasked {
            self.flush = Flush::Due;
            context.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush_now(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// What the other end has received by now.
    async fn received(peer: &mut tokio::io::DuplexStream) -> usize {
        let mut bytes = [0; 4 * RECORD];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *peer).poll_read(context, &mut buffer)));
        let _ = read.await;
        buffer.filled().len()
    }

    #[tokio::test]
    async fn flushed_frames_go_out_together_at_the_next_read() {
        let (ours, mut peer) = tokio::io::duplex(4 * RECORD);
        let mut ours = Gathered::new(ours);
        for _ in 0..3 {
            ours.write_all(b"frame").await.unwrap();
            ours.flush().await.unwrap();
        }
        assert_eq!(received(&mut peer).await, 0);
        peer.write_all(b"x").await.unwrap();
        assert_eq!(ours.read_u8().await.unwrap(), b'x');
        assert_eq!(received(&mut peer).await, 15);
    }

    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn only_what_is_new_is_flushed() {
        let (ours, _peer) = tokio::io::duplex(4 * RECORD);
        let mut ours = Gathered::new(ours);
        let woken = std::sync::Arc::new(Woken::default());
        let waker = std::task::Waker::from(std::sync::Arc::clone(&woken));
        let context = &mut Context::from_waker(&waker);
        let is_woken_by_flush = |ours: &mut Gathered<_>| {
            let is_ready = Pin::new(ours).poll_flush(&mut Context::from_waker(&waker)).is_ready();
            is_ready && woken.0.swap(false, std::sync::atomic::Ordering::Relaxed)
        };
        assert!(!is_woken_by_flush(&mut ours));
        assert!(Pin::new(&mut ours).poll_write(context, b"frame").is_ready());
        assert!(is_woken_by_flush(&mut ours));
        let mut byte = [0];
        assert!(Pin::new(&mut ours).poll_read(context, &mut ReadBuf::new(&mut byte)).is_pending());
        assert!(!is_woken_by_flush(&mut ours), "or the connection would be polled for ever");
    }

    #[tokio::test]
    async fn a_record_does_not_wait_and_order_is_kept() {
        let (ours, mut peer) = tokio::io::duplex(4 * RECORD);
        let mut ours = Gathered::new(ours);
        ours.write_all(&[1; 10]).await.unwrap();
        ours.write_all(&[2; RECORD]).await.unwrap();
        assert_eq!(received(&mut peer).await, 10, "no room for both");
        ours.write_all(&[3; RECORD + 1]).await.unwrap();
        ours.shutdown().await.unwrap();
        let mut all = Vec::new();
        peer.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, [vec![2; RECORD], vec![3; RECORD + 1]].concat());
    }

    #[tokio::test]
    async fn who_flushes_is_woken_and_a_full_peer_is_waited_for() {
        let (ours, mut peer) = tokio::io::duplex(8);
        let mut ours = Gathered::new(ours);
        let sent = tokio::spawn(async move {
            ours.write_all(&[7; 100]).await.unwrap();
            ours.flush().await.unwrap();
            // As HTTP/2 does whenever it is polled.
            let _ = ours.read_u8().await;
        });
        let mut all = [0; 100];
        peer.read_exact(&mut all).await.unwrap();
        assert_eq!(all, [7; 100]);
        drop(peer);
        sent.await.unwrap();
    }
}
