//! Patches of every form, on documents and through the server.

use concert_api::{DEPTH_MAX, decode};
use concert_merge::{json_patch, merge_diff, merge_patch, strategic_merge_patch};
use concert_schema::{Builtin, Schema};
use serde_json::Value;

use crate::apply::books::has_null;
use crate::input::Input;
use crate::kinds::{Kind, PATCHED};
use crate::server::{Api, Call, JSON};

/// A form of patches.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Merge,
    Strategic,
}

const FORMS: [Form; 3] = [Form::Json, Form::Merge, Form::Strategic];
const VALIDATIONS: [&str; 3] = ["", "?fieldValidation=Strict", "?fieldValidation=Ignore"];

/// Choices: form, kind, field validation. Line 2: the document, or nothing for the kind's sample. The rest: the patch.
pub fn patch(data: &[u8]) {
    let mut input = Input::of(data);
    let form = *input.choose(&FORMS);
    let kind = input.choose(&PATCHED);
    let query = input.choose(&VALIDATIONS);
    let line = input.line();
    let sample = kind.sample().to_string();
    let document = if line.is_empty() { sample.as_bytes() } else { line };
    check_pure(form, kind, document, input.rest());
    check_served(form, kind, query, document, input.rest());
}

fn check_pure(form: Form, kind: &Kind, document: &[u8], patch: &[u8]) {
    let (Ok(document), Ok(patch)) = (decode(document), decode(patch)) else { return };
    let (document, patch) = (document.value, patch.value);
    match form {
        Form::Json => check_json(&document, &patch),
        Form::Merge => check_merge(&document, &patch),
        Form::Strategic => check_strategic(kind, &document, &patch),
    }
}

fn check_json(document: &Value, patch: &Value) {
    let mut patched = document.clone();
    match json_patch(&mut patched, patch) {
        Ok(()) => assert!(depth(&patched) <= DEPTH_MAX, "{} levels", depth(&patched)),
        Err(error) => {
            assert_eq!(patched, *document, "{error}");
            assert!(matches!(error.code(), 400..500), "{error}");
        }
    }
}

fn check_merge(document: &Value, patch: &Value) {
    let mut patched = document.clone();
    merge_patch(&mut patched, patch);
    let once = patched.clone();
    merge_patch(&mut patched, patch);
    assert_eq!(patched, once, "a second time changes something");
    // What a patch leaves of a document may still have the document's own nulls, which no patch can say.
    if has_null(&once) {
        return;
    }
    let mut again = document.clone();
    if let Some(difference) = merge_diff(document, &once) {
        merge_patch(&mut again, &difference);
        assert_eq!(again, once, "the difference {difference} does not lead there");
    } else {
        assert_eq!(*document, once, "there is a difference");
    }
}

fn check_strategic(kind: &Kind, document: &Value, patch: &Value) {
    let Some(builtin) = Builtin::find(&kind.gvk()) else { return };
    let schema: &Schema = &builtin.schema;
    let mut patched = document.clone();
    if let Err(error) = strategic_merge_patch(&mut patched, patch, schema, kind.name) {
        assert_eq!(patched, *document, "{error}");
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn check_served(form: Form, kind: &Kind, query: &str, document: &[u8], patch: &[u8]) {
    let media = match form {
        Form::Json => "application/json-patch+json",
        Form::Merge => "application/merge-patch+json",
        Form::Strategic => "application/strategic-merge-patch+json",
    };
    let mut api = Api::new();
    let Some(path) = api.create(kind, JSON, "", document) else { return };
    let before = api.send(&Call::get(&path)).text();
    let answer = api.send(&Call::patch(&format!("{path}{query}"), media, patch));
    if answer.is_success() {
        api.check_stable(&path);
    } else {
        assert_eq!(api.send(&Call::get(&path)).text(), before, "{} changed something", answer.text());
    }
}
