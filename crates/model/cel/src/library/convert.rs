//! Conversions between types.

use super::{show, time};
use crate::value::{Fault, Result, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    let [value] = args else { return None };
    Some(match function {
        "dyn" => Ok(value.clone()),
        "type" => Ok(Value::Type(value.type_name())),
        "bool" => boolean(value),
        "bytes" => match value {
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            Value::Bytes(_) => Ok(value.clone()),
            _ => Err(Fault::no_overload()),
        },
        "double" => double(value),
        "int" => int(value),
        "uint" => uint(value),
        "string" => string(value),
        "duration" => match value {
            Value::String(text) => {
                time::parse_duration(text).map(Value::Duration).ok_or_else(|| wrong(value, "google.protobuf.Duration"))
            }
            Value::Duration(_) => Ok(value.clone()),
            _ => Err(Fault::no_overload()),
        },
        "timestamp" => match value {
            Value::String(text) => time::parse_timestamp(text)
                .map(Value::Timestamp)
                .map_err(|why| why.map_or_else(|| wrong(value, "google.protobuf.Timestamp"), Fault::new)),
            Value::Int(seconds) => time::Timestamp::from_seconds(*seconds)
                .map(Value::Timestamp)
                .ok_or_else(|| Fault::new("timestamp overflow")),
            Value::Timestamp(_) => Ok(value.clone()),
            _ => Err(Fault::no_overload()),
        },
        _ => return None,
    })
}

fn wrong(value: &Value<'_>, to: &str) -> Fault {
    Fault::new(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

fn boolean<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(wrong(value, "bool")),
        },
        _ => Err(Fault::no_overload()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "the language says so")]
fn double<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => text.parse().map(Value::Double).map_err(|_| wrong(value, "double")),
        _ => Err(Fault::no_overload()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "within the range, and towards zero")]
fn int<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    let overflow = || Fault::new("integer overflow");
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        Value::Double(number) if *number > -9_223_372_036_854_775_808.0 && *number < 9_223_372_036_854_775_807.0 => {
            Ok(Value::Int(*number as i64))
        }
        Value::Double(_) => Err(overflow()),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(at) => Ok(Value::Int(at.instant().0)),
        Value::String(text) => text.parse().map(Value::Int).map_err(|_| wrong(value, "int")),
        _ => Err(Fault::no_overload()),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range, and towards zero")]
fn uint<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    let overflow = || Fault::new("unsigned integer overflow");
    match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(number) if *number >= 0.0 && *number < 18_446_744_073_709_551_615.0 => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(overflow()),
        Value::String(text) => text.parse().map(Value::Uint).map_err(|_| wrong(value, "uint")),
        _ => Err(Fault::no_overload()),
    }
}

fn string<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    match value {
        Value::String(_) => Ok(value.clone()),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::text(text)),
            Err(_) => Err(Fault::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Duration(_)
        | Value::Timestamp(_)
        | Value::Ip(_)
        | Value::Cidr(_) => Ok(Value::text(show::plain(value))),
        _ => Err(Fault::no_overload()),
    }
}
