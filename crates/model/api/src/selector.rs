//! Which objects are meant: label selectors and field selectors.

use std::collections::BTreeMap;
use std::fmt;

use crate::names;

/// The selector cannot be read; the message is the real server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError(String);

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SelectorError {}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

/// A label selector: requirements that must all hold. `a=b, c!=d, e in (x, y), f notin (z), g, !h, i>1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<(String, Test)>);

impl LabelSelector {
    /// Reads a selector; the empty one selects everything.
    ///
    /// # Errors
    /// The text is not a selector.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut tokens = Tokens { rest: text };
        let mut requirements = Vec::new();
        match tokens.peek() {
            "" => return Ok(Self(requirements)),
            first if first != "!" && is_operator(first) => {
                return Err(out_of_place(first, "!, identifier, or 'end of string'"));
            }
            _ => {}
        }
        loop {
            requirements.push(requirement(&mut tokens)?);
            match tokens.next() {
                "" => return Ok(Self(requirements)),
                "," => match tokens.peek() {
                    next if next.is_empty() || (next != "!" && is_operator(next)) => {
                        return Err(out_of_place(next, "identifier after ','"));
                    }
                    _ => {}
                },
                found => return Err(out_of_place(found, "',' or 'end of string'")),
            }
        }
    }

    /// Whether it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object with these labels is selected.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(key, test)| {
            let value = labels.get(key);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match test {
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::Greater(bound) => number().is_some_and(|number| number > *bound),
                Test::Less(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }
}

/// Something between requirements.
fn out_of_place(found: &str, expected: &str) -> SelectorError {
    SelectorError(format!("found '{found}', expected: {expected}"))
}

/// Something within a requirement.
fn unexpected(found: &str, expected: &str) -> SelectorError {
    SelectorError(format!("unable to parse requirement: found '{found}', expected: {expected}"))
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<(String, Test), SelectorError> {
    let first = tokens.next();
    let negated = first == "!";
    let key = if negated { tokens.next() } else { first };
    if key.is_empty() || is_operator(key) {
        return Err(unexpected(key, "identifier"));
    }
    if let Some(fault) = names::qualified_faults(key).first() {
        let fault = fault.replace("a qualified name must", "a valid label key must");
        return Err(SelectorError(format!("unable to parse requirement: <nil>: Invalid value: {key:?}: {fault}")));
    }
    if negated {
        return Ok((key.to_owned(), Test::Absent));
    }
    let test = match tokens.peek() {
        "" | "," => Test::Exists,
        "in" | "notin" => {
            let is_in = tokens.next() == "in";
            let values = value_list(tokens, key)?;
            if is_in { Test::In(values) } else { Test::NotIn(values) }
        }
        "=" | "==" => {
            tokens.next();
            Test::In(vec![checked_value(one_value(tokens)?, key)?])
        }
        "!=" => {
            tokens.next();
            Test::NotIn(vec![checked_value(one_value(tokens)?, key)?])
        }
        ">" | "<" => {
            let greater = tokens.next() == ">";
            let value = one_value(tokens)?;
            let bound = value.parse().map_err(|_| {
                SelectorError(format!(
                    "unable to parse requirement: values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                ))
            })?;
            if greater { Test::Greater(bound) } else { Test::Less(bound) }
        }
        found => return Err(unexpected(found, "in, notin, =, ==, !=, gt, lt")),
    };
    Ok((key.to_owned(), test))
}

fn one_value<'a>(tokens: &mut Tokens<'a>) -> Result<&'a str, SelectorError> {
    match tokens.peek() {
        "" | "," => Ok(""),
        operator if is_operator(operator) => Err(unexpected(operator, "identifier")),
        _ => Ok(tokens.next()),
    }
}

fn value_list(tokens: &mut Tokens<'_>, key: &str) -> Result<Vec<String>, SelectorError> {
    let open = tokens.next();
    if open != "(" {
        // The real server has no comma here.
        return Err(SelectorError(format!("unable to parse requirement: found '{open}' expected: '('")));
    }
    let mut values = Vec::new();
    loop {
        match tokens.peek() {
            "," | ")" => values.push(String::new()),
            _ => values.push(checked_value(tokens.next(), key)?),
        }
        match tokens.next() {
            "," => {}
            ")" => return Ok(values),
            found => return Err(unexpected(found, "',' or ')'")),
        }
    }
}

fn checked_value(value: &str, key: &str) -> Result<String, SelectorError> {
    match names::label_value_faults(value).first() {
        None => Ok(value.to_owned()),
        Some(fault) => Err(SelectorError(format!(
            "unable to parse requirement: values[0][{key}]: Invalid value: {value:?}: {fault}"
        ))),
    }
}

const OPERATORS: [&str; 9] = ["==", "!=", "=", "!", ",", "(", ")", ">", "<"];

fn is_operator(token: &str) -> bool {
    OPERATORS.contains(&token)
}

struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    /// The next token, left in place; empty at the end.
    fn peek(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        if let Some(operator) = OPERATORS.iter().find(|operator| self.rest.starts_with(**operator)) {
            return &self.rest[..operator.len()];
        }
        let end = self.rest.find(|c: char| c.is_whitespace() || "=!,()<>".contains(c)).unwrap_or(self.rest.len());
        &self.rest[..end]
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.rest = &self.rest[token.len()..];
        token
    }
}

