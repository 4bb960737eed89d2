//! The bytes: tags, lengths, values.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::special;
use super::table::{self, Field, Message, Shape, Sort};
use crate::builtin::data::Special;

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// What is wrong with the bytes, in the words of the real server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// They end too early.
    End,
    /// A number has more than 64 bits.
    Overflow,
    /// A length is negative.
    NegativeLength,
    /// A field has the wrong sort of value.
    WrongType(u8, String),
    /// There is no such sort of value.
    IllegalType(u8),
    /// A field has no number above 0: the message, that number, and the whole tag.
    IllegalTag(&'static str, i32, u64),
    /// A group ends that has not begun.
    EndGroup(&'static str),
    /// A group ends too often.
    UnexpectedEnd,
    /// Messages are inside each other too often. The real server has no such limit; a schema inside a schema is the only
    /// message that has itself.
    TooDeep,
}

/// How deep messages may be inside each other: as deep as JSON may be.
const DEPTH_MAX: u8 = 127;

/// How deep a message is inside others.
#[derive(Clone, Copy)]
pub(super) struct Depth(u8);

impl Depth {
    pub(super) const TOP: Self = Self(0);

    pub(super) fn deeper(self) -> Result<Self, WireError> {
        if self.0 < DEPTH_MAX { Ok(Self(self.0 + 1)) } else { Err(WireError::TooDeep) }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => f.write_str("unexpected EOF"),
            Self::Overflow => f.write_str("proto: integer overflow"),
            Self::NegativeLength => f.write_str("proto: negative length found during unmarshaling"),
            Self::WrongType(found, field) => write!(f, "proto: wrong wireType = {found} for field {field}"),
            Self::IllegalType(found) => write!(f, "proto: illegal wireType {found}"),
            Self::IllegalTag(message, number, tag) => {
                write!(f, "proto: {message}: illegal tag {number} (wire type {tag})")
            }
            Self::EndGroup(message) => write!(f, "proto: {message}: wiretype end group for non-group"),
            Self::UnexpectedEnd => f.write_str("proto: unexpected end of group"),
            Self::TooDeep => f.write_str("proto: exceeded max nesting depth"),
        }
    }
}

impl std::error::Error for WireError {}

/// What the envelope says.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) raw: &'a [u8],
}

/// Reads `runtime.Unknown`.
pub(super) fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, WireError> {
    let mut found = Envelope::default();
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.tag("Unknown")? {
        match number {
            1 => {
                let mut kind = Reader(reader.bytes_of(wire, "TypeMeta")?);
                while let Some((number, wire)) = kind.tag("TypeMeta")? {
                    match number {
                        1 => found.api_version = text(kind.bytes_of(wire, "APIVersion")?),
                        2 => found.kind = text(kind.bytes_of(wire, "Kind")?),
                        _ => kind.skip(wire)?,
                    }
                }
            }
            2 => found.raw = reader.bytes_of(wire, "Raw")?,
            3 => drop(reader.bytes_of(wire, "ContentEncoding")?),
            4 => drop(reader.bytes_of(wire, "ContentType")?),
            _ => reader.skip(wire)?,
        }
    }
    Ok(found)
}

/// Reads a message.
pub(super) fn message(message: &Message, bytes: &[u8], depth: Depth) -> Result<Map<String, Value>, WireError> {
    let mut found = Map::new();
    more(message, bytes, depth, &mut found)?;
    Ok(found)
}

