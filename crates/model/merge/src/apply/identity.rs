//! Which item of a list is which.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::types::{ListOf, Relation};
use crate::fields::{Element, compare_values};

/// What makes an item of a list the same in another list. Borrows: most are compared and forgotten.
#[derive(Clone, Debug)]
pub(crate) enum Identity<'a> {
    /// Its value in the only key member.
    Key(&'a str, &'a Value),
    /// Its values in the key members, sorted by their names.
    Keys(Vec<(&'a str, &'a Value)>),
    /// It itself.
    Value(&'a Value),
}

impl<'a> Identity<'a> {
    /// That of an item, or why it has none, in the words of the real server.
    pub(crate) fn of(list: &ListOf<'a>, item: &'a Value) -> Result<Self, String> {
        let named = list.relation.keys().next().is_some();
        match list.relation {
            Relation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            Relation::Keys(_) | Relation::Key(_) if named => keyed(list, item),
            Relation::Set | Relation::Keys(_) | Relation::Key(_) => match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Self::Value(item)),
            },
        }
    }

    /// As a step of a path.
    pub(crate) fn element(&self) -> Element {
        match self {
            Self::Key(name, value) => Element::Key(Arc::new([((*name).into(), (*value).clone())])),
            Self::Keys(keys) => {
                Element::Key(keys.iter().map(|(name, value)| ((*name).into(), (*value).clone())).collect())
            }
            Self::Value(value) => Element::Value(Arc::new((*value).clone())),
        }
    }
}

fn keyed<'a>(list: &ListOf<'a>, item: &'a Value) -> Result<Identity<'a>, String> {
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut names = list.relation.keys();
    if let (Some(only), None) = (names.next(), names.next()) {
        return match key_value(list, members, only)? {
            Some(value) => Ok(Identity::Key(only, value)),
            None => Err(without_keys(list)),
        };
    }
    let mut keys = Vec::with_capacity(2);
    for name in list.relation.keys() {
        // An item without a key is another one than an item with it.
        keys.extend(key_value(list, members, name)?.map(|value| (name, value)));
    }
    if keys.is_empty() {
        return Err(without_keys(list));
    }
    keys.sort_by(|left, right| left.0.cmp(right.0));
    Ok(Identity::Keys(keys))
}

/// The value of a key member, or its default.
fn key_value<'a>(list: &ListOf<'a>, members: &'a Map<String, Value>, name: &str) -> Result<Option<&'a Value>, String> {
    if let Some(value) = members.get(name) {
        return Ok(Some(value));
    }
    match list.item.map() {
        Some(map) => Ok(map.default_of(name)),
        None => {
            let why = "associative list may not have non-map types";
            Err(format!("couldn't find default value for {name}: {why}"))
        }
    }
}

fn without_keys(list: &ListOf<'_>) -> String {
    let names: Vec<String> = list.relation.keys().map(concert_api::quoted).collect();
    format!(
        "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
        names.join(" ")
    )
}

/// The identities of all items that have one, with their places, sorted; those of one identity in the order of the list.
pub(crate) fn sorted<'a>(list: &ListOf<'a>, items: &'a [Value]) -> Vec<(Identity<'a>, usize)> {
    let identities = items.iter().enumerate().filter_map(|(at, item)| Some((Identity::of(list, item).ok()?, at)));
    let mut sorted: Vec<_> = identities.collect();
    sorted.sort();
    sorted
}

impl Ord for Identity<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Keys(left), Self::Keys(right)) => {
                let pairs = left.iter().zip(right);
                let first = pairs
                    .map(|((name, value), (other, with))| name.cmp(other).then_with(|| compare_values(value, with)))
                    .find(|order| order.is_ne());
                first.unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            // Of one list all have the same key.
            (Self::Key(_, left), Self::Key(_, right)) | (Self::Value(left), Self::Value(right)) => {
                compare_values(left, right)
            }
            (Self::Key(..), _) | (Self::Keys(_), Self::Value(_)) => Ordering::Less,
            (_, Self::Key(..)) | (Self::Value(_), Self::Keys(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Identity<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Identity<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Identity<'_> {}
