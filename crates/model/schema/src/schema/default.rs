//! Filling in defaults.

use serde_json::Value;

use super::Schema;

/// Sets what is absent, or null though it may not be, and goes on into what is there.
pub(super) fn apply(schema: &Schema, value: &mut Value) {
    let node = schema.node();
    match value {
        Value::Object(members) => {
            for (name, child) in &node.properties {
                let Some(default) = child.default_value() else { continue };
                let lacking = members.get(name).is_none_or(|member| member.is_null() && !child.is_nullable());
                if lacking {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, member) in members.iter_mut() {
                let Some(child) = schema.member(name) else { continue };
                replace_null(child, member);
                apply(child, member);
            }
        }
        Value::Array(items) => {
            let Some(child) = &node.items else { return };
            for item in items {
                replace_null(child, item);
                apply(child, item);
            }
        }
        _ => {}
    }
}

fn replace_null(schema: &Schema, value: &mut Value) {
    if let Some(default) = schema.default_value()
        && value.is_null()
        && !schema.is_nullable()
    {
        *value = default.clone();
    }
}
