//! The JSON paths of printer columns, scale and selectable fields.

use std::fmt;

use serde_json::Value;

/// A compiled path: `.spec.a`, `['a.b/c']`, `[0]`, `[-1]`, `[*]`, `[?(@.type=="Ready")]`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(String),
    Index(i64),
    All,
    Filter(Vec<Step>, Test),
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Exists,
    Equal(Value),
    Differs(Value),
}

/// The text is not a path we understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError(String);

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read the path: {}", self.0)
    }
}

impl std::error::Error for PathError {}

impl JsonPath {
    /// Compiles a path; braces around it are allowed.
    ///
    /// # Errors
    /// It has a construct outside the subset, or is malformed.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let inner = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text);
        let steps = parse(inner).ok_or_else(|| PathError(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), steps })
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first value it leads to.
    #[must_use]
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        first(&self.steps, object)
    }

    /// The names it goes through, if it goes through names only.
    #[must_use]
    pub fn members(&self) -> Option<Vec<&str>> {
        let name = |step: &'_ Step| matches!(step, Step::Member(_));
        self.steps.iter().all(name).then(|| {
            let names = self.steps.iter().filter_map(|step| match step {
                Step::Member(name) => Some(name.as_str()),
                _ => None,
            });
            names.collect()
        })
    }
}

fn first<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Member(name) => first(rest, value.get(name)?),
        Step::Index(index) => first(rest, item(value.as_array()?, *index)?),
        Step::All => children(value).find_map(|child| first(rest, child)),
        Step::Filter(path, test) => {
            children(value).filter(|child| passes(path, test, child)).find_map(|child| first(rest, child))
        }
    }
}

fn item(items: &[Value], index: i64) -> Option<&Value> {
    let at = if index >= 0 {
        usize::try_from(index).ok()?
    } else {
        items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
    };
    items.get(at)
}

fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    items.chain(value.as_object().into_iter().flat_map(|members| members.values()))
}

fn passes(path: &[Step], test: &Test, value: &Value) -> bool {
    let found = first(path, value);
    match test {
        Test::Exists => found.is_some(),
        Test::Equal(expected) => found == Some(expected),
        Test::Differs(expected) => found.is_some_and(|found| found != expected),
    }
}

fn parse(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '.' => {
                let (name, rest) = member(&rest[1..]);
                if !name.is_empty() {
                    steps.push(if name == "*" { Step::All } else { Step::Member(name) });
                } else if !steps.is_empty() || rest.starts_with('.') {
                    return None;
                }
                rest
            }
            '[' => {
                let end = bracket_end(rest)?;
                steps.push(bracket(&rest[1..end])?);
                &rest[end + 1..]
            }
            _ => return None,
        };
    }
    Some(steps)
}

/// A name up to the next `.` or `[` that is not escaped.
fn member(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

/// Where the bracket that opens the text closes, outside quotes.
fn bracket_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), close) if close == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') if depth == 1 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Option<Step> {
    let inner = inner.trim();
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(name) = unquoted(inner) {
        return Some(Step::Member(name));
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|inner| inner.strip_suffix(')')) {
        return self::filter(filter);
    }
    inner.parse().ok().map(Step::Index)
}

fn filter(text: &str) -> Option<Step> {
    let path = |text: &str| parse(text.trim().strip_prefix('@')?);
    let (name, test) = if let Some((left, right)) = text.split_once("==") {
        (left, Test::Equal(literal(right)?))
    } else if let Some((left, right)) = text.split_once("!=") {
        (left, Test::Differs(literal(right)?))
    } else {
        (text, Test::Exists)
    };
    Some(Step::Filter(path(name)?, test))
}

fn literal(text: &str) -> Option<Value> {
    let text = text.trim();
    unquoted(text).map(Value::from).or_else(|| serde_json::from_str(text).ok())
}

fn unquoted(text: &str) -> Option<String> {
    let inner = ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))?;
    let mut name = String::new();
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        name.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_the_first_value() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "lab"}},
            "status": {"conditions": [{"type": "X", "status": "F"}, {"type": "Ready", "status": "T"}], "l": ["a", "b"]},
        });
        for (path, expected) in [
            (".status.l[0]", Some(json!("a"))),
            ("{.status.l[-1]}", Some(json!("b"))),
            (".status.l[5]", None),
            (".status.l[*]", Some(json!("a"))),
            (".status.l", Some(json!(["a", "b"]))),
            (".status.conditions[?(@.type==\"Ready\")].status", Some(json!("T"))),
            (".status.conditions[?(@.type == 'Ready')].status", Some(json!("T"))),
            (".status.conditions[?(@.type!='Ready')].status", Some(json!("F"))),
            (".status.conditions[?(@.status)].type", Some(json!("X"))),
            (".status.conditions[?(@.type==\"No\")].status", None),
            (".metadata.labels['a\\.b/c']", Some(json!("lab"))),
            (".metadata.labels.a\\.b/c", Some(json!("lab"))),
            (".metadata.labels['a.b/c']", Some(json!("lab"))),
            (".x.y", None),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap().first(&object), expected.as_ref(), "{path}");
        }
        for bad in ["spec", ".spec[", "..a", ".a[b]", ".a[0:2]"] {
            assert!(JsonPath::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_answered(text in "[.\\[\\]'\"a?@()=!*0-9\\\\-]{0,16}") {
            let _ = JsonPath::parse(&text).map(|path| path.first(&json!({"a": [1, {"a": 2}]})).cloned());
        }
    }
}
