//! Values that are messages on the wire and something else in JSON.

use concert_api::Time;
use serde_json::Value;

use super::table::{self, Field, Sort};
use super::wire::{BYTES, Depth, Reader, VARINT, WireError, cut, message, text, value};
use crate::builtin::data::Special;

const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

/// Reads such a value.
pub(super) fn read(special: Special, bytes: &[u8], depth: Depth) -> Result<Value, WireError> {
    match special {
        Special::Time => time(bytes, false),
        Special::MicroTime => time(bytes, true),
        Special::Duration => duration(bytes),
        Special::Fields | Special::Raw | Special::Json => json(bytes),
        Special::Quantity => quantity(bytes),
        Special::IntOrString => int_or_string(bytes),
        Special::SchemaOrBool => schema_or(bytes, Sort::Bool, depth),
        Special::SchemaOrArray => schema_or(bytes, Sort::Message(SCHEMA), depth),
        Special::SchemaOrStrings => schema_or(bytes, Sort::Text, depth),
    }
}

/// Seconds and nanoseconds; nothing at all is no time.
fn time(bytes: &[u8], micro: bool) -> Result<Value, WireError> {
    let mut reader = Reader(bytes);
    let (mut seconds, mut nanos) = (0, 0);
    while let Some((number, wire)) = reader.tag("Timestamp")? {
        match number {
            1 => seconds = reader.varint_of(wire, "Seconds")?.cast_signed(),
            2 => nanos = reader.varint_of(wire, "Nanos")?.cast_signed(),
            _ => reader.skip(wire)?,
        }
    }
    // The years 1 to 9999 are those that can be written.
    if bytes.is_empty() || !(-62_135_596_800..=253_402_300_799).contains(&seconds) {
        return Ok(Value::Null);
    }
    let whole = Time::from_unix_seconds(seconds).to_string();
    if !micro {
        return Ok(whole.into());
    }
    let micros = nanos.clamp(0, 999_999_999) / 1000;
    Ok(format!("{}.{micros:06}Z", whole.trim_end_matches('Z')).into())
}

/// Nanoseconds, written as Go writes them.
fn duration(bytes: &[u8]) -> Result<Value, WireError> {
    let mut reader = Reader(bytes);
    let mut nanos: i64 = 0;
    while let Some((number, wire)) = reader.tag("Duration")? {
        match number {
            1 => nanos = reader.varint_of(wire, "Duration")?.cast_signed(),
            _ => reader.skip(wire)?,
        }
    }
    Ok(go_duration(nanos).into())
}

fn go_duration(nanos: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let (sign, length) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let decimal = |unit: u64| {
        let fraction = length % unit;
        let digits = unit.to_string().len() - 1;
        let text = format!("{}.{fraction:0digits$}", length / unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match length {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{length}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", decimal(1_000)),
        1_000_000..SECOND => format!("{sign}{}ms", decimal(1_000_000)),
        _ => {
            let (minutes, rest) = (length / SECOND / 60, length % (60 * SECOND));
            let seconds = format!("{}.{:09}", rest / SECOND, rest % SECOND);
            let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// JSON in bytes; what is none is nothing.
fn json(bytes: &[u8]) -> Result<Value, WireError> {
    let mut reader = Reader(bytes);
    let mut found = Value::Null;
    while let Some((number, wire)) = reader.tag("RawExtension")? {
        match number {
            1 => found = serde_json::from_slice(reader.bytes_of(wire, "Raw")?).unwrap_or_default(),
            _ => reader.skip(wire)?,
        }
    }
    Ok(found)
}

fn quantity(bytes: &[u8]) -> Result<Value, WireError> {
    let mut reader = Reader(bytes);
    let mut found = "0".to_owned();
    while let Some((number, wire)) = reader.tag("Quantity")? {
        match number {
            1 => found = text(reader.bytes_of(wire, "String_")?),
            _ => reader.skip(wire)?,
        }
    }
    Ok(found.into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, WireError> {
    let mut reader = Reader(bytes);
    let (mut is_text, mut integer, mut words) = (false, 0, String::new());
    while let Some((number, wire)) = reader.tag("IntOrString")? {
        match number {
            1 => is_text = reader.varint_of(wire, "Type")? == 1,
            2 => integer = cut(reader.varint_of(wire, "IntVal")?),
            3 => words = text(reader.bytes_of(wire, "StrVal")?),
            _ => reader.skip(wire)?,
        }
    }
    Ok(if is_text { words.into() } else { integer.into() })
}

/// A schema, or what stands in its place: a truth, many schemas, many texts.
fn schema_or(bytes: &[u8], other: Sort, depth: Depth) -> Result<Value, WireError> {
    let mut reader = Reader(bytes);
    let (mut schema, mut truth, mut many) = (None, false, Vec::new());
    let schema_number = if other == Sort::Bool { 2 } else { 1 };
    while let Some((number, wire)) = reader.tag("JSONSchemaPropsOr")? {
        match (number, wire) {
            (number, BYTES) if number == schema_number => {
                let Some(props) = table::message(SCHEMA) else { return Ok(Value::Null) };
                schema = Some(message(props, reader.bytes()?, depth.deeper()?)?);
            }
            (1, VARINT) => truth = reader.varint()? != 0,
            (2, wire) => many.push(value(&Field::nested("items", other), wire, &mut reader, depth)?),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(match schema {
        _ if !many.is_empty() => many.into(),
        Some(schema) => schema.into(),
        None if other == Sort::Bool => truth.into(),
        None => Value::Null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_written_as_go_writes_them() {
        for (nanos, written) in [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (2_000_000, "2ms"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (-5_400_000_000_000, "-1h30m0s"),
        ] {
            assert_eq!(go_duration(nanos), written);
        }
    }
}
