//! Values as Go writes them: errors of the real server quote them, and field sets are keyed by them.

use std::fmt::Write as _;

use concert_api::quoted;
use serde_json::{Number, Value};

/// Decimal exponents from which `%v` writes a float with one.
const PLAIN_DIGITS: i32 = 21;

/// What `%v` makes of a value.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => plain_number(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => plain_list(items),
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, member)| format!("{name}:{}", plain(member))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// What `%v` makes of a list.
pub(crate) fn plain_list(items: &[Value]) -> String {
    format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" "))
}

/// What `%#v` makes of a value.
pub(crate) fn source(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => match whole(number) {
            Some(whole) => whole.to_string(),
            None => float(as_float(number), PLAIN_DIGITS),
        },
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(source).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, member)| format!("{}:{}", quoted(name), source(member))).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
    }
}

/// What `%s` makes of a value.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={})", type_name(value), plain(value)),
        Value::Array(items) => format!("[{}]", items.iter().map(self::text).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, member)| format!("{name}:{}", self::text(member))).collect();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// The name of the Go type that a value is decoded into.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if whole(number).is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// What `%v` makes of a number.
pub(crate) fn plain_number(number: &Number) -> String {
    match whole(number) {
        Some(whole) => whole.to_string(),
        None => float(as_float(number), 6),
    }
}

/// A number that Go keeps as an `int64`.
pub(crate) fn whole(number: &Number) -> Option<i64> {
    number.as_i64()
}

/// A number that Go keeps as a `float64`, or what it becomes beside one.
pub(crate) fn as_float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

/// The shortest digits of a float, with an exponent from `limit` digits on: `%g` has 6, JSON has 21.
fn float(number: f64, limit: i32) -> String {
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..limit).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Writes a value as Go's JSON encoder does, which escapes what HTML does not like.
pub(crate) fn json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => json_number(number, out),
        Value::String(text) => json_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json_text(name, out);
                out.push(':');
                json(member, out);
            }
            out.push('}');
        }
    }
}

fn json_number(number: &Number, out: &mut String) {
    if let Some(whole) = whole(number) {
        let _ = write!(out, "{whole}");
        return;
    }
    let number = as_float(number);
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        // Go writes e-09 as e-9.
        out.push_str(&float(number, 0).replace("e-0", "e-"));
    } else {
        let _ = write!(out, "{number}");
    }
}

/// Writes a text as Go's JSON encoder does.
pub(crate) fn json_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            _ => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_look_as_go_prints_them() {
        let cases =
            [(json!(80), "80"), (json!(1e6), "1e+06"), (json!(123_456.0), "123456"), (json!(0.000_01), "1e-05")];
        for (value, expected) in cases {
            assert_eq!(plain(&value), expected);
        }
    }

    #[test]
    fn json_has_the_digits_that_go_writes() {
        let cases = [
            (json!(80.0), "80"),
            (json!(1e21), "1e+21"),
            (json!(1e20), "100000000000000000000"),
            (json!(1e-7), "1e-7"),
        ];
        for (value, expected) in cases {
            let mut out = String::new();
            json(&value, &mut out);
            assert_eq!(out, expected);
        }
    }
}
