//! The most that an expression may cost, from the declared sizes of what it looks at.
//!
//! The rules are those of cel-go and of kube-apiserver: the same definitions must be refused, with the same factor.

mod calls;

use std::collections::HashMap;

use crate::ast::{ACCUMULATOR, Expr, ExprKind, Fold, Literal};
use crate::check::Checked;
use crate::declared::Declared;
use crate::types::Type;

pub(crate) const TRAVERSAL: f64 = 0.1;
pub(crate) const PATTERN: f64 = 0.25;
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;

/// From … to …, of a size or of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Span {
    pub(crate) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(crate) const fn fixed(of: u64) -> Self {
        Self { min: of, max: of }
    }

    fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scaled(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Rounded up; too large is the largest.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "floats as the real server reckons, and float to integer saturates"
)]
pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

/// Sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Span,
    value: Span,
}

impl Entries {
    fn union(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (one, other) = (one?, other?);
        Some(Self { is_list: one.is_list, key: one.key.union(other.key), value: one.value.union(other.value) })
    }
}

#[derive(Clone, Debug)]
struct Local {
    path: Vec<String>,
    size: Option<Span>,
    entries: Option<Entries>,
}

/// What an argument of a call is known by.
struct Node {
    path: Vec<String>,
    size: Option<Span>,
    of: Type,
    literal: Option<Literal>,
    entries: Option<Entries>,
}

/// Estimates the most an expression costs.
pub(crate) fn estimate(checked: &Checked, declared: &Declared) -> u64 {
    let mut coster = Coster {
        checked,
        declared,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: HashMap::new(),
    };
    coster.cost(&checked.expr).max
}

struct Coster<'c> {
    checked: &'c Checked,
    declared: &'c Declared,
    paths: HashMap<usize, Vec<String>>,
    sizes: HashMap<usize, Span>,
    entries: HashMap<usize, Entries>,
    locals: HashMap<String, Vec<Local>>,
}

