//! Filling in defaults.

use serde_json::Value;

use super::Schema;

/// Bytes of JSON that all defaults of one object may have together: as much as a request. A list of empty objects, each
/// with a hundred defaults, is a small body and a huge object.
pub(super) const DEFAULTS_MAX: usize = 3 * 1024 * 1024;

/// Sets what is absent, or null though it may not be, and goes on into what is there; whether there was room for all.
pub(super) fn apply(schema: &Schema, value: &mut Value) -> bool {
    let mut filling = Filling { left: DEFAULTS_MAX };
    filling.apply(schema, value).is_some()
}

/// What is still left of the room for defaults.
struct Filling {
    left: usize,
}

impl Filling {
    fn apply(&mut self, schema: &Schema, value: &mut Value) -> Option<()> {
        let node = schema.node();
        match value {
            Value::Object(members) => {
                for (name, child) in node.properties.iter() {
                    let Some(default) = child.default_value() else { continue };
                    let lacking = members.get(name).is_none_or(|member| member.is_null() && !child.is_nullable());
                    if lacking {
                        self.take(name.len() + size(default))?;
                        members.insert(name.to_owned(), default.clone());
                    }
                }
                members.iter_mut().try_for_each(|(name, member)| match schema.member(name) {
                    Some(child) => self.within(child, member),
                    None => Some(()),
                })
            }
            Value::Array(items) => match &node.items {
                Some(child) => items.iter_mut().try_for_each(|item| self.within(child, item)),
                None => Some(()),
            },
            _ => Some(()),
        }
    }

    fn within(&mut self, schema: &Schema, value: &mut Value) -> Option<()> {
        if let Some(default) = schema.default_value()
            && value.is_null()
            && !schema.is_nullable()
        {
            self.take(size(default))?;
            *value = default.clone();
        }
        self.apply(schema, value)
    }

    fn take(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        Some(())
    }
}

/// About the length of the JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => 2 + text.len(),
        Value::Array(items) => 2 + items.iter().map(|item| 1 + size(item)).sum::<usize>(),
        Value::Object(members) => 2 + members.iter().map(|(name, member)| 4 + name.len() + size(member)).sum::<usize>(),
    }
}
