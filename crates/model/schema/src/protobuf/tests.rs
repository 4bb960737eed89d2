mod samples;

use super::*;
use proptest::prelude::*;
use serde_json::json;

const MAP: (&str, &str) = ("v1", "ConfigMap");

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn field(number: usize, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len()), bytes.to_vec()].concat()
}

fn number(at: usize, value: usize) -> Vec<u8> {
    [varint(at << 3), varint(value)].concat()
}

fn enveloped(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let kind = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &kind), field(2, raw), field(3, b""), field(4, b"")].concat()
}

/// A config map as client-go writes it.
fn map() -> Vec<u8> {
    let metadata = [field(1, b"a"), field(2, b""), field(3, b"n"), number(7, 0), field(8, b"")].concat();
    let label = [field(1, b"k"), field(2, b"v")].concat();
    let metadata = [metadata, field(11, &label)].concat();
    let data = [field(1, b"x"), field(2, b"y")].concat();
    let binary = [field(1, b"b"), field(2, b"\x00\xff")].concat();
    [field(1, &metadata), field(2, &data), field(3, &binary), number(4, 0)].concat()
}

#[test]
fn kinds_are_read_as_their_json() {
    let owner = [field(1, b"K"), field(3, b"o"), number(6, 0)].concat();
    let lease = [field(1, b"me"), number(2, 15), field(3, &[number(1, 1), number(2, 5_000)].concat())].concat();
    let extra = [field(1, b"e"), field(2, &[field(1, b"p"), field(1, b"q")].concat())].concat();
    let review = [field(1, &field(5, b"pods")), field(3, b"jane"), field(4, b"dev"), field(5, &extra)].concat();
    let metadata = [field(1, b"m"), field(8, &number(1, 1)), field(13, &owner)].concat();
    for (version, kind, raw, expected) in [
        (
            "v1",
            "ConfigMap",
            map(),
            json!({"metadata": {"name": "a", "namespace": "n", "labels": {"k": "v"}}, "data": {"x": "y"},
                "binaryData": {"b": "AP8="}, "immutable": false}),
        ),
        (
            "v1",
            "Namespace",
            [field(1, &metadata), field(2, b""), field(3, b"")].concat(),
            json!({"metadata": {"name": "m", "creationTimestamp": "1970-01-01T00:00:01Z",
                "ownerReferences": [{"kind": "K", "name": "o", "controller": false}]}, "spec": {}, "status": {}}),
        ),
        (
            "coordination.k8s.io/v1",
            "Lease",
            field(2, &lease),
            json!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "1970-01-01T00:00:01.000005Z"}}),
        ),
        (
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            field(2, &review),
            json!({"spec": {"resourceAttributes": {"resource": "pods"}, "user": "jane", "groups": ["dev"], "extra": {"e": ["p", "q"]}}}),
        ),
        ("meta.k8s.io/v1", "DeleteOptions", field(4, b"Orphan"), json!({"propagationPolicy": "Orphan"})),
    ] {
        let mut expected = expected;
        expected["apiVersion"] = version.into();
        expected["kind"] = kind.into();
        assert_eq!(to_json(&enveloped(version, kind, &raw), MAP), Ok(expected), "{kind}");
    }
    assert_eq!(to_json(&enveloped("", "", b""), MAP), Ok(json!({"apiVersion": "v1", "kind": "ConfigMap"})));
    assert_eq!(to_json(&enveloped("v1", "Pot", b""), MAP), Err(ProtobufError::Unknown("v1".into(), "Pot".into())));
}

/// Every message was seen on the real server.
#[test]
fn damaged_envelopes_are_refused_in_the_real_words() {
    for (body, why) in [
        (
            map()[..4].to_vec(),
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (0a140a01)",
        ),
        (Vec::new(), "empty data (<empty>)"),
        (MAGIC.to_vec(), "empty body (6b387300)"),
        (b"k8s\0\x0a\x0f\x0a".to_vec(), "unexpected EOF (6b3873000a0f0a)"),
        (b"k8s\0\x0a\xff\xff\xff\xff\x0f".to_vec(), "unexpected EOF (6b3873000affffffff0f)"),
        (
            [b"k8s\0\x0a", &[0xff; 9][..], b"\x01"].concat(),
            "proto: negative length found during unmarshaling (6b3873000affffffffffffffffff01)",
        ),
        ([b"k8s\0\x0a", &[0xff; 11][..]].concat(), "proto: integer overflow (6b3873000affffffffffffffffffffff)"),
    ] {
        assert_eq!(to_json(&body, MAP), Err(ProtobufError::Envelope(why.to_owned())));
    }
}

