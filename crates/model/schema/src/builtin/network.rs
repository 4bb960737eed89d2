//! Services, ingresses, policies and endpoints.

use std::collections::BTreeSet;

use concert_api::{FieldErrors, names};
use serde_json::Value;

use super::judge::{Judge, items, port_name_faults, text};

pub(super) fn check_service(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    let kind = text(&spec["type"]);
    let headless = text(&spec["clusterIP"]) == "None";
    let ports = items(&spec["ports"], "spec.ports");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        judge.required("spec.ports", "");
    }
    match kind {
        "ExternalName" if text(&spec["externalName"]).is_empty() => {
            judge.required("spec.externalName", "");
        }
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            judge.invalid("spec.clusterIPs[0]", "None", detail);
        }
        _ => {}
    }
    check_service_ports(&ports, &mut judge);
    judge.errors.extend(names::check_labels(&spec["selector"], "spec.selector"));
    judge.one_of(&spec["sessionAffinity"], &["ClientIP", "None"], "spec.sessionAffinity");
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    judge.one_of(&spec["type"], &kinds, "spec.type");
    if let Some(old) = old {
        let same = |field: &str| text(&old["spec"][field]) == text(&spec[field]);
        let given = |object: &Value| !matches!(text(&object["spec"]["clusterIP"]), "");
        if given(old) && !same("clusterIP") && kind != "ExternalName" && text(&old["spec"]["type"]) != "ExternalName" {
            judge.invalid(
                "spec.clusterIPs[0]",
                Value::from(vec![spec["clusterIP"].clone()]),
                "may not change once set",
            );
        }
    }
    judge.errors
}

fn check_service_ports(ports: &[(String, &Value)], judge: &mut Judge) {
    let (mut known, mut numbers) = (BTreeSet::new(), BTreeSet::new());
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
        if !numbers.insert((text(&port["protocol"]), port["port"].as_i64())) {
            let mut shown = serde_json::Map::new();
            shown.insert("protocol".to_owned(), port["protocol"].clone());
            shown.insert("port".to_owned(), port["port"].clone());
            judge.errors.push(concert_api::FieldError::new(path, concert_api::Fault::Duplicate(shown.into()), ""));
        }
    }
}

pub(super) fn check_ingress(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    if spec["rules"].as_array().is_none_or(Vec::is_empty) && !spec["defaultBackend"].is_object() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        judge.invalid("spec", spec["rules"].clone(), detail);
    }
    if spec["defaultBackend"].is_object() {
        check_backend(&spec["defaultBackend"], "spec.defaultBackend", &mut judge);
    }
    for (path, rule) in items(&spec["rules"], "spec.rules") {
        let host = text(&rule["host"]);
        let bare = host.strip_prefix("*.").unwrap_or(host);
        for fault in if host.is_empty() { Vec::new() } else { names::subdomain_faults(bare) } {
            judge.invalid(format!("{path}.host"), host, fault);
        }
        if rule["http"].is_object() && rule["http"]["paths"].as_array().is_none_or(Vec::is_empty) {
            judge.required(format!("{path}.http.paths"), "");
        }
        for (place, one) in items(&rule["http"]["paths"], &format!("{path}.http.paths")) {
            check_path(one, &place, &mut judge);
        }
    }
    judge.errors
}

fn check_path(path: &Value, place: &str, judge: &mut Judge) {
    let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
    match text(&path["pathType"]) {
        "" => judge.required(format!("{place}.pathType"), "pathType must be specified"),
        "Exact" | "Prefix" if !text(&path["path"]).starts_with('/') => {
            judge.invalid(format!("{place}.path"), text(&path["path"]), "must be an absolute path");
        }
        other if !kinds.contains(&other) => judge.not_supported(other, &kinds, &format!("{place}.pathType")),
        _ => {}
    }
    check_backend(&path["backend"], &format!("{place}.backend"), judge);
}

fn check_backend(backend: &Value, path: &str, judge: &mut Judge) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    if !service.is_object() {
        if !resource.is_object() {
            judge.required(path, "must specify a service or resource backend");
        }
        return;
    }
    judge.text(&service["name"], &format!("{path}.service.name"));
    match (text(&service["port"]["name"]), service["port"]["number"].as_i64().unwrap_or(0)) {
        ("", 0) => judge.required(path, "port name or number is required"),
        ("", number) => judge.port(number, &format!("{path}.service.port.number")),
        (name, _) => {
            for fault in port_name_faults(name) {
                judge.invalid(format!("{path}.service.port.name"), name, fault);
            }
        }
    }
}

pub(super) fn check_network_policy(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    judge.selector(&object["spec"]["podSelector"], "spec.podSelector");
    for (path, kind) in items(&object["spec"]["policyTypes"], "spec.policyTypes") {
        if !matches!(text(kind), "Ingress" | "Egress") {
            judge.not_supported(text(kind), &["Ingress", "Egress"], &path);
        }
    }
    judge.errors
}

pub(super) fn check_endpoint_slice(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    judge.one_of(&object["addressType"], &["FQDN", "IPv4", "IPv6"], "addressType");
    if let Some(old) = old {
        judge.fixed(&object["addressType"], &old["addressType"], "addressType");
    }
    for (path, endpoint) in items(&object["endpoints"], "endpoints") {
        if endpoint["addresses"].as_array().is_none_or(Vec::is_empty) {
            judge.required(format!("{path}.addresses"), "must contain at least 1 address");
        }
    }
    judge.errors
}

pub(super) fn check_ingress_class(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let controller = &object["spec"]["controller"];
    match old {
        Some(old) => judge.fixed(controller, &old["spec"]["controller"], "spec.controller"),
        None => drop(judge.text(controller, "spec.controller")),
    }
    judge.errors
}
