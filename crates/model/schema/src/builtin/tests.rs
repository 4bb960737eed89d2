use super::*;
use proptest::prelude::*;
use serde_json::json;

fn kind(group: &str, kind: &str) -> &'static Builtin {
    Builtin::find(&Gvk::new(group, "v1", kind)).unwrap()
}

fn written(errors: &FieldErrors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Prepares and checks a new object.
fn created(builtin: &Builtin, mut object: Value) -> (Value, Vec<String>) {
    builtin.prune(&mut object);
    assert!(builtin.read(&mut object));
    builtin.prepare(&mut object, None);
    let errors = written(&builtin.check(&object, None));
    (object, errors)
}

#[test]
fn every_kind_has_a_schema_and_columns() {
    assert_eq!(builtins().len(), 72);
    for builtin in builtins() {
        assert!(builtin.schema.properties().any(|(name, _)| name == "metadata"), "{}", builtin.gvk);
        assert_eq!(builtin.columns().is_empty(), builtin.is_answered(), "{}", builtin.gvk);
    }
    assert_eq!(kind("events.k8s.io", "Event").stored_as, kind("", "Event").stored_as);
}

/// Compiles every definition, and looks at all it refers to.
#[test]
fn every_definition_is_whole() {
    for name in data::names() {
        assert!(definition(name).unwrap().kind().is_some(), "{name}");
        for other in referred(name) {
            assert!(document(other).is_some(), "{name} refers to {other}");
        }
    }
}

/// Every message was seen on the real server.
#[test]
fn wrong_types_cannot_be_decoded() {
    for (group, name, object, fault) in [
        (
            "",
            "ConfigMap",
            json!({"data": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "",
            "ConfigMap",
            json!({"data": "x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
        ),
        ("", "ConfigMap", json!({"binaryData": {"a": "$"}}), "illegal base64 data at input byte 0"),
        (
            "",
            "ConfigMap",
            json!({"binaryData": {"a": 3}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.binaryData of type []uint8",
        ),
        (
            "",
            "ConfigMap",
            json!({"immutable": "x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
        ),
        (
            "",
            "ConfigMap",
            json!({"metadata": "x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        (
            "",
            "ConfigMap",
            json!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "",
            "ConfigMap",
            json!({"metadata": {"ownerReferences": {"a": 1}}}),
            "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.ownerReferences of type []v1.OwnerReference",
        ),
        (
            "",
            "ConfigMap",
            json!({"metadata": {"ownerReferences": [{"name": 1}]}}),
            "json: cannot unmarshal number into Go struct field OwnerReference.metadata.ownerReferences.name of type string",
        ),
        (
            "",
            "ConfigMap",
            json!({"metadata": {"ownerReferences": [3]}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.ownerReferences of type v1.OwnerReference",
        ),
        (
            "",
            "ConfigMap",
            json!({"metadata": {"generation": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        (
            "",
            "ConfigMap",
            json!({"metadata": {"creationTimestamp": 3}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            "",
            "Secret",
            json!({"type": 3}),
            "json: cannot unmarshal number into Go struct field Secret.type of type v1.SecretType",
        ),
        (
            "",
            "Namespace",
            json!({"spec": {"finalizers": 3}}),
            "json: cannot unmarshal number into Go struct field NamespaceSpec.spec.finalizers of type []v1.FinalizerName",
        ),
        (
            "",
            "Namespace",
            json!({"spec": {"finalizers": [3]}}),
            "json: cannot unmarshal number into Go struct field NamespaceSpec.spec.finalizers of type v1.FinalizerName",
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"leaseDurationSeconds": "x"}}),
            "json: cannot unmarshal string into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32",
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"leaseDurationSeconds": 3_000_000_000_i64}}),
            "json: cannot unmarshal number 3000000000 into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32",
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"renewTime": "2020-01-01T00:00:00Z"}}),
            "parsing time \"2020-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"",
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"renewTime": "2020-01-01T00:00:00.5Z"}}),
            "parsing time \"2020-01-01T00:00:00.5Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \".5Z\" as \".000000\"",
        ),
        (
            "",
            "ServiceAccount",
            json!({"secrets": [{"name": 3}]}),
            "json: cannot unmarshal number into Go struct field ObjectReference.secrets.name of type string",
        ),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {"nullable": "x"}}}}}]}}),
            "json: cannot unmarshal string into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.nullable of type bool",
        ),
    ] {
        let expected = format!("{name} in version \"v1\" cannot be handled as a {name}: {fault}");
        assert_eq!(kind(group, name).decode_fault(&object), Some(expected));
    }
}

