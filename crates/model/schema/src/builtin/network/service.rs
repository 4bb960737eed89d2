//! What a service may be, in the words of the real server. Which addresses and ports can be had is not told here.

use std::collections::{BTreeSet, HashSet};

use concert_api::{Fault, FieldError, FieldErrors, names};
use serde_json::{Map, Value};

use crate::builtin::address::is_address;
use crate::builtin::judge::{IMMUTABLE, Judge, items, text};

const BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const DAY: i64 = 86_400;

pub(in crate::builtin) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    let ports = items(&spec["ports"], "spec.ports");
    check_type(spec, ports.is_empty(), &mut judge);
    check_ports(&ports, text(&spec["type"]), &mut judge);
    judge.errors.extend(names::check_labels(&spec["selector"], "spec.selector"));
    check_affinity(spec, &mut judge);
    for (field, address) in items(&spec["externalIPs"], "spec.externalIPs") {
        if judge.address(text(address), &field) {
            judge.endpoint(text(address), &field);
        }
    }
    check_balancer(spec, old, &mut judge);
    check_traffic(spec, &mut judge);
    if let Some(old) = old {
        check_change(spec, &old["spec"], &mut judge);
        if object["status"] != old["status"] {
            check_status(object, &mut judge);
        }
    }
    judge.errors
}

fn check_type(spec: &Value, is_portless: bool, judge: &mut Judge) {
    let kind = text(&spec["type"]);
    let headless = text(&spec["clusterIP"]) == "None";
    if is_portless && !headless && kind != "ExternalName" {
        judge.required("spec.ports", "");
    }
    match kind {
        "ExternalName" => check_name(spec, judge),
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            judge.invalid("spec.clusterIPs[0]", "None", detail);
        }
        _ => {}
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    judge.one_of(&spec["type"], &kinds, "spec.type");
}

/// A service that is another name has no address.
fn check_name(spec: &Value, judge: &mut Judge) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let is_said = match &spec[field] {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        if is_said {
            judge.forbidden(format!("spec.{field}"), "may not be set for ExternalName services");
        }
    }
    let name = text(&spec["externalName"]);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        judge.required("spec.externalName", "");
    } else {
        for fault in names::subdomain_faults(name) {
            judge.invalid("spec.externalName", name, fault);
        }
    }
}

fn check_ports(ports: &[(String, &Value)], kind: &str, judge: &mut Judge) {
    let (mut known, mut numbers, mut of_nodes) = (BTreeSet::new(), BTreeSet::new(), HashSet::new());
    for (path, port) in ports {
        let name = text(&port["name"]);
        if name.is_empty() && ports.len() > 1 {
            judge.required(format!("{path}.name"), "");
        } else if !name.is_empty() {
            for fault in names::label_faults(name) {
                judge.invalid(format!("{path}.name"), name, fault);
            }
            if !known.insert(name) {
                judge.duplicate(format!("{path}.name"), name);
            }
        }
        judge.port(port["port"].as_i64().unwrap_or(0), &format!("{path}.port"));
        judge.one_of(&port["protocol"], &["SCTP", "TCP", "UDP"], &format!("{path}.protocol"));
        judge.port_or_name(&port["targetPort"], &format!("{path}.targetPort"));
        if let Some(protocol) = port["appProtocol"].as_str() {
            for fault in names::qualified_faults(protocol) {
                judge.invalid(format!("{path}.appProtocol"), protocol, fault);
            }
        }
        let of_node = port["nodePort"].as_i64().unwrap_or(0);
        if of_node != 0 && kind == "ClusterIP" {
            judge.forbidden(format!("{path}.nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
        if of_node != 0 && !of_nodes.insert((text(&port["protocol"]), of_node)) {
            judge.errors.push(FieldError::new(format!("{path}.nodePort"), Fault::Duplicate(of_node.into()), ""));
        }
        if !numbers.insert((text(&port["protocol"]), port["port"].as_i64())) {
            let mut shown = Map::new();
            shown.insert("protocol".to_owned(), port["protocol"].clone());
            shown.insert("port".to_owned(), port["port"].clone());
            judge.errors.push(FieldError::new(path, Fault::Duplicate(shown.into()), ""));
        }
    }
}

/// How long a client stays with whom it met first.
fn check_affinity(spec: &Value, judge: &mut Judge) {
    judge.one_of(&spec["sessionAffinity"], &["ClientIP", "None"], "spec.sessionAffinity");
    let seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].as_i64();
    let is_wrong = seconds.filter(|seconds| spec["sessionAffinity"] == "ClientIP" && !(1..=DAY).contains(seconds));
    if let Some(seconds) = is_wrong {
        let detail = format!("must be greater than 0 and less than {DAY}");
        judge.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, detail);
    }
}

/// What only load balancers have.
fn check_balancer(spec: &Value, old: Option<&Value>, judge: &mut Judge) {
    let is_balanced = spec["type"] == "LoadBalancer";
    let ranges = items(&spec["loadBalancerSourceRanges"], "spec.LoadBalancerSourceRanges");
    if !ranges.is_empty() && !is_balanced {
        judge.forbidden("spec.LoadBalancerSourceRanges", BALANCED);
    }
    let known = old.map(|old| old["spec"]["loadBalancerSourceRanges"].clone()).unwrap_or_default();
    for (field, range) in ranges {
        if !known.as_array().is_some_and(|known| known.contains(range)) {
            judge.range(text(range).trim(), &field);
        }
    }
    if !spec["allocateLoadBalancerNodePorts"].is_null() && !is_balanced {
        judge.forbidden("spec.allocateLoadBalancerNodePorts", BALANCED);
    }
    match spec["loadBalancerClass"].as_str() {
        Some(_) if !is_balanced => judge.forbidden("spec.loadBalancerClass", BALANCED),
        Some(class) => {
            for fault in names::qualified_faults(class) {
                judge.invalid("spec.loadBalancerClass", class, fault);
            }
        }
        None => {}
    }
}

/// Where what comes from outside, or from inside, may go.
fn check_traffic(spec: &Value, judge: &mut Judge) {
    let kind = text(&spec["type"]);
    let own = spec["externalIPs"].as_array().is_some_and(|list| !list.is_empty());
    let is_reached = matches!(kind, "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && own);
    let policy = text(&spec["externalTrafficPolicy"]);
    if is_reached {
        judge.one_of(&spec["externalTrafficPolicy"], &["Cluster", "Local"], "spec.externalTrafficPolicy");
    } else if !policy.is_empty() {
        let detail = "may only be set for externally-accessible services";
        judge.invalid("spec.externalTrafficPolicy", policy, detail);
    }
    let port = spec["healthCheckNodePort"].as_i64().unwrap_or(0);
    if kind == "LoadBalancer" && policy == "Local" {
        match port {
            0 => judge.required("spec.healthCheckNodePort", ""),
            port => judge.port(port, "spec.healthCheckNodePort"),
        }
    } else if port != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        judge.invalid("spec.healthCheckNodePort", port, detail);
    }
    let choices: [(&str, &[&str]); 2] = [
        ("internalTrafficPolicy", &["Cluster", "Local"]),
        ("trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"]),
    ];
    for (field, allowed) in choices {
        if let Some(found) = spec[field].as_str().filter(|found| !allowed.contains(found)) {
            judge.not_supported(found, allowed, &format!("spec.{field}"));
        }
    }
}

