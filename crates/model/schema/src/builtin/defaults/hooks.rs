//! Defaults that depend on other fields.

use serde_json::{Map, Value, json};

use super::Hook;

type Members = Map<String, Value>;

/// By struct.
pub(super) const HOOKS: &[(&str, Hook)] = &[
    ("apps.v1.DaemonSetUpdateStrategy", |it| rolling(it, json!({"maxUnavailable": 1, "maxSurge": 0}))),
    ("apps.v1.DeploymentStrategy", |it| rolling(it, json!({"maxUnavailable": "25%", "maxSurge": "25%"}))),
    ("apps.v1.StatefulSetUpdateStrategy", stateful_strategy),
    ("autoscaling.v2.HorizontalPodAutoscalerBehavior", scaling_behavior),
    ("autoscaling.v2.HorizontalPodAutoscalerSpec", metrics),
    ("batch.v1.Job", job),
    ("core.v1.Container", pull_policy),
    ("core.v1.EphemeralContainer", pull_policy),
    ("core.v1.ImageVolumeSource", image_volume),
    ("core.v1.LimitRangeItem", limits),
    ("core.v1.NodeStatus", allocatable),
    ("core.v1.Pod", pod),
    ("core.v1.PodSpec", service_account),
    ("core.v1.PodStatus", addresses),
    ("core.v1.ReplicationController", |it| take_labels(it, true)),
    ("core.v1.Service", load_balancer),
    ("core.v1.ServicePort", target_port),
    ("core.v1.ServiceSpec", service),
    ("core.v1.Volume", volume),
    ("networking.v1.IngressSpec", ingress_rules),
    ("networking.v1.NetworkPolicySpec", policy_types),
    ("rbac.v1.Subject", subject),
    ("resource.v1.DeviceSubRequest", devices),
    ("resource.v1.ExactDeviceRequest", devices),
];

fn text<'a>(members: &'a Members, name: &str) -> &'a str {
    members.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn lacks(members: &Members, name: &str) -> bool {
    members.get(name).is_none_or(is_nothing)
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn put(members: &mut Members, name: &str, value: impl Into<Value>) {
    if lacks(members, name) {
        members.insert(name.to_owned(), value.into());
    }
}

/// A member that is an object.
fn object<'a>(members: &'a mut Members, name: &str) -> Option<&'a mut Members> {
    members.get_mut(name)?.as_object_mut()
}

/// The objects of a list.
fn each<'a>(members: &'a mut Members, name: &str) -> impl Iterator<Item = &'a mut Members> {
    let list = members.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn fill(members: &mut Members, defaults: &Value) {
    for (name, value) in defaults.as_object().into_iter().flatten() {
        if members.get(name).is_none_or(Value::is_null) {
            members.insert(name.clone(), value.clone());
        }
    }
}

fn rolling(strategy: &mut Members, defaults: Value) {
    if text(strategy, "type") != "RollingUpdate" {
        return;
    }
    strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
    if let Some(update) = object(strategy, "rollingUpdate") {
        fill(update, &defaults);
    }
}

/// What rolls is told apart only where the type is not said.
fn stateful_strategy(strategy: &mut Members) {
    if lacks(strategy, "type") {
        strategy.insert("type".to_owned(), "RollingUpdate".into());
        strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(update) = object(strategy, "rollingUpdate")
    {
        fill(update, &json!({"partition": 0, "maxUnavailable": 1}));
    }
}

/// Both directions have rules, whoever says something about one of them.
pub(in crate::builtin) fn scaling_behavior(behavior: &mut Members) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]});
    let down = json!({"selectPolicy": "Max", "policies": [percent]});
    for (name, defaults) in [("scaleUp", up), ("scaleDown", down)] {
        behavior.entry(name).or_insert_with(|| json!({}));
        if let Some(rules) = object(behavior, name) {
            fill(rules, &defaults);
        }
    }
}

fn metrics(spec: &mut Members) {
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    put(spec, "metrics", json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
}

/// What holds for jobs, but not for what jobs are made from.
fn job(members: &mut Members) {
    take_labels(members, false);
    let Some(spec) = object(members, "spec") else { return };
    let absent = |spec: &Members, name: &str| spec.get(name).is_none_or(Value::is_null);
    if absent(spec, "completions") && absent(spec, "parallelism") {
        spec.insert("completions".to_owned(), 1.into());
    }
    let limit = if absent(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    let replacement = if absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    fill(
        spec,
        &json!({
            "parallelism": 1, "backoffLimit": limit, "completionMode": "NonIndexed", "suspend": false,
            "podReplacementPolicy": replacement, "manualSelector": false,
        }),
    );
}

/// The labels of the template stand for those that were not said, and for the selector of a replication controller.
fn take_labels(members: &mut Members, selector: bool) {
    let Some(spec) = object(members, "spec") else { return };
    let labels = spec.get("template").map(|template| template["metadata"]["labels"].clone()).unwrap_or_default();
    if !labels.is_object() {
        return;
    }
    if selector {
        put(spec, "selector", labels.clone());
    }
    members.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = object(members, "metadata") {
        put(metadata, "labels", labels);
    }
}

/// Images without a tag, or with `latest`, are pulled always.
fn policy_of(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag);
    match tag {
        Some("latest") => "Always",
        None if !digest && !image.is_empty() => "Always",
        Some(_) | None => "IfNotPresent",
    }
}

fn pull_policy(container: &mut Members) {
    let policy = policy_of(text(container, "image"));
    put(container, "imagePullPolicy", policy);
}

fn image_volume(source: &mut Members) {
    let policy = policy_of(text(source, "reference"));
    put(source, "pullPolicy", policy);
}

fn limits(item: &mut Members) {
    if text(item, "type") != "Container" {
        return;
    }
    for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let Some(source) = item.get(from).filter(|source| source.is_object()).cloned() else { continue };
        item.entry(to).or_insert_with(|| json!({}));
        if let Some(target) = object(item, to) {
            fill(target, &source);
        }
    }
}

