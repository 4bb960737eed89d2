//! A person at a terminal with kubectl, on one of two servers; what the commands say is to be the same.

use std::collections::BTreeSet;
use std::time::Duration;

use regex::Regex;
use serde_json::Value;

use crate::{Kubectl, eventually};

/// Generous: machines are rarely idle.
const SOON: Duration = Duration::from_secs(30);

/// What one command gave: itself, its exit code, its outputs.
pub type Outcome = (String, Option<i32>, String, String);

/// Compares two sessions. `permitted`: commands that say something else as a row of `docs/differences.md` says; their exit
/// codes are the same.
///
/// # Panics
/// When they differ, or when what is permitted does not.
#[track_caller]
pub fn assert_same(permitted: &[(&str, usize)], real: &[Outcome], ours: &[Outcome]) {
    let mut text = String::new();
    let mut same: BTreeSet<&str> = permitted.iter().map(|(command, _)| *command).collect();
    for (real, ours) in real.iter().zip(ours) {
        if real == ours {
            continue;
        }
        let is_permitted = permitted.iter().any(|(command, _)| *command == real.0);
        if is_permitted && real.1 == ours.1 {
            same.remove(&*real.0);
            continue;
        }
        let said = |(_, code, stdout, stderr): &Outcome| format!("{code:?}\n{stdout}{stderr}");
        text.push_str(&format!("\n==== kubectl {}\n---- real {}\n---- ours {}\n", real.0, said(real), said(ours)));
    }
    assert!(text.is_empty() && real.len() == ours.len(), "{text}");
    assert!(same.is_empty(), "these do not differ any more, strike them from PERMITTED: {same:?}");
    println!("{} commands", real.len());
}

/// A person's session.
#[derive(Debug)]
pub struct Session<'a> {
    /// For what is not compared.
    pub kubectl: &'a Kubectl,
    /// What all commands gave so far.
    pub outcomes: Vec<Outcome>,
    folds: Vec<(Regex, &'static str)>,
}

impl<'a> Session<'a> {
    /// Begins.
    ///
    /// # Panics
    /// Never: the patterns are correct.
    #[must_use]
    pub fn new(kubectl: &'a Kubectl) -> Self {
        let fold = |(pattern, word)| (Regex::new(pattern).expect("a correct pattern"), word);
        let folds = [
            ("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
            (r"20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( \+0000|Z)?", "<time>"),
            (r#"(resourceVersion\\?"?: ?)\\?"\d+\\?""#, "$1<revision>"),
            (r"(Resource Version: +)\d+", "$1<revision>"),
            (r"(Creation Timestamp: +).*", "$1<time>"),
            (r"/tmp/(LIVE|MERGED)-\d+", "$1"),
            (r"https://127\.0\.0\.1:\d+", "<server>"),
            (r"\b\d+[smh](\d+[smh])?\b", "<age>"),
            (r" +", " "),
            (r"(?m) +$", ""),
        ];
        Self { kubectl, outcomes: Vec::new(), folds: folds.map(fold).to_vec() }
    }

    fn fold(&self, text: &str) -> String {
        self.folds.iter().fold(text.to_owned(), |text, (pattern, word)| pattern.replace_all(&text, *word).into_owned())
    }

    /// Runs one command; words are between spaces.
    pub fn run(&mut self, command: &str) {
        self.run_with(command, "");
    }

    /// Runs one command with an input.
    pub fn run_with(&mut self, command: &str, input: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        let output = if input.is_empty() { self.kubectl.run(&words) } else { self.kubectl.run_stdin(&words, input) };
        self.keep(command, output.code, &output.stdout, &output.stderr);
    }

    fn keep(&mut self, command: &str, code: Option<i32>, stdout: &str, stderr: &str) {
        let sorted = sorted_managers(stdout);
        let stdout = sorted.as_deref().unwrap_or(stdout);
        self.outcomes.push((command.to_owned(), code, self.fold(stdout), self.fold(stderr)));
    }

    /// Runs commands while another one watches until it has said `lines` lines.
    pub fn watched(&mut self, command: &str, lines: usize, work: &[&str]) {
        let words: Vec<&str> = command.split(' ').collect();
        let watch = self.kubectl.spawn(&words);
        let said = |at_least: usize| {
            eventually(command, SOON, || match watch.stdout() {
                text if text.lines().count() >= at_least => Ok(text),
                text => Err(text + &watch.stderr()),
            })
        };
        said(1);
        work.iter().for_each(|command| self.run(command));
        let text = said(lines);
        self.keep(command, None, &text, "");
    }
}

/// Objects in JSON with their managers by name: who wrote in the same second is not told by the times.
fn sorted_managers(text: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    let managed = |object: &mut Value| {
        if let Some(Value::Array(entries)) = object.pointer_mut("/metadata/managedFields") {
            entries.sort_by_key(|entry| ["manager", "operation", "subresource"].map(|name| entry[name].to_string()));
        }
    };
    managed(&mut value);
    if let Some(Value::Array(items)) = value.get_mut("items") {
        items.iter_mut().for_each(managed);
    }
    serde_json::to_string_pretty(&value).ok()
}
