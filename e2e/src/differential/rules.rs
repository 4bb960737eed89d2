//! Differences that are known: each belongs to a row of `docs/differences.md`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::run::{Entry, Transcript};

/// A permitted difference. It changes an answer of the real server into what ours is to give.
#[derive(Clone, Copy)]
pub struct Rule {
    /// A word for it.
    pub name: &'static str,
    /// The row of `docs/differences.md`.
    pub row: usize,
    /// Changes the real server's answer, and where nothing can be foretold ours as well; whether there was something
    /// to change.
    apply: fn(&mut Entry, &mut Entry) -> bool,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rule({})", self.name)
    }
}

/// All of them.
pub const RULES: &[Rule] = &[
    Rule { name: "established-at-once", row: 9, apply: established_at_once },
    Rule {
        name: "certificate-description",
        row: 2,
        apply: |real, ours| certificate(&mut real.answer, &mut ours.answer),
    },
    Rule { name: "decoder-words", row: 3, apply: decoder_words },
    Rule { name: "patched-object", row: 3, apply: patched_object },
    Rule { name: "descriptions", row: 8, apply: |real, ours| descriptions(&mut real.answer, &mut ours.answer) },
];

/// Applies every rule to both transcripts of a scenario; adds the names of those that had something to change.
pub fn apply_all(real: &mut Transcript, ours: &mut Transcript, fired: &mut BTreeSet<&'static str>) {
    for (real, ours) in real.0.iter_mut().zip(&mut ours.0) {
        for rule in RULES {
            if (rule.apply)(real, ours) {
                fired.insert(rule.name);
            }
        }
    }
}

/// Words of Go's decoders for JSON, YAML, base64, numbers and times.
const DECODER_WORDS: &[&str] = &[
    "json parse error",
    "unexpected end of JSON",
    "invalid character",
    "cannot unmarshal",
    "unknown conversion",
    "in scheme",
    "yaml: ",
    "parsing time",
    "illegal base64",
    "is missing in '",
    "unexpected GroupVersion",
];

/// The words of a message that quotes a decoder; code, reason and causes are the same.
fn decoder_words(real: &mut Entry, ours: &mut Entry) -> bool {
    let message = |entry: &Entry| entry.answer["body"]["message"].as_str().unwrap_or_default().to_owned();
    let (text, other) = (message(real), message(ours));
    if text == other || other.is_empty() || !DECODER_WORDS.iter().any(|words| text.contains(words)) {
        return false;
    }
    // What stands before a quotation of the reader of YAML is not a quotation.
    let before = |text: &str| text.split_once("yaml: ").map(|(before, _)| before.to_owned());
    if before(&text) != before(&other) {
        return false;
    }
    ours.answer["body"]["message"] = text.into();
    // A cause repeats the message.
    let cause = "/body/details/causes/0/message";
    let quotes =
        |text: &Value| text.as_str().is_some_and(|text| DECODER_WORDS.iter().any(|words| text.contains(words)));
    if let (Some(real), Some(ours)) = (real.answer.pointer(cause), ours.answer.pointer_mut(cause))
        && quotes(real)
    {
        *ours = real.clone();
    }
    true
}

/// A patch that leaves no readable object is refused with that object in the message, in the order of Go's structs. A
/// strategic one is refused with itself, and that is the same.
fn patched_object(real: &mut Entry, ours: &mut Entry) -> bool {
    let place = "/body/details/causes/0";
    let is_patch = |entry: &Entry| {
        entry.answer.pointer(place).is_some_and(|cause| {
            let shows_map = cause["message"].as_str().is_some_and(|text| text.starts_with("Invalid value: \"map["));
            cause["field"] == "patch" && !shows_map
        })
    };
    if !is_patch(real) || !is_patch(ours) {
        return false;
    }
    for entry in [real, ours] {
        for path in ["/body/message", "/body/details/causes/0/message"] {
            if let Some(text) = entry.answer.pointer_mut(path)
                && let Some((start, _)) = text.as_str().and_then(|text| text.split_once("Invalid value: "))
            {
                *text = format!("{start}Invalid value: …").into();
            }
        }
    }
    true
}

/// The real server describes the columns and fields of its own; ours leaves that out.
fn descriptions(real: &mut Value, ours: &mut Value) -> bool {
    match (real, ours) {
        (Value::Object(real), Value::Object(ours)) => {
            let said = real.get("description").is_some_and(Value::is_string);
            let silent = ours.get("description").is_none_or(|text| text == "");
            let here = said && silent && real.get("description") != ours.get("description");
            if here {
                real.remove("description");
                ours.remove("description");
            }
            real.iter_mut().fold(here, |any, (name, field)| {
                ours.get_mut(name).is_some_and(|ours| descriptions(field, ours)) || any
            })
        }
        (Value::Array(real), Value::Array(ours)) => {
            real.iter_mut().zip(ours).map(|(real, ours)| descriptions(real, ours)).fold(false, |any, one| any | one)
        }
        _ => false,
    }
}

/// What the certificate in every namespace is for, each in its own words.
fn certificate(real: &mut Value, ours: &mut Value) -> bool {
    const DESCRIPTION: &str = "kubernetes.io/description";
    match (real, ours) {
        (Value::Object(real), Value::Object(ours)) => {
            let said = |fields: &serde_json::Map<String, Value>| {
                fields.get(DESCRIPTION).and_then(Value::as_str).is_some_and(|text| text.starts_with("Contains "))
            };
            let here = said(real) && said(ours) && real[DESCRIPTION] != ours[DESCRIPTION];
            if here {
                real.remove(DESCRIPTION);
                ours.remove(DESCRIPTION);
            }
            real.iter_mut()
                .fold(here, |any, (name, field)| ours.get_mut(name).is_some_and(|ours| certificate(field, ours)) || any)
        }
        (Value::Array(real), Value::Array(ours)) => {
            real.iter_mut().zip(ours).map(|(real, ours)| certificate(real, ours)).fold(false, |any, one| any | one)
        }
        _ => false,
    }
}

/// The answer to the write of a definition has a status already.
fn established_at_once(real: &mut Entry, ours: &mut Entry) -> bool {
    let is_write = ["POST ", "PUT ", "PATCH "].iter().any(|method| real.label.starts_with(method));
    // A scenario may have picked the status alone.
    let is_status = |entry: &Entry| entry.answer["body"]["acceptedNames"].is_object();
    if is_write && is_status(real) && is_status(ours) && real.answer["body"]["conditions"].is_null() {
        real.answer["body"] = ours.answer["body"].clone();
        return true;
    }
    let is_definition = |entry: &Entry| entry.answer["body"]["kind"] == "CustomResourceDefinition";
    if !is_write || !is_definition(real) || !is_definition(ours) {
        return false;
    }
    let differs = real.answer["body"]["status"] != ours.answer["body"]["status"];
    for entry in [real, ours] {
        if let Some(body) = entry.answer["body"].as_object_mut() {
            body.remove("status");
        }
        // It has written that status, and owns it.
        if let Some(entries) = entry.answer.pointer_mut("/body/metadata/managedFields").and_then(Value::as_array_mut) {
            entries.retain(|entry| entry["manager"] != "kube-apiserver" || entry["subresource"] != "status");
        }
    }
    differs
}
