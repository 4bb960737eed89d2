//! What the server keeps beside each stored object.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use concert_api::{Gvk, Object, OwnerReference};
use concert_merge::ManagedFields;
use concert_store::{Beside, Entry, Key};
use serde_json::Value;

use crate::kept::Kept;
use crate::services::Claims;

/// Larger `managedFields` are not kept parsed: they would take six times their bytes, in the history too.
const BOOKS_MAX: usize = 64 << 10;

/// Found once, when an object is written.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// Labels, for selectors.
    pub(crate) labels: BTreeMap<String, String>,
    /// Spans of the other parts; `None` if the bytes are no object (then nothing can be selected by them).
    pub(crate) object: Option<Object>,
    /// Who it belongs to, for garbage collection.
    pub(crate) owners: Vec<OwnerReference>,
    /// Who owns which of its fields, once somebody has asked or written it.
    managed: OnceLock<ManagedFields>,
    /// What the real server would have in its store, if that is another thing; only its writer knows.
    kept: OnceLock<Kept>,
    /// Which addresses and ports a service has, once somebody has asked.
    claims: OnceLock<Box<Claims>>,
}

/// A stored object.
pub(crate) type Stored = Entry<Parsed>;

impl Beside for Parsed {
    fn of(_: &Key, bytes: &Bytes) -> Self {
        let object = Object::parse(bytes.clone()).ok();
        let labels = object.as_ref().map(Object::labels).unwrap_or_default();
        let owners = object.as_ref().map(Object::owners).unwrap_or_default();
        Self { labels, object, owners, managed: OnceLock::new(), kept: OnceLock::new(), claims: OnceLock::new() }
    }
}

impl Parsed {
    /// Whether it is being deleted and waits for this finalizer.
    pub(crate) fn waits_for(&self, finalizer: &str) -> bool {
        let object = self.object.as_ref().filter(|object| object.is_deleting());
        object.is_some_and(|object| object.finalizers().iter().any(|one| one == finalizer))
    }

    /// Whether it is being deleted.
    pub(crate) fn is_deleting(&self) -> bool {
        self.object.as_ref().is_some_and(Object::is_deleting)
    }

    /// Its uid; empty if it has none.
    pub(crate) fn uid(&self) -> Cow<'_, str> {
        self.object.as_ref().map(Object::uid).unwrap_or_default()
    }

    /// Who owns which of its fields; what cannot be read is nobody's. What is large is read anew each time.
    pub(crate) fn managed(&self) -> Cow<'_, ManagedFields> {
        let read = || {
            let value = serde_json::from_slice(self.books()).ok();
            value.and_then(|value: Value| ManagedFields::parse(&value).ok()).unwrap_or_default()
        };
        if self.books().len() > BOOKS_MAX { Cow::Owned(read()) } else { Cow::Borrowed(self.managed.get_or_init(read)) }
    }

    /// Its `managedFields`, as they are stored.
    fn books(&self) -> &[u8] {
        self.object.as_ref().and_then(Object::managed_fields).unwrap_or_default()
    }

    /// Which addresses and ports it has, if it is a service.
    pub(crate) fn claims(&self) -> &Claims {
        self.claims.get_or_init(|| {
            let spec = self.object.as_ref().and_then(|object| object.field(&["spec"]));
            let spec = spec.and_then(|raw| serde_json::from_slice(raw).ok()).unwrap_or_default();
            Box::new(Claims::read(&spec))
        })
    }

    /// Keeps what the writer knows of it.
    pub(crate) fn keep(&self, managed: ManagedFields, kept: Option<Kept>) {
        if self.books().len() <= BOOKS_MAX {
            // Whoever read it meanwhile has found the same.
            let _ = self.managed.set(managed);
        }
        self.remember(kept);
    }

    /// Keeps what the real server would have in its store.
    pub(crate) fn remember(&self, kept: Option<Kept>) {
        if let Some(kept) = kept {
            let _ = self.kept.set(kept);
        }
    }

    /// What the real server would have in its store, if that is another thing.
    pub(crate) fn kept(&self) -> Option<Kept> {
        self.kept.get().copied()
    }

    /// The text of a field, for field selectors; empty if absent.
    pub(crate) fn field(&self, path: &str) -> Cow<'_, str> {
        let steps: Vec<&str> = path.split('.').collect();
        let raw = self.object.as_ref().and_then(|object| object.field(&steps));
        match raw.and_then(|raw| serde_json::from_slice(raw).ok()) {
            Some(Value::String(text)) => Cow::Owned(text),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Cow::Owned(value.to_string()),
            _ => Cow::default(),
        }
    }
}

/// In which order the real server writes what an object begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Built-in kinds: a struct, with the kind first.
    Struct,
    /// Custom resources: a map, in the order of its keys.
    Map,
}

/// How an object of this version and kind begins: clients quote the place of what they do not like. All stored objects
/// do, so that a list that leaves both out needs only another beginning.
pub(crate) fn beginning(gvk: &Gvk, layout: Layout) -> String {
    // Both were checked to be plain names when they were written.
    let (api_version, kind) = (gvk.api_version(), &gvk.kind);
    match layout {
        Layout::Struct => format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\","),
        Layout::Map => format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\","),
    }
}
