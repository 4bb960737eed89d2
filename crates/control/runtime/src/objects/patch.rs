//! How an object is to be changed.

use concert_merge::{StrategicError, json_diff, merge_diff, strategic_merge_diff};
use concert_schema::Builtin;
use serde::Serialize;
use serde_json::{Value, json};

use crate::resource::Resource;

/// Where a JSON patch has it.
const VERSION: &str = "/metadata/resourceVersion";

/// A resourceVersion that is insisted on; the empty one is not.
pub(super) fn insisted(version: &str) -> Option<&str> {
    Some(version).filter(|version| !version.is_empty())
}

/// Why a patch cannot be made.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// A state does not serialize.
    #[error("cannot make a patch: {0}")]
    Unserializable(String),
    /// Only built-in kinds say how their lists are merged.
    #[error("cannot make a strategic merge patch of {0}: it is not a built-in kind; use Patch::merge")]
    NotBuiltIn(Resource),
    /// A state does not fit its kind.
    #[error("cannot make a strategic merge patch: {}", .0.public_message())]
    Strategic(StrategicError),
    /// A lock needs to know what it locks.
    #[error("cannot lock a patch: the state before has no metadata.resourceVersion; read it from the server first")]
    NoRevision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Json,
    Merge,
    Strategic,
    Apply { force: bool },
}

/// A change of an object: the difference between two states, or what somebody wrote himself.
///
/// ```
/// use concert_runtime::Patch;
/// use serde_json::json;
///
/// let before = json!({"metadata": {"resourceVersion": "7"}, "data": {"a": "1", "b": "2"}});
/// let after = json!({"metadata": {"resourceVersion": "7"}, "data": {"a": "1"}});
/// let patch = Patch::merge(&before, &after)?;
/// assert_eq!(patch.body(), &json!({"data": {"b": null}}));
/// // Only if nobody else has changed it:
/// assert_eq!(patch.locked()?.body()["metadata"]["resourceVersion"], "7");
/// assert!(Patch::merge(&before, &before)?.is_empty());
/// # Ok::<(), concert_runtime::PatchError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Patch {
    body: Value,
    kind: Kind,
    /// The resourceVersion of the state before, if it is known.
    revision: Option<String>,
}

fn tree(state: &impl Serialize) -> Result<Value, PatchError> {
    serde_json::to_value(state).map_err(|error| PatchError::Unserializable(error.to_string()))
}

impl Patch {
    fn between(
        before: &impl Serialize,
        after: &impl Serialize,
        kind: Kind,
        diff: impl FnOnce(&Value, &Value) -> Result<Option<Value>, PatchError>,
    ) -> Result<Self, PatchError> {
        let (before, after) = (tree(before)?, tree(after)?);
        let revision = before["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let nothing = if kind == Kind::Json { json!([]) } else { json!({}) };
        Ok(Self { body: diff(&before, &after)?.unwrap_or(nothing), kind, revision })
    }

    /// The difference as a JSON merge patch (RFC 7386): lists as a whole.
    ///
    /// # Errors
    /// A state does not serialize.
    pub fn merge(before: &impl Serialize, after: &impl Serialize) -> Result<Self, PatchError> {
        Self::between(before, after, Kind::Merge, |before, after| Ok(merge_diff(before, after)))
    }

    /// The difference as a JSON patch (RFC 6902): lists item by item, by their places.
    ///
    /// # Errors
    /// A state does not serialize.
    pub fn json(before: &impl Serialize, after: &impl Serialize) -> Result<Self, PatchError> {
        Self::between(before, after, Kind::Json, |before, after| Ok(json_diff(before, after)))
    }

    /// The difference as a strategic merge patch: lists item by item, by their keys. For built-in kinds only.
    ///
    /// # Errors
    /// The kind is not built in, or a state does not fit it.
    pub fn strategic(resource: &Resource, before: &impl Serialize, after: &impl Serialize) -> Result<Self, PatchError> {
        let builtin = Builtin::find(&resource.gvk).ok_or_else(|| PatchError::NotBuiltIn(resource.clone()))?;
        Self::between(before, after, Kind::Strategic, |before, after| {
            strategic_merge_diff(before, after, &builtin.schema, &resource.gvk.kind).map_err(PatchError::Strategic)
        })
    }

    /// A JSON merge patch as it is.
    #[must_use]
    pub fn raw_merge(body: Value) -> Self {
        Self { body, kind: Kind::Merge, revision: None }
    }

    /// A JSON patch as it is: a list of operations.
    #[must_use]
    pub fn raw_json(operations: Value) -> Self {
        Self { body: operations, kind: Kind::Json, revision: None }
    }

    /// A strategic merge patch as it is.
    #[must_use]
    pub fn raw_strategic(body: Value) -> Self {
        Self { body, kind: Kind::Strategic, revision: None }
    }

    /// A configuration for server-side apply as it is.
    #[must_use]
    pub fn apply(configuration: Value, force: bool) -> Self {
        Self { body: configuration, kind: Kind::Apply { force }, revision: None }
    }

    /// The same, carried out only if the object is still the one that the state before was read from.
    ///
    /// # Errors
    /// The state before did not come from a server.
    pub fn locked(mut self) -> Result<Self, PatchError> {
        let revision = self.revision.clone().ok_or(PatchError::NoRevision)?;
        if self.is_empty() {
            return Ok(self);
        }
        self.insist(&revision);
        Ok(self)
    }

    /// The same, carried out only upon this resourceVersion.
    pub(super) fn upon(&self, revision: &str) -> Self {
        let mut patch = self.clone();
        patch.insist(revision);
        patch
    }

    fn insist(&mut self, revision: &str) {
        match self.body.as_array_mut() {
            Some(operations) => {
                // Not a test: that would be answered as invalid, this is as a conflict.
                operations.insert(0, json!({"op": "replace", "path": VERSION, "value": revision}));
            }
            None => self.body["metadata"]["resourceVersion"] = revision.into(),
        }
    }

    /// The resourceVersion that it insists on: with another one it is a conflict.
    pub(super) fn before(&self) -> Option<&str> {
        let said = match self.body.as_array() {
            Some(operations) => &operations.iter().find(|one| one["path"] == VERSION && one["op"] != "test")?["value"],
            None => &self.body["metadata"]["resourceVersion"],
        };
        insisted(said.as_str()?)
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let nothing = self.body == json!({}) || self.body == json!([]);
        nothing && !matches!(self.kind, Kind::Apply { .. })
    }

    /// What is sent.
    #[must_use]
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// As what it is sent.
    pub(crate) fn content_type(&self) -> &'static str {
        match self.kind {
            Kind::Json => "application/json-patch+json",
            Kind::Merge => "application/merge-patch+json",
            Kind::Strategic => "application/strategic-merge-patch+json",
            Kind::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    /// Whether fields of others are taken over.
    pub(crate) fn is_forced(&self) -> bool {
        self.kind == Kind::Apply { force: true }
    }
}
