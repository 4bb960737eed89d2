//! YAML bodies, read as the real server reads them: by the rules of YAML 1.1, where `yes` and `on` are true, also as
//! keys, and `010` is eight. Depth and aliases have a budget. What is written, any reader of YAML takes for the same.

use std::fmt;

use concert_api::DEPTH_MAX;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Options, Spanned};

/// Scalars, lists and maps; those that aliases stand for as often as they are used.
const NODES_MAX: usize = 500_000;
/// What aliases may stand for: for each byte of a document, and in any, at least and at most.
const REPLAYED: usize = 50;
const REPLAYED_LEAST: usize = 10_000;
const REPLAYED_MAX: usize = 400_000;
/// What the reader needs for all levels.
const STACK: usize = 16 * 1024 * 1024;
const TOO_DEEP: &str = "yaml: exceeded max depth";

/// Reads the first document; gives what is wrong with duplicate keys, too.
pub(super) fn decode(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    // The reader takes more of the stack for a level than a worker has for all of them.
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || read(body));
        let read = reader.map_err(|error| format!("yaml: no thread to read it: {error}"))?.join();
        read.unwrap_or_else(|_| Err("yaml: cannot be read".to_owned()))
    })
}

fn read(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: control characters are not allowed".to_owned())?;
    check_directives(text)?;
    let mut options = Options::default();
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    options.legacy_octal_numbers = true;
    options.strict_booleans = false;
    options.with_snippet = false;
    options.budget = serde_saphyr::budget! {
        max_depth: DEPTH_MAX, flow_nesting_limit: DEPTH_MAX + 1, max_nodes: NODES_MAX, max_events: 2 * NODES_MAX,
        max_aliases: NODES_MAX, max_anchors: NODES_MAX, enforce_alias_anchor_ratio: false,
    };
    // A few letters must not stand for hours of work.
    options.alias_limits.max_total_replayed_events = (REPLAYED * body.len()).clamp(REPLAYED_LEAST, REPLAYED_MAX);
    let node: Node = serde_saphyr::from_str_with_options(first_document(text), options).map_err(|error| {
        let words = error.to_string();
        let says = |parts: &[&str]| parts.iter().any(|part| words.to_lowercase().contains(part));
        if says(&["depth", "nesting"]) {
            TOO_DEEP.to_owned()
        } else if says(&["alias", "budget", "anchor"]) {
            "yaml: document contains excessive aliasing".to_owned()
        } else {
            format!("yaml: {words}")
        }
    })?;
    let mut lines = Vec::new();
    let value = node.value(&mut lines, DEPTH_MAX)?;
    Ok((value, lines))
}

/// Writes a document.
pub(crate) fn encode(value: &Value) -> Result<String, String> {
    // A long line stays one.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options).map_err(|error| format!("cannot be written in YAML: {error}"))
}

/// Of directives only those of YAML 1.1 are known.
fn check_directives(text: &str) -> Result<(), String> {
    let head = text.lines().take_while(|line| line.trim().is_empty() || line.starts_with(['#', '%']));
    for directive in head.filter(|line| line.starts_with('%')) {
        let mut words = directive[1..].split_whitespace();
        match words.next() {
            Some("TAG") => {}
            Some("YAML") if words.next() == Some("1.1") => {}
            Some("YAML") => return Err("yaml: found incompatible YAML document".to_owned()),
            Some(_) | None => return Err("yaml: found unknown directive name".to_owned()),
        }
    }
    Ok(())
}

/// Further documents are not looked at.
fn first_document(text: &str) -> &str {
    let mut begun = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let marker = line.trim_end() == "---" || line.starts_with("--- ");
        if begun && (marker || line.trim_end() == "...") {
            return &text[..at];
        }
        begun |= !line.trim().is_empty() && !line.starts_with(['#', '%']);
        at += line.len();
    }
    text
}

/// A node as it was written, duplicates and all.
enum Node {
    Scalar(Value),
    List(Vec<Self>),
    Map(Vec<(Spanned<Key>, Self)>),
}

/// A key: whatever it is, its text; null is none.
struct Key(Option<String>);

