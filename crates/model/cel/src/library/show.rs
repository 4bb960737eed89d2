//! Values as text and as JSON.

use serde_json::{Value as Json, json};

use crate::value::Value;

/// As `string()` writes it, and as messages show keys.
pub(crate) fn plain(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => float(*number),
        Value::String(text) => text.to_string(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Duration(nanos) => seconds(*nanos),
        Value::Timestamp(at) => at.to_string(),
        Value::Type(name) => (*name).to_owned(),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        other => json(other).to_string(),
    }
}

/// As JSON; what JSON does not have is text.
pub(crate) fn json(value: &Value<'_>) -> Json {
    match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        Value::Double(number) => {
            serde_json::Number::from_f64(*number).map_or_else(|| plain(value).into(), Json::Number)
        }
        Value::String(text) => Json::String(text.to_string()),
        Value::List(list) => list.values().unwrap_or_default().iter().map(json).collect(),
        Value::Map(map) => map
            .keys()
            .iter()
            .map(|key| (plain(key), map.get(key).and_then(Result::ok).map_or(Json::Null, |value| json(&value))))
            .collect(),
        Value::Optional(Some(inner)) => json(inner),
        Value::Quantity(quantity) => quantity.to_string().into(),
        Value::Semver(version) => version.to_string().into(),
        Value::Url(url) => json!(url.text),
        Value::Format(format) => json!(format.name),
        other => plain(other).into(),
    }
}

/// A float in the shortest form, as Go's `%g` writes it.
pub(crate) fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..6).contains(&power) {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", power.abs());
    }
    number.to_string()
}

/// A duration in seconds, as `5401.5s`.
pub(crate) fn seconds(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let all = nanos.unsigned_abs();
    let (whole, rest) = (all / 1_000_000_000, all % 1_000_000_000);
    if rest == 0 {
        return format!("{sign}{whole}s");
    }
    let rest = format!("{rest:09}");
    format!("{sign}{whole}.{}s", rest.trim_end_matches('0'))
}
