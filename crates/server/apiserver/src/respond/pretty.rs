//! JSON for people: one member a line.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use super::{Body, JSON};
use crate::target::is_true;

/// Programs that people sit in front of, as their user agents begin.
const PEOPLE: [&str; 3] = ["curl/", "Wget/", "Mozilla/5.0"];

/// Bytes that are indented at once: a large object, which all its readers share, becomes several times larger.
const PIECE: usize = 64 << 10;

/// Whether a request asks for it, or comes from a person. Streams are not for reading.
pub(crate) fn is_wanted(parts: &Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    let said = |name: &str| form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name);
    if said("watch").is_some_and(|(_, value)| is_true(&value)) || parts.uri.path().contains("/watch/") {
        return false;
    }
    let agent = parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    said("pretty").map_or(PEOPLE.iter().any(|name| agent.starts_with(name)), |(_, value)| is_true(&value))
}

/// Writes an answer of JSON so, piece by piece.
pub(crate) fn printed(response: Response<Body>) -> Response<Body> {
    if response.headers().get(header::CONTENT_TYPE).is_none_or(|media| media != JSON) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let state = (body, Bytes::new(), Indenter::default());
    let pieces = futures::stream::unfold(state, |(mut body, mut rest, mut indenter)| async move {
        while rest.is_empty() {
            let Ok(frame) = body.frame().await?;
            rest = frame.into_data().unwrap_or_default();
        }
        let piece = indenter.indented(&rest.split_to(rest.len().min(PIECE)));
        Some((Ok(Frame::data(piece)), (body, rest, indenter)))
    });
    Response::from_parts(parts, StreamBody::new(pieces).boxed_unsync())
}

/// Indents a document as Go does it.
#[derive(Default)]
struct Indenter {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// An object or list has just begun, and may be empty.
    begun: bool,
}

impl Indenter {
    /// The next piece of the document.
    fn indented(&mut self, json: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(json.len() * 2);
        for byte in json.iter().copied() {
            if self.in_text {
                out.push(byte);
                self.in_text = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
            } else {
                self.sign(byte, &mut out);
            }
        }
        out.into()
    }

    /// A byte outside of texts.
    fn sign(&mut self, byte: u8, out: &mut Vec<u8>) {
        match (std::mem::take(&mut self.begun), matches!(byte, b'}' | b']')) {
            (true, false) => {
                self.depth += 1;
                self.begin_line(out);
            }
            (false, true) => {
                self.depth = self.depth.saturating_sub(1);
                self.begin_line(out);
            }
            (true, true) | (false, false) => {}
        }
        match byte {
            b',' => {
                out.push(byte);
                self.begin_line(out);
            }
            b':' => out.extend_from_slice(b": "),
            b' ' | b'\n' => {}
            other => {
                self.begun = matches!(other, b'{' | b'[');
                self.in_text = other == b'"';
                out.push(other);
            }
        }
    }

    fn begin_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_indented() {
        let json = br#"{"a":[],"b":{"c":"x,{\"y:\\","d":[1,{}]},"e":null}"#;
        let expected = "{\n  \"a\": [],\n  \"b\": {\n    \"c\": \"x,{\\\"y:\\\\\",\n    \"d\": [\n      1,\n      {}\n    ]\n  },\n  \"e\": null\n}";
        assert_eq!(Indenter::default().indented(json), expected);
        let mut indenter = Indenter::default();
        let pieces: Vec<u8> = json.iter().flat_map(|byte| indenter.indented(&[*byte])).collect();
        assert_eq!(pieces, expected.as_bytes(), "wherever it is cut");
    }
}