impl Node {
    fn value(self, lines: &mut Vec<String>, levels: usize) -> Result<Value, String> {
        let levels = match self {
            Self::Scalar(_) => levels,
            Self::List(_) | Self::Map(_) => levels.checked_sub(1).ok_or_else(|| TOO_DEEP.to_owned())?,
        };
        Ok(match self {
            Self::Scalar(value) => value,
            Self::List(items) => {
                Value::Array(items.into_iter().map(|item| item.value(lines, levels)).collect::<Result<_, _>>()?)
            }
            Self::Map(entries) => {
                let mut members = Map::new();
                for (key, node) in entries {
                    let line = key.referenced.line();
                    let Some(name) = key.value.0 else {
                        let value = node.value(lines, levels)?;
                        return Err(format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}"));
                    };
                    if members.contains_key(&name) {
                        lines.push(format!("line {line}: key {name:?} already set in map"));
                    }
                    members.insert(name, node.value(lines, levels)?);
                }
                Value::Object(members)
            }
        })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML node")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("json: unsupported value"))?;
        Ok(Node::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Node::deserialize(deserializer)? {
            Node::Scalar(Value::String(text)) => Ok(Self(Some(text))),
            Node::Scalar(Value::Null) => Ok(Self(None)),
            Node::Scalar(value) => Ok(Self(Some(value.to_string()))),
            Node::List(_) | Node::Map(_) => Err(D::Error::custom("unsupported map key")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn scalars_are_those_of_yaml_1_1() {
        for (text, expected) in [
            ("a: yes\nb: 'yes'\nc: on\nd: ~\ne:", json!({"a": true, "b": "yes", "c": true, "d": null, "e": null})),
            ("a: 0x10\nb: 010\nc: 1.5\nd: '1'\ne: -3", json!({"a": 16, "b": 8, "c": 1.5, "d": "1", "e": -3})),
            ("on: 1\ny: 2", json!({"true": 2})),
            ("a: |\n  x\n  y\nb: >-\n  x\n  y", json!({"a": "x\ny\n", "b": "x y"})),
            ("a: &t foo\nb: *t", json!({"a": "foo", "b": "foo"})),
            ("a: 1\n---\na: 2", json!({"a": 1})),
            ("%YAML 1.1\n---\na: 1\n...\n[", json!({"a": 1})),
            ("---\na: [1, {b: c}]", json!({"a": [1, {"b": "c"}]})),
            ("{\"a\": \"no\"}", json!({"a": "no"})),
        ] {
            assert_eq!(decode(text.as_bytes()).map(|(value, _)| value), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_go_cannot_read_is_refused() {
        for (text, why) in [
            ("a: {~: c}", "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"c\""),
            ("%YAML 1.2\n---\na: 1", "yaml: found incompatible YAML document"),
            ("%FOO\n---\na: 1", "yaml: found unknown directive name"),
        ] {
            assert_eq!(decode(text.as_bytes()).unwrap_err(), why);
        }
    }

    #[test]
    fn duplicates_are_told_with_their_line() {
        let (value, lines) = decode(b"spec:\n  path: x\n  path: z\n").unwrap();
        assert_eq!(value, json!({"spec": {"path": "z"}}));
        assert_eq!(lines, ["line 3: key \"path\" already set in map"]);
    }

    #[test]
    fn bombs_are_refused() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 1..9 {
            let last = n - 1;
            bomb.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{last}"); 9].join(",")));
        }
        assert_eq!(decode(bomb.as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(decode(deep.as_bytes()).is_err());
        assert!(decode("- ".repeat(5_000).as_bytes()).is_err());
    }

    #[test]
    fn aliases_may_stand_for_so_much_and_no_more() {
        let text =
            |times: usize| format!("a: &a [{}]\nb: [{}]\n", vec!["x"; 999].join(","), vec!["*a"; times].join(","));
        let (value, _) = decode(text(100).as_bytes()).unwrap();
        assert_eq!(value["b"].as_array().map(Vec::len), Some(100));
        for times in [200, 5_000] {
            assert_eq!(decode(text(times).as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,60}") {
            let _ = decode(text.as_bytes());
        }
    }
}
