//! Rules of `metadata.ownerReferences` and `metadata.finalizers`, in the words of the real server.

use std::collections::BTreeSet;

use concert_api::{Fault, FieldError, FieldErrors, Gvk, OwnerReference, meta, names};
use serde_json::Value;

use crate::delete::{FOREGROUND, ORPHAN};
use crate::target::Target;

const FINALIZERS: &str = "metadata.finalizers";
const OWNERS: &str = "metadata.ownerReferences";
/// Finalizers that need no domain.
const STANDARD: [&str; 3] = ["kubernetes", ORPHAN, FOREGROUND];

/// When duplicate owners were found, in the order of the write pipeline.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    /// In what the client sent.
    Sent,
    /// In what a patch and admission made.
    Admitted,
}

/// Removes owners that are named twice; gives a warning if there were any.
pub(crate) fn deduplicate(object: &mut Value, stage: Stage) -> Option<String> {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut)?;
    let mut seen = BTreeSet::new();
    let mut duplicates = Vec::new();
    owners.retain(|owner| {
        let is_new = seen.insert(owner.to_string());
        if !is_new {
            duplicates.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        is_new
    });
    let when = match stage {
        Stage::Sent => "",
        Stage::Admitted => " after mutating admission happens",
    };
    (!duplicates.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        )
    })
}

/// What is wrong with the owners.
pub(crate) fn check_owners(object: &Value) -> FieldErrors {
    let list = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut errors = FieldErrors::new();
    let mut controller: Option<&Value> = None;
    for (place, owner) in list.iter().enumerate() {
        check_owner(owner, &format!("{OWNERS}[{place}]"), &mut errors);
        // Each further error shows all of them.
        if owner["controller"] != true || errors.is_full() {
            continue;
        }
        let named = |owner: &Value| format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        if let Some(first) = controller {
            let detail = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                named(first),
                named(owner)
            );
            let all: Vec<String> = list.iter().map(shown).collect();
            errors.push(FieldError::new(OWNERS, Fault::InvalidShown(Some(format!("[{}]", all.join(",")))), detail));
        } else {
            controller = Some(owner);
        }
    }
    errors
}

fn check_owner(owner: &Value, at: &str, errors: &mut FieldErrors) {
    let (api_version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
    let gvk = Gvk::from_api_version(api_version, if kind.is_empty() { "-" } else { kind });
    let group = gvk.as_ref().map(|gvk| gvk.group.as_str()).unwrap_or_default();
    if !api_version.is_empty() && gvk.is_none() {
        let detail = "must be <group>/<version> or <version>";
        errors.push(FieldError::invalid(format!("{at}.apiVersion"), api_version, detail));
    }
    for field in ["apiVersion", "kind", "name", "uid"] {
        if text(owner, field).is_empty() {
            errors.push(FieldError::required(format!("{at}.{field}"), "must not be empty"));
        }
    }
    if group.is_empty() && api_version == "v1" && kind == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::new(at, Fault::InvalidShown(Some(shown(owner))), detail));
    }
}

fn text<'a>(owner: &'a Value, field: &str) -> &'a str {
    owner[field].as_str().unwrap_or_default()
}

/// A reference in the order of its fields in Go.
fn shown(owner: &Value) -> String {
    let parsed: Option<OwnerReference> = serde_json::from_value(owner.clone()).ok();
    parsed.and_then(|owner| serde_json::to_string(&owner).ok()).unwrap_or_else(|| owner.to_string())
}

/// What is wrong with the finalizers.
pub(crate) fn check_finalizers(target: &Target, object: &Value) -> FieldErrors {
    let finalizers = meta::finalizers(object);
    let mut errors = FieldErrors::new();
    for finalizer in &finalizers {
        let faults = names::qualified_faults(finalizer);
        errors.extend(faults.into_iter().map(|fault| FieldError::invalid(FINALIZERS, *finalizer, fault)));
    }
    if finalizers.contains(&ORPHAN) && finalizers.contains(&FOREGROUND) {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(FINALIZERS, finalizers.clone(), detail));
    }
    let core = !target.resource.is_custom() && target.resource.id.group.is_empty() && target.resource.kind != "Event";
    for (place, finalizer) in finalizers.into_iter().enumerate().filter(|(_, one)| core && is_bare(one)) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(format!("{FINALIZERS}[{place}]"), finalizer, detail));
    }
    errors
}

/// What the author of a custom resource should know about its new finalizers.
pub(crate) fn finalizer_warnings(target: &Target, object: &Value, old: Option<&Value>) -> Vec<String> {
    let before: BTreeSet<&str> = old.map(meta::finalizers).unwrap_or_default().into_iter().collect();
    let new = meta::finalizers(object).into_iter().filter(|one| !before.contains(one));
    let bare = new.filter(|one| target.resource.is_custom() && is_bare(one));
    bare.map(|one| {
        format!(
            "{FINALIZERS}: {one:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
        )
    })
    .collect()
}

fn is_bare(finalizer: &str) -> bool {
    !finalizer.contains('/') && !STANDARD.contains(&finalizer)
}