/// Reads a message into what was read before: one that comes twice is one.
fn more(message: &Message, bytes: &[u8], depth: Depth, found: &mut Map<String, Value>) -> Result<(), WireError> {
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.tag(message.name)? {
        let Some(field) = message.fields.iter().find(|field| field.number == number) else {
            reader.skip(wire)?;
            continue;
        };
        match (field.shape, field.sort) {
            (Shape::One, Sort::Message(name)) if let Some(inner) = table::message(name) => {
                check(wire, BYTES, field)?;
                let (bytes, depth) = (reader.bytes()?, depth.deeper()?);
                if field.name.is_empty() {
                    more(inner, bytes, depth, found)?;
                } else if let Value::Object(before) = found.entry(field.name).or_insert_with(|| Map::new().into()) {
                    more(inner, bytes, depth, before)?;
                }
            }
            (Shape::One, _) => {
                let value = value(field, wire, &mut reader, depth)?;
                if field.keeps_zero || !is_zero(&value, field.sort) {
                    found.insert(field.name.to_owned(), value);
                } else {
                    found.remove(field.name);
                }
            }
            (Shape::Many, _) => {
                let values = many(field, wire, &mut reader, depth)?;
                // Nothing that is packed is no list yet.
                if !values.is_empty()
                    && let Value::Array(list) = found.entry(field.name).or_insert_with(|| Value::Array(Vec::new()))
                {
                    list.extend(values);
                }
            }
            (Shape::Map, _) => {
                check(wire, BYTES, field)?;
                let (key, value) = entry(field, reader.bytes()?, depth)?;
                let map = found.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
                map[key] = value;
            }
        }
    }
    Ok(())
}

/// An entry of a map: a message of a key and a value.
fn entry(field: &Field, bytes: &[u8], depth: Depth) -> Result<(String, Value), WireError> {
    let mut reader = Reader(bytes);
    let (mut key, mut found) = (String::new(), None);
    while let Some((number, wire)) = reader.tag(field.name)? {
        match number {
            // Go does not look at the sort of either.
            1 => key = text(reader.bytes()?),
            2 => found = Some(read(field.sort, &mut reader, depth)?),
            _ => reader.skip(wire)?,
        }
    }
    let value = match found {
        Some(value) => value,
        None => nothing(field.sort, depth)?,
    };
    Ok((key, value))
}

/// A value that was not sent.
fn nothing(sort: Sort, depth: Depth) -> Result<Value, WireError> {
    Ok(match sort {
        Sort::Text | Sort::Bytes => "".into(),
        Sort::Bool => false.into(),
        Sort::Int32 | Sort::Int64 | Sort::Double => 0.into(),
        Sort::Special(special) => special::read(special, b"", depth)?,
        Sort::Listed => Value::Array(Vec::new()),
        Sort::Message(_) => Map::new().into(),
    })
}

pub(super) fn value(field: &Field, wire: u8, reader: &mut Reader<'_>, depth: Depth) -> Result<Value, WireError> {
    let expected = match field.sort {
        Sort::Bool | Sort::Int32 | Sort::Int64 => VARINT,
        Sort::Double => FIXED64,
        Sort::Text | Sort::Bytes | Sort::Special(_) | Sort::Listed | Sort::Message(_) => BYTES,
    };
    check(wire, expected, field)?;
    read(field.sort, reader, depth)
}

/// One value of many, or numbers that are packed together.
fn many(field: &Field, wire: u8, reader: &mut Reader<'_>, depth: Depth) -> Result<Vec<Value>, WireError> {
    if wire != BYTES || !matches!(field.sort, Sort::Bool | Sort::Int32 | Sort::Int64) {
        return Ok(vec![value(field, wire, reader, depth)?]);
    }
    let mut packed = Reader(reader.bytes()?);
    let mut found = Vec::new();
    while !packed.0.is_empty() {
        found.push(read(field.sort, &mut packed, depth)?);
    }
    Ok(found)
}

/// A value whose sort was looked at.
fn read(sort: Sort, reader: &mut Reader<'_>, depth: Depth) -> Result<Value, WireError> {
    Ok(match sort {
        Sort::Bool => Value::Bool(reader.varint()? != 0),
        Sort::Int32 => reader.int32()?.into(),
        Sort::Int64 => reader.varint()?.cast_signed().into(),
        Sort::Double => {
            let bytes: [u8; 8] = reader.take(8)?.try_into().map_err(|_| WireError::End)?;
            f64::from_le_bytes(bytes).into()
        }
        Sort::Text => text(reader.bytes()?).into(),
        Sort::Bytes => STANDARD.encode(reader.bytes()?).into(),
        Sort::Special(special) => special::read(special, reader.bytes()?, depth)?,
        Sort::Listed => list(reader.bytes()?)?,
        Sort::Message(name) => {
            let bytes = reader.bytes()?;
            match table::message(name) {
                Some(inner) => message(inner, bytes, depth.deeper()?)?.into(),
                None => Value::Null,
            }
        }
    })
}

