//! What is wrong with the spec of a pod: the rules that people break.

use std::collections::BTreeSet;

use concert_api::{Fault, FieldError, names};
use serde_json::Value;

use super::check_template_metadata;
use super::whole::check_whole;
use crate::builtin::judge::{Judge, items, port_name_faults, text};
use crate::builtin::quantity;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// Where the content of a volume can come from, in the order in which it is looked for.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// What pods are made from.
pub(in crate::builtin) fn check_template(template: &Value, path: &str, judge: &mut Judge) {
    check_template_metadata(template, path, judge);
    check_spec(&template["spec"], &format!("{path}.spec"), judge);
    if template["spec"]["ephemeralContainers"].as_array().is_some_and(|list| !list.is_empty()) {
        let field = format!("{path}.spec.ephemeralContainers");
        judge.forbidden(field, "ephemeral containers not allowed in pod template");
    }
}

pub(in crate::builtin) fn check_spec(spec: &Value, path: &str, judge: &mut Judge) {
    let volumes = check_volumes(&spec["volumes"], &format!("{path}.volumes"), judge);
    if text(&spec["serviceAccountName"]).is_empty() {
        refuse_tokens(&spec["volumes"], &format!("{path}.volumes"), judge);
    }
    let containers = format!("{path}.containers");
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        judge.required(&containers, "");
    }
    let mut names = BTreeSet::new();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for (place, container) in items(&spec[list], &format!("{path}.{list}")) {
            check_container(container, &place, &volumes, judge);
            if !names.insert(text(&container["name"]).to_owned()) {
                judge.duplicate(format!("{place}.name"), text(&container["name"]));
            }
            for probe in PROBES {
                if container[probe].is_object() {
                    check_probe(&container[probe], &format!("{place}.{probe}"), judge);
                }
            }
        }
    }
    judge.one_of(&spec["restartPolicy"], &["Always", "OnFailure", "Never"], &format!("{path}.restartPolicy"));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    judge.one_of(&spec["dnsPolicy"], &policies, &format!("{path}.dnsPolicy"));
    judge.errors.extend(names::check_labels(&spec["nodeSelector"], &format!("{path}.nodeSelector")));
    for field in ["serviceAccountName", "nodeName"] {
        check_name(spec, field, names::subdomain_faults, path, judge);
    }
    let deadline = spec["activeDeadlineSeconds"].as_i64();
    if let Some(seconds) = deadline.filter(|seconds| !(1..=i64::from(i32::MAX)).contains(seconds)) {
        judge.invalid(format!("{path}.activeDeadlineSeconds"), seconds, "must be between 1 and 2147483647, inclusive");
    }
    for field in ["hostname", "subdomain"] {
        check_name(spec, field, names::label_faults, path, judge);
    }
    check_tolerations(&spec["tolerations"], &format!("{path}.tolerations"), judge);
    check_aliases(&spec["hostAliases"], &format!("{path}.hostAliases"), judge);
    check_resources(&spec["resources"], &format!("{path}.resources"), judge);
    check_whole(spec, path, judge);
    check_gates(&spec["schedulingGates"], &format!("{path}.schedulingGates"), judge);
    for field in ["priorityClassName", "runtimeClassName"] {
        check_name(spec, field, names::subdomain_faults, path, judge);
    }
}

/// A name that may be left out.
fn check_name(spec: &Value, field: &str, faults: fn(&str) -> Vec<String>, path: &str, judge: &mut Judge) {
    let value = text(&spec[field]);
    for fault in if value.is_empty() { Vec::new() } else { faults(value) } {
        judge.invalid(format!("{path}.{field}"), value, fault);
    }
}

/// The names of hosts that a pod is told of.
fn check_aliases(aliases: &Value, path: &str, judge: &mut Judge) {
    for (place, alias) in items(aliases, path) {
        judge.address(text(&alias["ip"]), &format!("{place}.ip"));
        for (field, name) in items(&alias["hostnames"], &format!("{place}.hostnames")) {
            for fault in names::subdomain_faults(text(name)) {
                judge.invalid(&field, text(name), fault);
            }
        }
    }
}

