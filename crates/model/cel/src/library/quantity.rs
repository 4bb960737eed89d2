//! Quantities: exact decimals with a suffix.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::value::{Fault, Result, Value};

/// An exact number: `digits × 10^-9`. More than that, no quantity keeps.
#[derive(Clone, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    /// The number and its power of ten, where the real server keeps them so; it knows only these as integers.
    small: Option<(i64, i32)>,
    /// As written; after arithmetic, the plain number.
    text: String,
}

const NANO: i128 = 1_000_000_000;

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Quantity {
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }

    fn plus(&self, other: &Self, sign: i128) -> Self {
        let nanos = self.nanos + sign * other.nanos;
        let text = if nanos % NANO == 0 { (nanos / NANO).to_string() } else { format!("{nanos}n") };
        let small = self.small.zip(other.small).and_then(|(one, other)| {
            let power = one.1.min(other.1);
            let raise = |(number, of): (i64, i32)| {
                i128::from(number).checked_mul(10_i128.checked_pow(u32::try_from(of - power).ok()?)?)
            };
            let sum = raise(one)?.checked_add(sign * raise(other)?)?;
            Some((i64::try_from(sum).ok()?, power))
        });
        Self { nanos, small, text }
    }

    fn from_integer(number: i64) -> Self {
        Self { nanos: i128::from(number) * NANO, small: Some((number, 0)), text: number.to_string() }
    }

    fn whole(&self) -> Option<i64> {
        let (number, power) = self.small?;
        number.checked_mul(10_i64.checked_pow(u32::try_from(power).ok()?)?)
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let wrong =
            || "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned();
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, suffix) = rest.split_at(length);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(wrong());
        }
        let nanos = scaled(whole, fraction, suffix).ok_or_else(|| {
            let known = suffix.chars().all(|c| "eEinumkKMGTP0123456789+-".contains(c));
            if known { "unable to parse quantity's suffix".to_owned() } else { wrong() }
        })?;
        let small =
            small(whole, fraction, suffix).map(|(number, power)| (if negative { -number } else { number }, power));
        Ok(Self { nanos: if negative { -nanos } else { nanos }, small, text: text.to_owned() })
    }
}

/// A number of few enough digits, and its power of ten.
fn small(whole: &str, fraction: &str, suffix: &str) -> Option<(i64, i32)> {
    let whole = whole.trim_start_matches('0');
    let places = i32::try_from(fraction.len()).ok()?;
    let digits = i32::try_from(whole.len()).ok()? + places;
    let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i64>().ok() };
    let (power, binary): (i32, u32) = power_of(suffix)?;
    if binary > 0 {
        // About three digits for ten bits.
        let precision = 15 - digits - i32::try_from(binary * 3 / 10).ok()? - 1;
        return (fraction.is_empty() && precision >= 0).then(|| Some((number(whole)?.checked_mul(1 << binary)?, 0)))?;
    }
    (digits <= 18 && power - places >= -9).then(|| Some((number(&format!("{whole}{fraction}"))?, power - places)))?
}

/// What a suffix multiplies with: a power of ten, and a power of two.
fn power_of(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        other => (other.strip_prefix(['e', 'E'])?.parse().ok()?, 0),
    })
}

/// The number times the suffix, in billionths, rounded up; too large is the largest.
fn scaled(whole: &str, fraction: &str, suffix: &str) -> Option<i128> {
    let (power, binary) = power_of(suffix)?;
    let most = i128::from(i64::MAX) * NANO;
    let fraction: String = fraction.trim_end_matches('0').chars().take(18).collect();
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let Ok(number) = digits.parse::<i128>() else { return Some(most) };
    let power = power + 9 - i32::try_from(fraction.len()).ok()?;
    let number = number.checked_mul(1_i128 << binary);
    let scaled = match u32::try_from(power) {
        Ok(power) => number.and_then(|number| number.checked_mul(10_i128.checked_pow(power)?)),
        Err(_) => {
            let divisor = 10_i128.checked_pow(power.unsigned_abs()).unwrap_or(i128::MAX);
            number.map(|number| number / divisor + i128::from(number % divisor != 0))
        }
    };
    Some(scaled.unwrap_or(most).min(most))
}

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    let flag = |flag: bool| Some(Ok(Value::Bool(flag)));
    match (function, args) {
        ("quantity", [Value::String(text)]) => {
            Some(Quantity::parse(text).map(|of| Value::Quantity(Arc::new(of))).map_err(Fault::new))
        }
        ("isQuantity", [Value::String(text)]) => flag(Quantity::parse(text).is_ok()),
        ("isGreaterThan", [Value::Quantity(one), Value::Quantity(other)]) => {
            flag(one.compare(other) == Ordering::Greater)
        }
        ("isLessThan", [Value::Quantity(one), Value::Quantity(other)]) => flag(one.compare(other) == Ordering::Less),
        ("compareTo", [Value::Quantity(one), Value::Quantity(other)]) => {
            Some(Ok(Value::Int(one.compare(other) as i64)))
        }
        ("sign", [Value::Quantity(one)]) => Some(Ok(Value::Int(i64::try_from(one.nanos.signum()).unwrap_or(0)))),
        ("isInteger", [Value::Quantity(one)]) => flag(one.whole().is_some()),
        ("asInteger", [Value::Quantity(one)]) => {
            Some(one.whole().map(Value::Int).ok_or_else(|| Fault::new("cannot convert value to integer")))
        }
        #[expect(clippy::cast_precision_loss, reason = "approximate by name")]
        ("asApproximateFloat", [Value::Quantity(one)]) => Some(Ok(Value::Double(one.nanos as f64 / NANO as f64))),
        ("add" | "sub", [Value::Quantity(one), other]) => {
            let other = match other {
                Value::Quantity(other) => Quantity::clone(other),
                Value::Int(number) => Quantity::from_integer(*number),
                _ => return None,
            };
            Some(Ok(Value::Quantity(Arc::new(one.plus(&other, if function == "add" { 1 } else { -1 })))))
        }
        _ => None,
    }
}
