//! What can be asked for in amounts: the names of resources, and how requests and limits agree.

use std::collections::BTreeSet;

use concert_api::names;
use serde_json::Value;

use super::judge::{Judge, NOT_NEGATIVE, count, items, members, text};
use super::quantity;

const HUGE: &str = "hugepages-";
/// What containers have of the server's own resources.
const OF_CONTAINERS: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// What a quota counts in amounts.
const COMPUTED: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];
/// What a quota counts one by one.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// How many names are told of what there is instead: each that is missing tells them.
const MOST_NAMES: usize = 100;

/// Whose requests and limits they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Container,
    Pod,
}

/// Whether a quota can be set on a resource of the server's own.
pub(super) fn is_of_quotas(name: &str) -> bool {
    let huge = name.strip_prefix("requests.").unwrap_or(name);
    COMPUTED.contains(&name) || COUNTED.contains(&name) || huge.starts_with(HUGE)
}

/// Whether a resource is the server's own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether more of a resource may be promised than there is.
pub(super) fn is_shared(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE)
}

/// Whether a resource is somebody else's, and well named.
fn is_extended(name: &str) -> bool {
    let counted = format!("requests.{name}");
    !is_native(name) && !name.starts_with("requests.") && names::qualified_faults(&counted).is_empty()
}

/// The name of any resource; whether it is one.
pub(super) fn check_name(name: &str, field: &str, judge: &mut Judge) -> bool {
    let before = judge.errors.len();
    judge.faults(name, names::qualified_faults(name), field);
    if judge.errors.len() == before && !name.contains('/') && name != "storage" && !is_of_quotas(name) {
        judge.invalid(field, name, "must be a standard resource type or fully qualified");
    }
    judge.errors.len() == before
}

/// The name of what a container asks for.
pub(super) fn check_container_name(name: &str, field: &str, judge: &mut Judge) {
    check_name(name, field, judge);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !name.starts_with(HUGE) {
            judge.invalid(field, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        judge.invalid(field, name, "doesn't follow extended resource name standard");
    }
}

/// The name of what a pod as a whole asks for.
fn check_pod_name(name: &str, field: &str, judge: &mut Judge) {
    let known = matches!(name, "cpu" | "memory") || name.starts_with(HUGE);
    if check_name(name, field, judge) && !known {
        judge.not_supported(name, &["cpu", HUGE, "memory"], field);
    }
}

/// An amount of a resource.
pub(super) fn check_amount(name: &str, amount: &Value, field: &str, judge: &mut Judge) {
    let Some(millis) = quantity::millis(amount) else { return };
    if millis < 0 {
        judge.invalid(field, text(amount), NOT_NEGATIVE);
    }
    if (COUNTED.contains(&name) || is_extended(name)) && millis % 1000 != 0 {
        judge.invalid(field, text(amount), "must be an integer");
    }
}

/// Huge pages come whole.
fn check_pages(name: &str, amount: &Value, field: &str, judge: &mut Judge) {
    let Some(size) = name.strip_prefix(HUGE) else { return };
    let size = quantity::millis(&size.into()).filter(|size| *size > 0 && size % 1000 == 0);
    let pages = size.zip(quantity::millis(amount));
    if pages.is_none_or(|(size, amount)| (amount + 999).div_euclid(1000) % (size / 1000) != 0) {
        let amount = text(amount);
        judge.invalid(field, amount, format!("{amount} is not positive integer multiple of {name}"));
    }
}

/// What a container or a pod asks for.
pub(super) fn check_resources(resources: &Value, of: Of, claims: &BTreeSet<&str>, path: &str, judge: &mut Judge) {
    let check_name = match of {
        Of::Container => check_container_name,
        Of::Pod => check_pod_name,
    };
    for part in ["limits", "requests"] {
        for (name, amount) in members(&resources[part]) {
            let field = format!("{path}.{part}[{name}]");
            check_name(name, &field, judge);
            check_amount(name, amount, &field, judge);
            if part == "requests" {
                check_limit(name, amount, &resources["limits"][name], path, judge);
            }
            check_pages(name, amount, &field, judge);
        }
    }
    let all = || ["limits", "requests"].into_iter().flat_map(|part| members(&resources[part])).map(|(name, _)| name);
    if all().any(|name| name.starts_with(HUGE)) && !all().any(|name| matches!(name, "cpu" | "memory")) {
        judge.forbidden(path, "HugePages require cpu or memory");
    }
    check_claims(&resources["claims"], claims, &format!("{path}.claims"), judge);
}

/// A request is not more than its limit, and of some resources just that.
fn check_limit(name: &str, wanted: &Value, limit: &Value, path: &str, judge: &mut Judge) {
    let field = format!("{path}.requests");
    match (quantity::millis(wanted), quantity::millis(limit)) {
        (Some(amount), Some(most)) if amount != most && !is_shared(name) => {
            judge.invalid(field, text(wanted), format!("must be equal to {name} limit of {}", text(limit)));
        }
        (Some(amount), Some(most)) if amount > most => {
            judge.invalid(
                field,
                text(wanted),
                format!("must be less than or equal to {name} limit of {}", text(limit)),
            );
        }
        (_, None) if !is_shared(name) => {
            judge.required(format!("{path}.limits"), "Limit must be set for non overcommitable resources");
        }
        _ => {}
    }
}

/// Which of the claims of its pod a container uses.
fn check_claims(used: &Value, claims: &BTreeSet<&str>, path: &str, judge: &mut Judge) {
    // Whole claims, single requests of them, and claims with such requests.
    let (mut known, mut parts) = (BTreeSet::new(), BTreeSet::new());
    for (place, claim) in items(used, path) {
        let (name, request) = (text(&claim["name"]), text(&claim["request"]));
        if name.is_empty() {
            judge.required(place, "");
            continue;
        }
        if known.contains(name) {
            judge.duplicate(&place, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                judge.faults(request, names::label_faults(request), &format!("{place}.request"));
                key = format!("{name}/{request}");
            }
            if known.contains(&key) || (request.is_empty() && parts.contains(name)) {
                judge.duplicate(&place, &key);
            }
            if !request.is_empty() {
                parts.insert(name);
            }
            known.insert(key);
        }
        if !claims.contains(name) {
            let all: Vec<&str> = claims.iter().copied().take(MOST_NAMES).collect();
            let there = if all.is_empty() { " which is empty".to_owned() } else { format!(": {}", all.join(", ")) };
            judge.not_found(place, name, format!("must be one of the names in pod.spec.resourceClaims{there}"));
        }
    }
}

/// What runs beside the containers of a pod needs, too.
pub(super) fn check_overhead(overhead: &Value, path: &str, judge: &mut Judge) {
    if count(overhead) > 0 {
        check_resources(&serde_json::json!({"limits": overhead}), Of::Container, &BTreeSet::new(), path, judge);
    }
}
