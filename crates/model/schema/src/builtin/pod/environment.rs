//! What containers are told in their environment, and by volumes about themselves.

use concert_api::names;
use serde_json::Value;

use crate::builtin::config_map;
use crate::builtin::judge::{Judge, items, text};
use crate::builtin::quantity;

/// What a variable can tell of its pod.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// What a file can tell of its pod.
const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// What is known of a pod by its path, beside those.
const OTHER_FIELDS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];
/// What can be told of the resources of a container.
const AMOUNTS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const UNITS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
const MANY: &str = "may not have more than one field specified at a time";

/// Who tells: a variable or a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    ByVariable,
    ByFile,
}

/// What is wrong with the name of a variable.
fn variable_faults(name: &str) -> Vec<String> {
    let fits = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    if name.bytes().all(fits) && !name.is_empty() {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

pub(super) fn check_variables(variables: &Value, path: &str, judge: &mut Judge) {
    for (place, variable) in items(variables, path) {
        if judge.text(&variable["name"], &format!("{place}.name")) {
            let name = text(&variable["name"]);
            judge.faults(name, variable_faults(name), &format!("{place}.name"));
        }
        if variable["valueFrom"].is_object() {
            check_source(variable, &format!("{place}.valueFrom"), judge);
        }
    }
}

fn check_source(variable: &Value, path: &str, judge: &mut Judge) {
    let source = &variable["valueFrom"];
    let given: Vec<&str> = SOURCES.into_iter().filter(|name| source[*name].is_object()).collect();
    for name in &given {
        let (part, field) = (&source[*name], format!("{path}.{name}"));
        match *name {
            "fieldRef" => check_field(part, Told::ByVariable, &field, judge),
            "resourceFieldRef" => check_resource(part, Told::ByVariable, &field, judge),
            "fileKeyRef" => check_file(part, &field, judge),
            _ => check_key(part, &field, judge),
        }
    }
    match given.len() {
        0 => judge.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if !text(&variable["value"]).is_empty() => {
            judge.invalid(path, "", "may not be specified when `value` is not empty");
        }
        2.. => judge.invalid(path, "", MANY),
        _ => {}
    }
}

/// A key of a config map or a secret.
fn check_key(part: &Value, path: &str, judge: &mut Judge) {
    let (name, key) = (text(&part["name"]), text(&part["key"]));
    judge.faults(name, names::subdomain_faults(name), &format!("{path}.name"));
    if judge.text(&part["key"], &format!("{path}.key")) {
        config_map::check_key(&format!("{path}.key"), key, &mut judge.errors);
    }
}

/// A key of a file in a volume.
fn check_file(part: &Value, path: &str, judge: &mut Judge) {
    let (key, volume) = (text(&part["key"]), text(&part["volumeName"]));
    if judge.text(&part["key"], &format!("{path}.key")) {
        judge.faults(key, variable_faults(key), &format!("{path}.key"));
    }
    if judge.text(&part["volumeName"], &format!("{path}.volumeName")) {
        judge.faults(volume, names::label_faults(volume), &format!("{path}.volumeName"));
    }
    if judge.text(&part["path"], &format!("{path}.path")) {
        judge.no_backsteps(text(&part["path"]), &format!("{path}.path"));
    }
}

/// A path like `metadata.labels['app']`: what is before the bracket, and what is in it.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(path, _)| !path.is_empty())
}

/// What is told of a pod.
pub(super) fn check_field(part: &Value, told: Told, path: &str, judge: &mut Judge) {
    let field = format!("{path}.fieldPath");
    if !judge.text(&part["apiVersion"], &format!("{path}.apiVersion")) || !judge.text(&part["fieldPath"], &field) {
        return;
    }
    let wanted = text(&part["fieldPath"]);
    let mut wrong = |why: String| judge.invalid(&field, wanted, format!("error converting fieldPath: {why}"));
    if text(&part["apiVersion"]) != "v1" {
        return wrong(format!("unsupported pod version: {}", text(&part["apiVersion"])));
    }
    match subscripted(wanted) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            judge.faults(&key, names::qualified_faults(&key), path);
        }
        Some(("metadata.labels", key)) => judge.faults(key, names::qualified_faults(key), path),
        Some(_) => wrong(format!("field label does not support subscript: {wanted}")),
        None => {
            let wanted = if wanted == "spec.host" { "spec.nodeName" } else { wanted };
            let known = [&FIELDS[..], &FILE_FIELDS, &OTHER_FIELDS].iter().any(|all| all.contains(&wanted));
            let allowed = if told == Told::ByFile { &FILE_FIELDS[..] } else { &FIELDS };
            if !known {
                wrong(format!("field label not supported: {wanted}"));
            } else if !allowed.contains(&wanted) {
                judge.not_supported(wanted, allowed, &field);
            }
        }
    }
}

/// What is told of the resources of a container.
pub(super) fn check_resource(part: &Value, told: Told, path: &str, judge: &mut Judge) {
    let name = text(&part["resource"]);
    let huge = ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| name.starts_with(prefix));
    if told == Told::ByFile && text(&part["containerName"]).is_empty() {
        judge.required(format!("{path}.containerName"), "");
    } else if judge.text(&part["resource"], &format!("{path}.resource")) && !huge && !AMOUNTS.contains(&name) {
        judge.not_supported(name, &AMOUNTS, &format!("{path}.resource"));
    }
    let unit = quantity::canonical(&part["divisor"]).unwrap_or_default();
    if quantity::millis(&part["divisor"]).unwrap_or(0) == 0 {
        return;
    }
    let kind = match name.split_once('.').map_or("", |(_, kind)| kind) {
        _ if huge => "hugepages",
        "cpu" if !matches!(unit.as_str(), "1m" | "1") => {
            let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
            return judge.invalid(format!("{path}.divisor"), name, detail);
        }
        "memory" => "memory",
        "ephemeral-storage" => "local ephemeral storage",
        _ => return,
    };
    if (huge || AMOUNTS.contains(&name)) && !UNITS.contains(&unit.as_str()) {
        let detail = format!("only divisor's values {} are supported with the {kind} resource", UNITS.join(", "));
        judge.invalid(format!("{path}.divisor"), name, detail);
    }
}

/// Whole config maps and secrets as variables.
pub(super) fn check_whole_sources(sources: &Value, path: &str, judge: &mut Judge) {
    for (place, source) in items(sources, path) {
        let prefix = text(&source["prefix"]);
        if !prefix.is_empty() {
            judge.faults(prefix, variable_faults(prefix), &format!("{place}.prefix"));
        }
        let given: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|name| source[*name].is_object()).collect();
        for kind in &given {
            let field = format!("{place}.{kind}.name");
            if judge.text(&source[*kind]["name"], &field) {
                check_whole_name(text(&source[*kind]["name"]), &field, judge);
            }
        }
        match given.len() {
            0 => judge.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => judge.invalid(path, "", MANY),
        }
    }
}

/// A dash at the end of such a name stands for more to come.
fn check_whole_name(name: &str, field: &str, judge: &mut Judge) {
    judge.faults(name, crate::builtin::NameRule::Subdomain.prefix_faults(name), field);
}
