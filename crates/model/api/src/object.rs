//! An object as bytes and spans.

mod glance;
mod lean;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{ControlFlow, Range};

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use glance::Glance;

use crate::scan::{Care, Malformed, Scanner};
use crate::{Gvk, ObjectKey, OwnerReference, Time};

/// The bytes are not a Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Not JSON, from this byte on.
    Malformed(usize),
    /// A part everybody needs is missing or not a string: its path.
    Missing(&'static str),
    /// A part everybody needs is said twice, the second time at this byte: readers would take one or the other.
    Twice(usize),
    /// Larger than 4 GiB.
    TooLarge,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(at) => write!(f, "cannot read the object: malformed JSON at byte {at}"),
            Self::Missing(path) => write!(f, "cannot read the object: {path} is missing or not a string"),
            Self::Twice(at) => write!(f, "cannot read the object: a member is said a second time at byte {at}"),
            Self::TooLarge => f.write_str("cannot read the object: larger than 4 GiB"),
        }
    }
}

impl std::error::Error for ParseError {}

impl From<Malformed> for ParseError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed.0)
    }
}

/// A part of the bytes; empty when the object has no such part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn of(range: &Range<usize>) -> Self {
        // Lengths are checked to fit in `Object::parse`.
        let narrow = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: narrow(range.start), end: narrow(range.end) }
    }

    fn is_empty(self) -> bool {
        self.start == self.end
    }

    fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Points at a part; where, if it pointed at one already.
    fn is_set_again(&mut self, range: &Range<usize>) -> Option<usize> {
        let before = std::mem::replace(self, Self::of(range));
        (!before.is_empty()).then_some(range.start)
    }
}

/// Where the parts are, found in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spans {
    api_version: Span,
    kind: Span,
    metadata: Span,
    name: Span,
    namespace: Span,
    uid: Span,
    resource_version: Span,
    generation: Span,
    deletion: Span,
    labels: Span,
    annotations: Span,
    finalizers: Span,
    owners: Span,
    managed_fields: Span,
    spec: Span,
    status: Span,
}

/// A Kubernetes object: its JSON bytes, never changed, and the spans of the parts everybody asks for.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    bytes: Bytes,
    spans: Spans,
}

impl Object {
    /// Scans one object. Its kind may be missing (items of a list of a built-in kind have none).
    ///
    /// # Errors
    /// The bytes are not JSON, have no `metadata.name`, or say a part twice that has a span.
    pub fn parse(bytes: Bytes) -> Result<Self, ParseError> {
        Self::scan(bytes, Care::Strict)
    }

