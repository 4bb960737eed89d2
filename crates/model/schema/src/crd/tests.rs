use super::*;

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.a.test"},
        "spec": {"group": "a.test", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    })
}

/// The definition with one change.
fn changed(pointer: &str, value: Value) -> Vec<String> {
    let mut object = definition();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    if value.is_null() {
        parent.as_object_mut().unwrap().remove(name);
    } else {
        parent[name] = value;
    }
    read(&mut object);
    check(&object, None).iter().map(ToString::to_string).collect()
}

/// Every message was seen on the real server; long ones are cut.
#[test]
fn definitions_keep_their_rules() {
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let bad = json!({"name": "v2", "served": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}});
    let wrong_name = "metadata.name: Invalid value: \"things.a.test\": must be spec.names.plural+\".\"+spec.group";
    for (pointer, value, expected) in [
        (
            "/metadata/name",
            json!("x"),
            vec!["metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group"],
        ),
        ("/spec/group", json!(""), vec![wrong_name, "spec.group: Required value"]),
        (
            "/spec/names/plural",
            json!("Things"),
            vec![wrong_name, "spec.names.plural: Invalid value: \"Things\": a DNS-1035 label must consist of"],
        ),
        (
            "/spec/names/kind",
            json!(null),
            vec![
                "spec.names.singular: Required value",
                "spec.names.kind: Required value",
                "spec.names.listKind: Required value",
            ],
        ),
        (
            "/spec/names/kind",
            json!("thing_"),
            vec![
                "spec.names.singular: Invalid value: \"thing_\": a DNS-1035 label",
                "spec.names.kind: Invalid value: \"thing_\": may have mixed case, but should otherwise match: a DNS-1035 label",
                "spec.names.listKind: Invalid value: \"thing_List\": may have mixed case, but should otherwise match: a DNS-1035 label",
            ],
        ),
        (
            "/spec/names/listKind",
            json!("Thing"),
            vec!["spec.names.listKind: Invalid value: \"Thing\": kind and listKind may not be the same"],
        ),
        (
            "/spec/names/shortNames",
            json!(["A"]),
            vec!["spec.names.shortNames[0]: Invalid value: \"A\": a DNS-1035 label"],
        ),
        (
            "/spec/scope",
            json!("Foo"),
            vec!["spec.scope: Unsupported value: \"Foo\": supported values: \"Cluster\", \"Namespaced\""],
        ),
        ("/spec/scope", json!(null), vec!["spec.scope: Required value"]),
        (
            "/spec/versions",
            json!([]),
            vec![
                "spec.versions: Invalid value: []: must have exactly one version marked as storage version",
                "status.storedVersions: Invalid value: null: must have at least one stored version",
            ],
        ),
        (
            "/spec/versions",
            json!([version("v1", false)]),
            vec![
                "spec.versions: Invalid value: [{",
                "status.storedVersions: Invalid value: null: must have at least one stored version",
            ],
        ),
        (
            "/spec/versions",
            json!([version("v1", true), version("v1", false)]),
            vec!["spec.versions: Invalid value: [{"],
        ),
        (
            "/spec/versions",
            json!([version("v1", true), bad]),
            vec![
                "spec.versions[1].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields",
            ],
        ),
        ("/spec/versions/0/schema", json!(null), vec!["spec.versions[0].schema.openAPIV3Schema: Required value"]),
        (
            "/spec/versions/0/schema/openAPIV3Schema",
            json!({"type": "object", "properties": {"a": {}}}),
            vec![
                "spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object fields",
            ],
        ),
        (
            "/spec/preserveUnknownFields",
            json!(true),
            vec![
                "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
            ],
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Foo"}),
            vec!["spec.conversion.strategy: Unsupported value: \"Foo\": supported values: \"None\", \"Webhook\""],
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook"}),
            vec![
                "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
                "spec.conversion.conversionReviewVersions: Required value",
            ],
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://a.b/c"}}}),
            vec![],
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "", "type": "foo", "format": "zz", "jsonPath": "x"}]),
            vec![
                "spec.additionalPrinterColumns[0].name: Required value",
                "spec.additionalPrinterColumns[0].type: Invalid value: \"foo\": must be one of boolean,date,integer,number,string",
                "spec.additionalPrinterColumns[0].format: Invalid value: \"zz\": must be one of byte,date,date-time,double,float,int32,int64,password",
                "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"x\": must be a simple json path starting with .",
            ],
        ),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": ".foo", "statusReplicasPath": "x", "labelSelectorPath": ".x"}}),
            vec![
                "spec.subresources.scale.specReplicasPath: Invalid value: \".foo\": should be a json path under .spec",
                "spec.subresources.scale.statusReplicasPath: Invalid value: \"x\": must be a simple json path starting with .",
                "spec.subresources.scale.labelSelectorPath: Invalid value: \".x\": should be a json path under either .spec or .status",
            ],
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec.x"}, {"jsonPath": ""}, {"jsonPath": ".a[0]"}]),
            vec![
                "spec.selectableFields[0].jsonPath: Invalid value: \".spec.x\": is an invalid path: does not refer to a valid field",
                "spec.selectableFields[1].jsonPath: Required value",
                "spec.selectableFields[2].jsonPath: Invalid value: \".a[0]\": is an invalid path: array notation is not allowed",
            ],
        ),
        (
            "/spec/versions/0/deprecationWarning",
            json!("x"),
            vec!["spec.versions[0].deprecationWarning: Invalid value: \"x\": can only be set for deprecated versions"],
        ),
    ] {
        let errors = changed(pointer, value.clone());
        assert_eq!(errors.len(), expected.len(), "{pointer} {value}: {errors:#?}");
        for (error, expected) in errors.iter().zip(expected) {
            assert!(error.starts_with(expected), "{pointer} {value}: {error}");
        }
    }
}

