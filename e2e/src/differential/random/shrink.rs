//! From a scenario that shows a difference to a small one that still does.

use std::time::Duration;

use serde_json::Value;

use crate::differential::Scenario;
use crate::differential::scenario::Step;
use crate::patience::Deadline;

/// How many candidates are tried at once.
const AT_ONCE: usize = 40;

/// How long one may take: the real server needs seconds for every definition.
const PATIENCE: Duration = Duration::from_secs(60);

/// The smallest scenario to be found in a minute that still differs. `differs` says so of many at once.
pub fn shrink(scenario: Scenario, differs: &dyn Fn(&[Scenario]) -> Vec<bool>) -> Scenario {
    let mut smallest = scenario;
    let mut tried = 0;
    let deadline = Deadline::after(PATIENCE);
    while !deadline.is_over() {
        let candidates = smaller(&smallest);
        // What was tried in vain before is tried again last: it seldom helps.
        let order = (0..candidates.len()).map(|place| (place + tried) % candidates.len().max(1));
        let candidates: Vec<&Scenario> = order.map(|place| &candidates[place]).collect();
        let found = candidates.chunks(AT_ONCE).enumerate().find_map(|(number, chunk)| {
            let chunk: Vec<Scenario> = chunk.iter().copied().cloned().collect();
            let place = differs(&chunk).iter().position(|differs| *differs)?;
            Some((number * AT_ONCE + place, chunk[place].clone()))
        });
        match found {
            Some((place, scenario)) => {
                tried = (tried + place) % candidates.len();
                smallest = scenario;
            }
            None => break,
        }
    }
    smallest
}

/// Scenarios with something less, the boldest first.
fn smaller(scenario: &Scenario) -> Vec<Scenario> {
    let with = |steps: Vec<Step>| Scenario { steps, ..scenario.clone() };
    let count = scenario.steps.len();
    let mut found = Vec::new();
    let mut size = count / 2;
    while size > 0 {
        for start in (0..count).step_by(size) {
            let is_kept = |place: usize, step: &Step| step.define.is_some() || !(start..start + size).contains(&place);
            let kept = scenario.steps.iter().enumerate().filter(|(place, step)| is_kept(*place, step));
            let steps: Vec<Step> = kept.map(|(_, step)| step.clone()).collect();
            if steps.len() < count {
                found.push(with(steps));
            }
        }
        size /= 2;
    }
    for (place, step) in scenario.steps.iter().enumerate() {
        for step in simpler(step) {
            let mut steps = scenario.steps.clone();
            steps[place] = step;
            found.push(with(steps));
        }
    }
    found
}

/// The step with something less.
fn simpler(step: &Step) -> Vec<Step> {
    let mut found = Vec::new();
    if let Some((start, _)) = step.request.as_ref().and_then(|request| request.rsplit_once('&')) {
        found.push(Step { request: Some(start.to_owned()), ..step.clone() });
    }
    let parts: [fn(&mut Step) -> Option<&mut Value>; 5] = [
        |step| step.define.as_mut(),
        |step| Some(&mut step.version),
        |step| Some(&mut step.crd),
        |step| step.body.as_mut(),
        |step| step.edit.as_mut(),
    ];
    for part in parts {
        let mut whole = step.clone();
        let Some(value) = part(&mut whole) else { continue };
        for less in less(value) {
            let mut step = step.clone();
            if let Some(value) = part(&mut step) {
                *value = less;
            }
            found.push(step);
        }
    }
    found
}

/// The value without one member or item, wherever it is; the largest parts go first.
fn less(value: &Value) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    match value {
        Value::Object(members) => {
            for name in members.keys() {
                let mut rest = members.clone();
                rest.remove(name);
                found.push(rest.into());
            }
            for (name, member) in members {
                for less in less(member) {
                    let mut members = members.clone();
                    members.insert(name.clone(), less);
                    found.push(members.into());
                }
            }
        }
        Value::Array(items) => {
            for place in 0..items.len() {
                let mut rest = items.clone();
                rest.remove(place);
                found.push(rest.into());
            }
            for (place, item) in items.iter().enumerate() {
                for less in less(item) {
                    let mut items = items.clone();
                    items[place] = less;
                    found.push(items.into());
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_matter_goes() {
        let step = |body: Value| Step {
            request: Some("PATCH x?a=b&force=true".to_owned()),
            body: Some(body),
            ..Step::default()
        };
        let noise = step(json!({"a": {"b": [1, 2]}, "c": 3}));
        let steps = vec![noise.clone(), step(json!({"d": 1, "keep": [1, {"this": 2}, 3]})), noise];
        let scenario = Scenario { steps, ..super::super::scenario(0) };
        let differs = |scenarios: &[Scenario]| {
            let shows = |step: &Step| step.body.as_ref().is_some_and(|body| body.to_string().contains("this"));
            scenarios.iter().map(|scenario| scenario.steps.iter().any(shows)).collect()
        };
        let smallest = shrink(scenario, &differs);
        assert_eq!(smallest.steps.len(), 1);
        assert_eq!(smallest.steps[0].body, Some(json!({"keep": [{"this": 2}]})));
        assert_eq!(smallest.steps[0].request.as_deref(), Some("PATCH x?a=b"));
    }
}
