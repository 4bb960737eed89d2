//! Readers that do not read. A body that has given a piece is asked for the next one as soon as the last one is on its
//! way; one that is not asked for long has a reader that stands still, and its connection is cut.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::respond::Body;

/// Since when a body waits for its reader; `None` while it is being asked.
type Waiting = Mutex<Option<Instant>>;

/// What is known of the readers of one connection.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    bodies: Mutex<Vec<Weak<Waiting>>>,
    /// Requests being answered, and when the last one ended.
    active: Mutex<(usize, Option<Instant>)>,
}

impl Pulse {
    /// An answer whose reader is watched.
    pub(super) fn watched(self: &Arc<Self>, response: Response<Body>) -> Response<Body> {
        response.map(|body| {
            let waiting = Arc::new(Waiting::default());
            let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
            bodies.retain(|body| body.strong_count() > 0);
            bodies.push(Arc::downgrade(&waiting));
            drop(bodies);
            Watched { body, waiting, _active: Active::new(self) }.boxed_unsync()
        })
    }

    /// When the reader who has stood still the longest will have done so for `limit`.
    pub(super) fn stalls_at(&self, limit: Duration) -> Option<Instant> {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = bodies.iter().filter_map(Weak::upgrade);
        let since = waiting.filter_map(|waiting| *waiting.lock().unwrap_or_else(PoisonError::into_inner));
        since.min().map(|since| since + limit)
    }

    /// When nothing will have been answered for `limit`, if nothing is now; `began` is when the connection did.
    pub(super) fn idles_at(&self, began: Instant, limit: Duration) -> Option<Instant> {
        let (count, last) = *self.active.lock().unwrap_or_else(PoisonError::into_inner);
        (count == 0).then(|| last.unwrap_or(began) + limit)
    }

    /// Requests being answered.
    pub(super) fn active(&self) -> usize {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A request being answered.
pub(super) struct Active(Arc<Pulse>);

impl Active {
    pub(super) fn new(pulse: &Arc<Pulse>) -> Self {
        pulse.active.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        Self(Arc::clone(pulse))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut active = self.0.active.lock().unwrap_or_else(PoisonError::into_inner);
        *active = (active.0 - 1, Some(Instant::now()));
    }
}

struct Watched {
    body: Body,
    waiting: Arc<Waiting>,
    _active: Active,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let since = matches!(polled, Poll::Ready(Some(_))).then(Instant::now);
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = since;
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::respond;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn only_who_does_not_read_stands_still() {
        let pulse = Arc::new(Pulse::default());
        let pieces = futures::stream::iter([Bytes::from("a"), Bytes::from("b")]);
        let endless = futures::StreamExt::chain(pieces, futures::stream::pending());
        let mut body = pulse.watched(respond::stream(endless)).into_body();
        tokio::time::advance(2 * LIMIT).await;
        assert_eq!(pulse.stalls_at(LIMIT), None, "nothing has been asked for yet");
        body.frame().await.unwrap().unwrap();
        let since = Instant::now();
        tokio::time::advance(LIMIT / 2).await;
        assert_eq!(pulse.stalls_at(LIMIT), Some(since + LIMIT));
        body.frame().await.unwrap().unwrap();
        assert_eq!(pulse.stalls_at(LIMIT), Some(Instant::now() + LIMIT));
        // A reader who has everything, and waits for more, may wait forever.
        assert!(futures::poll!(body.frame()).is_pending());
        tokio::time::advance(100 * LIMIT).await;
        assert_eq!((pulse.stalls_at(LIMIT), pulse.idles_at(since, LIMIT), pulse.active()), (None, None, 1));
        drop(body);
        assert_eq!((pulse.stalls_at(LIMIT), pulse.active()), (None, 0));
        assert_eq!(pulse.idles_at(since, LIMIT), Some(Instant::now() + LIMIT));
    }
}
