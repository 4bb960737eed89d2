//! Types of all parts of an expression, found by unification, with the messages of cel-go.

pub(crate) mod functions;
mod literals;

use std::sync::Arc;

use crate::ast::{Entry, Expr, ExprKind, Fold, Literal};
use crate::declared::{self, Declared, Shape};
use crate::parser::Parsed;
use crate::source::Issue;
use crate::types::{Bindings, Type, most_general};
use functions::Overload;

/// What a name or a call means.
#[derive(Clone, Debug)]
pub(crate) enum Reference {
    /// A variable, or a variable of a loop.
    Variable,
    /// The name of a type.
    Type,
    /// One of these overloads, which one is decided when it runs.
    Overloads(Vec<&'static str>),
}

/// A tree with types.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) expr: Expr,
    pub(crate) types: Vec<Type>,
    pub(crate) references: Vec<Option<Reference>>,
    /// Variables of the environment that occur in it.
    pub(crate) used: Vec<String>,
}

impl Checked {
    pub(crate) fn overloads(&self, expr: &Expr) -> &[&'static str] {
        match self.references.get(expr.id) {
            Some(Some(Reference::Overloads(ids))) => ids,
            _ => &[],
        }
    }

    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id).unwrap_or(&Type::Dyn)
    }
}

/// Checks a parsed expression against variables with declared types.
pub(crate) fn check(parsed: Parsed, variables: &[(&str, Type, &Declared)]) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        variables,
        scopes: Vec::new(),
        types: vec![None; parsed.nodes],
        references: vec![None; parsed.nodes],
        used: Vec::new(),
        bindings: Bindings::default(),
        fresh: 0,
        issues: Vec::new(),
    };
    let mut expr = parsed.expr;
    checker.check(&mut expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let settle = |one: &Option<Type>| one.as_ref().map_or(Type::Dyn, |one| checker.bindings.resolve(one, true));
    let types = checker.types.iter().map(settle).collect();
    let checked = Checked { expr, types, references: checker.references, used: checker.used };
    let issues = literals::check(&checked);
    if issues.is_empty() { Ok(checked) } else { Err(issues) }
}

