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

/// Takes from `metadata` of a new object what only the server decides.
pub(crate) fn wipe(object: &mut Value) {
    let metadata = meta::of(object);
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}

/// Refuses to store a new object that says which revision it is. What is no revision does not count.
pub(crate) fn check_unversioned(object: &Value) -> Result<(), Status> {
    if meta::text(object, "resourceVersion").parse().is_ok_and(|revision: u64| revision > 0) {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Status::failure(500, "", message));
    }
    Ok(())
}

/// Makes `metadata` of a new object what the server decides it to be.
pub(crate) fn prepare_new(target: &Target, object: &mut Value, now: Time, random: &Random) -> Result<(), Status> {
    check_namespace(target, object)?;
    let metadata = meta::of(object);
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
    // Kinds that do not count changes keep what was sent.
    if metadata.get("generation").is_some_and(|sent| *sent == 0) {
        metadata.remove("generation");
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

/// The namespace in the object, if there is one, must be that of the path. Where objects live in none, it is dropped.
fn check_namespace(target: &Target, object: &Value) -> Result<(), Status> {
    let found = meta::text(object, "namespace");
    if found.is_empty() || target.namespace.as_deref().is_none_or(|expected| expected == found) {
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
    let mut errors = FieldErrors::new();
    let rule = target.resource.builtin.map_or(NameRule::Subdomain, |builtin| builtin.name_rule);
    let (name, base) = (meta::text(object, "name"), meta::text(object, "generateName"));
    if !base.is_empty() {
        let faults = rule.prefix_faults(base);
        errors.extend(faults.into_iter().map(|fault| FieldError::invalid("metadata.generateName", base, fault)));
    }
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let faults = rule.faults(name);
        errors.extend(faults.into_iter().map(|fault| FieldError::invalid("metadata.name", name, fault)));
    }
    let metadata = &object["metadata"];
    if let Some(generation) = metadata["generation"].as_i64().filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", generation, detail));
    }
    errors.extend(content_errors(metadata, object));
    errors.extend(owners::check_finalizers(target, object));
    errors
}

/// What was sent of that which is the server's to say, for [`check_update`].
pub(crate) fn own(sent: &Value) -> Value {
    let fields = ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"];
    let said = fields.into_iter().filter_map(|name| Some((name.to_owned(), sent["metadata"].get(name)?.clone())));
    serde_json::json!({"metadata": said.collect::<serde_json::Map<_, _>>()})
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
    let mut errors = FieldErrors::new();
    let uid = meta::text(sent, "uid");
    if !uid.is_empty() && uid != meta::text(old, "uid") {
        errors.push(FieldError::invalid("metadata.uid", uid, "field is immutable"));
    }
    // What is there already stays, whatever was sent; only a deletion puts it there.
    let deletion = meta::text(sent, "deletionTimestamp");
    if !deletion.is_empty() && !meta::is_deleting(old) {
        errors.push(FieldError::invalid("metadata.deletionTimestamp", deletion, "field is immutable"));
    }
    let grace = "deletionGracePeriodSeconds";
    let wanted = &sent["metadata"][grace];
    if !wanted.is_null() && *wanted != old["metadata"][grace] {
        errors.push(FieldError::invalid(format!("metadata.{grace}"), wanted.clone(), "field is immutable"));
    }
    if meta::is_deleting(old) {
        let before: std::collections::BTreeSet<&str> = meta::finalizers(old).into_iter().collect();
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
