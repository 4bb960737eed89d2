//! What is wrong with a field, in the words of the real API server.

mod errors;

use std::fmt;

use serde_json::Value;

use crate::Cause;
pub use errors::FieldErrors;

/// The sort of a field error; its name is the `reason` of a cause.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The field must be there.
    Required,
    /// The value breaks a rule.
    Invalid(Value),
    /// The value breaks a rule, and is shown as this text, or not at all.
    InvalidShown(Option<String>),
    /// The value has the wrong type.
    TypeInvalid(Value),
    /// The value is not in a list of allowed ones.
    NotSupported(Value, Vec<String>),
    /// The value, shown as this text, is not in a list of allowed ones.
    NotSupportedShown(String, Vec<String>),
    /// The value occurs twice.
    Duplicate(Value),
    /// The value occurs twice, and is shown as this text, or not at all.
    DuplicateShown(Option<String>),
    /// The value names what is not there.
    NotFound(Value),
    /// The field may not be set.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// A list has too many items: the number found.
    TooMany(usize),
}

/// One field error.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Path of the field, as `spec.items[2].name`.
    pub field: String,
    /// What is wrong.
    pub fault: Fault,
    /// In words; may be empty.
    pub detail: String,
}

impl FieldError {
    /// A field error.
    #[must_use]
    pub fn new(field: impl Into<String>, fault: Fault, detail: impl Into<String>) -> Self {
        Self { field: field.into(), fault, detail: detail.into() }
    }

    /// A value that breaks a rule.
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(field, Fault::Invalid(value.into()), detail)
    }

    /// A field that must be there.
    #[must_use]
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Fault::Required, detail)
    }

    /// A field that may not be set.
    #[must_use]
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, Fault::Forbidden, detail)
    }

    /// The error without its path: the `message` of a cause.
    #[must_use]
    pub fn body(&self) -> String {
        let head = match &self.fault {
            Fault::Required => "Required value".to_owned(),
            Fault::Forbidden => "Forbidden".to_owned(),
            Fault::TooLong => "Too long".to_owned(),
            Fault::Invalid(value) | Fault::TypeInvalid(value) => format!("Invalid value: {}", shown(value)),
            Fault::InvalidShown(None) => "Invalid value".to_owned(),
            Fault::InvalidShown(Some(text)) => format!("Invalid value: {text}"),
            Fault::Duplicate(value) => format!("Duplicate value: {}", shown(value)),
            Fault::DuplicateShown(None) => "Duplicate value".to_owned(),
            Fault::DuplicateShown(Some(text)) => format!("Duplicate value: {text}"),
            Fault::NotFound(value) => format!("Not found: {}", shown(value)),
            Fault::TooMany(count) => format!("Too many: {count}"),
            Fault::NotSupported(value, allowed) => not_supported(&shown(value), allowed),
            Fault::NotSupportedShown(text, allowed) => not_supported(text, allowed),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }

    /// The error as a cause of an `Invalid` status.
    #[must_use]
    pub fn cause(&self) -> Cause {
        let reason = match &self.fault {
            Fault::Required => "FieldValueRequired",
            Fault::Invalid(_) | Fault::InvalidShown(_) => "FieldValueInvalid",
            Fault::TypeInvalid(_) => "FieldValueTypeInvalid",
            Fault::NotSupported(..) | Fault::NotSupportedShown(..) => "FieldValueNotSupported",
            Fault::Duplicate(_) | Fault::DuplicateShown(_) => "FieldValueDuplicate",
            Fault::NotFound(_) => "FieldValueNotFound",
            Fault::Forbidden => "FieldValueForbidden",
            Fault::TooLong => "FieldValueTooLong",
            Fault::TooMany(_) => "FieldValueTooMany",
        };
        Cause { reason: reason.to_owned(), message: self.body(), field: self.field.clone() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// A value as it stands in a message: strings quoted, everything else as JSON.
fn not_supported(shown: &str, allowed: &[String]) -> String {
    let allowed: Vec<String> = allowed.iter().map(|one| format!("{one:?}")).collect();
    format!("Unsupported value: {shown}: supported values: {}", allowed.join(", "))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) if !number.is_i64() => number.as_f64().map_or_else(|| number.to_string(), go_float),
        other => other.to_string(),
    }
}

/// A float as Go prints it: the fewest digits that mean it, with an exponent from a million on.
#[must_use]
pub fn go_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A text in quotes, as Go writes it.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            _ if is_printable(letter) => out.push(letter),
            '\0'..='\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(letter))),
            '\u{80}'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    out.push('"');
    out
}

/// Letters, marks, numbers, punctuation, symbols and the plain space.
#[must_use]
pub fn is_printable(letter: char) -> bool {
    if letter.is_ascii() {
        return !letter.is_ascii_control();
    }
    // Behind another letter only what cannot be printed is escaped; before it, marks are as well.
    !letter.is_control() && !format!("a{letter}").escape_debug().to_string().contains("\\u{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_in_go() {
        for (text, expected) in [
            ("plain é 漢", r#""plain é 漢""#),
            ("\u{1}\u{7f}\0", r#""\x01\x7f\x00""#),
            ("\t\"\\\u{b}", r#""\t\"\\\v""#),
            ("\u{a0}\u{200b}\u{e0001}", r#""\u00a0\u200b\U000e0001""#),
            ("e\u{301}", "\"e\u{301}\""),
        ] {
            assert_eq!(quoted(text), expected, "{text:?}");
        }
    }

    #[test]
    fn floats_are_printed_as_in_go() {
        for (number, expected) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (123_456.5, "123456.5"),
            (1_234_567.5, "1.2345675e+06"),
            (9_223_372_036_854_775_808.0, "9.223372036854776e+18"),
            (0.0001, "0.0001"),
            (0.000_012, "1.2e-05"),
            (-1e100, "-1e+100"),
        ] {
            assert_eq!(go_float(number), expected);
        }
    }

    #[test]
    fn errors_read_as_the_real_server_writes_them() {
        let cases = [
            (FieldError::required("spec.a", ""), "spec.a: Required value"),
            (FieldError::invalid("spec.a", "x", "must be y"), "spec.a: Invalid value: \"x\": must be y"),
            (FieldError::invalid("spec.a", 3, "must be 4"), "spec.a: Invalid value: 3: must be 4"),
            (FieldError::forbidden("m", "no"), "m: Forbidden: no"),
            (
                FieldError::new("m", Fault::NotSupported("c".into(), vec!["a".into(), "b".into()]), ""),
                "m: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            ),
            (
                FieldError::new("m", Fault::TooMany(3), "must have at most 2 items"),
                "m: Too many: 3: must have at most 2 items",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
