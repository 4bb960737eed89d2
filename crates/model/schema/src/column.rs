//! A column of `kubectl get`.

use concert_api::Time;
use serde_json::{Value, json};

use crate::{JsonPath, human_duration};

/// A column and how its cells are computed.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub type_name: String,
    /// An OpenAPI format; may be empty. The column that names the object has `name`.
    pub format: String,
    /// In words.
    pub description: String,
    /// 0 is always shown, more only when asked for (`-o wide`).
    pub priority: i64,
    source: Source,
}

/// Where a cell comes from.
#[derive(Clone, Debug)]
enum Source {
    /// The first value at a path, shown by the column's type.
    Path(JsonPath),
    /// A path outside our subset: always empty.
    Nothing,
    /// Computed by a built-in kind.
    Computed(fn(&Value, Time) -> Value),
}

impl Column {
    /// A printer column of a CustomResourceDefinition, as written there.
    #[must_use]
    pub fn from_definition(column: &Value) -> Self {
        let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let described = text("description");
        let description = if described.is_empty() {
            format!("Custom resource definition column (in JSONPath format): {path}")
        } else {
            described
        };
        Self {
            name: text("name"),
            type_name: text("type"),
            format: text("format"),
            description,
            priority: column["priority"].as_i64().unwrap_or(0),
            source: JsonPath::parse(&path).map_or(Source::Nothing, Source::Path),
        }
    }

    /// The column every table begins with.
    #[must_use]
    pub fn name() -> Self {
        Self { format: "name".to_owned(), ..Self::computed("Name", "string", 0, |object, _| metadata(object, "name")) }
    }

    /// The column of a custom resource whose definition names none.
    #[must_use]
    pub fn age() -> Self {
        let path = ".metadata.creationTimestamp";
        let column = Self::from_definition(&json!({"name": "Age", "type": "date", "jsonPath": path}));
        Self { description: String::new(), ..column }
    }

    /// A column as the real server describes it: name, type, format, priority. Kinds that have no cells of their own
    /// have a name and an age.
    pub(crate) fn described(row: &Value) -> Self {
        let text = |place: usize| row[place].as_str().unwrap_or_default().to_owned();
        let cell: fn(&Value, Time) -> Value = match row[0].as_str().unwrap_or_default() {
            "Name" => |object, _| metadata(object, "name"),
            "Age" => |object, now| age_of(&object["metadata"]["creationTimestamp"], now),
            "Created At" => |object, _| object["metadata"]["creationTimestamp"].clone(),
            _ => |_, _| Value::Null,
        };
        Self {
            name: text(0),
            type_name: text(1),
            format: text(2),
            description: String::new(),
            priority: row[3].as_i64().unwrap_or(0),
            source: Source::Computed(cell),
        }
    }

    pub(crate) fn computed(name: &str, type_name: &str, priority: i64, cell: fn(&Value, Time) -> Value) -> Self {
        Self {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            format: String::new(),
            description: String::new(),
            priority,
            source: Source::Computed(cell),
        }
    }

    /// As it stands in the `columnDefinitions` of a Table.
    #[must_use]
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.type_name, "format": self.format, "description": self.description,
            "priority": self.priority,
        })
    }

    /// The cell of an object; null where there is nothing to show.
    #[must_use]
    pub fn cell(&self, object: &Value, now: Time) -> Value {
        match &self.source {
            Source::Path(path) => path.first(object).map_or(Value::Null, |value| self.shown(value, now)),
            Source::Nothing => Value::Null,
            Source::Computed(cell) => cell(object, now),
        }
    }

    fn shown(&self, value: &Value, now: Time) -> Value {
        match self.type_name.as_str() {
            #[expect(clippy::cast_possible_truncation, reason = "a float in an integer column is cut, as in Go")]
            "integer" => match value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)) {
                Some(number) => number.into(),
                None => Value::Null,
            },
            "number" if value.is_number() => value.clone(),
            "boolean" if value.is_boolean() => value.clone(),
            "number" | "boolean" => Value::Null,
            "date" => match value.as_str() {
                Some(text) => text.parse().map_or_else(|_| "<invalid>".into(), |time| since(time, now)),
                None => Value::Null,
            },
            _ => match value {
                // The real server's template says so of a null.
                Value::Null => "<no value>".into(),
                Value::String(_) => value.clone(),
                other => other.to_string().into(),
            },
        }
    }
}

fn metadata(object: &Value, name: &str) -> Value {
    object["metadata"][name].as_str().unwrap_or_default().into()
}

/// How long ago a moment was.
fn since(time: Time, now: Time) -> Value {
    human_duration(now.unix_seconds() - time.unix_seconds()).into()
}

/// How long ago a moment in an object was; `<unknown>` if it is not there.
#[must_use]
pub fn age_of(time: &Value, now: Time) -> Value {
    time.as_str().and_then(|text| text.parse().ok()).map_or_else(|| "<unknown>".into(), |time| since(time, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows the real server gave for the same columns and objects.
    #[test]
    fn cells_are_those_of_the_real_server() {
        let column = |type_name: &str, path: &str| {
            Column::from_definition(&json!({"name": "x", "type": type_name, "jsonPath": path}))
        };
        let now: Time = "2026-11-15T23:44:00Z".parse().unwrap();
        let object = json!({
            "spec": {"past": "2020-01-01T00:00:00Z", "future": "2099-01-01T00:00:00Z", "junk": "junk"},
            "status": {"i": 3, "f": 1.5, "b": true, "l": ["a", "b"], "o": {"z": 1}, "e": []},
        });
        for (type_name, path, cell) in [
            ("string", ".spec.past", json!("2020-01-01T00:00:00Z")),
            ("date", ".spec.past", json!("6y320d")),
            ("date", ".spec.future", json!("<invalid>")),
            ("date", ".spec.junk", json!("<invalid>")),
            ("date", ".spec.none", json!(null)),
            ("integer", ".status.i", json!(3)),
            ("integer", ".status.f", json!(1)),
            ("integer", ".spec.junk", json!(null)),
            ("number", ".status.f", json!(1.5)),
            ("number", ".spec.junk", json!(null)),
            ("boolean", ".status.b", json!(true)),
            ("boolean", ".spec.junk", json!(null)),
            ("string", ".status.b", json!("true")),
            ("string", ".status.l", json!("[\"a\",\"b\"]")),
            ("string", ".status.l[*]", json!("a")),
            ("string", ".status.o", json!("{\"z\":1}")),
            ("string", ".status.e", json!("[]")),
            ("string", ".status.none", json!(null)),
            ("string", ".spec[", json!(null)),
        ] {
            assert_eq!(column(type_name, path).cell(&object, now), cell, "{type_name} {path}");
        }
    }
}
