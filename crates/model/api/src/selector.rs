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
                return Err(found(first, ", expected: !, identifier, or 'end of string'"));
            }
            _ => {}
        }
        loop {
            let one = requirement(&mut tokens);
            requirements.push(one.map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?);
            match tokens.next() {
                "" => return Ok(Self(requirements)),
                "," => match tokens.peek() {
                    next if next.is_empty() || (next != "!" && is_operator(next)) => {
                        return Err(found(next, ", expected: identifier after ','"));
                    }
                    _ => {}
                },
                other => return Err(found(other, ", expected: ',' or 'end of string'")),
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

/// As it can be read again; the empty one is no text.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, test)) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            match test {
                Test::In(values) => match values.as_slice() {
                    [one] => write!(f, "{key}={one}")?,
                    _ => write!(f, "{key} in ({})", values.join(","))?,
                },
                Test::NotIn(values) => match values.as_slice() {
                    [one] => write!(f, "{key}!={one}")?,
                    _ => write!(f, "{key} notin ({})", values.join(","))?,
                },
                Test::Exists => f.write_str(key)?,
                Test::Absent => write!(f, "!{key}")?,
                Test::Greater(bound) => write!(f, "{key}>{bound}")?,
                Test::Less(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

fn found(token: &str, expected: &str) -> SelectorError {
    SelectorError(format!("found '{token}'{expected}"))
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<(String, Test), SelectorError> {
    let first = tokens.next();
    let negated = first == "!";
    let key = if negated { tokens.next() } else { first };
    if key.is_empty() || is_operator(key) {
        return Err(found(key, ", expected: identifier"));
    }
    if let Some(fault) = names::qualified_faults(key).first() {
        return Err(SelectorError(format!("<nil>: Invalid value: {key:?}: {fault}")));
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
            Test::In(vec![one_value(tokens, key)?])
        }
        "!=" => {
            tokens.next();
            Test::NotIn(vec![one_value(tokens, key)?])
        }
        ">" | "<" => {
            let greater = tokens.next() == ">";
            let value = exact_value(tokens)?;
            let bound = value.parse().map_err(|_| {
                SelectorError(format!(
                    "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                ))
            })?;
            check_values(key, &[value.to_owned()])?;
            if greater { Test::Greater(bound) } else { Test::Less(bound) }
        }
        other => return Err(found(other, ", expected: in, notin, =, ==, !=, gt, lt")),
    };
    Ok((key.to_owned(), test))
}

fn exact_value<'a>(tokens: &mut Tokens<'a>) -> Result<&'a str, SelectorError> {
    match tokens.peek() {
        "" | "," => Ok(""),
        operator if is_operator(operator) => Err(found(operator, ", expected: identifier")),
        _ => Ok(tokens.next()),
    }
}

fn one_value(tokens: &mut Tokens<'_>, key: &str) -> Result<String, SelectorError> {
    let value = exact_value(tokens)?.to_owned();
    check_values(key, std::slice::from_ref(&value))?;
    Ok(value)
}

fn value_list(tokens: &mut Tokens<'_>, key: &str) -> Result<Vec<String>, SelectorError> {
    let open = tokens.next();
    if open != "(" {
        return Err(found(open, " expected: '('"));
    }
    let mut values = Vec::new();
    loop {
        match tokens.peek() {
            "," | ")" => values.push(String::new()),
            other if other.is_empty() || is_operator(other) => {
                return Err(found(other, ", expected: ',', ')' or identifier"));
            }
            _ => values.push(tokens.next().to_owned()),
        }
        match tokens.next() {
            "," => {}
            ")" => break,
            other => return Err(found(other, ", expected: ',' or ')'")),
        }
    }
    // The real server keeps them as a sorted set, and counts in it.
    values.sort();
    values.dedup();
    check_values(key, &values)?;
    Ok(values)
}

fn check_values(key: &str, values: &[String]) -> Result<(), SelectorError> {
    for (place, value) in values.iter().enumerate() {
        if let Some(fault) = names::label_value_faults(value).first() {
            return Err(SelectorError(format!("values[{place}][{key}]: Invalid value: {value:?}: {fault}")));
        }
    }
    Ok(())
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
        let tests: Vec<FieldTest> =
            terms(text).into_iter().filter(|term| !term.is_empty()).map(term).collect::<Result<_, _>>()?;
        // Nothing that equals nothing says nothing.
        Ok(Self(tests.into_iter().filter(|test| !(test.field.is_empty() && test.value.is_empty())).collect()))
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

/// As it can be read again; the empty one is no text.
impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, test) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let operator = if test.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}", test.field)?;
            for letter in test.value.chars() {
                f.write_str(if matches!(letter, '\\' | ',' | '=') { "\\" } else { "" })?;
                write!(f, "{letter}")?;
            }
        }
        Ok(())
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

    /// Asked of kube-apiserver v1.37.1.
    #[test]
    fn refusals_use_the_real_servers_words() {
        for (selector, words) in [
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a,", "found '', expected: identifier after ','"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
            ("/a", "unable to parse requirement: <nil>: Invalid value: \"/a\": prefix part must be non-empty"),
            (
                "n>-5",
                "unable to parse requirement: values[0][n]: Invalid value: \"-5\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ),
            ("a===b", "unable to parse requirement: found '=', expected: identifier"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a notin", "unable to parse requirement: found '' expected: '('"),
            ("!!a", "unable to parse requirement: found '!', expected: identifier"),
            ("a in (b))", "found ')', expected: ',' or 'end of string'"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap_err().to_string(), words, "{selector}");
        }
        let bad_value = LabelSelector::parse("a in (b,-)").unwrap_err().to_string();
        assert!(
            bad_value.starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-\":"),
            "{bad_value}"
        );
        let field = FieldSelector::parse("a=b=c").unwrap_err().to_string();
        assert_eq!(field, "invalid field selector: unescaped character in value: 61");
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
