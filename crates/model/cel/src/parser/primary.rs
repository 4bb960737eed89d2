//! What an expression begins with: names, literals, and what stands in brackets.

use super::{Parser, RESERVED, text};
use crate::ast::{Entry, Expr, ExprKind, Literal};
use crate::lexer::{Kind, Token};
use crate::source::Issue;

impl Parser {
    pub(super) fn primary(&mut self) -> Option<Expr> {
        let token = self.peek().clone();
        match token.kind {
            Kind::Sign => self.bracketed(&token),
            Kind::Ident => self.named("", token.at),
            Kind::End | Kind::EscapedIdent => {
                self.at_expr("")?;
                None
            }
            _ => {
                self.take();
                Some(self.literal(&token, false))
            }
        }
    }

    fn bracketed(&mut self, token: &Token) -> Option<Expr> {
        let constant = match token.text.as_str() {
            "true" => Literal::Bool(true),
            "false" => Literal::Bool(false),
            "null" => Literal::Null,
            "(" => {
                self.take();
                let expr = self.expr("")?;
                self.expect(")", "')'")?;
                return Some(expr);
            }
            "[" => return self.list(),
            "{" => return self.map(),
            "-" => {
                self.take();
                if !matches!(self.peek().kind, Kind::Int | Kind::Float) {
                    self.complain(format!("no viable alternative at input '-{}'", self.peek().text));
                    return None;
                }
                let number = self.take();
                let mut literal = self.literal(&number, true);
                literal.at = token.at;
                return Some(literal);
            }
            "." => {
                self.take();
                if self.peek().kind == Kind::Ident {
                    return self.named(".", token.at);
                }
                self.complain(format!("no viable alternative at input '.{}'", self.peek().text));
                return None;
            }
            _ => {
                self.at_expr("")?;
                return None;
            }
        };
        self.take();
        Some(self.node(token.at, ExprKind::Literal(constant)))
    }

    /// A variable, a function call or a message.
    pub(super) fn named(&mut self, dot: &str, at: usize) -> Option<Expr> {
        if let Some(message) = self.message(dot) {
            return message;
        }
        let token = self.take();
        if RESERVED.contains(&token.text.as_str()) {
            self.issues.push(Issue::new(at, format!("reserved identifier: {}", token.text)));
            if self.take_sign("(").is_some() {
                self.arguments()?;
            }
            return Some(self.node(at, ExprKind::Broken));
        }
        let name = format!("{dot}{}", token.text);
        if let Some(open) = self.take_sign("(") {
            let args = self.arguments()?;
            return Some(self.call_or_macro(open.at, &name, args));
        }
        Some(self.node(token.at, ExprKind::Ident(name)))
    }

    /// `a.b.C{field: value}`; `None` if it is something else.
    fn message(&mut self, dot: &str) -> Option<Option<Expr>> {
        let mut ahead = 0;
        while self.peek_at(ahead).kind == Kind::Ident && self.peek_at(ahead + 1).is(".") {
            ahead += 2;
        }
        if self.peek_at(ahead).kind != Kind::Ident || !self.peek_at(ahead + 1).is("{") {
            return None;
        }
        let mut name = dot.to_owned();
        for _ in 0..=ahead {
            name.push_str(&self.take().text);
        }
        let open = self.take();
        Some(self.fields().map(|fields| self.node(open.at, ExprKind::Struct { name, fields })))
    }

    /// The values of a message's fields.
    fn fields(&mut self) -> Option<Vec<Expr>> {
        let mut fields = Vec::new();
        loop {
            if self.take_sign("}").is_some() {
                return Some(fields);
            }
            let _ = self.take_sign("?");
            if !matches!(self.peek().kind, Kind::Ident | Kind::EscapedIdent) {
                self.complain(format!("mismatched input '{}' expecting '}}'", self.peek().shown()));
                return None;
            }
            self.take();
            self.expect(":", "':'")?;
            fields.push(self.expr("")?);
            if self.take_sign(",").is_none() {
                self.expect("}", "{'}', ','}")?;
                return Some(fields);
            }
        }
    }

    fn list(&mut self) -> Option<Expr> {
        let open = self.take();
        let (mut elements, mut optional) = (Vec::new(), Vec::new());
        loop {
            if self.take_sign("]").is_some() {
                break;
            }
            if !elements.is_empty() && self.peek().kind == Kind::End {
                self.complain("missing ']' at '<EOF>'");
                return None;
            }
            let is_optional = self.take_sign("?").is_some();
            elements.push(self.expr(if is_optional { "" } else { "]?" })?);
            optional.push(is_optional);
            if self.take_sign(",").is_none() {
                self.expect("]", "{']', ','}")?;
                break;
            }
        }
        Some(self.node(open.at, ExprKind::List { elements, optional }))
    }

    fn map(&mut self) -> Option<Expr> {
        let open = self.take();
        let mut entries = Vec::new();
        loop {
            if self.take_sign("}").is_some() {
                break;
            }
            let optional = self.take_sign("?").is_some();
            let key = self.expr("")?;
            self.expect(":", "':'")?;
            let value = self.expr("")?;
            entries.push(Entry { key, value, optional });
            if self.take_sign(",").is_none() {
                self.expect("}", "{'}', ','}")?;
                break;
            }
        }
        Some(self.node(open.at, ExprKind::Map(entries)))
    }

    pub(super) fn literal(&mut self, token: &Token, negative: bool) -> Expr {
        match text::literal(token, negative) {
            Ok(literal) => self.node(token.at, ExprKind::Literal(literal)),
            Err(why) => {
                let at = if negative { token.at.saturating_sub(1) } else { token.at };
                self.issues.push(Issue::new(at, why));
                self.node(token.at, ExprKind::Broken)
            }
        }
    }
}
