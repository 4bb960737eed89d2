//! What Go's marshallers write: `tests/vectors/protobuf.jsonl`, written by `xtask/reference/oracle`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use concert_schema::builtins;
use concert_schema::protobuf::{Encoder, ListEncoder, framed, to_json};
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(serde::Deserialize)]
struct Case {
    json: Box<RawValue>,
    protobuf: String,
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/protobuf.jsonl");
    let path = std::env::var_os("CONCERT_VECTORS").map_or(path, Into::into);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Objects of every kind, filled at random, are the same bytes.
#[test]
fn every_kind_is_written_as_go_writes_it() {
    let mut seen = BTreeSet::new();
    for case in cases() {
        let json = case.json.get();
        // Kinds that we do not serve are passed over.
        let Some(encoder) = Encoder::for_document(json.as_bytes()) else { continue };
        let found = encoder.object(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"));
        assert_eq!(hex(&found), hex(&STANDARD.decode(case.protobuf).unwrap()), "{json}");
        let document: Value = serde_json::from_str(json).unwrap();
        seen.insert((document["apiVersion"].to_string(), document["kind"].to_string()));
    }
    for builtin in builtins() {
        let key = (json!(builtin.gvk.api_version()).to_string(), json!(builtin.gvk.kind).to_string());
        assert!(seen.contains(&key) || builtin.gvk.kind == "ComponentStatus", "no case of {}", builtin.gvk);
    }
}

/// And in another order of their members, as others may write them.
#[test]
fn the_order_of_members_does_not_count() {
    for case in cases() {
        let document: Value = serde_json::from_str(case.json.get()).unwrap();
        let sorted = document.to_string();
        let Some(encoder) = Encoder::for_document(sorted.as_bytes()) else { continue };
        let (given, found) = (encoder.object(case.json.get().as_bytes()), encoder.object(sorted.as_bytes()));
        assert_eq!(hex(&given.unwrap()), hex(&found.unwrap()), "{sorted}");
    }
}

#[test]
fn lists_and_events_have_their_frame() {
    let map = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#;
    let encoder = Encoder::for_document(map).unwrap();
    let list = ListEncoder::new("v1", "ConfigMapList", br#"{"resourceVersion":"7"}"#).unwrap();
    let mut items = Vec::new();
    encoder.item(map, &mut items).unwrap();
    let document = [list.before(items.len()), items.clone(), ListEncoder::behind().to_vec()].concat();
    // The envelope's object is metadata and items: that of a list of one.
    let metadata = b"\x0a\x07\x0a\x00\x12\x017\x1a\x00";
    let raw = [&metadata[..], &items].concat();
    assert!(document.windows(raw.len()).any(|window| window == raw), "{}", hex(&document));
    let object = encoder.object(map).unwrap();
    let frame = framed("ADDED", &object);
    let (length, event) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
    assert!(event.starts_with(b"\x0a\x05ADDED\x12") && event.ends_with(&object));
    assert!(to_json(&object, ("", "")).is_ok());
}
