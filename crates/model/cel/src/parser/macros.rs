//! Macros: calls that stand for a loop, a presence test or a binding.

use super::Parser;
use crate::ast::{ACCUMULATOR, Expr, ExprKind, Fold, Literal};
use crate::source::Issue;

/// A loop that never runs has this variable.
const UNUSED: &str = "#unused";
/// What `sortBy` calls the list it sorts.
const SORTED: &str = "@__sortBy_input__";

/// The parts of a loop that differ from macro to macro.
struct Body {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

impl Parser {
    pub(super) fn call_or_macro(&mut self, at: usize, name: &str, mut args: Vec<Expr>) -> Expr {
        if name == "has" && args.len() == 1 {
            let arg = args.remove(0);
            let place = arg.at;
            return match arg.kind {
                ExprKind::Select { operand, field, test: false } => {
                    self.node(at, ExprKind::Select { operand, field, test: true })
                }
                ExprKind::Broken => arg,
                _ => self.refuse(place, "invalid argument to has() macro"),
            };
        }
        self.call(at, name, args)
    }

    pub(super) fn method_or_macro(&mut self, at: usize, name: &str, target: Expr, args: Vec<Expr>) -> Expr {
        match (name, args.len()) {
            ("all" | "exists" | "exists_one", 2 | 3) | ("existsOne", 3) => self.quantifier(at, name, target, args),
            ("map", 2 | 3) | ("filter", 2) => self.map_or_filter(at, name, target, args),
            ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => self.transform(at, name, target, args),
            ("optMap" | "optFlatMap", 2) => self.opt_map(at, name, target, args),
            ("sortBy", 2) => self.sort_by(at, target, args),
            _ => {
                let target = Some(Box::new(target));
                self.node(at, ExprKind::Call { target, function: name.to_owned(), args })
            }
        }
    }

    fn refuse(&mut self, at: usize, text: impl Into<String>) -> Expr {
        self.issues.push(Issue::new(at, text));
        self.node(at, ExprKind::Broken)
    }

    fn constant(&mut self, at: usize, literal: Literal) -> Expr {
        self.node(at, ExprKind::Literal(literal))
    }

    fn accu(&mut self, at: usize) -> Expr {
        self.node(at, ExprKind::Ident(ACCUMULATOR.to_owned()))
    }

    fn list_of(&mut self, at: usize, elements: Vec<Expr>) -> Expr {
        let optional = vec![false; elements.len()];
        self.node(at, ExprKind::List { elements, optional })
    }

    /// A variable of a loop: a simple name that is not the accumulator's.
    fn variable(&mut self, arg: &Expr, otherwise: &str) -> Result<String, Expr> {
        match &arg.kind {
            ExprKind::Ident(name) if name == "__result__" => {
                Err(self.refuse(arg.at, "iteration variable overwrites accumulator variable"))
            }
            ExprKind::Ident(name) => Ok(name.clone()),
            ExprKind::Broken => Err(arg.clone()),
            _ => Err(self.refuse(arg.at, otherwise)),
        }
    }

    /// The two variables of a loop with index or key.
    fn variables(&mut self, args: &[Expr]) -> Result<(String, String), Expr> {
        let simple = "argument must be a simple name";
        let first = self.variable(&args[0], simple)?;
        let second = self.variable(&args[1], simple)?;
        if first == second {
            return Err(self.refuse(args[1].at, format!("duplicate variable name: {first}")));
        }
        Ok((first, second))
    }

    fn fold(&mut self, at: usize, range: Expr, var: String, var2: Option<String>, body: Body) -> Expr {
        let Body { init, condition, step, result } = body;
        let accu = ACCUMULATOR.to_owned();
        self.node(at, ExprKind::Fold(Box::new(Fold { range, var, var2, accu, init, condition, step, result })))
    }

