use super::*;
use proptest::prelude::*;
use serde_json::json;

/// The schema the real server (1.37.1) was asked with.
fn asked() -> Schema {
    let spec: Value = serde_json::from_str(include_str!("asked.json")).unwrap();
    Schema::compile(&json!({"type": "object", "properties": {"spec": spec}}), "x").unwrap()
}

fn written(errors: &FieldErrors) -> Vec<String> {
    errors.iter().map(|error| format!("{} | {error}", error.cause().reason.trim_start_matches("FieldValue"))).collect()
}

/// Prunes, defaults and validates a spec.
fn judged(spec: Value) -> Vec<String> {
    let schema = asked();
    let mut object = json!({"apiVersion": "a/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec});
    schema.prune(&mut object);
    schema.default(&mut object);
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
            "foo",
            "metadata.foo",
            "metadata.managedFields[0].qq",
            "metadata.ownerReferences[0].zz",
            "spec.aaa",
            "spec.deep[0].x",
            "spec.deep[1].y",
            "spec.emb.metadata.foo",
            "spec.pre.in.y",
            "spec.uq.k.w",
            "spec.zzz",
        ]
    );
    schema.default(&mut object);
    assert_eq!(
        object,
        json!({
            "apiVersion": "a/v1", "kind": "Thing",
            "metadata": {"name": "x", "labels": {"a": ""},
                "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "b", "uid": "c"}],
                "managedFields": [{"manager": "a", "fieldsV1": {"f:x": {}}}]},
            "spec": {"deep": [{"q": 1}, {}], "uq": {"k": {}}, "apt": {"x": {"y": 1}}, "pre": {"u": 1, "in": {"z": "a"}},
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
    assert_eq!(schema.validate_update(&new, &old).len(), 3);
}

fn compiled(spec: Value) -> Vec<String> {
    let source = json!({"type": "object", "properties": {"spec": spec}});
    Schema::compile(&source, "P").map_or_else(|errors| written(&errors), |_| Vec::new())
}

/// Every message was seen on the real server.
#[test]
fn schemas_must_be_structural() {
    let cases: Vec<(Value, Vec<&str>)> = vec![
        (
            json!({}),
            vec!["Required | P.properties[spec].type: Required value: must not be empty for specified object fields"],
        ),
        (json!({"type": "array"}), vec!["Required | P.properties[spec].items: Required value: must be specified"]),
        (
            json!({"type": "array", "items": {}}),
            vec![
                "Required | P.properties[spec].items.type: Required value: must not be empty for specified array items",
            ],
        ),
        (
            json!({"type": "array", "items": [{"type": "string"}]}),
            vec!["Forbidden | P.properties[spec].items: Forbidden: items must be a schema object and not an array"],
        ),
        (
            json!({"type": "foo"}),
            vec![
                r#"NotSupported | P.properties[spec].type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", "object", "string""#,
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            vec![
                "Forbidden | P.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ],
        ),
        (
            json!({"type": "object", "anyOf": [{"type": "object"}]}),
            vec!["Forbidden | P.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}}}]}),
            vec![
                "Forbidden | P.properties[spec].anyOf[0].properties[a].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [{"properties": {"a": {"default": "x", "description": "x", "nullable": true}}}]}),
            vec![
                "Forbidden | P.properties[spec].allOf[0].properties[a].default: Forbidden: must be undefined to be structural",
                "Forbidden | P.properties[spec].allOf[0].properties[a].description: Forbidden: must be empty to be structural",
                "Forbidden | P.properties[spec].allOf[0].properties[a].nullable: Forbidden: must be false to be structural",
            ],
        ),
        (
            json!({"type": "object", "not": {"additionalProperties": {"minLength": 1}}}),
            vec![
                "Forbidden | P.properties[spec].not.additionalProperties: Forbidden: must be undefined to be structural",
            ],
        ),
        (
            json!({"type": "string", "pattern": "("}),
            vec![
                r#"Invalid | P.properties[spec].pattern: Invalid value: "(": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`"#,
            ],
        ),
        (
            json!({"type": "string", "uniqueItems": true}),
            vec![
                "Forbidden | P.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        (json!({"$ref": "x"}), vec!["Forbidden | P.properties[spec].$ref: Forbidden: $ref is not supported"]),
        (
            json!({"type": "string", "default": 3}),
            vec![
                r#"TypeInvalid | P.properties[spec].default: Invalid value: "integer":  in body must be of type string: "integer""#,
            ],
        ),
        (
            json!({"type": "string", "default": "x", "enum": ["y"]}),
            vec![r#"NotSupported | P.properties[spec].default: Unsupported value: "x": supported values: "y""#],
        ),
        (
            json!({"type": "object", "default": {"a": 1}, "properties": {"b": {"type": "integer"}}}),
            vec![r#"Invalid | P.properties[spec].default: Invalid value: {"a":1}: must not have unknown fields"#],
        ),
        (
            json!({"type": "object", "default": {}, "required": ["b"], "properties": {"b": {"type": "integer", "default": 3}}}),
            vec!["Required | P.properties[spec].default.b: Required value"],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "default": ["a", null]}),
            vec![
                r#"TypeInvalid | P.properties[spec].default.[1]: Invalid value: "null": [1] in body must be of type string: "null""#,
            ],
        ),
        (json!({"type": "string", "default": null}), vec![]),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "string"}]}),
            vec!["Forbidden | P.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]}),
            vec![],
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": false, "type": "object"}),
            vec![
                "Invalid | P.properties[spec].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
            ],
        ),
        (
            json!({"x-kubernetes-embedded-resource": true, "type": "object"}),
            vec![
                "Required | P.properties[spec].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "foo"}),
            vec![
                r#"NotSupported | P.properties[spec].x-kubernetes-list-type: Unsupported value: "foo": supported values: "atomic", "set", "map""#,
            ],
        ),
        (
            json!({"type": "string", "x-kubernetes-list-type": "set"}),
            vec![
                r#"Invalid | P.properties[spec].type: Invalid value: "string": must be array if x-kubernetes-list-type is specified"#,
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
            vec![
                "Required | P.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            vec![
                "Required | P.properties[spec].items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "x-kubernetes-list-type": "set"}),
            vec![
                "Invalid | P.properties[spec].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "string", "nullable": true}, "x-kubernetes-list-type": "set"}),
            vec![
                "Forbidden | P.properties[spec].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
            ],
        ),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": ""}]}),
            vec![
                "Required | P.properties[spec].x-kubernetes-validations[0].rule: Required value: rule is not specified",
            ],
        ),
        (
            json!({"type": "object", "x-kubernetes-map-type": "foo"}),
            vec![
                r#"NotSupported | P.properties[spec].x-kubernetes-map-type: Unsupported value: "foo": supported values: "atomic", "granular""#,
            ],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(compiled(spec.clone()), expected, "{spec}");
    }
}

#[test]
fn the_root_has_rules_of_its_own() {
    let errors = |source: Value| Schema::compile(&source, "P").map_or_else(|errors| written(&errors), |_| Vec::new());
    let meta = |metadata: Value| json!({"type": "object", "properties": {"metadata": metadata}});
    for (source, expected) in [
        (json!({"type": "string"}), vec![r#"Invalid | P.type: Invalid value: "string": must be object at the root"#]),
        (json!({}), vec!["Required | P.type: Required value: must not be empty at the root"]),
        (
            meta(json!({"type": "object", "properties": {"labels": {"type": "object"}}})),
            vec![
                "Forbidden | P.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ],
        ),
        (meta(json!({"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}})), vec![]),
        (
            meta(json!({"type": "object", "default": {"name": "x"}})),
            vec!["Forbidden | P.properties[metadata].default: Forbidden: must not be set in top-level metadata"],
        ),
        (
            json!({"type": "object", "properties": {"apiVersion": {"type": "integer"}}}),
            vec![r#"Invalid | P.properties[apiVersion].type: Invalid value: "integer": must be string"#],
        ),
        (
            json!({"type": "object", "nullable": true}),
            vec!["Forbidden | P.nullable: Forbidden: nullable cannot be true at the root"],
        ),
        (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), vec![]),
    ] {
        assert_eq!(errors(source.clone()), expected, "{source}");
    }
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
        schema.default(&mut object);
        let once = object.clone();
        schema.default(&mut object);
        prop_assert_eq!(&object, &once);
        // What is pruned and defaulted is still pruned.
        prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new());
        prop_assert_eq!(&object, &once);
    }

    #[test]
    fn any_value_is_judged(spec in any_spec(), old in any_spec()) {
        let schema = asked();
        let _ = schema.decode_fault(&spec);
        let _ = schema.validate(&spec);
        let object = whole(spec);
        let _ = schema.validate_update(&object, &whole(old));
        prop_assert!(schema.validate_update(&object, &object).iter().all(|error| error.field.contains("emb")));
    }

    #[test]
    fn any_schema_is_answered(source in any_spec(), value in any_spec()) {
        let _ = Schema::compile(&source, "P");
        let schema = Schema::build(&source, &Definitions::default());
        let _ = schema.validate(&value);
    }
}