#[test]
fn base64_is_judged_as_go_judges_it() {
    let secret = kind("", "Secret");
    for (text, at) in [("$", 0), ("YQ", 0), ("YQ=", 3), ("Y", 0), ("YQ==x", 4), ("YQ==YQ==", 4), ("=", 0), ("YQ$=", 2)]
    {
        let fault = secret.decode_fault(&json!({"data": {"a": text}})).unwrap();
        assert!(fault.ends_with(&format!("illegal base64 data at input byte {at}")), "{text}: {fault}");
    }
    for text in ["", "YQ==", "YW\nE=", "YWFh"] {
        assert_eq!(secret.decode_fault(&json!({"data": {"a": text}})), None, "{text}");
    }
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let mut object = json!({"foo": 1, "metadata": {"name": "x", "foo": 1}, "data": {"a": null}});
    assert_eq!(kind("", "ConfigMap").prune(&mut object), ["foo", "metadata.foo"]);
    assert_eq!(object, json!({"metadata": {"name": "x"}, "data": {"a": ""}}));
    let mut object = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
        "properties": {"spec": {"type": "string", "foo": 1, "default": {"any": 1}}, "l": {"items": {"bar": 1}}}}}}]}});
    assert_eq!(
        kind("apiextensions.k8s.io", "CustomResourceDefinition").prune(&mut object),
        [
            "spec.versions[0].schema.openAPIV3Schema.properties.l.items.bar",
            "spec.versions[0].schema.openAPIV3Schema.properties.spec.foo",
        ]
    );
}

#[test]
fn config_maps_keep_their_rules() {
    let check = |object: Value| created(kind("", "ConfigMap"), object).1;
    assert_eq!(
        check(json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}})),
        ["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"]
    );
    assert_eq!(check(json!({"data": {"..": "x"}})), ["data[..]: Invalid value: \"..\": must not be '..'"]);
    assert_eq!(check(json!({"data": {"..x": "x"}})), ["data[..x]: Invalid value: \"..x\": must not start with '..'"]);
    assert!(
        check(json!({"data": {"a/b": "x"}}))[0]
            .starts_with("data[a/b]: Invalid value: \"a/b\": a valid config key must consist of")
    );
    assert_eq!(
        check(json!({"data": {"a": "x".repeat(1_100_000)}})),
        ["[]: Too long: may not be more than 1048576 bytes"]
    );
    let old = json!({"data": {"a": "1"}, "immutable": true});
    let errors = kind("", "ConfigMap")
        .check(&json!({"data": {"a": "2"}, "binaryData": {"z": "eA=="}, "immutable": false}), Some(&old));
    assert_eq!(
        written(&errors),
        [
            "immutable: Forbidden: field is immutable when `immutable` is set",
            "data: Forbidden: field is immutable when `immutable` is set",
            "binaryData: Forbidden: field is immutable when `immutable` is set",
        ]
    );
}

#[test]
fn secrets_keep_their_rules() {
    let secret = kind("", "Secret");
    let (object, errors) = created(secret, json!({"stringData": {"a": "x"}, "data": {"a": "YQ==", "b": "YW\nE="}}));
    assert_eq!(
        (object, errors),
        (json!({"metadata": {}, "data": {"a": "eA==", "b": "YWE="}, "type": "Opaque"}), vec![])
    );
    for (object, expected) in [
        (json!({"type": "kubernetes.io/tls"}), &["data[tls.crt]: Required value", "data[tls.key]: Required value"][..]),
        (
            json!({"type": "kubernetes.io/basic-auth"}),
            &["data[username]: Required value", "data[password]: Required value"],
        ),
        (json!({"type": "kubernetes.io/basic-auth", "stringData": {"password": "x"}}), &[]),
        (
            json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "x"}}),
            &[
                "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid character 'x' looking for beginning of value",
            ],
        ),
        (
            json!({"type": "kubernetes.io/service-account-token"}),
            &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
    ] {
        assert_eq!(created(secret, object).1, expected);
    }
    let errors = secret.check(&json!({"type": "x/y"}), Some(&json!({"type": "Opaque"})));
    assert_eq!(written(&errors), ["type: Invalid value: \"x/y\": field is immutable"]);
}

