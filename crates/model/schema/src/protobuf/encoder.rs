//! Answers: objects and lists in their envelope, and events in their frame.

use std::fmt;

use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};

use super::table::{self, Message};
use super::write::{self, out};
use super::{MAGIC, wire};

/// What the envelope ends with: no encoding, and no type of content.
const END: &[u8] = b"\x1a\x00\x22\x00";
const METADATA: &str = "meta.v1.ListMeta";

/// Writes objects of one kind.
///
/// ```
/// use concert_schema::protobuf::{Encoder, to_json};
///
/// let json = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"x":"y"}}"#;
/// let body = Encoder::for_document(json).unwrap().object(json).unwrap();
/// assert!(body.starts_with(b"k8s\0"));
/// assert_eq!(to_json(&body, ("", "")).unwrap(), serde_json::from_slice::<serde_json::Value>(json).unwrap());
/// ```
#[derive(Clone, Debug)]
pub struct Encoder {
    message: &'static Message,
    /// The envelope up to the object.
    head: Vec<u8>,
}

impl Encoder {
    /// Of this kind; `None` if it has no protobuf.
    #[must_use]
    pub fn new(api_version: &str, kind: &str) -> Option<Self> {
        Some(Self { message: table::answered(api_version, kind)?, head: head(api_version, kind) })
    }

    /// Of the kind that a document says it is of; `None` if that has no protobuf.
    #[must_use]
    pub fn for_document(json: &[u8]) -> Option<Self> {
        let (api_version, kind) = kind_of(json)?;
        Self::new(&api_version, &kind)
    }

    /// An object in its envelope.
    ///
    /// # Errors
    /// The JSON is none, or not of the kind.
    pub fn object(&self, json: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
        let mut body = Vec::with_capacity(json.len());
        write::object(self.message, json, &mut body)?;
        let mut bytes = Vec::with_capacity(self.head.len() + body.len() + 16);
        bytes.extend_from_slice(&self.head);
        out::field(&mut bytes, 2, &body);
        bytes.extend_from_slice(END);
        Ok(bytes)
    }

    /// Writes an object as an item of a list, behind what is there.
    ///
    /// # Errors
    /// The JSON is none, or not of the kind.
    pub fn item(&self, json: &[u8], bytes: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let start = bytes.len();
        write::object(self.message, json, bytes)?;
        out::wrap(bytes, start, 2);
        Ok(())
    }
}

/// What stands around the items of a list, which have to be known by their length.
#[derive(Clone, Debug)]
pub struct ListEncoder {
    head: Vec<u8>,
    metadata: Vec<u8>,
}

impl ListEncoder {
    /// A list of this kind with this metadata.
    ///
    /// # Errors
    /// The metadata is no JSON, or not a list's.
    pub fn new(api_version: &str, kind: &str, metadata: &[u8]) -> Result<Self, serde_json::Error> {
        let mut bytes = Vec::new();
        let message = table::message(METADATA).ok_or_else(|| serde_json::Error::custom("lists are not known"))?;
        write::object(message, metadata, &mut bytes)?;
        out::wrap(&mut bytes, 0, 1);
        Ok(Self { head: head(api_version, kind), metadata: bytes })
    }

    /// What stands before items of so many bytes in all.
    #[must_use]
    pub fn before(&self, length: usize) -> Vec<u8> {
        let mut bytes = self.head.clone();
        out::tag(&mut bytes, 2, wire::BYTES);
        out::varint(&mut bytes, (self.metadata.len() + length) as u64);
        bytes.extend_from_slice(&self.metadata);
        bytes
    }

    /// And behind them.
    #[must_use]
    pub fn behind() -> &'static [u8] {
        END
    }
}

/// An event of a watch: its length, and what has happened to an object in its envelope.
#[must_use]
pub fn framed(event: &str, object: &[u8]) -> Vec<u8> {
    let inner = out::field_length(1, object.len());
    let length = out::field_length(1, event.len()) + out::field_length(2, inner);
    let mut bytes = Vec::with_capacity(length + 4);
    // No object has 4 GiB.
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    out::field(&mut bytes, 1, event.as_bytes());
    out::tag(&mut bytes, 2, wire::BYTES);
    out::varint(&mut bytes, inner as u64);
    out::field(&mut bytes, 1, object);
    bytes
}

fn head(api_version: &str, kind: &str) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let start = bytes.len();
    out::field(&mut bytes, 1, api_version.as_bytes());
    out::field(&mut bytes, 2, kind.as_bytes());
    out::wrap(&mut bytes, start, 1);
    bytes
}

/// The apiVersion and the kind that a document says. Those of stored objects stand first; a whole document is read only
/// if it begins with something else.
fn kind_of(json: &[u8]) -> Option<(String, String)> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let mut found = Found::default();
    // It ends with an error where both are found.
    let _ = reader.deserialize_map(&mut found);
    Some((found.api_version.unwrap_or_default(), found.kind?))
}

#[derive(Default)]
struct Found {
    api_version: Option<String>,
    kind: Option<String>,
}

impl<'de> Visitor<'de> for &mut Found {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "apiVersion" => self.api_version = members.next_value()?,
                "kind" => self.kind = members.next_value()?,
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
            if self.api_version.is_some() && self.kind.is_some() {
                return Err(A::Error::custom("both are found"));
            }
        }
        Ok(())
    }
}
