//! Where pods run: which nodes they want, which other pods they want near, and what they put up with.

use std::collections::{BTreeMap, BTreeSet};

use concert_api::{Fault, FieldError, names};
use serde_json::Value;

use crate::builtin::judge::{Judge, count, items, members, text, texts};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const ODD_OPERATOR: &str = "not a valid selector operator";
const WEIGHT: &str = "must be in the range 1-100";
const POSITIVE: &str = "must be greater than zero";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];

pub(super) fn check_affinity(affinity: &Value, path: &str, judge: &mut Judge) {
    let (nodes, field) = (&affinity["nodeAffinity"], format!("{path}.nodeAffinity"));
    if nodes[REQUIRED].is_object() {
        check_node_selector(&nodes[REQUIRED], &format!("{field}.{REQUIRED}"), judge);
    }
    for (place, term) in items(&nodes[PREFERRED], &format!("{field}.{PREFERRED}")) {
        check_weight(term, &place, judge);
        check_node_term(&term["preference"], false, &format!("{place}.preference"), judge);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (pods, field) = (&affinity[kind], format!("{path}.{kind}"));
        for (place, term) in items(&pods[REQUIRED], &format!("{field}.{REQUIRED}")) {
            check_pod_term(term, &place, judge);
        }
        for (place, term) in items(&pods[PREFERRED], &format!("{field}.{PREFERRED}")) {
            check_weight(term, &place, judge);
            check_pod_term(&term["podAffinityTerm"], &format!("{place}.podAffinityTerm"), judge);
        }
    }
}

fn check_weight(term: &Value, path: &str, judge: &mut Judge) {
    let weight = term["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        judge.invalid(format!("{path}.weight"), weight, WEIGHT);
    }
}

/// Which nodes are wanted: one term has to be there.
pub(in crate::builtin) fn check_node_selector(selector: &Value, path: &str, judge: &mut Judge) {
    let field = format!("{path}.nodeSelectorTerms");
    let terms = items(&selector["nodeSelectorTerms"], &field);
    if terms.is_empty() {
        judge.required(field, "must have at least one node selector term");
    }
    for (place, term) in terms {
        check_node_term(term, true, &place, judge);
    }
}

fn check_node_term(term: &Value, strict: bool, path: &str, judge: &mut Judge) {
    for (place, one) in items(&term["matchExpressions"], &format!("{path}.matchExpressions")) {
        check_node_labels(one, strict, &place, judge);
    }
    for (place, one) in items(&term["matchFields"], &format!("{path}.matchFields")) {
        check_node_fields(one, &place, judge);
    }
}

