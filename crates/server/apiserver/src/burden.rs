//! What a request asks of the server before it is answered: its body, which has to come, and the work to be done.
//! Large ones wait here for room, so that they are few at a time.

use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use concert_api::Status;
use http::{HeaderMap, Method};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::Server;
use crate::auth::User;
use crate::budget::{self, Part};
use crate::kinds::definitions;
use crate::protobuf;
use crate::target::Target;

/// Larger request bodies are refused, as by the real server.
const BODY_LIMIT: usize = 3 << 20;
/// A body that takes longer than any request may.
const BODY_TIME: Duration = Duration::from_secs(60);
/// Larger bodies wait for room before they are read. As many as there may be writes at once have 12 MiB of this size.
const BULKY: usize = 64 << 10;
/// Work that takes more than this waits for room. As many as there may be writes at once take 50 MiB.
const SMALL: usize = 256 << 10;
/// Requests of more bytes than this get a thread of their own.
const LIGHT: usize = 32 << 10;

/// A body that has come, and the room that it takes.
pub(crate) struct Arrived {
    pub(crate) bytes: Bytes,
    pub(crate) room: Option<Part>,
}

/// Work to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burden {
    /// Others should not wait for it.
    is_long: bool,
    /// Bytes of memory that it may take.
    cost: usize,
}

impl Burden {
    /// The work with a text alone.
    pub(crate) fn of(text: &[u8]) -> Self {
        Self { is_long: text.len() > LIGHT, cost: budget::cost(text) }
    }

    fn is_large(self) -> bool {
        self.cost > SMALL
    }

    /// Does work that may take long where nobody else waits for it: threads share the processors fairly, tasks do not.
    /// (Tokio has no way to ask, so within a `LocalSet` on a runtime of many threads this panics: give the server a task
    /// of its own.)
    pub(crate) async fn carried<T: Send>(self, work: impl Future<Output = T> + Send) -> T {
        let runtime = Handle::current();
        if !self.is_long || runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
            return work.await;
        }
        tokio::task::block_in_place(|| if self.is_large() { alone(&runtime, work) } else { runtime.block_on(work) })
    }
}

/// Does work on a thread that does nothing else. The C library gives each thread memory of its own, and of what was freed
/// there returns only what nothing lies behind: the place of a large tree stays with the process because of something small
/// that came later. The memory of a thread that has ended is taken by the next one, so that it is not kept once for every
/// worker of the runtime.
fn alone<T: Send>(runtime: &Handle, work: impl Future<Output = T> + Send) -> T {
    let mut work = std::pin::pin!(work);
    let done = std::thread::scope(|scope| {
        let carry = || runtime.block_on(work.as_mut());
        let thread = std::thread::Builder::new().name("concert-large".into()).spawn_scoped(scope, carry);
        thread.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // Where there are no more threads it has not been begun.
    done.unwrap_or_else(|_| runtime.block_on(work))
}

impl Server {
    /// Reads a body of a request of this user; a large one when there is room for it. Until then nobody takes its bytes
    /// from the connection.
    pub(crate) async fn read_body<B>(&self, sender: Option<&User>, body: B) -> Result<Arrived, Status>
    where
        B: http_body::Body<Data: Send> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        tokio::time::timeout(BODY_TIME, self.gather(sender, body)).await.unwrap_or_else(|_| {
            let message = format!("Timeout: the request body did not arrive within {} seconds", BODY_TIME.as_secs());
            Err(Status::failure(504, "Timeout", message))
        })
    }

    async fn gather<B>(&self, sender: Option<&User>, body: B) -> Result<Arrived, Status>
    where
        B: http_body::Body<Data: Send> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let said = body.size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let mut body = pin!(Limited::new(body, BODY_LIMIT));
        let mut whole = BytesMut::new();
        let mut room = None;
        if let Some(length) = said.filter(|length| *length > BULKY) {
            room = self.room_for_body(sender, length.min(BODY_LIMIT)).await?;
            whole.reserve(length.min(BODY_LIMIT));
        }
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error {
                error if error.is::<LengthLimitError>() => Status::too_large(BODY_LIMIT),
                error => Status::bad_request(format!("cannot read the request body: {error}")),
            })?;
            let Ok(mut data) = frame.into_data() else { continue };
            if room.is_none() && whole.len() + data.remaining() > BULKY {
                // How long it will be is not known, and half of a body must not wait for the other halves of others.
                room = self.room_for_body(sender, BODY_LIMIT).await?;
            }
            if whole.is_empty() && body.is_end_stream() {
                return Ok(Arrived { bytes: data.copy_to_bytes(data.remaining()), room });
            }
            while data.has_remaining() {
                whole.extend_from_slice(data.chunk());
                data.advance(data.chunk().len());
            }
        }
        Ok(Arrived { bytes: whole.freeze(), room })
    }

    async fn room_for_body(&self, sender: Option<&User>, bytes: usize) -> Result<Option<Part>, Status> {
        self.access().counts().bodies.take(sender, bytes).await
    }

    /// Waits until there is room for this work, if it is large.
    pub(crate) async fn room_for(&self, sender: Option<&User>, burden: Burden) -> Result<Option<Part>, Status> {
        if burden.is_large() { self.access().counts().work.take(sender, burden.cost).await } else { Ok(None) }
    }

    /// How much there is to do: with the request, with the object it changes, and in part with the schema, whose
    /// defaults may be many. Definitions are compiled, and rules may take long for little.
    pub(crate) fn burden(&self, method: &Method, headers: &HeaderMap, target: &Target, body: &Bytes) -> Burden {
        if matches!(*method, Method::GET | Method::HEAD) {
            return Burden { is_long: false, cost: 0 };
        }
        let changed = target.name.is_some().then(|| target.named_key().ok()).flatten();
        let changed = changed.and_then(|key| self.store().snapshot().get(&key).map(|entry| entry.bytes.clone()));
        let changed = changed.unwrap_or_default();
        let sent = if protobuf::is_sent(headers) { budget::cost_of_protobuf(body) } else { budget::cost(body) };
        let bytes = body.len() + changed.len() + target.version().openapi.len() / 8;
        let is_ruled = target.resource.is_custom() && target.version().schema.has_rules();
        let is_odd = !body.is_empty() && (target.resource.id == definitions() || is_ruled);
        let cost = sent + budget::cost(&changed);
        Burden { is_long: is_odd || bytes > LIGHT || cost > SMALL, cost }
    }
}