/// Every message was seen on the real server.
#[test]
fn damaged_objects_are_refused_in_the_real_words() {
    let name = field(1, &field(1, b"a"));
    for (raw, why) in [
        (map()[..map().len() - 3].to_vec(), "unexpected EOF"),
        (b"\x0a\xff\xff\xff\xff\x07".to_vec(), "unexpected EOF"),
        (b"\x08\x01".to_vec(), "proto: wrong wireType = 0 for field ObjectMeta"),
        (field(1, &field(8, &field(1, b"x"))), "proto: wrong wireType = 2 for field Seconds"),
        ([name.as_slice(), b"\x7c"].concat(), "proto: ConfigMap: wiretype end group for non-group"),
        (b"\x02\x00".to_vec(), "proto: ConfigMap: illegal tag 0 (wire type 2)"),
        (b"\x7e\x00".to_vec(), "proto: illegal wireType 6"),
        ([name.as_slice(), &[0x7b; 1_000_000]].concat(), "unexpected EOF"),
    ] {
        match to_json(&enveloped("v1", "ConfigMap", &raw), MAP) {
            Err(ProtobufError::Object(version, kind, error)) => {
                assert_eq!((version.as_str(), kind.as_str(), error.to_string().as_str()), ("v1", "ConfigMap", why));
            }
            other => panic!("{why}: {other:?}"),
        }
    }
    let skipped = [name.as_slice(), b"\x7b\x7c", &field(99, b"x")].concat();
    assert!(to_json(&enveloped("v1", "ConfigMap", &skipped), MAP).is_ok());
}

/// A schema has schemas: how deep is limited.
#[test]
fn schemas_inside_schemas_end_somewhere() {
    let nested = |depth: usize| {
        let mut schema = field(5, b"object");
        for _ in 0..depth {
            schema = [field(5, b"object"), field(28, &schema)].concat();
        }
        let version = [field(1, b"v1"), field(4, &field(1, &schema))].concat();
        let definition = field(2, &[field(1, b"g"), field(7, &version)].concat());
        to_json(&enveloped("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition), MAP)
    };
    let read = nested(2).unwrap();
    let schema = &read["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["not"]["not"], json!({"type": "object"}), "{read}");
    assert!(matches!(nested(200), Err(ProtobufError::Object(_, _, WireError::TooDeep))));
}

/// Any JSON, with names that a Pod has.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[a-z0-9:.TZ=%-]{0,24}".prop_map(Into::into),
    ];
    let name = proptest::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "labels",
        "name",
        "containers",
        "volumes",
        "emptyDir",
        "env",
        "resources",
        "limits",
        "managedFields",
        "fieldsV1",
        "creationTimestamp",
        "ports",
        "httpGet",
        "port",
        "livenessProbe",
        "conditions",
        "x",
    ]);
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_written_or_refused(object in any_json()) {
        let json = object.to_string();
        for (version, kind) in [("v1", "Pod"), ("apps/v1", "Deployment"), MAP, ("v1", "Status")] {
            if let Ok(body) = Encoder::new(version, kind).unwrap().object(json.as_bytes()) {
                let again = to_json(&body, MAP);
                prop_assert!(kind == "Status" || again.is_ok(), "{json}: {again:?}");
            }
        }
        let _ = Encoder::for_document(json.as_bytes());
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..200, byte in any::<u8>()) {
        let _ = to_json(&bytes, MAP);
        let _ = to_json(&[MAGIC, bytes.as_slice()].concat(), MAP);
        for (version, kind) in [("v1", "Event"), ("rbac.authorization.k8s.io/v1", "ClusterRole"), MAP] {
            let _ = to_json(&enveloped(version, kind, &bytes), MAP);
        }
        let mut damaged = enveloped("v1", "ConfigMap", &map());
        let place = at % damaged.len();
        damaged[place] = byte;
        let _ = to_json(&damaged, MAP);
        let _ = to_json(&damaged[..place], MAP);
    }
}
