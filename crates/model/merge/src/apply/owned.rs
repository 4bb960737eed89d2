//! Which fields an object has, and adapting sets of them to a schema.

use serde_json::Value;

use super::identity::sorted;
use super::types::{Choice, ListOf, MapType, Relation, Type};
use crate::fields::{Element, FieldSet, Node};

/// Every leaf, every item and every entry of an object.
pub(crate) fn owned(kind: Type<'_>, value: &Value) -> FieldSet {
    collect(kind, value).1
}

/// Whether the value itself counts as a leaf, and what is below it.
fn collect(kind: Type<'_>, value: &Value) -> (bool, FieldSet) {
    match kind.choose(value) {
        Choice::Scalar => (true, FieldSet::default()),
        Choice::Nothing => (false, FieldSet::default()),
        Choice::List => match (kind.list(), value) {
            (Some(list), _) if matches!(list.relation, Relation::Atomic) => (true, FieldSet::default()),
            (Some(list), Value::Array(items)) => (false, of_items(&list, items)),
            _ => (false, FieldSet::default()),
        },
        Choice::Map | Choice::Open => match (kind.map(), value) {
            (Some(map), _) if map.atomic => (true, FieldSet::default()),
            (Some(map), Value::Object(members)) => (false, of_members(map, members)),
            _ => (false, FieldSet::default()),
        },
    }
}

fn of_members(map: MapType<'_>, members: &serde_json::Map<String, Value>) -> FieldSet {
    let nodes = members.iter().map(|(name, value)| {
        let member = map.member(name);
        let (leaf, below) = collect(member.kind, value);
        let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        Node { element: Element::field(name), member: leaf || empty || !member.named, below }
    });
    FieldSet::from_nodes(nodes.collect())
}

/// What stands for the items that have no identity (what is left of one that lost all it had), so that their list is not
/// taken for empty. Nothing that is checked has such items.
const UNKNOWN: Element = Element::Index(-1);

/// Items of one identity are owned as a unit.
fn of_items(list: &ListOf<'_>, items: &[Value]) -> FieldSet {
    let sorted = sorted(list, items);
    let nodes = sorted.chunk_by(|left, right| left.0 == right.0).filter_map(|same| {
        let below = match same {
            [(_, at)] => collect(list.item, items.get(*at)?).1,
            _ => FieldSet::default(),
        };
        Some(Node { element: same.first()?.0.element(), member: true, below })
    });
    let unknown = Node { element: UNKNOWN, member: true, below: FieldSet::default() };
    FieldSet::from_nodes(nodes.chain((sorted.len() < items.len()).then_some(unknown)).collect())
}

/// Makes members of the named fields that a set goes through: who owns something in `spec` then owns `spec`.
pub(crate) fn own_named(set: &mut FieldSet, kind: Type<'_>) {
    let (map, list) = (kind.map(), kind.list());
    for node in set.nodes_mut() {
        if node.below.is_empty() {
            continue;
        }
        let below = match (&node.element, map, list) {
            (Element::Field(name), Some(map), _) => {
                let member = map.member(name);
                node.member |= member.named;
                member.kind
            }
            (Element::Key(_), _, Some(list)) => list.item,
            _ => Type::Undeclared,
        };
        own_named(&mut node.below, below);
    }
}

/// Adapts a stored set to a schema that has changed: of what is a whole now, only the whole is owned.
pub(crate) fn adapt(set: &mut FieldSet, kind: Type<'_>) {
    let steps = Steps::of(kind);
    for node in set.nodes_mut().iter_mut().filter(|node| !node.below.is_empty()) {
        let Some(below) = steps.below(&node.element) else { return };
        if is_whole(below) {
            node.member = true;
            node.below = FieldSet::default();
        } else {
            adapt(&mut node.below, below);
        }
    }
}

/// Whether [`adapt`] would change anything.
pub(crate) fn needs_adapting(set: &FieldSet, kind: Type<'_>) -> bool {
    let steps = Steps::of(kind);
    set.nodes().iter().filter(|node| !node.below.is_empty()).any(|node| {
        steps.below(&node.element).is_some_and(|below| is_whole(below) || needs_adapting(&node.below, below))
    })
}

/// Where the steps of a set lead.
struct Steps<'s> {
    map: Option<MapType<'s>>,
    item: Option<Type<'s>>,
}

impl<'s> Steps<'s> {
    fn of(kind: Type<'s>) -> Self {
        match kind.first_choice() {
            Choice::Map | Choice::Open => Self { map: kind.map().filter(|map| !map.is_free()), item: None },
            Choice::List => Self { map: None, item: kind.list().map(|list| list.item) },
            Choice::Scalar | Choice::Nothing => Self { map: None, item: None },
        }
    }

    /// The type behind a step; `None` if nothing here is ever adapted.
    fn below(&self, element: &Element) -> Option<Type<'s>> {
        match (element, self.map) {
            (Element::Field(name), Some(map)) => Some(map.member(name).kind),
            (_, Some(map)) => Some(map.others()),
            (_, None) => self.item,
        }
    }
}

fn is_whole(kind: Type<'_>) -> bool {
    match kind.first_choice() {
        Choice::Map | Choice::Open => kind.map().is_some_and(|map| map.atomic && !map.is_free()),
        Choice::List => kind.list().is_some_and(|list| matches!(list.relation, Relation::Atomic)),
        Choice::Scalar | Choice::Nothing => false,
    }
}