/// What a pod waits for before it is given a node.
fn check_gates(gates: &Value, path: &str, judge: &mut Judge) {
    let mut known = BTreeSet::new();
    for (place, gate) in items(gates, path) {
        let name = text(&gate["name"]);
        for fault in names::qualified_faults(name) {
            judge.invalid(&place, name, fault);
        }
        if !known.insert(name) {
            judge.duplicate(place, name);
        }
    }
}

/// Which taints a pod tolerates, and how.
pub(super) fn check_tolerations(tolerations: &Value, path: &str, judge: &mut Judge) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    for (place, one) in items(tolerations, path) {
        let (operator, effect, value) = (text(&one["operator"]), text(&one["effect"]), text(&one["value"]));
        let field = format!("{place}.operator");
        if text(&one["key"]).is_empty() && operator != "Exists" {
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
            "" | "Equal" | "Exists" => {}
            other => judge.not_supported(other, &["Equal", "Exists"], &field),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            judge.not_supported(effect, &EFFECTS, &format!("{place}.effect"));
        }
    }
}

/// The names of the volumes that are as they should be.
fn check_volumes(volumes: &Value, path: &str, judge: &mut Judge) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (place, volume) in items(volumes, path) {
        let before = judge.errors.len();
        for further in SOURCES.iter().filter(|name| volume[**name].is_object()).skip(1) {
            judge.forbidden(format!("{place}.{further}"), "may not specify more than 1 volume type");
        }
        check_source(volume, &place, judge);
        judge.label(&volume["name"], &format!("{place}.name"));
        let name = text(&volume["name"]);
        if known.contains(name) {
            judge.duplicate(format!("{place}.name"), name);
        }
        if judge.errors.len() == before {
            known.insert(name.to_owned());
        }
    }
    known
}

/// A token is of somebody.
fn refuse_tokens(volumes: &Value, path: &str, judge: &mut Judge) {
    for (place, volume) in items(volumes, path) {
        for (source, one) in items(&volume["projected"]["sources"], &format!("{place}.projected.sources")) {
            if one["serviceAccountToken"].is_object() {
                let detail = "must not be specified when serviceAccountName is not set";
                judge.forbidden(format!("{source}.serviceAccountToken"), detail);
            }
        }
    }
}

fn check_source(volume: &Value, place: &str, judge: &mut Judge) {
    for (source, field) in
        [("hostPath", "path"), ("secret", "secretName"), ("persistentVolumeClaim", "claimName"), ("configMap", "name")]
    {
        if volume[source].is_object() {
            judge.text(&volume[source][field], &format!("{place}.{source}.{field}"));
        }
    }
}

fn check_container(container: &Value, path: &str, volumes: &BTreeSet<String>, judge: &mut Judge) {
    judge.label(&container["name"], &format!("{path}.name"));
    judge.text(&container["image"], &format!("{path}.image"));
    let policies = ["File", "FallbackToLogsOnError"];
    judge.one_of(&container["terminationMessagePolicy"], &policies, &format!("{path}.terminationMessagePolicy"));
    check_ports(&container["ports"], &format!("{path}.ports"), judge);
    check_variables(&container["env"], &format!("{path}.env"), judge);
    check_mounts(&container["volumeMounts"], &format!("{path}.volumeMounts"), volumes, judge);
    let policies = ["Always", "IfNotPresent", "Never"];
    judge.one_of(&container["imagePullPolicy"], &policies, &format!("{path}.imagePullPolicy"));
    check_resources(&container["resources"], &format!("{path}.resources"), judge);
}

