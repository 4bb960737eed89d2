//! Objects in JSON, written as Go's marshallers write them: byte for byte, and without a tree.
//!
//! A field is written as soon as it is read. JSON has fields by name and protobuf has them by number, so at the end of each
//! message its fields are put in order ([`Layout`]), behind the length that is known by then.

pub(super) mod out;
mod special;

use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

use super::layout::{FieldPiece, Layout, Span, zero};
use super::table::{self, Field, Message, Shape, Sort};
use super::wire::{FIXED64, VARINT};
use crate::builtin::data::Special;

const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

/// Writes the fields of an object.
pub(super) fn object(message: &'static Message, json: &[u8], bytes: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let mut out = Out { bytes: std::mem::take(bytes), spans: Vec::new() };
    let mut reader = serde_json::Deserializer::from_slice(json);
    let written = Body { message, number: 0, out: &mut out }.deserialize(&mut reader).and_then(|_| reader.end());
    *bytes = out.bytes;
    written
}

/// What is written, and where the fields of the messages are that are not finished.
struct Out {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

/// A message as a field of this number; 0 is none.
struct Body<'a> {
    message: &'static Message,
    number: u64,
    out: &'a mut Out,
}

/// Each seed says whether there was a value: null is none, and nothing is written of it.
impl<'de> DeserializeSeed<'de> for Body<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Body<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.message.name)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let Self { message, number, out } = self;
        let layout = message.layout();
        let (start, base) = (out.bytes.len(), out.spans.len());
        out.spans.resize(base + layout.pieces.len(), None);
        let mut last = 0;
        while let Some(found) = members.next_key_seed(Name { layout, last: &mut last })? {
            let Some((place, piece)) = found else {
                members.next_value::<IgnoredAny>()?;
                continue;
            };
            let begin = out.bytes.len();
            if members.next_value_seed(Member { piece, out: &mut *out })? {
                out.spans[base + place] = Some((begin, out.bytes.len()));
            }
        }
        out.finish(layout, number, start, base);
        Ok(true)
    }
}

impl Out {
    /// Puts the fields behind `start` in order.
    fn finish(&mut self, layout: &Layout, number: u64, start: usize, base: usize) {
        let middle = self.bytes.len();
        let spans = &self.spans[base..];
        let length = layout.length(0, layout.pieces.len(), spans);
        self.bytes.reserve(length + 16);
        if number > 0 {
            out::tag(&mut self.bytes, number, super::wire::BYTES);
            out::varint(&mut self.bytes, length as u64);
        }
        layout.assemble(&mut self.bytes, spans);
        self.bytes.copy_within(middle.., start);
        self.bytes.truncate(start + self.bytes.len() - middle);
        self.spans.truncate(base);
    }
}

/// The name of a member: the piece that it is.
struct Name<'a> {
    layout: &'a Layout,
    last: &'a mut usize,
}

impl<'a, 'de> DeserializeSeed<'de> for Name<'a> {
    type Value = Option<(usize, &'a FieldPiece)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a> {
    type Value = Option<(usize, &'a FieldPiece)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.layout.find(name, self.last))
    }
}

/// All that a field has.
struct Member<'a> {
    piece: &'a FieldPiece,
    out: &'a mut Out,
}

impl<'a> Member<'a> {
    /// One of its values, as a field of this number.
    fn one<'b>(piece: &'b FieldPiece, number: u64, out: &'b mut Out) -> One<'b> {
        One { sort: piece.field.sort, inner: piece.inner(), number, out }
    }
}

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        match self.piece.field.shape {
            Shape::One => Self::one(self.piece, self.piece.field.number, self.out).deserialize(deserializer),
            Shape::Many | Shape::Map => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the {} in {}",
            if self.piece.field.shape == Shape::Many { "list" } else { "map" },
            self.piece.field.name
        )
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<bool, A::Error> {
        if self.piece.field.shape != Shape::Many {
            return Err(Error::invalid_type(Unexpected::Seq, &self));
        }
        let number = self.piece.field.number;
        each(items, self.piece.field.sort, self.piece.inner(), number, self.out)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<bool, A::Error> {
        let Self { piece, out } = self;
        if piece.field.shape != Shape::Map {
            return Err(Error::invalid_type(Unexpected::Map, &Member { piece, out }));
        }
        let start = out.bytes.len();
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(key) = members.next_key_seed(Key { out: &mut *out })? {
            let begin = out.bytes.len() - out::field_length(1, key);
            if !members.next_value_seed(Self::one(piece, 2, &mut *out))? {
                out.bytes.extend_from_slice(&zero(&Field { number: 2, shape: Shape::One, ..piece.field }));
            }
            let before = out.bytes.len();
            out::wrap(&mut out.bytes, begin, piece.field.number);
            let all = begin..out.bytes.len();
            let key_start = begin + (all.end - before) + out::field_length(1, key) - key;
            entries.push(Entry { all, key: key_start..key_start + key });
        }
        sort(&mut out.bytes, start, entries);
        Ok(true)
    }
}

/// Writes the items of a list.
fn each<'de, A: SeqAccess<'de>>(
    mut items: A,
    sort: Sort,
    inner: Option<&'static Message>,
    number: u64,
    out: &mut Out,
) -> Result<bool, A::Error> {
    while let Some(written) = items.next_element_seed(One { sort, inner, number, out: &mut *out })? {
        if !written {
            out.bytes.extend_from_slice(&zero(&Field { number, ..Field::nested("", sort) }));
        }
    }
    Ok(true)
}

/// Where an entry of a map is, and where its key.
struct Entry {
    all: Range<usize>,
    key: Range<usize>,
}

