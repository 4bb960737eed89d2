//! The bytes: tags, lengths, values.

use crate::protobuf::wire::BYTES;

pub(in crate::protobuf) fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            bytes.push(low & 0x7f);
            return;
        }
        bytes.push(low | 0x80);
    }
}

pub(in crate::protobuf) fn tag(bytes: &mut Vec<u8>, number: u64, wire: u8) {
    varint(bytes, number << 3 | u64::from(wire));
}

/// A field of bytes; true, since it is written.
pub(in crate::protobuf) fn field(bytes: &mut Vec<u8>, number: u64, value: &[u8]) -> bool {
    tag(bytes, number, BYTES);
    varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
    true
}

/// How long a field of so many bytes is.
pub(in crate::protobuf) fn field_length(number: u64, length: usize) -> usize {
    varint_length(number << 3) + varint_length(length as u64) + length
}

/// How long a number is.
pub(in crate::protobuf) fn varint_length(number: u64) -> usize {
    let bits = (u64::BITS - (number | 1).leading_zeros()) as usize;
    bits.div_ceil(7)
}

/// Makes what stands behind `start` the value of a field; true, since it is written.
pub(in crate::protobuf) fn wrap(bytes: &mut Vec<u8>, start: usize, number: u64) -> bool {
    let length = bytes.len() - start;
    let mut head = Vec::with_capacity(12);
    tag(&mut head, number, BYTES);
    varint(&mut head, length as u64);
    bytes.splice(start..start, head);
    true
}
