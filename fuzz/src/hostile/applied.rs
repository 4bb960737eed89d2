//! Configurations, and the books of who owns what.

use concert_api::LabelSelector;
use concert_merge::{Force, ManagedFields, ReplicasPath};
use serde_json::{Value, json};

use super::{Case, filled, long};
use crate::apply::books::{Stored, check_set};
use crate::kinds::{Kind, PATCHED};

pub(super) const CASES: &[Case] = &[
    Case { name: "conflicts-under-a-long-name", run: conflicts_under_a_long_name },
    Case { name: "conflicts-far-down", run: conflicts_far_down },
    Case { name: "faults-under-a-long-name", run: faults_under_a_long_name },
    Case { name: "faults-under-a-long-key", run: faults_under_a_long_key },
    Case { name: "many-fields", run: many_fields },
    Case { name: "many-items", run: many_items },
    Case { name: "items-in-another-order", run: items_in_another_order },
    Case { name: "sets-of-numbers", run: sets_of_numbers },
    Case { name: "managers-that-apply", run: managers_that_apply },
    Case { name: "managers-that-update", run: managers_that_update },
    Case { name: "managers-of-another-version", run: managers_of_another_version },
    Case { name: "managers-of-a-scale", run: managers_of_a_scale },
    Case { name: "keys-of-large-json", run: keys_of_large_json },
    Case { name: "values-that-are-one", run: values_that_are_one },
    Case { name: "far-down-in-a-set", run: far_down_in_a_set },
    Case { name: "requirements-of-a-selector", run: requirements_of_a_selector },
    Case { name: "values-of-a-selector", run: values_of_a_selector },
];

const THING: &Kind = &PATCHED[0];

