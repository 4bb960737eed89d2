//! From tokens to a tree: precedence climbing, with the messages of the grammar that cel-go uses.
//!
//! What a user mistypes is told in its words; after a mistake that cannot be skipped the rest is not looked at.

mod macros;
mod primary;
mod text;

use crate::ast::{Expr, ExprKind, Literal};
use crate::lexer::{self, Kind, Token};
use crate::source::Issue;

/// Most characters of an expression.
const MOST_CHARACTERS: usize = 100_000;
/// How deep rules of the grammar may nest.
const DEEPEST: usize = 250;
/// How deep the tree may be once macros are expanded: what recurses over it stays within a thread's stack.
const DEEPEST_TREE: usize = 200;
/// How deep expressions may stand in brackets; cel-go allows 250, on a stack that grows.
const DEEPEST_BRACKETS: usize = 100;
/// How many nodes a tree may have; only copies that macros make get near it.
const MOST_NODES: usize = 200_000;

/// What may begin an expression.
const STARTS: &str =
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A tree, and how many nodes were numbered.
pub(crate) struct Parsed {
    pub(crate) expr: Expr,
    pub(crate) nodes: usize,
}

/// Parses a whole expression.
pub(crate) fn parse(source: &[char]) -> Result<Parsed, Vec<Issue>> {
    if source.len() > MOST_CHARACTERS {
        let text = format!("expression code point size exceeds limit: size: {}, limit {MOST_CHARACTERS}", source.len());
        return Err(vec![Issue { at: None, text }]);
    }
    let (tokens, issues) = lexer::tokens(source);
    let mut parser = Parser { tokens, next: 0, issues, ids: 0, depth: [0; 4] };
    match parser.whole() {
        Some(expr) if parser.issues.is_empty() => Ok(Parsed { expr, nodes: parser.ids }),
        _ => Err(parser.issues),
    }
}

/// The rules of the grammar that may nest.
#[derive(Clone, Copy)]
enum Rule {
    Expr,
    Relation,
    Calc,
    Member,
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    issues: Vec<Issue>,
    ids: usize,
    depth: [usize; 4],
}

impl Parser {
    fn whole(&mut self) -> Option<Expr> {
        let expr = self.expr("")?;
        if self.peek().kind != Kind::End {
            let sort = if self.peek_at(1).kind == Kind::End { "extraneous" } else { "mismatched" };
            self.complain(format!("{sort} input '{}' expecting <EOF>", self.peek().shown()));
            return None;
        }
        if tree_depth(&expr) > DEEPEST_TREE {
            return self.too_deep("max recursion depth exceeded".to_owned());
        }
        Some(expr)
    }

    fn node(&mut self, at: usize, kind: ExprKind) -> Expr {
        let id = self.ids;
        self.ids += 1;
        Expr { id, at, kind }
    }

    fn call(&mut self, at: usize, function: &str, args: Vec<Expr>) -> Expr {
        self.node(at, ExprKind::Call { target: None, function: function.to_owned(), args })
    }

    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &Token {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.next + ahead).min(last)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn take_sign(&mut self, sign: &str) -> Option<Token> {
        self.peek().is(sign).then(|| self.take())
    }

    fn complain(&mut self, text: impl std::fmt::Display) {
        self.issues.push(Issue::new(self.peek().at, format!("Syntax error: {text}")));
    }

    fn too_deep<T>(&mut self, text: String) -> Option<T> {
        self.issues.push(Issue { at: None, text });
        None
    }

    /// Enters a rule; the counters say how deep each is nested, as the generated parser of cel-go counts.
    fn enter(&mut self, rule: Rule) -> Option<()> {
        self.depth[rule as usize] += 1;
        let most = if matches!(rule, Rule::Expr) { DEEPEST_BRACKETS } else { DEEPEST };
        if self.depth[rule as usize] > most {
            return self.too_deep(format!("expression recursion limit exceeded: {DEEPEST}"));
        }
        Some(())
    }

    fn leave(&mut self, rule: Rule, times: usize) {
        self.depth[rule as usize] -= times;
    }

    /// A sign that must come; what is too much is skipped, what is missing is told.
    fn expect(&mut self, sign: &str, expecting: &str) -> Option<Token> {
        if let Some(token) = self.take_sign(sign) {
            return Some(token);
        }
        if self.peek_at(1).is(sign) {
            self.complain(format!("extraneous input '{}' expecting {expecting}", self.peek().shown()));
            self.take();
            return Some(self.take());
        }
        let fills = matches!(sign, ")" | "]") && !expecting.contains(',') && !self.starts_expr(self.peek());
        let text = if fills {
            format!("missing '{sign}' at '{}'", self.peek().shown())
        } else {
            format!("mismatched input '{}' expecting {expecting}", self.peek().shown())
        };
        self.complain(text);
        None
    }

