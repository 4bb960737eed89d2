//! Endpoints and slices of them.

use std::collections::BTreeSet;

use concert_api::{Fault, FieldError, FieldErrors, names};
use serde_json::Value;

use crate::builtin::address::is_four;
use crate::builtin::judge::{IMMUTABLE, Judge, items, text};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const HINTS_MAX: usize = 8;

pub(in crate::builtin) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    // What was taken before stays.
    if old.is_some_and(|old| old["subsets"] == object["subsets"]) {
        return judge.errors;
    }
    for (path, subset) in items(&object["subsets"], "subsets") {
        let count = |name: &str| subset[name].as_array().map_or(0, Vec::len);
        if count("addresses") + count("notReadyAddresses") == 0 {
            judge.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in ["addresses", "notReadyAddresses"] {
            for (place, address) in items(&subset[list], &format!("{path}.{list}")) {
                check_address(address, &place, &mut judge);
            }
        }
        let ports = items(&subset["ports"], &format!("{path}.ports"));
        for (place, port) in &ports {
            check_port(port, place, ports.len() > 1, &mut judge);
        }
    }
    judge.errors
}

fn check_address(address: &Value, path: &str, judge: &mut Judge) {
    let field = format!("{path}.ip");
    judge.address(text(&address["ip"]), &field);
    check_names(address, path, judge);
    judge.endpoint(text(&address["ip"]), &field);
}

/// The names of a host and of a node, if they are said.
fn check_names(owner: &Value, path: &str, judge: &mut Judge) {
    let host = text(&owner["hostname"]);
    for fault in if host.is_empty() { Vec::new() } else { names::label_faults(host) } {
        judge.invalid(format!("{path}.hostname"), host, fault);
    }
    check_node(owner, path, judge);
}

fn check_node(owner: &Value, path: &str, judge: &mut Judge) {
    if let Some(node) = owner["nodeName"].as_str() {
        for fault in names::subdomain_faults(node) {
            judge.invalid(format!("{path}.nodeName"), node, fault);
        }
    }
}

fn check_port(port: &Value, path: &str, is_named: bool, judge: &mut Judge) {
    let (name, field) = (text(&port["name"]), format!("{path}.name"));
    if name.is_empty() && is_named {
        judge.required(&field, "");
    }
    for fault in if name.is_empty() { Vec::new() } else { names::label_faults(name) } {
        judge.invalid(&field, name, fault);
    }
    judge.port(port["port"].as_i64().unwrap_or(0), &format!("{path}.port"));
    judge.one_of(&port["protocol"], &PROTOCOLS, &format!("{path}.protocol"));
    check_application(port, path, judge);
}

fn check_application(port: &Value, path: &str, judge: &mut Judge) {
    if let Some(protocol) = port["appProtocol"].as_str() {
        for fault in names::qualified_faults(protocol) {
            judge.invalid(format!("{path}.appProtocol"), protocol, fault);
        }
    }
}

pub(in crate::builtin) fn check_slice(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    judge.one_of(&object["addressType"], &["FQDN", "IPv4", "IPv6"], "addressType");
    check_slice_ports(&object["ports"], &mut judge);
    if old.is_none_or(|old| old["endpoints"] != object["endpoints"]) {
        check_endpoints(object, &mut judge);
    }
    if old.is_some_and(|old| object["addressType"] != old["addressType"]) {
        judge.invalid("addressType", Value::Null, IMMUTABLE);
    }
    judge.errors
}

fn check_slice_ports(ports: &Value, judge: &mut Judge) {
    let ports = items(ports, "ports");
    if ports.len() > PORTS_MAX {
        return too_many("ports", ports.len(), PORTS_MAX, judge);
    }
    let mut known = BTreeSet::new();
    for (path, port) in ports {
        let (name, field) = (text(&port["name"]), format!("{path}.name"));
        for fault in if name.is_empty() { Vec::new() } else { names::label_faults(name) } {
            judge.invalid(&field, name, fault);
        }
        if !known.insert(name) {
            judge.duplicate(field, name);
        }
        judge.one_of(&port["protocol"], &PROTOCOLS, &format!("{path}.protocol"));
        check_application(port, &path, judge);
    }
}

fn check_endpoints(object: &Value, judge: &mut Judge) {
    let endpoints = items(&object["endpoints"], "endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        return too_many("endpoints", endpoints.len(), ENDPOINTS_MAX, judge);
    }
    for (path, endpoint) in endpoints {
        let field = format!("{path}.addresses");
        let addresses = items(&endpoint["addresses"], &field);
        match addresses.len() {
            0 => judge.required(&field, ""),
            count @ 101.. => too_many(&field, count, ADDRESSES_MAX, judge),
            _ => {}
        }
        for (place, address) in addresses {
            check_typed(text(address), text(&object["addressType"]), &place, &field, judge);
        }
        check_node(endpoint, &path, judge);
        if let Some(host) = endpoint["hostname"].as_str() {
            for fault in names::label_faults(host) {
                judge.invalid(format!("{path}.hostname"), host, fault);
            }
        }
        check_hints(&endpoint["hints"], &format!("{path}.hints"), judge);
    }
}

/// An address of a type: one that the type has.
fn check_typed(address: &str, kind: &str, place: &str, list: &str, judge: &mut Judge) {
    match kind {
        "IPv4" | "IPv6" if judge.address(address, place) => {
            let article = if kind == "IPv4" { "an IPv4" } else { "an IPv6" };
            if is_four(address) != (kind == "IPv4") {
                judge.invalid(list, address, format!("must be {article} address"));
            }
            judge.endpoint(address, place);
        }
        "FQDN" => check_domain(address, place, judge),
        _ => {}
    }
}

fn check_domain(name: &str, field: &str, judge: &mut Judge) {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        return judge.required(field, "");
    }
    let faults = names::subdomain_faults(name);
    if !faults.is_empty() {
        judge.invalid(field, name, faults.join(","));
    } else if !name.contains('.') {
        judge.invalid(field, name, "should be a domain with at least two segments separated by dots");
    }
}

fn check_hints(hints: &Value, path: &str, judge: &mut Judge) {
    for (list, faults) in
        [("forZones", names::label_value_faults as fn(&str) -> Vec<String>), ("forNodes", names::subdomain_faults)]
    {
        let field = format!("{path}.{list}");
        let all = items(&hints[list], &field);
        if all.len() > HINTS_MAX {
            return too_many(&field, all.len(), HINTS_MAX, judge);
        }
        let mut known = BTreeSet::new();
        for (place, one) in all {
            let (name, place) = (text(&one["name"]), format!("{place}.name"));
            if !known.insert(name) {
                judge.duplicate(&place, name);
            }
            for fault in faults(name) {
                judge.invalid(&place, name, fault);
            }
        }
    }
}

fn too_many(field: &str, count: usize, most: usize, judge: &mut Judge) {
    let detail = format!("must have at most {most} items");
    judge.errors.push(FieldError::new(field, Fault::TooMany(count), detail));
}
