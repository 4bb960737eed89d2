//! The tree that the parser makes, with macros already expanded.

use std::sync::Arc;

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// Its place in the tables of the checker; every node has its own.
    pub(crate) id: usize,
    /// Where it stands in the source, in characters.
    pub(crate) at: usize,
    pub(crate) kind: ExprKind,
}

/// What an expression does.
#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    Call {
        target: Option<Box<Expr>>,
        function: String,
        args: Vec<Expr>,
    },
    List {
        elements: Vec<Expr>,
        optional: Vec<bool>,
    },
    Map(Vec<Entry>),
    Struct {
        name: String,
        fields: Vec<Expr>,
    },
    Fold(Box<Fold>),
    /// Left over from a mistake that is already told.
    Broken,
}

/// An entry of a map that is written out.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A loop over a list or a map: what `all`, `map`, `filter`… become.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    pub(crate) var: String,
    pub(crate) var2: Option<String>,
    pub(crate) accu: String,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// The variable in which a macro's loop gathers its result. No source can name it.
pub(crate) const ACCUMULATOR: &str = "@result";

impl Fold {
    /// A loop that never runs and only gives a name to a value (`sortBy`, `optMap`).
    pub(crate) fn is_bind(&self) -> bool {
        let empty = matches!(&self.range.kind, ExprKind::List { elements, .. } if elements.is_empty());
        empty && matches!(self.condition.kind, ExprKind::Literal(Literal::Bool(false))) && self.accu != "__result__"
    }
}