fn thing(spec: &str) -> Value {
    let spec: Value = serde_json::from_str(&format!("{{{spec}}}")).expect("a case is JSON");
    json!({"apiVersion": "g.example/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

/// Two managers apply what they do not agree about, then one of them applies nothing any more.
fn dispute(mine: &str, yours: &str) {
    let (mine, yours) = (thing(mine), thing(yours));
    let stored = Stored::nothing(THING).applied(&mine, "a", "", Force::No);
    let stored = stored.applied(&yours, "b", "", Force::No);
    let stored = stored.applied(&yours, "b", "", Force::Yes);
    let stored = stored.updated(&mine, "c", "");
    let _ = stored.applied(&thing(""), "a", "", Force::No);
}

fn conflicts_under_a_long_name(bytes: usize) {
    let name = long(bytes / 2);
    let spec = |value: usize| {
        let fields = filled(bytes / 2, |index| format!(r#""x{index}":{value}"#));
        format!(r#""free":{{"{name}":{{{fields}}}}}"#)
    };
    dispute(&spec(1), &spec(2));
}

fn conflicts_far_down(bytes: usize) {
    let spec = |value: usize| {
        let fields = filled(bytes, |index| format!(r#""x{index}":{value}"#));
        format!(r#""free":{}{{{fields}}}{}"#, r#"{"a":"#.repeat(90), "}".repeat(90))
    };
    dispute(&spec(1), &spec(2));
}

fn faults_under_a_long_name(bytes: usize) {
    let (name, fields) = (long(bytes / 2), filled(bytes / 2, |index| format!(r#""x{index}":1"#)));
    dispute(&format!(r#""nested":{{"{name}":{{{fields}}}}}"#), "");
}

fn faults_under_a_long_key(bytes: usize) {
    let (name, fields) = (long(bytes / 2), filled(bytes / 2, |index| format!(r#""x{index}":1"#)));
    dispute(&format!(r#""named":[{{"name":"{name}","entries":{{{fields}}}}}]"#), "");
}

fn many_fields(bytes: usize) {
    let fields = |word: &str| filled(bytes, |index| format!(r#""x{index}":"{word}""#));
    dispute(&format!(r#""entries":{{{}}}"#, fields("a")), &format!(r#""entries":{{{}}}"#, fields("b")));
}

fn many_items(bytes: usize) {
    let items = |word: &str| filled(bytes, |index| format!(r#"{{"port":{index},"name":"{word}"}}"#));
    dispute(&format!(r#""ports":[{}]"#, items("a")), &format!(r#""ports":[{}]"#, items("b")));
}

fn items_in_another_order(bytes: usize) {
    let count = bytes / 8;
    let tags = |number: &dyn Fn(usize) -> usize| filled(bytes, |index| format!(r#""{}""#, number(index)));
    let (up, down) = (tags(&|index| index), tags(&|index| count.saturating_sub(index) + bytes * (index / (count + 1))));
    let mixed = tags(&|index| index * 7 + 1);
    dispute(&format!(r#""tags":[{up}]"#), &format!(r#""tags":[{down}]"#));
    dispute(&format!(r#""tags":[{up}]"#), &format!(r#""tags":[{mixed}]"#));
}

fn sets_of_numbers(bytes: usize) {
    let numbers = |from: usize| {
        filled(bytes, |index| match index % 2 {
            0 => format!("{}", from + 3 * index),
            _ => format!("{}.0", from + 3 * index),
        })
    };
    let set = |from: usize| format!(r#""numbers":[{}]"#, numbers(from));
    dispute(&set(9_007_199_254_740_000), &set(9_007_199_254_741_001));
}

/// An object whose books a client has written.
fn booked(entry: impl Fn(usize) -> String, bytes: usize) -> Stored {
    let fields = filled(bytes / 4, |index| format!(r#""x{index}":"a""#));
    let mut sent = thing(&format!(r#""entries":{{{fields}}}"#));
    let entries = format!("[{}]", filled(bytes / 2, entry));
    sent["metadata"]["managedFields"] = serde_json::from_str(&entries).expect("a case is JSON");
    Stored::nothing(THING).updated(&sent, "a", "")
}

fn entry(index: usize, operation: &str, version: &str) -> String {
    format!(
        r#"{{"manager":"m{index}","operation":"{operation}","apiVersion":"g.example/{version}","fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{{"f:entries":{{"f:x{index}":{{}}}},"f:size":{{}}}}}}}}"#
    )
}

fn write_after(stored: Stored) {
    let one = thing(r#""entries":{"x1":"b"}"#);
    let stored = stored.applied(&one, "m0", "", Force::No);
    let stored = stored.applied(&one, "m0", "", Force::Yes);
    let _ = stored.updated(&one, "u", "");
}

fn managers_that_apply(bytes: usize) {
    write_after(booked(|index| entry(index, "Apply", "v1"), bytes));
}

fn managers_that_update(bytes: usize) {
    write_after(booked(|index| entry(index, "Update", "v1"), bytes));
}

fn managers_of_another_version(bytes: usize) {
    write_after(booked(|index| entry(index, "Apply", "v2"), bytes));
}

fn managers_of_a_scale(bytes: usize) {
    let entries = format!("[{}]", filled(bytes, |index| entry(index, "Apply", "v1")));
    let managed: Value = serde_json::from_str(&entries).expect("a case is JSON");
    let managed = ManagedFields::parse(&managed).expect("they are managers");
    let size = concert_merge::FieldSet::of(&[&["spec", "size"]]);
    let paths = [ReplicasPath { api_version: "g.example/v1", path: Some(&size) }];
    let scale = managed.to_scale(&paths);
    let back = managed.from_scale(&scale, "g.example/v1", &paths);
    assert_eq!(back, managed);
    let mut reversed = scale.to_value();
    reversed.as_array_mut().expect("they are a list").iter_mut().enumerate().for_each(|(index, entry)| {
        entry["manager"] = format!("o{index}").into();
    });
    let others = ManagedFields::parse(&reversed).expect("they are managers");
    let _ = managed.from_scale(&others, "g.example/v1", &paths);
}

fn sets(fields: &str) {
    let fields: Value = serde_json::from_str(&format!("{{{fields}}}")).expect("a case is JSON");
    if let Ok(set) = concert_merge::FieldSet::parse(&fields) {
        check_set(&set);
    }
    let mut sent = thing("");
    sent["metadata"]["managedFields"] = json!([{
        "manager": "m", "operation": "Apply", "apiVersion": "g.example/v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
    }]);
    write_after(Stored::nothing(THING).updated(&sent, "a", ""));
}

fn keys_of_large_json(bytes: usize) {
    sets(&format!(r#""k:{{\"a\":[{}]}}":{{}}"#, filled(bytes / 2, |_| "1".to_owned())));
    sets(&filled(bytes, |index| format!(r#""k:{{\"a\":{index},\"b\":\"x\"}}":{{}}"#)));
}

fn values_that_are_one(bytes: usize) {
    sets(&filled(bytes, |index| format!(r#""v:1.{}":{{}}"#, "0".repeat(index % 500))));
    sets(&filled(bytes, |index| format!(r#""v:{}":{{}}"#, 9_007_199_254_740_992_usize + index)));
}

fn far_down_in_a_set(bytes: usize) {
    let one = format!("{}{}", r#"{"f:a":"#.repeat(90), format_args!("{{}}{}", "}".repeat(90)));
    sets(&filled(bytes, |index| format!(r#""f:x{index}":{one}"#)));
}

fn requirements_of_a_selector(bytes: usize) {
    let labels = [("a".to_owned(), "b".to_owned())].into();
    for part in ["a", "a!=c", "!z", "a in (b,c,d)"] {
        let selector = LabelSelector::parse(&filled(bytes, |_| part.to_owned())).expect("it is a selector");
        assert!(selector.matches(&labels));
    }
    let different = LabelSelector::parse(&filled(bytes, |index| format!("!k{index}"))).expect("it is a selector");
    assert!(different.matches(&labels));
}

fn values_of_a_selector(bytes: usize) {
    let text = format!("a notin ({})", filled(bytes, |index| format!("v{index}")));
    let selector = LabelSelector::parse(&text).expect("it is a selector");
    for index in 0..100 {
        assert!(selector.matches(&[("a".to_owned(), format!("w{index}"))].into()));
    }
}
