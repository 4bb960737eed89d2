//! Cutting a watch's bytes into frames, and frames into events.

use bytes::{Buf, Bytes, BytesMut};
use concert_api::Glance;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Arrived;
use crate::client::Answer;

/// A frame may not be larger: an object is at most 3 MiB, its JSON may be escaped.
const MAX_FRAME: usize = 32 << 20;
/// The annotation of the bookmark that ends a list sent as events.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// Cuts at line ends. A line that arrives in one piece is a part of that piece: nothing is copied.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// What arrived last.
    piece: Bytes,
    /// The beginning of a line that ends in a later piece.
    begun: BytesMut,
}

/// A line that does not end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Endless;

impl Lines {
    /// The next piece. What is left of the one before it is taken over: have all its lines first.
    pub(crate) fn push(&mut self, piece: Bytes) {
        let before = std::mem::replace(&mut self.piece, piece);
        self.begun.extend_from_slice(&before);
    }

    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Endless> {
        let Some(at) = memchr::memchr(b'\n', &self.piece) else {
            self.begun.extend_from_slice(&std::mem::take(&mut self.piece));
            return if self.begun.len() > MAX_FRAME { Err(Endless) } else { Ok(None) };
        };
        let line = self.piece.split_to(at);
        self.piece.advance(1);
        if self.begun.is_empty() {
            return Ok(Some(line));
        }
        self.begun.extend_from_slice(&line);
        Ok(Some(self.begun.split().freeze()))
    }
}

/// What a frame says.
#[derive(Debug)]
pub(crate) enum Frame {
    Applied(Arrived),
    Deleted(Arrived),
    /// Everything up to this resourceVersion has been sent; whether that is all there was at the beginning.
    Bookmark(String, bool),
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
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Code {
    code: u16,
}

/// Reads one frame. Of an object only the beginning is looked at.
pub(crate) fn read(line: &Bytes) -> Frame {
    let (kind, bytes) = match open(line) {
        Ok(opened) => opened,
        Err(error) => return Frame::Bad(error.to_string()),
    };
    let arrived = || Glance::at(&bytes).map(|glance| Arrived { glance, bytes: bytes.clone() });
    match kind {
        "ADDED" | "MODIFIED" => arrived().map_or_else(|e| Frame::Bad(e.to_string()), Frame::Applied),
        "DELETED" => arrived().map_or_else(|e| Frame::Bad(e.to_string()), Frame::Deleted),
        "BOOKMARK" => match serde_json::from_slice::<Marked>(&bytes) {
            Ok(Marked { metadata: Mark { resource_version, annotations } }) => {
                Frame::Bookmark(resource_version, annotations.get(INITIAL_END).is_some_and(|end| end == "true"))
            }
            Err(error) => Frame::Bad(error.to_string()),
        },
        "ERROR" => {
            let code = serde_json::from_slice::<Code>(&bytes).unwrap_or_default().code;
            Frame::Error(Answer::read(if code == 0 { 500 } else { code }, None, &bytes))
        }
        other => Frame::Bad(format!("unknown event type \"{other}\"")),
    }
}

/// The type of an event and the bytes of its object. The form that every known server sends is taken apart at its seams;
/// whoever uses the object reads all of it anyway.
fn open(line: &Bytes) -> Result<(&str, Bytes), serde_json::Error> {
    let usual = || {
        let rest = line.strip_prefix(br#"{"type":""#)?;
        let end = memchr::memchr(b'"', rest)?;
        let kind = std::str::from_utf8(&rest[..end]).ok()?;
        let object = rest[end + 1..].strip_prefix(br#","object":"#)?.trim_ascii_end().strip_suffix(b"}")?;
        Some((kind, line.slice_ref(object)))
    };
    if let Some(opened) = usual() {
        return Ok(opened);
    }
    let envelope: Envelope<'_> = serde_json::from_slice(line)?;
    Ok((envelope.r#type, line.slice_ref(envelope.object.get().as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
                cutter.push(Bytes::copy_from_slice(piece));
                seen.extend(lines(&mut cutter));
            }
            prop_assert_eq!(seen, texts.into_iter().map(Bytes::from).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..60), usual in any::<bool>()) {
            let head: &[u8] = if usual { br#"{"type":"ADDED","object":"# } else { b"" };
            read(&[head, &bytes].concat().into());
        }
    }

    #[test]
    fn members_may_come_in_any_order() {
        let usual = br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
        let turned = br#"{ "object" : {"metadata":{"name":"a"}}, "type":"ADDED"}"#;
        for line in [usual.as_slice(), turned] {
            let frame = read(&Bytes::copy_from_slice(line));
            assert!(matches!(&frame, Frame::Applied(a) if &*a.bytes == br#"{"metadata":{"name":"a"}}"#), "{frame:?}");
        }
    }

    #[test]
    fn a_bad_frame_says_so_and_an_error_is_an_answer() {
        let bad = read(&Bytes::from_static(br#"{"type":"ADDED","object":{"metadata":{}}}"#));
        assert!(matches!(bad, Frame::Bad(why) if why.contains("metadata.name")));
        let gone = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}}"#;
        assert!(matches!(read(&Bytes::from_static(gone)), Frame::Error(answer) if answer.code == 410));
        let mark = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#;
        assert!(matches!(read(&Bytes::from_static(mark)), Frame::Bookmark(at, false) if at == "7"));
        let end = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert!(matches!(read(&Bytes::from_static(end)), Frame::Bookmark(_, true)));
    }
}
