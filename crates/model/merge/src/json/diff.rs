//! Writing the JSON patch between two documents.

use serde_json::{Value, json};

/// A JSON patch that turns `old` into `new`; `None` if they are equal. Members and items that stayed are not named; of a
/// list, what is between its first and its last difference is told place by place.
#[must_use]
pub fn json_diff(old: &Value, new: &Value) -> Option<Value> {
    let mut operations = Vec::new();
    differ(&mut operations, "", old, new);
    (!operations.is_empty()).then(|| operations.into())
}

fn differ(operations: &mut Vec<Value>, path: &str, old: &Value, new: &Value) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            for key in before.keys().filter(|key| !after.contains_key(*key)) {
                operations.push(json!({"op": "remove", "path": member(path, key)}));
            }
            for (key, value) in after {
                match before.get(key) {
                    Some(known) => differ(operations, &member(path, key), known, value),
                    None => operations.push(json!({"op": "add", "path": member(path, key), "value": value})),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => of_list(operations, path, before, after),
        (_, new) => operations.push(json!({"op": "replace", "path": path, "value": new})),
    }
}

fn of_list(operations: &mut Vec<Value>, path: &str, old: &[Value], new: &[Value]) {
    let same = |(left, right): &(&Value, &Value)| left == right;
    let head = old.iter().zip(new).take_while(same).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    for (at, (left, right)) in old.iter().zip(new).enumerate() {
        differ(operations, &format!("{path}/{}", head + at), left, right);
    }
    // From the end, so that no removal moves what is still to be removed.
    for at in (new.len()..old.len()).rev() {
        operations.push(json!({"op": "remove", "path": format!("{path}/{}", head + at)}));
    }
    for (at, value) in new.iter().enumerate().skip(old.len()) {
        operations.push(json!({"op": "add", "path": format!("{path}/{}", head + at), "value": value}));
    }
}

fn member(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::any_json;
    use crate::json_patch;
    use proptest::prelude::*;

    #[test]
    fn what_stayed_is_not_named() {
        let old = json!({"a": [1, 2, {"x": 1}, 4], "b": 1, "c/d": 1});
        let new = json!({"a": [1, {"x": 2}, 4], "b": 1, "e~": []});
        let expected = json!([
            {"op": "remove", "path": "/c~1d"},
            {"op": "replace", "path": "/a/1", "value": {"x": 2}},
            {"op": "remove", "path": "/a/2"},
            {"op": "add", "path": "/e~0", "value": []},
        ]);
        assert_eq!(json_diff(&old, &new), Some(expected));
        assert_eq!(json_diff(&old, &old), None);
    }

    proptest! {
        #[test]
        fn the_patch_turns_the_old_into_the_new(old in any_json(), new in any_json()) {
            let mut patched = json!({"it": old});
            let new = json!({"it": new});
            if let Some(patch) = json_diff(&patched, &new) {
                json_patch(&mut patched, &patch).unwrap();
            }
            prop_assert_eq!(patched, new);
        }
    }
}
