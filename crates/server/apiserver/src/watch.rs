//! Watching: events of the store, as a stream of lines.
//!
//! A watcher has no buffer: it reads the shared history at its own pace, and a watcher too slow for the window gets
//! 410, as one that comes back too late. An event is encoded once for all watchers of its version.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use concert_api::{ObjectKey, Status};
use concert_store::{Event, EventKind, RevisionError};
use futures::Stream;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Server;
use crate::beside::{Parsed, Stored};
use crate::encode;
use crate::respond::Form;
use crate::select::Selection;
use crate::target::{Query, Target};

/// Events taken from the history at once.
const BATCH: usize = 256;
/// Bytes sent at once.
const PIECE: usize = 64 << 10;
/// A watcher that asked for bookmarks gets one this often.
const BOOKMARK: Duration = Duration::from_secs(60);
/// A watch without a deadline of its own ends after 30 to 60 minutes.
const SHORTEST: Duration = Duration::from_secs(30 * 60);

impl Server {
    /// GET with `watch=true`.
    pub(crate) async fn watch(
        &self,
        target: &Target,
        query: &Query,
        form: Form,
    ) -> Result<impl Stream<Item = Bytes> + Send + 'static + use<>, Status> {
        let selection = Selection::of(target, query)?;
        let asked = crate::read::revision("resourceVersion", &query.resource_version)?;
        let wants_state = check_initial_events(query)?;
        let own = self.world().random.below(SHORTEST.as_secs());
        let timeout = query.timeout_seconds.map_or(SHORTEST + Duration::from_secs(own), Duration::from_secs);
        if wants_state && let Some(asked) = asked {
            self.wait_for(asked).await?;
        }
        let snapshot = self.store().snapshot();
        let mut watcher = Watcher {
            server: self.clone(),
            target: target.clone(),
            include_object: query.include_object.clone(),
            selection,
            form,
            bookmarks: query.bookmarks,
            last: asked.unwrap_or(0),
            state: VecDeque::new(),
            state_end: None,
            revisions: self.store().revisions(),
            stop: self.stopping(),
            deadline: Instant::now() + timeout,
            next_bookmark: Instant::now() + BOOKMARK,
            ended: false,
            has_columns: AtomicBool::new(false),
        };
        if wants_state {
            let all = snapshot.range(&target.resource.stored_as, watcher.selection.namespace.as_deref(), None);
            watcher.state = all
                .filter(|(key, entry)| watcher.selection.matches(key, entry))
                .map(|(_, entry)| std::sync::Arc::clone(entry))
                .collect();
            watcher.last = snapshot.revision();
            watcher.state_end = (query.initial_events == Some(true) && query.bookmarks).then_some(watcher.last);
        } else if let Err(RevisionError::Future { asked, current }) = self.store().events_after(watcher.last, 0) {
            tracing::debug!(asked, current, "a watch begins in the future");
            self.wait_for(asked).await?;
        }
        Ok(futures::stream::unfold(watcher, |mut watcher| async move {
            let piece = watcher.next().await?;
            Some((piece, watcher))
        }))
    }
}

