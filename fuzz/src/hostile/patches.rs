//! Patches.

use serde_json::Value;

use super::{Case, filled, long, some};
use crate::kinds::{Kind, PATCHED};
use crate::server::{Api, Call, JSON};

pub(super) const CASES: &[Case] = &[
    Case { name: "moves-of-something-large", run: moves_of_something_large },
    Case { name: "copies-of-something-large", run: copies_of_something_large },
    Case { name: "copies-of-copies", run: copies_of_copies },
    Case { name: "tests-of-something-large", run: tests_of_something_large },
    Case { name: "additions-at-the-front", run: additions_at_the_front },
    Case { name: "long-path", run: long_path },
    Case { name: "empty-operations-and-duplicates", run: empty_operations_and_duplicates },
    Case { name: "unknown-members-of-operations", run: unknown_members_of_operations },
    Case { name: "merge-of-many", run: merge_of_many },
    Case { name: "strategic-merge-of-many", run: strategic_merge_of_many },
    Case { name: "strategic-order-of-many", run: strategic_order_of_many },
    Case { name: "strategic-deletion-of-many", run: strategic_deletion_of_many },
    Case { name: "strategic-deletion-in-order", run: strategic_deletion_in_order },
    Case { name: "strategic-wrong-order", run: strategic_wrong_order },
];

const THING: &Kind = &PATCHED[0];
const POD: &Kind = &PATCHED[2];
const ACCOUNT: &Kind = &PATCHED[5];
/// More are refused at once.
const OPERATIONS_MAX: usize = 10_000;
const OPERATIONS: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Creates an object with more in it, and patches it.
fn send(kind: &Kind, at: &str, more: &str, media: &str, patch: &str) {
    let mut object = kind.sample();
    if let (Some(place), Ok(more)) = (object.pointer_mut(at), serde_json::from_str::<Value>(more)) {
        *place = more;
    }
    let mut api = Api::new();
    let path = api.create(kind, JSON, "", object.to_string().as_bytes()).expect("the object is one");
    api.send(&Call::patch(&path, media, patch.as_bytes()));
}

/// A large object in a Thing's `free`, and operations on it.
fn operate(bytes: usize, operation: impl Fn(usize) -> String) {
    let zeros = filled(bytes / 2, |_| "0".to_owned());
    let operations = some(OPERATIONS_MAX, bytes / 2, operation);
    send(THING, "/spec/free", &format!(r#"{{"a":[{zeros}]}}"#), OPERATIONS, &format!("[{operations}]"));
}

fn moves_of_something_large(bytes: usize) {
    operate(bytes, |index| {
        let (from, to) = if index % 2 == 0 { ("a", "b") } else { ("b", "a") };
        format!(r#"{{"op":"move","from":"/spec/free/{from}","path":"/spec/free/{to}"}}"#)
    });
}

fn copies_of_something_large(bytes: usize) {
    operate(bytes, |index| format!(r#"{{"op":"copy","from":"/spec/free/a","path":"/spec/free/b{index}"}}"#));
}

fn copies_of_copies(bytes: usize) {
    let operations = some(OPERATIONS_MAX, bytes, |index| {
        format!(r#"{{"op":"copy","from":"/spec/free","path":"/spec/free/b{index}"}}"#)
    });
    send(THING, "/spec/free", r#"{"a":1}"#, OPERATIONS, &format!("[{operations}]"));
}

fn tests_of_something_large(bytes: usize) {
    operate(bytes, |_| r#"{"op":"test","path":"/spec/free/a","value":[0,0,0,0]}"#.to_owned());
}

fn additions_at_the_front(bytes: usize) {
    operate(bytes, |_| r#"{"op":"add","path":"/spec/free/a/0","value":0}"#.to_owned());
}

fn long_path(bytes: usize) {
    let operation = format!(r#"[{{"op":"add","path":"{}","value":1}}]"#, "/a".repeat(bytes / 2));
    send(THING, "", "", OPERATIONS, &operation);
}

fn empty_operations_and_duplicates(bytes: usize) {
    let twice = filled(bytes / 2, |index| format!(r#""a{index}":1,"a{index}":1"#));
    let empty = filled(bytes / 2, |_| "{}".to_owned());
    send(THING, "", "", OPERATIONS, &format!(r#"[{{"value":{{{twice}}}}},{empty}]"#));
}

fn unknown_members_of_operations(bytes: usize) {
    let unknown = filled(bytes, |index| format!(r#"{{"x{index}":1}}"#));
    send(THING, "", "", OPERATIONS, &format!("[{unknown}]"));
}

fn merge_of_many(bytes: usize) {
    let members = filled(bytes / 2, |index| format!(r#""a{index}":{{"b":null}}"#));
    send(THING, "/spec/free", &format!("{{{members}}}"), MERGE, &format!(r#"{{"spec":{{"free":{{{members}}}}}}}"#));
}

fn secrets(bytes: usize, from: usize) -> String {
    filled(bytes, |index| format!(r#"{{"name":"s{}"}}"#, from + index))
}

fn strategic_merge_of_many(bytes: usize) {
    let patch = format!(r#"{{"secrets":[{}]}}"#, secrets(bytes / 2, 100));
    send(ACCOUNT, "/secrets", &format!("[{}]", secrets(bytes / 2, 0)), STRATEGIC, &patch);
}

fn strategic_order_of_many(bytes: usize) {
    let (all, some) = (secrets(bytes / 3, 0), secrets(bytes / 4, 0));
    let patch = format!(r#"{{"$setElementOrder/secrets":[{all}],"secrets":[{some}]}}"#);
    send(ACCOUNT, "/secrets", &format!("[{all}]"), STRATEGIC, &patch);
}

fn strategic_deletion_of_many(bytes: usize) {
    let deleted = filled(bytes / 2, |index| format!(r#"{{"$patch":"delete","name":"s{index}"}}"#));
    let patch = format!(r#"{{"secrets":[{deleted}]}}"#);
    send(ACCOUNT, "/secrets", &format!("[{}]", secrets(bytes / 2, 0)), STRATEGIC, &patch);
}

/// As many items as Go's memory is imitated for, each as large as it can be.
fn strategic_deletion_in_order(bytes: usize) {
    const ITEMS: usize = 999;
    let values = filled(bytes / 2 / ITEMS, |_| r#""x""#.to_owned());
    let item = |index: usize| format!(r#"{{"name":"c{index}","image":"i","args":[{values}]}}"#);
    let containers: Vec<String> = (0..ITEMS).map(item).collect();
    let deleted: Vec<String> =
        (0..ITEMS - 1).map(|index| format!(r#"{{"$patch":"delete","name":"c{index}"}}"#)).collect();
    let order = format!(r#"{{"name":"c{}"}}"#, ITEMS - 1);
    let patch =
        format!(r#"{{"spec":{{"$setElementOrder/containers":[{order}],"containers":[{}]}}}}"#, deleted.join(","));
    send(POD, "/spec/containers", &format!("[{}]", containers.join(",")), STRATEGIC, &patch);
}

fn strategic_wrong_order(bytes: usize) {
    let name = long(64);
    let items = filled(bytes / 3, |index| format!(r#"{{"name":"{name}{index}"}}"#));
    let patch = format!(r#"{{"$setElementOrder/secrets":[{items}],"secrets":[{items},{{"name":"other"}}]}}"#);
    send(ACCOUNT, "/secrets", "[]", STRATEGIC, &patch);
}
