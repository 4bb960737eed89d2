//! Whether an object has the types that its schema asks for, as far as merging depends on them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::identity::Identity;
use super::types::{Choice, ListOf, MapType, Relation, Scalar, Type};
use crate::fields::Element;
use crate::go;

/// Whether items of a list may have the same identity: they may in what is stored, not in what is applied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// What is wrong, with its path from where the check began.
struct Fault {
    path: String,
    what: String,
}

/// What is wrong with a value, in the words of the real server.
pub(crate) fn check(kind: Type<'_>, value: &Value, duplicates: Duplicates) -> Result<(), String> {
    let mut faults = Vec::new();
    visit(kind, value, duplicates, &mut faults);
    let mut texts =
        faults.into_iter().map(|Fault { path, what }| if path.is_empty() { what } else { format!("{path}: {what}") });
    let Some(first) = texts.next() else { return Ok(()) };
    let rest: Vec<String> = texts.collect();
    if rest.is_empty() {
        return Err(first);
    }
    let lines: Vec<String> = std::iter::once(first).chain(rest).map(|text| format!("\n  {text}")).collect();
    Err(format!("errors:{}", lines.concat()))
}

fn visit(kind: Type<'_>, value: &Value, duplicates: Duplicates, faults: &mut Vec<Fault>) {
    let here = |what: String| Fault { path: String::new(), what };
    match kind.choose(value) {
        Choice::Scalar => faults.extend(scalar_fault(kind.scalar(), value).map(here)),
        Choice::Nothing => faults.push(here("schema error: invalid atom: inlined".to_owned())),
        Choice::List => match (kind.list(), value) {
            (Some(list), Value::Array(items)) => visit_items(&list, items, duplicates, faults),
            (_, Value::Null) => {}
            _ => faults.push(here(format!("expected list, got &{{{}}}", go::plain(value)))),
        },
        Choice::Map | Choice::Open => match (kind.map(), value) {
            (Some(map), Value::Object(members)) => visit_members(map, members, duplicates, faults),
            (_, Value::Null) => {}
            _ => faults.push(here(format!("expected map, got &{{{}}}", go::plain(value)))),
        },
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

fn visit_items(list: &ListOf<'_>, items: &[Value], duplicates: Duplicates, faults: &mut Vec<Fault>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let before = faults.len();
        if matches!(list.relation, Relation::Atomic) {
            visit(list.item, item, duplicates, faults);
            prefix(faults, before, || Element::Index(i64::try_from(index).unwrap_or(i64::MAX)));
            continue;
        }
        let identity = match Identity::of(list, item) {
            Ok(identity) => identity,
            Err(why) => {
                faults.push(Fault { path: String::new(), what: format!("element {index}: {why}") });
                return;
            }
        };
        if duplicates == Duplicates::Refused && !seen.insert(identity.clone()) {
            let what = format!("duplicate entries for key {}", identity.element());
            faults.push(Fault { path: String::new(), what });
        }
        let before = faults.len();
        visit(list.item, item, duplicates, faults);
        prefix(faults, before, || identity.element());
    }
}

fn visit_members(
    map: MapType<'_>,
    members: &serde_json::Map<String, Value>,
    duplicates: Duplicates,
    faults: &mut Vec<Fault>,
) {
    for (name, member) in members {
        let kind = map.member(name).kind;
        if matches!(kind, Type::Undeclared) {
            faults.push(Fault { path: format!(".{name}"), what: "field not declared in schema".to_owned() });
            return;
        }
        let before = faults.len();
        visit(kind, member, duplicates, faults);
        prefix(faults, before, || Element::field(name));
    }
}

/// Puts a step before the paths of the faults that were found below it.
fn prefix(faults: &mut [Fault], from: usize, element: impl Fn() -> Element) {
    for fault in &mut faults[from..] {
        fault.path = format!("{}{}", element(), fault.path);
    }
}
