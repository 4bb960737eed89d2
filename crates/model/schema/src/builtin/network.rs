//! Services, and what else the network is made of.

pub(super) mod endpoints;
pub(super) mod ingress;
pub(super) mod policy;

use std::collections::BTreeSet;

use concert_api::{FieldErrors, names};
use serde_json::Value;

use super::judge::{Judge, items, text};

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
