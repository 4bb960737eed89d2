//! Running scenarios on one server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::player::{DEFINITIONS, Player};
use super::scenario::Scenario;
use crate::Api;
use crate::patience::Deadline;

/// How many scenarios run at once: they mostly wait.
const AT_ONCE: usize = 24;

/// How long something asynchronous may take. The real server needs seconds for a new definition, and our machines are
/// rarely idle.
pub(super) const PATIENCE: Duration = Duration::from_secs(25);

/// How often we ask for it.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// What a server answered to the steps of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript(pub Vec<Entry>);

/// What it answered to one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The step.
    pub label: String,
    /// The `generateName` that was sent.
    pub generated: Option<String>,
    /// Code, headers and body; or events.
    pub answer: Value,
}

/// Runs every scenario, many at once; in the order given, what was answered or why there is no answer.
#[must_use]
pub fn run_all(api: &Api, scenarios: &[Scenario]) -> Vec<Result<Transcript, String>> {
    let results: Mutex<BTreeMap<usize, Result<Transcript, String>>> = Mutex::default();
    // New definitions come last: while discovery changes, the real namespace controller fails and waits for minutes.
    for defines in [false, true] {
        let wave: Vec<_> = scenarios.iter().enumerate().filter(|(_, scenario)| scenario.defines() == defines).collect();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(wave.len()) {
                scope.spawn(|| {
                    while let Some((place, scenario)) = wave.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = run(api, scenario);
                        results.lock().unwrap_or_else(PoisonError::into_inner).insert(*place, result);
                    }
                });
            }
        });
    }
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

fn run(api: &Api, scenario: &Scenario) -> Result<Transcript, String> {
    let mut player = Player::new(api, scenario);
    player.prepare(scenario)?;
    let mut transcript = Transcript::default();
    for (number, step) in scenario.steps.iter().enumerate() {
        let failed = |why: String| format!("step {}, {}: {why}", number + 1, step.label());
        if let Some(answer) = player.play(step).map_err(failed)? {
            let generated = step.body.as_ref().and_then(|body| body["metadata"]["generateName"].as_str());
            transcript.0.push(Entry { label: step.label(), generated: generated.map(str::to_owned), answer });
        }
    }
    Ok(transcript)
}

/// Makes definitions that all scenarios share, and waits until they are served.
///
/// # Errors
/// What the server does not take or serve.
pub fn define(api: &Api, definitions: &[Value]) -> Result<(), String> {
    for definition in definitions {
        let answer = api.request("POST", DEFINITIONS, Some(definition)).map_err(|error| error.to_string())?;
        if answer.code != 201 {
            return Err(format!("cannot define {}: {} {}", definition["metadata"]["name"], answer.code, answer.body));
        }
    }
    for definition in definitions {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, version) = (text(&spec["group"]), text(&spec["versions"][0]["name"]));
        let plural = text(&spec["names"]["plural"]);
        wait_until(api, &format!("/apis/{group}/{version}/{plural}"), |code, _| code == 200)?;
        // The real server tells of it later than it serves it.
        let told = |code: u16, body: &Value| {
            let paths = body["paths"].as_object().into_iter().flatten();
            code == 200 && paths.into_iter().any(|(path, _)| path.ends_with(&format!("/{plural}")))
        };
        wait_until(api, &format!("/openapi/v3/apis/{group}/{version}"), told)?;
    }
    Ok(())
}

pub(super) fn wait_until(api: &Api, path: &str, is_good: impl Fn(u16, &Value) -> bool) -> Result<(), String> {
    let deadline = Deadline::after(PATIENCE);
    loop {
        let answer = api.request("GET", path, None).map_err(|error| error.to_string())?;
        if is_good(answer.code, &answer.body) {
            return Ok(());
        }
        if !deadline.wait(POLL) {
            return Err(format!("{path} still answers {} {}", answer.code, answer.body));
        }
    }
}
