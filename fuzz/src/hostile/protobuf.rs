//! Objects in protobuf.

use super::Case;
use crate::kinds::{Kind, SENT};
use crate::protobuf::{MEDIA, Part, body, field};
use crate::server::{Api, Call};

pub(super) const CASES: &[Case] = &[
    Case { name: "protobuf-empty-containers", run: empty_containers },
    Case { name: "protobuf-empty-entries", run: empty_entries },
    Case { name: "protobuf-entries", run: entries },
    Case { name: "protobuf-unknown-fields", run: unknown_fields },
    Case { name: "protobuf-groups", run: groups },
    Case { name: "protobuf-repeated-kinds", run: repeated_kinds },
    Case { name: "protobuf-repeated-metadata", run: repeated_metadata },
    Case { name: "protobuf-numbers", run: numbers },
    Case { name: "protobuf-zeros-in-text", run: zeros_in_text },
    Case { name: "protobuf-schemas", run: schemas },
    Case { name: "protobuf-raw", run: raw },
    Case { name: "protobuf-empty-rules", run: empty_rules },
];

const MAP: &Kind = &SENT[1];
const POD: &Kind = &SENT[2];
const DEFINITION: &Kind = &SENT[7];
const REVISION: &Kind = &SENT[22];
const ROLE: &Kind = &SENT[36];

fn send(kind: &Kind, part: Part, bytes: &[u8]) {
    let body = body(part, kind, bytes);
    Api::new().send(&Call::post(&kind.path(), MEDIA, &body));
}

fn metadata() -> Vec<u8> {
    wrapped(1, &wrapped(1, b"a"))
}

fn wrapped(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    field(number, bytes, &mut out);
    out
}

fn empty_containers(bytes: usize) {
    send(POD, Part::Object, &[metadata(), wrapped(2, &b"\x12\x00".repeat(bytes / 2))].concat());
}

fn empty_entries(bytes: usize) {
    send(MAP, Part::Object, &[metadata(), b"\x12\x00".repeat(bytes / 2)].concat());
}

fn entries(bytes: usize) {
    let entry = |index: usize| wrapped(2, &[wrapped(1, index.to_string().as_bytes()), wrapped(2, b"")].concat());
    let entries: Vec<u8> = (0..bytes / 14).flat_map(entry).collect();
    send(MAP, Part::Object, &[metadata(), entries].concat());
}

fn unknown_fields(bytes: usize) {
    send(MAP, Part::Object, &[metadata(), b"\x78\x01".repeat(bytes / 2)].concat());
}

fn groups(bytes: usize) {
    let (open, closed) = (b"\x7b".repeat(bytes / 2), b"\x7c".repeat(bytes / 2));
    send(MAP, Part::Object, &[metadata(), open, closed].concat());
}

fn repeated_kinds(bytes: usize) {
    let kind = wrapped(1, &[wrapped(1, b"v1"), wrapped(2, b"ConfigMap")].concat());
    send(MAP, Part::Envelope, &kind.repeat(bytes / kind.len()));
    send(MAP, Part::Envelope, &wrapped(1, &wrapped(2, &b"\xff".repeat(bytes))));
}

fn repeated_metadata(bytes: usize) {
    send(MAP, Part::Object, &metadata().repeat(bytes / metadata().len()));
}

fn numbers(bytes: usize) {
    // Groups of a pod's security context, which may be many.
    let context = wrapped(14, &b"\x20\x01".repeat(bytes / 2));
    send(POD, Part::Object, &[metadata(), wrapped(2, &context)].concat());
}

fn zeros_in_text(bytes: usize) {
    let entry = [wrapped(1, b"k"), wrapped(2, &b"\0".repeat(bytes))].concat();
    send(MAP, Part::Object, &[metadata(), wrapped(2, &entry)].concat());
}

fn schemas(bytes: usize) {
    // Each schema has many others, in two levels.
    let leaf = b"\xf2\x01\x00".repeat(bytes / 64);
    let nested = wrapped(30, &leaf[..]).repeat(20);
    let version = [wrapped(1, b"v1"), wrapped(4, &wrapped(1, &nested))].concat();
    send(DEFINITION, Part::Object, &[metadata(), wrapped(2, &wrapped(7, &version))].concat());
}

fn raw(bytes: usize) {
    let json = format!("[{}0]", "0,".repeat(bytes / 2));
    send(
        REVISION,
        Part::Object,
        &[metadata(), wrapped(2, &wrapped(1, json.as_bytes())), b"\x18\x01".to_vec()].concat(),
    );
}

fn empty_rules(bytes: usize) {
    send(ROLE, Part::Object, &[metadata(), b"\x12\x00".repeat(bytes / 2)].concat());
}