    /// Finds the parts.
    fn scan(bytes: Bytes, care: Care) -> Result<Self, ParseError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(ParseError::TooLarge);
        }
        let mut spans = Spans::default();
        let mut twice = None;
        let mut scanner = Scanner::new(&bytes, 0);
        scanner.each_member(|scanner, key| {
            let (key, start) = (said(key), scanner.position()?);
            if *key == *b"metadata" {
                twice = twice.or(scan_metadata(scanner, &mut spans, care)?);
            } else {
                scanner.pass(care)?;
            }
            let slot = match &*key {
                b"apiVersion" => &mut spans.api_version,
                b"kind" => &mut spans.kind,
                b"metadata" => &mut spans.metadata,
                b"spec" => &mut spans.spec,
                b"status" => &mut spans.status,
                _ => return Ok(ControlFlow::Continue(())),
            };
            twice = twice.or(slot.is_set_again(&(start..scanner.at())));
            Ok(ControlFlow::Continue(()))
        })?;
        scanner.end()?;
        if let Some(at) = twice {
            return Err(ParseError::Twice(at));
        }
        let object = Self { bytes, spans };
        if object.text(spans.name).is_none_or(|name| name.is_empty()) {
            return Err(ParseError::Missing("metadata.name"));
        }
        Ok(object)
    }

    /// Its JSON.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// `apiVersion`; empty if absent.
    #[must_use]
    pub fn api_version(&self) -> Cow<'_, str> {
        self.text(self.spans.api_version).unwrap_or_default()
    }

    /// `kind`; empty if absent.
    #[must_use]
    pub fn kind(&self) -> Cow<'_, str> {
        self.text(self.spans.kind).unwrap_or_default()
    }

    /// Group, version and kind, if both are there and well formed.
    #[must_use]
    pub fn gvk(&self) -> Option<Gvk> {
        Gvk::from_api_version(&self.api_version(), &self.kind())
    }

    /// `metadata.name`.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        self.text(self.spans.name).unwrap_or_default()
    }

    /// `metadata.namespace`; empty for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Cow<'_, str> {
        self.text(self.spans.namespace).unwrap_or_default()
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace().as_ref(), self.name().as_ref())
    }

    /// `metadata.uid`; empty if absent.
    #[must_use]
    pub fn uid(&self) -> Cow<'_, str> {
        self.text(self.spans.uid).unwrap_or_default()
    }

    /// `metadata.resourceVersion`; empty if absent. Opaque text.
    #[must_use]
    pub fn resource_version(&self) -> Cow<'_, str> {
        self.text(self.spans.resource_version).unwrap_or_default()
    }

    /// `metadata.resourceVersion` as a number, where it is one (since Kubernetes 1.35 it may be compared).
    #[must_use]
    pub fn revision(&self) -> Option<u64> {
        self.resource_version().parse().ok()
    }

    /// `metadata.generation`; 0 if absent.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.decoded(self.spans.generation).unwrap_or(0)
    }

    /// Whether `metadata.deletionTimestamp` is set.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.text(self.spans.deletion).is_some()
    }

    /// `metadata.deletionTimestamp`.
    #[must_use]
    pub fn deletion_time(&self) -> Option<Time> {
        self.text(self.spans.deletion)?.parse().ok()
    }

    /// `metadata.labels`.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.decoded(self.spans.labels).unwrap_or_default()
    }

    /// `metadata.annotations`.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.decoded(self.spans.annotations).unwrap_or_default()
    }

    /// One annotation; the others are not looked at.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<String> {
        serde_json::from_slice(&self.bytes[self.found(self.spans.annotations, key)?]).ok()
    }

    /// `metadata.finalizers`.
    #[must_use]
    pub fn finalizers(&self) -> Vec<String> {
        self.decoded(self.spans.finalizers).unwrap_or_default()
    }

    /// `metadata.ownerReferences`.
    #[must_use]
    pub fn owners(&self) -> Vec<OwnerReference> {
        self.decoded(self.spans.owners).unwrap_or_default()
    }

    /// The raw JSON of `metadata.managedFields`; `None` if absent.
    #[must_use]
    pub fn managed_fields(&self) -> Option<&[u8]> {
        self.raw(self.spans.managed_fields)
    }

    /// The raw JSON of `spec`; `None` if absent.
    #[must_use]
    pub fn spec(&self) -> Option<&[u8]> {
        self.raw(self.spans.spec)
    }

    /// The raw JSON of `status`; `None` if absent.
    #[must_use]
    pub fn status(&self) -> Option<&[u8]> {
        self.raw(self.spans.status)
    }

    /// The raw JSON of a field, found by its path without decoding the rest.
    #[must_use]
    pub fn field(&self, path: &[&str]) -> Option<&[u8]> {
        let mut span = Span::of(&(0..self.bytes.len()));
        for step in path {
            span = Span::of(&self.found(span, step)?);
        }
        self.raw(span)
    }

    /// Where the value of a member is, in the object that is there.
    fn found(&self, object: Span, name: &str) -> Option<Range<usize>> {
        let mut found = None;
        let visit = |key: &[u8], value: Range<usize>| {
            if *said(key) == *name.as_bytes() {
                found = Some(value);
            }
            Ok(())
        };
        Scanner::new(&self.bytes[..object.end as usize], object.start as usize).members(visit).ok()?;
        found
    }

    /// The whole object as a tree that can be changed.
    ///
    /// # Errors
    /// A number or an escape that the scanner only skipped is malformed.
    pub fn value(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.bytes)
    }

    /// The whole object as a type.
    ///
    /// # Errors
    /// The object does not have the shape of `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.bytes)
    }

    fn raw(&self, span: Span) -> Option<&[u8]> {
        (!span.is_empty()).then(|| &self.bytes[span.start as usize..span.end as usize])
    }

    fn text(&self, span: Span) -> Option<Cow<'_, str>> {
        self.decoded_borrowed(span)
    }

    fn decoded<T: DeserializeOwned>(&self, span: Span) -> Option<T> {
        serde_json::from_slice(self.raw(span)?).ok()
    }

    fn decoded_borrowed<'a>(&'a self, span: Span) -> Option<Cow<'a, str>> {
        let raw = self.raw(span)?;
        if let Some(text) = plain_text(raw) {
            return Some(Cow::Borrowed(text));
        }
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
        serde_json::from_slice::<Text<'a>>(raw).ok().map(|text| text.0)
    }
}

