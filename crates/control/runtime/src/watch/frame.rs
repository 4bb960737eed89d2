//! Cutting a watch's bytes into frames, and frames into events.

use bytes::{Buf, Bytes, BytesMut};
use concert_api::{Object, ParseError};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::Answer;
use crate::resource::Resource;

/// A frame may not be larger: an object is at most 3 MiB, its JSON may be escaped.
const MAX_FRAME: usize = 32 << 20;

/// Cuts at line ends.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer has no line end.
    searched: usize,
}

/// A line that does not end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Endless;

impl Lines {
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Endless> {
        let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return if self.searched > MAX_FRAME { Err(Endless) } else { Ok(None) };
        };
        let line = self.buffer.split_to(self.searched + at).freeze();
        self.buffer.advance(1);
        self.searched = 0;
        Ok(Some(line))
    }
}

/// What a frame says.
#[derive(Debug)]
pub(crate) enum Frame {
    Applied(Object),
    Deleted(Object),
    /// Everything up to this resourceVersion has been sent.
    Bookmark(String),
    /// The server ends the watch.
    Error(Answer),
    /// An object that cannot be read; the watch goes on.
    Bad(String),
}

#[derive(Deserialize)]
struct Envelope<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Marked {
    metadata: Mark,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    resource_version: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Code {
    code: u16,
}

/// Reads one frame.
pub(crate) fn read(resource: &Resource, line: &Bytes) -> Frame {
    let envelope: Envelope<'_> = match serde_json::from_slice(line) {
        Ok(envelope) => envelope,
        Err(error) => return Frame::Bad(error.to_string()),
    };
    let bytes = line.slice_ref(envelope.object.get().as_bytes());
    match envelope.r#type {
        "ADDED" | "MODIFIED" => ingest(resource, &bytes).map_or_else(|e| Frame::Bad(e.to_string()), Frame::Applied),
        "DELETED" => ingest(resource, &bytes).map_or_else(|e| Frame::Bad(e.to_string()), Frame::Deleted),
        "BOOKMARK" => match serde_json::from_slice::<Marked>(&bytes) {
            Ok(marked) => Frame::Bookmark(marked.metadata.resource_version),
            Err(error) => Frame::Bad(error.to_string()),
        },
        "ERROR" => {
            let code = serde_json::from_slice::<Code>(&bytes).unwrap_or_default().code;
            Frame::Error(Answer::read(if code == 0 { 500 } else { code }, None, &bytes))
        }
        other => Frame::Bad(format!("unknown event type \"{other}\"")),
    }
}

/// Makes an object of bytes that came over the wire: managedFields cut out, kind and apiVersion filled in (items of
/// lists of built-in kinds have none), in memory of its own, so that one object does not keep a whole page alive.
pub(crate) fn ingest(resource: &Resource, bytes: &Bytes) -> Result<Object, ParseError> {
    let object = Object::parse_without_managed_fields(bytes.clone())?;
    if object.kind().is_empty() || object.api_version().is_empty() {
        return Object::parse(with_kind(resource, object.bytes()));
    }
    let (outer, inner) = (bytes.as_ptr_range(), object.bytes().as_ptr_range());
    let borrowed = outer.start <= inner.start && inner.end <= outer.end;
    if borrowed { Object::parse(Bytes::copy_from_slice(object.bytes())) } else { Ok(object) }
}

fn with_kind(resource: &Resource, bytes: &[u8]) -> Bytes {
    let quote = |text: &str| serde_json::Value::from(text).to_string();
    let (version, kind) = (quote(&resource.gvk.api_version()), quote(&resource.gvk.kind));
    let rest = bytes.trim_ascii_start().strip_prefix(b"{").unwrap_or(bytes);
    // A half-given pair would make duplicate keys; servers give both or none.
    let mut out = format!("{{\"apiVersion\":{version},\"kind\":{kind},").into_bytes();
    out.extend_from_slice(rest);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use concert_api::Gvk;
    use proptest::prelude::*;

    fn maps() -> Resource {
        Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps")
    }

    fn lines(lines: &mut Lines) -> Vec<Bytes> {
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_how_bytes_arrive(texts in prop::collection::vec("[a-z{}]{0,9}", 0..9), cut in 1..7usize) {
            let whole: String = texts.iter().map(|text| format!("{text}\n")).collect();
            let mut cutter = Lines::default();
            let mut seen = Vec::new();
            for piece in whole.as_bytes().chunks(cut) {
                cutter.push(piece);
                seen.extend(lines(&mut cutter));
            }
            prop_assert_eq!(seen, texts.into_iter().map(Bytes::from).collect::<Vec<_>>());
        }
    }

    #[test]
    fn objects_get_their_kind_and_lose_managed_fields() {
        let bytes =
            Bytes::from_static(br#"{"metadata":{"name":"a","namespace":"n","managedFields":[{"x":1}]},"data":{}}"#);
        let object = ingest(&maps(), &bytes).unwrap();
        assert_eq!((&*object.api_version(), &*object.kind(), &*object.name()), ("v1", "ConfigMap", "a"));
        assert!(!String::from_utf8_lossy(object.bytes()).contains("managedFields"));
        assert!(object.value().is_ok());
    }

    #[test]
    fn a_bad_frame_says_so_and_an_error_is_an_answer() {
        let bad = read(&maps(), &Bytes::from_static(br#"{"type":"ADDED","object":{"metadata":{}}}"#));
        assert!(matches!(bad, Frame::Bad(why) if why.contains("metadata.name")));
        let gone = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}"#;
        assert!(matches!(read(&maps(), &Bytes::from_static(gone)), Frame::Error(answer) if answer.code == 410));
        let mark = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#;
        assert!(matches!(read(&maps(), &Bytes::from_static(mark)), Frame::Bookmark(at) if at == "7"));
    }
}
