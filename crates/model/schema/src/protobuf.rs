//! Bodies in protobuf, read into the JSON that they mean, and answers in protobuf, written from it.
//!
//! Clients of the typed kinds (kubectl among them) send `k8s\0` and a `runtime.Unknown { typeMeta, raw }`. One reader,
//! driven by the data of the built-in kinds, reads every kind. Nothing a peer sends makes it panic, recurse deeper than JSON
//! may be, or take more memory than some times its length. One writer, driven by the same data, writes every kind as the
//! real server writes it ([`Encoder`]).

mod encoder;
mod layout;
mod special;
mod table;
#[cfg(test)]
mod tests;
mod wire;
mod write;

use serde_json::Value;

pub use encoder::{Encoder, ListEncoder, framed};
pub use wire::WireError;

/// The first bytes of every protobuf body.
const MAGIC: &[u8] = b"k8s\0";
/// How much of a body stands in a message about it.
const SHOWN: usize = 30;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtobufError {
    /// It is no envelope with a kind: why, and the body as it stands in messages.
    Envelope(String),
    /// The kind cannot be read from protobuf: apiVersion and kind.
    Unknown(String, String),
    /// The object inside is damaged: apiVersion, kind, and how.
    Object(String, String, WireError),
}

/// Reads a body. An envelope that names no kind is taken to hold `expected` (apiVersion and kind).
///
/// # Errors
/// The body is not a protobuf envelope, or its object is of a kind that is not in the table, or damaged.
pub fn to_json(body: &[u8], expected: (&str, &str)) -> Result<Value, ProtobufError> {
    let wrong = |why: &dyn std::fmt::Display| ProtobufError::Envelope(format!("{why} ({})", shown(body)));
    if body.is_empty() {
        return Err(wrong(&"empty data"));
    }
    let Some(inner) = body.strip_prefix(MAGIC) else {
        let why = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
        return Err(wrong(&why));
    };
    if inner.is_empty() {
        return Err(wrong(&"empty body"));
    }
    let envelope = wire::envelope(inner).map_err(|error| wrong(&error))?;
    let given = |found: String, expected: &str| if found.is_empty() { expected.to_owned() } else { found };
    // What is no version is none.
    let api_version = Some(envelope.api_version).filter(|version| version.matches('/').count() < 2);
    let (version, kind) = (given(api_version.unwrap_or_default(), expected.0), given(envelope.kind, expected.1));
    let Some(message) = table::kind(&version, &kind) else {
        return Err(ProtobufError::Unknown(version, kind));
    };
    let mut object = match wire::message(message, envelope.raw, wire::Depth::TOP) {
        Ok(object) => object,
        Err(error) => return Err(ProtobufError::Object(version, kind, error)),
    };
    object.insert("apiVersion".to_owned(), version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(object.into())
}

/// A body as the real server shows it: what looks like JSON as it is, other things in hexadecimal.
fn shown(body: &[u8]) -> String {
    let start = &body[..body.len().min(SHOWN)];
    let text = match body {
        [] => "<empty>".to_owned(),
        [b'{', ..] => String::from_utf8_lossy(start).into_owned(),
        _ => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if body.len() > SHOWN { format!("{text} ...") } else { text }
}
