//! The real server's answers as files: one line for each step, without the headers that every answer has.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::run::{Entry, Transcript};
use super::scenario::Scenario;

/// The headers that most answers have.
fn usual() -> Value {
    json!({"content-type": "application/json", "cache-control": "no-cache, private", "audit-id": "…"})
}

fn path(directory: &Path, scenario: &Scenario) -> PathBuf {
    directory.join(&scenario.group).join(format!("{}.jsonl", scenario.name))
}

/// Writes what the real server answered.
///
/// # Errors
/// When the file cannot be written.
pub fn write(directory: &Path, scenario: &Scenario, transcript: &Transcript) -> Result<(), String> {
    let path = path(directory, scenario);
    let mut text = String::new();
    for entry in &transcript.0 {
        let mut answer = entry.answer.clone();
        if answer["headers"] == usual()
            && let Some(fields) = answer.as_object_mut()
        {
            fields.remove("headers");
        }
        // Writing to a text does not fail.
        let _ = writeln!(text, "{}", json!([entry.label, answer]));
    }
    let parent = path.parent().unwrap_or(directory);
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, text));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// What the real server answered when it was recorded; nothing if it was not.
///
/// # Errors
/// When the file is damaged.
pub fn read(directory: &Path, scenario: &Scenario) -> Result<Option<Transcript>, String> {
    let path = path(directory, scenario);
    let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
    let entry = |line: &str| {
        let (label, mut answer): (String, Value) =
            serde_json::from_str(line).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        if answer.get("code").is_some() && answer.get("headers").is_none() {
            answer["headers"] = usual();
        }
        Ok(Entry { label, generated: None, answer })
    };
    text.lines().map(entry).collect::<Result<_, String>>().map(|entries| Some(Transcript(entries)))
}
