//! What is wrong with the containers of a pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::environment::{check_variables, check_whole_sources};
use super::handlers::{check_handlers, check_resizes, check_restarts, refuse_handlers};
use super::security::check_security;
use crate::builtin::amounts::{Of, check_resources};
use crate::builtin::judge::{Judge, count, items, port_name_faults, text, texts};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PULLS: [&str; 3] = ["Always", "IfNotPresent", "Never"];
/// What those that are added to a running pod may not have, in the order of Go's struct.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];
const EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// What the containers of a pod see of it.
pub(super) struct Around<'a> {
    /// The volumes that are as they should be.
    pub(super) volumes: BTreeMap<&'a str, &'a Value>,
    /// The names of its claims of devices.
    pub(super) claims: BTreeSet<&'a str>,
    pub(super) spec: &'a Value,
}

pub(super) fn check_containers(around: &Around, path: &str, judge: &mut Judge) {
    let containers = &around.spec["containers"];
    let field = format!("{path}.containers");
    if count(containers) == 0 {
        return judge.required(field, "");
    }
    let grace = &around.spec["terminationGracePeriodSeconds"];
    let mut known = BTreeSet::new();
    for (place, container) in items(containers, &field) {
        check_container(container, around, &place, judge);
        if !known.insert(text(&container["name"])) {
            judge.duplicate(format!("{place}.name"), text(&container["name"]));
        }
        check_handlers(container, grace, &place, judge);
        check_restarts(container, &place, judge);
    }
    check_host_ports(containers.as_array().into_iter().flatten(), &field, judge);
}

pub(super) fn check_first(around: &Around, path: &str, judge: &mut Judge) {
    let field = format!("{path}.initContainers");
    let mut known: BTreeSet<&str> =
        items(&around.spec["containers"], "").iter().map(|(_, one)| text(&one["name"])).collect();
    for (place, container) in items(&around.spec["initContainers"], &field) {
        let name = text(&container["name"]);
        check_container(container, around, &place, judge);
        check_restarts(container, &place, judge);
        if known.contains(name) {
            judge.duplicate(format!("{place}.name"), name);
        } else if !name.is_empty() {
            known.insert(name);
        }
        check_host_ports([container], &field, judge);
        if text(&container["restartPolicy"]) == "Always" {
            check_handlers(container, &around.spec["terminationGracePeriodSeconds"], &place, judge);
            continue;
        }
        refuse_handlers(container, &place, judge);
        for (policy, one) in items(&container["resizePolicy"], &format!("{place}.resizePolicy")) {
            if text(&one["restartPolicy"]) == "RestartContainer" {
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                judge.invalid(format!("{policy}.restartPolicy"), "RestartContainer", detail);
            }
        }
    }
}

pub(super) fn check_ephemeral(around: &Around, path: &str, judge: &mut Judge) {
    let lists = ["containers", "initContainers"].map(|list| items(&around.spec[list], ""));
    let others: BTreeSet<&str> = lists.iter().flatten().map(|(_, one)| text(&one["name"])).collect();
    let mut known = others.clone();
    for (place, container) in items(&around.spec["ephemeralContainers"], &format!("{path}.ephemeralContainers")) {
        check_container(container, around, &place, judge);
        check_image(container, &place, judge);
        if !known.insert(text(&container["name"])) {
            judge.duplicate(format!("{place}.name"), text(&container["name"]));
        }
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            judge.not_found(format!("{place}.targetContainerName"), target, "");
        }
        for field in NOT_EPHEMERAL {
            let value = &container[field];
            let is_said = if field == "resources" { count(value) > 0 } else { !value.is_null() };
            if is_said {
                judge.forbidden(format!("{place}.{field}"), EPHEMERAL);
            }
        }
        for (mount, one) in items(&container["volumeMounts"], &format!("{place}.volumeMounts")) {
            for field in ["subPath", "subPathExpr"] {
                if !text(&one[field]).is_empty() {
                    judge.forbidden(format!("{mount}.{field}"), EPHEMERAL);
                }
            }
        }
    }
}

