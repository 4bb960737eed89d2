//! What the containers of a pod may use together: what a pod says of itself as a whole, and how surely it gets it.

use serde_json::{Map, Value, json};

use crate::builtin::judge::{Judge, items, members, text};
use crate::builtin::quantity;

/// What a pod as a whole can have limits of.
fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Fills in what a pod that tells some of its limits as a whole does not tell.
pub(super) fn fill_whole(spec: &mut Value) {
    let given = |part: &str| spec["resources"][part].as_object().cloned().unwrap_or_default();
    let (mut requests, mut limits) = (given("requests"), given("limits"));
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    for (name, amount) in together(spec, "requests") {
        // Huge pages are never promised twice.
        if matches!(name.as_str(), "cpu" | "memory") {
            requests.entry(name).or_insert(amount);
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| is_of_pods(name)) {
        requests.entry(name.clone()).or_insert_with(|| amount.clone());
    }
    for (name, amount) in limits_of_all(spec, &requests, &limits) {
        limits.insert(name, amount);
    }
    for (part, amounts) in [("requests", requests), ("limits", limits)] {
        if !amounts.is_empty() {
            spec["resources"][part] = amounts.into();
        }
    }
}

/// What a pod asks for as a whole is at least what its containers ask for, and none of them may use more than it.
pub(super) fn check_whole(spec: &Value, path: &str, judge: &mut Judge) {
    for part in ["requests", "limits"] {
        let sums = together(spec, part);
        for (name, amount) in members(&spec["resources"][part]) {
            let is_told = part == "requests" || name.starts_with("hugepages-");
            let Some(sum) = sums.get(name).filter(|sum| is_told && quantity::is_more(sum, amount)) else { continue };
            let detail = format!("must be greater than or equal to aggregate container {part} of {}", text(sum));
            judge.invalid(format!("{path}.resources.{part}[{name}]"), text(amount), detail);
        }
    }
    for (place, container) in items(&spec["containers"], &format!("{path}.resources.containers")) {
        for (name, limit) in members(&container["resources"]["limits"]) {
            let most = &spec["resources"]["limits"][name];
            if !most.is_null() && quantity::is_more(limit, most) {
                let detail = format!("must be less than or equal to pod limits of {}", text(most));
                judge.invalid(format!("{place}[{name}].limits"), text(limit), detail);
            }
        }
    }
}

/// What every container has a limit of, and the pod is asked for without one.
fn limits_of_all(spec: &Value, requests: &Map<String, Value>, limits: &Map<String, Value>) -> Vec<(String, Value)> {
    let sums = together(spec, "limits");
    let is_limited = |name: &str| {
        let all = ["containers", "initContainers"].map(|list| spec[list].as_array().into_iter().flatten());
        all.into_iter().flatten().all(|container| !container["resources"]["limits"][name].is_null())
    };
    let unlimited = requests.iter().filter(|(name, _)| is_of_pods(name) && !limits.contains_key(*name));
    unlimited
        .filter(|(name, _)| is_limited(name))
        .filter_map(|(name, wanted)| {
            let sum = sums.get(name)?;
            let more = quantity::millis(wanted) > quantity::millis(sum);
            Some((name.clone(), if more { wanted } else { sum }.clone()))
        })
        .collect()
}

/// What containers need at one time: those that run together as a sum, those that come before them one by one.
fn together(spec: &Value, part: &str) -> Map<String, Value> {
    let amounts = |container: &Value| -> Vec<(String, Value)> {
        let all = container["resources"][part].as_object().into_iter().flatten();
        all.map(|(name, amount)| (name.clone(), amount.clone())).collect()
    };
    let mut running = Map::new();
    for container in spec["containers"].as_array().into_iter().flatten() {
        add(&mut running, amounts(container));
    }
    let (mut beside, mut first) = (Map::new(), Map::new());
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        if container["restartPolicy"] == "Always" {
            add(&mut running, amounts(container));
            add(&mut beside, amounts(container));
            most(&mut first, beside.clone());
        } else {
            let mut needs = beside.clone();
            add(&mut needs, amounts(container));
            most(&mut first, needs);
        }
    }
    most(&mut running, first);
    running
}

fn add(sum: &mut Map<String, Value>, amounts: impl IntoIterator<Item = (String, Value)>) {
    for (name, amount) in amounts {
        match sum.get_mut(&name) {
            Some(before) => *before = quantity::sum(before, &amount),
            None => drop(sum.insert(name, amount)),
        }
    }
}

fn most(all: &mut Map<String, Value>, amounts: Map<String, Value>) {
    for (name, amount) in amounts {
        let less = all.get(&name).is_none_or(|before| quantity::millis(before) < quantity::millis(&amount));
        if less {
            all.insert(name, amount);
        }
    }
}

/// How surely a pod gets what it asks for: all of it, some, or nothing.
pub(super) fn quality(spec: &Value) -> &'static str {
    let is_said = |part: &str| spec["resources"][part].as_object().is_some_and(|amounts| !amounts.is_empty());
    if is_said("requests") || is_said("limits") {
        return quality_of([&json!({"resources": spec["resources"]})]);
    }
    let lists = ["containers", "initContainers"].map(|list| spec[list].as_array().into_iter().flatten());
    quality_of(lists.into_iter().flatten())
}

fn quality_of<'a>(containers: impl IntoIterator<Item = &'a Value>) -> &'static str {
    let (mut any, mut all) = (false, true);
    for container in containers {
        let amount = |part: &str, name: &str| {
            let given = &container["resources"][part][name];
            quantity::millis(given).filter(|amount| *amount > 0)
        };
        for name in ["cpu", "memory"] {
            let (wanted, limit) = (amount("requests", name), amount("limits", name));
            any = any || wanted.is_some() || limit.is_some();
            all = all && limit.is_some() && wanted.is_none_or(|wanted| Some(wanted) == limit);
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
