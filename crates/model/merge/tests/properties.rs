//! What is true of every sequence of writes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use concert_api::{Gvk, Time};
use concert_merge::{
    Applied, ApplyError, Author, Endpoint, FieldSet, Force, Live, ManagedFields, Operation, SingleVersion,
    strategic_merge_patch,
};
use concert_schema::Schema;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

static KIND: LazyLock<Gvk> = LazyLock::new(|| Gvk::new("g.example", "v1", "Thing"));
static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["status"]]));
static EMPTY: LazyLock<Value> =
    LazyLock::new(|| json!({"apiVersion": "g.example/v1", "kind": "Thing", "metadata": {}}));

/// One of every way to merge.
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": text, "target": {"x-kubernetes-int-or-string": true},
    }});
    let source = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "tier": text,
            "entries": {"type": "object", "additionalProperties": text},
            "ports": {"type": "array", "items": port, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]},
            "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "words": {"type": "array", "items": text},
            "choice": {"type": "object", "properties": {"a": text, "b": text}, "x-kubernetes-map-type": "atomic"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
        "status": {"type": "object", "properties": {"phase": text}},
    }});
    Schema::compile(&source, "schema").unwrap()
});

fn endpoint() -> Endpoint<'static> {
    Endpoint { gvk: &KIND, schema: &SCHEMA, subresource: "", ignored: &STATUS, empty: &EMPTY, versions: &SingleVersion }
}

/// An object and its books.
#[derive(Clone, Debug, PartialEq)]
struct Stored {
    object: Value,
    managed: ManagedFields,
}

impl Stored {
    fn nothing() -> Self {
        Self { object: EMPTY.clone(), managed: ManagedFields::default() }
    }

    fn live(&self) -> Live<'_> {
        Live { object: &self.object, managed: &self.managed }
    }

    fn apply(&self, manager: &str, config: &Value, force: Force) -> Result<Applied, ApplyError> {
        endpoint().apply(self.live(), config, author(manager), force)
    }

    fn forced(&self, manager: &str, config: &Value) -> Self {
        let applied = self.apply(manager, config, Force::Yes).unwrap();
        Self { object: with_uid(applied.object), managed: applied.managed }
    }

    fn update(&self, manager: &str, new: &Value) -> Self {
        let mut object = new.clone();
        let managed = endpoint().update(self.live(), &mut object, author(manager));
        Self { object: with_uid(object), managed }
    }

    fn owned_by(&self, manager: &str, operation: Operation) -> Vec<String> {
        let entries = self.managed.entries().iter();
        let own = entries.filter(|entry| entry.manager == manager && entry.operation == operation);
        own.flat_map(|entry| entry.fields.paths()).collect()
    }
}

fn author(manager: &str) -> Author<'_> {
    Author { manager, now: Time::from_unix_seconds(1_700_000_000) }
}

fn with_uid(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.insert("uid".into(), "u".into());
    }
    object
}

/// All fields of an object: what a create books.
fn fields(object: &Value) -> BTreeSet<String> {
    Stored::nothing().update("anyone", object).owned_by("anyone", Operation::Update).into_iter().collect()
}

/// The fields of an object that have none below them.
fn leaves(object: &Value) -> BTreeSet<String> {
    let all = fields(object);
    let has_below =
        |path: &str| all.iter().any(|other| other.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '['])));
    all.iter().filter(|path| !has_below(path)).cloned().collect()
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned)
}

fn texts() -> impl Strategy<Value = Value> {
    btree_map(word(), word(), 1..4).prop_map(|members| json!(members))
}

fn ports() -> impl Strategy<Value = Value> {
    let port = (option::of(word()), option::of(prop::sample::select(vec![json!(1), json!("x")])));
    let key = (0..4_u16, option::of(prop::sample::select(vec!["TCP", "UDP"])));
    btree_map(key, port, 1..4).prop_map(|ports| {
        let mut seen = BTreeSet::new();
        let ports = ports.into_iter().filter(|((port, protocol), _)| seen.insert((*port, protocol.unwrap_or("TCP"))));
        let item = |((port, protocol), (name, target)): ((u16, Option<&str>), _)| {
            without_nulls(json!({"port": port, "protocol": protocol, "name": name, "target": target}))
        };
        ports.map(item).collect()
    })
}

fn free() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![word().prop_map(Value::from), (0..3).prop_map(Value::from), any::<bool>().prop_map(Value::from)];
    let below = leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 1..3).prop_map(Value::from),
            btree_map(word(), inner, 1..3).prop_map(|m| json!(m))
        ]
    });
    btree_map(word(), below, 1..3).prop_map(|members| json!(members))
}