/// The name of an image, as pods have to say it; templates may have spaces around it.
pub(super) fn check_image(container: &Value, place: &str, judge: &mut Judge) {
    let image = text(&container["image"]);
    if image.trim() != image {
        judge.invalid(format!("{place}.image"), image, "must not have leading or trailing whitespace");
    }
}

/// What all containers have in common.
fn check_container(container: &Value, around: &Around, path: &str, judge: &mut Judge) {
    judge.label(&container["name"], &format!("{path}.name"));
    judge.text(&container["image"], &format!("{path}.image"));
    let policies = ["File", "FallbackToLogsOnError"];
    judge.one_of(&container["terminationMessagePolicy"], &policies, &format!("{path}.terminationMessagePolicy"));
    check_ports(&container["ports"], &format!("{path}.ports"), judge);
    check_variables(&container["env"], &format!("{path}.env"), judge);
    check_whole_sources(&container["envFrom"], &format!("{path}.envFrom"), judge);
    check_mounts(container, around, &format!("{path}.volumeMounts"), judge);
    check_devices(container, around, &format!("{path}.volumeDevices"), judge);
    judge.one_of(&container["imagePullPolicy"], &PULLS, &format!("{path}.imagePullPolicy"));
    check_resources(&container["resources"], Of::Container, &around.claims, &format!("{path}.resources"), judge);
    let restarts = text(&around.spec["restartPolicy"]);
    check_resizes(&container["resizePolicy"], restarts, &format!("{path}.resizePolicy"), judge);
    let host_users = around.spec["hostUsers"] != false;
    check_security(&container["securityContext"], host_users, &format!("{path}.securityContext"), judge);
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
            judge.faults(name, faults, &format!("{place}.name"));
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

/// A port of the host is taken once.
fn check_host_ports<'a>(containers: impl IntoIterator<Item = &'a Value>, path: &str, judge: &mut Judge) {
    let mut known = BTreeSet::new();
    for (number, container) in containers.into_iter().enumerate() {
        for (place, port) in items(&container["ports"], &format!("{path}[{number}].ports")) {
            let Some(host) = port["hostPort"].as_i64().filter(|host| *host != 0) else { continue };
            let key = format!("{}/{}/{host}", text(&port["protocol"]), text(&port["hostIP"]));
            if known.contains(&key) {
                judge.duplicate(format!("{place}.hostPort"), &key);
            }
            known.insert(key);
        }
    }
}