impl Coster<'_> {
    fn cost(&mut self, expr: &Expr) -> Span {
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Broken => Span::fixed(0),
            ExprKind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                Span::fixed(1)
            }
            ExprKind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::List { elements, .. } => {
                let mut value = if elements.is_empty() { Span::fixed(0) } else { Span { min: u64::MAX, max: 0 } };
                let mut sum = Span::fixed(LIST);
                for element in elements {
                    sum = sum.add(self.cost(element));
                    value = value.union(self.size_or_unknown(element));
                }
                self.entries.insert(expr.id, Entries { is_list: true, key: Span::fixed(1), value });
                sum
            }
            ExprKind::Map(entries) => {
                let start = if entries.is_empty() { Span::fixed(0) } else { Span { min: u64::MAX, max: 0 } };
                let (mut key, mut value, mut sum) = (start, start, Span::fixed(MAP));
                for entry in entries {
                    sum = sum.add(self.cost(&entry.key)).add(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, Entries { is_list: false, key, value });
                sum
            }
            ExprKind::Struct { fields, .. } => {
                fields.iter().fold(Span::fixed(40), |sum, field| sum.add(self.cost(field)))
            }
            ExprKind::Fold(fold) if fold.is_bind() => self.bind(expr, fold),
            ExprKind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name).and_then(|stack| stack.last())
    }

    fn push(&mut self, name: &str, local: Local) {
        self.locals.entry(name.to_owned()).or_default().push(local);
    }

    fn pop(&mut self, name: &str) {
        self.locals.get_mut(name).map(Vec::pop);
    }

    fn path(&self, expr: &Expr) -> Vec<String> {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool) -> Span {
        let sum = self.cost(operand);
        if test {
            return sum;
        }
        let mut path = self.path(operand);
        path.push(field.to_owned());
        self.paths.insert(expr.id, path);
        let counts = matches!(self.checked.type_of(operand), Type::Map(..) | Type::Object(_) | Type::Param(_));
        sum.add(Span::fixed(u64::from(counts)))
    }

    fn size(&mut self, expr: &Expr) -> Option<Span> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = written_size(expr) {
            return Some(Span::fixed(size));
        }
        let path = self.path(expr);
        if let Some(size) = self.declared_size(&path) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if self.checked.type_of(expr).is_scalar() {
            return Some(Span::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Span {
        self.size(expr).unwrap_or(Span::UNKNOWN)
    }

    /// The size that the schema gives for a path, which begins with a variable.
    fn declared_size(&self, path: &[String]) -> Option<Span> {
        let (_, rest) = path.split_first()?;
        Some(Span { min: 0, max: self.declared.at_path(rest)? })
    }

    fn entry_sizes(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        }
    }

    fn node(&mut self, expr: &Expr) -> Node {
        let mut path = self.path(expr);
        if path.first().is_some_and(|first| first == ACCUMULATOR || first == "__result__") {
            path.clear();
        }
        let literal = match &expr.kind {
            ExprKind::Literal(literal) => Some(literal.clone()),
            _ => None,
        };
        let of = self.checked.type_of(expr).clone();
        Node { path, size: self.size(expr), of, literal, entries: self.entry_sizes(expr) }
    }

    fn call(&mut self, expr: &Expr) -> Span {
        let ExprKind::Call { target, function, args } = &expr.kind else { return Span::fixed(0) };
        if function == "dyn"
            && let Some(arg) = args.first()
        {
            let cost = self.cost(arg);
            self.copy_sizes(expr, arg);
            return cost.add(Span::fixed(1));
        }
        let costs: Vec<Span> = args.iter().map(|arg| self.cost(arg)).collect();
        let nodes: Vec<Node> = args.iter().map(|arg| self.node(arg)).collect();
        let checked = self.checked;
        let overloads = checked.overloads(expr);
        if overloads.is_empty() {
            return Span::fixed(0);
        }
        let sum = target.as_deref().map_or(Span::fixed(0), |target| self.cost(target));
        let target = target.as_deref().map(|target| self.node(target));
        let mut cost = Span { min: u64::MAX, max: 0 };
        let mut size: Option<Span> = None;
        for overload in overloads {
            let estimate = self.overload_cost(expr, function, overload, target.as_ref(), &nodes, &costs);
            cost = cost.union(estimate.cost);
            size = match (size, estimate.size) {
                (Some(one), Some(other)) => Some(one.union(other)),
                (one, other) => one.or(other),
            };
            let part = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(part), Some(arg)) = (part, args.first()) {
                size = self.entry_sizes(arg).map(|entries| entries.value);
                let mut path = self.path(arg);
                path.push(part.to_owned());
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        sum.add(cost)
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entry_sizes(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn bind(&mut self, expr: &Expr, fold: &Fold) -> Span {
        let sum = self.cost(&fold.range).add(self.cost(&fold.init));
        self.push_accu(fold);
        let sum = sum.add(self.cost(&fold.result));
        self.pop(&fold.accu);
        self.copy_sizes(expr, &fold.result);
        sum
    }

    fn push_accu(&mut self, fold: &Fold) {
        let local =
            Local { path: self.path(&fold.init), entries: self.entry_sizes(&fold.init), size: self.size(&fold.init) };
        self.push(&fold.accu, local);
    }

    fn fold(&mut self, expr: &Expr, fold: &Fold) -> Span {
        let mut sum = self.cost(&fold.range).add(self.cost(&fold.init));
        self.push_accu(fold);
        let entries = self.entry_sizes(&fold.range);
        let is_list =
            entries.map_or(matches!(self.checked.type_of(&fold.range), Type::List(_)), |entries| entries.is_list);
        let path = self.path(&fold.range);
        let part = |name: &str, size: Option<Span>| {
            let mut path = path.clone();
            path.push(name.to_owned());
            Local { path, size, entries: None }
        };
        let key = entries.map(|entries| entries.key);
        let value = entries.map(|entries| entries.value);
        match &fold.var2 {
            Some(var2) => {
                self.push(&fold.var, part(if is_list { "@indices" } else { "@keys" }, key));
                self.push(var2, part(if is_list { "@items" } else { "@values" }, value));
            }
            None if is_list => self.push(&fold.var, part("@items", value)),
            None => self.push(&fold.var, part("@keys", key)),
        }
        let step = self.cost(&fold.condition).add(self.cost(&fold.step));
        self.pop(&fold.var);
        if let Some(var2) = &fold.var2 {
            self.pop(var2);
        }
        sum = sum.add(self.cost(&fold.result));
        self.pop(&fold.accu);
        let count = self.size_or_unknown(&fold.range);
        match &fold.init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.sizes.insert(expr.id, count);
                if let Some(entries) = self.entry_sizes(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        sum.add(count.times(step))
    }
}

/// The size of a constant, list or map that is written out.
fn written_size(expr: &Expr) -> Option<u64> {
    let size = match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count(),
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExprKind::Literal(_) => 1,
        ExprKind::List { elements, .. } => elements.len(),
        ExprKind::Map(entries) => entries.len(),
        _ => return None,
    };
    u64::try_from(size).ok()
}
