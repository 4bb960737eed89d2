//! Strategic merge patch: as a merge patch, but lists of built-in kinds can be merged, too.
//!
//! The schema says how (`x-kubernetes-patch-strategy`, `x-kubernetes-patch-merge-key`); the patch may say more with
//! directives: `$patch` (replace, delete), `$retainKeys`, `$deleteFromPrimitiveList/<list>`, `$setElementOrder/<list>`.

mod diff;
mod lists;
mod order;
mod place;

use std::collections::BTreeSet;

use concert_schema::Schema;
use serde_json::{Map, Value};

pub use diff::strategic_merge_diff;

use crate::error::StrategicError;
use crate::go;
use place::Place;

type Members = Map<String, Value>;

const DIRECTIVE: &str = "$patch";
const REPLACE: &str = "replace";
const DELETE: &str = "delete";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch; on failure the document is untouched. `kind` names the type of the document in
/// messages.
///
/// ```
/// use concert_merge::strategic_merge_patch;
/// use concert_schema::Builtin;
/// use serde_json::json;
///
/// let kind = concert_api::Gvk::new("", "v1", "ServiceAccount");
/// let schema = &Builtin::find(&kind).unwrap().schema;
/// let mut account = json!({"secrets": [{"name": "a"}, {"name": "b"}]});
/// let patch = json!({"secrets": [{"name": "c"}, {"name": "a", "$patch": "delete"}]});
/// strategic_merge_patch(&mut account, &patch, schema, "ServiceAccount")?;
/// assert_eq!(account, json!({"secrets": [{"name": "c"}, {"name": "b"}]}));
/// # Ok::<(), concert_merge::StrategicError>(())
/// ```
///
/// # Errors
/// The patch is malformed or does not fit the document, in the words of the real server.
pub fn strategic_merge_patch(
    document: &mut Value,
    patch: &Value,
    schema: &Schema,
    kind: &str,
) -> Result<(), StrategicError> {
    let Value::Object(changes) = patch else {
        let found = match patch {
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Number(_) | Value::Object(_) => "number",
            // The real server reads null as an empty patch.
            Value::Null => return Ok(()),
        };
        let why = format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
        return Err(StrategicError::BadRequest(why));
    };
    let original = document.as_object().cloned().unwrap_or_default();
    *document = Value::Object(merge_maps(original, changes.clone(), Place::root(schema, kind))?);
    Ok(())
}

fn merge_maps(mut original: Members, mut patch: Members, place: Place<'_>) -> Result<Members, StrategicError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return directed(directive, patch);
    }
    retain_keys(&mut original, &mut patch)?;
    order::set_orders(&mut original, &mut patch, place)?;
    for (key, value) in patch {
        merge_member(&mut original, key, value, place)?;
    }
    Ok(original)
}

/// What `$patch` makes of a map.
fn directed(directive: Value, mut patch: Members) -> Result<Members, StrategicError> {
    match directive.as_str() {
        Some(REPLACE) => Ok(patch),
        Some(DELETE) => Ok(Members::new()),
        _ => {
            let word = go::text(&directive);
            patch.insert(DIRECTIVE.to_owned(), directive);
            Err(unknown_type(&word, patch))
        }
    }
}

fn unknown_type(word: &str, patch: Members) -> StrategicError {
    let patch = go::plain(&Value::Object(patch));
    StrategicError::Internal(format!("unknown patch type: {word} in map: {patch}"))
}

/// Leaves nothing in the original but the members that `$retainKeys` names; the patch must not have others.
fn retain_keys(original: &mut Members, patch: &mut Members) -> Result<(), StrategicError> {
    let malformed = || StrategicError::BadRequest("invalid patch format of retainKeys".to_owned());
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else { return Err(malformed()) };
    let retained: BTreeSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_directive = |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
    if patch.iter().any(|(key, value)| !value.is_null() && !is_directive(key) && !retained.contains(key.as_str())) {
        return Err(malformed());
    }
    original.retain(|key, _| retained.contains(key.as_str()));
    Ok(())
}

/// The list that a directive's key is about.
fn list_of<'k>(key: &'k str, directive: &str) -> Option<&'k str> {
    key.split_once('/').filter(|(word, _)| *word == directive).map(|(_, list)| list)
}

fn merge_member(original: &mut Members, key: String, value: Value, place: Place<'_>) -> Result<(), StrategicError> {
    let deletes = key.starts_with(DELETE_FROM_LIST);
    let key = if deletes {
        let malformed = || StrategicError::BadRequest("invalid patch format of primitive list".to_owned());
        let list = list_of(&key, DELETE_FROM_LIST).ok_or_else(malformed)?;
        if list.is_empty() { key } else { list.to_owned() }
    } else {
        key
    };
    if value.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let merged = match (original.remove(&key), value) {
        (Some(Value::Object(members)), Value::Object(changes)) => {
            let field = place.field(&key)?;
            if field.strategy()? == REPLACE {
                Some(Value::Object(changes))
            } else {
                Some(Value::Object(merge_maps(members, changes, field)?))
            }
        }
        (Some(Value::Array(items)), Value::Array(changes)) => {
            let field = place.field(&key)?;
            Some(Value::Array(lists::merge_field(items, changes, field, place, deletes)?))
        }
        (old, _) if deletes => old,
        (_, mut value) => {
            drop_nulls(&mut value);
            without_directives(value)
        }
    };
    if let Some(merged) = merged {
        original.insert(key, merged);
    }
    Ok(())
}

/// Drops members that are null, at any depth: there is nothing that they could remove, or that they would say in a
/// configuration that is applied.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => members.retain(|_, member| {
            drop_nulls(member);
            !member.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What is left of a part of a patch that has nothing to be merged with.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => {
            let rest = members.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(rest.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}