fn allocatable(status: &mut Members) {
    if let Some(capacity) = status.get("capacity").cloned() {
        put(status, "allocatable", capacity);
    }
}

/// What holds for pods, but not for what pods are made from.
fn pod(members: &mut Members) {
    let Some(spec) = object(members, "spec") else { return };
    let grace = "terminationGracePeriodSeconds";
    if spec.get(grace).and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert(grace.to_owned(), 1.into());
    }
    fill(spec, &json!({"enableServiceLinks": true}));
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in each(spec, list) {
            if let Some(resources) = object(container, "resources")
                && let Some(limits) = resources.get("limits").filter(|limits| limits.is_object()).cloned()
            {
                resources.entry("requests").or_insert_with(|| json!({}));
                if let Some(requests) = object(resources, "requests") {
                    fill(requests, &limits);
                }
            }
            if host_network {
                for port in each(container, "ports") {
                    if let Some(number) = port.get("containerPort").cloned() {
                        put(port, "hostPort", number);
                    }
                }
            }
        }
    }
}

/// One thing with two names; the newer one counts.
fn service_account(spec: &mut Members) {
    let name =
        [text(spec, "serviceAccountName"), text(spec, "serviceAccount")].into_iter().find(|name| !name.is_empty());
    if let Some(name) = name.map(str::to_owned) {
        spec.insert("serviceAccountName".to_owned(), name.clone().into());
        spec.insert("serviceAccount".to_owned(), name.into());
    }
}

fn addresses(status: &mut Members) {
    let one = text(status, "podIP").to_owned();
    let first = status.get("podIPs").and_then(|list| list[0]["ip"].as_str()).map(str::to_owned);
    match (one.as_str(), first) {
        ("", Some(first)) => drop(status.insert("podIP".to_owned(), first.into())),
        ("", None) => {}
        (one, first) if first.as_deref() != Some(one) => {
            let list = json!([{"ip": one}]);
            status.insert("podIPs".to_owned(), list);
        }
        _ => {}
    }
}

fn service(spec: &mut Members) {
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let known = spec.get("sessionAffinityConfig").is_some_and(|it| !it["clientIP"]["timeoutSeconds"].is_null());
            if !known {
                spec.insert("sessionAffinityConfig".to_owned(), json!({"clientIP": {"timeoutSeconds": 10800}}));
            }
        }
        _ => {}
    }
    let kind = text(spec, "type").to_owned();
    let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer");
    if external || (kind == "ClusterIP" && !lacks(spec, "externalIPs")) {
        put(spec, "externalTrafficPolicy", "Cluster");
    }
    if external || kind == "ClusterIP" {
        put(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, &json!({"allocateLoadBalancerNodePorts": true}));
    }
}

fn load_balancer(members: &mut Members) {
    if members.get("spec").is_some_and(|spec| spec["type"] == "LoadBalancer")
        && let Some(status) = object(members, "status")
        && let Some(balancer) = object(status, "loadBalancer")
    {
        for ingress in each(balancer, "ingress") {
            if !lacks(ingress, "ip") {
                put(ingress, "ipMode", "VIP");
            }
        }
    }
}

fn target_port(port: &mut Members) {
    let unsaid = port.get("targetPort").is_none_or(|target| *target == 0 || *target == "");
    if unsaid && let Some(number) = port.get("port").cloned() {
        port.insert("targetPort".to_owned(), number);
    }
}

/// Without a source, a volume is an empty directory.
fn volume(volume: &mut Members) {
    if volume.iter().all(|(name, value)| name == "name" || value.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
}

fn policy_types(spec: &mut Members) {
    let types = if lacks(spec, "egress") { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
    put(spec, "policyTypes", types);
}

fn subject(subject: &mut Members) {
    if matches!(text(subject, "kind"), "User" | "Group") {
        put(subject, "apiGroup", "rbac.authorization.k8s.io");
    }
}

fn devices(request: &mut Members) {
    put(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" && request.get("count").and_then(Value::as_i64).unwrap_or(0) == 0
    {
        request.insert("count".to_owned(), 1.into());
    }
}

/// No rules are nothing; where there is no backend either, the refusal tells which of both was said.
fn ingress_rules(spec: &mut Members) {
    let is_empty = spec.get("rules").and_then(Value::as_array).is_some_and(Vec::is_empty);
    if is_empty && spec.get("defaultBackend").is_some_and(Value::is_object) {
        spec.remove("rules");
    }
}
