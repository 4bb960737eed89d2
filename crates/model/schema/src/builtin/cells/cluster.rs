//! Nodes, certificates, admission, and the rest of the cluster.

use std::collections::BTreeSet;

use concert_api::Time;
use serde_json::Value;

use super::{NONE, UNSET, age, condition, labels, length, list, name, number, text, text_or};
use crate::human_duration;

const UNKNOWN: &str = "<unknown>";

pub(in crate::builtin) fn component(object: &Value, _now: Time) -> Vec<Value> {
    let healthy = list(&object["conditions"]).find(|one| one["type"] == "Healthy");
    let status = match healthy {
        Some(condition) if condition["status"] == "True" => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let said = |what: &str| healthy.map_or("", |condition| text(&condition[what]));
    vec![name(object), status.into(), said("message").into(), said("error").into()]
}

pub(in crate::builtin) fn node(object: &Value, now: Time) -> Vec<Value> {
    let info = &object["status"]["nodeInfo"];
    let mut status = match condition(object, "Ready") {
        Some(ready) if ready["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = list(&object["status"]["addresses"]).find(|one| one["type"] == kind);
        found.map_or(NONE, |one| text(&one["address"])).into()
    };
    let mut kernel = text_or(&info["kernelVersion"], UNKNOWN).to_owned();
    if let Some(architecture) = info["architecture"].as_str().filter(|text| !text.is_empty()) {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        name(object),
        status.into(),
        roles(object).into(),
        age(object, now),
        text(&info["kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        text_or(&info["osImage"], UNKNOWN).into(),
        kernel.into(),
        text_or(&info["containerRuntimeVersion"], UNKNOWN).into(),
    ]
}

fn roles(node: &Value) -> String {
    let all = node["metadata"]["labels"].as_object().into_iter().flatten();
    let roles: BTreeSet<&str> = all
        .filter_map(|(label, value)| match label.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => (label == "kubernetes.io/role").then(|| text(value)),
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { NONE.to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

pub(in crate::builtin) fn quota(object: &Value, now: Time) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let status = &object["status"];
    for (resource, hard) in status["hard"].as_object().into_iter().flatten() {
        let used = text_or(&status["used"][resource], "0");
        let shown = format!("{resource}: {used}/{}", text(hard));
        if resource.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), age(object, now)]
}

pub(in crate::builtin) fn signing_request(object: &Value, now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    let wanted = spec["expirationSeconds"].as_i64();
    vec![
        name(object),
        age(object, now),
        text_or(&spec["signerName"], NONE).into(),
        text(&spec["username"]).into(),
        wanted.map_or_else(|| NONE.to_owned(), human_duration).into(),
        verdict(object).into(),
    ]
}

fn verdict(request: &Value) -> String {
    let has = |kind: &str| condition(request, kind).is_some();
    let mut verdict = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        verdict.push_str(",Failed");
    }
    if !text(&request["status"]["certificate"]).is_empty() {
        verdict.push_str(",Issued");
    }
    verdict
}

pub(in crate::builtin) fn trust_bundle(object: &Value, _now: Time) -> Vec<Value> {
    vec![name(object), text_or(&object["spec"]["signerName"], NONE).into()]
}

pub(in crate::builtin) fn pod_certificate(object: &Value, _now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    let kinds = list(&object["status"]["conditions"]).map(|one| text(&one["type"]));
    let state = kinds.rev().find(|kind| matches!(*kind, "Issued" | "Denied" | "Failed")).unwrap_or("Pending");
    let field = |name: &str| text(&spec[name]).into();
    vec![
        name(object),
        field("podName"),
        field("serviceAccountName"),
        field("nodeName"),
        field("signerName"),
        state.into(),
        labels(&spec["unverifiedUserAnnotations"]).into(),
    ]
}

pub(in crate::builtin) fn webhooks(object: &Value, now: Time) -> Vec<Value> {
    vec![name(object), length(&object["webhooks"]).into(), age(object, now)]
}

pub(in crate::builtin) fn policy(object: &Value, now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    let count = length(&spec["validations"]) + length(&spec["mutations"]);
    let kind = &spec["paramKind"];
    let shown = if kind.is_object() {
        format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"]))
    } else {
        UNSET.to_owned()
    };
    vec![name(object), count.into(), shown.into(), age(object, now)]
}

pub(in crate::builtin) fn policy_binding(object: &Value, now: Time) -> Vec<Value> {
    let reference = &object["spec"]["paramRef"];
    let shown = match (text(&reference["name"]), text_or(&reference["namespace"], "*")) {
        ("", _) => UNSET.to_owned(),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    vec![name(object), text(&object["spec"]["policyName"]).into(), shown.into(), age(object, now)]
}

pub(in crate::builtin) fn api_service(object: &Value, now: Time) -> Vec<Value> {
    let service = &object["spec"]["service"];
    let place = if service.is_object() {
        format!("{}/{}", text(&service["namespace"]), text(&service["name"]))
    } else {
        "Local".to_owned()
    };
    let available = match condition(object, "Available") {
        None => "Unknown".to_owned(),
        Some(one) if one["status"] == "True" || text(&one["reason"]).is_empty() => text(&one["status"]).to_owned(),
        Some(one) => format!("{} ({})", text(&one["status"]), text(&one["reason"])),
    };
    vec![name(object), place.into(), available.into(), age(object, now)]
}

pub(in crate::builtin) fn priority_class(object: &Value, now: Time) -> Vec<Value> {
    vec![
        name(object),
        number(&object["value"]).into(),
        (object["globalDefault"] == true).into(),
        age(object, now),
        text(&object["preemptionPolicy"]).into(),
    ]
}

pub(in crate::builtin) fn runtime_class(object: &Value, now: Time) -> Vec<Value> {
    vec![name(object), object["handler"].clone(), age(object, now)]
}

pub(in crate::builtin) fn flow_schema(object: &Value, now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        spec["priorityLevelConfiguration"]["name"].clone(),
        number(&spec["matchingPrecedence"]).into(),
        text_or(&spec["distinguisherMethod"]["type"], NONE).into(),
        age(object, now),
        condition(object, "Dangling").map_or("?", |one| text(&one["status"])).into(),
    ]
}

pub(in crate::builtin) fn priority_level(object: &Value, now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    let (limited, queuing) = (&spec["limited"], &spec["limited"]["limitResponse"]["queuing"]);
    let shown = |value: &Value| value.as_i64().map_or_else(|| NONE.into(), Value::from);
    vec![
        name(object),
        spec["type"].clone(),
        shown(&limited["nominalConcurrencyShares"]),
        shown(&queuing["queues"]),
        shown(&queuing["handSize"]),
        shown(&queuing["queueLengthLimit"]),
        age(object, now),
    ]
}

pub(in crate::builtin) fn resource_claim(object: &Value, now: Time) -> Vec<Value> {
    let deleted = object["metadata"]["deletionTimestamp"].is_string();
    let status = &object["status"];
    let mut states = Vec::new();
    if deleted {
        states.push("deleted");
    }
    if status["allocation"].is_object() {
        states.push("allocated");
        if length(&status["reservedFor"]) > 0 {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    vec![name(object), states.join(",").into(), age(object, now)]
}

pub(in crate::builtin) fn resource_slice(object: &Value, now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name(object),
        text(&spec["nodeName"]).into(),
        spec["driver"].clone(),
        spec["pool"]["name"].clone(),
        age(object, now),
    ]
}

pub(in crate::builtin) fn taint_rule(object: &Value, now: Time) -> Vec<Value> {
    let taint = &object["spec"]["taint"];
    let field = |name: &str| text(&taint[name]).into();
    let since = crate::column::age_of(&taint["timeAdded"], now);
    vec![name(object), field("key"), field("value"), field("effect"), since, age(object, now)]
}

pub(in crate::builtin) fn migration(object: &Value, _now: Time) -> Vec<Value> {
    let resource = &object["spec"]["resource"];
    let group = text(&resource["group"]);
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    let known =
        |one: &&Value| one["status"] == "True" && matches!(text(&one["type"]), "Running" | "Failed" | "Succeeded");
    let state = list(&object["status"]["conditions"]).rev().find(known).map_or("Unknown", |one| text(&one["type"]));
    vec![name(object), format!("{}{group}", text(&resource["resource"])).into(), state.into()]
}