fn set() -> impl Strategy<Value = Value> {
    prop::collection::btree_set(word(), 1..4).prop_map(|items| json!(items))
}

/// A configuration in which nothing is null or empty.
fn config() -> impl Strategy<Value = Value> {
    let spec = (
        option::of(0..3),
        option::of(word()),
        option::of(texts()),
        option::of(ports()),
        option::of(set()),
        option::of(vec(word(), 1..3)),
        option::of(texts()),
        option::of(free()),
    );
    (option::of(texts()), spec).prop_map(|(labels, (size, tier, entries, ports, tags, words, choice, free))| {
        let choice = choice.map(|choice| json!({"a": choice["a"], "b": "b"})).map(without_nulls);
        let spec = without_nulls(json!({
            "size": size, "tier": tier, "entries": entries, "ports": ports, "tags": tags, "words": words,
            "choice": choice, "free": free,
        }));
        let metadata = without_nulls(json!({"name": "n", "labels": labels}));
        let spec = if spec == json!({}) { json!({"tier": "a"}) } else { spec };
        json!({"apiVersion": "g.example/v1", "kind": "Thing", "metadata": metadata, "spec": spec})
    })
}

fn without_nulls(value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    Value::Object(members.into_iter().filter(|(_, member)| !member.is_null()).collect())
}

/// Items of lists by their text: two orders of the same items are the same.
fn unordered(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(unordered).collect();
            items.sort_by_key(Value::to_string);
            items.into()
        }
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, member)| (name.clone(), unordered(member))).collect())
        }
        other => other.clone(),
    }
}

/// The even and the odd half of a configuration, down to items and entries.
fn halves(config: &Value) -> (Value, Value) {
    let half = |parity: usize| {
        let mut half = config.clone();
        let parts = [("spec", "entries"), ("spec", "ports"), ("spec", "tags"), ("metadata", "labels")];
        for (above, part) in parts {
            match half[above].get_mut(part) {
                Some(Value::Object(members)) => {
                    let mut at = 0;
                    members.retain(|_, _| {
                        at += 1;
                        at % 2 == parity
                    });
                    if members.is_empty() {
                        half[above].as_object_mut().unwrap().remove(part);
                    }
                }
                Some(Value::Array(items)) => {
                    let mut at = 0;
                    items.retain(|_| {
                        at += 1;
                        at % 2 == parity
                    });
                    if items.is_empty() {
                        half[above].as_object_mut().unwrap().remove(part);
                    }
                }
                _ => {}
            }
        }
        for (at, part) in ["size", "tier", "words", "choice", "free"].into_iter().enumerate() {
            if at % 2 == parity {
                half["spec"].as_object_mut().unwrap().remove(part);
            }
        }
        if half["spec"] == json!({}) {
            half.as_object_mut().unwrap().remove("spec");
        }
        half
    };
    (half(0), half(1))
}

/// A write: by whom, how, and what.
fn write() -> impl Strategy<Value = (&'static str, bool, Value)> {
    (prop::sample::select(vec!["one", "two", "three"]), any::<bool>(), config())
}

/// Any JSON, with names that mean something here and there.
fn anything() -> impl Strategy<Value = Value> {
    let names = [
        "spec",
        "metadata",
        "labels",
        "ports",
        "port",
        "protocol",
        "tags",
        "entries",
        "free",
        "status",
        "name",
        "managedFields",
        "fieldsV1",
        "fieldsType",
        "operation",
        "apiVersion",
        "kind",
        "time",
        "manager",
        "f:spec",
        "f:ports",
        "k:{\"port\":1}",
        "k:{",
        "v:1",
        "v:",
        "i:0",
        "i:x",
        ".",
        "x:y",
        "$patch",
        "$retainKeys",
        "$setElementOrder/tags",
        "$deleteFromPrimitiveList/tags",
        "$setElementOrder/ports",
        "$setElementOrder",
        "annotations",
        "kubectl.kubernetes.io/last-applied-configuration",
    ];
    let name = prop_oneof![prop::sample::select(names.to_vec()).prop_map(str::to_owned), "[a-z]{0,2}"];
    let texts = [
        "Apply",
        "Update",
        "FieldsV1",
        "g.example/v1",
        "Thing",
        "delete",
        "replace",
        "merge",
        "2020-01-01T00:00:00Z",
        "{}",
        "TCP",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1..3_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(texts.to_vec()).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(name.clone(), inner, 0..6).prop_map(|members| Value::Object(Map::from_iter(members))),
        ]
    })
}

