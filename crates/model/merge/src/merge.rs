//! Merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Applies a merge patch: members of the patch replace those of the document, null removes, objects merge.
///
/// Objects are walked with a list of its own, so that their depth cannot exhaust the stack.
pub fn merge_patch(document: &mut Value, patch: &Value) {
    let mut pending: Vec<(&mut Value, &Value)> = vec![(document, patch)];
    while let Some((target, patch)) = pending.pop() {
        let Value::Object(changes) = patch else {
            *target = without_null_members(patch);
            continue;
        };
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        let Value::Object(members) = target else { continue };
        for (key, change) in changes {
            if change.is_null() {
                members.remove(key);
            } else if !members.contains_key(key) {
                members.insert(key.clone(), Value::Null);
            }
        }
        pending.extend(members.iter_mut().filter_map(|(key, member)| Some((member, changes.get(key)?))));
    }
}

/// A copy without the null members of objects inside lists: the real server removes them there too, though it keeps
/// null items. Lists of a patch are as deep as the decoder allowed.
fn without_null_members(patch: &Value) -> Value {
    match patch {
        Value::Array(items) => items.iter().map(without_null_members).collect(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !member.is_null());
            kept.map(|(key, member)| (key.clone(), without_null_members(member))).collect()
        }
        other => other.clone(),
    }
}

/// The smallest merge patch that turns `old` into `new`; `None` if they are equal.
///
/// A merge patch cannot say that a member is null: such a null is written as the removal of its member, also inside
/// lists.
#[must_use]
pub fn merge_diff(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return Some(new.clone()) };
    let mut changes = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        changes.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        let change = match old.get(key) {
            Some(before) => merge_diff(before, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            changes.insert(key.clone(), change);
        }
    }
    Some(Value::Object(changes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::any_json;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn patches_merge_as_the_rfc_says() {
        for (document, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": 1}), json!({"a": null}), json!({"b": 1})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a"]), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (
                json!({"a": 1}),
                json!({"a": [1, null, {"b": null, "c": [{"d": null}]}]}),
                json!({"a": [1, null, {"c": [{}]}]}),
            ),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut patched = document.clone();
            merge_patch(&mut patched, &patch);
            assert_eq!(patched, expected, "{document} + {patch}");
        }
    }

    #[test]
    fn the_diff_is_small() {
        let old = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        assert_eq!(merge_diff(&old, &old), None);
        let new = json!({"a": {"b": 1}, "d": [2], "e": {}});
        assert_eq!(merge_diff(&old, &new), Some(json!({"a": {"c": null}, "d": [2], "e": {}})));
    }

    fn without_nulls(value: Value) -> Value {
        match value {
            Value::Object(members) => members
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
            Value::Array(items) => items.into_iter().map(without_nulls).collect(),
            other => other,
        }
    }

    proptest! {
        #[test]
        fn diff_then_patch_gives_new(old in any_json(), new in any_json()) {
            let (mut old, new) = (without_nulls(old), without_nulls(new));
            if let Some(patch) = merge_diff(&old, &new) {
                merge_patch(&mut old, &patch);
            }
            prop_assert_eq!(old, new);
        }
    }
}
