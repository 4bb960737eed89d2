//! How keys and events look on disk: length-prefixed parts behind a checksum.
//!
//! redb checks its own pages only when it repairs; a flipped bit in a value would be served. Every record therefore
//! carries a CRC-32 of its place (revision or key) and its content.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use concert_api::{GroupResource, ObjectKey};

use crate::Key;
use crate::history::EventKind;

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// One row of the history.
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) kind: EventKind,
    pub(crate) at: SystemTime,
    pub(crate) bytes: Bytes,
}

pub(crate) fn encode_row(revision: u64, row: &Row) -> Vec<u8> {
    let micros = row.at.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0));
    let mut out = vec![0; 4];
    out.push(match row.kind {
        EventKind::Put => PUT,
        EventKind::Delete => DELETE,
    });
    out.extend_from_slice(&micros.to_le_bytes());
    out.extend_from_slice(&encode_key(&row.key));
    out.extend_from_slice(&row.bytes);
    seal(&mut out, &revision.to_le_bytes());
    out
}

pub(crate) fn decode_row(revision: u64, record: &[u8]) -> Option<Row> {
    let content = open(record, &revision.to_le_bytes())?;
    let (kind, rest) = content.split_first()?;
    let (micros, rest) = rest.split_first_chunk::<8>()?;
    let (key, rest) = take_key(rest)?;
    let kind = match *kind {
        PUT => EventKind::Put,
        DELETE => EventKind::Delete,
        _ => return None,
    };
    let at = UNIX_EPOCH + Duration::from_micros(u64::from_le_bytes(*micros));
    Some(Row { key, kind, at, bytes: Bytes::copy_from_slice(rest) })
}

/// A checkpointed object: its revision and bytes, under its encoded key.
pub(crate) fn encode_object(key: &[u8], revision: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend_from_slice(&revision.to_le_bytes());
    out.extend_from_slice(bytes);
    seal(&mut out, key);
    out
}

pub(crate) fn decode_object(key: &[u8], record: &[u8]) -> Option<(Key, u64, Bytes)> {
    let content = open(record, key)?;
    let (revision, bytes) = content.split_first_chunk::<8>()?;
    let (key, rest) = take_key(key)?;
    rest.is_empty().then(|| (key, u64::from_le_bytes(*revision), Bytes::copy_from_slice(bytes)))
}

/// The revision of a checkpointed object, whatever else is in its record.
pub(crate) fn revision_of_object(record: &[u8]) -> Option<u64> {
    record.get(4..12)?.first_chunk().map(|revision| u64::from_le_bytes(*revision))
}

/// A row of the table of few things.
pub(crate) fn encode_meta(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend_from_slice(value);
    seal(&mut out, name.as_bytes());
    out
}

pub(crate) fn decode_meta<'a>(name: &str, record: &'a [u8]) -> Option<&'a [u8]> {
    open(record, name.as_bytes())
}

/// A record of a backup, which knows its number.
pub(crate) fn encode_numbered(number: u64, content: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend_from_slice(content);
    seal(&mut out, &number.to_le_bytes());
    out
}

pub(crate) fn decode_numbered(number: u64, record: &[u8]) -> Option<&[u8]> {
    open(record, &number.to_le_bytes())
}

pub(crate) fn encode_key(key: &Key) -> Vec<u8> {
    let parts = [&key.resource.group, &key.resource.resource, &key.object.namespace, &key.object.name];
    let mut out = Vec::with_capacity(parts.iter().map(|part| part.len() + 2).sum());
    for part in parts {
        // Names are at most 253 bytes; the API refuses longer ones long before.
        let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&part.as_bytes()[..usize::from(length)]);
    }
    out
}

pub(crate) fn take_key(bytes: &[u8]) -> Option<(Key, &[u8])> {
    let (group, bytes) = take_part(bytes)?;
    let (resource, bytes) = take_part(bytes)?;
    let (namespace, bytes) = take_part(bytes)?;
    let (name, bytes) = take_part(bytes)?;
    let key = Key { resource: GroupResource::new(group, resource), object: ObjectKey::new(namespace, name) };
    Some((key, bytes))
}

fn take_part(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (part, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((std::str::from_utf8(part).ok()?, rest))
}

fn seal(record: &mut [u8], place: &[u8]) {
    let sum = checksum(&record[4..], place);
    record[..4].copy_from_slice(&sum.to_le_bytes());
}

fn open<'a>(record: &'a [u8], place: &[u8]) -> Option<&'a [u8]> {
    let (sum, content) = record.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*sum) == checksum(content, place)).then_some(content)
}

fn checksum(content: &[u8], place: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(place);
    hasher.update(content);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(parts: [String; 4]) -> Key {
        let [group, resource, namespace, name] = parts;
        Key { resource: GroupResource::new(group, resource), object: ObjectKey::new(namespace, name) }
    }

    proptest! {
        #[test]
        fn rows_survive_and_flips_are_noticed(
            parts in prop::array::uniform4("[a-z./]{0,12}"), bytes in prop::collection::vec(any::<u8>(), 0..50),
            revision in any::<u64>(), flip in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let row = Row { key: key(parts), kind: EventKind::Put, at: UNIX_EPOCH, bytes: bytes.into() };
            let mut record = encode_row(revision, &row);
            let back = decode_row(revision, &record).unwrap();
            prop_assert_eq!((&back.key, &back.bytes), (&row.key, &row.bytes));
            prop_assert!(decode_row(revision.wrapping_add(1), &record).is_none(), "a row knows its place");
            let place = flip.index(record.len());
            record[place] ^= 1 << bit;
            prop_assert!(decode_row(revision, &record).is_none());
        }

        #[test]
        fn no_two_names_share_a_key(a in prop::array::uniform4("[ab/.]{0,3}"), b in prop::array::uniform4("[ab/.]{0,3}")) {
            let (a, b) = (key(a), key(b));
            prop_assert_eq!(a == b, encode_key(&a) == encode_key(&b));
        }

        #[test]
        fn any_record_is_answered(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (decode_row(1, &bytes), decode_object(&bytes, &bytes), revision_of_object(&bytes));
            let _ = decode_meta("x", &bytes);
        }
    }
}