/// A field selector: `metadata.name=a,involvedObject.kind!=Pod`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldTest>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTest {
    field: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Reads a selector; the empty one selects everything.
    ///
    /// # Errors
    /// A term has no `=`, `==` or `!=`, or a wrong escape.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        terms(text).into_iter().filter(|term| !term.is_empty()).map(term).collect::<Result<_, _>>().map(Self)
    }

    /// Whether it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields it speaks of.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|test| test.field.as_str())
    }

    /// The value that `field` must have, if it must have one.
    #[must_use]
    pub fn required(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|test| test.equal && test.field == field).map(|test| test.value.as_str())
    }

    /// Whether an object is selected, whose fields `value_of` knows.
    pub fn matches<'a>(&self, mut value_of: impl FnMut(&str) -> std::borrow::Cow<'a, str>) -> bool {
        self.0.iter().all(|test| (value_of(&test.field) == test.value) == test.equal)
    }
}

/// Splits at commas that are not escaped.
fn terms(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn term(text: &str) -> Result<FieldTest, SelectorError> {
    let invalid = || SelectorError(format!("invalid selector: '{text}'; can't understand '{text}'"));
    let at = text.find(['=', '!']).ok_or_else(invalid)?;
    let (field, rest) = text.split_at(at);
    let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
        (true, value)
    } else {
        return Err(invalid());
    };
    Ok(FieldTest { field: field.to_owned(), equal, value: unescape(value)? })
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                other => {
                    let bad = other.map_or_else(|| "\\".to_owned(), |next| format!("\\{next}"));
                    return Err(SelectorError(format!("invalid field selector: invalid escape sequence: {bad}")));
                }
            },
            (',' | '=', false) => {
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            (c, false) => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn label_selectors_select() {
        for (selector, object, selected) in [
            ("", "a=b", true),
            ("a=b", "a=b", true),
            ("a==b", "a=c", false),
            ("a!=b", "", true),
            ("a", "a=", true),
            ("!a", "a=b", false),
            ("a in (b, c),d", "a=c,d=1", true),
            ("a notin (b)", "a=b", false),
            ("a notin (b)", "", true),
            ("a=", "a=", true),
            ("a in (,x)", "a=", true),
            ("n>3", "n=4", true),
            ("n<3", "n=4", false),
            ("n>3", "n=x", false),
            (" x.io/y = z ", "x.io/y=z", true),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap_or_else(|error| panic!("{selector}: {error}"));
            assert_eq!(parsed.matches(&labels(object)), selected, "{selector} on {object}");
        }
        for bad in ["=a", "a in b", "a in (b", "a,", ",a", "a=b=c", "a b", "!", "a>x", "-a", "a=-"] {
            assert!(LabelSelector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn field_selectors_select() {
        let selector = FieldSelector::parse(r"metadata.name=a\,b,involvedObject.kind!=Pod").unwrap();
        assert_eq!(selector.required("metadata.name"), Some("a,b"));
        assert!(selector.matches(|field| if field == "metadata.name" { "a,b".into() } else { "X".into() }));
        assert!(!selector.matches(|_| "Pod".into()));
        for bad in ["a", r"a=\x", "a=b=c", "a!b"] {
            assert!(FieldSelector::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _ = (LabelSelector::parse(&text), FieldSelector::parse(&text));
        }
    }
}
