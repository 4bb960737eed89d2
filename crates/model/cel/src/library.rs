//! The functions, by name. Which of them fits the types was checked before; what is dynamic is found out here.

pub(crate) mod convert;
pub(crate) mod format;
pub(crate) mod formats;
pub(crate) mod lists;
pub(crate) mod net;
pub(crate) mod operators;
pub(crate) mod pattern;
pub(crate) mod quantity;
pub(crate) mod semver;
pub(crate) mod show;
pub(crate) mod strings;
pub(crate) mod time;
pub(crate) mod url;

use crate::value::{Fault, Result, Value};

/// The longest text that an expression may make; the real server has no such limit, and can be made to run out of memory.
pub(crate) const MOST_BYTES: usize = 16 << 20;
/// The longest list that an expression may make: no budget lets it look at more.
pub(crate) const MOST_ITEMS: usize = 1_000_000;

/// Calls a function; a target is its first argument.
pub(crate) fn call<'a>(function: &str, args: &[Value<'a>]) -> Result<Value<'a>> {
    if let Some(value) = operators::call(function, args) {
        return value;
    }
    let families = [strings::call, lists::call, convert::call, time::call, net::call, others];
    families.into_iter().find_map(|family| family(function, args)).unwrap_or_else(|| Err(Fault::no_overload()))
}

/// `operand[index]`.
pub(crate) fn index<'a>(operand: &Value<'a>, index: &Value<'_>) -> Result<Value<'a>> {
    match (operand, index) {
        (Value::List(list), Value::Int(at)) => usize::try_from(*at)
            .ok()
            .and_then(|at| list.get(at))
            .unwrap_or_else(|| Err(Fault::new(format!("index out of bounds: {at}")))),
        (Value::List(_), Value::Uint(_) | Value::Double(_)) => {
            Err(Fault::new(format!("unsupported index value {} in list", show::plain(index))))
        }
        (Value::List(_), other) => Err(Fault::new(format!("unsupported index type '{}' in list", other.type_name()))),
        (Value::Map(map), key) => {
            map.get(key).unwrap_or_else(|| Err(Fault::new(format!("no such key: {}", show::plain(key)))))
        }
        (_, key) => Err(Fault::new(format!("no such key: {}", show::plain(key)))),
    }
}

/// Quantities, versions, URLs, formats and optionals.
fn others<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    quantity::call(function, args)
        .or_else(|| semver::call(function, args))
        .or_else(|| url::call(function, args))
        .or_else(|| formats::call(function, args))
        .or_else(|| optionals(function, args))
}

fn optionals<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    Some(match (function, args) {
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.none", []) => Ok(Value::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(if is_zero(value) { Value::Optional(None) } else { Value::some(value.clone()) })
        }
        ("value", [Value::Optional(inner)]) => match inner {
            Some(value) => Ok((**value).clone()),
            None => Err(Fault::new("optional.none() dereference")),
        },
        ("hasValue", [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
        _ => return None,
    })
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Int(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        Value::Duration(nanos) => *nanos == 0,
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => value.size() == 0,
        Value::Optional(inner) => inner.is_none(),
        _ => false,
    }
}