/// Whether Go would leave the value out.
fn is_zero(value: &Value, sort: Sort) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() && !matches!(sort, Sort::Bytes | Sort::Special(Special::IntOrString)),
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn check(found: u8, expected: u8, field: &Field) -> Result<(), WireError> {
    if found == expected {
        return Ok(());
    }
    // As the field is called in Go.
    let mut letters = field.name.chars();
    let name = match field.name {
        "metadata" => "ObjectMeta".to_owned(),
        _ => letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect(),
    };
    Err(WireError::WrongType(found, name))
}

fn list(bytes: &[u8]) -> Result<Value, WireError> {
    let mut reader = Reader(bytes);
    let mut found = Vec::new();
    while let Some((number, wire)) = reader.tag("ExtraValue")? {
        match (number, wire) {
            (1, BYTES) => found.push(text(reader.bytes()?).into()),
            _ => reader.skip(wire)?,
        }
    }
    Ok(Value::Array(found))
}

/// The lower 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "Go cuts it off, too")]
pub(super) fn cut(number: u64) -> i32 {
    number as i32
}

/// What is no text becomes text, as Go writes it.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next field's number and the sort of its value; `None` at the end.
    pub(super) fn tag(&mut self, message: &'static str) -> Result<Option<(u64, u8)>, WireError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        #[expect(clippy::cast_possible_truncation, reason = "Go cuts it off, too")]
        let (number, wire) = ((tag >> 3) as i32, (tag & 7) as u8);
        match u64::try_from(number) {
            _ if wire == END_GROUP => Err(WireError::EndGroup(message)),
            Err(_) | Ok(0) => Err(WireError::IllegalTag(message, number, tag)),
            Ok(number) => Ok(Some((number, wire))),
        }
    }

    pub(super) fn varint(&mut self) -> Result<u64, WireError> {
        let mut number: u64 = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(WireError::End)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(WireError::Overflow)
    }

    /// A number of 32 bits: more are cut off.
    fn int32(&mut self) -> Result<i32, WireError> {
        self.varint().map(cut)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::End)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.varint()?.cast_signed();
        let length = usize::try_from(length).map_err(|_| WireError::NegativeLength)?;
        self.take(length)
    }

    /// The bytes of a field that has to have some.
    pub(super) fn bytes_of(&mut self, wire: u8, field: &str) -> Result<&'a [u8], WireError> {
        if wire == BYTES { self.bytes() } else { Err(WireError::WrongType(wire, field.to_owned())) }
    }

    /// The number of a field that has to be one.
    pub(super) fn varint_of(&mut self, wire: u8, field: &str) -> Result<u64, WireError> {
        if wire == VARINT { self.varint() } else { Err(WireError::WrongType(wire, field.to_owned())) }
    }

    /// Leaves out a value. Groups are counted, not entered.
    pub(super) fn skip(&mut self, wire: u8) -> Result<(), WireError> {
        let mut wire = wire;
        let mut depth = 0usize;
        loop {
            match wire {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                BYTES => drop(self.bytes()?),
                START_GROUP => depth += 1,
                END_GROUP => depth = depth.checked_sub(1).ok_or(WireError::UnexpectedEnd)?,
                FIXED32 => drop(self.take(4)?),
                other => return Err(WireError::IllegalType(other)),
            }
            if depth == 0 {
                return Ok(());
            }
            wire = (self.varint()? & 7) as u8;
        }
    }
}
