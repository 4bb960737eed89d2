//! Lists, sets and maps that grow.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::value::{Fault, Key, List, Result, Value};

/// The longest list that `lists.range` makes.
const LONGEST_RANGE: i64 = 1_000_000;

pub(super) fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    match (function, args) {
        ("lists.range", [Value::Int(count)]) => Some(range(*count)),
        ("sets.contains", [Value::List(all), Value::List(some)]) => Some(within(some, all).map(Value::Bool)),
        ("sets.equivalent", [Value::List(one), Value::List(other)]) => {
            Some(within(other, one).and_then(|so| Ok(Value::Bool(so && within(one, other)?))))
        }
        ("sets.intersects", [Value::List(one), Value::List(other)]) => Some(intersects(one, other)),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => Some(list.values().and_then(unwrapped)),
        (_, [Value::List(list), rest @ ..]) => on_list(function, list, rest),
        _ => None,
    }
}

fn on_list<'a>(function: &str, list: &List<'a>, rest: &[Value<'a>]) -> Option<Result<Value<'a>>> {
    Some(match (function, rest) {
        ("isSorted", []) => list.values().and_then(|values| pairs_in_order(&values).map(Value::Bool)),
        ("sum", []) => list.values().and_then(|values| sum(&values)),
        ("min" | "max", []) => list.values().and_then(|values| extreme(function, &values)),
        ("indexOf", [value]) => list.values().map(|values| place(values.iter().position(|one| one.equals(value)))),
        ("lastIndexOf", [value]) => list.values().map(|values| place(values.iter().rposition(|one| one.equals(value)))),
        ("first", []) => list.get(0).transpose().map(|value| value.map_or(Value::Optional(None), Value::some)),
        ("last", []) => {
            let last = list.len().checked_sub(1).and_then(|last| list.get(last));
            last.transpose().map(|value| value.map_or(Value::Optional(None), Value::some))
        }
        ("slice", [Value::Int(start), Value::Int(end)]) => slice(list, *start, *end),
        ("flatten", []) => flattened(list, 1).map(Value::list),
        ("flatten", [Value::Int(depth)]) if *depth < 0 => Err(Fault::new("level must be non-negative")),
        ("flatten", [Value::Int(depth)]) => flattened(list, *depth).map(Value::list),
        ("sort", []) => list.values().and_then(|values| sorted(&values, &values)),
        ("@sortByAssociatedKeys", [Value::List(keys)]) => {
            list.values().and_then(|values| sorted(&values, &keys.values()?))
        }
        ("reverse", []) => list.values().map(|values| Value::list(values.into_iter().rev().collect())),
        ("distinct", []) => list.values().map(|values| Value::list(distinct(values))),
        _ => return None,
    })
}

fn range<'a>(count: i64) -> Result<Value<'a>> {
    if count < 0 {
        return Err(Fault::new(format!("lists.range: size must be non-negative, got {count}")));
    }
    if count > LONGEST_RANGE {
        let text = format!("lists.range: size {count} exceeds maximum allowed ({LONGEST_RANGE})");
        return Err(Fault::new(text));
    }
    Ok(Value::list((0..count).map(Value::Int).collect()))
}

/// Whether every item of `some` is in `all`.
fn within(some: &List<'_>, all: &List<'_>) -> Result<bool> {
    for value in some.values()? {
        if !all.contains(&value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(one: &List<'a>, other: &List<'a>) -> Result<Value<'a>> {
    for value in one.values()? {
        if other.contains(&value)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn unwrapped(values: Vec<Value<'_>>) -> Result<Value<'_>> {
    let mut inner = Vec::new();
    for value in values {
        match value {
            Value::Optional(value) => inner.extend(value.map(|value| (*value).clone())),
            other => return Err(Fault::new(format!("value {} is not optional", super::show::plain(&other)))),
        }
    }
    Ok(Value::list(inner))
}

fn place<'a>(at: Option<usize>) -> Value<'a> {
    Value::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn order(one: &Value<'_>, other: &Value<'_>) -> Result<Ordering> {
    one.compare(other).ok_or_else(Fault::no_overload)
}

fn pairs_in_order(values: &[Value<'_>]) -> Result<bool> {
    for pair in values.windows(2) {
        if order(&pair[0], &pair[1])? == Ordering::Greater {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sum<'a>(values: &[Value<'a>]) -> Result<Value<'a>> {
    let Some((first, rest)) = values.split_first() else { return Ok(Value::Int(0)) };
    rest.iter().try_fold(first.clone(), |sum, value| super::call("_+_", &[sum, value.clone()]))
}

fn extreme<'a>(function: &str, values: &[Value<'a>]) -> Result<Value<'a>> {
    let Some((first, rest)) = values.split_first() else {
        return Err(Fault::new(format!("{function} called on empty list")));
    };
    let better = if function == "min" { Ordering::Less } else { Ordering::Greater };
    let mut best = first;
    for value in rest {
        if order(value, best)? == better {
            best = value;
        }
    }
    Ok(best.clone())
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64) -> Result<Value<'a>> {
    let wrong = |why: String| Err(Fault::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return wrong("negative indexes not supported".to_owned());
    };
    if from > to {
        return wrong("start index must be less than or equal to end index".to_owned());
    }
    if to > list.len() {
        return wrong(format!("list is length {}", list.len()));
    }
    let values: Result<Vec<_>> = (from..to).filter_map(|index| list.get(index)).collect();
    values.map(Value::list)
}

fn flattened<'a>(list: &List<'a>, depth: i64) -> Result<Vec<Value<'a>>> {
    let mut flat = Vec::new();
    for value in list.values()? {
        match value {
            Value::List(inner) if depth > 0 => flat.extend(flattened(&inner, depth - 1)?),
            other => flat.push(other),
        }
    }
    Ok(flat)
}

fn sorted<'a>(values: &[Value<'a>], keys: &[Value<'a>]) -> Result<Value<'a>> {
    if let Some(first) = keys.first() {
        if first.compare(first).is_none() && !first.is_number() {
            return Err(Fault::new("list elements must be comparable"));
        }
        if keys.iter().any(|key| key.type_name() != first.type_name()) {
            return Err(Fault::new("list elements must have the same type"));
        }
    }
    let mut places: Vec<usize> = (0..values.len().min(keys.len())).collect();
    places.sort_by(|one, other| keys[*one].compare(&keys[*other]).unwrap_or(Ordering::Equal));
    Ok(Value::list(places.into_iter().map(|place| values[place].clone()).collect()))
}

fn distinct(values: Vec<Value<'_>>) -> Vec<Value<'_>> {
    let mut unique: Vec<Value<'_>> = Vec::new();
    for value in values {
        if !unique.iter().any(|known| known.equals(&value)) {
            unique.push(value);
        }
    }
    unique
}

/// Adds an entry, or the entries of a map, that are not there yet.
pub(crate) fn insert<'a>(map: &mut BTreeMap<Key, (Value<'a>, Value<'a>)>, values: Vec<Value<'a>>) -> Result<()> {
    let mut one = |key: Value<'a>, value: Value<'a>| {
        let of = Key::of(&key).ok_or_else(Fault::no_overload)?;
        if map.contains_key(&of) {
            let text = format!("insert failed: key {} already exists", super::show::plain(&key));
            return Err(Fault::new(text));
        }
        map.insert(of, (key, value));
        Ok(())
    };
    let mut values = values.into_iter();
    match (values.next(), values.next()) {
        (Some(key), Some(value)) => one(key, value),
        (Some(Value::Map(more)), None) => {
            for key in more.keys() {
                let value = more.get(&key).unwrap_or(Err(Fault::no_overload()))?;
                one(key, value)?;
            }
            Ok(())
        }
        _ => Err(Fault::no_overload()),
    }
}
