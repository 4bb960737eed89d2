//! What is wrong with the spec of a pod, in the order in which the real server looks.

use std::collections::BTreeSet;

use concert_api::names;
use serde_json::{Value, json};

use super::check_template_metadata;
use super::container::{Around, check_containers, check_ephemeral, check_files, check_first, check_host_network};
use super::dns::check_dns;
use super::placement::{check_affinity, check_spread, check_tolerations};
use super::security::{check_host_processes, check_host_users, check_pod_security, check_system};
use super::source::check_volumes;
use super::whole::check_whole;
use crate::builtin::amounts::{Of, check_overhead, check_resources};
use crate::builtin::judge::{Judge, count, items, text};

/// What pods are made from.
pub(in crate::builtin) fn check_template(template: &Value, path: &str, judge: &mut Judge) {
    check_template_metadata(template, path, judge);
    check_spec(&template["spec"], "", &format!("{path}.spec"), judge);
    if count(&template["spec"]["ephemeralContainers"]) > 0 {
        let field = format!("{path}.spec.ephemeralContainers");
        judge.forbidden(field, "ephemeral containers not allowed in pod template");
    }
}

/// The spec of a pod of that name; templates have none.
pub(in crate::builtin) fn check_spec(spec: &Value, name: &str, path: &str, judge: &mut Judge) {
    let volumes = check_volumes(&spec["volumes"], name, &format!("{path}.volumes"), judge);
    check_device_claims(&spec["resourceClaims"], &format!("{path}.resourceClaims"), judge);
    let all = items(&spec["resourceClaims"], "").into_iter().map(|(_, claim)| text(&claim["name"]));
    let around = Around { volumes, claims: all.filter(|name| !name.is_empty()).collect(), spec };
    check_containers(&around, path, judge);
    check_first(&around, path, judge);
    check_ephemeral(&around, path, judge);
    check_pod_resources(&around, &format!("{path}.resources"), judge);
    check_whole(spec, path, judge);
    check_host_network(spec, path, judge);
    judge.one_of(&spec["restartPolicy"], &["Always", "OnFailure", "Never"], &format!("{path}.restartPolicy"));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    judge.one_of(&spec["dnsPolicy"], &policies, &format!("{path}.dnsPolicy"));
    judge.errors.extend(names::check_labels(&spec["nodeSelector"], &format!("{path}.nodeSelector")));
    check_pod_security(spec, &format!("{path}.securityContext"), judge);
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        judge.invalid(format!("{path}.shareProcessNamespace"), true, detail);
    }
    check_affinity(&spec["affinity"], &format!("{path}.affinity"), judge);
    check_dns(spec, &format!("{path}.dnsConfig"), judge);
    for (place, gate) in items(&spec["readinessGates"], &format!("{path}.readinessGates")) {
        let kind = text(&gate["conditionType"]);
        judge.faults(kind, names::qualified_faults(kind), &format!("{place}.conditionType"));
    }
    check_gates(&spec["schedulingGates"], &format!("{path}.schedulingGates"), judge);
    check_spread(&spec["topologySpreadConstraints"], &format!("{path}.topologySpreadConstraints"), judge);
    check_host_processes(spec, path, judge);
    check_host_users(spec, path, judge);
    check_names(spec, path, judge);
    check_system(spec, path, judge);
    check_files(spec, path, judge);
}