#[test]
fn namespaces_are_made_whole() {
    let namespace = kind("", "Namespace");
    let (object, errors) = created(
        namespace,
        json!({"metadata": {"name": "aa"}, "spec": {"finalizers": ["x.y/z"]}, "status": {"phase": "Foo"}}),
    );
    assert!(errors.is_empty());
    assert_eq!(
        object,
        json!({
            "metadata": {"name": "aa", "labels": {"kubernetes.io/metadata.name": "aa"}},
            "spec": {"finalizers": ["x.y/z", "kubernetes"]}, "status": {"phase": "Active"},
        })
    );
    let (_, errors) = created(namespace, json!({"metadata": {"name": "aa"}, "spec": {"finalizers": ["x"]}}));
    assert_eq!(
        errors,
        ["spec.finalizers: Invalid value: \"x\": name is neither a standard finalizer name nor is it fully qualified"]
    );
    assert_eq!(namespace.name_rule.faults("a.b"), ["must not contain dots"]);
}

#[test]
fn leases_and_events_keep_their_rules() {
    let lease = kind("coordination.k8s.io", "Lease");
    assert_eq!(
        created(lease, json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1, "strategy": "x"}})).1,
        [
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ]
    );
    assert_eq!(created(lease, json!({})).0, json!({"metadata": {}, "spec": {}}));
    let core = |event: Value| created(kind("", "Event"), event).1;
    let here = json!({"namespace": "default", "name": "x"});
    assert!(core(json!({"metadata": here})).is_empty());
    assert_eq!(
        core(json!({"metadata": here, "involvedObject": {"namespace": "other"}})),
        ["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"]
    );
    let new = |event: Value| created(kind("events.k8s.io", "Event"), event).1;
    assert_eq!(
        new(json!({"metadata": here})),
        ["eventTime: Required value", "type: Invalid value: \"\": has invalid value: "]
    );
    let errors = new(json!({"metadata": here, "eventTime": "2020-01-01T00:00:00.000000Z", "type": "Normal"}));
    let fields: Vec<&str> = errors.iter().filter_map(|error| error.split(':').next()).collect();
    assert_eq!(
        fields,
        ["reportingController", "reportingController", "reportingController", "reportingInstance", "action", "reason"]
    );
}

#[test]
fn an_event_has_two_faces() {
    let core = json!({
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": "qe"}, "reason": "R", "message": " m\n", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.x"}, "source": {"component": "c", "host": "h"},
        "firstTimestamp": null, "lastTimestamp": null, "eventTime": null, "reportingComponent": "", "reportingInstance": "",
    });
    let mut event = core.clone();
    event::convert(&mut event, &kind("events.k8s.io", "Event").gvk);
    assert_eq!(
        event,
        json!({
            "kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "qe"}, "reason": "R", "note": " m\n",
            "type": "Normal", "regarding": {"kind": "Pod", "name": "p", "fieldPath": "spec.x"}, "eventTime": null,
            "deprecatedSource": {"component": "c", "host": "h"}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        })
    );
    let now = Time::from_unix_seconds(0);
    let cells = json!(["<unknown>", "Normal", "R", "pod/p", "spec.x", "c, h", "m", "<unknown>", 1, "qe"]);
    for face in [&core, &event] {
        let row: Value = kind("", "Event").cells(face, now).into();
        assert_eq!(row, cells);
    }
    event::convert(&mut event, &kind("", "Event").gvk);
    assert_eq!(event, core);
}

#[test]
fn rows_are_those_of_the_real_server() {
    let now: Time = "2026-01-01T00:17:00Z".parse().unwrap();
    let meta = json!({"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"});
    for (group, name, object, row) in [
        ("", "Namespace", json!({"metadata": meta, "status": {"phase": "Active"}}), json!(["x", "Active", "17m"])),
        (
            "",
            "ConfigMap",
            json!({"metadata": meta, "data": {"a": ""}, "binaryData": {"b": ""}}),
            json!(["x", 2, "17m"]),
        ),
        ("", "Secret", json!({"metadata": meta, "type": "Opaque"}), json!(["x", "Opaque", 0, "17m"])),
        ("", "ServiceAccount", json!({"metadata": meta}), json!(["x", "17m"])),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"metadata": meta, "spec": {"holderIdentity": "h"}}),
            json!(["x", "h", "17m"]),
        ),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            json!({"metadata": meta, "spec": {"group": "g", "scope": "Namespaced", "names": {"kind": "K", "shortNames": ["a", "b"]},
                "versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v2", "served": false}, {"name": "v3", "served": true}]},
                "status": {"conditions": [{"type": "Established", "status": "True"}]}}),
            json!(["x", "Namespaced", "v1(storage),v3", "2026-01-01T00:00:00Z", "g", "K", "a,b", true]),
        ),
    ] {
        let cells: Value = kind(group, name).cells(&object, now).into();
        assert_eq!(cells, row, "{name}");
    }
}

