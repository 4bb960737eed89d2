//! From characters to tokens.

use crate::source::Issue;

/// A token and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) at: usize,
    pub(crate) text: String,
}

/// The sort of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An operator, bracket or word of the language: `text` says which.
    Sign,
    Ident,
    EscapedIdent,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    End,
}

impl Token {
    pub(crate) fn is(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    /// As messages call it.
    pub(crate) fn shown(&self) -> String {
        if self.kind == Kind::End {
            return "<EOF>".to_owned();
        }
        self.text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
    }
}

const SIGNS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*", "/", "%",
    "<", ">",
];

/// Splits the source; the last token is [`Kind::End`].
pub(crate) fn tokens(source: &[char]) -> (Vec<Token>, Vec<Issue>) {
    let mut lexer = Lexer { source, at: 0 };
    let (mut tokens, mut issues) = (Vec::new(), Vec::new());
    loop {
        lexer.skip_blanks();
        let start = lexer.at;
        if start >= source.len() {
            tokens.push(Token { kind: Kind::End, at: start, text: String::new() });
            return (tokens, issues);
        }
        match lexer.token() {
            Some(kind) => tokens.push(Token { kind, at: start, text: source[start..lexer.at].iter().collect() }),
            None => {
                // `at` is the character that fits nothing; it belongs to the message and is skipped.
                let end = (lexer.at + 1).min(source.len());
                let text: String = source[start..end].iter().collect();
                let text = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
                issues.push(Issue::new(start, format!("Syntax error: token recognition error at: '{text}'")));
                lexer.at = end;
            }
        }
    }
}

struct Lexer<'s> {
    source: &'s [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.source.get(self.at + ahead).copied()
    }

    fn skip_blanks(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('\t' | ' ' | '\r' | '\n' | '\u{c}'), _) => self.at += 1,
                (Some('/'), Some('/')) => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// The next token; `None` leaves `at` where nothing fits.
    fn token(&mut self) -> Option<Kind> {
        let first = self.peek(0)?;
        if let Some(kind) = self.text_start() {
            return self.text(kind);
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return Some(self.number());
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let start = self.at;
            self.skip(|c| c.is_ascii_alphanumeric() || c == '_');
            let word: String = self.source[start..self.at].iter().collect();
            let sign = matches!(word.as_str(), "in" | "true" | "false" | "null");
            return Some(if sign { Kind::Sign } else { Kind::Ident });
        }
        if first == '`' {
            return self.escaped_ident();
        }
        for sign in SIGNS {
            let length = sign.len();
            let found: String = self.source[self.at..].iter().take(length).collect();
            if found == sign {
                self.at += length;
                return Some(Kind::Sign);
            }
        }
        if matches!(first, '&' | '|' | '=') {
            self.at += 1;
        }
        None
    }

    fn skip(&mut self, fits: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&fits) {
            self.at += 1;
        }
    }

    fn escaped_ident(&mut self) -> Option<Kind> {
        self.at += 1;
        let start = self.at;
        self.skip(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' '));
        if self.peek(0) != Some('`') || self.at == start {
            return None;
        }
        self.at += 1;
        Some(Kind::EscapedIdent)
    }

    fn number(&mut self) -> Kind {
        let hex = self.peek(0) == Some('0')
            && self.peek(1) == Some('x')
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit());
        if hex {
            self.at += 2;
            self.skip(|c| c.is_ascii_hexdigit());
            return self.unsigned(Kind::Int);
        }
        self.skip(|c| c.is_ascii_digit());
        let mut kind = Kind::Int;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
            self.skip(|c| c.is_ascii_digit());
            kind = Kind::Float;
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                self.at += 1 + sign;
                self.skip(|c| c.is_ascii_digit());
                kind = Kind::Float;
            }
        }
        if kind == Kind::Int { self.unsigned(kind) } else { kind }
    }

    fn unsigned(&mut self, otherwise: Kind) -> Kind {
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return Kind::Uint;
        }
        otherwise
    }

    /// Whether a string or bytes begin here: the sort, the length of the prefix, and whether it is raw.
    fn text_start(&self) -> Option<(Kind, usize, bool)> {
        let quote = |at: usize| matches!(self.peek(at), Some('"' | '\''));
        let raw = |at: usize| matches!(self.peek(at), Some('r' | 'R'));
        let bytes = matches!(self.peek(0), Some('b' | 'B'));
        match () {
            () if quote(0) => Some((Kind::String, 0, false)),
            () if raw(0) && quote(1) => Some((Kind::String, 1, true)),
            () if bytes && quote(1) => Some((Kind::Bytes, 1, false)),
            () if bytes && raw(1) && quote(2) => Some((Kind::Bytes, 2, true)),
            () => None,
        }
    }

    fn text(&mut self, (kind, prefix, raw): (Kind, usize, bool)) -> Option<Kind> {
        self.at += prefix;
        let quote = self.peek(0)?;
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        self.at += if triple { 3 } else { 1 };
        loop {
            let c = self.peek(0)?;
            let closes = c == quote && (!triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote)));
            if closes {
                self.at += if triple { 3 } else { 1 };
                return Some(kind);
            }
            match c {
                '\n' | '\r' if !triple => return None,
                '\\' if !raw => self.escape()?,
                _ => self.at += 1,
            }
        }
    }

    /// An escape sequence; `None` at the character that does not belong to one.
    fn escape(&mut self) -> Option<()> {
        self.at += 1;
        let digits = match self.peek(0)? {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => 0,
            'x' | 'X' => 2,
            'u' => 4,
            'U' => 8,
            '0'..='3' => {
                for ahead in 1..3 {
                    if !self.peek(ahead).is_some_and(|c| matches!(c, '0'..='7')) {
                        self.at += ahead;
                        return None;
                    }
                }
                self.at += 3;
                return Some(());
            }
            _ => return None,
        };
        self.at += 1;
        for _ in 0..digits {
            if !self.peek(0)?.is_ascii_hexdigit() {
                return None;
            }
            self.at += 1;
        }
        Some(())
    }
}