    fn starts_expr(&self, token: &Token) -> bool {
        match token.kind {
            Kind::Sign => {
                matches!(token.text.as_str(), "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null")
            }
            Kind::End | Kind::EscapedIdent => false,
            _ => true,
        }
    }

    /// Stands before an expression; `also` is what else may come here, as the grammar's name for it.
    fn at_expr(&mut self, also: &str) -> Option<()> {
        if self.starts_expr(self.peek()) {
            return Some(());
        }
        let set = match also {
            ")" => STARTS.replacen("'.'", "')', '.'", 1),
            "?" => STARTS.replacen("'!'", "'!', '?'", 1),
            "]?" => STARTS.replacen("'{'", "']', '{'", 1).replacen("'!'", "'!', '?'", 1),
            _ => STARTS.to_owned(),
        };
        let skippable = self.starts_expr(self.peek_at(1)) || (also == ")" && self.peek_at(1).is(")"));
        if skippable && self.peek().kind != Kind::End {
            self.complain(format!("extraneous input '{}' expecting {{{set}}}", self.peek().shown()));
            self.take();
            return self.starts_expr(self.peek()).then_some(());
        }
        let sort = if self.next > 0 && self.tokens[self.next - 1].is("!") { "extraneous" } else { "mismatched" };
        self.complain(format!("{sort} input '{}' expecting {{{set}}}", self.peek().shown()));
        None
    }

    /// `or ('?' or ':' expr)?`
    fn expr(&mut self, also: &str) -> Option<Expr> {
        self.at_expr(also)?;
        self.enter(Rule::Expr)?;
        let condition = self.logic("||")?;
        let expr = match self.take_sign("?") {
            None => condition,
            Some(question) => {
                self.at_expr("")?;
                let yes = self.logic("||")?;
                self.expect(":", "':'")?;
                let no = self.expr("")?;
                self.call(question.at, "_?_:_", vec![condition, yes, no])
            }
        };
        self.leave(Rule::Expr, 1);
        Some(expr)
    }

    /// A chain of `||` or `&&`, which becomes a balanced tree.
    fn logic(&mut self, sign: &str) -> Option<Expr> {
        let operand = |parser: &mut Self| if sign == "||" { parser.logic("&&") } else { parser.relation() };
        let mut terms = vec![operand(self)?];
        let mut places = Vec::new();
        while let Some(token) = self.take_sign(sign) {
            self.at_expr("")?;
            terms.push(operand(self)?);
            places.push(token.at);
        }
        let function = if sign == "||" { "_||_" } else { "_&&_" };
        let mut terms = terms.into_iter();
        Some(self.balanced(function, &places, &mut terms))
    }

    /// Takes one term more than there are places, in order.
    fn balanced(&mut self, function: &str, places: &[usize], terms: &mut std::vec::IntoIter<Expr>) -> Expr {
        if places.is_empty() {
            return terms.next().unwrap_or(Expr { id: 0, at: 0, kind: ExprKind::Broken });
        }
        let middle = places.len() / 2;
        let left = self.balanced(function, &places[..middle], terms);
        let right = self.balanced(function, &places[middle + 1..], terms);
        self.call(places[middle], function, vec![left, right])
    }

    fn relation(&mut self) -> Option<Expr> {
        self.enter(Rule::Relation)?;
        let mut left = self.calc(0)?;
        let mut links = 1;
        loop {
            let function = match self.peek().text.as_str() {
                "<" => "_<_",
                "<=" => "_<=_",
                ">=" => "_>=_",
                ">" => "_>_",
                "==" => "_==_",
                "!=" => "_!=_",
                "in" => "@in",
                _ => break,
            };
            if self.peek().kind != Kind::Sign {
                break;
            }
            let at = self.take().at;
            self.enter(Rule::Relation)?;
            links += 1;
            self.at_expr("")?;
            let right = self.calc(0)?;
            left = self.call(at, function, vec![left, right]);
        }
        self.leave(Rule::Relation, links);
        Some(left)
    }

    /// `+ -` bind looser (0) than `* / %` (1).
    fn calc(&mut self, tightness: u8) -> Option<Expr> {
        let unary = |parser: &mut Self| if tightness == 0 { parser.calc(1) } else { parser.unary() };
        // Both are one rule of the grammar.
        let mut links = usize::from(tightness == 0);
        if tightness == 0 {
            self.enter(Rule::Calc)?;
        }
        let mut left = unary(self)?;
        loop {
            let function = match (tightness, self.peek().text.as_str()) {
                (0, "+") => "_+_",
                (0, "-") => "_-_",
                (1, "*") => "_*_",
                (1, "/") => "_/_",
                (1, "%") => "_%_",
                _ => break,
            };
            if self.peek().kind != Kind::Sign {
                break;
            }
            let at = self.take().at;
            self.enter(Rule::Calc)?;
            links += 1;
            self.at_expr("")?;
            let right = unary(self)?;
            left = self.call(at, function, vec![left, right]);
        }
        self.leave(Rule::Calc, links);
        Some(left)
    }

