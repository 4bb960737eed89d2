use serde_json::{Value, json};

use crate::Schema;
use crate::schema::tests::written;

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
