//! What the author of pods, or of what makes them, should know: lists that name a thing twice, which apply would drop, and
//! selectors that select nothing.

use std::collections::{BTreeMap, BTreeSet};

use concert_schema::is_fractional;
use serde_json::Value;

/// Where kinds have what pods are made from: as members, and as messages call it.
const TEMPLATES: [(&str, &str, &str); 8] = [
    ("apps", "DaemonSet", "/spec/template"),
    ("apps", "Deployment", "/spec/template"),
    ("apps", "ReplicaSet", "/spec/template"),
    ("apps", "StatefulSet", "/spec/template"),
    ("batch", "CronJob", "/spec/jobTemplate/spec/template"),
    ("batch", "Job", "/spec/template"),
    ("", "PodTemplate", "/template"),
    ("", "ReplicationController", "/spec/template"),
];

/// Warnings about a new pod, or about pods to come if what they are made from has changed.
pub(super) fn advice(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    if (group, kind) == ("", "Pod") {
        return if old.is_none() { about(&object["spec"], "spec") } else { Vec::new() };
    }
    let place = TEMPLATES.iter().find(|(in_group, name, _)| (*in_group, *name) == (group, kind));
    let Some((_, _, place)) = place else { return Vec::new() };
    let counted = |object: &Value| match kind {
        "DaemonSet" => object.pointer(place).cloned(),
        _ => object.pointer("/metadata/generation").cloned(),
    };
    if old.is_some_and(|old| counted(old) == counted(object)) {
        return Vec::new();
    }
    let path = place.trim_start_matches('/').replace('/', ".");
    object.pointer(place).map(|template| about(&template["spec"], &format!("{path}.spec"))).unwrap_or_default()
}

fn about(spec: &Value, path: &str) -> Vec<String> {
    let mut told = Vec::new();
    for (place, constraint) in items(&spec["topologySpreadConstraints"], &format!("{path}.topologySpreadConstraints")) {
        if constraint["labelSelector"].is_null() {
            told.push(format!("{place}.labelSelector: a null labelSelector results in matching no pod"));
        }
    }
    for (list, key, word) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        let mut seen = BTreeSet::new();
        for (place, item) in items(&spec[list], &format!("{path}.{list}")) {
            if !seen.insert(text(&item[key])) {
                told.push(format!("{place}.{key}: duplicate {word} {:?}", text(&item[key])));
            }
        }
    }
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers: Vec<_> = lists.iter().flat_map(|list| items(&spec[*list], &format!("{path}.{list}"))).collect();
    for (place, container) in &containers {
        for name in ["memory", "ephemeral-storage"] {
            let amounts = ["limits", "requests"].map(|list| (list, &container["resources"][list][name]));
            told.extend(
                amounts
                    .into_iter()
                    .filter_map(|(list, amount)| about_bytes(amount, &format!("{place}.resources.{list}[{name}]"))),
            );
        }
        told.extend(about_variables(&container["env"], &format!("{place}.env")));
    }
    told.extend(about_ports(&containers));
    told
}

/// There are no parts of bytes.
pub(super) fn about_bytes(amount: &Value, path: &str) -> Option<String> {
    let told = || format!("{path}: fractional byte value {:?} is invalid, must be an integer", text(amount));
    is_fractional(amount).then(told)
}

/// A variable that is there twice, and does not build on what it was.
fn about_variables(variables: &Value, path: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut told = Vec::new();
    for (place, variable) in items(variables, path) {
        let name = text(&variable["name"]);
        let reference = format!("$({name})");
        let value = text(&variable["value"]);
        let builds = variable["valueFrom"].is_null() && value != reference && value.contains(&reference);
        if !seen.insert(name) && !builds {
            told.push(format!("{place}: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
    told
}

/// Ports, and names of ports, that a pod has twice.
fn about_ports(containers: &[(String, &Value)]) -> Vec<String> {
    let mut told = Vec::new();
    let mut ports: BTreeMap<(i64, &str), Vec<(String, &Value)>> = BTreeMap::new();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let mut twice = Vec::new();
    for (container, one) in containers {
        for (place, port) in items(&one["ports"], &format!("{container}.ports")) {
            let key = (port["containerPort"].as_i64().unwrap_or(0), text(&port["protocol"]));
            let others = ports.entry(key).or_default();
            told.extend(others.iter().filter_map(|other| overlap(&place, port, other)));
            others.push((place.clone(), port));
            let name = text(&port["name"]);
            if let Some(other) = names.get(name) {
                twice.push(format!("{place}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"));
            } else if !name.is_empty() {
                names.insert(name, place);
            }
        }
    }
    told.extend(twice);
    told
}

fn overlap(place: &str, port: &Value, (at, other): &(String, &Value)) -> Option<String> {
    let host = |port: &Value| port["hostPort"].as_i64().unwrap_or(0);
    let same_address = text(&port["hostIP"]) == text(&other["hostIP"]);
    let one_address = text(&port["hostIP"]).is_empty() != text(&other["hostIP"]).is_empty();
    let word = match (host(port), host(other)) {
        (one, two) if one == two && same_address => "duplicate",
        (0, _) | (_, 0) => "overlapping",
        (one, two) if one == two && one_address => "dangerously ambiguous",
        _ => return None,
    };
    Some(format!("{place}: {word} port definition with {at}"))
}

/// The items of a list, and where they are.
fn items<'a>(list: &'a Value, path: &str) -> Vec<(String, &'a Value)> {
    let items = list.as_array().into_iter().flatten().enumerate();
    items.map(|(place, item)| (format!("{path}[{place}]"), item)).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
