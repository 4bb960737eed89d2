//! What the server makes of applies and updates.

use concert_merge::{Force, ManagedFields};
use serde_json::Value;

use super::books::check_books;
use crate::kinds::Kind;
use crate::server::{Answer, Api, Call, JSON};

const MEDIA: &str = "application/apply-patch+yaml";

/// An object on a server.
pub(crate) struct Served {
    api: Api,
    /// Where objects of the kind are.
    all: String,
    path: String,
}

impl Served {
    /// Before anything was written.
    pub(crate) fn nothing(kind: &Kind) -> Self {
        let name = kind.sample()["metadata"]["name"].as_str().unwrap_or("a").to_owned();
        Self { api: Api::new(), all: kind.path(), path: format!("{}/{name}", kind.path()) }
    }

    /// Applies, twice: the second time nothing changes (the third, if nothing that was said can be owned). If it fails, nothing changes either.
    pub(crate) fn apply(&mut self, config: &Value, manager: &str, subresource: &str, force: Force) {
        let force = if force == Force::Yes { "&force=true" } else { "" };
        let query = format!("{}?fieldManager={manager}{force}", place(subresource));
        let path = format!("{}{query}", self.path);
        let body = config.to_string();
        let call = Call::patch(&path, MEDIA, body.as_bytes());
        let before = self.object();
        let answer = self.api.send(&call);
        if !answer.is_success() {
            assert_eq!(self.object(), before, "{} changed something", answer.text());
            return;
        }
        check_managed(&answer);
        let mut answer = answer;
        if answer.json()["metadata"].get("managedFields").is_none() {
            // What was applied cannot be owned. The next apply finds an object without books, and begins some, as in the
            // real server.
            answer = self.api.send(&call);
        }
        let again = self.api.send(&call);
        assert_eq!(again.text(), answer.text(), "another time changes something");
        if before.is_none() && !subresource.is_empty() {
            // Who makes a service by its status makes half of one, also on the real server; the next write does the rest.
            self.api.rewrite(&self.path, JSON);
        }
        self.api.check_stable(&self.path);
    }

    /// Creates or replaces; what is stored then can be written again.
    pub(crate) fn update(&mut self, object: &Value, manager: &str, subresource: &str) {
        let query = format!("?fieldManager={manager}");
        let mut sent = object.clone();
        let answer = match self.object() {
            None => self.api.send(&Call::post(&format!("{}{query}", self.all), JSON, sent.to_string().as_bytes())),
            Some(live) => {
                if let Some(Value::Object(metadata)) = sent.get_mut("metadata") {
                    metadata.insert("resourceVersion".to_owned(), live["metadata"]["resourceVersion"].clone());
                }
                let path = format!("{}{}{query}", self.path, place(subresource));
                self.api.send(&Call::put(&path, JSON, sent.to_string().as_bytes()))
            }
        };
        if answer.is_success() && self.object().is_some() {
            check_managed(&answer);
            self.api.check_stable(&self.path);
        }
    }

    fn object(&mut self) -> Option<Value> {
        let answer = self.api.send(&Call::get(&self.path));
        answer.is_success().then(|| answer.json())
    }
}

fn place(subresource: &str) -> String {
    if subresource.is_empty() { String::new() } else { format!("/{subresource}") }
}

/// The books of an answer can be read, and are as books are.
fn check_managed(answer: &Answer) {
    let managed = ManagedFields::of(&answer.json()).unwrap_or_else(|error| panic!("{error}: {}", answer.text()));
    check_books(&managed);
}
