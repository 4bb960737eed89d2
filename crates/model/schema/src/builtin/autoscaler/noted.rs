//! What is noted of an autoscaler in annotations, in the form of the real server: metrics as structs of `v1` that no
//! kind has, behavior with the names of Go's fields.

use serde_json::{Map, Value, json};

use crate::builtin::{definition, quantity};

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    Metrics,
    Current,
    Conditions,
    Behavior,
}

/// What is written where there is nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    Text,
    Quantity,
    Struct,
    Left,
}

/// A field of `v1` and where it is in `v2`.
type Field = (&'static str, &'static [&'static str], Zero);

/// The kinds of metrics that are aimed at.
const TARGETS: [(&str, &[Field]); 5] = [
    (
        "object",
        &[
            ("target", &["describedObject"], Zero::Struct),
            ("metricName", &["metric", "name"], Zero::Text),
            ("targetValue", &["target", "value"], Zero::Quantity),
            ("selector", &["metric", "selector"], Zero::Left),
            ("averageValue", &["target", "averageValue"], Zero::Left),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", &["metric", "name"], Zero::Text),
            ("targetAverageValue", &["target", "averageValue"], Zero::Quantity),
            ("selector", &["metric", "selector"], Zero::Left),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"], Zero::Text),
            ("targetAverageUtilization", &["target", "averageUtilization"], Zero::Left),
            ("targetAverageValue", &["target", "averageValue"], Zero::Left),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"], Zero::Text),
            ("targetAverageUtilization", &["target", "averageUtilization"], Zero::Left),
            ("targetAverageValue", &["target", "averageValue"], Zero::Left),
            ("container", &["container"], Zero::Text),
        ],
    ),
    (
        "external",
        &[
            ("metricName", &["metric", "name"], Zero::Text),
            ("metricSelector", &["metric", "selector"], Zero::Left),
            ("targetValue", &["target", "value"], Zero::Left),
            ("targetAverageValue", &["target", "averageValue"], Zero::Left),
        ],
    ),
];

/// The kinds of metrics as they are.
const VALUES: [(&str, &[Field]); 5] = [
    (
        "object",
        &[
            ("target", &["describedObject"], Zero::Struct),
            ("metricName", &["metric", "name"], Zero::Text),
            ("currentValue", &["current", "value"], Zero::Quantity),
            ("selector", &["metric", "selector"], Zero::Left),
            ("averageValue", &["current", "averageValue"], Zero::Left),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", &["metric", "name"], Zero::Text),
            ("currentAverageValue", &["current", "averageValue"], Zero::Quantity),
            ("selector", &["metric", "selector"], Zero::Left),
        ],
    ),
    (
        "resource",
        &[
            ("name", &["name"], Zero::Text),
            ("currentAverageUtilization", &["current", "averageUtilization"], Zero::Left),
            ("currentAverageValue", &["current", "averageValue"], Zero::Quantity),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", &["name"], Zero::Text),
            ("currentAverageUtilization", &["current", "averageUtilization"], Zero::Left),
            ("currentAverageValue", &["current", "averageValue"], Zero::Quantity),
            ("container", &["container"], Zero::Text),
        ],
    ),
    (
        "external",
        &[
            ("metricName", &["metric", "name"], Zero::Text),
            ("metricSelector", &["metric", "selector"], Zero::Left),
            ("currentValue", &["current", "value"], Zero::Quantity),
            ("currentAverageValue", &["current", "averageValue"], Zero::Left),
        ],
    ),
];

/// The fields of what a rule of behavior is made of, by Go's names.
const RULES: [(&str, &str); 4] = [
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
const DIRECTIONS: [(&str, &str); 2] = [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];
const POLICY: [(&str, &str); 3] = [("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];

impl Noted {
    /// The value of `v2` that a note stands for; `None` if it cannot be read as that.
    pub(super) fn read(self, note: &str) -> Option<Value> {
        let sent: Value = serde_json::from_str(note).ok()?;
        let (part, field) = match self {
            Self::Metrics => ("Spec", "metrics"),
            Self::Behavior => ("Spec", "behavior"),
            Self::Current => ("Status", "currentMetrics"),
            Self::Conditions => ("Status", "conditions"),
        };
        let value = match self {
            Self::Metrics => each(&sent, |metric| read_metric(metric, &TARGETS, true)),
            Self::Current => each(&sent, |metric| read_metric(metric, &VALUES, false)),
            Self::Conditions => sent,
            Self::Behavior => read_behavior(&sent),
        };
        let mut holder = json!({});
        holder[field] = value;
        let schema = definition(&format!("autoscaling.v2.HorizontalPodAutoscaler{part}"))?;
        if schema.struct_fault(&holder, "").is_some() {
            return None;
        }
        schema.prune_struct(&mut holder);
        let value = holder[field].take();
        let says_nothing = |value: &Value| value.as_object().is_none_or(|members| members.values().all(Value::is_null));
        match self {
            Self::Behavior if says_nothing(&value) => None,
            Self::Metrics | Self::Current | Self::Conditions if value.is_null() => Some(json!([])),
            Self::Metrics | Self::Current | Self::Conditions | Self::Behavior => Some(value),
        }
    }

    /// The note that stands for a value of `v2`.
    pub(super) fn write(self, value: &Value) -> String {
        let value = match self {
            Self::Metrics => each(value, |metric| write_metric(metric, &TARGETS)),
            Self::Current => each(value, |metric| write_metric(metric, &VALUES)),
            Self::Conditions => each(value, |condition| {
                let mut condition = condition.clone();
                // A time that is none is written all the same.
                if let Some(members) = condition.as_object_mut() {
                    members.entry("lastTransitionTime").or_insert(Value::Null);
                }
                condition
            }),
            Self::Behavior => write_behavior(value),
        };
        let mut text = String::new();
        encode(&value, &mut text);
        // As Go writes text into JSON.
        for (sign, code) in [('<', "003c"), ('>', "003e"), ('&', "0026"), ('\u{2028}', "2028"), ('\u{2029}', "2029")] {
            if text.contains(sign) {
                text = text.replace(sign, &format!("\\u{code}"));
            }
        }
        text
    }
}

/// A list with each of its items changed; what is no list stays what it is.
fn each(list: &Value, change: impl Fn(&Value) -> Value) -> Value {
    match list {
        Value::Array(items) => items.iter().map(change).collect(),
        other => other.clone(),
    }
}

/// A member, by its name or one that differs in case only, as Go finds it.
fn member<'a>(object: &'a Value, name: &str) -> &'a Value {
    let Some(members) = object.as_object() else { return &Value::Null };
    let alike = || members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    members.get(name).or_else(alike).unwrap_or(&Value::Null)
}

/// What is no metric stays what it is, so that it does not fit.
fn read_metric(metric: &Value, kinds: &[(&str, &[Field])], is_aimed: bool) -> Value {
    if !metric.is_object() {
        return if metric.is_null() { json!({}) } else { metric.clone() };
    }
    let mut read = json!({"type": member(metric, "type")});
    for (kind, fields) in kinds {
        let source = member(metric, kind);
        if source.is_null() {
            continue;
        }
        read[*kind] = if source.is_object() { read_source(source, fields) } else { source.clone() };
        if is_aimed && source.is_object() {
            set_aim(kind, &mut read[*kind]["target"]);
        }
    }
    read
}

fn read_source(source: &Value, fields: &[Field]) -> Value {
    let mut read = Value::Null;
    for (name, path, zero) in fields {
        let value = match (member(source, name), zero) {
            (Value::Null, Zero::Quantity) => json!("0"),
            (Value::Null, _) => continue,
            (value, _) => value.clone(),
        };
        let place = path.iter().fold(&mut read, |place, name| &mut place[*name]);
        *place = value;
    }
    read
}

/// Which of its values a metric is to have.
fn set_aim(kind: &str, target: &mut Value) {
    let aim = match kind {
        "object" if target["averageValue"].is_null() => "Value",
        "external" if !target["value"].is_null() => "Value",
        "resource" | "containerResource" if !target["averageUtilization"].is_null() => "Utilization",
        _ => "AverageValue",
    };
    // This form cannot leave the value out, and the other one cannot be 0.
    let is_zero = |value: &Value| quantity::canonical(value).is_some_and(|text| text == "0");
    if kind == "object"
        && aim == "AverageValue"
        && is_zero(&target["value"])
        && let Some(members) = target.as_object_mut()
    {
        members.remove("value");
    }
    target["type"] = aim.into();
}

fn write_metric(metric: &Value, kinds: &[(&str, &[Field])]) -> Value {
    let mut written = json!({"type": metric["type"].as_str().unwrap_or_default()});
    for (kind, fields) in kinds {
        let source = &metric[*kind];
        if !source.is_object() {
            continue;
        }
        let mut members = Map::new();
        for (name, path, zero) in *fields {
            let value = path.iter().fold(source, |value, name| &value[*name]).clone();
            let value = match (value, zero) {
                (Value::Null, Zero::Left) => continue,
                (Value::Null, Zero::Text) => json!(""),
                (Value::Null, Zero::Quantity) => json!("0"),
                (Value::Null, Zero::Struct) => json!({"kind": "", "name": ""}),
                (value, _) => value,
            };
            members.insert((*name).to_owned(), value);
        }
        written[*kind] = members.into();
    }
    written
}

fn read_behavior(sent: &Value) -> Value {
    renamed(sent, &DIRECTIONS, |rules| {
        renamed(rules, &RULES, |value| each(value, |policy| renamed(policy, &POLICY, Value::clone)))
    })
}

/// An object with other names for its members; what is none stays what it is.
fn renamed(sent: &Value, names: &[(&str, &str)], change: impl Fn(&Value) -> Value) -> Value {
    if !sent.is_object() {
        return sent.clone();
    }
    let members = names.iter().filter_map(|(from, to)| match member(sent, from) {
        Value::Null => None,
        value => Some(((*to).to_owned(), change(value))),
    });
    Value::Object(members.collect())
}

fn write_behavior(behavior: &Value) -> Value {
    named_in_go(behavior, &DIRECTIONS, |rules| {
        named_in_go(rules, &RULES, |value| each(value, |policy| named_in_go(policy, &POLICY, Value::clone)))
    })
}

/// An object with Go's names for its members; what is not there is null.
fn named_in_go(value: &Value, names: &[(&str, &str)], change: impl Fn(&Value) -> Value) -> Value {
    if !value.is_object() {
        return value.clone();
    }
    names.iter().map(|(to, from)| ((*to).to_owned(), change(&value[*from]))).collect::<Map<_, _>>().into()
}

/// The order in which Go writes the fields; no two structs disagree on it.
const ORDER: [&str; 40] = [
    "type",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "observedGeneration",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "target",
    "metricName",
    "metricSelector",
    "targetValue",
    "currentValue",
    "kind",
    "name",
    "apiVersion",
    "targetAverageUtilization",
    "targetAverageValue",
    "currentAverageUtilization",
    "currentAverageValue",
    "selector",
    "averageValue",
    "container",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "ScaleUp",
    "ScaleDown",
    "StabilizationWindowSeconds",
    "SelectPolicy",
    "Policies",
    "Tolerance",
    "Type",
    "Value",
    "PeriodSeconds",
];

/// Writes fields in the order of Go's structs.
fn encode(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let place = |name: &str| ORDER.iter().position(|one| *one == name).unwrap_or(ORDER.len());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| place(name));
            out.push('{');
            for (count, (name, value)) in members.into_iter().enumerate() {
                if count > 0 {
                    out.push(',');
                }
                out.push_str(&format!("\"{name}\":"));
                // Labels are no fields.
                if name == "matchLabels" { out.push_str(&value.to_string()) } else { encode(value, out) }
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (count, value) in items.iter().enumerate() {
                if count > 0 {
                    out.push(',');
                }
                encode(value, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}
