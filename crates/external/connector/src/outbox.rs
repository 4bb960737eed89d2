//! Requests on their way out. What has not left yet can be taken back, and then never leaves.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use concert_protocol::external::Request;
use futures::Stream;

/// A place for one request; lock-step needs no more. Dropping it ends the stream of requests.
#[derive(Debug)]
pub(crate) struct Outbox(Arc<Mutex<Slot>>);

#[derive(Debug, Default)]
struct Slot {
    request: Option<Request>,
    closed: bool,
    waker: Option<Waker>,
}

impl Outbox {
    /// An outbox, and the stream that carries its requests away.
    pub(crate) fn new() -> (Self, Outgoing) {
        let slot = Arc::new(Mutex::new(Slot::default()));
        (Self(Arc::clone(&slot)), Outgoing(slot))
    }

    /// Leaves a request to be sent.
    pub(crate) fn put(&self, request: Request) {
        self.change(|slot| slot.request = Some(request));
    }

    /// Takes the request back. False if it has left, and so may have been received.
    pub(crate) fn take_back(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).request.take().is_some()
    }

    fn change(&self, change: impl FnOnce(&mut Slot)) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut slot);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.change(|slot| slot.closed = true);
    }
}

/// The requests, as tonic sends them.
pub(crate) struct Outgoing(Arc<Mutex<Slot>>);

impl Stream for Outgoing {
    type Item = Request;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Request>> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.request.take() {
            Some(request) => Poll::Ready(Some(request)),
            None if slot.closed => Poll::Ready(None),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, StreamExt};

    #[test]
    fn what_was_taken_back_never_leaves() {
        let (outbox, mut outgoing) = Outbox::new();
        outbox.put(Request::default());
        assert!(outbox.take_back());
        assert!(outgoing.next().now_or_never().is_none());
        outbox.put(Request::default());
        assert_eq!(outgoing.next().now_or_never(), Some(Some(Request::default())));
        assert!(!outbox.take_back());
        drop(outbox);
        assert_eq!(outgoing.next().now_or_never(), Some(None));
    }
}