fn any_object() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "metadata",
        "name",
        "labels",
        "spec",
        "status",
        "data",
        "stringData",
        "type",
        "finalizers",
        "phase",
        "versions",
        "schema",
        "openAPIV3Schema",
        "properties",
        "names",
        "kind",
        "conversion",
        "webhook",
        "series",
        "count",
        "involvedObject",
        "eventTime",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z=/]{0,4}".prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_is_answered(object in any_object(), old in any_object()) {
        for builtin in builtins() {
            let _ = builtin.decode_fault(&object);
            let mut object = object.clone();
            builtin.prune(&mut object);
            prop_assert!(builtin.settle(&mut object));
            builtin.prepare(&mut object, None);
            let once = object.clone();
            builtin.prepare(&mut object, None);
            prop_assert_eq!(&object, &once);
            let _ = builtin.check(&object, Some(&old));
            prop_assert!(builtin.cells(&object, Time::from_unix_seconds(0)).len() >= builtin.columns().len());
        }
    }
}

/// Every message was seen on the real server, in this order.
#[test]
fn roles_and_bindings_are_checked() {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let rule = |verbs: Value| json!({"verbs": verbs, "apiGroups": [""], "resources": ["pods"]});
    for (name, object, expected) in [
        ("Role", json!({"rules": [rule(json!(["get"]))]}), &[][..]),
        (
            "Role",
            json!({"rules": [
                rule(json!([])), {"verbs": ["get"], "resources": ["a"]}, {"verbs": ["get"], "apiGroups": [""]},
                {"verbs": ["get"], "nonResourceURLs": ["/x"]},
                {"verbs": ["get"], "apiGroups": [""], "resources": ["x"], "nonResourceURLs": ["/x"]},
            ]}),
            &[
                "rules[1].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[2].resources: Required value: resource rules must supply at least one resource",
                "rules[3].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
                "rules[4].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
                "rules[4].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
                "rules[0].verbs: Required value",
            ],
        ),
        (
            "ClusterRole",
            json!({"aggregationRule": {"clusterRoleSelectors": []}}),
            &[
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            ],
        ),
        (
            "ClusterRole",
            json!({"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "x", "operator": "Foo"}]}]}, "rules": [{"nonResourceURLs": ["/x"]}]}),
            &[
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: \"Foo\": not a valid selector operator",
                "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
                "rules[0].verbs: Required value",
            ],
        ),
        (
            "ClusterRoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "view"}, "subjects": [
                {"kind": "User", "name": ""}, {"kind": "Foo", "name": "dev"}, {"kind": "ServiceAccount", "name": "a"},
                {"kind": "User", "name": "a", "apiGroup": "x"},
                {"kind": "ServiceAccount", "name": "a", "namespace": "b", "apiGroup": "x"},
            ]}),
            &[
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "subjects[1].kind: Unsupported value: \"Foo\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
                "subjects[2].namespace: Required value",
                "subjects[3].apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
                "subjects[4].apiGroup: Unsupported value: \"x\": supported values: \"\"",
                "subjects[0].name: Required value",
            ],
        ),
        (
            "RoleBinding",
            json!({"roleRef": {"kind": "X", "name": "a/b"}, "subjects": [{"kind": "ServiceAccount", "name": "a"}]}),
            &[
                "roleRef.kind: Unsupported value: \"X\": supported values: \"Role\", \"ClusterRole\"",
                "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
    ] {
        let (_, errors) = created(kind(GROUP, name), object.clone());
        assert_eq!(errors, expected, "{name} {object}");
    }
}

#[test]
fn bindings_say_which_group_they_mean() {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let binding = kind(GROUP, "RoleBinding");
    let subjects = json!([{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]);
    let (object, errors) = created(binding, json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects}));
    assert!(errors.is_empty());
    assert_eq!(object["roleRef"]["apiGroup"], GROUP);
    assert_eq!(object["subjects"][1]["apiGroup"], GROUP);
    assert!(object["subjects"][2].get("apiGroup").is_none());
    let now = Time::from_unix_seconds(0);
    let cells: Vec<Value> = binding.cells(&object, now)[3..].to_vec();
    assert_eq!(cells, ["u", "g", "n/s"]);
    let mut other = object.clone();
    other["roleRef"]["name"] = "other".into();
    let expected = r#"roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"other"}: field is immutable"#;
    assert_eq!(written(&binding.check(&other, Some(&object))), [expected]);
    let (role, _) = created(kind(GROUP, "Role"), json!({"rules": []}));
    assert_eq!(role["rules"], Value::Null);
}