fn check_node_labels(one: &Value, strict: bool, path: &str, judge: &mut Judge) {
    let (operator, key, field) = (text(&one["operator"]), text(&one["key"]), format!("{path}.values"));
    let values = texts(&one["values"]);
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            judge.required(&field, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            judge.forbidden(&field, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            judge.required(&field, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => judge.invalid(format!("{path}.operator"), other, ODD_OPERATOR),
    }
    judge.faults(key, names::qualified_faults(key), &format!("{path}.key"));
    for (place, value) in values.into_iter().enumerate().filter(|_| strict) {
        judge.faults(value, names::label_value_faults(value), &format!("{field}[{place}]"));
    }
}

fn check_node_fields(one: &Value, path: &str, judge: &mut Judge) {
    let (operator, key, values) = (text(&one["operator"]), text(&one["key"]), texts(&one["values"]));
    if !matches!(operator, "In" | "NotIn") {
        judge.invalid(format!("{path}.operator"), operator, ODD_OPERATOR);
    } else if values.len() != 1 {
        let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        judge.required(format!("{path}.values"), detail);
    }
    if key != "metadata.name" {
        return judge.invalid(format!("{path}.key"), key, "not a valid field selector key");
    }
    for (place, value) in values.into_iter().enumerate() {
        judge.faults(value, names::subdomain_faults(value), &format!("{path}.values[{place}]"));
    }
}

fn check_pod_term(term: &Value, path: &str, judge: &mut Judge) {
    for name in ["labelSelector", "namespaceSelector"] {
        judge.selector(&term[name], &format!("{path}.{name}"));
    }
    for namespace in texts(&term["namespaces"]) {
        judge.faults(namespace, names::label_faults(namespace), &format!("{path}.namespace"));
    }
    check_label_keys(term, path, judge);
    let (key, field) = (text(&term["topologyKey"]), format!("{path}.topologyKey"));
    if key.is_empty() {
        judge.required(&field, "can not be empty");
    }
    judge.faults(key, names::qualified_faults(key), &field);
}

/// Labels whose values are taken from the pod itself, beside a selector.
fn check_label_keys(term: &Value, path: &str, judge: &mut Judge) {
    let selector = &term["labelSelector"];
    for list in ["matchLabelKeys", "mismatchLabelKeys"] {
        let field = format!("{path}.{list}");
        if count(&term[list]) > 0 && !selector.is_object() {
            judge.forbidden(field, "must not be specified when labelSelector is not set");
            continue;
        }
        for (place, key) in items(&term[list], &field) {
            judge.faults(text(key), names::qualified_faults(text(key)), &place);
        }
    }
    let keys = texts(&term["matchLabelKeys"]);
    let places: BTreeMap<&str, usize> = keys.iter().enumerate().map(|(place, key)| (*key, place)).collect();
    let mut known: BTreeSet<&str> = members(&selector["matchLabels"]).map(|(key, _)| key).collect();
    for (_, one) in items(&selector["matchExpressions"], "") {
        let key = text(&one["key"]);
        if let Some(place) = places.get(key).filter(|_| known.contains(key)) {
            judge.invalid(format!("{path}[{place}]"), key, "exists in both matchLabelKeys and labelSelector");
        }
        known.insert(key);
    }
    let others: BTreeSet<&str> = texts(&term["mismatchLabelKeys"]).into_iter().collect();
    for (place, key) in keys.iter().enumerate().filter(|(_, key)| others.contains(**key)) {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        judge.invalid(format!("{path}.matchLabelKeys[{place}]"), *key, detail);
    }
}

/// How pods are spread.
pub(super) fn check_spread(constraints: &Value, path: &str, judge: &mut Judge) {
    let all = items(constraints, path);
    let key = |one: &Value| (text(&one["topologyKey"]).to_owned(), text(&one["whenUnsatisfiable"]).to_owned());
    // Whatever comes again further down is told where it stands before.
    let mut left: BTreeMap<_, usize> = BTreeMap::new();
    for (_, one) in &all {
        *left.entry(key(one)).or_default() += 1;
    }
    for (place, one) in &all {
        let (topology, action) = (text(&one["topologyKey"]), text(&one["whenUnsatisfiable"]));
        let skew = one["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            judge.invalid(format!("{place}.maxSkew"), skew, POSITIVE);
        }
        if topology.is_empty() {
            judge.required(format!("{place}.topologyKey"), "can not be empty");
        }
        if !ACTIONS.contains(&action) {
            judge.not_supported(action, &ACTIONS, &format!("{place}.whenUnsatisfiable"));
        }
        if let Some(left) = left.get_mut(&key(one)) {
            *left -= 1;
            if *left > 0 {
                let shown = format!("{{{topology}, {action}}}");
                let field = format!("{place}.{{topologyKey, whenUnsatisfiable}}");
                judge.errors.push(FieldError::new(field, Fault::Duplicate(shown.into()), ""));
            }
        }
        check_domains(&one["minDomains"], action, &format!("{place}.minDomains"), judge);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            judge.choice(&one[policy], &["Honor", "Ignore"], &format!("{place}.{policy}"));
        }
        check_label_keys(one, place, judge);
        judge.selector(&one["labelSelector"], &format!("{place}.labelSelector"));
    }
}

fn check_domains(least: &Value, action: &str, path: &str, judge: &mut Judge) {
    let Some(least) = least.as_i64() else { return };
    if least <= 0 {
        judge.invalid(path, least, POSITIVE);
    }
    if action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        judge.invalid(path, least, detail);
    }
}

/// Which taints a pod tolerates, and how.
pub(in crate::builtin) fn check_tolerations(tolerations: &Value, path: &str, judge: &mut Judge) {
    for (place, one) in items(tolerations, path) {
        let (key, operator, effect) = (text(&one["key"]), text(&one["operator"]), text(&one["effect"]));
        let (value, field) = (text(&one["value"]), format!("{place}.operator"));
        if !key.is_empty() {
            judge.faults(key, names::qualified_faults(key), &format!("{place}.key"));
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            judge.invalid(&field, operator, detail);
        }
        if one["tolerationSeconds"].is_i64() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            judge.invalid(format!("{place}.effect"), effect, detail);
        }
        match operator {
            "Exists" if !value.is_empty() => {
                judge.invalid(&field, value, "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            "" | "Equal" => {
                let faults = names::label_value_faults(value);
                if !faults.is_empty() {
                    judge.invalid(&field, value, faults.join(";"));
                }
            }
            "Lt" | "Gt" => judge.not_supported(operator, &["Equal", "Exists", "Lt", "Gt"], &field),
            other => judge.not_supported(other, &["Equal", "Exists"], &field),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            judge.not_supported(effect, &EFFECTS, &format!("{place}.effect"));
        }
    }
}
