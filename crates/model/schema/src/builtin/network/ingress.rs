//! Ingresses and their classes.

use concert_api::{FieldErrors, names};
use serde_json::Value;

use crate::builtin::address::is_address;
use crate::builtin::judge::{Judge, items, port_name_faults, text};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const WILDCARD_RULE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(in crate::builtin) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
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
        check_rule(rule, &path, &mut judge);
    }
    for (path, tls) in items(&spec["tls"], "spec.tls") {
        for (place, host) in items(&tls["hosts"], &format!("{path}.hosts")) {
            check_host(text(host), &place, &mut judge);
        }
        let secret = text(&tls["secretName"]);
        for fault in if secret.is_empty() { Vec::new() } else { names::subdomain_faults(secret) } {
            judge.invalid(format!("{path}.secretName"), secret, fault);
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        for fault in names::subdomain_faults(class) {
            judge.invalid("spec.ingressClassName", class, fault);
        }
    }
    match old {
        None => check_annotation(object, &mut judge),
        Some(old) => check_status(&object["status"], &old["status"], &mut judge),
    }
    judge.errors
}

/// The class once was an annotation.
fn check_annotation(object: &Value, judge: &mut Judge) {
    let (said, class) = (&object["metadata"]["annotations"][CLASS_ANNOTATION], &object["spec"]["ingressClassName"]);
    if said.is_string() && class.is_string() && said != class {
        let detail = "must match `ingressClassName` when both are specified";
        judge.invalid(format!("annotations.{CLASS_ANNOTATION}"), text(said), detail);
    }
}

fn check_status(status: &Value, old: &Value, judge: &mut Judge) {
    let before = items(&old["loadBalancer"]["ingress"], "");
    for (path, one) in items(&status["loadBalancer"]["ingress"], "status.loadBalancer.ingress") {
        let (address, host) = (text(&one["ip"]), text(&one["hostname"]));
        let is_known = before.iter().any(|(_, old)| text(&old["ip"]) == address);
        if !address.is_empty() && !is_known {
            judge.address(address, &format!("{path}.ip"));
        }
        let field = format!("{path}.hostname");
        for fault in if host.is_empty() { Vec::new() } else { names::subdomain_faults(host) } {
            judge.invalid(&field, host, fault);
        }
        if is_address(host) {
            judge.invalid(field, host, "must be a DNS name, not an IP address");
        }
    }
}

fn check_rule(rule: &Value, path: &str, judge: &mut Judge) {
    let (host, field) = (text(&rule["host"]), format!("{path}.host"));
    if is_address(host) {
        judge.invalid(&field, host, "must be a DNS name, not an IP address");
    }
    if !host.is_empty() {
        check_host(host, &field, judge);
    }
    if rule["http"].is_object() && rule["http"]["paths"].as_array().is_none_or(Vec::is_empty) {
        judge.required(format!("{path}.http.paths"), "");
    }
    for (place, one) in items(&rule["http"]["paths"], &format!("{path}.http.paths")) {
        check_path(one, &place, judge);
    }
}

/// The name of a host, or of all hosts in a domain.
fn check_host(host: &str, field: &str, judge: &mut Judge) {
    if !host.contains('*') {
        for fault in names::subdomain_faults(host) {
            judge.invalid(field, host, fault);
        }
        return;
    }
    let is_domain = |domain: &str| names::subdomain_faults(domain).is_empty();
    if host.len() > 253 {
        judge.invalid(field, host, "must be no more than 253 characters");
    }
    if !host.strip_prefix("*.").is_some_and(is_domain) {
        judge.invalid(field, host, WILDCARD_RULE);
    }
}

fn check_path(one: &Value, place: &str, judge: &mut Judge) {
    const KINDS: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
    let (path, field) = (text(&one["path"]), format!("{place}.path"));
    match &one["pathType"] {
        Value::Null => return judge.required(format!("{place}.pathType"), "pathType must be specified"),
        kind => match text(kind) {
            "Exact" | "Prefix" => {
                if !path.starts_with('/') {
                    judge.invalid(&field, path, "must be an absolute path");
                }
                for bad in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|bad| path.contains(bad)) {
                    judge.invalid(&field, path, format!("must not contain '{bad}'"));
                }
                for bad in ["/..", "/."].into_iter().filter(|bad| path.ends_with(bad)) {
                    judge.invalid(&field, path, format!("cannot end with '{bad}'"));
                }
            }
            "ImplementationSpecific" if !path.is_empty() && !path.starts_with('/') => {
                judge.invalid(field, path, "must be an absolute path");
            }
            "ImplementationSpecific" => {}
            other => judge.not_supported(other, &KINDS, &format!("{place}.pathType")),
        },
    }
    check_backend(&one["backend"], &format!("{place}.backend"), judge);
}

fn check_backend(backend: &Value, path: &str, judge: &mut Judge) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    match (service.is_object(), resource.is_object()) {
        (true, true) => return judge.invalid(path, "", "cannot set both resource and service backends"),
        (false, true) => return check_reference(resource, &format!("{path}.resource"), judge),
        (false, false) => return judge.invalid(path, "", "resource or service backend is required"),
        (true, false) => {}
    }
    judge.label(&service["name"], &format!("{path}.service.name"));
    match (text(&service["port"]["name"]), service["port"]["number"].as_i64().unwrap_or(0)) {
        ("", 0) => judge.required(path, "port name or number is required"),
        ("", number) => judge.port(number, &format!("{path}.service.port.number")),
        (name, 0) => {
            for fault in port_name_faults(name) {
                judge.invalid(format!("{path}.service.port.name"), name, fault);
            }
        }
        (_, _) => judge.invalid(path, "", "cannot set both port name & port number"),
    }
}

fn check_reference(reference: &Value, path: &str, judge: &mut Judge) {
    if let Some(group) = reference["apiGroup"].as_str() {
        for fault in names::subdomain_faults(group) {
            judge.invalid(format!("{path}.apiGroup"), group, fault);
        }
    }
    for name in ["kind", "name"] {
        let field = format!("{path}.{name}");
        if judge.text(&reference[name], &field) {
            for fault in names::path_segment_faults(text(&reference[name])) {
                judge.invalid(&field, text(&reference[name]), fault);
            }
        }
    }
}

pub(in crate::builtin) fn check_class(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let controller = &object["spec"]["controller"];
    match old {
        Some(old) => judge.fixed(controller, &old["spec"]["controller"], "spec.controller"),
        None => drop(judge.text(controller, "spec.controller")),
    }
    judge.errors
}