/// The names in a spec, and what stands among them.
fn check_names(spec: &Value, path: &str, judge: &mut Judge) {
    check_host_name(spec, &format!("{path}.hostnameOverride"), judge);
    for field in ["serviceAccountName", "nodeName"] {
        check_name(spec, field, names::subdomain_faults, path, judge);
    }
    judge.between(&spec["activeDeadlineSeconds"], (1, i32::MAX.into()), &format!("{path}.activeDeadlineSeconds"));
    for field in ["hostname", "subdomain"] {
        check_name(spec, field, names::label_faults, path, judge);
    }
    check_tolerations(&spec["tolerations"], &format!("{path}.tolerations"), judge);
    check_aliases(&spec["hostAliases"], &format!("{path}.hostAliases"), judge);
    for field in ["priorityClassName", "runtimeClassName"] {
        check_name(spec, field, names::subdomain_faults, path, judge);
    }
    if !spec["preemptionPolicy"].is_null() {
        let known = ["PreemptLowerPriority", "Never"];
        judge.one_of(&spec["preemptionPolicy"], &known, &format!("{path}.preemptionPolicy"));
    }
    check_overhead(&spec["overhead"], &format!("{path}.overhead"), judge);
}

/// A name that may be left out.
fn check_name(spec: &Value, field: &str, faults: fn(&str) -> Vec<String>, path: &str, judge: &mut Judge) {
    let value = text(&spec[field]);
    if !value.is_empty() {
        judge.faults(value, faults(value), &format!("{path}.{field}"));
    }
}

/// A name of its own for the host that a pod is.
fn check_host_name(spec: &Value, path: &str, judge: &mut Judge) {
    let Some(name) = spec["hostnameOverride"].as_str() else { return };
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec[field] == true {
            judge.forbidden(path, format!("may not be specified when {field} is true"));
        }
    }
    judge.short(name, 64, path);
    judge.faults(name, names::subdomain_faults(name), path);
}

/// Which claims of devices a pod has.
fn check_device_claims(claims: &Value, path: &str, judge: &mut Judge) {
    const SOURCES: [&str; 2] = ["resourceClaimName", "resourceClaimTemplateName"];
    let mut known = BTreeSet::new();
    for (place, claim) in items(claims, path) {
        let (name, field) = (text(&claim["name"]), format!("{place}.name"));
        if name.is_empty() {
            judge.required(&field, "");
        } else if !known.insert(name) {
            judge.duplicate(&field, name);
        } else {
            judge.faults(name, names::label_faults(name), &field);
        }
        let [one, other] = SOURCES.map(|source| &claim[source]);
        let detail = match (one.is_null(), other.is_null()) {
            (false, false) => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            (true, true) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            _ => "",
        };
        if !detail.is_empty() {
            let shown = json!({"Name": name, "ResourceClaimName": one, "ResourceClaimTemplateName": other});
            judge.invalid(&place, shown, detail);
        }
        for source in SOURCES {
            if let Some(name) = claim[source].as_str() {
                judge.faults(name, names::subdomain_faults(name), &format!("{place}.{source}"));
            }
        }
    }
}

/// What a pod asks for as a whole.
fn check_pod_resources(around: &Around, path: &str, judge: &mut Judge) {
    let (spec, resources) = (around.spec, &around.spec["resources"]);
    if !resources.is_object() {
        return;
    }
    if text(&spec["os"]["name"]) == "windows" {
        return judge.forbidden(path, "may not be set for a windows pod");
    }
    if !resources["claims"].is_null() {
        judge.forbidden(format!("{path}.claims"), "claims may not be set for Resources at pod-level");
    }
    check_resources(resources, Of::Pod, &around.claims, path, judge);
}

/// The names of hosts that a pod is told of.
fn check_aliases(aliases: &Value, path: &str, judge: &mut Judge) {
    for (place, alias) in items(aliases, path) {
        judge.address(text(&alias["ip"]), &format!("{place}.ip"));
        for (field, name) in items(&alias["hostnames"], &format!("{place}.hostnames")) {
            judge.faults(text(name), names::subdomain_faults(text(name)), &field);
        }
    }
}

/// What a pod waits for before it is given a node.
fn check_gates(gates: &Value, path: &str, judge: &mut Judge) {
    let mut known = BTreeSet::new();
    for (place, gate) in items(gates, path) {
        let name = text(&gate["name"]);
        judge.faults(name, names::qualified_faults(name), &place);
        if !known.insert(name) {
            judge.duplicate(place, name);
        }
    }
}
