//! JSON from a peer: decoded once, with what a strict reader objects to.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A decoded document and its duplicate keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The document; of duplicate keys the last one counts, as in Go.
    pub value: Value,
    /// Paths of keys that occur twice in one object, as `spec.a`, in document order, each once.
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

/// Decodes one JSON document of at most 127 levels.
///
/// # Errors
/// The bytes are not one well-formed JSON document.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut duplicates = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let node = Node { path: String::new(), duplicates: &mut duplicates };
    let value = node.deserialize(&mut reader).map_err(DecodeError)?;
    reader.end().map_err(DecodeError)?;
    Ok(Decoded { value, duplicates })
}

struct Node<'a> {
    path: String,
    duplicates: &'a mut Vec<String>,
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
        let mut list = Vec::new();
        loop {
            let node = Node { path: format!("{}[{}]", self.path, list.len()), duplicates: self.duplicates };
            match items.next_element_seed(node)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            if map.contains_key(&key) && !self.duplicates.contains(&path) {
                if self.duplicates.len() >= 1000 {
                    return Err(A::Error::custom("too many duplicate fields"));
                }
                self.duplicates.push(path.clone());
            }
            let value = members.next_value_seed(Node { path, duplicates: self.duplicates })?;
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
    fn deep_and_broken_documents_are_refused() {
        assert!(decode("[".repeat(100_000).as_bytes()).is_err());
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
