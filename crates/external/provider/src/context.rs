//! What an operation knows about its object.

use std::collections::BTreeMap;

use serde_json::Value;

/// Crossplane's annotation, which users bring along.
pub(crate) const EXTERNAL_NAME: &str = "crossplane.io/external-name";

/// The object that an operation is for.
#[derive(Clone, Debug)]
pub struct Context {
    name: String,
    namespace: Option<String>,
    uid: String,
    deleting: bool,
    token: Option<String>,
    annotations: BTreeMap<String, String>,
    changed: BTreeMap<String, String>,
}

impl Context {
    pub(crate) fn of(object: &Value, token: Option<String>) -> Self {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().map(str::to_owned);
        let annotation = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        Self {
            name: text("name").unwrap_or_default(),
            namespace: text("namespace").filter(|namespace| !namespace.is_empty()),
            uid: text("uid").unwrap_or_default(),
            deleting: metadata["deletionTimestamp"].is_string(),
            token,
            annotations: metadata["annotations"].as_object().into_iter().flatten().filter_map(annotation).collect(),
            changed: BTreeMap::new(),
        }
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The object's namespace, if its kind has any.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The object's uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether the object is being deleted.
    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        self.deleting
    }

    /// Identifies the create that may have happened or now happens. Store it with what you create, and find by it
    /// (`NamePolicy::SearchedByToken`). Absent if the reconciler does not send it.
    #[must_use]
    pub fn create_token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// How the external resource is found, once that is known.
    #[must_use]
    pub fn external_name(&self) -> Option<&str> {
        self.annotation(EXTERNAL_NAME).filter(|name| !name.is_empty())
    }

    /// Says how the external resource is found from now on.
    pub fn set_external_name(&mut self, name: impl Into<String>) {
        self.set_annotation(EXTERNAL_NAME, name);
    }

    /// An annotation of the object.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Sets an annotation of the object. The reconciler ignores those that are its own.
    pub fn set_annotation(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into();
        if self.annotation(key) != Some(&value) {
            self.changed.insert(key.to_owned(), value.clone());
            self.annotations.insert(key.to_owned(), value);
        }
    }

    /// The annotations that were set.
    pub(crate) fn into_changed(self) -> BTreeMap<String, String> {
        self.changed
    }
}
