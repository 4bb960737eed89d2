//! What differs, said readably.

use serde_json::Value;

use super::run::Transcript;

/// The differences of two transcripts, each with step and place; empty if there are none.
#[must_use]
pub fn compare(real: &Transcript, ours: &Transcript, names: (&str, &str)) -> Vec<String> {
    let mut found = Vec::new();
    for (number, (real, ours)) in real.0.iter().zip(&ours.0).enumerate() {
        if real.label != ours.label {
            found.push(format!("step {}: {}, not {}", number + 1, ours.label, real.label));
            break;
        }
        let mut differences = Vec::new();
        walk(&real.answer, &ours.answer, "", &mut differences);
        if differences.is_empty() {
            continue;
        }
        found.push(format!("step {}: {}", number + 1, real.label));
        let (left, right) = names;
        let width = left.len().max(right.len());
        for (path, left_value, right_value) in differences {
            let path = path.trim_start_matches('.');
            found.push(format!("  {path}\n    {left:width$} {left_value}\n    {right:width$} {right_value}"));
        }
    }
    if real.0.len() != ours.0.len() {
        found.push(format!("{} answers, not {}", ours.0.len(), real.0.len()));
    }
    found
}

fn walk(real: &Value, ours: &Value, path: &str, found: &mut Vec<(String, String, String)>) {
    match (real, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let mut names: Vec<&String> = left.keys().chain(right.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let path = format!("{path}.{name}");
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => walk(left, right, &path, found),
                    (left, right) => found.push((path, said(left), said(right))),
                }
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for place in 0..left.len().max(right.len()) {
                let path = format!("{path}[{place}]");
                match (left.get(place), right.get(place)) {
                    (Some(left), Some(right)) => walk(left, right, &path, found),
                    (left, right) => found.push((path, said(left), said(right))),
                }
            }
        }
        (left, right) if left == right => {}
        (left, right) => found.push((path.to_owned(), said(Some(left)), said(Some(right)))),
    }
}

fn said(value: Option<&Value>) -> String {
    value.map_or_else(|| "(nothing)".to_owned(), Value::to_string)
}

#[cfg(test)]
mod tests {
    use super::super::run::Entry;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_difference_names_step_and_place() {
        let transcript =
            |answer: Value| Transcript(vec![Entry { label: "GET /x".to_owned(), generated: None, answer }]);
        let real = transcript(json!({"body": {"items": [{"a": 1}], "same": true}}));
        let ours = transcript(json!({"body": {"items": [{"a": 2}, {}], "same": true}}));
        let found = compare(&real, &ours, ("real", "ours")).join("\n");
        let expected = "step 1: GET /x\n  body.items[0].a\n    real 1\n    ours 2\n  body.items[1]\n    real (nothing)\n    ours {}";
        assert_eq!(found, expected);
        assert!(compare(&real, &real, ("real", "ours")).is_empty());
    }
}
