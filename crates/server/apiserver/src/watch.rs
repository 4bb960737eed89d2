//! Watching: events of the store, as a stream of lines, or of frames in protobuf.
//!
//! A watcher has no buffer: it reads the shared history at its own pace, at most [`PIECE`] and one event at a time, and
//! a watcher too slow for the window gets 410, as one that comes back too late. An event is encoded once for all
//! watchers of its version that want that encoding.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use concert_api::{ObjectKey, Status};
use concert_schema::protobuf::{Encoder, framed};
use concert_store::{Event, EventKind, RevisionError};
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Server;
use crate::beside::{Parsed, Stored};
use crate::encode;
use crate::respond::{Encoding, Form, Wanted};
use crate::select::Selection;
use crate::target::{Query, Target};

/// Events taken from the history at once.
const BATCH: usize = 256;
/// Bytes sent at once, but for the rest of the last event: so much is held for a slow reader.
const PIECE: usize = 64 << 10;
/// A watcher that asked for bookmarks gets one this often.
const BOOKMARK: Duration = Duration::from_secs(60);
/// And one this long before its end.
const BEFORE_END: Duration = Duration::from_secs(2);
/// A watch without a deadline of its own ends after 30 to 60 minutes.
const SHORTEST: Duration = Duration::from_secs(30 * 60);

impl Server {
    /// GET with `watch=true`.
    pub(crate) async fn watch(
        &self,
        target: &Target,
        query: &Query,
        Wanted { form, encoding }: Wanted,
    ) -> Result<impl Stream<Item = Bytes> + Send + 'static + use<>, Status> {
        crate::read::options::check_watch(query)?;
        if matches!(form, Form::Table(_)) {
            crate::table::check_included(query)?;
        }
        let selection = Selection::of(target, query)?;
        let asked = crate::read::revision("resourceVersion", &query.resource_version)?.filter(|asked| *asked > 0);
        let wants_state = query.initial_events.unwrap_or(asked.is_none());
        let own = self.world().random.below(SHORTEST.as_secs());
        let timeout = query.timeout_seconds.map_or(SHORTEST + Duration::from_secs(own), Duration::from_secs);
        let refusal = match asked {
            Some(asked) if wants_state => self.wait_for(asked).await.err(),
            Some(_) | None => None,
        };
        let snapshot = self.store().snapshot();
        let deadline = Instant::now() + timeout;
        let mut watcher = Watcher {
            server: self.clone(),
            target: target.clone(),
            include_object: query.include_object.clone(),
            selection,
            form,
            encoder: (encoding == Encoding::Protobuf).then(|| EventEncoder::new(target, form)),
            bookmarks: query.bookmarks,
            columns_sent: false,
            last: asked.unwrap_or(snapshot.revision()),
            state: VecDeque::new(),
            state_end: None,
            refusal,
            revisions: self.store().revisions(),
            stop: self.stopping(),
            deadline,
            next_bookmark: next_bookmark(deadline),
            ended: false,
        };
        if wants_state && watcher.refusal.is_none() {
            let all = snapshot.range(&target.resource.stored_as, watcher.selection.namespace.as_deref(), None);
            watcher.state = all
                .filter(|(key, entry)| watcher.selection.matches(key, entry))
                .map(|(_, entry)| std::sync::Arc::clone(entry))
                .collect();
            watcher.last = snapshot.revision();
            // Without a word about it, a watch from nowhere is one with initial events, too.
            let from_nowhere = matches!(query.resource_version.as_str(), "" | "0") && query.version_match.is_empty();
            let is_list = query.initial_events.unwrap_or(from_nowhere);
            watcher.state_end = (is_list && query.bookmarks).then_some(watcher.last);
        }
        Ok(futures::stream::unfold(watcher, |mut watcher| async move {
            let piece = watcher.next().await?;
            Some((piece, watcher))
        }))
    }
}

/// When a watcher gets its next bookmark: every minute, and shortly before its end.
fn next_bookmark(deadline: Instant) -> Instant {
    let now = Instant::now();
    let regular = now + BOOKMARK;
    let last = deadline.checked_sub(BEFORE_END).filter(|last| *last > now);
    last.map_or(regular, |last| last.min(regular))
}

struct Watcher {
    server: Server,
    target: Target,
    include_object: String,
    selection: Selection,
    form: Form,
    /// If events are in protobuf.
    encoder: Option<EventEncoder>,
    bookmarks: bool,
    /// The columns of a table are told once.
    columns_sent: bool,
    /// The revision up to which everything has been sent.
    last: u64,
    /// Present objects still to be sent.
    state: VecDeque<std::sync::Arc<Stored>>,
    /// The revision of the bookmark that ends them, if the client wants one.
    state_end: Option<u64>,
    /// Why there is nothing to watch.
    refusal: Option<Status>,
    revisions: watch::Receiver<u64>,
    stop: watch::Receiver<bool>,
    deadline: Instant,
    next_bookmark: Instant,
    ended: bool,
}

