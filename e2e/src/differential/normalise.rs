//! What is random or time becomes a word, so that two servers can be compared.
//!
//! | what | becomes |
//! |---|---|
//! | a uid | `uid-N`, numbered by first appearance in the scenario |
//! | a time of our days | `<time>`, with as many digits behind the point; an age in a table `<age>` |
//! | an object's resourceVersion | `rv-N`: its place among those of all objects that the scenario saw |
//! | a list's, a bookmark's, a continue token's | `rv-N+`: the last object's that is not after it. Others write meanwhile |
//! | a definition's resourceVersion | `rv`: the real server writes its status when it likes |
//! | the five characters of a generated name | `#####` |
//! | several causes of a refusal, and the message that repeats them | in alphabetical order: Go's maps have none |
//! | the number in the name that the real server's CEL checker gives a schema | `selfType#` |
//!
//! Nothing else. Times that a scenario sends are from before 2025 and stay.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::run::{Entry, Transcript};

/// What a scenario's answers hold.
struct Seen {
    uids: BTreeMap<String, String>,
    revisions: BTreeSet<u64>,
    /// Patterns of generated names, and what is put for them.
    generated: Vec<(Regex, String)>,
    patterns: Patterns,
}

struct Patterns {
    uid: Regex,
    time: Regex,
    age: Regex,
    revision: Regex,
    own_type: Regex,
    address: Regex,
    node_port: Regex,
}

impl Patterns {
    fn new() -> Self {
        let regex = |text| Regex::new(text).expect("a correct pattern");
        Self {
            uid: regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            time: regex(r"20(?:2[5-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(?:Z|\+00:00)"),
            own_type: regex(r"selfType\d+"),
            // Which address and which port of a node a service gets is the server's choice.
            address: regex(r"\b10\.0\.0\.(?:[2-9]|\d\d+)\b"),
            node_port: regex(r":3[0-2]\d{3}/"),
            age: regex(r"^(?:\d+[dhms]){1,2}$"),
            revision: regex(
                r#"(resource version: |current: |precondition \(|record \(|resourceVersion\\*"?: ?\\*")(\d+)"#,
            ),
        }
    }
}

/// The transcript with words for what is random or time.
#[must_use]
pub fn normalise(transcript: &Transcript) -> Transcript {
    let mut seen = Seen {
        uids: BTreeMap::new(),
        revisions: BTreeSet::new(),
        generated: transcript.0.iter().filter_map(|entry| generated(entry.generated.as_ref()?)).collect(),
        patterns: Patterns::new(),
    };
    for entry in &transcript.0 {
        seen.look(&entry.answer, false);
    }
    let entry = |entry: &Entry| {
        let mut answer = seen.fold(&entry.answer, Place::Elsewhere);
        if let Some(body) = answer.get_mut("body") {
            sort_causes(body);
        }
        Entry { answer, ..entry.clone() }
    };
    Transcript(transcript.0.iter().map(entry).collect())
}

/// A pattern for the names that a server makes of `base`.
fn generated(base: &str) -> Option<(Regex, String)> {
    let kept: String = base.chars().take(58).collect();
    let pattern = format!("{}[bcdfghjklmnpqrstvwxz2456789]{{5}}", regex::escape(&kept));
    Some((Regex::new(&pattern).ok()?, format!("{}#####", kept.replace('$', "$$"))))
}

/// Puts several causes in order, and what the message repeats of them.
fn sort_causes(body: &mut Value) {
    let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) else { return };
    if causes.len() < 2 {
        return;
    }
    causes.sort_by_key(ToString::to_string);
    let said = |cause: &Value| Some(format!("{}: {}", cause["field"].as_str()?, cause["message"].as_str()?));
    let mut texts: Vec<String> = causes.iter().filter_map(said).collect();
    // The longest first: one may begin as another does.
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    let Some((start, list)) = body["message"].as_str().and_then(|message| message.split_once(" is invalid: [")) else {
        return;
    };
    let mut rest = list.to_owned();
    let mut found = BTreeSet::new();
    for text in texts {
        if let Some(at) = rest.find(&text) {
            rest.replace_range(at..at + text.len(), "");
            found.insert(text);
        }
    }
    let found: Vec<String> = found.into_iter().collect();
    body["message"] = format!("{start} is invalid: [{}{}", found.join(", "), rest.replace(", ", "")).into();
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Elsewhere,
    /// In a list, a table or a bookmark, whose revision is that of the whole.
    Whole,
    /// In `metadata` of an object, or of a whole.
    Metadata {
        whole: bool,
    },
}