/// An address, a family and the class of a load balancer stay.
fn check_change(spec: &Value, old: &Value, judge: &mut Judge) {
    let is_name = |spec: &Value| spec["type"] == "ExternalName";
    let is_balanced = |spec: &Value| spec["type"] == "LoadBalancer";
    let is_checked = |spec: &Value| is_balanced(spec) && spec["externalTrafficPolicy"] == "Local";
    let headless = |spec: &Value| spec["clusterIP"] == "None";
    let none = is_name(spec) || is_name(old) || (headless(spec) && headless(old));
    if !none {
        check_kept(spec, old, "clusterIPs", judge);
        if headless(spec) == headless(old) {
            check_kept(spec, old, "ipFamilies", judge);
        }
    }
    if is_balanced(spec) && is_balanced(old) && spec["loadBalancerClass"] != old["loadBalancerClass"] {
        judge.invalid("spec.loadBalancerClass", spec["loadBalancerClass"].clone(), "may not change once set");
    }
    if is_checked(spec) && is_checked(old) && spec["healthCheckNodePort"] != old["healthCheckNodePort"] {
        judge.forbidden("spec.healthCheckNodePort", IMMUTABLE);
    }
}

/// The first of a list stays.
fn check_kept(spec: &Value, old: &Value, field: &str, judge: &mut Judge) {
    let first = |spec: &Value| spec[field].get(0).cloned();
    if let Some(before) = first(old)
        && first(spec) != Some(before)
    {
        judge.invalid(format!("spec.{field}[0]"), spec[field].clone(), "may not change once set");
    }
}

/// What a load balancer tells.
fn check_status(object: &Value, judge: &mut Judge) {
    const FIELD: &str = "status.loadBalancer.ingress";
    let ingress = items(&object["status"]["loadBalancer"]["ingress"], FIELD);
    if object["spec"]["type"] != "LoadBalancer" {
        if !ingress.is_empty() {
            judge.forbidden(FIELD, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        return;
    }
    for (path, one) in ingress {
        let (address, name) = (text(&one["ip"]), text(&one["hostname"]));
        if !address.is_empty() {
            judge.address(address, &format!("{path}.ip"));
        }
        match one["ipMode"].as_str() {
            None if !address.is_empty() => {
                judge.required(format!("{path}.ipMode"), "must be specified when `ip` is set");
            }
            Some(_) if address.is_empty() => {
                judge.forbidden(format!("{path}.ipMode"), "may not be specified when `ip` is not set");
            }
            Some(mode) if !matches!(mode, "VIP" | "Proxy") => {
                judge.not_supported(mode, &["Proxy", "VIP"], &format!("{path}.ipMode"));
            }
            None | Some(_) => {}
        }
        for fault in if name.is_empty() { Vec::new() } else { names::subdomain_faults(name) } {
            judge.invalid(format!("{path}.hostname"), name, fault);
        }
        if is_address(name) {
            judge.invalid(format!("{path}.hostname"), name, "must be a DNS name, not an IP address");
        }
    }
}
