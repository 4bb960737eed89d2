use super::*;
use proptest::prelude::*;
use serde_json::json;

/// What the real server (1.37.1) did with each of these, `None` where it answered 422.
#[test]
fn operations_do_what_the_real_server_does() {
    let document = json!({"data": {"a": "1"}, "list": ["a", "b"]});
    let add = |path: &str| json!([{"op": "add", "path": path, "value": "c"}]);
    let cases = [
        (json!([{"op": "test", "path": "/data/zz", "value": null}]), Some(document.clone())),
        (json!([{"op": "test", "path": "/data/zz", "value": "x"}]), None),
        (json!([{"op": "test", "path": "/zz/y", "value": null}]), None),
        (json!([{"op": "test", "path": "/data/a", "value": "1"}]), Some(document.clone())),
        (json!([{"op": "test", "path": "/data/a"}]), None),
        (json!([{"op": "test", "path": "", "value": {}}]), None),
        (json!([{"op": "test", "path": "/list/-1", "value": "b"}]), Some(document.clone())),
        (json!([{"op": "test", "path": "/list/5", "value": null}]), None),
        (json!([{"op": "test", "path": "/data/a/b", "value": "x"}]), None),
        (add("/metadata/labels/x"), None),
        (add("/data/b"), Some(json!({"data": {"a": "1", "b": "c"}, "list": ["a", "b"]}))),
        (add("/data/a~1~0b"), Some(json!({"data": {"a": "1", "a/~b": "c"}, "list": ["a", "b"]}))),
        (json!([{"op": "add", "path": "/data/b"}]), Some(json!({"data": {"a": "1", "b": null}, "list": ["a", "b"]}))),
        (add("/list/-"), Some(json!({"data": {"a": "1"}, "list": ["a", "b", "c"]}))),
        (add("/list/-1"), Some(json!({"data": {"a": "1"}, "list": ["a", "b", "c"]}))),
        (add("/list/-3"), Some(json!({"data": {"a": "1"}, "list": ["c", "a", "b"]}))),
        (add("/list/01"), Some(json!({"data": {"a": "1"}, "list": ["a", "c", "b"]}))),
        (add("/list/-4"), None),
        (add("/list/3"), None),
        (add("/list/x"), None),
        (add(""), None),
        (add("data"), None),
        (add("/data/a/b"), None),
        (
            json!([{"op": "replace", "path": "/data/zz", "value": 1}]),
            Some(json!({"data": {"a": "1", "zz": 1}, "list": ["a", "b"]})),
        ),
        (json!([{"op": "replace", "path": "/zz/zz", "value": 1}]), None),
        (json!([{"op": "replace", "path": "", "value": {}}]), Some(json!({}))),
        (
            json!([{"op": "replace", "path": "/list/-1", "value": 1}]),
            Some(json!({"data": {"a": "1"}, "list": ["a", 1]})),
        ),
        (json!([{"op": "replace", "path": "/list/-", "value": 1}]), None),
        (json!([{"op": "replace", "path": "/list/2", "value": 1}]), None),
        (json!([{"op": "remove", "path": "/data/zz"}]), None),
        (json!([{"op": "remove", "path": ""}]), None),
        (json!([{"op": "remove", "path": "/list/-1"}]), Some(json!({"data": {"a": "1"}, "list": ["a"]}))),
        (json!([{"op": "remove", "path": "/list/-"}]), None),
        (json!([{"op": "remove", "path": "/list/-3"}]), None),
        (
            json!([{"op": "move", "from": "/list/0", "path": "/list/-"}]),
            Some(json!({"data": {"a": "1"}, "list": ["b", "a"]})),
        ),
        (json!([{"op": "move", "from": "/data/zz", "path": "/data/q"}]), None),
        (json!([{"op": "move", "from": "/data", "path": "/data/q"}]), None),
        (
            json!([{"op": "copy", "from": "/data/zz", "path": "/data/q"}]),
            Some(json!({"data": {"a": "1", "q": null}, "list": ["a", "b"]})),
        ),
        (
            json!([{"op": "copy", "from": "/list/-1", "path": "/list/0"}]),
            Some(json!({"data": {"a": "1"}, "list": ["b", "a", "b"]})),
        ),
        (json!([{"op": "copy", "path": "/data/q"}]), None),
        (json!([{"op": "frob", "path": "/data/a"}]), None),
        (json!([{"path": "/data/a"}]), None),
        (json!([]), Some(document.clone())),
    ];
    for (patch, expected) in cases {
        let mut patched = document.clone();
        let answer = json_patch(&mut patched, &patch);
        assert_eq!(answer.is_ok(), expected.is_some(), "{patch}: {answer:?}");
        assert_eq!(patched, expected.unwrap_or_else(|| document.clone()), "{patch}");
    }
}

#[test]
fn malformed_patches_are_told_apart() {
    let mut document = json!({"a": "x".repeat(1_000_000)});
    for (patch, code, text) in [
        (json!({}), 400, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (json!([3]), 400, "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (
            json!([{"path": 3}]),
            400,
            "json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
        (Value::Array(vec![json!({}); 10_001]), 413, "maximum operations in a JSON patch is 10000, got 10001"),
        (Value::Array(vec![json!({"op": "copy", "from": "/a", "path": "/b"}); 4]), 422, "rejected our request"),
    ] {
        let error = json_patch(&mut document, &patch).unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.public_message().contains(text), "{}", error.public_message());
    }
}

#[test]
fn a_document_cannot_be_copied_into_itself_until_the_stack_ends() {
    let mut document = json!({"a": {}});
    let mut patch = Vec::new();
    let mut path = String::from("/a");
    for _ in 0..20 {
        path = format!("{path}{path}");
        patch.push(json!({"op": "copy", "from": "/a", "path": path}));
        if path.len() > 1000 {
            break;
        }
    }
    assert!(json_patch(&mut document, &patch.into()).is_err());
    assert_eq!(document, json!({"a": {}}));
}

#[test]
fn items_of_lists_are_pushed_fifty_million_times_at_most() {
    // Each new item pushes all others: 14,438 + 14,439 + … + 17,562 is 50,000,000.
    let patch = Value::Array(vec![json!({"op": "add", "path": "/0", "value": 1}); 3_125]);
    for (length, fits) in [(14_437, true), (14_438, false)] {
        let mut document = Value::Array(vec![Value::Null; length]);
        let patched = json_patch(&mut document, &patch);
        assert_eq!(patched.is_ok(), fits, "{length}: {patched:?}");
    }
}

pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-c~/]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c~/0-2]{0,2}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_operation() -> impl Strategy<Value = Value> {
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "x"]);
    let path = "(/([a-c0-2]|-|-1)){0,3}";
    (op, path, path, any_json())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

proptest! {
    #[test]
    fn a_patch_is_applied_whole_or_not_at_all(
        document in any_json(), patch in prop::collection::vec(any_operation(), 0..6)
    ) {
        let mut patched = document.clone();
        if json_patch(&mut patched, &patch.into()).is_err() {
            prop_assert_eq!(patched, document);
        }
    }

    #[test]
    fn any_patch_is_answered(document in any_json(), patch in any_json()) {
        let _ = json_patch(&mut document.clone(), &patch);
    }
}
