//! A scenario as a file.

use std::fmt::Write as _;

use serde_json::Value;

use super::scenario::{Scenario, Step};

/// The scenario as YAML, one line for each step. Only what random scenarios are made of is written.
#[must_use]
pub fn yaml(scenario: &Scenario) -> String {
    let mut text = format!("what: {}\nsteps:\n", scenario.what);
    for step in &scenario.steps {
        // Writing to a text does not fail.
        let _ = writeln!(text, "- {{{}}}", fields(step).join(", "));
    }
    text
}

fn fields(step: &Step) -> Vec<String> {
    let text = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name}: {}", word(value)));
    let part = |name: &str, value: Option<&Value>| {
        value.filter(|value| !value.is_null()).map(|value| format!("{name}: {}", flow(value)))
    };
    let patch = step.patch.map(|patch| format!("patch: {}", format!("{patch:?}").to_lowercase()));
    let all = [
        text("do", &step.request),
        part("define", step.define.as_ref()),
        part("version", Some(&step.version)),
        part("crd", Some(&step.crd)),
        patch,
        text("kind", &step.kind),
        part("body", step.body.as_ref()),
        part("edit", step.edit.as_ref()),
    ];
    all.into_iter().flatten().collect()
}

fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let member = |(name, member): (&String, &Value)| format!("{}: {}", word(name), flow(member));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// The text, between quotes where YAML would take it for something else.
fn word(text: &str) -> String {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./<>$?=& ".contains(c))
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '<' || c == '$')
        && !text.ends_with(' ')
        && !["null", "true", "false", "y", "n", "yes", "no", "on", "off"].contains(&text.to_lowercase().as_str());
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::random;

    #[test]
    fn what_is_printed_is_read_as_the_same() {
        for seed in 0..100 {
            let scenario = random::scenario(seed);
            let text = yaml(&scenario);
            let options = serde_saphyr::options! { strict_booleans: true };
            let read: Scenario = serde_saphyr::from_str_with_options(&text, options).unwrap();
            assert_eq!(format!("{:?}", read.steps), format!("{:?}", scenario.steps), "{text}");
        }
    }
}