fn check_ports(ports: &Value, path: &str, judge: &mut Judge) {
    let mut names = BTreeSet::new();
    for (place, port) in items(ports, path) {
        let name = text(&port["name"]);
        if !name.is_empty() {
            let faults = port_name_faults(name);
            if faults.is_empty() && !names.insert(name) {
                judge.duplicate(format!("{place}.name"), name);
            }
            for fault in faults {
                judge.invalid(format!("{place}.name"), name, fault);
            }
        }
        match port["containerPort"].as_i64().unwrap_or(0) {
            0 => judge.required(format!("{place}.containerPort"), ""),
            number => judge.port(number, &format!("{place}.containerPort")),
        }
        if let Some(number) = port["hostPort"].as_i64().filter(|number| *number != 0) {
            judge.port(number, &format!("{place}.hostPort"));
        }
        judge.one_of(&port["protocol"], &PROTOCOLS, &format!("{place}.protocol"));
    }
}

fn check_variables(variables: &Value, path: &str, judge: &mut Judge) {
    const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    for (place, variable) in items(variables, path) {
        judge.text(&variable["name"], &format!("{place}.name"));
        let Some(source) = variable.get("valueFrom").filter(|source| source.is_object()) else { continue };
        let field = format!("{place}.valueFrom");
        match SOURCES.iter().filter(|name| source[**name].is_object()).count() {
            0 => judge.invalid(field, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"),
            _ if !text(&variable["value"]).is_empty() => {
                judge.invalid(field, "", "may not be specified when `value` is not empty");
            }
            2.. => judge.invalid(field, "", "may not have more than one field specified at a time"),
            _ => {}
        }
    }
}

fn check_mounts(mounts: &Value, path: &str, volumes: &BTreeSet<String>, judge: &mut Judge) {
    let mut places = BTreeSet::new();
    for (place, mount) in items(mounts, path) {
        let (name, at) = (text(&mount["name"]), text(&mount["mountPath"]));
        judge.text(&mount["name"], &format!("{place}.name"));
        if !volumes.contains(name) {
            judge.errors.push(FieldError::new(format!("{place}.name"), Fault::NotFound(name.into()), ""));
        }
        judge.text(&mount["mountPath"], &format!("{place}.mountPath"));
        if !places.insert(at) {
            judge.invalid(format!("{place}.mountPath"), at, "must be unique");
        }
    }
}

fn check_probe(probe: &Value, path: &str, judge: &mut Judge) {
    let mut given = ["exec", "httpGet", "tcpSocket", "grpc"].into_iter().filter(|name| probe[*name].is_object());
    match given.next() {
        None => judge.required(path, "must specify a handler type"),
        Some("exec") if probe["exec"]["command"].as_array().is_none_or(Vec::is_empty) => {
            judge.required(format!("{path}.exec.command"), "");
        }
        Some(name @ ("httpGet" | "tcpSocket")) => {
            judge.port_or_name(&probe[name]["port"], &format!("{path}.{name}.port"));
        }
        Some(_) => {}
    }
    for name in given {
        judge.forbidden(format!("{path}.{name}"), "may not specify more than 1 handler type");
    }
    let numbers = ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    judge.not_negative(probe, &numbers, path);
    let once = probe["successThreshold"].as_i64().unwrap_or(1) == 1;
    if !once && !path.ends_with("readinessProbe") {
        judge.invalid(format!("{path}.successThreshold"), probe["successThreshold"].clone(), "must be 1");
    }
}

fn check_resources(resources: &Value, path: &str, judge: &mut Judge) {
    for part in ["limits", "requests"] {
        for (name, amount) in resources[part].as_object().into_iter().flatten() {
            if quantity::millis(amount).is_some_and(|amount| amount < 0) {
                let detail = "must be greater than or equal to 0";
                judge.invalid(format!("{path}.{part}[{name}]"), text(amount), detail);
            }
        }
    }
    for (name, wanted) in resources["requests"].as_object().into_iter().flatten() {
        let limit = &resources["limits"][name];
        if let (Some(amount), Some(most)) = (quantity::millis(wanted), quantity::millis(limit))
            && amount > most
        {
            let detail = format!("must be less than or equal to {name} limit of {}", text(limit));
            judge.invalid(format!("{path}.requests"), text(wanted), detail);
        }
    }
}
