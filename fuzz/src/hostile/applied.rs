//! Configurations, and the books of who owns what.

use concert_api::LabelSelector;
use concert_merge::{FieldSet, ManagedFields, ReplicasPath};
use serde_json::Value;

use super::{Case, filled, long};
use crate::kinds::{Kind, PATCHED};
use crate::server::{Api, Call};

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
    Case { name: "managers-of-no-version", run: managers_of_no_version },
    Case { name: "managers-of-a-scale", run: managers_of_a_scale },
    Case { name: "keys-of-large-json", run: keys_of_large_json },
    Case { name: "values-that-are-one", run: values_that_are_one },
    Case { name: "far-down-in-a-set", run: far_down_in_a_set },
    Case { name: "requirements-of-a-selector", run: requirements_of_a_selector },
    Case { name: "values-of-a-selector", run: values_of_a_selector },
];

const THING: &Kind = &PATCHED[0];

fn thing(spec: &str) -> String {
    format!(r#"{{"apiVersion":"g.example/v1","kind":"Thing","metadata":{{"name":"a"}},"spec":{{{spec}}}}}"#)
}

/// The server, and its only Thing.
struct Talk {
    api: Api,
    path: String,
}

impl Talk {
    fn new() -> Self {
        Self { api: Api::new(), path: format!("{}/a", THING.path()) }
    }

    fn apply(&mut self, manager: &str, force: bool, config: &str) -> u16 {
        let path = format!("{}?fieldManager={manager}&force={force}", self.path);
        self.api.send(&Call::patch(&path, "application/apply-patch+yaml", config.as_bytes())).code
    }

    fn merge(&mut self, patch: &str) -> u16 {
        self.api.send(&Call::patch(&self.path, "application/merge-patch+json", patch.as_bytes())).code
    }
}

/// Two managers apply what they do not agree about, then one of them applies nothing any more.
fn dispute(mine: &str, yours: &str) {
    let (mine, yours) = (thing(mine), thing(yours));
    let mut talk = Talk::new();
    talk.apply("a", false, &mine);
    talk.apply("b", false, &yours);
    talk.apply("b", true, &yours);
    talk.merge(&mine);
    talk.apply("a", false, &thing(""));
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

/// Lets a client write the books of an object, then applies and patches it.
fn booked(bytes: usize, entry: impl Fn(usize) -> String) {
    let entries = filled(bytes / 2, entry);
    let fields = filled(bytes / 4, |index| format!(r#""x{index}":"a""#));
    let mut talk = Talk::new();
    talk.apply("a", false, &thing(&format!(r#""entries":{{{fields}}}"#)));
    talk.merge(&format!(r#"{{"metadata":{{"managedFields":[{entries}]}}}}"#));
    let one = thing(r#""entries":{"x1":"b"}"#);
    talk.apply("m0", false, &one);
    talk.apply("m0", true, &one);
    talk.merge(r#"{"spec":{"entries":{"x2":"c"}}}"#);
}

fn entry(index: usize, operation: &str, version: &str) -> String {
    format!(
        r#"{{"manager":"m{index}","operation":"{operation}","apiVersion":"g.example/{version}","fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{{"f:entries":{{"f:x{index}":{{}}}},"f:size":{{}}}}}}}}"#
    )
}

fn managers_that_apply(bytes: usize) {
    booked(bytes, |index| entry(index, "Apply", "v1"));
}

fn managers_that_update(bytes: usize) {
    booked(bytes, |index| entry(index, "Update", "v1"));
}

fn managers_of_another_version(bytes: usize) {
    booked(bytes, |index| entry(index, "Apply", "v2"));
}

fn managers_of_no_version(bytes: usize) {
    booked(bytes, |index| entry(index, "Apply", &format!("v{index}")));
}

fn managers_of_a_scale(bytes: usize) {
    let entries = format!("[{}]", filled(bytes, |index| entry(index, "Apply", "v1")));
    let managed: Value = serde_json::from_str(&entries).expect("a case is JSON");
    let managed = ManagedFields::parse(&managed).expect("they are managers");
    let size = FieldSet::of(&[&["spec", "size"]]);
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

/// One manager with such a set.
fn set(bytes: usize, fields: &str) {
    booked(bytes, |index| {
        let fields = if index == 0 { fields } else { "" };
        format!(
            r#"{{"manager":"m{index}","operation":"Apply","apiVersion":"g.example/v1","fieldsType":"FieldsV1","fieldsV1":{{{fields}}}}}"#
        )
    });
}

fn keys_of_large_json(bytes: usize) {
    set(64, &format!(r#""k:{{\"a\":[{}]}}":{{}}"#, filled(bytes / 2, |_| "1".to_owned())));
    set(64, &filled(bytes, |index| format!(r#""k:{{\"a\":{index},\"b\":\"x\"}}":{{}}"#)));
}

fn values_that_are_one(bytes: usize) {
    set(64, &filled(bytes, |index| format!(r#""v:1.{}":{{}}"#, "0".repeat(index % 500))));
    set(64, &filled(bytes, |index| format!(r#""v:{}":{{}}"#, 9_007_199_254_740_992_usize + index)));
}

fn far_down_in_a_set(bytes: usize) {
    let one = format!("{}{}", r#"{"f:a":"#.repeat(90), format_args!("{{}}{}", "}".repeat(90)));
    set(64, &filled(bytes, |index| format!(r#""f:x{index}":{one}"#)));
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
