//! A page as a document, piece by piece and never in one buffer.

use bytes::{BufMut, Bytes, BytesMut};
use concert_api::{Status, Time};
use futures::Stream;
use serde_json::Value;

use super::Page;
use crate::beside::{Stored, beginning};
use crate::encode;
use crate::respond::Form;
use crate::table;
use crate::target::{Query, Target};

/// About as large as a piece is.
pub(super) const PIECE: usize = 64 << 10;

/// How a list is written.
pub(crate) struct Writer {
    target: Target,
    form: Form,
    include: String,
    now: Time,
}

impl Writer {
    pub(crate) fn new(target: &Target, query: &Query, form: Form, now: Time) -> Result<Self, Status> {
        if let Form::Table(_) = form {
            table::check_included(query)?;
        }
        Ok(Self { target: target.clone(), form, include: query.include_object.clone(), now })
    }

    /// The document.
    pub(crate) fn pieces(self, page: Page) -> impl Stream<Item = Bytes> + Send + 'static {
        let (head, tail) = self.around(&page);
        let state = (Some(head), page.entries.into_iter().enumerate(), self, Some(tail));
        futures::stream::unfold(state, |(head, mut entries, writer, mut tail)| async move {
            tail?;
            let mut piece = BytesMut::with_capacity(PIECE + 4096);
            piece.extend_from_slice(head.unwrap_or_default().as_bytes());
            while piece.len() < PIECE {
                let Some((place, entry)) = entries.next() else {
                    piece.extend_from_slice(tail.take().unwrap_or_default().as_bytes());
                    break;
                };
                if place > 0 {
                    piece.put_u8(b',');
                }
                writer.push(&mut piece, &entry);
            }
            Some((piece.freeze(), (None, entries, writer, tail)))
        })
    }

    /// What stands before and behind the items.
    fn around(&self, page: &Page) -> (String, &'static str) {
        let begun = |kind: &str, api_version: &str, metadata: &Value| {
            format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata}")
        };
        match self.form {
            Form::Object | Form::AggregatedDiscovery(_) => {
                let api_version = self.target.version().gvk.api_version();
                let head = begun(&self.target.resource.list_kind, &api_version, &page.metadata_for(&self.target));
                (head + ",\"items\":[", "]}")
            }
            Form::Table(version) => {
                let head = begun("Table", version, &page.metadata());
                let columns = table::definitions(&self.target);
                // Where the real server has no printer for a kind it has no list of rows either, if there are none.
                let plain = self.target.version().columns().iter().any(|column| column.name == "Created At");
                let nothing = plain && !self.target.resource.is_custom() && page.entries.is_empty();
                let (open, close) = if nothing { ("null", "}") } else { ("[", "]}") };
                (format!("{head},\"columnDefinitions\":{columns},\"rows\":{open}"), close)
            }
            Form::Metadata(version, _) => {
                let head = begun("PartialObjectMetadataList", version, &page.metadata());
                // No list, where the real server has none.
                let (open, close) = if page.entries.is_empty() { ("null", "}") } else { ("[", "]}") };
                (format!("{head},\"items\":{open}"), close)
            }
        }
    }

    fn push(&self, piece: &mut BytesMut, entry: &Stored) {
        let tree = || encode::tree(&self.target.resource, self.target.version(), entry).unwrap_or_default();
        match self.form {
            Form::Object | Form::AggregatedDiscovery(_) => push_object(piece, &self.target, entry),
            Form::Table(version) => {
                let row = table::row(&self.target, &self.include, version, &tree(), self.now);
                piece.extend_from_slice(row.to_string().as_bytes());
            }
            Form::Metadata(version, _) => {
                let (resource, own) = (&self.target.resource, self.target.version());
                piece.extend_from_slice(&table::metadata_bytes(resource, own, version, entry));
            }
        }
    }
}

/// The stored bytes. Items of custom resources keep their apiVersion and kind, those of built-in kinds leave them out.
fn push_object(piece: &mut BytesMut, target: &Target, entry: &Stored) {
    let bytes = encode::served(&target.resource, target.version(), entry);
    if target.resource.is_custom() {
        piece.extend_from_slice(&bytes);
    } else {
        let head = beginning(&target.version().gvk, target.version().layout());
        piece.put_u8(b'{');
        piece.extend_from_slice(bytes.strip_prefix(head.as_bytes()).unwrap_or(&bytes[1..]));
    }
}
