//! Classes in brackets, and of Unicode.

use super::{Translator, mistake};

/// A class of nothing.
pub(super) const NOTHING: &str = "[^\\x{0}-\\x{10FFFF}]";

const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// Scripts whose names have four letters, as the codes of all the others have, which Go does not know.
const FOUR_LETTERS: [&str; 8] = ["ahom", "cham", "kawi", "lisu", "miao", "newa", "thai", "toto"];

/// The classes that an escape names, as they are written inside brackets.
pub(super) fn perl(escape: char) -> Option<&'static str> {
    Some(match escape {
        'd' => "0-9",
        'D' => "[^0-9]",
        'w' => "0-9A-Za-z_",
        'W' => "[^0-9A-Za-z_]",
        's' => "\\t\\n\\f\\r\\x{20}",
        'S' => "[^\\t\\n\\f\\r\\x{20}]",
        _ => return None,
    })
}

impl Translator<'_> {
    /// `[…]`.
    pub(super) fn class(&mut self) -> Result<(), String> {
        let whole = self.rest;
        let negated = whole.starts_with("[^");
        self.rest = &whole[if negated { 2 } else { 1 }..];
        self.out.push_str(if negated { "[^" } else { "[" });
        // So that it is never empty for the regex crate.
        self.out.push_str(NOTHING);
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            if !self.posix()? && !self.unicode()? && !self.perl() {
                self.range(whole)?;
            }
        }
        self.rest = &self.rest[1..];
        self.out.push(']');
        Ok(())
    }

    /// `[:alpha:]`: whether there is one.
    fn posix(&mut self) -> Result<bool, String> {
        let Some(end) = self.rest.strip_prefix("[:").and_then(|rest| rest.find(":]")) else { return Ok(false) };
        let said = &self.rest[..end + 4];
        let name = &said[2..end + 2];
        if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return mistake("invalid character class range", said);
        }
        self.copy(said.len());
        Ok(true)
    }

    /// `\d` and its like: whether there is one.
    fn perl(&mut self) -> bool {
        let escaped = self.rest.strip_prefix('\\').and_then(|rest| rest.chars().next());
        let Some(class) = escaped.and_then(perl) else { return false };
        self.out.push_str(class);
        self.rest = &self.rest[2..];
        true
    }

    /// One character, or two and all between them.
    fn range(&mut self, whole: &str) -> Result<(), String> {
        let here = self.rest;
        let low = self.class_character(whole)?;
        let mut high = low;
        if self.rest.len() > 1 && self.rest.starts_with('-') && !self.rest.starts_with("-]") {
            self.rest = &self.rest[1..];
            high = self.class_character(whole)?;
            if high < low {
                return mistake("invalid character class range", &here[..here.len() - self.rest.len()]);
            }
        }
        // Surrogates are no characters of the regex crate's.
        let low = if (0xD800..0xE000).contains(&low) { 0xE000 } else { low };
        let high = if (0xD800..0xE000).contains(&high) { 0xD7FF } else { high };
        if low <= high {
            self.number(low);
            self.out.push('-');
            self.number(high);
        }
        Ok(())
    }

    fn class_character(&mut self, whole: &str) -> Result<u32, String> {
        if self.rest.starts_with('\\') {
            return self.escaped();
        }
        let mut rest = self.rest.chars();
        let Some(one) = rest.next() else { return mistake("missing closing ]", whole) };
        self.rest = rest.as_str();
        Ok(u32::from(one))
    }

    /// `\pL`, `\p{Greek}`, `\P{^L}`: whether there is one.
    pub(super) fn unicode(&mut self) -> Result<bool, String> {
        let here = self.rest;
        let Some(sign) = ["\\p", "\\P"].iter().position(|start| here.starts_with(start)) else { return Ok(false) };
        let after = &here[2..];
        let (said, name) = match after.chars().next() {
            Some('{') => match here.find('}') {
                Some(end) => (&here[..=end], &here[3..end]),
                None => return mistake("invalid character class range", here),
            },
            letter => {
                let length = letter.map_or(0, char::len_utf8);
                (&here[..2 + length], &after[..length])
            }
        };
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, sign == 0),
            None => (name, sign == 1),
        };
        let Some(class) = unicode_class(name, negated) else {
            return mistake("invalid character class range", said);
        };
        self.out.push_str(&class);
        self.rest = &here[said.len()..];
        Ok(true)
    }
}

/// A category or a script by a name that Go knows: in any case, spaces, hyphens and underscores left out.
fn unicode_class(name: &str, negated: bool) -> Option<String> {
    let loose: String = name.chars().filter(|one| !" _-".contains(*one)).collect();
    let loose = loose.to_ascii_lowercase();
    if loose.is_empty() || loose.starts_with("is") || !loose.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    if matches!(loose.as_str(), "cs" | "surrogate") {
        return Some(if negated { "[\\x{0}-\\x{10FFFF}]" } else { NOTHING }.to_owned());
    }
    let sign = if negated { 'P' } else { 'p' };
    let is_code = loose.len() == 4 && !FOUR_LETTERS.contains(&loose.as_str());
    let kinds = if is_code { &["gc"][..] } else { &["gc", "sc"] };
    let mut classes = kinds.iter().map(|kind| format!("\\{sign}{{{kind}={loose}}}"));
    classes.find(|class| regex_syntax::parse(class).is_ok())
}