impl Seen {
    /// Collects names, in an order that no server decides.
    fn look(&mut self, value: &Value, in_bookmark: bool) {
        match value {
            Value::String(text) => {
                for found in self.patterns.uid.find_iter(text) {
                    let name = format!("uid-{}", self.uids.len() + 1);
                    self.uids.entry(found.as_str().to_owned()).or_insert(name);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.look(item, false)),
            Value::Object(fields) => {
                if !in_bookmark && !is_whole(fields) && !is_definition(fields) {
                    self.look_at_metadata(&fields.get("metadata").cloned().unwrap_or_default());
                }
                let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
                let is_bookmark = fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
                sorted.into_values().for_each(|field| self.look(field, is_bookmark));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn look_at_metadata(&mut self, metadata: &Value) {
        if let Some(revision) = metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok()) {
            self.revisions.insert(revision);
        }
    }

    fn fold(&self, value: &Value, place: Place) -> Value {
        match value {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fold(item, Place::Elsewhere)).collect(),
            Value::Object(fields) => self.fields(fields, place),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn fields(&self, fields: &Map<String, Value>, place: Place) -> Value {
        let is_bookmark = fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
        let is_table = fields.contains_key("columnDefinitions");
        let whole = place == Place::Whole || is_whole(fields);
        let is_definition = is_definition(fields);
        let fold = |(name, field): (&String, &Value)| {
            let folded = match (place, name.as_str(), field) {
                (Place::Metadata { whole }, "resourceVersion", Value::String(text)) => {
                    self.revision(text, whole).into()
                }
                (Place::Metadata { .. }, "continue", Value::String(text)) => self.token(text).into(),
                (_, "metadata", Value::Object(metadata)) if is_definition => {
                    let mut metadata = metadata.clone();
                    metadata.insert("resourceVersion".to_owned(), "rv".into());
                    self.fold(&metadata.into(), Place::Metadata { whole })
                }
                (_, "metadata", _) => self.fold(field, Place::Metadata { whole }),
                (_, "nodePort" | "healthCheckNodePort", Value::Number(_)) => "<port>".into(),
                (_, "object", _) if is_bookmark => self.fold(field, Place::Whole),
                (_, "rows", Value::Array(rows)) if is_table => rows.iter().map(|row| self.row(row)).collect(),
                _ => self.fold(field, Place::Elsewhere),
            };
            (self.text(name), folded)
        };
        fields.iter().map(fold).collect()
    }

    /// A table's row: its ages go by.
    fn row(&self, row: &Value) -> Value {
        let mut row = self.fold(row, Place::Elsewhere);
        for cell in row["cells"].as_array_mut().into_iter().flatten() {
            if cell.as_str().is_some_and(|text| self.patterns.age.is_match(text)) {
                *cell = "<age>".into();
            }
        }
        row
    }

    fn text(&self, text: &str) -> String {
        let text = self.patterns.uid.replace_all(text, |found: &Captures<'_>| self.uids[&found[0]].clone());
        let text = self.patterns.time.replace_all(&text, |found: &Captures<'_>| {
            let digits = found.get(1).map_or(0, |fraction| fraction.len() - 1);
            if digits == 0 { "<time>".to_owned() } else { format!("<time.{digits}>") }
        });
        let text = self.patterns.revision.replace_all(&text, |found: &Captures<'_>| {
            let is_current = &found[1] == "current: ";
            format!("{}{}", &found[1], self.revision(&found[2], is_current))
        });
        let text = self.patterns.own_type.replace_all(&text, "selfType#");
        let text = self.patterns.address.replace_all(&text, "<address>");
        let text = self.patterns.node_port.replace_all(&text, ":<port>/");
        let fold = |text: String, (name, folded): &(Regex, String)| name.replace_all(&text, folded).into_owned();
        self.generated.iter().fold(text.into_owned(), fold)
    }

    fn revision(&self, text: &str, whole: bool) -> String {
        let Ok(revision) = text.parse::<u64>() else { return text.to_owned() };
        if !whole && !self.revisions.contains(&revision) {
            return text.to_owned();
        }
        let place = self.revisions.range(..=revision).count();
        format!("rv-{place}{}", if whole { "+" } else { "" })
    }

    fn token(&self, text: &str) -> String {
        let decoded = BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let decoded: Option<Value> = decoded.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(mut token) = decoded else { return text.to_owned() };
        token["rv"] = self.revision(&token["rv"].to_string(), true).into();
        self.fold(&token, Place::Elsewhere).to_string()
    }
}

fn is_definition(fields: &Map<String, Value>) -> bool {
    fields.get("kind").is_some_and(|kind| kind == "CustomResourceDefinition")
}

fn is_whole(fields: &Map<String, Value>) -> bool {
    fields.contains_key("items")
        || fields.contains_key("columnDefinitions")
        || fields.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn normalised(answers: &[Value]) -> Vec<Value> {
        let entry = |answer: &Value| {
            let generated = answer["metadata"]["generateName"].as_str().map(str::to_owned);
            Entry { label: String::new(), generated, answer: answer.clone() }
        };
        let transcript = Transcript(answers.iter().map(entry).collect());
        normalise(&transcript).0.into_iter().map(|entry| entry.answer).collect()
    }

    fn object(revision: &str, uid: &str) -> Value {
        json!({"metadata": {"resourceVersion": revision, "uid": uid}})
    }

    #[test]
    fn revisions_keep_their_order_and_uids_their_identity() {
        let (one, two) = ("00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b");
        let list = json!({"kind": "XList", "metadata": {"resourceVersion": "95"}, "items": [object("90", one)]});
        let folded = normalised(&[object("90", one), object("100", two), list]);
        assert_eq!(folded[0], object("rv-1", "uid-1"));
        assert_eq!(folded[1], object("rv-2", "uid-2"));
        assert_eq!(folded[2]["metadata"]["resourceVersion"], "rv-1+");
        assert_eq!(folded[2]["items"][0], object("rv-1", "uid-1"));
    }

    #[test]
    fn only_what_is_random_is_touched() {
        let kept = json!({"spec": {"at": "2020-01-01T00:00:00Z", "resourceVersion": "7", "text": "5m"}, "code": 12});
        assert_eq!(normalised(std::slice::from_ref(&kept)), [kept]);
    }

    #[test]
    fn messages_times_tokens_and_generated_names_are_folded() {
        let object = json!({"metadata": {"name": "a-bc245", "generateName": "a-", "resourceVersion": "31"}});
        let token = BASE64_URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":40,"start":"a-bc245\u0000"}"#);
        let list = json!({"items": [], "metadata": {"continue": token}});
        let status =
            json!({"message": "a-bc245 at 2026-01-02T03:04:05.123456Z: Too large resource version: 99, current: 31"});
        let folded = normalised(&[object, list, status]);
        assert_eq!(folded[0]["metadata"]["name"], "a-#####");
        assert_eq!(folded[1]["metadata"]["continue"], r#"{"rv":"rv-1+","start":"a-#####\u0000","v":"meta.k8s.io/v1"}"#);
        assert_eq!(folded[2]["message"], "a-##### at <time.6>: Too large resource version: 99, current: rv-1+");
    }

    #[test]
    fn causes_have_no_order() {
        let cause = |field: &str| json!({"field": field, "message": "no"});
        let status = |first: &str, second: &str| {
            let message = format!("x is invalid: [{first}: no, {second}: no]");
            json!({"body": {"message": message, "details": {"causes": [cause(first), cause(second)]}}})
        };
        assert_eq!(normalised(&[status("a", "b")]), normalised(&[status("b", "a")]));
        assert_ne!(normalised(&[status("a", "b")]), normalised(&[status("a", "c")]));
    }

    #[test]
    fn bookmarks_and_ages_are_folded() {
        let event = json!({"events": [{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12"}}}]});
        assert_eq!(normalised(&[event])[0]["events"][0]["object"]["metadata"]["resourceVersion"], "rv-0+");
        let table = json!({"columnDefinitions": [], "rows": [{"cells": ["a", "1m5s", 3]}]});
        assert_eq!(normalised(&[table])[0]["rows"][0]["cells"], json!(["a", "<age>", 3]));
    }
}
