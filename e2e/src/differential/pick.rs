//! Places in JSON.

use serde_json::Value;

/// What is at `path`: names, places in lists, and `name=value` for the list's item that has it; between slashes. A
/// slash in a name is `~1`, as in JSON pointers.
#[must_use]
pub fn pick<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').filter(|part| !part.is_empty()).try_fold(value, |value, part| {
        let part = part.replace("~1", "/");
        match value {
            Value::Array(items) => match part.split_once('=') {
                Some((name, wanted)) => items.iter().find(|item| item[name].as_str() == Some(wanted)),
                None => items.get(part.parse::<usize>().ok()?),
            },
            _ => value.get(part.as_str()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn places_are_found() {
        let value = json!({"a": [{"name": "x", "v": 1}, {"name": "y/z", "v": 2}], "b/c": 3});
        assert_eq!(pick(&value, "a/0/v"), Some(&json!(1)));
        assert_eq!(pick(&value, "a/name=y~1z/v"), Some(&json!(2)));
        assert_eq!(pick(&value, "b~1c"), Some(&json!(3)));
        assert_eq!(pick(&value, "a/9"), None);
    }
}