impl Watcher {
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(refusal) = self.refusal.take() {
                self.ended = true;
                return Some(self.line("ERROR", &refusal.to_json()));
            }
            let mut piece = BytesMut::new();
            self.push_state(&mut piece);
            if piece.is_empty() {
                self.push_events(&mut piece);
            }
            if !piece.is_empty() {
                return Some(piece.freeze());
            }
            if self.ended {
                return None;
            }
            tokio::select! {
                biased;
                _ = self.stop.wait_for(|stop| *stop) => return None,
                () = tokio::time::sleep_until(self.deadline) => self.ended = true,
                changed = self.revisions.changed() => self.ended = changed.is_err(),
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {}
            }
            if self.bookmarks && !self.ended && Instant::now() >= self.next_bookmark {
                self.next_bookmark = next_bookmark(self.deadline);
                let bookmark = self.bookmark(&json!({}));
                return Some(self.line("BOOKMARK", &bookmark));
            }
        }
    }

    fn push_state(&mut self, piece: &mut BytesMut) {
        while piece.len() < PIECE
            && let Some(entry) = self.state.pop_front()
        {
            let frame = self.frame("ADDED", &entry);
            piece.extend_from_slice(&frame);
        }
        if self.state.is_empty()
            && let Some(revision) = self.state_end.take()
        {
            debug_assert_eq!(revision, self.last);
            let end = self.bookmark(&json!({"k8s.io/initial-events-end": "true"}));
            piece.extend_from_slice(&self.line("BOOKMARK", &end));
        }
    }

    fn push_events(&mut self, piece: &mut BytesMut) {
        loop {
            self.revisions.borrow_and_update();
            let events = match self.server.store().events_after(self.last, BATCH) {
                Ok(events) => events,
                // It waits for what comes.
                Err(RevisionError::Future { .. }) => return,
                Err(error @ RevisionError::Compacted { .. }) => {
                    let floor = self.server.store().floor();
                    let message = format!("too old resource version: {} ({floor})", self.last);
                    tracing::debug!(%error, "a watch is too old");
                    piece.extend_from_slice(&self.line("ERROR", &Status::expired(message).to_json()));
                    self.ended = true;
                    return;
                }
            };
            let more = events.len() == BATCH;
            for event in events {
                self.last = event.revision;
                if event.key.resource == self.target.resource.stored_as {
                    self.push_event(piece, &event);
                }
                if self.ends_the_kind(&event) {
                    self.ended = true;
                    return;
                }
                if piece.len() >= PIECE {
                    return;
                }
            }
            if !more {
                return;
            }
        }
    }

    /// Whether the definition of what is watched is gone: then nothing will come any more, and who watches should know.
    fn ends_the_kind(&self, event: &Event<Parsed>) -> bool {
        let is_gone = event.kind == EventKind::Delete && event.key.resource == crate::kinds::definitions();
        is_gone && *event.key.object.name == *self.target.resource.stored_as.to_string()
    }

    /// An object that begins or ceases to fit the selection comes or goes, for this watcher.
    fn push_event(&mut self, piece: &mut BytesMut, event: &Event<Parsed>) {
        let key: &ObjectKey = &event.key.object;
        let before = event.old.as_ref().filter(|old| self.selection.matches(key, old));
        let after = event.kind == EventKind::Put && self.selection.matches(key, &event.new);
        let kind = match (before.is_some(), after) {
            (false, false) => return,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        // Whole objects in the storage version, the usual case, are the same for all watchers.
        let natural = match event.kind {
            EventKind::Put if event.old.is_none() => "ADDED",
            EventKind::Put => "MODIFIED",
            EventKind::Delete => "DELETED",
        };
        // What goes is shown as it was before, at the revision of its going; deletions say that themselves, but for
        // one that took the last finalizer away.
        let was_held = event.kind == EventKind::Delete && before.is_some_and(|old| is_deleting(old));
        let frame = match before {
            Some(old) if kind == "DELETED" && (kind != natural || was_held) => self.gone(old, event.revision),
            _ if kind == natural && self.form == Form::Object && self.is_storage_version() => {
                let encoding = if self.encoder.is_some() {
                    concert_store::Encoding::Binary
                } else {
                    concert_store::Encoding::Text
                };
                event.encoded(encoding, |event| self.frame(natural, &event.new))
            }
            _ => self.frame(kind, &event.new),
        };
        piece.extend_from_slice(&frame);
    }

    /// The line of an object that goes, as it was.
    fn gone(&mut self, old: &Stored, revision: u64) -> Bytes {
        let object = self.last_seen(old, &revision.to_string());
        self.event("DELETED", object)
    }

    fn last_seen(&mut self, old: &Stored, revision: &str) -> Result<Bytes, Status> {
        let mut object = encode::tree(&self.target.resource, self.target.version(), old)?;
        concert_api::meta::set_text(&mut object, "resourceVersion", revision);
        Ok(match self.form {
            Form::Object | Form::AggregatedDiscovery(_) => encode::finished(self.target.version(), &object, revision),
            Form::Metadata(version, _) => crate::table::metadata_only(version, &object).to_string().into(),
            Form::Table(version) => self.table(version, object, revision)?.to_string().into(),
        })
    }

    fn is_storage_version(&self) -> bool {
        self.target.version().storage
    }

    /// One line or frame: the event and the object in the form the client wants.
    fn frame(&mut self, kind: &str, entry: &Stored) -> Bytes {
        let object = self.shaped(entry);
        self.event(kind, object)
    }

    fn event(&self, kind: &str, object: Result<Bytes, Status>) -> Bytes {
        match (object, &self.encoder) {
            (Ok(object), Some(encoder)) => encoder.frame(kind, &object),
            (Ok(object), None) => {
                let mut frame = BytesMut::with_capacity(object.len() + 40);
                frame.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
                frame.extend_from_slice(&object);
                frame.extend_from_slice(b"}\n");
                frame.freeze()
            }
            (Err(status), _) => self.line("ERROR", &status.to_json()),
        }
    }

    fn line(&self, kind: &str, object: &Value) -> Bytes {
        self.event(kind, Ok(object.to_string().into()))
    }

    fn shaped(&mut self, entry: &Stored) -> Result<Bytes, Status> {
        let Form::Table(version) = self.form else {
            return self.server.shaped(&self.target, &Query::default(), self.form, entry);
        };
        let object = encode::tree(&self.target.resource, self.target.version(), entry)?;
        let revision = entry.revision.to_string();
        Ok(self.table(version, object, &revision)?.to_string().into())
    }

    fn table(&mut self, version: &str, object: Value, revision: &str) -> Result<Value, Status> {
        let query = Query { include_object: self.include_object.clone(), ..Query::default() };
        let metadata = json!({"resourceVersion": revision});
        let mut table = crate::table::table(&self.target, &query, version, &object, &metadata, self.server.now())?;
        if std::mem::replace(&mut self.columns_sent, true) {
            table["columnDefinitions"] = Value::Null;
        }
        Ok(table)
    }

    fn bookmark(&mut self, annotations: &Value) -> Value {
        let gvk = &self.target.version().gvk;
        let mut metadata = json!({"resourceVersion": self.last.to_string()});
        if annotations.as_object().is_some_and(|map| !map.is_empty()) {
            metadata["annotations"] = annotations.clone();
        }
        let object = json!({"kind": gvk.kind, "apiVersion": gvk.api_version(), "metadata": metadata});
        match self.form {
            Form::Table(version) => {
                let revision = self.last.to_string();
                self.table(version, object, &revision).unwrap_or_else(|status| status.to_json())
            }
            Form::Metadata(version, _) => crate::table::metadata_only(version, &object),
            Form::Object | Form::AggregatedDiscovery(_) => object,
        }
    }
}

