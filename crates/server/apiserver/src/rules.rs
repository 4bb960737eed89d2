//! The rules of metadata that hold for every kind.

use concert_api::{Fault, FieldError, FieldErrors, Status, Time, meta, names};
use concert_schema::NameRule;
use concert_world::Random;
use serde_json::Value;

use crate::owners;
use crate::target::Target;

/// The characters of generated names: no vowels, so that no words arise.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// `generateName` is cut to this length before five characters are added.
const GENERATED_BASE: usize = 58;

/// Makes `metadata` of a new object what the server decides it to be.
pub(crate) fn prepare_new(target: &Target, object: &mut Value, now: Time, random: &Random) -> Result<(), Status> {
    check_namespace(target, object)?;
    if !meta::text(object, "resourceVersion").is_empty() {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Status::failure(500, "", message));
    }
    let metadata = meta::of(object);
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "resourceVersion",
        "generation",
        "managedFields",
    ] {
        metadata.remove(field);
    }
    let base = meta::text(object, "generateName").to_owned();
    if meta::text(object, "name").is_empty() && !base.is_empty() {
        let cut = base.char_indices().nth(GENERATED_BASE).map_or(base.len(), |(at, _)| at);
        meta::set_text(object, "name", format!("{}{}", &base[..cut], random.text(SUFFIX, 5)));
    }
    meta::set_text(object, "namespace", target.namespace.clone().unwrap_or_default());
    meta::set_text(object, "uid", random.uuid());
    meta::set_text(object, "creationTimestamp", now.to_string());
    Ok(())
}

/// The namespace in the object, if there is one, must be that of the path.
fn check_namespace(target: &Target, object: &Value) -> Result<(), Status> {
    let found = meta::text(object, "namespace");
    // Outside of namespaces it is not looked at.
    if found.is_empty() || target.namespace.as_deref().is_none_or(|expected| found == expected) {
        return Ok(());
    }
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    Err(Status::bad_request(message))
}

/// The name in the object must be that of the path.
pub(crate) fn check_name(target: &Target, object: &Value) -> Result<(), Status> {
    let (found, expected) = (meta::text(object, "name"), target.name.as_deref().unwrap_or_default());
    if found == expected {
        return check_namespace(target, object);
    }
    let message = if found.is_empty() {
        format!("the name of the object ({expected} based on URL) was undeterminable: name must be provided")
    } else {
        format!("the name of the object ({found}) does not match the name on the URL ({expected})")
    };
    Err(Status::bad_request(message))
}

/// Puts back what an update cannot change.
pub(crate) fn keep_from_old(object: &mut Value, old: &Value) {
    let metadata = meta::of(object);
    metadata.remove("selfLink");
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "namespace",
        "name",
    ] {
        match old["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

/// What is wrong with the metadata of an object.
pub(crate) fn check(target: &Target, object: &Value) -> FieldErrors {
    let mut errors = Vec::new();
    let name = meta::text(object, "name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let rule = target.resource.builtin.map_or(NameRule::Subdomain, |builtin| builtin.name_rule);
        let faults = rule.faults(name);
        errors.extend(faults.into_iter().map(|fault| FieldError::invalid("metadata.name", name, fault)));
    }
    let metadata = &object["metadata"];
    errors.extend(content_errors(metadata, object));
    errors.extend(owners::check_finalizers(target, object));
    errors
}

/// What is wrong with a change of metadata. Custom resources are judged twice, and labels, annotations and owners of
/// theirs once more than by [`check`].
pub(crate) fn check_update(target: &Target, object: &Value, old: &Value, sent: &Value) -> FieldErrors {
    let mut errors = fixed_errors(object, old, sent);
    if target.resource.is_custom() {
        errors.extend(content_errors(&object["metadata"], object));
        errors.extend(errors.clone());
    }
    errors
}

fn content_errors(metadata: &Value, object: &Value) -> FieldErrors {
    let mut errors = names::check_labels(&metadata["labels"], "metadata.labels");
    errors.extend(names::check_annotations(&metadata["annotations"], "metadata.annotations"));
    errors.extend(owners::check_owners(object));
    errors
}

/// What was changed and cannot be.
fn fixed_errors(object: &Value, old: &Value, sent: &Value) -> FieldErrors {
    let mut errors = Vec::new();
    for field in ["uid", "deletionTimestamp"] {
        let wanted = meta::text(sent, field);
        if !wanted.is_empty() && wanted != meta::text(old, field) {
            errors.push(FieldError::invalid(format!("metadata.{field}"), wanted, "field is immutable"));
        }
    }
    let grace = "deletionGracePeriodSeconds";
    let wanted = &sent["metadata"][grace];
    if !wanted.is_null() && *wanted != old["metadata"][grace] {
        errors.push(FieldError::invalid(format!("metadata.{grace}"), wanted.clone(), "field is immutable"));
    }
    if meta::is_deleting(old) {
        let before = meta::finalizers(old);
        let new: Vec<String> = meta::finalizers(object)
            .into_iter()
            .filter(|one| !before.contains(one))
            .map(|one| format!("{one:?}"))
            .collect();
        if !new.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                new.join(", ")
            );
            errors.push(FieldError::new("metadata.finalizers", Fault::Forbidden, detail));
        }
    }
    errors
}
