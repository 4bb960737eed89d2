//! Random values for a shape, and small changes of them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::shape::{Form, Items, Member, Shape};
use crate::Dice;

/// How deep values go where anything is allowed.
const FREE_DEPTH: u64 = 2;

/// A maker of values.
pub(super) struct Values<'a> {
    pub(super) dice: &'a mut Dice,
    /// Now and then a value has the wrong type, an unknown member, or an item twice.
    pub(super) wild: bool,
    /// Now and then a value is null, though it may not be.
    pub(super) nulls: bool,
    /// Members that are needed may be left out, for others have said them.
    pub(super) partial: Partial,
}

/// Where members that are needed may be left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Partial {
    /// Nowhere.
    Never,
    /// Not in lists: they are replaced as a whole.
    Outside,
    /// Not in lists that are replaced as a whole.
    Merged,
}

impl Values<'_> {
    /// A value for the shape.
    pub(super) fn value(&mut self, shape: &Shape) -> Value {
        if self.nulls && self.dice.one_in(if shape.nullable { 6 } else { 60 }) {
            return Value::Null;
        }
        if self.wild && self.dice.one_in(25) {
            return self.anything(FREE_DEPTH);
        }
        match &shape.form {
            Form::One(choices) => self.dice.pick(choices).clone(),
            Form::Members(members) => {
                let mut object = self.members(members);
                if self.wild && self.dice.one_in(25) {
                    object.insert("unknown".to_owned(), "x".into());
                }
                object.into()
            }
            Form::Map(shape) => {
                let count = self.dice.below(4);
                (0..count).map(|_| ((*self.dice.pick(&["p", "q", "r"])).to_owned(), self.value(shape))).collect()
            }
            Form::List(items, told_apart) => {
                let count = if self.dice.one_in(8) { 0 } else { 1 + self.dice.below(4) };
                let outside = self.enter(told_apart);
                let list = (0..count).map(|_| self.item(items, told_apart)).collect();
                self.partial = outside;
                self.once_each(list, told_apart)
            }
            Form::Free(members) if members.is_empty() => self.anything(FREE_DEPTH),
            Form::Free(members) => {
                let mut object = self.members(members);
                for _ in 0..self.dice.below(3) {
                    object.insert((*self.dice.pick(&["p", "q"])).to_owned(), self.anything(FREE_DEPTH));
                }
                object.into()
            }
            Form::Embedded => self.embedded(),
        }
    }

    /// Goes into a list; gives what was so outside of it.
    fn enter(&mut self, told_apart: &Items) -> Partial {
        let is_merged = self.partial == Partial::Merged && matches!(told_apart, Items::Keyed(_));
        std::mem::replace(&mut self.partial, if is_merged { Partial::Merged } else { Partial::Never })
    }

    fn members(&mut self, members: &[Member]) -> Map<String, Value> {
        let mut object = Map::new();
        for member in members {
            let always = member.needed && (self.partial == Partial::Never || self.dice.one_in(3));
            if always || self.dice.below(3) > 0 {
                object.insert(member.name.clone(), self.value(&member.shape));
            }
        }
        // For Go nothing and an empty map are two things, and some rules of built-in kinds see which it was.
        if let Some(member) = members.first().filter(|_| object.is_empty() && !self.nulls) {
            object.insert(member.name.clone(), self.value(&member.shape));
        }
        object
    }

    /// An item with its keys; one that has a default may be left out.
    fn item(&mut self, shape: &Shape, told_apart: &Items) -> Value {
        let mut item = self.value(shape);
        if let (Items::Keyed(keys), Some(object)) = (told_apart, item.as_object_mut()) {
            for (key, default) in keys {
                let is_missing = object.get(key).is_none_or(Value::is_null);
                let left_out = default.is_some() || (self.wild && self.dice.one_in(10));
                if is_missing && !left_out {
                    let choices = shape.member(key).map(|shape| &shape.form);
                    let value =
                        if let Some(Form::One(choices)) = choices { self.dice.pick(choices) } else { &Value::Null };
                    object.insert(key.clone(), value.clone());
                }
            }
        }
        item
    }

    /// The list without items that are told to be the same, mostly.
    fn once_each(&mut self, list: Vec<Value>, told_apart: &Items) -> Value {
        let mut seen = BTreeSet::new();
        let tame = !self.wild;
        let mut is_kept = |item: &Value, dice: &mut Dice| {
            let identity = match told_apart {
                Items::Whole => return true,
                Items::Set if tame && item.is_null() => return false,
                Items::Keyed(_) if tame && !item.is_object() => return false,
                Items::Set => item.to_string(),
                Items::Keyed(keys) => {
                    let key = |(key, default): &(String, Option<Value>)| match item.get(key) {
                        Some(value) => value.to_string(),
                        None => default.as_ref().map(Value::to_string).unwrap_or_default(),
                    };
                    keys.iter().map(key).collect::<Vec<_>>().join(",")
                }
            };
            seen.insert(identity) || (!tame && dice.one_in(8))
        };
        list.into_iter().filter(|item| is_kept(item, self.dice)).collect()
    }

    fn embedded(&mut self) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": *self.dice.pick(&["Pod", "Node"])});
        if self.dice.one_in(2) {
            object["metadata"] = json!({"name": "e", "labels": {"a": *self.dice.pick(&["x", "y"])}});
        }
        if self.dice.one_in(2) {
            object["spec"] = self.anything(FREE_DEPTH);
        }
        object
    }

    /// A value of any type.
    pub(super) fn anything(&mut self, depth: u64) -> Value {
        match self.dice.below(7) {
            0 => self.dice.below(3).into(),
            1 => self.dice.one_in(2).into(),
            2 if self.dice.one_in(2) => Value::Null,
            3 if depth > 0 => (0..self.dice.below(3)).map(|_| self.anything(depth - 1)).collect(),
            4 | 5 if depth > 0 => {
                let count = self.dice.below(4);
                let member = |_| ((*self.dice.pick(&["a", "b", "p"])).to_owned(), self.anything(depth - 1));
                (0..count).map(member).collect()
            }
            _ => (*self.dice.pick(&["x", "y", "z"])).into(),
        }
    }

    /// The old value with some of it dropped, and some taken from the fresh one.
    pub(super) fn changed(&mut self, old: &Value, fresh: &Value, shape: Option<&Shape>) -> Value {
        let is_choice = shape.is_some_and(|shape| matches!(shape.form, Form::One(_)));
        match (old, fresh) {
            _ if is_choice => if self.dice.one_in(4) { fresh } else { old }.clone(),
            (Value::Object(old), Value::Object(fresh)) => self.changed_members(old, fresh, shape),
            (Value::Array(old), Value::Array(fresh)) => self.changed_items(old, fresh, shape),
            _ if self.dice.one_in(4) => fresh.clone(),
            _ => old.clone(),
        }
    }

    fn changed_members(
        &mut self,
        old: &Map<String, Value>,
        fresh: &Map<String, Value>,
        shape: Option<&Shape>,
    ) -> Value {
        let mut object = Map::new();
        for (name, member) in old {
            let is_needed = self.partial == Partial::Never && shape.is_some_and(|shape| shape.needs(name));
            if !is_needed && self.dice.one_in(7) {
                continue;
            }
            let shape = shape.and_then(|shape| shape.member(name));
            let member = fresh.get(name).map_or_else(|| member.clone(), |fresh| self.changed(member, fresh, shape));
            object.insert(name.clone(), member);
        }
        for (name, member) in fresh {
            if !old.contains_key(name) && self.dice.one_in(4) {
                object.insert(name.clone(), member.clone());
            }
        }
        object.into()
    }

    fn changed_items(&mut self, old: &[Value], fresh: &[Value], shape: Option<&Shape>) -> Value {
        let (shape, told_apart) = match shape.map(|shape| &shape.form) {
            Some(Form::List(shape, told_apart)) => (Some(&**shape), told_apart),
            _ => (None, &Items::Whole),
        };
        let outside = self.enter(told_apart);
        let mut list: Vec<Value> = Vec::new();
        for (place, item) in old.iter().enumerate() {
            if self.dice.one_in(6) {
                continue;
            }
            let fresh = fresh.get(place).filter(|_| !matches!(told_apart, Items::Set));
            list.push(fresh.map_or_else(|| item.clone(), |fresh| self.changed_item(item, fresh, shape, told_apart)));
        }
        for item in fresh {
            if self.dice.one_in(4) {
                list.insert(self.dice.place(list.len() + 1), item.clone());
            }
        }
        self.partial = outside;
        self.once_each(list, told_apart)
    }

    /// A changed item is mostly still the same one.
    fn changed_item(&mut self, old: &Value, fresh: &Value, shape: Option<&Shape>, told_apart: &Items) -> Value {
        let mut item = self.changed(old, fresh, shape);
        if let (Items::Keyed(keys), Some(old), Some(item)) = (told_apart, old.as_object(), item.as_object_mut()) {
            for (key, _) in keys {
                match old.get(key) {
                    Some(value) => item.insert(key.clone(), value.clone()),
                    None => item.remove(key),
                };
            }
        }
        item
    }
}
