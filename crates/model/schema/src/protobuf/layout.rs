//! In which order Go writes the fields of a message, and what it writes of those that have no value.
//!
//! Fields stand by their numbers. A field that is no pointer is always there, if as nothing: so are whole messages, with
//! all the fields of theirs that are always there. What JSON has beside the other fields (`~` in the data) is a message of
//! its own on the wire.

use std::sync::OnceLock;

use super::table::{self, Field, Message, Shape, Sort};
use super::wire::{BYTES, FIXED64, VARINT};
use super::write::out;
use crate::builtin::data::Special;

/// The fields of a message, those of what it inlines among them.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// By number; what is inlined comes behind the piece that begins it.
    pub(super) pieces: Vec<Piece>,
    /// Names in JSON, and the pieces they are; by name.
    names: Vec<(&'static str, usize)>,
}

/// What a message is written of.
#[derive(Debug)]
pub(super) enum Piece {
    /// A field.
    Field(FieldPiece),
    /// A message that is made of so many of the next pieces.
    Inlined(u64, usize),
}

/// A field, and what stands in its place when it has no value.
#[derive(Debug)]
pub(super) struct FieldPiece {
    pub(super) field: Field,
    pub(super) zero: Vec<u8>,
    /// The message that it is, once somebody has needed it: a schema has schemas.
    inner: OnceLock<Option<&'static Message>>,
}

impl Layout {
    pub(super) fn of(fields: &[Field]) -> Self {
        let mut layout = Self::default();
        layout.add(fields);
        let named = |(place, piece): (usize, &Piece)| match piece {
            Piece::Field(one) => Some((one.field.name, place)),
            Piece::Inlined(..) => None,
        };
        layout.names = layout.pieces.iter().enumerate().filter_map(named).collect();
        layout.names.sort_unstable();
        layout
    }

    fn add(&mut self, fields: &[Field]) {
        let mut fields: Vec<&Field> = fields.iter().collect();
        fields.sort_by_key(|field| field.number);
        for field in fields {
            match field.sort {
                Sort::Message(name) if field.name.is_empty() => {
                    let place = self.pieces.len();
                    self.pieces.push(Piece::Inlined(field.number, 0));
                    self.add(table::message(name).map_or(&[], |inner| &inner.fields));
                    self.pieces[place] = Piece::Inlined(field.number, self.pieces.len() - place - 1);
                }
                _ => self.pieces.push(Piece::Field(FieldPiece::new(*field))),
            }
        }
    }

    /// The piece of a name. Objects that were stored have their members by name: the next one is close behind the last.
    pub(super) fn find(&self, name: &str, last: &mut usize) -> Option<(usize, &FieldPiece)> {
        let near = self.names.iter().skip(*last).take(4).position(|(known, _)| *known == name).map(|step| *last + step);
        let found = near.or_else(|| self.names.binary_search_by(|(known, _)| (*known).cmp(name)).ok())?;
        *last = found + 1;
        let place = self.names[found].1;
        match &self.pieces[place] {
            Piece::Field(piece) => Some((place, piece)),
            Piece::Inlined(..) => None,
        }
    }
}

impl FieldPiece {
    fn new(field: Field) -> Self {
        let zero = if field.is_always { zero(&field) } else { Vec::new() };
        Self { field, zero, inner: OnceLock::new() }
    }

    /// The message that it is.
    pub(super) fn inner(&self) -> Option<&'static Message> {
        *self.inner.get_or_init(|| match self.field.sort {
            Sort::Message(name) => table::message(name),
            _ => None,
        })
    }
}

/// A field without a value, with its tag.
pub(super) fn zero(field: &Field) -> Vec<u8> {
    let mut bytes = Vec::new();
    if field.shape != Shape::One {
        return bytes;
    }
    let number = field.number;
    match field.sort {
        Sort::Bool | Sort::Int32 | Sort::Int64 => {
            out::tag(&mut bytes, number, VARINT);
            bytes.push(0);
        }
        Sort::Double => {
            out::tag(&mut bytes, number, FIXED64);
            bytes.extend_from_slice(&[0; 8]);
        }
        // No bytes are nothing, unlike no text.
        Sort::Bytes => {}
        Sort::Text | Sort::Listed => drop(out::field(&mut bytes, number, b"")),
        Sort::Special(special) => drop(out::field(&mut bytes, number, special_zero(special))),
        Sort::Message(name) => {
            let body = table::message(name).map(|inner| inner.layout().zero()).unwrap_or_default();
            out::field(&mut bytes, number, &body);
        }
    }
    bytes
}

fn special_zero(special: Special) -> &'static [u8] {
    match special {
        Special::Duration | Special::SchemaOrBool => b"\x08\x00",
        Special::Quantity => b"\x0a\x010",
        Special::IntOrString => b"\x08\x00\x10\x00\x1a\x00",
        Special::Time
        | Special::MicroTime
        | Special::Fields
        | Special::Raw
        | Special::Json
        | Special::SchemaOrArray
        | Special::SchemaOrStrings => b"",
    }
}

impl Layout {
    /// A message none of whose fields has a value.
    fn zero(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.assemble(&mut bytes, &vec![None; self.pieces.len()]);
        bytes
    }

    /// Writes the message behind what is there: of each piece that has a value the part of it where that is.
    pub(super) fn assemble(&self, bytes: &mut Vec<u8>, spans: &[Span]) {
        for (place, piece) in self.pieces.iter().enumerate() {
            match (piece, spans[place]) {
                (Piece::Inlined(number, count), _) => {
                    out::tag(bytes, *number, BYTES);
                    out::varint(bytes, self.length(place + 1, *count, spans) as u64);
                }
                (Piece::Field(_), Some((start, end))) => bytes.extend_from_within(start..end),
                (Piece::Field(field), None) => bytes.extend_from_slice(&field.zero),
            }
        }
    }

    /// How long some pieces are.
    pub(super) fn length(&self, start: usize, count: usize, spans: &[Span]) -> usize {
        let mut total = 0;
        let mut place = start;
        while place < start + count {
            match (&self.pieces[place], spans[place]) {
                (Piece::Inlined(number, inner), _) => {
                    let length = self.length(place + 1, *inner, spans);
                    total += out::field_length(*number, length);
                    place += inner;
                }
                (Piece::Field(_), Some((start, end))) => total += end - start,
                (Piece::Field(field), None) => total += field.zero.len(),
            }
            place += 1;
        }
        total
    }
}

/// Where a field was written, if it was.
pub(super) type Span = Option<(usize, usize)>;
