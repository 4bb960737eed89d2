//! Network policies.

use concert_api::FieldErrors;
use serde_json::Value;

use crate::builtin::judge::{Judge, items, text};

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const TYPES: [&str; 2] = ["Ingress", "Egress"];

pub(in crate::builtin) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    let known = old.map(|old| ranges(&old["spec"])).unwrap_or_default();
    judge.selector(&spec["podSelector"], "spec.podSelector");
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (path, rule) in items(&spec[direction], &format!("spec.{direction}")) {
            for (place, port) in items(&rule["ports"], &format!("{path}.ports")) {
                check_port(port, &place, &mut judge);
            }
            for (place, peer) in items(&rule[peers], &format!("{path}.{peers}")) {
                check_peer(peer, &place, &known, &mut judge);
            }
        }
    }
    let kinds = items(&spec["policyTypes"], "spec.policyTypes");
    if kinds.len() > TYPES.len() {
        judge.invalid("spec.policyTypes", spec["policyTypes"].clone(), "may not specify more than two policyTypes");
        return judge.errors;
    }
    for (path, kind) in kinds {
        if !TYPES.contains(&text(kind)) {
            judge.not_supported(text(kind), &TYPES, &path);
        }
    }
    judge.errors
}

fn check_port(port: &Value, path: &str, judge: &mut Judge) {
    let protocol = text(&port["protocol"]);
    if port["protocol"].is_string() && !PROTOCOLS.contains(&protocol) {
        judge.not_supported(protocol, &PROTOCOLS, &format!("{path}.protocol"));
    }
    let (end, field) = (port["endPort"].as_i64(), format!("{path}.endPort"));
    match &port["port"] {
        Value::Null => {
            if let Some(end) = end {
                judge.invalid(field, end, "may not be specified when `port` is not specified");
            }
        }
        Value::Number(number) => {
            let number = number.as_i64().unwrap_or(0);
            judge.port(number, &format!("{path}.port"));
            if let Some(end) = end {
                if end < number {
                    judge.invalid(&field, end, "must be greater than or equal to `port`");
                }
                judge.port(end, &field);
            }
        }
        name => {
            if let Some(end) = end {
                judge.invalid(field, end, "may not be specified when `port` is non-numeric");
            }
            judge.port_or_name(name, &format!("{path}.port"));
        }
    }
}

fn check_peer(peer: &Value, path: &str, known: &[&str], judge: &mut Judge) {
    let selectors = ["podSelector", "namespaceSelector"].map(|name| (name, peer[name].is_object()));
    for (name, _) in selectors.iter().filter(|(_, is_there)| *is_there) {
        judge.selector(&peer[*name], &format!("{path}.{name}"));
    }
    let selects = selectors.iter().any(|(_, is_there)| *is_there);
    let block = &peer["ipBlock"];
    if block.is_object() {
        check_block(block, &format!("{path}.ipBlock"), known, judge);
    }
    match (selects, block.is_object()) {
        (false, false) => judge.required(path, "must specify a peer"),
        (true, true) => judge.forbidden(path, "may not specify both ipBlock and another peer"),
        (true, false) | (false, true) => {}
    }
}

/// A range, and the parts of it that are not meant. What was there before is not judged again.
fn check_block(block: &Value, path: &str, known: &[&str], judge: &mut Judge) {
    let field = format!("{path}.cidr");
    let range = text(&block["cidr"]);
    if range.is_empty() {
        return judge.required(field, "");
    }
    let read = |text: &str, field: &str, judge: &mut Judge| {
        let mut unheard = Judge::default();
        let heard = if known.contains(&text) { &mut unheard } else { judge };
        heard.range(text, field)
    };
    let Some(whole) = read(range, &field, judge) else { return };
    for (place, part) in items(&block["except"], &format!("{path}.except")) {
        if let Some(range) = read(text(part), &place, judge)
            && !range.is_part_of(whole)
        {
            judge.invalid(place, text(part), "must be a strict subset of `cidr`");
        }
    }
}

/// All ranges of a policy.
fn ranges(spec: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec[direction].as_array().into_iter().flatten() {
            for peer in rule[peers].as_array().into_iter().flatten() {
                let block = &peer["ipBlock"];
                found.push(text(&block["cidr"]));
                found.extend(block["except"].as_array().into_iter().flatten().map(text));
            }
        }
    }
    found.retain(|range| !range.is_empty());
    found
}
