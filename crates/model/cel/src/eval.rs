//! Runs a checked expression, counting what it costs at every step, and stops when the budget is spent.

mod constants;
mod cost;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use constants::Constants;
use constants::constant;

use crate::ast::{ACCUMULATOR, Entry, Expr, ExprKind, Fold, Literal};
use crate::check::Checked;
use crate::cost::{LIST, MAP};
use crate::library;
use crate::value::{Fault, Key, List, Map, Result, Value};

/// A run.
pub(crate) struct Run<'p, 'a> {
    checked: &'p Checked,
    constants: &'p Constants,
    variables: Vec<(&'p str, Result<Value<'a>>)>,
    pub(crate) cost: u64,
    limit: u64,
    /// What was read and made, in bytes: the cost of some calls does not grow with it.
    work: usize,
}

/// How much work a run may do beyond its cost: some tenths of a second.
const MOST_WORK: usize = 500 << 20;

impl<'p, 'a> Run<'p, 'a> {
    pub(crate) fn new(
        checked: &'p Checked,
        constants: &'p Constants,
        variables: Vec<(&'p str, Result<Value<'a>>)>,
        limit: u64,
    ) -> Self {
        Self { checked, constants, variables, cost: 0, limit, work: 0 }
    }

    pub(crate) fn whole(&mut self) -> Result<Value<'a>> {
        let checked = self.checked;
        self.eval(&checked.expr)
    }

    fn charge(&mut self, cost: u64) -> Result<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Fault::Spent) } else { Ok(()) }
    }

    fn eval(&mut self, expr: &'p Expr) -> Result<Value<'a>> {
        self.eval_as(expr, true)
    }

    /// Evaluates. The first name of a path costs one, unless the path is a branch of a condition or an index: then only
    /// its other parts do (`counted` is false).
    fn eval_as(&mut self, expr: &'p Expr, counted: bool) -> Result<Value<'a>> {
        if let Some(value) = self.constants.values.get(&expr.id) {
            return Ok(value.clone());
        }
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(constant(literal)),
            ExprKind::Broken | ExprKind::Struct { .. } => Err(Fault::no_overload()),
            ExprKind::Ident(name) => {
                let value = self.variable(name);
                self.charge(u64::from(counted))?;
                value
            }
            ExprKind::Select { operand, field, test: true } => {
                let operand = self.operand(operand, true)?;
                Ok(Value::Bool(has(&operand, field)?))
            }
            ExprKind::Select { operand, field, test: false } => {
                let operand = self.operand(operand, counted)?;
                self.select(&operand, field)
            }
            ExprKind::List { elements, optional } => self.list(elements, optional),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Fold(fold) if fold.is_bind() => self.bind(fold),
            ExprKind::Fold(fold) => self.fold(fold),
            ExprKind::Call { target, function, args } => match (function.as_str(), args.as_slice()) {
                ("_&&_", [left, right]) => self.logic(left, right, false),
                ("_||_", [left, right]) => self.logic(left, right, true),
                ("_?_:_", [condition, yes, no]) => match self.eval(condition)? {
                    Value::Bool(true) => self.eval_as(yes, false),
                    Value::Bool(false) => self.eval_as(no, false),
                    _ => Err(Fault::no_overload()),
                },
                ("_[_]", [operand, index]) => self.index(operand, index, counted),
                ("_[?_]", [operand, index]) => self.optional_index(operand, index, counted),
                ("_?._", [operand, field]) => self.optional_select(operand, field, counted),
                ("@not_strictly_false", [arg]) => self.not_strictly_false(arg),
                ("@in", [value, _]) if self.constants.sets.contains_key(&expr.id) => {
                    let value = self.eval(value)?;
                    let set = self.constants.sets.get(&expr.id);
                    Ok(Value::Bool(Key::of(&value).is_some_and(|key| set.is_some_and(|set| set.contains(&key)))))
                }
                ("or" | "orValue", [other]) if target.is_some() => self.or(target.as_deref(), function, other),
                _ => self.call(expr, target.as_deref(), function, args),
            },
        }
    }

    fn variable(&mut self, name: &str) -> Result<Value<'a>> {
        match self.variables.iter().rev().find(|(known, _)| *known == name) {
            Some((_, value)) => value.clone(),
            None => Err(Fault::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// What a field or an index is taken of: part of the same path, or the start of one, which costs one.
    fn operand(&mut self, operand: &'p Expr, counted: bool) -> Result<Value<'a>> {
        let constant = self.constants.values.contains_key(&operand.id);
        if !constant && is_path(operand) {
            return self.eval_as(operand, counted);
        }
        let value = self.eval(operand);
        self.charge(u64::from(counted))?;
        value
    }

    fn select(&mut self, operand: &Value<'a>, field: &str) -> Result<Value<'a>> {
        if let Value::Optional(inner) = operand {
            let Some(inner) = inner else { return Ok(Value::Optional(None)) };
            if !has(inner, field)? {
                return Ok(Value::Optional(None));
            }
            return self.select(inner, field).map(Value::some);
        }
        self.charge(1)?;
        let Value::Map(map) = operand else { return Err(missing(field)) };
        map.member(field).unwrap_or_else(|| Err(missing(field)))
    }

    fn index(&mut self, operand: &'p Expr, index: &'p Expr, counted: bool) -> Result<Value<'a>> {
        let operand = self.operand(operand, counted)?;
        let index = self.eval_as(index, false)?;
        if let Value::Optional(inner) = &operand {
            let Some(inner) = inner else { return Ok(Value::Optional(None)) };
            return match found(inner, &index) {
                None => Ok(Value::Optional(None)),
                Some(value) => self.charge(1).and(value).map(Value::some),
            };
        }
        self.charge(1)?;
        library::index(&operand, &index)
    }

    fn optional_index(&mut self, operand: &'p Expr, index: &'p Expr, counted: bool) -> Result<Value<'a>> {
        let operand = self.operand(operand, counted)?;
        let index = self.eval_as(index, false)?;
        let operand = match operand {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => (*inner).clone(),
            other => other,
        };
        match found(&operand, &index) {
            None => Ok(Value::Optional(None)),
            Some(value) => self.charge(1).and(value).map(Value::some),
        }
    }

    fn optional_select(&mut self, operand: &'p Expr, field: &Expr, counted: bool) -> Result<Value<'a>> {
        let operand = self.operand(operand, counted)?;
        let ExprKind::Literal(Literal::String(field)) = &field.kind else { return Err(Fault::no_overload()) };
        let operand = match operand {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => (*inner).clone(),
            other => other,
        };
        if !has(&operand, field)? {
            return Ok(Value::Optional(None));
        }
        self.select(&operand, field).map(Value::some)
    }

    /// `||` (with `decides`) and `&&`: a side that decides makes up for an error of the other.
    fn logic(&mut self, left: &'p Expr, right: &'p Expr, decides: bool) -> Result<Value<'a>> {
        let left = self.eval(left);
        match &left {
            Ok(Value::Bool(flag)) if *flag == decides => return left,
            Err(Fault::Spent) => return left,
            _ => {}
        }
        let right = self.eval(right);
        match &right {
            Ok(Value::Bool(flag)) if *flag == decides => return right,
            Err(Fault::Spent) => return right,
            _ => {}
        }
        match (left, right) {
            (Err(fault), _) | (Ok(Value::Bool(_)), Err(fault)) => Err(fault),
            (Ok(Value::Bool(_)), Ok(Value::Bool(_))) => Ok(Value::Bool(!decides)),
            _ => Err(Fault::no_overload()),
        }
    }

    fn not_strictly_false(&mut self, arg: &'p Expr) -> Result<Value<'a>> {
        let value = self.eval(arg);
        self.charge(1)?;
        match value {
            Err(Fault::Spent) => Err(Fault::Spent),
            Ok(Value::Bool(flag)) => Ok(Value::Bool(flag)),
            _ => Ok(Value::Bool(true)),
        }
    }

    fn or(&mut self, target: Option<&'p Expr>, function: &str, other: &'p Expr) -> Result<Value<'a>> {
        let Some(target) = target else { return Err(Fault::no_overload()) };
        match self.eval(target)? {
            Value::Optional(None) => self.eval(other),
            Value::Optional(Some(value)) if function == "orValue" => Ok((*value).clone()),
            some @ Value::Optional(_) => Ok(some),
            _ => Err(Fault::no_overload()),
        }
    }

    fn list(&mut self, elements: &'p [Expr], optional: &[bool]) -> Result<Value<'a>> {
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements.iter().zip(optional) {
            match (self.eval(element), optional) {
                (Err(fault), _) => return self.charge(LIST).and(Err(fault)),
                (Ok(Value::Optional(inner)), true) => values.extend(inner.map(|inner| (*inner).clone())),
                (Ok(value), _) => values.push(value),
            }
        }
        self.charge(LIST)?;
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'p [Entry]) -> Result<Value<'a>> {
        let mut map = BTreeMap::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let of = Key::of(&key).ok_or_else(|| Fault::new("unsupported key type"))?;
            let value = match (value, entry.optional) {
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(inner)), true) => (*inner).clone(),
                (value, _) => value,
            };
            map.insert(of, (key, value));
        }
        self.charge(MAP)?;
        Ok(Value::Map(Map::Own(Arc::new(map))))
    }

    fn bind(&mut self, fold: &'p Fold) -> Result<Value<'a>> {
        let value = self.eval(&fold.init);
        if value.as_ref().is_err_and(|fault| *fault == Fault::Spent) {
            return value;
        }
        self.variables.push((&fold.accu, value));
        let result = self.eval(&fold.result);
        self.variables.pop();
        result
    }

    fn fold(&mut self, fold: &'p Fold) -> Result<Value<'a>> {
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        let depth = self.variables.len();
        self.variables.push((&fold.accu, init));
        let outcome = self.turns(fold, &range, depth);
        self.variables.truncate(depth + 1);
        let result = outcome.and_then(|()| self.eval(&fold.result));
        self.variables.truncate(depth);
        result
    }

    fn turns(&mut self, fold: &'p Fold, range: &Value<'a>, depth: usize) -> Result<()> {
        let keys = match range {
            Value::List(_) => Vec::new(),
            Value::Map(map) => map.keys(),
            _ => return Err(Fault::no_overload()),
        };
        let count = if let Value::List(list) = range { list.len() } else { keys.len() };
        for turn in 0..count {
            let (first, second) = match range {
                Value::List(list) => {
                    let item = list.get(turn).unwrap_or(Err(Fault::no_overload()));
                    let index = Ok(Value::Int(i64::try_from(turn).unwrap_or(i64::MAX)));
                    if fold.var2.is_some() { (index, Some(item)) } else { (item, None) }
                }
                Value::Map(map) => {
                    let key = keys.get(turn).cloned().unwrap_or(Value::Null);
                    let value = fold.var2.as_ref().map(|_| map.get(&key).unwrap_or(Err(Fault::no_overload())));
                    (Ok(key), value)
                }
                _ => return Err(Fault::no_overload()),
            };
            self.variables.truncate(depth + 1);
            self.variables.push((&fold.var, first));
            if let (Some(name), Some(second)) = (&fold.var2, second) {
                self.variables.push((name, second));
            }
            if !matches!(self.eval(&fold.condition)?, Value::Bool(true)) {
                break;
            }
            let step = self.eval_as(&fold.step, true);
            if step.as_ref().is_err_and(|fault| *fault == Fault::Spent) {
                return Err(Fault::Spent);
            }
            self.variables[depth].1 = step;
        }
        Ok(())
    }

    fn call(
        &mut self,
        expr: &'p Expr,
        target: Option<&'p Expr>,
        function: &str,
        args: &'p [Expr],
    ) -> Result<Value<'a>> {
        if let Some(value) = self.gathered(function, args) {
            return value;
        }
        let mut values = Vec::with_capacity(args.len() + 1);
        let mut failed = None;
        // Both sides of an operator are evaluated, and paid for, even if one fails; more arguments are not.
        let few = args.len() + usize::from(target.is_some()) <= 2;
        for arg in target.into_iter().chain(args) {
            match self.eval(arg) {
                Ok(value) => values.push(value),
                Err(fault @ Fault::Error(_)) if few => {
                    failed.get_or_insert(fault);
                    values.push(Value::Null);
                }
                Err(fault) => return Err(fault),
            }
        }
        let overloads = self.checked.overloads(expr);
        let overload = if let [only] = overloads { only } else { "" };
        let result = failed.map_or_else(|| library::call(function, &values), Err);
        self.charge(cost::of(function, overload, &values, result.as_ref().ok()))?;
        let work: usize = values.iter().map(|value| bulk(value, 1)).sum();
        self.work = self.work.saturating_add(work).saturating_add(result.as_ref().map_or(0, |value| bulk(value, 8)));
        if self.work > MOST_WORK { Err(Fault::Spent) } else { result }
    }

    /// A step of `map`, `filter` and `transform…`: what is gathered grows in place, so that a loop stays linear.
    fn gathered(&mut self, function: &str, args: &'p [Expr]) -> Option<Result<Value<'a>>> {
        let (first, rest) = args.split_first()?;
        if !matches!(&first.kind, ExprKind::Ident(name) if name == ACCUMULATOR) {
            return None;
        }
        let place = self.variables.iter().rposition(|(name, _)| *name == ACCUMULATOR)?;
        match (function, &self.variables[place].1) {
            ("_+_", Ok(Value::List(List::Own(_)))) | ("cel.@mapInsert", Ok(Value::Map(Map::Own(_)))) => {}
            _ => return None,
        }
        let gathered = std::mem::replace(&mut self.variables[place].1, Err(Fault::no_overload()));
        Some(self.grow(gathered, rest))
    }

    fn grow(&mut self, gathered: Result<Value<'a>>, rest: &'p [Expr]) -> Result<Value<'a>> {
        self.charge(1)?;
        let mut values = Vec::with_capacity(rest.len());
        for arg in rest {
            match self.eval(arg) {
                Ok(value) => values.push(value),
                Err(fault) => return self.charge(1).and(Err(fault)),
            }
        }
        self.charge(1)?;
        match gathered? {
            Value::List(List::Own(mut list)) => {
                let [Value::List(more)] = values.as_slice() else { return Err(Fault::no_overload()) };
                Arc::make_mut(&mut list).extend(more.values()?);
                Ok(Value::List(List::Own(list)))
            }
            Value::Map(Map::Own(mut map)) => {
                library::lists::insert(Arc::make_mut(&mut map), values)?;
                Ok(Value::Map(Map::Own(map)))
            }
            _ => Err(Fault::no_overload()),
        }
    }
}

/// The bytes of a value, as far as they are looked at or copied; `weight` is what making one costs.
fn bulk(value: &Value<'_>, weight: usize) -> usize {
    match value {
        Value::String(text) => text.len().saturating_mul(weight),
        Value::Bytes(bytes) => bytes.len().saturating_mul(weight),
        Value::List(list) => list.len().saturating_mul(8 * weight),
        Value::Map(map) => map.len().saturating_mul(8 * weight),
        _ => 0,
    }
}

/// Whether it is a path or chooses between paths: what the real server calls an attribute.
fn is_path(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Ident(_) | ExprKind::Select { test: false, .. } => true,
        ExprKind::Call { function, target: None, .. } => {
            matches!(function.as_str(), "_[_]" | "_[?_]" | "_?._" | "_?_:_")
        }
        _ => false,
    }
}

fn missing(key: &str) -> Fault {
    Fault::new(format!("no such key: {key}"))
}

fn has(operand: &Value<'_>, field: &str) -> Result<bool> {
    match operand {
        Value::Map(map) => Ok(map.member(field).is_some()),
        Value::Optional(Some(inner)) => has(inner, field),
        Value::Optional(None) => Ok(false),
        _ => Err(missing(field)),
    }
}

/// What an optional index finds.
fn found<'a>(operand: &Value<'a>, index: &Value<'_>) -> Option<Result<Value<'a>>> {
    match (operand, index) {
        (Value::Map(map), _) => map.get(index),
        (Value::List(list), Value::Int(index)) => usize::try_from(*index).ok().and_then(|index| list.get(index)),
        _ => Some(library::index(operand, index)),
    }
}