    fn unary(&mut self) -> Option<Expr> {
        let sign = if self.peek().is("!") { "!" } else { "-" };
        let number = matches!(self.peek_at(1).kind, Kind::Int | Kind::Float);
        if !self.peek().is(sign) || (sign == "-" && number) {
            return self.member();
        }
        let at = self.peek().at;
        let mut count = 0;
        while self.take_sign(sign).is_some() {
            count += 1;
        }
        if sign == "-" && !self.starts_expr(self.peek()) {
            self.complain(format!("no viable alternative at input '-{}'", self.peek().text));
        }
        self.at_expr("")?;
        let operand = self.member()?;
        if count % 2 == 0 {
            return Some(operand);
        }
        Some(self.call(at, if sign == "!" { "!_" } else { "-_" }, vec![operand]))
    }

    fn member(&mut self) -> Option<Expr> {
        self.enter(Rule::Member)?;
        let mut expr = self.primary()?;
        let mut links = 1;
        loop {
            expr = if let Some(dot) = self.take_sign(".") {
                self.selected(expr, &dot)?
            } else if let Some(bracket) = self.take_sign("[") {
                let optional = self.take_sign("?").is_some();
                let index = self.expr(if optional { "" } else { "?" })?;
                self.expect("]", "']'")?;
                self.call(bracket.at, if optional { "_[?_]" } else { "_[_]" }, vec![expr, index])
            } else {
                break;
            };
            self.enter(Rule::Member)?;
            links += 1;
        }
        self.leave(Rule::Member, links);
        Some(expr)
    }

    /// What follows a dot: a field, an optional field or a method.
    fn selected(&mut self, operand: Expr, dot: &Token) -> Option<Expr> {
        let optional = self.take_sign("?").is_some();
        let token = self.peek().clone();
        let name = match token.kind {
            Kind::Ident => token.text.clone(),
            Kind::EscapedIdent => token.text.trim_matches('`').to_owned(),
            _ => {
                let reserved = matches!(token.text.as_str(), "true" | "false" | "null") && token.kind == Kind::Sign;
                self.complain(if reserved {
                    format!("mismatched input '{}' expecting IDENTIFIER", token.text)
                } else {
                    format!("no viable alternative at input '.{}'", token.text)
                });
                return None;
            }
        };
        self.take();
        if optional {
            let field = self.node(token.at, ExprKind::Literal(Literal::String(name.as_str().into())));
            return Some(self.call(dot.at, "_?._", vec![operand, field]));
        }
        if token.kind == Kind::Ident
            && let Some(open) = self.take_sign("(")
        {
            let args = self.arguments()?;
            return Some(self.method_or_macro(open.at, &name, operand, args));
        }
        Some(self.node(dot.at, ExprKind::Select { operand: Box::new(operand), field: name, test: false }))
    }

    /// After `(`, up to and with `)`.
    fn arguments(&mut self) -> Option<Vec<Expr>> {
        let mut args = Vec::new();
        if self.take_sign(")").is_some() {
            return Some(args);
        }
        args.push(self.expr(")")?);
        while self.take_sign(",").is_some() {
            args.push(self.expr("")?);
        }
        self.expect(")", "')'")?;
        Some(args)
    }
}

/// The depth of a tree, without recursion.
fn tree_depth(expr: &Expr) -> usize {
    let mut deepest = 0;
    let mut rest = vec![(expr, 1)];
    while let Some((expr, depth)) = rest.pop() {
        deepest = deepest.max(depth);
        let mut push = |child| rest.push((child, depth + 1));
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) | ExprKind::Broken => {}
            ExprKind::Select { operand, .. } => push(operand),
            ExprKind::Call { target, args, .. } => target.as_deref().into_iter().chain(args).for_each(push),
            ExprKind::List { elements, .. } => elements.iter().for_each(push),
            ExprKind::Struct { fields, .. } => fields.iter().for_each(push),
            ExprKind::Map(entries) => entries.iter().for_each(|entry| {
                rest.push((&entry.key, depth + 1));
                rest.push((&entry.value, depth + 1));
            }),
            ExprKind::Fold(fold) => {
                [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result].into_iter().for_each(push);
            }
        }
    }
    deepest
}
