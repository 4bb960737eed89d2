//! One step of a path.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use concert_api::quoted;
use serde_json::{Number, Value};

use crate::go;

/// One step of a path. Steps are ordered: fields by name, then items by their keys, by their value, by their index.
#[derive(Clone, Debug)]
pub enum Element {
    /// A member of an object.
    Field(Arc<str>),
    /// The item of a list that has these values in these members, sorted by name.
    Key(Arc<[(Arc<str>, Value)]>),
    /// The item of a set that is this value.
    Value(Arc<Value>),
    /// The item of a list at this place.
    Index(i64),
}

impl Element {
    /// A member of an object.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// As comparing with the field of that name, without making one.
    pub(super) fn compare_field(&self, name: &str) -> Ordering {
        match self {
            Self::Field(own) => (**own).cmp(name),
            Self::Key(_) | Self::Value(_) | Self::Index(_) => Ordering::Greater,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => {
                let pairs = left.iter().zip(right.iter());
                let first = pairs
                    .map(|((name, value), (other, with))| name.cmp(other).then_with(|| compare_values(value, with)))
                    .find(|order| order.is_ne());
                first.unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (Self::Value(left), Self::Value(right)) => compare_values(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

/// As in messages: `.name`, `[name="a",port=80]`, `[="a"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
                write!(f, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", text(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => go::plain_number(number),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(self::text).collect::<Vec<_>>().join(",")),
        Value::Object(members) => {
            members.iter().map(|(name, member)| format!("{name}={}", self::text(member))).collect()
        }
    }
}

/// An order of all values: numbers, texts, booleans, lists, objects, null. Numbers are compared by value.
pub(crate) fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let first = left.iter().zip(right).map(|(left, right)| compare_values(left, right)).find(|o| o.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let pairs = left.iter().zip(right);
            let first = pairs
                .map(|((name, value), (other, with))| name.cmp(other).then_with(|| compare_values(value, with)))
                .find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// By value, and exactly: an order that rounds integers where they meet floats is none, and what sorts by it panics.
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (go::whole(left), go::whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(whole), None) => compare_mixed(whole, go::as_float(right)),
        (None, Some(whole)) => compare_mixed(whole, go::as_float(left)).reverse(),
        (None, None) => go::as_float(left).partial_cmp(&go::as_float(right)).unwrap_or(Ordering::Equal),
    }
}

fn compare_mixed(whole: i64, float: f64) -> Ordering {
    // One more than the largest.
    const END: f64 = 9_223_372_036_854_775_808.0;
    if float >= END {
        return Ordering::Less;
    }
    if float < -END {
        return Ordering::Greater;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is within the bounds, and its fraction is looked at below")]
    let cut = float.trunc() as i64;
    let fraction = float.fract().partial_cmp(&0.0).unwrap_or(Ordering::Equal);
    whole.cmp(&cut).then(fraction.reverse())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_ordered_by_what_they_are() {
        let sorted = [
            json!(-1e300),
            json!(i64::MIN),
            json!(-1.5),
            json!(-1),
            json!(-0.5),
            json!(0),
            json!(0.5),
            json!(1),
            json!(1.5),
            json!(9_007_199_254_740_991_i64),
            json!(9_007_199_254_740_992.0),
            json!(9_007_199_254_740_993_i64),
            json!(9_007_199_254_740_994.0),
            json!(i64::MAX),
            json!(9_223_372_036_854_775_808.0),
            json!(u64::MAX),
            json!(1e300),
        ];
        for (at, left) in sorted.iter().enumerate() {
            for (place, right) in sorted.iter().enumerate() {
                assert_eq!(compare_values(left, right), at.cmp(&place), "{left} and {right}");
            }
        }
        assert!(compare_values(&json!(1), &json!(1.0)).is_eq());
        assert!(compare_values(&json!(0), &json!(-0.0)).is_eq());
        assert!(compare_values(&json!(9_007_199_254_740_992_i64), &json!(9_007_199_254_740_992.0)).is_eq());
        assert!(compare_values(&json!(i64::MIN), &json!(-9_223_372_036_854_775_808.0)).is_eq());
    }
}
