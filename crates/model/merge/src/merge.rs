//! Merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Applies a merge patch: members of the patch replace those of the document, null removes, objects merge.
///
/// Walks with a list of its own, so that no depth of patch can exhaust the stack.
pub fn merge_patch(document: &mut Value, patch: &Value) {
    let mut pending: Vec<(&mut Value, &Value)> = vec![(document, patch)];
    while let Some((target, patch)) = pending.pop() {
        let Value::Object(changes) = patch else {
            *target = patch.clone();
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

/// The smallest merge patch that turns `old` into `new`; `None` if they are equal.
///
/// A merge patch cannot say that a member is null, or keep a null inside a new object: such a null is written as the
/// removal of its member.
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