/// The text of a raw JSON string in which nothing is escaped.
fn plain_text(raw: &[u8]) -> Option<&str> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if inner.contains(&b'\\') { None } else { std::str::from_utf8(inner).ok() }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}@{}", self.kind(), self.key(), self.resource_version())
    }
}

/// The name of a member as it is meant: `na\u006de` is `name`.
fn said(key: &[u8]) -> Cow<'_, [u8]> {
    if !key.contains(&b'\\') {
        return Cow::Borrowed(key);
    }
    let quoted = [b"\"", key, b"\""].concat();
    serde_json::from_slice(&quoted).map_or(Cow::Borrowed(key), |name: String| Cow::Owned(name.into_bytes()))
}

/// Finds the parts of `metadata`; where a part is said a second time, if one is.
fn scan_metadata(scanner: &mut Scanner<'_>, spans: &mut Spans, care: Care) -> Result<Option<usize>, Malformed> {
    let mut twice = None;
    scanner.each_member(|scanner, key| {
        let key = said(key);
        let value = scanner.pass(care)?;
        let slot = match &*key {
            b"name" => &mut spans.name,
            b"namespace" => &mut spans.namespace,
            b"uid" => &mut spans.uid,
            b"resourceVersion" => &mut spans.resource_version,
            b"generation" => &mut spans.generation,
            b"deletionTimestamp" => &mut spans.deletion,
            b"labels" => &mut spans.labels,
            b"annotations" => &mut spans.annotations,
            b"finalizers" => &mut spans.finalizers,
            b"ownerReferences" => &mut spans.owners,
            b"managedFields" => &mut spans.managed_fields,
            _ => return Ok(ControlFlow::Continue(())),
        };
        twice = twice.or(slot.is_set_again(&value));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(twice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parse(value: &Value) -> Object {
        Object::parse(value.to_string().into()).unwrap()
    }

    #[test]
    fn every_part_is_found() {
        let object = parse(&json!({
            "apiVersion": "a.b/v1", "kind": "File",
            "metadata": {
                "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "12", "generation": 3,
                "labels": {"a": "b\"c"}, "annotations": {"x": "y"}, "finalizers": ["f"],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": true}],
            },
            "spec": {"a": {"b": [1]}}, "status": {},
        }));
        assert_eq!(object.gvk(), Some(Gvk::new("a.b", "v1", "File")));
        assert_eq!(object.key().to_string(), "ns/n");
        assert_eq!((object.uid().as_ref(), object.revision(), object.generation()), ("u", Some(12), 3));
        assert_eq!(object.labels()["a"], "b\"c");
        assert_eq!(object.annotation("x").as_deref(), Some("y"));
        assert_eq!(object.finalizers(), ["f"]);
        assert!(object.owners()[0].is_controller() && object.is_deleting());
        assert_eq!(object.field(&["spec", "a", "b"]), Some(b"[1]".as_slice()));
        assert_eq!(object.field(&["spec", "x"]), None);
        assert_eq!(object.status(), Some(b"{}".as_slice()));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for (bytes, error) in [
            ("", ParseError::Malformed(0)),
            ("[]", ParseError::Malformed(0)),
            ("{}", ParseError::Missing("metadata.name")),
            (r#"{"metadata":{"name":3}}"#, ParseError::Missing("metadata.name")),
            (r#"{"metadata":{"name":"a"}}x"#, ParseError::Malformed(25)),
        ] {
            assert_eq!(Object::parse(Bytes::from_static(bytes.as_bytes())), Err(error), "{bytes}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Object::parse(bytes.into());
        }
    }
}
