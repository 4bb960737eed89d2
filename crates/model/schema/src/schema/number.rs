//! Bounds of numbers, with the habits of the Go validator: a bound is cut to an integer where the value is one.

use concert_api::{FieldError, FieldErrors};
use serde_json::Value;

use super::path::Path;

/// Beyond it, not every integer is a JSON number.
const SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// What a number must keep.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    minimum: Option<f64>,
    maximum: Option<f64>,
    exclusive_minimum: bool,
    exclusive_maximum: bool,
    multiple_of: Option<f64>,
}

impl Bounds {
    pub(super) fn parse(source: &Value) -> Self {
        Self {
            minimum: source["minimum"].as_f64(),
            maximum: source["maximum"].as_f64(),
            exclusive_minimum: source["exclusiveMinimum"] == true,
            exclusive_maximum: source["exclusiveMaximum"] == true,
            multiple_of: source["multipleOf"].as_f64(),
        }
    }

    pub(super) fn check(&self, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
        let integer = value.as_i64();
        let Some(number) = value.as_f64() else { return };
        let bound = |bound: f64| if integer.is_some() { bound.trunc() } else { bound };
        if let Some(factor) = self.multiple_of.map(bound) {
            check_multiple(value, number, factor, path, errors);
        }
        let mut fail = |words: &str, bound: f64| {
            let detail = format!("{path} in body should be {words} {}", plain(bound));
            errors.push(FieldError::invalid(path, shown(value), detail));
        };
        if let Some(maximum) = self.maximum.map(bound) {
            if self.exclusive_maximum && at_least(value, maximum) {
                fail("less than", maximum);
            } else if !self.exclusive_maximum && !at_most(value, maximum) {
                fail("less than or equal to", maximum);
            }
        }
        if let Some(minimum) = self.minimum.map(bound) {
            if self.exclusive_minimum && at_most(value, minimum) {
                fail("greater than", minimum);
            } else if !self.exclusive_minimum && !at_least(value, minimum) {
                fail("greater than or equal to", minimum);
            }
        }
    }
}

fn check_multiple(value: &Value, number: f64, factor: f64, path: &Path<'_>, errors: &mut FieldErrors) {
    if factor <= 0.0 {
        let detail = format!("factor MultipleOf declared for {path} must be positive: {}", plain(factor));
        errors.push(FieldError::invalid(path, shown(&Value::from(factor)), detail));
    } else if !is_integral(if factor < 1.0 { 1.0 / factor * number } else { number / factor }) {
        let detail = format!("{path} in body should be a multiple of {}", plain(factor));
        errors.push(FieldError::invalid(path, shown(value), detail));
    }
}

/// Exact where both are integers that a float cannot tell apart.
fn at_least(value: &Value, bound: f64) -> bool {
    match value.as_i64() {
        #[expect(clippy::cast_possible_truncation, reason = "a bound on integers is cut, as in Go")]
        Some(integer) => integer >= bound as i64,
        None => value.as_f64().is_some_and(|number| number >= bound),
    }
}

fn at_most(value: &Value, bound: f64) -> bool {
    match value.as_i64() {
        #[expect(clippy::cast_possible_truncation, reason = "a bound on integers is cut, as in Go")]
        Some(integer) => integer <= bound as i64,
        None => value.as_f64().is_some_and(|number| number <= bound),
    }
}

/// Whether a JSON number counts as an integer: `1` and `1.0` do, `1.5` and `1e30` do not.
pub(super) fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.as_f64().is_some_and(is_integral)
}

fn is_integral(number: f64) -> bool {
    if !number.is_finite() || number.abs() > SAFE_INTEGER {
        return false;
    }
    let whole = number.trunc();
    let difference = (number - whole).abs();
    difference == 0.0 || (whole != 0.0 && difference / (number.abs() + whole.abs()) < 1e-9)
}

/// A number without a needless `.0`.
fn plain(number: f64) -> String {
    format!("{number}")
}

/// A value as messages show it: 6.0 is 6.
fn shown(value: &Value) -> Value {
    match value.as_f64() {
        #[expect(clippy::cast_possible_truncation, reason = "integral and within 2^53")]
        Some(number) if value.is_f64() && number.trunc() == number && number.abs() <= SAFE_INTEGER => {
            Value::from(number as i64)
        }
        _ => value.clone(),
    }
}
