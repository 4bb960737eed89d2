//! What differs between two objects, as sets of fields.

use std::cmp::Ordering;

use serde_json::Value;

use super::identity::{Identity, sorted};
use super::types::{Choice, ListOf, MapType, Relation, Type};
use crate::fields::{Element, FieldSet, Node, compare_values};

/// What became of the fields of an object.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

impl Comparison {
    /// Leaves out some fields, and all below them.
    pub(crate) fn ignore(&mut self, fields: &FieldSet) {
        for set in [&mut self.removed, &mut self.modified, &mut self.added] {
            set.subtract_deep(fields);
        }
    }
}

/// Compares two objects of a type.
pub(crate) fn compare(kind: Type<'_>, old: &Value, new: &Value) -> Comparison {
    let marks = values(kind, Some(old), Some(new));
    let set = |nodes| FieldSet::from_nodes(nodes);
    Comparison { removed: set(marks.removed.below), modified: set(marks.modified.below), added: set(marks.added.below) }
}

/// Whether two values are the same; numbers are compared by value.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    left == right || compare_values(left, right).is_eq()
}

/// Whether a place belongs to a set, and what below it does.
#[derive(Default)]
struct Mark {
    here: bool,
    below: Vec<Node>,
}

/// The marks of one place in the three sets.
#[derive(Default)]
struct Marks {
    removed: Mark,
    modified: Mark,
    added: Mark,
}

impl Marks {
    /// Takes in the marks of a place below this one.
    fn attach(&mut self, marks: Self, element: impl Fn() -> Element) {
        let pairs =
            [(&mut self.removed, marks.removed), (&mut self.modified, marks.modified), (&mut self.added, marks.added)];
        for (own, mark) in pairs {
            if mark.here || !mark.below.is_empty() {
                let below = FieldSet::from_nodes(mark.below);
                own.below.push(Node { element: element(), member: mark.here, below });
            }
        }
    }

    fn extend(&mut self, other: Self) {
        for (own, mark) in
            [(&mut self.removed, other.removed), (&mut self.modified, other.modified), (&mut self.added, other.added)]
        {
            own.here |= mark.here;
            let mut all = FieldSet::from_nodes(std::mem::take(&mut own.below));
            all.unite(FieldSet::from_nodes(mark.below));
            own.below = all.nodes().to_vec();
        }
    }
}

/// Compares what stands at one place; at least one side is there.
fn values(kind: Type<'_>, old: Option<&Value>, new: Option<&Value>) -> Marks {
    let choose = |value: Option<&Value>| value.map(|value| kind.choose(value));
    let (mut marks, leaf) = match (choose(old), choose(new)) {
        (Some(before), None) => chosen(kind, before, old, new),
        (before, Some(after)) if before.is_none_or(|before| before == after) => chosen(kind, after, old, new),
        (Some(before), Some(after)) => {
            let (mut marks, _) = chosen(kind, before, old, new);
            let (others, leaf) = chosen(kind, after, old, new);
            marks.extend(others);
            (marks, leaf)
        }
        (None, _) => (Marks::default(), true),
    };
    if !leaf {
        marks.added.here |= old.is_none();
        marks.removed.here |= new.is_none() && old.is_some();
    }
    marks
}

/// Compares as what the place was chosen to be; says whether it is a leaf.
fn chosen(kind: Type<'_>, choice: Choice, old: Option<&Value>, new: Option<&Value>) -> (Marks, bool) {
    match choice {
        Choice::Map | Choice::Open => match kind.map() {
            Some(map) => maps(map, old, new),
            None => (leaf(old, new), true),
        },
        Choice::List => match kind.list() {
            Some(list) => lists(&list, old, new),
            None => (leaf(old, new), true),
        },
        Choice::Scalar | Choice::Nothing => (leaf(old, new), true),
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Marks {
    let mut marks = Marks::default();
    match (old, new) {
        (None, _) => marks.added.here = true,
        (_, None) => marks.removed.here = true,
        (Some(old), Some(new)) => marks.modified.here = !same(old, new),
    }
    marks
}

fn maps(map: MapType<'_>, old: Option<&Value>, new: Option<&Value>) -> (Marks, bool) {
    let before = old.and_then(Value::as_object).filter(|members| !members.is_empty());
    let after = new.and_then(Value::as_object).filter(|members| !members.is_empty());
    // Two empty ones are a leaf, which keeps empty and null apart.
    if map.atomic || (before.is_none() && after.is_none()) {
        return (leaf(old, new), true);
    }
    let mut marks = Marks::default();
    for (name, member) in before.into_iter().flatten() {
        let other = after.and_then(|members| members.get(name));
        marks.attach(values(map.member(name).kind, Some(member), other), || Element::field(name));
    }
    for (name, member) in after.into_iter().flatten() {
        if before.is_none_or(|members| !members.contains_key(name)) {
            marks.attach(values(map.member(name).kind, None, Some(member)), || Element::field(name));
        }
    }
    (marks, false)
}

fn lists(list: &ListOf<'_>, old: Option<&Value>, new: Option<&Value>) -> (Marks, bool) {
    let before = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let after = new.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if matches!(list.relation, Relation::Atomic) || (before.is_empty() && after.is_empty()) {
        return (leaf(old, new), true);
    }
    // Most lists are untouched, and to know which item is which costs more than to see that.
    if before == after {
        return (Marks::default(), false);
    }
    let (old, new) = (sorted(list, before), sorted(list, after));
    let mut old = old.chunk_by(|left, right| left.0 == right.0).peekable();
    let mut new = new.chunk_by(|left, right| left.0 == right.0).peekable();
    let mut marks = Marks::default();
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(old), Some(new)) => old[0].0.cmp(&new[0].0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let old = if order.is_le() { old.next().unwrap_or_default() } else { &[] };
        let new = if order.is_ge() { new.next().unwrap_or_default() } else { &[] };
        let compared = same_items(list.item, &Items { list: before, at: old }, &Items { list: after, at: new });
        let either = old.first().or(new.first());
        marks.attach(compared, || either.map_or(Element::Index(0), |(identity, _)| identity.element()));
    }
    (marks, false)
}

/// The items of one identity in a list.
struct Items<'a> {
    list: &'a [Value],
    at: &'a [(Identity<'a>, usize)],
}

impl<'a> Items<'a> {
    fn iter(&self) -> impl Iterator<Item = &'a Value> {
        let list = self.list;
        self.at.iter().filter_map(move |(_, at)| list.get(*at))
    }
}

/// Compares the items of one identity; where there are several on one side, they are one unit.
fn same_items(kind: Type<'_>, before: &Items<'_>, after: &Items<'_>) -> Marks {
    let (old, new) = (before.iter().next(), after.iter().next());
    let mut marks = match (before.at.len(), after.at.len()) {
        (0 | 1, 0 | 1) => return values(kind, old, new),
        (0, _) | (_, 0) => Marks::default(),
        (1, _) => values(kind, old, None),
        (_, 1) => values(kind, None, new),
        (many, as_many) => {
            let mut marks = Marks::default();
            let same = many == as_many && before.iter().zip(after.iter()).all(|(old, new)| same(old, new));
            marks.modified.here = !same;
            return marks;
        }
    };
    marks.removed.here |= before.at.len() > 1;
    marks.added.here |= after.at.len() > 1;
    marks
}
