//! Selectors: what they select, alone and on the server.

use std::collections::BTreeMap;

use concert_api::{FieldSelector, LabelSelector};
use serde_json::{Value, json};

use crate::input::Input;
use crate::kinds::PATCHED;
use crate::server::{Answer, Api, Call, JSON};

/// What the text selects by.
#[derive(Clone, Copy)]
enum By {
    Labels,
    Fields,
}

/// What must come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The text is no selector.
    Refused,
    /// It selects the sample, or not.
    Selected(bool),
    /// It depends on the kind.
    Either,
}

/// Choices: labels or fields, kind. Line 2: the labels of the object, as `a=b,c=d`. The rest: the selector.
pub fn selector(data: &[u8]) {
    let mut input = Input::of(data);
    let by = *input.choose(&[By::Labels, By::Fields]);
    let kind = input.choose(&PATCHED);
    let labels = labels(&String::from_utf8_lossy(input.line()));
    let text = String::from_utf8_lossy(input.rest()).into_owned();
    let mut object = kind.sample();
    object["metadata"]["labels"] = json!(labels);
    let (parameter, expected) = match by {
        By::Labels => ("labelSelector", by_labels(&text, &labels)),
        By::Fields => ("fieldSelector", by_fields(&text, &object)),
    };
    let mut api = Api::new();
    if api.create(kind, JSON, "", object.to_string().as_bytes()).is_none() {
        return;
    }
    let query: String = form_urlencoded::Serializer::new(String::new()).append_pair(parameter, &text).finish();
    let answer = api.send(&Call::get(&format!("{}?{query}", kind.path())));
    check(expected, &answer, &object, &text);
}

fn check(expected: Expected, answer: &Answer, object: &Value, text: &str) {
    let found = match answer.code {
        200 => {
            let list = answer.json();
            let mut items = list["items"].as_array().into_iter().flatten();
            Expected::Selected(items.any(|item| item["metadata"]["name"] == object["metadata"]["name"]))
        }
        400 => Expected::Refused,
        code => panic!("{text:?} is answered with {code}: {}", answer.text()),
    };
    if expected != Expected::Either {
        assert_eq!(found, expected, "{text:?} of {}: {}", object["metadata"], answer.text());
    }
}

fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn by_labels(text: &str, labels: &BTreeMap<String, String>) -> Expected {
    let Ok(selector) = LabelSelector::parse(text) else { return Expected::Refused };
    let selected = selector.matches(labels);
    let shown = selector.to_string();
    let again = LabelSelector::parse(&shown).unwrap_or_else(|error| panic!("{text:?} is shown as {shown:?}: {error}"));
    assert_eq!(again, selector, "{text:?} is shown as {shown:?}");
    assert_eq!(again.matches(labels), selected);
    Expected::Selected(selected)
}

fn by_fields(text: &str, object: &Value) -> Expected {
    let Ok(selector) = FieldSelector::parse(text) else { return Expected::Refused };
    let shown = selector.to_string();
    let again = FieldSelector::parse(&shown).unwrap_or_else(|error| panic!("{text:?} is shown as {shown:?}: {error}"));
    assert_eq!(again, selector, "{text:?} is shown as {shown:?}");
    if selector.fields().any(|field| field != "metadata.name") {
        return Expected::Either;
    }
    Expected::Selected(selector.matches(|_| object["metadata"]["name"].as_str().unwrap_or_default().into()))
}
