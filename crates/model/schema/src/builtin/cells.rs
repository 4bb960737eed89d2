//! The cells of tables, as the real server prints them.

pub(super) mod cluster;
pub(super) mod network;
pub(super) mod pod;
pub(super) mod storage;
pub(super) mod workload;

use concert_api::Time;
use serde_json::Value;

use crate::column::age_of;

/// What stands for nothing.
const NONE: &str = "<none>";
const UNSET: &str = "<unset>";
/// So many of a list are shown.
const SHOWN: usize = 3;

/// The name of an object.
pub(super) fn name(object: &Value) -> Value {
    object["metadata"]["name"].as_str().unwrap_or_default().into()
}

/// The name of a class, and whether one of these annotations makes it the default.
pub(super) fn name_of_class(object: &Value, marks: &[&str]) -> Value {
    let is_default = marks.iter().any(|mark| object["metadata"]["annotations"][*mark] == "true");
    let suffix = if is_default { " (default)" } else { "" };
    format!("{}{suffix}", text(&object["metadata"]["name"])).into()
}

/// How long ago an object was made.
pub(super) fn age(object: &Value, now: Time) -> Value {
    age_of(&object["metadata"]["creationTimestamp"], now)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text, or what stands for it if it is empty.
fn text_or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn list(value: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn length(value: &Value) -> i64 {
    value.as_array().map_or(0, |items| i64::try_from(items.len()).unwrap_or(i64::MAX))
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).map(text).collect()
}

/// The first few of a list, and how many more there are.
fn some_of(all: &[String], nothing: &str) -> String {
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(",");
    match all.len() {
        more @ 4.. => format!("{shown} + {} more...", more - SHOWN),
        _ if shown.is_empty() => nothing.to_owned(),
        _ => shown,
    }
}

/// Labels as `a=b,c=d`.
fn labels(map: &Value) -> String {
    let pairs: Vec<String> =
        map.as_object().into_iter().flatten().map(|(name, value)| format!("{name}={}", text(value))).collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

/// A label selector as the text of one; a plain map is one too.
pub(crate) fn selector(selector: &Value) -> String {
    let plain = selector.as_object().is_some_and(|members| members.values().all(Value::is_string));
    if plain {
        let shown = labels(selector);
        return if shown == NONE { String::new() } else { shown };
    }
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut parts: Vec<(String, String)> =
        equal.map(|(name, value)| (name.clone(), format!("{name}={}", text(value)))).collect();
    for one in list(&selector["matchExpressions"]) {
        let (key, mut values) = (text(&one["key"]), texts(&one["values"]));
        values.sort_unstable();
        let values = values.join(",");
        let part = match text(&one["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        parts.push((key.to_owned(), part));
    }
    parts.sort_by(|one, other| one.0.cmp(&other.0));
    parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(",")
}

/// The same for people.
fn shown_selector(value: &Value) -> String {
    let shown = selector(value);
    if shown.is_empty() { NONE.to_owned() } else { shown }
}

/// The condition of that type.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(&object["status"]["conditions"]).find(|one| one["type"] == kind)
}