    fn quantifier(&mut self, at: usize, name: &str, target: Expr, mut args: Vec<Expr>) -> Expr {
        let Some(predicate) = args.pop() else { return target };
        let named = if args.len() == 2 {
            self.variables(&args).map(|(first, second)| (first, Some(second)))
        } else {
            self.variable(&args[0], "argument must be a simple name").map(|first| (first, None))
        };
        let (var, var2) = match named {
            Ok(named) => named,
            Err(broken) => return broken,
        };
        let body = match name {
            "all" => {
                let accu = self.accu(at);
                let condition = self.call(at, "@not_strictly_false", vec![accu]);
                let accu = self.accu(at);
                let step = self.call(at, "_&&_", vec![accu, predicate]);
                Body { init: self.constant(at, Literal::Bool(true)), condition, step, result: self.accu(at) }
            }
            "exists" => {
                let accu = self.accu(at);
                let not = self.call(at, "!_", vec![accu]);
                let condition = self.call(at, "@not_strictly_false", vec![not]);
                let accu = self.accu(at);
                let step = self.call(at, "_||_", vec![accu, predicate]);
                Body { init: self.constant(at, Literal::Bool(false)), condition, step, result: self.accu(at) }
            }
            _ => self.counter(at, predicate),
        };
        self.fold(at, target, var, var2, body)
    }

    /// Counts the hits: exactly one must be.
    fn counter(&mut self, at: usize, predicate: Expr) -> Body {
        let one = self.constant(at, Literal::Int(1));
        let accu = self.accu(at);
        let more = self.call(at, "_+_", vec![accu, one]);
        let accu = self.accu(at);
        let step = self.call(at, "_?_:_", vec![predicate, more, accu]);
        let one = self.constant(at, Literal::Int(1));
        let accu = self.accu(at);
        let result = self.call(at, "_==_", vec![accu, one]);
        let init = self.constant(at, Literal::Int(0));
        let condition = self.constant(at, Literal::Bool(true));
        Body { init, condition, step, result }
    }

    fn map_or_filter(&mut self, at: usize, name: &str, target: Expr, mut args: Vec<Expr>) -> Expr {
        let var = match self.variable(&args[0], "argument is not an identifier") {
            Ok(var) => var,
            Err(broken) => return broken,
        };
        let (filter, value) = if name == "filter" {
            (args.pop(), args.pop())
        } else {
            let value = args.pop();
            (if args.len() == 2 { args.pop() } else { None }, value)
        };
        let Some(value) = value else { return target };
        let body = self.collector(at, filter, value);
        self.fold(at, target, var, None, body)
    }

    /// Gathers values in a list.
    fn collector(&mut self, at: usize, filter: Option<Expr>, value: Expr) -> Body {
        let one = self.list_of(at, vec![value]);
        let accu = self.accu(at);
        let step = self.call(at, "_+_", vec![accu, one]);
        let step = self.filtered(at, filter, step);
        let init = self.list_of(at, Vec::new());
        Body { init, condition: self.constant(at, Literal::Bool(true)), step, result: self.accu(at) }
    }

    fn filtered(&mut self, at: usize, filter: Option<Expr>, step: Expr) -> Expr {
        let Some(filter) = filter else { return step };
        let accu = self.accu(at);
        self.call(at, "_?_:_", vec![filter, step, accu])
    }

    fn transform(&mut self, at: usize, name: &str, target: Expr, mut args: Vec<Expr>) -> Expr {
        let (var, var2) = match self.variables(&args[..2]) {
            Ok(variables) => variables,
            Err(broken) => return broken,
        };
        let Some(value) = args.pop() else { return target };
        let filter = if args.len() == 3 { args.pop() } else { None };
        if name == "transformList" {
            let body = self.collector(at, filter, value);
            return self.fold(at, target, var, Some(var2), body);
        }
        let mut inserted = vec![self.accu(at)];
        if name == "transformMap" {
            inserted.push(self.node(at, ExprKind::Ident(var.clone())));
        }
        inserted.push(value);
        let step = self.call(at, "cel.@mapInsert", inserted);
        let step = self.filtered(at, filter, step);
        let init = self.node(at, ExprKind::Map(Vec::new()));
        let body = Body { init, condition: self.constant(at, Literal::Bool(true)), step, result: self.accu(at) };
        self.fold(at, target, var, Some(var2), body)
    }