/// Who is in the network of the host has the host's ports.
pub(super) fn check_host_network(spec: &Value, path: &str, judge: &mut Judge) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (place, container) in items(&spec["containers"], &format!("{path}.containers")) {
        for (place, port) in items(&container["ports"], &format!("{place}.ports")) {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            if host != 0 && port["containerPort"] != host {
                judge.invalid(
                    format!("{place}.hostPort"),
                    host,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}

fn check_mounts(container: &Value, around: &Around, path: &str, judge: &mut Judge) {
    let devices = items(&container["volumeDevices"], "");
    let device_names: BTreeSet<&str> = devices.iter().map(|(_, device)| text(&device["name"])).collect();
    let device_paths: BTreeSet<&str> = devices.iter().map(|(_, device)| text(&device["devicePath"])).collect();
    let mut places = BTreeSet::new();
    for (place, mount) in items(&container["volumeMounts"], path) {
        let (name, at) = (text(&mount["name"]), text(&mount["mountPath"]));
        judge.text(&mount["name"], &format!("{place}.name"));
        if !around.volumes.contains_key(name) {
            judge.not_found(format!("{place}.name"), name, "");
        }
        judge.text(&mount["mountPath"], &format!("{place}.mountPath"));
        if !places.insert(at) {
            judge.invalid(format!("{place}.mountPath"), at, "must be unique");
        }
        if device_names.contains(name) {
            judge.invalid(format!("{place}.name"), name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(at) {
            judge.invalid(format!("{place}.mountPath"), at, "must not already exist as a path in volumeDevices");
        }
        check_mount(mount, &place, path, container["securityContext"]["privileged"] == true, judge);
    }
}

/// How a volume is mounted. The real server forgets which of the mounts it speaks of.
fn check_mount(mount: &Value, place: &str, path: &str, privileged: bool, judge: &mut Judge) {
    const SPREADS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
    const RECURSIVE: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];
    let (part, expression) = (text(&mount["subPath"]), text(&mount["subPathExpr"]));
    judge.descending(part, &format!("{path}.subPath"));
    if !part.is_empty() && !expression.is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        judge.invalid(format!("{place}.subPathExpr"), expression, detail);
    }
    judge.descending(expression, &format!("{path}.subPathExpr"));
    let (spread, field) = (&mount["mountPropagation"], format!("{path}.mountPropagation"));
    judge.choice(spread, &SPREADS, &field);
    if spread == "Bidirectional" && !privileged {
        judge.forbidden(field, "Bidirectional mount propagation is available only to privileged containers");
    }
    let (recursive, field) = (&mount["recursiveReadOnly"], format!("{path}.recursiveReadOnly"));
    judge.choice(recursive, &RECURSIVE, &field);
    if matches!(text(recursive), "Enabled" | "IfPossible") {
        if mount["readOnly"] != true {
            judge.forbidden(&field, "may only be specified when readOnly is true");
        }
        if !spread.is_null() && spread != "None" {
            judge.forbidden(field, "may only be specified when mountPropagation is None or not specified");
        }
    }
}

fn check_devices(container: &Value, around: &Around, path: &str, judge: &mut Judge) {
    let mounts = items(&container["volumeMounts"], "");
    let mount_names: BTreeSet<&str> = mounts.iter().map(|(_, mount)| text(&mount["name"])).collect();
    let mount_paths: BTreeSet<&str> = mounts.iter().map(|(_, mount)| text(&mount["mountPath"])).collect();
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (place, device) in items(&container["volumeDevices"], path) {
        let (name, at) = (text(&device["name"]), text(&device["devicePath"]));
        let (name_field, path_field) = (format!("{place}.name"), format!("{place}.devicePath"));
        judge.text(&device["name"], &name_field);
        if !name.is_empty() && !names.insert(name) {
            judge.invalid(&name_field, name, "must be unique");
        }
        match around.volumes.get(name) {
            Some(volume)
                if ["persistentVolumeClaim", "ephemeral"].iter().all(|source| !volume[*source].is_object()) =>
            {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                judge.invalid(&name_field, name, detail);
            }
            Some(_) => {}
            None => judge.not_found(&name_field, name, ""),
        }
        judge.text(&device["devicePath"], &path_field);
        if paths.contains(at) {
            judge.invalid(&path_field, at, "must be unique");
        }
        if at.split('/').any(|part| part == "..") {
            judge.invalid(&path_field, at, "can not contain backsteps ('..')");
        } else {
            paths.insert(at);
        }
        if mount_names.contains(name) {
            judge.invalid(&name_field, name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(at) {
            judge.invalid(&path_field, at, "must not already exist as a path in volumeMounts");
        }
    }
}

/// Variables that are read from files: those lie in volumes of the pod's own.
pub(super) fn check_files(spec: &Value, path: &str, judge: &mut Judge) {
    let volumes: BTreeMap<&str, &Value> =
        items(&spec["volumes"], "").into_iter().map(|(_, volume)| (text(&volume["name"]), volume)).collect();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (place, container) in items(&spec[list], &format!("{path}.{list}")) {
            for (place, variable) in items(&container["env"], &format!("{place}.env")) {
                let part = &variable["valueFrom"]["fileKeyRef"];
                let (name, field) = (text(&part["volumeName"]), format!("{place}.valueFrom.fileKeyRef.volumeName"));
                match volumes.get(name) {
                    _ if !part.is_object() => {}
                    None => judge.not_found(field, name, ""),
                    Some(volume) if !volume["emptyDir"].is_object() => {
                        judge.invalid(field, name, "referenced volume must be of type emptyDir");
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

/// The capabilities that a container adds.
pub(super) fn added(security: &Value) -> Vec<&str> {
    texts(&security["capabilities"]["add"])
}
