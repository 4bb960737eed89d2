//! A page as a document in protobuf, piece by piece.
//!
//! Its length stands at its beginning, so all items are written before the first is sent. As many as [`KEPT`] holds are
//! kept until then; of more only the length is, and they are written again when it is their turn.

use std::sync::Arc;

use bytes::Bytes;
use concert_api::Status;
use concert_schema::protobuf::{Encoder, ListEncoder};
use futures::Stream;

use super::Page;
use super::pieces::PIECE;
use crate::beside::Stored;
use crate::encode;
use crate::respond::Form;
use crate::table;
use crate::target::Target;

/// Bytes of items that are kept: all of a page of 500 Pods, as clients ask for them.
const KEPT: usize = 8 << 20;

/// How the items are written.
struct Writer {
    target: Target,
    form: Form,
    encoder: Encoder,
    list: ListEncoder,
}

/// The document.
pub(crate) fn pieces(
    target: &Target,
    form: Form,
    page: Page,
) -> Result<impl Stream<Item = Bytes> + Send + 'static + use<>, Status> {
    let writer = Writer::new(target, form, &page)?;
    let state = (writer, Work::Begun(page.entries));
    Ok(futures::stream::unfold(state, |(writer, work)| async move {
        let (piece, next) = match work {
            Work::Begun(entries) => writer.begin(entries).await,
            Work::Items(kept, rest) => writer.items(kept, rest),
            Work::Done => return None,
        };
        Some((piece, (writer, next)))
    }))
}

/// How far the document is.
enum Work {
    /// Nothing is sent.
    Begun(Vec<Arc<Stored>>),
    /// These are written, and those have to be written again.
    Items(std::vec::IntoIter<Bytes>, std::vec::IntoIter<Arc<Stored>>),
    Done,
}

impl Writer {
    fn new(target: &Target, form: Form, page: &Page) -> Result<Self, Status> {
        let own = target.version().gvk.api_version();
        let (api_version, kind, item, metadata) = match form {
            Form::Metadata(version, _) => {
                (version, "PartialObjectMetadataList", "PartialObjectMetadata", page.metadata())
            }
            Form::Object | Form::Table(_) | Form::AggregatedDiscovery(_) => {
                let resource = &target.resource;
                (own.as_str(), resource.list_kind.as_str(), resource.kind.as_str(), page.metadata_for(target))
            }
        };
        let encoder = Encoder::new(api_version, item);
        let encoder = encoder.ok_or_else(|| Status::internal(format!("{item} has no protobuf")))?;
        let list = ListEncoder::new(api_version, kind, metadata.to_string().as_bytes()).map_err(Status::internal)?;
        Ok(Self { target: target.clone(), form, encoder, list })
    }

    /// Writes all items, to know how long they are; others may work in between.
    async fn begin(&self, entries: Vec<Arc<Stored>>) -> (Bytes, Work) {
        let (mut kept, mut last, mut length) = (Vec::new(), Vec::new(), 0);
        let mut entries = entries.into_iter();
        while length < KEPT
            && let Some(entry) = entries.next()
        {
            let before = last.len();
            self.push(&mut last, &entry);
            length += last.len() - before;
            if last.len() >= PIECE {
                kept.push(std::mem::take(&mut last).into());
                tokio::task::yield_now().await;
            }
        }
        if !last.is_empty() {
            kept.push(last.into());
        }
        let mut scratch = Vec::new();
        for (count, entry) in entries.as_slice().iter().enumerate() {
            scratch.clear();
            self.push(&mut scratch, entry);
            length += scratch.len();
            if count % 8 == 0 {
                tokio::task::yield_now().await;
            }
        }
        (self.list.before(length).into(), Work::Items(kept.into_iter(), entries))
    }

    fn items(&self, mut kept: std::vec::IntoIter<Bytes>, mut rest: std::vec::IntoIter<Arc<Stored>>) -> (Bytes, Work) {
        if let Some(piece) = kept.next() {
            return (piece, Work::Items(kept, rest));
        }
        let mut piece = Vec::with_capacity(PIECE + 4096);
        while piece.len() < PIECE {
            let Some(entry) = rest.next() else {
                piece.extend_from_slice(ListEncoder::behind());
                return (piece.into(), Work::Done);
            };
            self.push(&mut piece, &entry);
        }
        (piece.into(), Work::Items(kept, rest))
    }

    fn push(&self, bytes: &mut Vec<u8>, entry: &Stored) {
        let (resource, version) = (&self.target.resource, self.target.version());
        let json = match self.form {
            Form::Metadata(api_version, _) => table::metadata_bytes(resource, version, api_version, entry),
            Form::Object | Form::Table(_) | Form::AggregatedDiscovery(_) => encode::served(resource, version, entry),
        };
        let start = bytes.len();
        if let Err(error) = self.encoder.item(&json, bytes) {
            // What is stored was read by the same table; the others should not go with it.
            tracing::error!(%error, "cannot write a stored object in protobuf");
            bytes.truncate(start);
        }
    }
}