    /// A name for a value inside `result`.
    fn bind(&mut self, at: usize, name: &str, value: Expr, result: Expr) -> Expr {
        let range = self.list_of(at, Vec::new());
        let condition = self.constant(at, Literal::Bool(false));
        let step = self.node(at, ExprKind::Ident(name.to_owned()));
        let (var, var2, accu) = (UNUSED.to_owned(), None, name.to_owned());
        self.node(at, ExprKind::Fold(Box::new(Fold { range, var, var2, accu, init: value, condition, step, result })))
    }

    fn opt_map(&mut self, at: usize, name: &str, target: Expr, mut args: Vec<Expr>) -> Expr {
        let Some(value) = args.pop() else { return target };
        let ExprKind::Ident(var) = &args[0].kind else {
            return self.refuse(args[0].at, format!("{name}() variable name must be a simple identifier"));
        };
        let copy = self.copied(&target);
        let method = |parser: &mut Self, target: Expr, function: &str| {
            let kind = ExprKind::Call { target: Some(Box::new(target)), function: function.to_owned(), args: vec![] };
            parser.node(at, kind)
        };
        let condition = method(self, target, "hasValue");
        let unwrapped = method(self, copy, "value");
        let mut bound = self.bind(at, var, unwrapped, value);
        if name == "optMap" {
            bound = self.call(at, "optional.of", vec![bound]);
        }
        let none = self.call(at, "optional.none", Vec::new());
        self.call(at, "_?_:_", vec![condition, bound, none])
    }

    fn sort_by(&mut self, at: usize, target: Expr, args: Vec<Expr>) -> Expr {
        if matches!(target.kind, ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct { .. }) {
            let text = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.refuse(target.at, text);
        }
        let sorted = self.node(at, ExprKind::Ident(SORTED.to_owned()));
        let keys = self.map_or_filter(at, "map", sorted, args);
        if matches!(keys.kind, ExprKind::Broken) {
            return keys;
        }
        let list = self.node(at, ExprKind::Ident(SORTED.to_owned()));
        let kind = ExprKind::Call {
            target: Some(Box::new(list)),
            function: "@sortByAssociatedKeys".to_owned(),
            args: vec![keys],
        };
        let call = self.node(at, kind);
        self.bind(at, SORTED, target, call)
    }

    /// The same tree with numbers of its own.
    fn copied(&mut self, expr: &Expr) -> Expr {
        // Each `optMap` doubles what stands before it.
        if self.ids > super::MOST_NODES {
            return self.refuse(expr.at, "expression is too large once its macros are expanded");
        }
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        expr.id = self.ids;
        self.ids += 1;
        match &mut expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Broken => {}
            ExprKind::Select { operand, .. } => self.renumber(operand),
            ExprKind::Call { target, args, .. } => {
                target.as_deref_mut().into_iter().chain(args).for_each(|child| self.renumber(child));
            }
            ExprKind::List { elements, .. } => elements.iter_mut().for_each(|child| self.renumber(child)),
            ExprKind::Struct { fields, .. } => fields.iter_mut().for_each(|child| self.renumber(child)),
            ExprKind::Map(entries) => entries.iter_mut().for_each(|entry| {
                self.renumber(&mut entry.key);
                self.renumber(&mut entry.value);
            }),
            ExprKind::Fold(fold) => {
                let Fold { range, init, condition, step, result, .. } = &mut **fold;
                [range, init, condition, step, result].into_iter().for_each(|child| self.renumber(child));
            }
        }
    }
}
