//! Bodies in protobuf: any bytes, and any bytes in a sound envelope.

use concert_schema::protobuf::to_json;

use crate::input::Input;
use crate::kinds::{Kind, SENT};
use crate::server::{Api, Call};

pub(crate) const MEDIA: &str = "application/vnd.kubernetes.protobuf";
/// How much longer JSON may be: two bytes can stand for a field with a long name and a date.
const GROWTH: usize = 64;

/// What the bytes are.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// The object in an envelope that names the kind.
    Object,
    /// The object in an envelope that names no kind.
    Anonymous,
    /// The envelope, behind its first bytes.
    Envelope,
    /// All of the body.
    Body,
}

const PARTS: [Part; 4] = [Part::Object, Part::Anonymous, Part::Envelope, Part::Body];

/// Choices: kind, what the bytes are. The rest: the bytes.
pub fn protobuf(data: &[u8]) {
    let mut input = Input::of(data);
    let kind = input.choose(&SENT);
    let part = *input.choose(&PARTS);
    let body = body(part, kind, input.rest());
    check_pure(kind, &body);
    let mut api = Api::new();
    let Some(path) = api.create(kind, MEDIA, "", &body) else { return };
    if api.send(&Call::get(&path)).is_success() {
        api.check_stable(&path);
    }
}

fn check_pure(kind: &Kind, body: &[u8]) {
    let Ok(object) = to_json(body, (kind.api_version, kind.name)) else { return };
    assert!(object.is_object());
    let (length, most) = (object.to_string().len(), GROWTH * body.len() + 1024);
    assert!(length <= most, "{length} bytes of JSON from {} bytes: {object}", body.len());
}

pub(crate) fn body(part: Part, kind: &Kind, bytes: &[u8]) -> Vec<u8> {
    let mut body = b"k8s\0".to_vec();
    match part {
        Part::Object => {
            let mut types = Vec::new();
            field(1, kind.api_version.as_bytes(), &mut types);
            field(2, kind.name.as_bytes(), &mut types);
            field(1, &types, &mut body);
            field(2, bytes, &mut body);
        }
        Part::Anonymous => field(2, bytes, &mut body),
        Part::Envelope => body.extend_from_slice(bytes),
        Part::Body => bytes.clone_into(&mut body),
    }
    body
}

/// A field of bytes, as it is on the wire.
pub(crate) fn field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    varint(usize::from(number) << 3 | 2, out);
    varint(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn varint(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