/// Puts the entries behind `start` in the order of their keys, which nearly always is theirs.
fn sort(bytes: &mut Vec<u8>, start: usize, mut entries: Vec<Entry>) {
    if entries.is_sorted_by(|one, next| bytes[one.key.clone()] <= bytes[next.key.clone()]) {
        return;
    }
    entries.sort_by(|one, other| bytes[one.key.clone()].cmp(&bytes[other.key.clone()]));
    let sorted: Vec<u8> = entries.iter().flat_map(|entry| bytes[entry.all.clone()].to_vec()).collect();
    bytes.truncate(start);
    bytes.extend_from_slice(&sorted);
}

/// The key of an entry, written as its first field; gives its length.
struct Key<'a> {
    out: &'a mut Out,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<usize, E> {
        out::field(&mut self.out.bytes, 1, key.as_bytes());
        Ok(key.len())
    }
}

/// One value as a field of this number.
struct One<'a> {
    sort: Sort,
    inner: Option<&'static Message>,
    number: u64,
    out: &'a mut Out,
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        match (self.sort, self.inner) {
            (Sort::Message(_), Some(message)) => {
                Body { message, number: self.number, out: self.out }.deserialize(deserializer)
            }
            (Sort::Special(Special::Fields | Special::Raw | Special::Json), _) => {
                let text = <&RawValue>::deserialize(deserializer)?.get();
                if text != "null" {
                    special::json(&mut self.out.bytes, self.number, text);
                }
                Ok(text != "null")
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl One<'_> {
    fn integer(self, value: i64) -> bool {
        let bytes = &mut self.out.bytes;
        match self.sort {
            Sort::Special(Special::IntOrString) => drop(special::integer_or_text(bytes, self.number, value, None)),
            Sort::Double => {
                out::tag(bytes, self.number, FIXED64);
                #[expect(clippy::cast_precision_loss, reason = "Go reads it so, too")]
                bytes.extend_from_slice(&(value as f64).to_le_bytes());
            }
            _ => {
                out::tag(bytes, self.number, VARINT);
                out::varint(bytes, value.cast_unsigned());
            }
        }
        true
    }

    fn is_number(&self) -> bool {
        let integer = matches!(self.sort, Sort::Int32 | Sort::Int64 | Sort::Double);
        integer || self.sort == Sort::Special(Special::IntOrString)
    }

    /// A schema, or what stands in its place: a message whose field of this number it is.
    fn choice<E>(self, write: impl FnOnce(&mut Out) -> Result<bool, E>) -> Result<bool, E> {
        let start = self.out.bytes.len();
        if self.sort == Sort::Special(Special::SchemaOrBool) {
            out::tag(&mut self.out.bytes, 1, VARINT);
            self.out.bytes.push(1);
        }
        write(self.out)?;
        out::wrap(&mut self.out.bytes, start, self.number);
        Ok(true)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.sort)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        let bytes = &mut self.out.bytes;
        match self.sort {
            Sort::Bool => {
                out::tag(bytes, self.number, VARINT);
                bytes.push(u8::from(value));
            }
            Sort::Special(Special::SchemaOrBool) => drop(out::field(bytes, self.number, &[1 << 3, u8::from(value)])),
            _ => return Err(Error::invalid_type(Unexpected::Bool(value), &self)),
        }
        Ok(true)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        if self.is_number() {
            Ok(self.integer(value))
        } else {
            Err(Error::invalid_type(Unexpected::Signed(value), &self))
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        self.visit_i64(value.cast_signed())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        match self.sort {
            Sort::Double => {
                out::tag(&mut self.out.bytes, self.number, FIXED64);
                self.out.bytes.extend_from_slice(&value.to_le_bytes());
                Ok(true)
            }
            #[expect(clippy::cast_possible_truncation, reason = "what is stored is whole")]
            _ if value.fract() == 0.0 => self.visit_i64(value as i64),
            _ => Err(Error::invalid_type(Unexpected::Float(value), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        let (bytes, number) = (&mut self.out.bytes, self.number);
        let written = match self.sort {
            Sort::Text => out::field(bytes, number, text.as_bytes()),
            Sort::Bytes => STANDARD.decode(text).is_ok_and(|value| out::field(bytes, number, &value)),
            Sort::Special(Special::Time) => special::time(bytes, number, text, false),
            Sort::Special(Special::MicroTime) => special::time(bytes, number, text, true),
            Sort::Special(Special::Duration) => special::duration(bytes, number, text),
            Sort::Special(Special::Quantity) => special::quantity(bytes, number, text),
            Sort::Special(Special::IntOrString) => special::integer_or_text(bytes, number, 0, Some(text)),
            _ => false,
        };
        if written { Ok(true) } else { Err(Error::invalid_value(Unexpected::Str(text), &self)) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<bool, A::Error> {
        match self.sort {
            Sort::Listed => self.choice(|out| each(items, Sort::Text, None, 1, out)),
            Sort::Special(Special::SchemaOrStrings) => self.choice(|out| each(items, Sort::Text, None, 2, out)),
            Sort::Special(Special::SchemaOrArray) => {
                self.choice(|out| each(items, Sort::Message(SCHEMA), table::message(SCHEMA), 2, out))
            }
            _ => Err(Error::invalid_type(Unexpected::Seq, &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<bool, A::Error> {
        let number = match self.sort {
            Sort::Special(Special::SchemaOrBool) => 2,
            Sort::Special(Special::SchemaOrArray | Special::SchemaOrStrings) => 1,
            _ => return Err(Error::invalid_type(Unexpected::Map, &self)),
        };
        let Some(message) = table::message(SCHEMA) else { return Ok(false) };
        self.choice(|out| Body { message, number, out }.visit_map(members))
    }
}
