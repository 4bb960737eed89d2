//! What an event says, and about which object.

use std::sync::Arc;

use concert_api::{Gvk, Object};
use serde_json::{Value, json};

/// Longer messages are cut.
const MAX_MESSAGE: usize = 1024;
/// Longer reasons and actions are cut.
const MAX_WORD: usize = 128;
/// What was done where nobody says it; the API wants a word for it.
const ACTION: &str = "Reconciling";

/// How an event looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// As it should be.
    Normal,
    /// Somebody may have to act.
    Warning,
}

impl EventKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An object, as an event names it: made of an [`Object`], or [of](Reference::of) a typed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

impl Reference {
    /// A typed object.
    #[must_use]
    pub fn of<K: kube::Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self {
            api_version: Gvk::new(K::group(&()), K::version(&()), K::kind(&())).api_version(),
            kind: K::kind(&()).into_owned(),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            resource_version: text(&meta.resource_version),
        }
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What it is told by from all others, whatever becomes of it.
    pub(super) fn identity(&self) -> String {
        format!("{} {}/{} {}", self.kind, self.namespace, self.name, self.uid)
    }

    pub(super) fn value(&self) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace, "name": self.name,
            "uid": self.uid, "resourceVersion": self.resource_version,
        })
    }
}

impl From<&Object> for Reference {
    fn from(object: &Object) -> Self {
        Self {
            api_version: object.api_version().into_owned(),
            kind: object.kind().into_owned(),
            namespace: object.namespace().into_owned(),
            name: object.name().into_owned(),
            uid: object.uid().into_owned(),
            resource_version: object.resource_version().into_owned(),
        }
    }
}

/// As caches give them.
impl From<&Arc<Object>> for Reference {
    fn from(object: &Arc<Object>) -> Self {
        Self::from(&**object)
    }
}

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub struct Event {
    pub(super) about: Reference,
    pub(super) related: Option<Reference>,
    pub(super) kind: EventKind,
    pub(super) reason: String,
    pub(super) action: String,
    pub(super) message: String,
}

impl Event {
    /// What happened. `reason` is one word in camel case; `message` is for people.
    #[must_use]
    pub fn new(about: impl Into<Reference>, kind: EventKind, reason: &str, message: &str) -> Self {
        let (reason, action) = (cut_to(reason, MAX_WORD), ACTION.to_owned());
        Self { about: about.into(), related: None, kind, reason, action, message: cut(message) }
    }

    /// What was done when it happened, as one word in camel case; `Reconciling` by default.
    #[must_use]
    pub fn action(self, action: &str) -> Self {
        Self { action: cut_to(action, MAX_WORD), ..self }
    }

    /// Another object that has to do with it.
    #[must_use]
    pub fn related(self, related: impl Into<Reference>) -> Self {
        Self { related: Some(related.into()), ..self }
    }

    /// Which object it is about.
    pub(super) fn subject(&self) -> String {
        self.about.identity()
    }

    /// What it has in common with others of its sort, but for their words.
    pub(super) fn sort(&self) -> String {
        let related = self.related.as_ref().map(Reference::identity).unwrap_or_default();
        format!("{} {} {related}", self.reason, self.action)
    }

    /// Events about cluster-scoped objects live in `default`.
    pub(super) fn home(&self) -> &str {
        match self.about.namespace() {
            "" => "default",
            namespace => namespace,
        }
    }
}

/// Cuts a message to what an event may hold.
pub(super) fn cut(message: &str) -> String {
    cut_to(message, MAX_MESSAGE)
}

/// Cuts a text at a character's end.
pub(super) fn cut_to(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most.saturating_sub(3)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        let long = "ä".repeat(2000);
        let short = cut(&long);
        assert!(short.len() <= MAX_MESSAGE && short.ends_with("ä..."));
        assert_eq!(cut("short"), "short");
    }
}