/// An object with anything in it.
fn wild() -> impl Strategy<Value = Value> {
    (anything(), anything(), anything(), anything()).prop_map(|(metadata, spec, status, managed)| {
        let mut object = json!({"apiVersion": "g.example/v1", "kind": "Thing", "metadata": metadata, "spec": spec, "status": status});
        if let Value::Object(metadata) = &mut object["metadata"] {
            metadata.insert("managedFields".into(), managed);
        }
        object
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_second_apply_of_the_same_changes_nothing(before in vec(write(), 0..4), config in config()) {
        let start = written(&before);
        let once = start.forced("me", &config);
        let twice = once.apply("me", &config, Force::No).unwrap();
        prop_assert!(!twice.changed);
        prop_assert_eq!(&twice.object, &once.object);
        prop_assert_eq!(&twice.managed, &once.managed);
    }

    #[test]
    fn managers_of_disjoint_fields_commute(config in config()) {
        let (even, odd) = halves(&config);
        let apply = |stored: &Stored, manager, config| {
            let applied = stored.apply(manager, config, Force::No).unwrap();
            Stored { object: with_uid(applied.object), managed: applied.managed }
        };
        let one = apply(&apply(&Stored::nothing(), "even", &even), "odd", &odd);
        let other = apply(&apply(&Stored::nothing(), "odd", &odd), "even", &even);
        prop_assert_eq!(unordered(&one.object), unordered(&other.object));
        prop_assert_eq!(one.managed, other.managed);
    }

    #[test]
    fn a_forced_apply_owns_what_it_sets(before in vec(write(), 0..4), config in config()) {
        let after = written(&before).forced("me", &config);
        let mine = after.owned_by("me", Operation::Apply);
        for path in leaves(&config) {
            if !path.ends_with(".name") || path.contains("ports") {
                prop_assert!(mine.contains(&path), "{path} is not in {mine:?}");
            }
        }
        // What it applies, it finds in the object.
        prop_assert!(!after.apply("another", &config, Force::No).unwrap().changed);
    }

    #[test]
    fn every_field_has_an_owner(writes in vec(write(), 1..6)) {
        let stored = written(&writes);
        let owners: BTreeSet<String> =
            stored.managed.entries().iter().flat_map(|entry| entry.fields.paths()).collect();
        for path in leaves(&without_empty(&stored.object)) {
            prop_assert!(owners.contains(&path), "{path} of {} is not in {owners:?}", stored.object);
        }
    }

    #[test]
    fn what_nobody_applies_any_more_is_gone(config in config(), next in config()) {
        let stored = Stored::nothing().forced("me", &config).forced("me", &next);
        prop_assert_eq!(leaves(&without_empty(&stored.object)), leaves(&next));
    }

    #[test]
    fn sets_of_fields_survive_being_written(writes in vec(write(), 1..4)) {
        let stored = written(&writes);
        for entry in stored.managed.entries() {
            prop_assert_eq!(&FieldSet::parse(&entry.fields.to_value()).unwrap(), &*entry.fields);
            let mut text = String::new();
            entry.fields.write_json(&mut text);
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), entry.fields.to_value());
        }
        let mut text = String::new();
        stored.managed.write_json(&mut text);
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), stored.managed.to_value());
        prop_assert_eq!(ManagedFields::parse(&stored.managed.to_value()).unwrap(), stored.managed);
    }

    #[test]
    fn any_json_as_managed_fields_is_read_or_refused(managed in anything()) {
        if let Ok(parsed) = ManagedFields::parse(&managed) {
            prop_assert_eq!(ManagedFields::parse(&parsed.to_value()).unwrap(), parsed);
        }
        if let Ok(set) = FieldSet::parse(&managed) {
            prop_assert_eq!(FieldSet::parse(&set.to_value()).unwrap(), set);
        }
    }

    #[test]
    fn any_json_can_be_written_and_applied(live in wild(), new in wild(), config in config()) {
        let managed = ManagedFields::of(&live).unwrap_or_default();
        let stored = Stored { object: live, managed };
        for config in [&new, &config] {
            for manager in ["me", "kubectl"] {
                let _ = stored.apply(manager, config, Force::No);
                let _ = stored.apply(manager, config, Force::Yes);
            }
        }
        let updated = stored.update("me", &new);
        let _ = updated.apply("me", &config, Force::Yes);
    }

    #[test]
    fn any_json_can_be_a_strategic_patch(document in anything(), patch in anything()) {
        let mut patched = document.clone();
        if strategic_merge_patch(&mut patched, &patch, &SCHEMA, "Thing").is_err() {
            prop_assert_eq!(patched, document);
        }
    }
}