fn is_deleting(entry: &Stored) -> bool {
    entry.beside.object.as_ref().is_some_and(concert_api::Object::is_deleting)
}

/// Writes events in protobuf.
struct EventEncoder {
    /// Of what is watched.
    objects: Option<Encoder>,
}

impl EventEncoder {
    fn new(target: &Target, form: Form) -> Self {
        let objects = match form {
            Form::Metadata(version, _) => Encoder::new(version, "PartialObjectMetadata"),
            Form::Object | Form::Table(_) | Form::AggregatedDiscovery(_) => {
                let gvk = &target.version().gvk;
                Encoder::new(&gvk.api_version(), &gvk.kind)
            }
        };
        Self { objects }
    }

    /// An event; errors are about nothing that is watched.
    fn frame(&self, kind: &str, object: &[u8]) -> Bytes {
        let status = if kind == "ERROR" { Encoder::new("v1", "Status") } else { None };
        let encoded = status.as_ref().or(self.objects.as_ref()).map(|encoder| encoder.object(object));
        match encoded {
            Some(Ok(encoded)) => framed(kind, &encoded).into(),
            Some(Err(error)) => {
                tracing::error!(%error, "cannot write an event in protobuf");
                Bytes::new()
            }
            None => Bytes::new(),
        }
    }
}
