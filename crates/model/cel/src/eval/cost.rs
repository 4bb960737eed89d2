//! What a call did cost, from the values it had.

use crate::cost::{LIST, PATTERN, TRAVERSAL, scaled};
use crate::value::Value;

/// The cost of a call with these values; the overload is empty where several were possible.
pub(super) fn of(function: &str, overload: &str, args: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
    list_call(overload, args, result)
        .or_else(|| library_call(function, overload, args, result))
        .unwrap_or_else(|| standard_call(overload, args))
}

fn size(args: &[Value<'_>], index: usize) -> u64 {
    args.get(index).map_or(1, Value::size)
}

fn text_size(args: &[Value<'_>], index: usize, factor: f64) -> u64 {
    scaled(size(args, index), factor)
}

/// Rounded down.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "floats as the real server reckons"
)]
fn floor(size: u64, factor: f64) -> u64 {
    (size as f64 * factor) as u64
}

fn list_call(overload: &str, args: &[Value<'_>], result: Option<&Value<'_>>) -> Option<u64> {
    let listed = |size: u64, factor: f64| Some(floor(size, factor).saturating_add(1 + LIST));
    let squared = |index: usize| {
        let Some(Value::List(list)) = args.get(index) else { return None };
        let count = size(args, index);
        let text = matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
        listed(count.saturating_mul(count), if text { 2.0 + TRAVERSAL } else { 2.0 })
    };
    match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => {
            Some(size(args, 0).saturating_mul(size(args, 1)).saturating_add(1))
        }
        "list_sets_equivalent_list" => {
            Some(size(args, 0).saturating_mul(size(args, 1)).saturating_mul(2).saturating_add(1))
        }
        "list_slice" | "lists_range" | "list_reverse" => listed(result.map_or(1, Value::size), 1.0),
        "list_flatten" => listed(size(args, 0), 1.0),
        #[expect(clippy::cast_precision_loss, reason = "floats as the real server reckons")]
        "list_flatten_int" => match args.get(1) {
            Some(Value::Int(depth)) if *depth >= 0 => listed(size(args, 0), *depth as f64),
            _ => listed(size(args, 0), 1.0),
        },
        "list_distinct" => squared(0),
        other if other.ends_with("_sortByAssociatedKeys") => squared(1),
        other if other.ends_with("_sort") => squared(0),
        _ => None,
    }
}

fn library_call(function: &str, overload: &str, args: &[Value<'_>], result: Option<&Value<'_>>) -> Option<u64> {
    let cost = match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => args.first().map_or(0, traversal),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "quantity"
        | "isQuantity" | "semver" | "isSemver" => text_size(args, 0, TRAVERSAL),
        "replace" | "split" | "ip.isCanonical" => text_size(args, 0, 2.0 * TRAVERSAL),
        "join" => scaled(result.map_or(1, Value::size), 2.0 * TRAVERSAL),
        "find" | "findAll" => {
            scaled(size(args, 0).saturating_add(1), TRAVERSAL).saturating_mul(text_size(args, 1, PATTERN))
        }
        "ip" if overload == "cidr_ip" => 1,
        "ip" => text_size(args, 0, TRAVERSAL),
        "containsIP" | "containsCIDR" => {
            let mut cost = scaled(size(args, 0) * 2, TRAVERSAL);
            if function == "containsCIDR" {
                cost += text_size(args, 0, TRAVERSAL) + 1;
            }
            if overload.ends_with("_string") {
                cost += text_size(args, 1, TRAVERSAL);
            }
            cost
        }
        "validate" => {
            let Some(Value::Format(format)) = args.first() else { return None };
            scaled(size(args, 1).saturating_add(1), TRAVERSAL).saturating_mul(scaled(format.pattern_size, PATTERN))
        }
        "_==_" => match args.first() {
            Some(
                Value::Quantity(_)
                | Value::Ip(_)
                | Value::Cidr(_)
                | Value::Format(_)
                | Value::Url(_)
                | Value::Semver(_),
            ) => 1,
            _ => return None,
        },
        _ => return None,
    };
    Some(cost)
}

fn standard_call(overload: &str, args: &[Value<'_>]) -> u64 {
    let inner = |index: usize| match args.get(index) {
        Some(Value::Optional(Some(inner))) => inner.size(),
        _ => size(args, index),
    };
    match overload {
        "starts_with_string" | "ends_with_string" => text_size(args, 1, TRAVERSAL),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => text_size(args, 0, TRAVERSAL),
        "in_list" => size(args, 1),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => scaled(inner(0).min(inner(1)), TRAVERSAL),
        "add_string" | "add_bytes" => scaled(size(args, 0).saturating_add(size(args, 1)), TRAVERSAL),
        "matches" | "matches_string" => {
            scaled(size(args, 0).saturating_add(1), TRAVERSAL).saturating_mul(text_size(args, 1, PATTERN))
        }
        "contains_string" => text_size(args, 0, TRAVERSAL).saturating_mul(text_size(args, 1, TRAVERSAL)),
        _ => 1,
    }
}

/// The cost of looking at all of a value.
fn traversal(value: &Value<'_>) -> u64 {
    let bytes = |length: usize| floor(u64::try_from(length).unwrap_or(u64::MAX), TRAVERSAL);
    match value {
        Value::String(text) => bytes(text.len()),
        Value::Bytes(all) => bytes(all.len()),
        Value::List(list) => list.values().unwrap_or_default().iter().map(traversal).fold(0, u64::saturating_add),
        Value::Map(map) => map
            .keys()
            .iter()
            .map(|key| {
                traversal(key).saturating_add(map.get(key).and_then(Result::ok).map_or(1, |one| traversal(&one)))
            })
            .fold(0, u64::saturating_add),
        _ => 1,
    }
}
