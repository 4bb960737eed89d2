//! From client-side apply to server-side apply: `kubectl` kept what it applied in an annotation.

use serde_json::{Map, Value};

use super::Endpoint;
use super::check::{self, Duplicates};
use super::compare::compare;
use super::owned::owned;
use super::types::Type;
use crate::conflict::{ApplyError, Conflicts};
use crate::fields::FieldSet;
use crate::go;

/// The only manager that may take over what the annotation says.
pub(super) const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// All annotations of an object together, names and values, as in the real server.
const ANNOTATIONS_MAX: usize = 256 * 1024;

impl Endpoint<'_> {
    /// Whether all conflicts are about fields that were applied by the client before, and are still so.
    pub(super) fn check_last_applied(&self, live: &Value, conflicts: Conflicts) -> Result<(), ApplyError> {
        let Some(allowed) = self.last_applied(live) else { return Err(ApplyError::Conflict(conflicts)) };
        let rest = conflicts.outside(&allowed);
        if rest.is_empty() { Ok(()) } else { Err(ApplyError::Conflict(rest)) }
    }

    /// The fields that the annotation has and that are the same in the object.
    fn last_applied(&self, live: &Value) -> Option<FieldSet> {
        let text = annotation(live).filter(|text| !text.is_empty())?;
        let kind = Type::of_object(self.schema);
        check::check(kind, live, Duplicates::Refused).ok()?;
        let applied: Value = serde_json::from_str(text).ok()?;
        if applied["apiVersion"] != self.gvk.api_version().as_str() {
            return None;
        }
        check::check(kind, &applied, Duplicates::Refused).ok()?;
        let mut fields = owned(kind, &applied);
        let changes = compare(kind, &applied, live);
        for set in [&changes.modified, &changes.added, &changes.removed] {
            fields.subtract(set);
        }
        Some(fields)
    }
}

/// Keeps the annotation true, if there is one: the applied configuration without it.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.get_mut("metadata").and_then(|meta| meta.get_mut("annotations")) {
        annotations.remove(ANNOTATION);
    }
    let mut text = String::new();
    go::json(&config, &mut text);
    text.push('\n');
    let Some(Value::Object(annotations)) = object.get_mut("metadata").and_then(|meta| meta.get_mut("annotations"))
    else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    if size(annotations) > ANNOTATIONS_MAX {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str()
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum()
}
