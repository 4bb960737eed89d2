//! Kubernetes protobuf, as far as a Pod and a ConfigMap need it: from JSON, by a table of field numbers.
//!
//! The numbers are those of the `generated.proto` files that Kubernetes publishes. That the two encodings agree is checked
//! by the Go subject before anything is measured: it decodes both with the real types and compares.

use concert_api::Time as Timestamp;
use serde_json::Value;

use self::Field::{Flag, IntOrString, Message, Number, Quantities, Raw, Text, Texts, Time};

/// What a field is on the wire. Lists are repeated fields of their items.
#[derive(Clone, Copy)]
pub(super) enum Field {
    Text,
    Number,
    Flag,
    Time,
    /// A map from text to text.
    Texts,
    /// A map from text to quantities.
    Quantities,
    IntOrString,
    /// JSON kept as bytes.
    Raw,
    Message(&'static Table),
}

/// The fields of a message: JSON name, number, kind. What JSON inlines (Go's embedded structs) is a field without a name.
pub(super) type Table = [(&'static str, u32, Field)];

/// `v1.Pod`.
pub(super) const POD: &Table =
    &[("metadata", 1, Message(METADATA)), ("spec", 2, Message(SPEC)), ("status", 3, Message(STATUS))];

/// `v1.ConfigMap`.
pub(super) const CONFIG_MAP: &Table = &[("metadata", 1, Message(METADATA)), ("data", 2, Texts)];

const METADATA: &Table = &[
    ("name", 1, Text),
    ("generateName", 2, Text),
    ("namespace", 3, Text),
    ("uid", 5, Text),
    ("resourceVersion", 6, Text),
    ("generation", 7, Number),
    ("creationTimestamp", 8, Time),
    ("labels", 11, Texts),
    ("annotations", 12, Texts),
    ("ownerReferences", 13, Message(OWNER)),
    ("managedFields", 17, Message(MANAGED)),
];
const OWNER: &Table = &[
    ("kind", 1, Text),
    ("name", 3, Text),
    ("uid", 4, Text),
    ("apiVersion", 5, Text),
    ("controller", 6, Flag),
    ("blockOwnerDeletion", 7, Flag),
];
const MANAGED: &Table = &[
    ("manager", 1, Text),
    ("operation", 2, Text),
    ("apiVersion", 3, Text),
    ("time", 4, Time),
    ("fieldsType", 6, Text),
    ("fieldsV1", 7, Raw),
    ("subresource", 8, Text),
];
const SPEC: &Table = &[
    ("volumes", 1, Message(VOLUME)),
    ("containers", 2, Message(CONTAINER)),
    ("restartPolicy", 3, Text),
    ("terminationGracePeriodSeconds", 4, Number),
    ("dnsPolicy", 6, Text),
    ("serviceAccountName", 8, Text),
    ("serviceAccount", 9, Text),
    ("nodeName", 10, Text),
    ("securityContext", 14, Message(&[("fsGroup", 5, Number)])),
    ("schedulerName", 19, Text),
    ("tolerations", 22, Message(TOLERATION)),
    ("priority", 25, Number),
    ("preemptionPolicy", 31, Text),
];
const TOLERATION: &Table =
    &[("key", 1, Text), ("operator", 2, Text), ("effect", 4, Text), ("tolerationSeconds", 5, Number)];
const VOLUME: &Table = &[("name", 1, Text), ("", 2, Message(VOLUME_SOURCE))];
const VOLUME_SOURCE: &Table = &[
    ("emptyDir", 2, Message(&[])),
    ("configMap", 19, Message(&[("", 1, Message(NAMED)), ("defaultMode", 3, Number)])),
    ("projected", 26, Message(&[("sources", 1, Message(PROJECTION)), ("defaultMode", 2, Number)])),
];
const NAMED: &Table = &[("name", 1, Text)];
const PROJECTION: &Table = &[
    ("downwardAPI", 2, Message(&[("items", 1, Message(&[("path", 1, Text), ("fieldRef", 2, Message(FIELD_REF))]))])),
    (
        "configMap",
        3,
        Message(&[("", 1, Message(NAMED)), ("items", 2, Message(&[("key", 1, Text), ("path", 2, Text)]))]),
    ),
    ("serviceAccountToken", 4, Message(&[("expirationSeconds", 2, Number), ("path", 3, Text)])),
];
const FIELD_REF: &Table = &[("apiVersion", 1, Text), ("fieldPath", 2, Text)];
const CONTAINER: &Table = &[
    ("name", 1, Text),
    ("image", 2, Text),
    ("args", 4, Text),
    ("ports", 6, Message(&[("name", 1, Text), ("containerPort", 3, Number), ("protocol", 4, Text)])),
    ("env", 7, Message(ENVIRONMENT)),
    ("resources", 8, Message(&[("limits", 1, Quantities), ("requests", 2, Quantities)])),
    ("volumeMounts", 9, Message(&[("name", 1, Text), ("readOnly", 2, Flag), ("mountPath", 3, Text)])),
    ("livenessProbe", 10, Message(PROBE)),
    ("readinessProbe", 11, Message(PROBE)),
    ("terminationMessagePath", 13, Text),
    ("imagePullPolicy", 14, Text),
    ("securityContext", 15, Message(SECURITY)),
    ("terminationMessagePolicy", 20, Text),
];
const ENVIRONMENT: &Table =
    &[("name", 1, Text), ("value", 2, Text), ("valueFrom", 3, Message(&[("fieldRef", 1, Message(FIELD_REF))]))];
const SECURITY: &Table = &[
    ("capabilities", 1, Message(&[("drop", 2, Text)])),
    ("runAsUser", 4, Number),
    ("runAsNonRoot", 5, Flag),
    ("readOnlyRootFilesystem", 6, Flag),
    ("allowPrivilegeEscalation", 7, Flag),
];
const PROBE: &Table = &[
    ("", 1, Message(&[("httpGet", 2, Message(&[("path", 1, Text), ("port", 2, IntOrString), ("scheme", 4, Text)]))])),
    ("initialDelaySeconds", 2, Number),
    ("timeoutSeconds", 3, Number),
    ("periodSeconds", 4, Number),
    ("successThreshold", 5, Number),
    ("failureThreshold", 6, Number),
];
const STATUS: &Table = &[
    ("phase", 1, Text),
    ("conditions", 2, Message(&[("type", 1, Text), ("status", 2, Text), ("lastTransitionTime", 4, Time)])),
    ("hostIP", 5, Text),
    ("podIP", 6, Text),
    ("startTime", 7, Time),
    ("containerStatuses", 8, Message(CONTAINER_STATUS)),
    ("qosClass", 9, Text),
    ("podIPs", 12, Message(&[("ip", 1, Text)])),
    ("hostIPs", 16, Message(&[("ip", 1, Text)])),
];
const CONTAINER_STATUS: &Table = &[
    ("name", 1, Text),
    ("state", 2, Message(&[("running", 2, Message(&[("startedAt", 1, Time)]))])),
    ("lastState", 3, Message(&[])),
    ("ready", 4, Flag),
    ("restartCount", 5, Number),
    ("image", 6, Text),
    ("imageID", 7, Text),
    ("containerID", 8, Text),
    ("started", 9, Flag),
];

/// The message that `table` tells of, from its JSON.
///
/// # Panics
/// The JSON has a field that the table does not know: the objects are part of the program.
pub(super) fn message(table: &Table, value: &Value) -> Vec<u8> {
    let known = |name: &String| knows(table, name) || matches!(name.as_str(), "kind" | "apiVersion");
    let fields = value.as_object().expect("a message is a JSON object");
    let unknown: Vec<&String> =
        fields.iter().filter(|(name, value)| !value.is_null() && !known(name)).map(|f| f.0).collect();
    assert!(unknown.is_empty() || table.is_empty(), "no field number for {unknown:?}");
    let mut out = Vec::new();
    for (name, number, field) in table {
        match (name, field) {
            (&"", Message(inner)) => put_bytes(&mut out, *number, &inlined(inner, value)),
            (name, field) => match fields.get(*name) {
                None | Some(Value::Null) => {}
                Some(Value::Array(items)) => items.iter().for_each(|item| put(&mut out, *number, *field, item)),
                Some(value) => put(&mut out, *number, *field, value),
            },
        }
    }
    out
}

/// A message whose fields stand among those of its parent.
fn inlined(table: &Table, parent: &Value) -> Vec<u8> {
    let fields = parent.as_object().expect("a message is a JSON object").iter();
    let own = fields.filter(|(name, _)| knows(table, name)).map(|(name, value)| (name.clone(), value.clone()));
    message(table, &Value::Object(own.collect()))
}

fn knows(table: &Table, name: &str) -> bool {
    table.iter().any(|(known, _, field)| match (known, field) {
        (&"", Message(inner)) => knows(inner, name),
        (known, _) => *known == name,
    })
}

fn put(out: &mut Vec<u8>, number: u32, field: Field, value: &Value) {
    let text = || value.as_str().expect("a text");
    match field {
        Text => put_bytes(out, number, text().as_bytes()),
        Number => put_number(out, number, value.as_u64().expect("a number that is not negative")),
        Flag => put_number(out, number, u64::from(value.as_bool().expect("a flag"))),
        Time => put_bytes(out, number, &time(text())),
        Raw => put_bytes(out, number, &of_bytes(1, value.to_string().as_bytes())),
        Message(table) => put_bytes(out, number, &message(table, value)),
        IntOrString => put_bytes(out, number, &int_or_string(value)),
        Texts => put_map(out, number, value, |value| value.as_str().expect("a text").as_bytes().to_vec()),
        Quantities => {
            put_map(out, number, value, |value| of_bytes(1, value.as_str().expect("a quantity").as_bytes()));
        }
    }
}

fn put_map(out: &mut Vec<u8>, number: u32, map: &Value, encode: impl Fn(&Value) -> Vec<u8>) {
    for (key, value) in map.as_object().expect("a map") {
        let mut entry = of_bytes(1, key.as_bytes());
        put_bytes(&mut entry, 2, &encode(value));
        put_bytes(out, number, &entry);
    }
}

fn time(text: &str) -> Vec<u8> {
    let time: Timestamp = text.parse().expect("a time");
    let mut out = Vec::new();
    put_number(&mut out, 1, time.unix_seconds().try_into().expect("after 1970"));
    put_number(&mut out, 2, 0);
    out
}

fn int_or_string(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, 1, 0);
    put_number(&mut out, 2, value.as_u64().expect("ports are numbers here"));
    out
}

/// A message of one field.
pub(super) fn of_bytes(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    put_bytes(&mut out, number, bytes);
    out
}

/// Appends a field of bytes: text, or a message.
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number << 3 | 2));
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field of a number.
pub(super) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number << 3));
    put_varint(out, value);
}

/// Appends a number, seven bits to the byte.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
