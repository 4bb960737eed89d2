//! JSON from a peer: decoded once, with what a strict reader objects to.

mod surrogates;

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A decoded document and its duplicate keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The document; of duplicate keys the last one counts, as in Go.
    pub value: Value,
    /// Paths of keys that occur twice in one object, as `spec.a`, in document order, each once; the first of them, if
    /// there are many.
    pub duplicates: Vec<String>,
}

/// The bytes are not one JSON document.
#[derive(Debug)]
pub struct DecodeError(serde_json::Error);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for DecodeError {}

/// Levels that a document may have.
pub const DEPTH_MAX: usize = 100;

/// Duplicates that are told, as by the real server.
const DUPLICATES_MAX: usize = 100;
/// Bytes of their paths that are written at all: a long name may stand in every one of them.
const PATHS_MAX: usize = 64 << 10;

/// Decodes one JSON document of at most [`DEPTH_MAX`] levels.
///
/// # Errors
/// The bytes are not one well-formed JSON document.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut duplicates = Duplicates { paths: Vec::new(), room: PATHS_MAX };
    let bytes = legible(bytes);
    let bytes = surrogates::mended(&bytes);
    let mut reader = serde_json::Deserializer::from_slice(&bytes);
    let node = Node { place: &Place::Root, levels: DEPTH_MAX, duplicates: &mut duplicates };
    let value = node.deserialize(&mut reader).map_err(DecodeError)?;
    reader.end().map_err(DecodeError)?;
    Ok(Decoded { value, duplicates: duplicates.paths })
}

/// Text in which each byte that is none stands as U+FFFD: so Go reads it.
fn legible(bytes: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(bytes).is_ok() {
        return Cow::Borrowed(bytes);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text.into_bytes())
}

/// The paths of keys that occur twice.
struct Duplicates {
    paths: Vec<String>,
    /// Bytes that may still be written.
    room: usize,
}

impl Duplicates {
    /// Notes a duplicate, once, and not without end.
    fn note(&mut self, place: &Place<'_>) {
        if self.paths.len() >= DUPLICATES_MAX || self.room == 0 {
            return;
        }
        let path = place.to_string();
        self.room = self.room.saturating_sub(path.len());
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }
}

/// A place in the document, written out only when there is something to say of it.
enum Place<'a> {
    Root,
    Member(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Self::Root, key) => f.write_str(key),
            Self::Member(parent, key) => write!(f, "{parent}.{key}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

struct Node<'a> {
    place: &'a Place<'a>,
    /// How many more there may be.
    levels: usize,
    duplicates: &'a mut Duplicates,
}

impl Node<'_> {
    fn levels_within<E: serde::de::Error>(&self) -> Result<usize, E> {
        self.levels.checked_sub(1).ok_or_else(|| E::custom(format!("more than {DEPTH_MAX} levels deep")))
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let levels = self.levels_within()?;
        let mut list = Vec::new();
        loop {
            let place = Place::Item(self.place, list.len());
            match items.next_element_seed(Node { place: &place, levels, duplicates: self.duplicates })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let levels = self.levels_within()?;
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let place = Place::Member(self.place, &key);
            if map.contains_key(&key) {
                self.duplicates.note(&place);
            }
            let value = members.next_value_seed(Node { place: &place, levels, duplicates: self.duplicates })?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn duplicates_are_reported_by_path_and_the_last_one_counts() {
        let decoded = decode(br#"{"a":1,"b":{"c":1,"c":2,"c":3},"a":4,"l":[{"x":1,"x":2}]}"#).unwrap();
        assert_eq!(decoded.value, json!({"a": 4, "b": {"c": 3}, "l": [{"x": 2}]}));
        assert_eq!(decoded.duplicates, ["b.c", "a", "l[0].x"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_one_by_one_within_texts() {
        let check = |bytes: &[u8], expected: Option<Value>| {
            assert_eq!(decode(bytes).ok().map(|decoded| decoded.value), expected, "{bytes:?}");
        };
        check(b"{\"a\":\"x\xffy\"}", Some(json!({"a": "x\u{fffd}y"})));
        check(b"{\"\xe2\x82\":\"\xf0\x9f\x98\"}", Some(json!({"\u{fffd}\u{fffd}": "\u{fffd}\u{fffd}\u{fffd}"})));
        check(b"{\"a\":\xff}", None);
        check(b"\xff", None);
    }

    #[test]
    fn many_duplicates_are_not_all_told() {
        let twice = |count: usize| -> String {
            let pairs: Vec<String> = (0..count).map(|index| format!(r#""a{index}":1,"a{index}":2"#)).collect();
            pairs.join(",")
        };
        let decoded = decode(format!("{{{}}}", twice(1000)).as_bytes()).unwrap();
        assert_eq!(decoded.duplicates.len(), DUPLICATES_MAX);
        assert_eq!(decoded.value.as_object().map(Map::len), Some(1000));

        let name = "n".repeat(20_000);
        let decoded = decode(format!(r#"{{"{name}":{{{}}}}}"#, twice(1000)).as_bytes()).unwrap();
        assert!(decoded.duplicates.concat().len() < PATHS_MAX + 2 * name.len(), "{}", decoded.duplicates.len());
    }

    #[test]
    fn deep_and_broken_documents_are_refused() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(decode(nested(DEPTH_MAX).as_bytes()).is_ok());
        for levels in [DEPTH_MAX + 1, 100_000] {
            let error = decode(nested(levels).as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("more than 100 levels deep at line 1"), "{error}");
        }
        for bad in ["", "{", "{}x", "nul", "{\"a\"}", "1e999"] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let ours = decode(&bytes).map(|decoded| decoded.value).ok();
            prop_assert_eq!(ours, serde_json::from_slice(&bytes).ok());
        }
    }
}
