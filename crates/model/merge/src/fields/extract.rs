//! The part of an object that a set of fields names.

use serde_json::{Map, Value};

use super::{Element, FieldSet, Node, compare_values};

impl FieldSet {
    /// What it names of an object, and nothing else; items of lists with the members that tell them apart. A field below
    /// which nothing is named is taken as a whole.
    ///
    /// ```
    /// use concert_merge::FieldSet;
    /// use serde_json::json;
    ///
    /// let set = FieldSet::parse(&json!({"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:name": {}}}}}))?;
    /// let object = json!({"spec": {"ports": [{"port": 8080}, {"port": 80, "name": "web", "nodePort": 3}], "type": "x"}});
    /// assert_eq!(set.extract(&object), json!({"spec": {"ports": [{"port": 80, "name": "web"}]}}));
    /// # Ok::<(), concert_merge::FieldsError>(())
    /// ```
    #[must_use]
    pub fn extract(&self, object: &Value) -> Value {
        match object {
            Value::Object(members) => Value::Object(self.extract_members(members)),
            Value::Array(items) => Value::Array(self.extract_items(items)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => object.clone(),
        }
    }

    fn extract_members(&self, members: &Map<String, Value>) -> Map<String, Value> {
        let named = self.nodes().iter().filter_map(|node| match &node.element {
            Element::Field(name) => Some((name.to_string(), node.extract(members.get(&**name)?))),
            Element::Key(_) | Element::Value(_) | Element::Index(_) => None,
        });
        named.collect()
    }

    /// In the order of the object.
    fn extract_items(&self, items: &[Value]) -> Vec<Value> {
        let named = |(at, item): (usize, &Value)| {
            let node = self.nodes().iter().find(|node| node.is_item(at, item))?;
            let mut part = node.extract(item);
            if let (Element::Key(keys), Some(part)) = (&node.element, part.as_object_mut()) {
                part.extend(keys.iter().filter_map(|(name, _)| Some((name.to_string(), item.get(&**name)?.clone()))));
            }
            Some(part)
        };
        items.iter().enumerate().filter_map(named).collect()
    }
}

impl Node {
    fn extract(&self, value: &Value) -> Value {
        if self.below.is_empty() { value.clone() } else { self.below.extract(value) }
    }

    /// Whether it names this item of a list.
    fn is_item(&self, at: usize, item: &Value) -> bool {
        match &self.element {
            Element::Field(_) => false,
            Element::Key(keys) => {
                keys.iter().all(|(name, value)| item.get(&**name).is_some_and(|own| is_same(own, value)))
            }
            Element::Value(value) => is_same(item, value),
            Element::Index(index) => usize::try_from(*index) == Ok(at),
        }
    }
}

/// However a number is written.
fn is_same(left: &Value, right: &Value) -> bool {
    compare_values(left, right).is_eq()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_part_is_made_of_what_is_named_and_of_nothing_that_is_not() {
        let check = |fields: Value, expected: Value| {
            let object = json!({
                "a": {"b": 1, "c": [1, 2]}, "set": ["x", "y"], "list": [{"k": "1", "v": 1}, {"k": "2", "v": 2}], "n": 7,
            });
            assert_eq!(FieldSet::parse(&fields).unwrap().extract(&object), expected, "{fields}");
        };
        check(json!({}), json!({}));
        check(json!({"f:a": {}}), json!({"a": {"b": 1, "c": [1, 2]}}));
        check(json!({"f:a": {".": {}, "f:b": {}}}), json!({"a": {"b": 1}}));
        check(json!({"f:a": {"f:gone": {}}, "f:also": {}}), json!({"a": {}}));
        check(json!({"f:set": {"v:\"y\"": {}, "v:\"gone\"": {}}}), json!({"set": ["y"]}));
        check(json!({"f:list": {"k:{\"k\":\"2\"}": {"f:v": {}}}}), json!({"list": [{"k": "2", "v": 2}]}));
        check(json!({"f:list": {"i:0": {}}}), json!({"list": [{"k": "1", "v": 1}]}));
        check(json!({"f:n": {"f:below": {}}}), json!({"n": 7}));
    }
}
