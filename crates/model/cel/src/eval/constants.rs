//! What is the same in every run, computed once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::ast::{Entry, Expr, ExprKind, Literal};
use crate::check::{Checked, Reference};
use crate::library;
use crate::value::{Fault, Key, Map, Text, Value};

/// Parts of an expression that are the same in every run.
#[derive(Debug, Default)]
pub(crate) struct Constants {
    pub(super) values: HashMap<usize, Value<'static>>,
    /// The lists that `in` looks into.
    pub(super) sets: HashMap<usize, HashSet<Key>>,
}

impl Constants {
    /// Finds and computes them. An error is one that every run would have.
    pub(crate) fn find(checked: &Checked) -> std::result::Result<Self, String> {
        let mut constants = Self::default();
        constants.visit(&checked.expr, checked)?;
        Ok(constants)
    }

    fn visit(&mut self, expr: &Expr, checked: &Checked) -> std::result::Result<(), String> {
        match &expr.kind {
            ExprKind::Literal(literal) => {
                self.values.insert(expr.id, constant(literal));
            }
            ExprKind::Ident(name) => {
                if matches!(checked.references.get(expr.id), Some(Some(Reference::Type))) {
                    let name = type_name(name).ok_or_else(|| format!("reference to undefined type: {name}"))?;
                    self.values.insert(expr.id, Value::Type(name));
                }
            }
            ExprKind::Broken => {}
            ExprKind::Select { operand, .. } => self.visit(operand, checked)?,
            ExprKind::Struct { fields, .. } => fields.iter().try_for_each(|field| self.visit(field, checked))?,
            ExprKind::Fold(fold) => [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result]
                .into_iter()
                .try_for_each(|part| self.visit(part, checked))?,
            ExprKind::List { elements, optional } => {
                elements.iter().try_for_each(|element| self.visit(element, checked))?;
                let values: Option<Vec<_>> = elements.iter().map(|element| self.of(element).cloned()).collect();
                if let Some(values) = values.filter(|_| !optional.contains(&true)) {
                    self.values.insert(expr.id, Value::list(values));
                }
            }
            ExprKind::Map(entries) => self.visit_map(expr, entries, checked)?,
            ExprKind::Call { target, function, args } => {
                target.as_deref().into_iter().chain(args).try_for_each(|arg| self.visit(arg, checked))?;
                self.visit_call(expr, target.as_deref(), function, args, checked)?;
            }
        }
        Ok(())
    }

    pub(super) fn of(&self, expr: &Expr) -> Option<&Value<'static>> {
        self.values.get(&expr.id)
    }

    fn visit_map(&mut self, expr: &Expr, entries: &[Entry], checked: &Checked) -> std::result::Result<(), String> {
        let mut map = BTreeMap::new();
        let mut constant = true;
        for entry in entries {
            self.visit(&entry.key, checked)?;
            self.visit(&entry.value, checked)?;
            match (self.of(&entry.key), self.of(&entry.value)) {
                (Some(key), Some(value)) if !entry.optional => match Key::of(key) {
                    Some(of) => drop(map.insert(of, (key.clone(), value.clone()))),
                    None => constant = false,
                },
                _ => constant = false,
            }
        }
        if constant {
            self.values.insert(expr.id, Value::Map(Map::Own(Arc::new(map))));
        }
        Ok(())
    }

    fn visit_call(
        &mut self,
        expr: &Expr,
        target: Option<&Expr>,
        function: &str,
        args: &[Expr],
        checked: &Checked,
    ) -> std::result::Result<(), String> {
        match (function, args) {
            (
                "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint",
                [arg],
            ) => {
                let Some(value) = self.of(arg).cloned() else { return Ok(()) };
                let value = library::call(function, &[value]).map_err(|fault| match fault {
                    Fault::Error(text) => text,
                    Fault::Spent => String::new(),
                })?;
                self.values.insert(expr.id, value);
            }
            ("@in", [_, list]) if checked.overloads(expr) == ["in_list"] => {
                let Some(Value::List(list)) = self.of(list).cloned() else { return Ok(()) };
                if list.len() == 0 {
                    self.values.insert(expr.id, Value::Bool(false));
                    return Ok(());
                }
                let values = list.values().unwrap_or_default();
                let keys: Option<HashSet<Key>> = values.iter().map(Key::of).collect();
                self.sets.extend(keys.map(|keys| (expr.id, keys)));
            }
            // A pattern that is known is judged before anything runs.
            ("matches" | "find" | "findAll", _) => {
                let at = usize::from(target.is_none());
                if let Some(Value::String(pattern)) = args.get(at).and_then(|arg| self.of(arg)) {
                    library::pattern::compile(pattern)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

pub(super) fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(flag) => Value::Bool(*flag),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::String(text) => Value::String(Text::Shared(Arc::clone(text))),
        Literal::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
    }
}

/// A type's name as a value shows it; `None` if it is only a word for one.
fn type_name(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 14] = [
        "bool",
        "bytes",
        "double",
        "google.protobuf.Duration",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "google.protobuf.Timestamp",
        "type",
        "uint",
        "optional_type",
        "net.IP",
    ];
    let name = name.trim_start_matches('.');
    NAMES.into_iter().chain(["net.CIDR"]).find(|known| *known == name)
}
