//! Whether an object has the types that its schema asks for, as far as merging depends on them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::identity::Identity;
use super::types::{Choice, ListOf, MapType, Relation, Scalar, Type};
use crate::go;

/// Whether items of a list may have the same identity: they may in what is stored, not in what is applied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// Bytes of faults that are told. A configuration can have a hundred thousand, each with a path as long as it is.
const FAULTS_MAX: usize = 1 << 20;

/// What is wrong with a value, in the words of the real server.
pub(crate) fn check(kind: Type<'_>, value: &Value, duplicates: Duplicates) -> Result<(), String> {
    let mut faults = Faults { texts: Vec::new(), bytes: 0, duplicates };
    faults.visit(kind, value, &Place::Root);
    match faults.texts.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        many => Err(format!("errors:{}", many.iter().map(|text| format!("\n  {text}")).collect::<String>())),
    }
}

/// Where a value stands, from where the check began; written out only where something is wrong.
enum Place<'a> {
    Root,
    Field(&'a Self, &'a str),
    Index(&'a Self, usize),
    Item(&'a Self, &'a Identity<'a>),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Item(parent, identity) => write!(f, "{parent}{}", identity.element()),
        }
    }
}

/// What is wrong.
struct Faults {
    texts: Vec<String>,
    bytes: usize,
    duplicates: Duplicates,
}

impl Faults {
    fn is_full(&self) -> bool {
        self.bytes >= FAULTS_MAX
    }

    fn add(&mut self, place: &Place<'_>, what: &str) {
        if self.is_full() {
            return;
        }
        let text = match place {
            Place::Root => what.to_owned(),
            _ => format!("{place}: {what}"),
        };
        self.bytes += text.len();
        self.texts.push(text);
    }

    fn visit(&mut self, kind: Type<'_>, value: &Value, place: &Place<'_>) {
        if self.is_full() {
            return;
        }
        match kind.choose(value) {
            Choice::Scalar => {
                if let Some(fault) = scalar_fault(kind.scalar(), value) {
                    self.add(place, &fault);
                }
            }
            Choice::Nothing => self.add(place, "schema error: invalid atom: inlined"),
            Choice::List => match (kind.list(), value) {
                (Some(list), Value::Array(items)) => self.visit_items(&list, items, place),
                (_, Value::Null) => {}
                _ => self.add(place, &format!("expected list, got &{{{}}}", go::plain(value))),
            },
            Choice::Map | Choice::Open => match (kind.map(), value) {
                (Some(map), Value::Object(members)) => self.visit_members(map, members, place),
                (_, Value::Null) => {}
                _ => self.add(place, &format!("expected map, got &{{{}}}", go::plain(value))),
            },
        }
    }

    fn visit_items(&mut self, list: &ListOf<'_>, items: &[Value], place: &Place<'_>) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if matches!(list.relation, Relation::Atomic) {
                self.visit(list.item, item, &Place::Index(place, index));
                continue;
            }
            let identity = match Identity::of(list, item) {
                Ok(identity) => identity,
                Err(why) => {
                    self.add(place, &format!("element {index}: {why}"));
                    return;
                }
            };
            if self.duplicates == Duplicates::Refused && !seen.insert(identity.clone()) {
                self.add(place, &format!("duplicate entries for key {}", identity.element()));
            }
            self.visit(list.item, item, &Place::Item(place, &identity));
        }
    }

    fn visit_members(&mut self, map: MapType<'_>, members: &serde_json::Map<String, Value>, place: &Place<'_>) {
        for (name, member) in members {
            let place = Place::Field(place, name);
            let kind = map.member(name).kind;
            if matches!(kind, Type::Undeclared) {
                self.add(&place, "field not declared in schema");
                return;
            }
            self.visit(kind, member, &place);
        }
    }
}

fn scalar_fault(scalar: Scalar, value: &Value) -> Option<String> {
    let fits = match (scalar, value) {
        (_, Value::Null) => true,
        (Scalar::Numeric, value) => value.is_number(),
        (Scalar::Text, value) => value.is_string(),
        (Scalar::Boolean, value) => value.is_boolean(),
        (Scalar::Untyped, value) => !value.is_array() && !value.is_object(),
    };
    (!fits).then(|| match scalar {
        Scalar::Numeric => format!("expected numeric (int or float), got {}", go::type_name(value)),
        Scalar::Text => format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::source(value)),
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", go::plain(value)),
        Scalar::Untyped => format!("expected any scalar, got &{{{}}}", go::plain(value)),
    })
}