#[test]
fn what_is_established_stays() {
    let mut old = definition();
    read(&mut old);
    old["status"] = established_status(&old, Time::from_unix_seconds(0));
    let mut new = old.clone();
    new["metadata"]["name"] = "others.a.test".into();
    new["spec"]["scope"] = "Cluster".into();
    new["spec"]["names"]["plural"] = "others".into();
    new["spec"]["versions"][0]["name"] = "v2".into();
    let errors: Vec<String> = check(&new, Some(&old)).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors[..2],
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.names.plural: Invalid value: \"others\": field is immutable",
        ]
    );
    assert!(
        errors[2].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was")
    );
}

#[test]
fn a_definition_is_understood() {
    let mut object = definition();
    object["spec"]["names"]["shortNames"] = json!(["th"]);
    object["spec"]["versions"][0]["subresources"] =
        json!({"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    object["spec"]["versions"].as_array_mut().unwrap().push(json!({
        "name": "v2", "served": true, "deprecated": true, "schema": {"openAPIV3Schema": {"type": "object"}},
        "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1}],
    }));
    let definition = Definition::from_value(&object).unwrap();
    assert_eq!((definition.names.singular.as_str(), definition.names.list_kind.as_str()), ("thing", "ThingList"));
    assert_eq!((definition.scope, &definition.conversion), (Scope::Namespaced, &Conversion::None));
    let v1 = definition.storage().unwrap();
    assert!(v1.has_status && v1.scale.as_ref().is_some_and(|scale| scale.spec_replicas.text() == ".spec.n"));
    let headings = |version: &Version| version.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
    assert_eq!(headings(v1), ["Name", "Age"]);
    let v2 = definition.version("v2").unwrap();
    assert_eq!(headings(v2), ["Name", "N"]);
    assert_eq!(v2.deprecation_warning.as_deref(), Some("a.test/v2 Thing is deprecated"));
    assert_eq!(definition.gvk("v2").to_string(), "a.test/v2, Kind=Thing");

    let status = established_status(&object, Time::from_unix_seconds(0));
    assert_eq!(status["storedVersions"], json!(["v1"]));
    object["status"] = status.clone();
    assert_eq!(established_status(&object, Time::from_unix_seconds(9)), status);
}