struct Checker<'v> {
    variables: &'v [(&'v str, Type, &'v Declared)],
    scopes: Vec<(String, Type)>,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    used: Vec<String>,
    bindings: Bindings,
    fresh: usize,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn complain(&mut self, at: usize, text: String) {
        self.issues.push(Issue::new(at, text));
    }

    fn of(&self, expr: &Expr) -> Type {
        self.types.get(expr.id).cloned().flatten().unwrap_or(Type::Dyn)
    }

    fn set(&mut self, expr: &Expr, to: Type) {
        self.types[expr.id] = Some(to);
    }

    fn fresh(&mut self) -> Type {
        self.fresh += 1;
        Type::Param(format!("_var{}", self.fresh - 1).into())
    }

    fn check(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Broken => self.set(expr, Type::Error),
            ExprKind::Literal(literal) => {
                let of = match literal {
                    Literal::Null => Type::Null,
                    Literal::Bool(_) => Type::Bool,
                    Literal::Int(_) => Type::Int,
                    Literal::Uint(_) => Type::Uint,
                    Literal::Double(_) => Type::Double,
                    Literal::String(_) => Type::String,
                    Literal::Bytes(_) => Type::Bytes,
                };
                self.set(expr, of);
            }
            ExprKind::Ident(_) => self.check_ident(expr),
            ExprKind::Select { .. } => self.check_select(expr),
            ExprKind::Call { .. } => self.check_call(expr),
            ExprKind::List { .. } => self.check_list(expr),
            ExprKind::Map(entries) => {
                let of = self.map_type(entries);
                self.set(expr, of);
            }
            ExprKind::Struct { name, .. } => {
                let text = format!("undeclared reference to '{name}' (in container '')");
                self.complain(expr.at, text);
                self.set(expr, Type::Error);
            }
            ExprKind::Fold(fold) => {
                let of = self.fold_type(fold);
                self.set(expr, of);
            }
        }
    }

    fn lookup(&mut self, name: &str) -> Option<(Type, Reference)> {
        let plain = name.trim_start_matches('.');
        if let Some((_, of)) = self.scopes.iter().rev().find(|(scoped, _)| scoped == name) {
            return Some((of.clone(), Reference::Variable));
        }
        if let Some((_, of, _)) = self.variables.iter().find(|(variable, ..)| *variable == plain) {
            if !self.used.iter().any(|used| used == plain) {
                self.used.push(plain.to_owned());
            }
            return Some((of.clone(), Reference::Variable));
        }
        let of = functions::named(plain).filter(|_| plain != "dyn")?;
        Some((self.instantiated(&of), Reference::Type))
    }

    fn check_ident(&mut self, expr: &Expr) {
        let ExprKind::Ident(name) = &expr.kind else { return };
        let name = name.clone();
        if let Some((of, reference)) = self.lookup(&name) {
            self.set(expr, of);
            self.references[expr.id] = Some(reference);
        } else {
            self.complain(expr.at, format!("undeclared reference to '{name}' (in container '')"));
            self.set(expr, Type::Error);
        }
    }

    fn check_select(&mut self, expr: &mut Expr) {
        if let Some(name) = qualified(expr)
            && let Some(of) = functions::named(&name)
        {
            expr.kind = ExprKind::Ident(name);
            self.set(expr, of);
            self.references[expr.id] = Some(Reference::Type);
            return;
        }
        let (id, at) = (expr.id, expr.at);
        let ExprKind::Select { operand, field, test } = &mut expr.kind else { return };
        let (field, test) = (field.clone(), *test);
        let of = self.field_type(at, operand, &field, false);
        self.types[id] = Some(if test { Type::Bool } else { self.bindings.resolve(&of, false) });
    }

    /// The type of a field of an operand.
    fn field_type(&mut self, at: usize, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let of = self.bindings.resolve(&self.of(operand), false);
        let (target, was_optional) = of.unwrapped();
        let found = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(name) => match self.object_field(name, field) {
                Some(found) => found,
                None => {
                    self.complain(at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Param(_) => {
                self.bindings.assign(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.complain(at, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if was_optional || optional { Type::optional(found) } else { found }
    }

    fn object_field(&self, object: &str, field: &str) -> Option<Type> {
        let (_, _, declared) = self.variables.first()?;
        match &declared.find(object)?.shape {
            Shape::Object(fields) => {
                declared::field(fields, field).map(|(name, one)| one.declared.cel_type(&format!("{object}.{name}")))
            }
            _ => None,
        }
    }

    fn check_call(&mut self, expr: &mut Expr) {
        let (id, at) = (expr.id, expr.at);
        let ExprKind::Call { target, function, args } = &mut expr.kind else { return };
        if function == "_?._" {
            let field = match args.get(1).map(|arg| &arg.kind) {
                Some(ExprKind::Literal(Literal::String(field))) => field.to_string(),
                _ => String::new(),
            };
            let of = self.field_type(at, &mut args[0], &field, true);
            self.types[id] = Some(self.bindings.resolve(&of, false));
            self.references[id] = Some(Reference::Overloads(vec!["select_optional_field"]));
            return;
        }
        args.iter_mut().for_each(|arg| self.check(arg));
        if let Some(receiver) = target {
            let prefix = qualified_name(receiver).map(|prefix| format!("{prefix}.{function}"));
            match prefix.as_deref().and_then(functions::name) {
                // A function with a dotted name, not a method.
                Some(name) => {
                    *function = name.to_owned();
                    *target = None;
                }
                None => self.check(receiver),
            }
        }
        let Some(overloads) = functions::overloads(function) else {
            let text = format!("undeclared reference to '{function}' (in container '')");
            self.complain(at, text);
            self.types[id] = Some(Type::Error);
            return;
        };
        let member = target.is_some();
        let given: Vec<Type> = target.as_deref().into_iter().chain(&*args).map(|arg| self.of(arg)).collect();
        if matches!(function.as_str(), "_&&_" | "_||_") {
            self.check_logic(id, overloads, &given, &[args[0].at, args[1].at]);
            return;
        }
        let function = function.clone();
        self.resolve(id, at, &function, overloads, member, &given);
    }

    fn check_logic(&mut self, id: usize, overloads: &[Overload], given: &[Type], places: &[usize]) {
        let mut of = Type::Bool;
        for (one, at) in given.iter().zip(places) {
            if !self.bindings.assign(one, &Type::Bool) {
                self.complain(*at, format!("expected type 'bool' but found '{one}'"));
                of = Type::Error;
            }
        }
        self.types[id] = Some(of);
        self.references[id] = Some(Reference::Overloads(vec![overloads[0].id]));
    }

    fn resolve(&mut self, id: usize, at: usize, name: &str, overloads: &[Overload], member: bool, given: &[Type]) {
        let mut ids = Vec::new();
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let (args, of) = self.signature(overload);
            if !self.bindings.assign_all(given, &args) {
                continue;
            }
            ids.push(overload.id);
            let of = self.bindings.resolve(&of, false);
            result = Some(match result {
                None => of,
                Some(before) if before == Type::Dyn || before == of => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            self.types[id] = Some(result);
            self.references[id] = Some(Reference::Overloads(ids));
            return;
        }
        let given: Vec<String> = given.iter().map(|one| self.bindings.resolve(one, true).to_string()).collect();
        let shown = match given.split_first() {
            Some((target, args)) if member => format!("{target}.({})", args.join(", ")),
            _ => format!("({})", given.join(", ")),
        };
        self.complain(at, format!("found no matching overload for '{name}' applied to '{shown}'"));
        self.types[id] = Some(Type::Error);
    }

    /// The arguments and the result of an overload, with parameters of its own.
    fn signature(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        if overload.parameters.is_empty() {
            return (overload.args.clone(), overload.result.clone());
        }
        let fresh: Vec<(Arc<str>, Type)> =
            overload.parameters.iter().map(|name| (Arc::clone(name), self.fresh())).collect();
        let args = overload.args.iter().map(|one| replaced(one, &fresh)).collect();
        (args, replaced(&overload.result, &fresh))
    }

    fn instantiated(&mut self, of: &Type) -> Type {
        let fresh: Vec<(Arc<str>, Type)> = ["A", "B", "V"].map(|name| (Arc::from(name), self.fresh())).into();
        replaced(of, &fresh)
    }

    fn check_list(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::List { elements, optional } = &mut expr.kind else { return };
        let mut joined = None;
        for (element, optional) in elements.iter_mut().zip(&*optional) {
            self.check(element);
            let of = self.element_type(element, *optional);
            joined = Some(self.join(joined, of));
        }
        let of = joined.unwrap_or_else(|| self.fresh());
        self.types[id] = Some(Type::list(of));
    }

    /// The type of an element or value, which `?` unwraps.
    fn element_type(&mut self, expr: &Expr, optional: bool) -> Type {
        let of = self.of(expr);
        if !optional {
            return of;
        }
        let (inner, was_optional) = of.unwrapped();
        let inner = inner.clone();
        if !was_optional && inner != Type::Dyn {
            let text = format!("expected type '{}' but found '{inner}'", Type::optional(inner.clone()));
            self.complain(expr.at, text);
        }
        inner
    }

    fn map_type(&mut self, entries: &mut [Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            keys = Some(self.join(keys, self.of(&entry.key)));
            self.check(&mut entry.value);
            let of = self.element_type(&entry.value, entry.optional);
            values = Some(self.join(values, of));
        }
        let key = keys.unwrap_or_else(|| self.fresh());
        Type::map(key, values.unwrap_or_else(|| self.fresh()))
    }

    /// The common type of the elements of a list or map; that they differ is told later.
    fn join(&mut self, before: Option<Type>, of: Type) -> Type {
        let Some(before) = before else { return of };
        if self.bindings.assign(&before, &of) { most_general(&before, &of).clone() } else { Type::Dyn }
    }

    fn fold_type(&mut self, fold: &mut Fold) -> Type {
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = self.bindings.resolve(&self.of(&fold.range), false);
        let accu = self.of(&fold.init);
        let two = fold.var2.is_some();
        let (first, second) = match &range {
            Type::List(of) if two => (Type::Int, (**of).clone()),
            Type::List(of) => ((**of).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.bindings.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.complain(fold.range.at, text);
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push((fold.accu.clone(), accu.clone()));
        let outer = self.scopes.len();
        self.scopes.push((fold.var.clone(), first));
        if let Some(var2) = &fold.var2 {
            self.scopes.push((var2.clone(), second));
        }
        self.check(&mut fold.condition);
        self.assert(&fold.condition, &Type::Bool);
        self.check(&mut fold.step);
        self.assert(&fold.step, &accu);
        self.scopes.truncate(outer);
        self.check(&mut fold.result);
        self.scopes.truncate(outer - 1);
        self.bindings.resolve(&self.of(&fold.result), false)
    }

    fn assert(&mut self, expr: &Expr, wanted: &Type) {
        let found = self.of(expr);
        if !self.bindings.assign(wanted, &found) {
            self.complain(expr.at, format!("expected type '{wanted}' but found '{found}'"));
        }
    }
}

fn replaced(of: &Type, by: &[(Arc<str>, Type)]) -> Type {
    match of {
        Type::Param(name) => {
            by.iter().find(|(known, _)| known == name).map_or_else(|| of.clone(), |(_, fresh)| fresh.clone())
        }
        Type::List(of) => Type::list(replaced(of, by)),
        Type::Map(key, value) => Type::map(replaced(key, by), replaced(value, by)),
        Type::Type(Some(of)) => Type::Type(Some(Arc::new(replaced(of, by)))),
        Type::Opaque(name, of) => Type::Opaque(name, of.iter().map(|one| replaced(one, by)).collect()),
        other => other.clone(),
    }
}

/// `a.b.c` of names only, for a selection.
fn qualified(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Select { .. } => qualified_name(expr),
        _ => None,
    }
}

/// `a` or `a.b.c` of names only.
fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.clone()),
        ExprKind::Select { operand, field, test: false } => Some(format!("{}.{field}", qualified_name(operand)?)),
        _ => None,
    }
}
