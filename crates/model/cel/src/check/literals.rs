//! What is wrong with constants that a checker of types cannot see: durations, timestamps, patterns, format strings,
//! and lists and maps of mixed types.

use super::Checked;
use crate::ast::{Expr, ExprKind, Literal};
use crate::library::{format, pattern, time};
use crate::source::Issue;
use crate::types::Type;

/// Looks at every literal and every call with one.
pub(super) fn check(checked: &Checked) -> Vec<Issue> {
    let mut checker = Checker { checked, issues: Vec::new() };
    checker.visit(&checked.expr, false);
    checker.issues
}

struct Checker<'c> {
    checked: &'c Checked,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    /// `free` inside of the arguments of `format`: there types may be mixed.
    fn visit(&mut self, expr: &Expr, free: bool) {
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Broken => {}
            ExprKind::Select { operand, .. } => self.visit(operand, free),
            ExprKind::List { elements, optional } => {
                elements.iter().for_each(|element| self.visit(element, free));
                if !free {
                    self.alike(elements.iter().zip(optional.iter().copied()));
                }
            }
            ExprKind::Struct { fields, .. } => fields.iter().for_each(|field| self.visit(field, free)),
            ExprKind::Map(entries) => {
                for entry in entries {
                    self.visit(&entry.key, free);
                    self.visit(&entry.value, free);
                }
                if !free {
                    self.alike(entries.iter().map(|entry| (&entry.key, false)));
                    self.alike(entries.iter().map(|entry| (&entry.value, entry.optional)));
                }
            }
            ExprKind::Fold(fold) => {
                for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                    self.visit(part, free);
                }
            }
            ExprKind::Call { target, function, args } => {
                let free = free || function == "format";
                target.as_deref().into_iter().chain(args).for_each(|arg| self.visit(arg, free));
                self.check_call(expr.at, function, target.as_deref(), args);
            }
        }
    }

    /// All must have the type of the first.
    fn alike<'e>(&mut self, elements: impl Iterator<Item = (&'e Expr, bool)>) {
        let mut first: Option<Type> = None;
        for (element, optional) in elements {
            let of = self.checked.type_of(element);
            let of = if optional { of.unwrapped().0 } else { of };
            match &first {
                None => first = Some(of.clone()),
                Some(first) if equivalent(first, of) => {}
                Some(first) => {
                    let text = format!("expected type '{first}' but found '{of}'");
                    self.issues.push(Issue::new(element.at, text));
                    return;
                }
            }
        }
    }

    fn check_call(&mut self, at: usize, function: &str, target: Option<&Expr>, args: &[Expr]) {
        let Some(last) = args.last() else { return };
        let text = |expr: &Expr| match &expr.kind {
            ExprKind::Literal(Literal::String(text)) => Some(text.to_string()),
            _ => None,
        };
        match (function, text(last)) {
            ("duration", Some(value)) if time::parse_duration(&value).is_none() => {
                self.issues.push(Issue::new(last.at, "invalid duration argument"));
            }
            ("timestamp", Some(value)) if time::parse_timestamp(&value).is_err() => {
                self.issues.push(Issue::new(last.at, "invalid timestamp argument"));
            }
            ("matches", Some(value)) if pattern::compile(&value).is_err() => {
                self.issues.push(Issue::new(last.at, "invalid matches argument"));
            }
            ("format", None) => {
                if let (Some(clauses), ExprKind::List { elements, .. }) = (target.and_then(text), &last.kind) {
                    self.check_format(at, &clauses, elements);
                }
            }
            _ => {}
        }
    }

    fn check_format(&mut self, at: usize, clauses: &str, elements: &[Expr]) {
        let verbs = match format::check(clauses, elements.len()) {
            Ok(verbs) => verbs,
            Err(why) => return self.issues.push(Issue::new(at, why)),
        };
        for (verb, element) in verbs.into_iter().zip(elements) {
            let of = self.checked.type_of(element);
            if !format::fits(verb, of) {
                let why = format!("error during formatting: {}, was given {of}", format::wanted(verb));
                return self.issues.push(Issue::new(element.at, why));
            }
        }
    }
}

/// The same type, apart from parts that are not known.
fn equivalent(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn, _) | (_, Type::Dyn) => one == other,
        (Type::List(one), Type::List(other)) => equivalent(one, other),
        (Type::Map(ka, va), Type::Map(kb, vb)) => equivalent(ka, kb) && equivalent(va, vb),
        _ => one == other,
    }
}