/// The result of some writes, none of which is refused.
fn written(writes: &[(&'static str, bool, Value)]) -> Stored {
    let mut stored = Stored::nothing();
    for (manager, apply, object) in writes {
        stored = if *apply { stored.forced(manager, object) } else { stored.update(manager, object) };
    }
    stored
}

/// Emptied maps and lists may be nobody's: the algorithm says so.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| (name.clone(), without_empty(member)));
            let is_empty = |member: &Value| member.is_null() || *member == json!({}) || *member == json!([]);
            Value::Object(members.filter(|(_, member)| !is_empty(member)).collect())
        }
        other => other.clone(),
    }
}

/// A value in a list in a list…
fn nested(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(json!("a"), |inner, _| wrap(inner))
}

#[test]
fn a_hundred_levels_are_no_problem() {
    let deep = nested(97, |inner| json!({"a": inner}));
    let config =
        json!({"apiVersion": "g.example/v1", "kind": "Thing", "metadata": {"name": "n"}, "spec": {"free": deep}});
    let stored = Stored::nothing().forced("me", &config);
    assert!(!stored.apply("me", &config, Force::No).unwrap().changed);
    assert_eq!(ManagedFields::parse(&stored.managed.to_value()).unwrap(), stored.managed);
    let fields = nested(100, |inner| json!({"f:a": if inner.is_string() { json!({}) } else { inner }}));
    assert_eq!(FieldSet::parse(&fields).unwrap().len(), 1);
    let lists = nested(98, |inner| json!([inner]));
    assert!(
        strategic_merge_patch(
            &mut json!({"spec": {"words": []}}),
            &json!({"spec": {"words": lists}}),
            &SCHEMA,
            "Thing"
        )
        .is_ok()
    );
}

/// As many entries as a request can have; the time of the test is what it shows.
#[test]
fn huge_sets_are_handled_in_time() {
    let entries: Map<String, Value> = (0..50_000).map(|number| (format!("k{number}"), json!("x"))).collect();
    let ports: Vec<Value> = (0..20_000).map(|port| json!({"port": port})).collect();
    let config = json!({
        "apiVersion": "g.example/v1", "kind": "Thing", "metadata": {"name": "n"}, "spec": {"entries": entries, "ports": ports},
    });
    let mut less = config.clone();
    less["spec"]["ports"].as_array_mut().unwrap().reverse();
    less["spec"]["entries"].as_object_mut().unwrap().remove("k7");
    let stored = Stored::nothing().forced("me", &config).forced("me", &less);
    assert_eq!(stored.object["spec"]["entries"].as_object().unwrap().len(), 49_999);
    assert_eq!(stored.object["spec"]["ports"][0], json!({"port": 19_999}));
    let conflicts = stored.apply("another", &json!({
        "apiVersion": "g.example/v1", "kind": "Thing", "metadata": {"name": "n"},
        "spec": {"entries": less["spec"]["entries"].as_object().unwrap().keys().map(|key| (key.clone(), json!("y"))).collect::<Map<_, _>>()},
    }), Force::No);
    let Err(ApplyError::Conflict(conflicts)) = conflicts else { panic!("no conflict") };
    assert_eq!(conflicts.len(), 49_999);
}

/// As many managers as a request can have.
#[test]
fn crowds_of_managers_are_handled_in_time() {
    let crowd = |operation: &str| -> Value {
        let entry = |number| {
            json!({
                "manager": format!("m{number}"), "operation": operation, "apiVersion": "g.example/v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:entries": {format!("f:e{number}"): {}}}},
            })
        };
        (0..15_000).map(entry).collect()
    };
    let entries: Map<String, Value> = (0..15_000).map(|number| (format!("e{number}"), json!("x"))).collect();
    let object = json!({
        "apiVersion": "g.example/v1", "kind": "Thing", "metadata": {"name": "n"}, "spec": {"entries": entries},
    });
    let stored = Stored::nothing().update("first", &object);
    for (operation, managers) in [("Update", 10), ("Apply", 15_001)] {
        let mut sent = stored.object.clone();
        sent["metadata"]["managedFields"] = crowd(operation);
        sent["spec"]["entries"].as_object_mut().unwrap().insert("new".into(), json!("y"));
        let crowded = stored.update("me", &sent);
        assert_eq!(crowded.managed.entries().len(), managers);
        let mut empty = crowded.object.clone();
        empty["spec"]["entries"] = json!({"a": "b"});
        assert_eq!(crowded.update("me", &empty).managed.entries().len(), 1);
    }
}
