use super::*;
use proptest::prelude::*;
use serde_json::json;

/// The schema the real server (1.37.1) was asked with.
fn asked() -> Schema {
    let spec: Value = serde_json::from_str(include_str!("asked.json")).unwrap();
    Schema::compile(&json!({"type": "object", "properties": {"spec": spec}}), "x").unwrap()
}

pub(super) fn written(errors: &FieldErrors) -> Vec<String> {
    errors.iter().map(|error| format!("{} | {error}", error.cause().reason.trim_start_matches("FieldValue"))).collect()
}

/// Prunes, defaults and validates a spec.
fn judged(spec: Value) -> Vec<String> {
    let schema = asked();
    let mut object = json!({"apiVersion": "a/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec});
    schema.prune(&mut object);
    assert!(schema.default(&mut object));
    written(&schema.validate(&object))
}

/// Every message was seen on the real server.
#[test]
fn messages_are_those_of_the_real_server() {
    let cases: Vec<(Value, Vec<&str>)> = vec![
        (
            json!({"i": "x"}),
            vec![r#"TypeInvalid | spec.i: Invalid value: "string": spec.i in body must be of type integer: "string""#],
        ),
        (
            json!({"i": 1.5}),
            vec![
                r#"TypeInvalid | spec.i: Invalid value: "number": spec.i in body must be of type integer: "number""#,
                r#"Invalid | <nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.i"#,
            ],
        ),
        (json!({"i": 1.0}), vec![]),
        (
            json!({"l": {}}),
            vec![r#"TypeInvalid | spec.l: Invalid value: "object": spec.l in body must be of type array: "object""#],
        ),
        (
            json!("str"),
            vec![r#"TypeInvalid | spec: Invalid value: "string": spec in body must be of type object: "string""#],
        ),
        (json!(null), vec![]),
        (
            json!({"i32": 3_000_000_000_i64}),
            vec![
                r#"Invalid | <nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.i32"#,
            ],
        ),
        (
            json!({"i64": 9_223_372_036_854_775_808_u64}),
            vec![
                r#"TypeInvalid | spec.i64: Invalid value: "float64": spec.i64 in body must be of type int64: "float64""#,
                r#"Invalid | <nil>: Invalid value: "": Checked value must be of type integer with format int64 in spec.i64"#,
            ],
        ),
        (
            json!({"n": 0.5}),
            vec!["Invalid | spec.n: Invalid value: 0.5: spec.n in body should be greater than or equal to 1"],
        ),
        (
            json!({"n": 6}),
            vec![
                "Invalid | spec.n: Invalid value: 0: factor MultipleOf declared for spec.n must be positive: 0",
                "Invalid | spec.n: Invalid value: 6: spec.n in body should be less than or equal to 5",
            ],
        ),
        (json!({"n": 1.3}), vec!["Invalid | spec.n: Invalid value: 1.3: spec.n in body should be a multiple of 0.5"]),
        (
            json!({"imin": 10}),
            vec![
                "Invalid | spec.imin: Invalid value: 10: spec.imin in body should be a multiple of 3",
                "Invalid | spec.imin: Invalid value: 10: spec.imin in body should be less than 10",
            ],
        ),
        (
            json!({"imin": 2}),
            vec![
                "Invalid | spec.imin: Invalid value: 2: spec.imin in body should be a multiple of 3",
                "Invalid | spec.imin: Invalid value: 2: spec.imin in body should be greater than 2",
            ],
        ),
        (
            json!({"imi": 11}),
            vec!["Invalid | spec.imi: Invalid value: 11: spec.imi in body should be less than or equal to 10"],
        ),
        (
            json!({"s": "b"}),
            vec![r#"Invalid | spec.s: Invalid value: "b": spec.s in body should be at least 2 chars long"#],
        ),
        (json!({"s": "bbb"}), vec![r#"Invalid | spec.s: Invalid value: "bbb": spec.s in body should match '^a'"#]),
        (json!({"s": "abcdef"}), vec!["TooLong | spec.s: Too long: may not be more than 4 bytes"]),
        (json!({"e": "C"}), vec![r#"NotSupported | spec.e: Unsupported value: "C": supported values: "A", "B""#]),
        (
            json!({"e": 3}),
            vec![
                r#"TypeInvalid | spec.e: Invalid value: "integer": spec.e in body must be of type string: "integer""#,
                r#"NotSupported | spec.e: Unsupported value: 3: supported values: "A", "B""#,
            ],
        ),
        (json!({"ei": 3}), vec![r#"NotSupported | spec.ei: Unsupported value: 3: supported values: "1", "2""#]),
        (json!({"ne": null}), vec![r#"NotSupported | spec.ne: Unsupported value: null: supported values: "a""#]),
        (
            json!({"nn": null}),
            vec![r#"NotSupported | spec.nn: Unsupported value: null: supported values: "a", "null""#],
        ),
        (json!({"nn": "b"}), vec![r#"NotSupported | spec.nn: Unsupported value: "b": supported values: "a", "null""#]),
        (json!({"l": ["a"]}), vec!["Invalid | spec.l: Invalid value: 1: spec.l in body should have at least 2 items"]),
        (json!({"l": ["a", "b", "c", "d"]}), vec!["TooMany | spec.l: Too many: 4: must have at most 3 items"]),
        (
            json!({"l": ["a", null, "b"]}),
            vec![r#"TypeInvalid | spec.l[1]: Invalid value: "null": spec.l[1] in body must be of type string: "null""#],
        ),
        (json!({"set": ["a", "a", "a"]}), vec![r#"Duplicate | spec.set[1]: Duplicate value: "a""#]),
        (
            json!({"set": ["a", "b", "b", "a"]}),
            vec![
                r#"Duplicate | spec.set[2]: Duplicate value: "b""#,
                r#"Duplicate | spec.set[3]: Duplicate value: "a""#,
            ],
        ),
        (
            json!({"map": [{"k": "a"}, {"k": "a"}, {"k": "a", "p": 80}, {"k": "a", "p": 81}]}),
            vec![r#"Duplicate | spec.map[1]: Duplicate value: {"k":"a","p":80}"#],
        ),
        (json!({"map": [{"p": 1}]}), vec!["Required | spec.map[0].k: Required value"]),
        (json!({"o": {}}), vec!["Required | spec.o.x: Required value", "Required | spec.o.y: Required value"]),
        (
            json!({"mi": {}}),
            vec![
                "Invalid | spec.mi: Invalid value: 0: spec.mi in body should have at least 1 properties",
                "Required | spec.mi.z: Required value",
            ],
        ),
        (json!({"ap": {"a": 1, "b": 2, "c": 3}}), vec!["TooMany | spec.ap: Too many: 3: must have at most 2 items"]),
        (
            json!({"ap": {"a.b": "x"}}),
            vec![
                r#"TypeInvalid | spec.ap.a.b: Invalid value: "string": spec.ap.a.b in body must be of type integer: "string""#,
            ],
        ),
        (
            json!({"ap": {"a": null}}),
            vec!["Invalid | spec.ap: Invalid value: 0: spec.ap in body should have at least 1 properties"],
        ),
        (
            json!({"apf": {"x": 1}}),
            vec![r#"Invalid | spec.apf: Invalid value: "x": spec.apf.x in body is a forbidden property"#],
        ),
        (
            json!({"ios": true}),
            vec![
                r#"TypeInvalid | spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean""#,
            ],
        ),
        (
            json!({"ios": 1.5}),
            vec![
                r#"TypeInvalid | spec.ios: Invalid value: "number": spec.ios in body must be of type integer,string: "number""#,
            ],
        ),
        (json!({"ios2": "y"}), vec![r#"Invalid | spec.ios2: Invalid value: "y": spec.ios2 in body should match '^x'"#]),
        (
            json!({"ios2": true}),
            vec![
                r#"TypeInvalid | spec.ios2: Invalid value: "boolean": spec.ios2 in body must be of type integer,string: "boolean""#,
                r#"Invalid | <nil>: Invalid value: "": "spec.ios2" must validate at least one schema (anyOf)"#,
                r#"TypeInvalid | spec.ios2: Invalid value: "boolean": spec.ios2 in body must be of type integer: "boolean""#,
            ],
        ),
        (
            json!({"dt": "x"}),
            vec![r#"TypeInvalid | spec.dt: Invalid value: "x": spec.dt in body must be of type date-time: "x""#],
        ),
        (
            json!({"any": {}}),
            vec![
                r#"Invalid | <nil>: Invalid value: "": "spec.any" must validate at least one schema (anyOf)"#,
                "Required | spec.any.a: Required value",
            ],
        ),
        (
            json!({"one": {}}),
            vec![
                r#"Invalid | <nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid"#,
                "Required | spec.one.a: Required value",
            ],
        ),
        (
            json!({"one": {"a": "", "b": ""}}),
            vec![
                r#"Invalid | <nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
            ],
        ),
        (
            json!({"all": {}}),
            vec![
                "Required | spec.all.a: Required value",
                "Required | spec.all.b: Required value",
                r#"Invalid | <nil>: Invalid value: "": "spec.all" must validate all the schemas (allOf). None validated"#,
            ],
        ),
        (
            json!({"not": {"a": "x"}}),
            vec![r#"Invalid | <nil>: Invalid value: "": "spec.not" must not validate the schema (not)"#],
        ),
        (
            json!({"emb": {}}),
            vec!["Required | spec.emb.apiVersion: Required value", "Required | spec.emb.kind: Required value"],
        ),
        (
            json!({"emb": {"apiVersion": "a/b/c", "kind": "X"}}),
            vec![r#"Invalid | spec.emb.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#],
        ),
        (json!({"anyany": [1, {"a": null}]}), vec![]),
    ];
    for (spec, expected) in cases {
        assert_eq!(judged(spec.clone()), expected, "{spec}");
    }
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let schema = asked();
    let mut object = json!({
        "apiVersion": "a/v1", "kind": "Thing", "foo": 1,
        "metadata": {"name": "x", "foo": 1, "labels": {"a": null}, "annotations": null, "finalizers": [],
            "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "b", "uid": "c", "zz": 1}],
            "managedFields": [{"manager": "a", "qq": 1, "fieldsV1": {"f:x": {}}}]},
        "spec": {"zzz": 1, "deep": [{"q": 1, "x": 2}, {"y": 1}], "uq": {"k": {"w": 1}}, "aaa": {"b": 1}, "apt": {"x": {"y": 1}},
            "pre": {"u": 1, "in": {"z": "a", "y": 1}}, "nul": null, "s": null, "def": null, "o": null,
            "emb": {"apiVersion": "v1", "kind": "X", "metadata": {"foo": 1, "name": "a"}, "zz": 1}},
    });
    let unknown = schema.prune(&mut object);
    assert_eq!(
        unknown,
        [
            "metadata.foo",
            "metadata.managedFields[0].qq",
            "metadata.ownerReferences[0].zz",
            "foo",
            "spec.aaa",
            "spec.apt.x.y",
            "spec.deep[0].x",
            "spec.deep[1].y",
            "spec.pre.in.y",
            "spec.uq.k.w",
            "spec.zzz",
            "spec.emb.metadata.foo",
        ]
    );
    assert!(schema.default(&mut object));
    assert_eq!(
        object,
        json!({
            "apiVersion": "a/v1", "kind": "Thing",
            "metadata": {"name": "x", "labels": {"a": ""},
                "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "b", "uid": "c"}],
                "managedFields": [{"manager": "a", "fieldsV1": {"f:x": {}}}]},
            "spec": {"deep": [{"q": 1}, {}], "uq": {"k": {}}, "apt": {"x": {}}, "pre": {"u": 1, "in": {"z": "a"}},
                "nul": null, "def": "dd", "emb": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "zz": 1}},
        })
    );
}

#[test]
fn metadata_of_the_wrong_types_cannot_be_decoded() {
    let schema = asked();
    for (object, fault) in [
        (json!({"metadata": "x"}), "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            json!({"metadata": {"finalizers": "a"}}),
            "json: cannot unmarshal string into Go struct field ObjectMeta.finalizers of type []string",
        ),
        (
            json!({"metadata": {"labels": 3, "annotations": {"b": []}}}),
            "json: cannot unmarshal array into Go struct field ObjectMeta.annotations of type string",
        ),
        (
            json!({"metadata": {"generation": "bad"}}),
            "json: cannot unmarshal string into Go struct field ObjectMeta.generation of type int64",
        ),
        (
            json!({"metadata": {"creationTimestamp": "bad"}}),
            "parsing time \"bad\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"bad\" as \"2006\"",
        ),
        (
            json!({"spec": {"emb": {"metadata": {"labels": 3}}}}),
            "spec.emb.metadata: Invalid value: {\"labels\":3}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type map[string]string",
        ),
    ] {
        assert_eq!(schema.decode_fault(&object).as_deref(), Some(fault), "{object}");
    }
    assert_eq!(schema.decode_fault(&json!({"metadata": {"name": "a", "labels": null}})), None);
}

#[test]
fn an_update_is_not_blamed_for_what_was_wrong_before() {
    let schema = asked();
    let old =
        json!({"spec": {"i": "x", "l": ["a"], "map": [{"k": "a", "v": "bad"}, {"k": "b", "v": 1}], "set": ["a", "a"]}});
    let mut new = old.clone();
    new["spec"]["map"] = json!([{"k": "b", "v": "new"}, {"k": "a", "v": "bad"}]);
    assert_eq!(
        written(&schema.validate_update(&new, &old)),
        [
            r#"TypeInvalid | spec.map[0].v: Invalid value: "string": spec.map[0].v in body must be of type integer: "string""#,
        ]
    );
    assert!(schema.validate_update(&old, &old).is_empty());
    new["spec"]["set"] = json!(["a", "a", "b"]);
    new["spec"]["i"] = json!(true);
    assert_eq!(schema.validate_update(&new, &old).len(), 2, "repeated items are forgiven");
}

/// What the real server did with an object whose schema was tightened after it was written.
#[test]
fn unchanged_parts_are_told_apart_as_the_real_server_does() {
    let source = |any: Value| {
        json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["q"], "properties": {
            "q": {"type": "string"}, "r": {"type": "string"},
            "o": {"type": "object", "required": ["z"], "properties": {"y": {"type": "integer"}, "z": {"type": "string"}}},
            "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string", "pattern": "^a"}}}},
            "any": any,
        }}}})
    };
    let known = json!({"type": "object", "properties": {"c": {"type": "integer"}}, "not": {"required": ["c"]}});
    let unknown = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "not": {"required": ["c"]}});
    let old =
        json!({"spec": {"r": "r", "o": {"y": 1}, "m": [{"k": "1", "v": "b"}, {"k": "2", "v": "b"}], "any": {"c": 1}}});
    let fields = |any: &Value, pointer: &str, value: Value| {
        let mut new = old.clone();
        new["metadata"] = json!({"labels": {"a": "b"}});
        if let Some(at) = new.pointer_mut(pointer) {
            *at = value;
        }
        let schema = Schema::compile(&source(any.clone()), "P").unwrap();
        schema.validate_update(&new, &old).into_iter().map(|error| error.field).collect::<Vec<_>>()
    };
    assert!(fields(&known, "/none", json!(1)).is_empty());
    assert_eq!(fields(&known, "/spec/r", json!("rr")), ["spec.q"]);
    assert_eq!(fields(&known, "/spec/o/y", json!(2)), ["spec.q", "spec.o.z"]);
    assert!(fields(&known, "/spec/m", json!([{"k": "2", "v": "b"}, {"k": "1", "v": "b"}])).is_empty());
    assert_eq!(fields(&known, "/spec/m/1/v", json!("c")), ["spec.q", "spec.m[1].v"]);
    assert_eq!(fields(&known, "/spec/any/c", json!(2)), ["spec.q", "<nil>"]);
    assert_eq!(fields(&unknown, "/none", json!(1)), ["spec.q", "<nil>"]);
}

#[test]
fn rules_are_kept() {
    let source = |rules: Value| json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": rules}}}});
    assert!(Schema::compile(&source(json!([{"rule": "self == 'a'"}])), "P").unwrap().has_rules());
    assert!(!Schema::compile(&source(json!([])), "P").unwrap().has_rules());
}

/// Values that often fit the schema, and often do not.
fn any_spec() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "i",
        "i32",
        "n",
        "s",
        "e",
        "ne",
        "l",
        "set",
        "map",
        "k",
        "p",
        "v",
        "o",
        "x",
        "ap",
        "apf",
        "ios2",
        "any",
        "a",
        "one",
        "not",
        "nul",
        "def",
        "emb",
        "apiVersion",
        "kind",
        "metadata",
        "labels",
        "pre",
        "in",
        "z",
        "anyany",
        "deep",
        "q",
        "uq",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0..4_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[aA.]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// Specs that fit the schema.
fn valid_spec() -> impl Strategy<Value = Value> {
    let words = prop::collection::btree_set("[a-z]{1,3}", 0..4);
    let ports = prop::collection::btree_map("[a-z]", any::<i32>(), 0..3);
    (any::<i32>(), "a[b-z]{1,3}", prop::sample::select(vec!["A", "B"]), words, ports, any::<bool>()).prop_map(
        |(number, text, choice, words, ports, flag)| {
            let map: Vec<Value> = ports.iter().map(|(key, port)| json!({"k": key, "v": port, "junk": flag})).collect();
            json!({
                "i": number, "i32": number, "s": text, "e": choice, "b": flag, "set": words, "map": map, "nul": null,
                "s2": "unknown", "o": {"x": text, "y": choice, "z": number}, "uq": ports.into_keys().map(|key| (key, json!({"q": 1}))).collect::<Value>(),
                "one": {"a": text}, "any": {"b": text}, "not": {"b": text}, "ios": if flag { json!(number) } else { json!(text) },
                "emb": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "junk": 1}, "data": {"k": null}},
            })
        },
    )
}

fn whole(spec: Value) -> Value {
    json!({"apiVersion": "a/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec})
}

proptest! {
    #[test]
    fn pruning_and_defaulting_twice_change_nothing(spec in any_spec()) {
        let schema = asked();
        let mut object = whole(spec);
        schema.prune(&mut object);
        let once = object.clone();
        prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
        prop_assert_eq!(&object, &once);
        assert!(schema.default(&mut object));
        let once = object.clone();
        assert!(schema.default(&mut object));
        prop_assert_eq!(&object, &once);
        // What is pruned and defaulted is still pruned.
        prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
        prop_assert_eq!(&object, &once);
    }

    #[test]
    fn reading_is_pruning_and_then_defaulting(spec in any_spec()) {
        let schema = asked();
        let (mut read, mut stepwise) = (whole(spec.clone()), whole(spec));
        let found = schema.read(&mut read);
        prop_assert_eq!(found.unknown, schema.prune(&mut stepwise));
        prop_assert_eq!(found.is_roomy, schema.default(&mut stepwise));
        prop_assert_eq!(read, stepwise);
    }

    #[test]
    fn a_valid_object_stays_valid(spec in valid_spec()) {
        let schema = asked();
        let mut object = whole(spec);
        prop_assert_eq!(schema.decode_fault(&object), None);
        schema.prune(&mut object);
        assert!(schema.default(&mut object));
        prop_assert_eq!(written(&schema.validate(&object)), Vec::<String>::new());
    }

    #[test]
    fn any_value_is_judged(spec in any_spec(), old in any_spec()) {
        let schema = asked();
        let _ = schema.decode_fault(&spec);
        let _ = schema.validate(&spec);
        let object = whole(spec);
        let _ = schema.validate_update(&object, &whole(old));
        let mut pruned = object;
        schema.prune(&mut pruned);
        let _ = schema.validate_update(&pruned, &pruned);
    }

    #[test]
    fn any_schema_is_answered(source in any_spec(), value in any_spec()) {
        let _ = Schema::compile(&source, "P");
        let schema = Schema::build(&source, &Definitions::default());
        let _ = schema.validate(&value);
    }
}
