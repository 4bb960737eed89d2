//! An applied configuration on top of an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::identity::Identity;
use super::types::{Choice, ListOf, MapType, Relation, Type};

/// Puts `config` on top of `object`: leaves of the configuration win, nothing is removed. Shared items of lists stand in
/// the order of the configuration; those that only the object has keep their places between them.
pub(crate) fn combine(kind: Type<'_>, object: &mut Value, config: &Value) {
    match kind.choose(config) {
        Choice::Scalar | Choice::Nothing => object.clone_from(config),
        Choice::Map | Choice::Open => match kind.map() {
            Some(map) => maps(map, object, config),
            None => object.clone_from(config),
        },
        Choice::List => match kind.list() {
            Some(list) => lists(&list, object, config),
            None => object.clone_from(config),
        },
    }
}

fn maps(map: MapType<'_>, object: &mut Value, config: &Value) {
    let both_empty = object.as_object().is_none_or(Map::is_empty) && config.as_object().is_none_or(Map::is_empty);
    if map.atomic || both_empty {
        object.clone_from(config);
        return;
    }
    let Value::Object(applied) = config else { return };
    let Value::Object(members) = object else {
        object.clone_from(config);
        return;
    };
    for (name, value) in applied {
        match members.get_mut(name) {
            Some(member) => combine(map.member(name).kind, member, value),
            None => drop(members.insert(name.clone(), value.clone())),
        }
    }
}

fn lists(list: &ListOf<'_>, object: &mut Value, config: &Value) {
    let both_empty = object.as_array().is_none_or(Vec::is_empty) && config.as_array().is_none_or(Vec::is_empty);
    if matches!(list.relation, Relation::Atomic) || both_empty {
        object.clone_from(config);
        return;
    }
    let Value::Array(applied) = config else { return };
    let Value::Array(items) = object else {
        object.clone_from(config);
        return;
    };
    // The same items in the same order, as mostly.
    let pairs = || items.iter().zip(applied).all(|(item, other)| same_item(list, item, other));
    if items.len() == applied.len() && pairs() {
        items.iter_mut().zip(applied).for_each(|(item, other)| combine(list.item, item, other));
        return;
    }
    let order = Order::of(list, items, applied);
    let mut live: Vec<Option<Value>> = std::mem::take(items).into_iter().map(Some).collect();
    *items = order
        .into_iter()
        .filter_map(|step| match step {
            Step::Live(at) => live.get_mut(at).and_then(Option::take),
            Step::Applied(at) => applied.get(at).cloned(),
            Step::Both(left, right) => {
                let mut item = live.get_mut(left).and_then(Option::take)?;
                combine(list.item, &mut item, applied.get(right)?);
                Some(item)
            }
        })
        .collect();
}

fn same_item(list: &ListOf<'_>, left: &Value, right: &Value) -> bool {
    match (Identity::of(list, left), Identity::of(list, right)) {
        (Ok(left), Ok(right)) => left == right,
        _ => false,
    }
}

/// Where an item of the result comes from.
#[derive(Clone, Copy)]
enum Step {
    Live(usize),
    Applied(usize),
    Both(usize, usize),
}

/// Finds the order of the result.
struct Order<'a> {
    live: Vec<Identity<'a>>,
    applied: Vec<Identity<'a>>,
    /// Where an identity is in the live list; `None` if it is there several times.
    places: BTreeMap<Identity<'a>, Option<usize>>,
    wanted: BTreeSet<Identity<'a>>,
}

impl<'a> Order<'a> {
    /// Items without an identity were refused before.
    fn of(list: &ListOf<'a>, live: &'a [Value], applied: &'a [Value]) -> Vec<Step> {
        let identities = |items: &'a [Value]| -> Vec<Identity<'a>> {
            items.iter().filter_map(|item| Identity::of(list, item).ok()).collect()
        };
        let (live, applied) = (identities(live), identities(applied));
        let mut places = BTreeMap::new();
        for (at, identity) in live.iter().enumerate() {
            places.entry(identity.clone()).and_modify(|place| *place = None).or_insert(Some(at));
        }
        let wanted = applied.iter().cloned().collect();
        Order { live, applied, places, wanted }.steps()
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(self.live.len().max(self.applied.len()));
        let mut shared = self.applied.iter().filter(|identity| self.places.contains_key(identity)).peekable();
        let mut done: BTreeSet<&Identity<'a>> = BTreeSet::new();
        let (mut left, mut right) = (0, 0);
        while left < self.live.len() || right < self.applied.len() {
            if let (Some(live), Some(applied)) = (self.live.get(left), self.applied.get(right)) {
                if live == applied {
                    done.insert(applied);
                    steps.push(self.applied_step(right));
                    (left, right) = (left + 1, right + 1);
                    shared.next();
                    continue;
                }
                // A shared item, but not the one whose turn it is.
                if self.wanted.contains(live) && shared.peek().is_some_and(|next| *next != live) {
                    left += 1;
                    continue;
                }
            }
            if let Some(live) = self.live.get(left) {
                if !self.wanted.contains(live) {
                    steps.push(Step::Live(left));
                    left += 1;
                    continue;
                }
                if done.contains(live) {
                    left += 1;
                }
            }
            if let Some(applied) = self.applied.get(right) {
                done.insert(applied);
                steps.push(self.applied_step(right));
                right += 1;
                shared.next_if(|next| *next == applied);
            }
        }
        steps
    }

    /// An applied item, together with the live one if there is exactly one.
    fn applied_step(&self, at: usize) -> Step {
        match self.applied.get(at).and_then(|identity| self.places.get(identity)) {
            Some(Some(live)) => Step::Both(*live, at),
            Some(None) | None => Step::Applied(at),
        }
    }
}