/// Whether the watch begins with the present objects.
fn check_initial_events(query: &Query) -> Result<bool, Status> {
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    let mut forbid = |why: &str| errors.push(concert_api::FieldError::forbidden(field, why));
    let found = query.version_match.as_str();
    if query.initial_events.is_some() && found != "NotOlderThan" {
        forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if query.initial_events.is_none() && !found.is_empty() {
        forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    }
    if !query.continue_token.is_empty() {
        forbid("resourceVersionMatch is forbidden when continue is provided");
    }
    if !matches!(found, "" | "NotOlderThan") {
        let fault = concert_api::Fault::NotSupported(found.into(), vec!["NotOlderThan".into()]);
        errors.push(concert_api::FieldError::new(field, fault, ""));
    }
    crate::read::refuse_options(&errors)?;
    let from_now = query.resource_version.is_empty() || query.resource_version == "0";
    Ok(query.initial_events.unwrap_or(from_now))
}

struct Watcher {
    server: Server,
    target: Target,
    include_object: String,
    selection: Selection,
    form: Form,
    bookmarks: bool,
    /// The revision up to which everything has been sent.
    last: u64,
    /// Present objects still to be sent.
    state: VecDeque<std::sync::Arc<Stored>>,
    /// The revision of the bookmark that ends them, if the client wants one.
    state_end: Option<u64>,
    revisions: watch::Receiver<u64>,
    stop: watch::Receiver<bool>,
    deadline: Instant,
    next_bookmark: Instant,
    ended: bool,
    /// Only the first table of a watch has columns.
    has_columns: AtomicBool,
}

impl Watcher {
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ended {
                return None;
            }
            let mut piece = BytesMut::new();
            self.push_state(&mut piece);
            if piece.is_empty() {
                self.push_events(&mut piece);
            }
            if !piece.is_empty() {
                return Some(piece.freeze());
            }
            tokio::select! {
                biased;
                _ = self.stop.wait_for(|stop| *stop) => return None,
                () = tokio::time::sleep_until(self.deadline) => self.ended = true,
                changed = self.revisions.changed() => self.ended = changed.is_err(),
                () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {}
            }
            if self.bookmarks && (self.ended || Instant::now() >= self.next_bookmark) {
                self.next_bookmark = Instant::now() + BOOKMARK;
                return Some(line("BOOKMARK", &self.bookmark(json!({}))));
            }
        }
    }

    fn push_state(&mut self, piece: &mut BytesMut) {
        while piece.len() < PIECE
            && let Some(entry) = self.state.pop_front()
        {
            piece.extend_from_slice(&self.frame("ADDED", &entry));
        }
        if self.state.is_empty()
            && let Some(revision) = self.state_end.take()
        {
            debug_assert_eq!(revision, self.last);
            let end = self.bookmark(json!({"k8s.io/initial-events-end": "true"}));
            piece.extend_from_slice(&line("BOOKMARK", &end));
        }
    }

    fn push_events(&mut self, piece: &mut BytesMut) {
        loop {
            self.revisions.borrow_and_update();
            let events = match self.server.store().events_after(self.last, BATCH) {
                Ok(events) => events,
                Err(error) => {
                    let floor = self.server.store().floor();
                    let message = format!("too old resource version: {} ({floor})", self.last);
                    tracing::debug!(%error, "a watch is too old");
                    piece.extend_from_slice(&line("ERROR", &Status::expired(message).to_json()));
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
            }
            if !more || piece.len() >= PIECE {
                return;
            }
        }
    }

    /// An object that begins or ceases to fit the selection comes or goes, for this watcher.
    fn push_event(&self, piece: &mut BytesMut, event: &Event<Parsed>) {
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
                event.encoded(|event| self.frame(natural, &event.new))
            }
            _ => self.frame(kind, &event.new),
        };
        piece.extend_from_slice(&frame);
    }

    /// The line of an object that goes, as it was.
    fn gone(&self, old: &Stored, revision: u64) -> Bytes {
        let (resource, version) = (&self.target.resource, self.target.version());
        let object = encode::tree(resource, version, old).map(|mut object| {
            let revision = revision.to_string();
            concert_api::meta::set_text(&mut object, "resourceVersion", revision.clone());
            match self.form {
                Form::Object | Form::AggregatedDiscovery(_) => encode::finished(version, &object, &revision),
                Form::Metadata => crate::table::metadata_only(&object).to_string().into(),
                Form::Table => self.row(&object, &revision),
            }
        });
        Self::event("DELETED", object)
    }

    fn is_storage_version(&self) -> bool {
        self.target.version().storage
    }

    /// One line: the event and the object in the form the client wants.
    fn frame(&self, kind: &str, entry: &Stored) -> Bytes {
        let (resource, version) = (&self.target.resource, self.target.version());
        let object = match self.form {
            Form::Object | Form::AggregatedDiscovery(_) => Ok(encode::served(resource, version, entry)),
            Form::Metadata => self.server.shaped(&self.target, &Query::default(), self.form, entry),
            Form::Table => {
                encode::tree(resource, version, entry).map(|object| self.row(&object, &entry.revision.to_string()))
            }
        };
        Self::event(kind, object)
    }

    fn event(kind: &str, object: Result<Bytes, Status>) -> Bytes {
        match object {
            Ok(object) => {
                let mut frame = BytesMut::with_capacity(object.len() + 40);
                frame.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
                frame.extend_from_slice(&object);
                frame.extend_from_slice(b"}\n");
                frame.freeze()
            }
            Err(status) => line("ERROR", &status.to_json()),
        }
    }

    /// A table of one row, without columns but for the first.
    fn row(&self, object: &Value, revision: &str) -> Bytes {
        let query = Query { include_object: self.include_object.clone(), ..Query::default() };
        let metadata = json!({"resourceVersion": revision});
        let objects = std::slice::from_ref(object);
        let mut table = crate::table::table(&self.target, &query, objects, &metadata, self.server.now());
        if self.has_columns.swap(true, Ordering::Relaxed) {
            table["columnDefinitions"] = Value::Null;
        }
        table.to_string().into()
    }

    fn bookmark(&self, annotations: Value) -> Value {
        let gvk = &self.target.version().gvk;
        let mut metadata = json!({"resourceVersion": self.last.to_string()});
        if annotations.as_object().is_some_and(|map| !map.is_empty()) {
            metadata["annotations"] = annotations;
        }
        let object = json!({"kind": gvk.kind, "apiVersion": gvk.api_version(), "metadata": metadata});
        match self.form {
            Form::Table => json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": self.last.to_string()},
                "columnDefinitions": [], "rows": [],
            }),
            Form::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
            }
            Form::Object | Form::AggregatedDiscovery(_) => object,
        }
    }
}

fn is_deleting(entry: &Stored) -> bool {
    entry.beside.object.as_ref().is_some_and(concert_api::Object::is_deleting)
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}
