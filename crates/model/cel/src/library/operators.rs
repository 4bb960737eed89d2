//! Operators: arithmetic that never wraps, comparison, membership, size.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{MOST_BYTES, MOST_ITEMS, time};
use crate::declared::ListKind;
use crate::value::{Fault, List, Result, Value};

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    let flag = |flag: bool| Some(Ok(Value::Bool(flag)));
    match (function, args) {
        ("_==_", [one, other]) => flag(one.equals(other)),
        ("_!=_", [one, other]) => flag(!one.equals(other)),
        ("!_", [value]) => Some(match value {
            Value::Bool(value) => Ok(Value::Bool(!value)),
            _ => Err(Fault::no_overload()),
        }),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [one, other]) => Some(compare(function, one, other)),
        ("@in", [value, Value::List(list)]) => Some(list.contains(value).map(Value::Bool)),
        ("@in", [value, Value::Map(map)]) => match map.get(value) {
            Some(Err(fault)) => Some(Err(fault)),
            found => flag(found.is_some()),
        },
        ("size", [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))]) => {
            Some(Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX))))
        }
        ("-_", [value]) => Some(negated(value)),
        ("_+_", [one, other]) => Some(sum(one, other)),
        ("_-_", [one, other]) => Some(difference(one, other)),
        ("_*_" | "_/_" | "_%_", [one, other]) => Some(product(function, one, other)),
        _ => None,
    }
}

fn compare<'a>(function: &str, one: &Value<'_>, other: &Value<'_>) -> Result<Value<'a>> {
    let Some(order) = one.compare(other) else {
        // Not a number is neither less nor greater.
        return if one.is_number() && other.is_number() { Ok(Value::Bool(false)) } else { Err(Fault::no_overload()) };
    };
    Ok(Value::Bool(match function {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

fn overflow() -> Fault {
    Fault::new("integer overflow")
}

fn unsigned_overflow() -> Fault {
    Fault::new("unsigned integer overflow")
}

fn negated<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    match value {
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(nanos) => nanos.checked_neg().map(Value::Duration).ok_or_else(overflow),
        _ => Err(Fault::no_overload()),
    }
}

fn sum<'a>(one: &Value<'a>, other: &Value<'a>) -> Result<Value<'a>> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => one.checked_add(*other).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(other)) => {
            one.checked_add(*other).map(Value::Uint).ok_or_else(unsigned_overflow)
        }
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one + other)),
        (Value::String(one), Value::String(other)) if one.len() + other.len() > MOST_BYTES => Err(Fault::Spent),
        (Value::String(one), Value::String(other)) => Ok(Value::text(format!("{}{}", &**one, &**other))),
        (Value::Bytes(one), Value::Bytes(other)) if one.len() + other.len() > MOST_BYTES => Err(Fault::Spent),
        (Value::Bytes(one), Value::Bytes(other)) => Ok(Value::Bytes([&**one, &**other].concat().into())),
        (Value::Duration(one), Value::Duration(other)) => {
            one.checked_add(*other).map(Value::Duration).ok_or_else(|| Fault::new("duration overflow"))
        }
        (Value::Timestamp(at), Value::Duration(nanos)) | (Value::Duration(nanos), Value::Timestamp(at)) => {
            at.plus(i128::from(*nanos)).map(Value::Timestamp).ok_or_else(|| Fault::new("timestamp overflow"))
        }
        (Value::List(one), Value::List(other)) => joined(one, other),
        _ => Err(Fault::no_overload()),
    }
}

/// Lists of the object keep their nature: a set has no item twice, a map list replaces items with the same keys.
fn joined<'a>(one: &List<'a>, other: &List<'a>) -> Result<Value<'a>> {
    if let (List::Own(list), List::Own(more)) = (one, other)
        && more.is_empty()
    {
        return Ok(Value::List(List::Own(Arc::clone(list))));
    }
    if one.len() + other.len() > MOST_ITEMS {
        return Err(Fault::Spent);
    }
    let mut values = one.values()?;
    let keys: &[String] = match one {
        List::Json { kind: ListKind::Set, .. } => &[],
        List::Json { kind: ListKind::Map(keys), .. } => keys,
        _ => {
            values.extend(other.values()?);
            return Ok(Value::list(values));
        }
    };
    let mut places: BTreeMap<String, usize> =
        values.iter().enumerate().map(|(place, value)| (value.identity(keys), place)).collect();
    for value in other.values()? {
        match places.get(&value.identity(keys)) {
            Some(place) => values[*place] = value,
            None => {
                places.insert(value.identity(keys), values.len());
                values.push(value);
            }
        }
    }
    Ok(Value::list(values))
}

fn difference<'a>(one: &Value<'a>, other: &Value<'a>) -> Result<Value<'a>> {
    let timestamp_overflow = || Fault::new("timestamp overflow");
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => one.checked_sub(*other).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(other)) => {
            one.checked_sub(*other).map(Value::Uint).ok_or_else(unsigned_overflow)
        }
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one - other)),
        (Value::Duration(one), Value::Duration(other)) => {
            one.checked_sub(*other).map(Value::Duration).ok_or_else(|| Fault::new("duration overflow"))
        }
        (Value::Timestamp(at), Value::Duration(nanos)) => {
            at.plus(-i128::from(*nanos)).map(Value::Timestamp).ok_or_else(timestamp_overflow)
        }
        (Value::Timestamp(one), Value::Timestamp(other)) => {
            let nanos = time::nanos_between(other, one);
            i64::try_from(nanos).map(Value::Duration).map_err(|_| timestamp_overflow())
        }
        _ => Err(Fault::no_overload()),
    }
}

fn product<'a>(function: &str, one: &Value<'a>, other: &Value<'a>) -> Result<Value<'a>> {
    let zero = || Fault::new(if function == "_/_" { "division by zero" } else { "modulus by zero" });
    match (one, other) {
        (Value::Double(one), Value::Double(other)) if function == "_*_" => Ok(Value::Double(one * other)),
        (Value::Double(one), Value::Double(other)) if function == "_/_" => Ok(Value::Double(one / other)),
        (Value::Int(one), Value::Int(other)) => match function {
            "_*_" => one.checked_mul(*other),
            _ if *other == 0 => return Err(zero()),
            "_/_" => one.checked_div(*other),
            _ => one.checked_rem(*other),
        }
        .map(Value::Int)
        .ok_or_else(overflow),
        (Value::Uint(one), Value::Uint(other)) => match function {
            "_*_" => one.checked_mul(*other),
            _ if *other == 0 => return Err(zero()),
            "_/_" => one.checked_div(*other),
            _ => one.checked_rem(*other),
        }
        .map(Value::Uint)
        .ok_or_else(unsigned_overflow),
        _ => Err(Fault::no_overload()),
    }
}
