//! Field sets from `FieldsV1`.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Number, Value};

use super::{Element, FieldSet, Node, compare_values};

/// A value is not a set of fields; says what the matter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldsError(String);

impl fmt::Display for FieldsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read the set of fields: {}", self.0)
    }
}

impl std::error::Error for FieldsError {}

impl FieldSet {
    /// Reads a `fieldsV1`. Steps of a kind that nobody knows are left out, as the real server does.
    ///
    /// # Errors
    /// It is not an object of objects, or a key in it is not a step.
    pub fn parse(fields: &Value) -> Result<Self, FieldsError> {
        Ok(read(fields)?.0)
    }
}

/// The set below a node, and whether the node itself is a member.
fn read(fields: &Value) -> Result<(FieldSet, bool), FieldsError> {
    let members = match fields {
        Value::Object(members) => members,
        Value::Null => return Ok((FieldSet::default(), true)),
        other => return Err(FieldsError(format!("expected an object, got {other}"))),
    };
    let mut member = false;
    let mut nodes = Vec::with_capacity(members.len());
    for (key, value) in members {
        if key == "." {
            member = true;
        } else if let Some(element) = step(key)? {
            let (below, member) = read(value)?;
            nodes.push(Node { element, member, below });
        }
    }
    let below = without_repeats(nodes);
    let member = member || below.is_empty();
    Ok((below, member))
}

/// Different keys may name the same step (`v:1` and `v:1.0`): the later one counts.
fn without_repeats(nodes: Vec<Node>) -> FieldSet {
    let mut set = FieldSet::from_nodes(nodes);
    set.nodes.dedup_by(|later, kept| {
        let same = later.element == kept.element;
        if same {
            kept.member |= later.member;
            kept.below.unite(std::mem::take(&mut later.below));
        }
        same
    });
    set
}

/// One key as a step; `None` if it is of a kind that nobody knows.
fn step(key: &str) -> Result<Option<Element>, FieldsError> {
    let wrong = |why: String| FieldsError(format!("{key:?} is no step: {why}"));
    let (Some(kind), Some(b':')) = (key.as_bytes().first(), key.as_bytes().get(1)) else {
        return Err(wrong("it has no kind".to_owned()));
    };
    let rest = &key[2..];
    let json = || serde_json::from_str::<Value>(rest).map_err(|error| wrong(error.to_string()));
    Ok(Some(match kind {
        b'f' => Element::field(rest),
        b'v' => Element::Value(Arc::new(with_floats(json()?))),
        b'k' => Element::Key(match json()? {
            Value::Object(members) => keys(members),
            Value::Null => Arc::new([]),
            other => return Err(wrong(format!("{other} is no object"))),
        }),
        b'i' => Element::Index(rest.parse().map_err(|_| wrong("it is no number".to_owned()))?),
        _ => return Ok(None),
    }))
}

fn keys(members: Map<String, Value>) -> Arc<[(Arc<str>, Value)]> {
    let mut keys: Vec<(Arc<str>, Value)> =
        members.into_iter().map(|(name, value)| (name.into(), with_floats(value))).collect();
    keys.sort_by(|left, right| left.0.cmp(&right.0));
    keys.into()
}

/// The real server reads every number of a stored set as a float: its messages show it. An integer that no float is
/// stays what it is, or it would be another item.
fn with_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().and_then(Number::from_f64).map(Value::Number);
            let number = Value::Number(number);
            float.filter(|float| compare_values(float, &number).is_eq()).unwrap_or(number)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(with_floats).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, member)| (name, with_floats(member))).collect())
        }
        other => other,
    }
}
