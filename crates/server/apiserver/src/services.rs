//! What services get from the server: addresses and ports of nodes. Nothing listens there.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::LazyLock;

use concert_api::{FieldError, FieldErrors, GroupResource, meta};
use concert_world::Random;
use serde_json::{Value, json};

use crate::Server;

/// The resource of services.
pub(crate) static SERVICES: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new("", "services"));
/// Where clients inside of a cluster find the server.
pub(crate) const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// What stands for an address in a dry run.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
/// The ports after it stand for ports in a dry run.
const DUMMY_PORT: i64 = 32_768;
/// The addresses of a /24, without the first (this server) and the last.
const HOSTS: std::ops::RangeInclusive<u8> = 2..=254;
/// The ports of nodes.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// What goes with an address.
const OF_ADDRESSES: [&str; 5] = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"];

/// How what nobody asked for is chosen.
#[derive(Clone, Copy)]
enum Choice<'a> {
    /// Any that is free.
    Free(&'a Random),
    /// One that cannot be had.
    Dummy,
}

/// What other services have.
#[derive(Default)]
struct Taken {
    addresses: BTreeSet<String>,
    ports: BTreeSet<i64>,
}

impl Server {
    /// Gives a service what it asks for, and what every service has. Whoever writes services holds the lock of those.
    /// In a dry run nobody looks for what is free: it is shown what nobody can have.
    pub(crate) fn allocate(&self, service: &mut Value, old: Option<&Value>, is_dry: bool) -> FieldErrors {
        if let Some(old) = old {
            keep(service, old);
        }
        let own = meta::text(service, "uid").to_owned();
        let mut taken = self.taken(&own);
        let random = &self.world().random;
        let mut errors = FieldErrors::new();
        if service["spec"]["type"] == "ExternalName" {
            release(service);
            return errors;
        }
        if let Some(old) = old {
            drop_unused(service, old);
        }
        set_families(service);
        let choice = if is_dry { Choice::Dummy } else { Choice::Free(random) };
        if gets_address(service, old) {
            errors.extend(set_address(service, &taken, choice));
        }
        errors.extend(set_node_ports(service, &mut taken, choice));
        errors
    }

    /// Whether no other service has what this one was given.
    pub(crate) fn are_free(&self, service: &Value) -> bool {
        let taken = self.taken(meta::text(service, "uid"));
        let address = service["spec"]["clusterIP"].as_str().unwrap_or_default();
        let has_address = !matches!(address, "" | "None");
        !(has_address && taken.addresses.contains(address)) && node_ports(service).is_disjoint(&taken.ports)
    }

    fn taken(&self, own: &str) -> Taken {
        let mut taken = Taken::default();
        let snapshot = self.store().snapshot();
        for (_, entry) in snapshot.range(&SERVICES, None, None) {
            let Ok(service) = serde_json::from_slice::<Value>(&entry.bytes) else { continue };
            if meta::text(&service, "uid") == own {
                continue;
            }
            let spec = &service["spec"];
            taken.addresses.extend(spec["clusterIP"].as_str().map(str::to_owned));
            let ports = spec["ports"].as_array().into_iter().flatten();
            taken.ports.extend(ports.filter_map(|port| port["nodePort"].as_i64()));
            taken.ports.extend(spec["healthCheckNodePort"].as_i64());
        }
        taken
    }
}

/// Only a new service, or one that was a name, is given an address that it does not ask for. One that came through its
/// status has none, and stays so.
fn gets_address(service: &Value, old: Option<&Value>) -> bool {
    let spec = &service["spec"];
    let asks = [&spec["clusterIP"], &spec["clusterIPs"][0]]
        .iter()
        .any(|said| said.as_str().is_some_and(|text| !text.is_empty()));
    asks || old.is_none_or(|old| old["spec"]["type"] == "ExternalName")
}

/// What an update does not say stays.
fn keep(service: &mut Value, old: &Value) {
    let both = service["spec"]["type"] != "ExternalName" && old["spec"]["type"] != "ExternalName";
    if !both {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let unsaid = service["spec"].get(field).is_none_or(|value| value.is_null() || *value == "");
        if unsaid && let Some(value) = old["spec"].get(field) {
            service["spec"][field] = value.clone();
        }
    }
    let wants_ports = matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    let before = old["spec"]["ports"].as_array().cloned().unwrap_or_default();
    for port in service["spec"].get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let same = |one: &&Value| one["port"] == port["port"] && one["protocol"] == port["protocol"];
        let found = before.iter().find(same).and_then(|one| one["nodePort"].as_i64());
        if let Some(number) = found.filter(|_| wants_ports && port["nodePort"].as_i64().unwrap_or(0) == 0) {
            port["nodePort"] = number.into();
        }
    }
}

/// A service that is only a name has no address.
fn release(service: &mut Value) {
    let Some(spec) = service["spec"].as_object_mut() else { return };
    for field in OF_ADDRESSES {
        spec.remove(field);
    }
}

/// What only those have who are reached from outside.
fn drop_unused(service: &mut Value, old: &Value) {
    if has_node_ports(old) && !has_node_ports(service) && node_ports(service).is_subset(&node_ports(old)) {
        for port in service["spec"].get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    let is_balanced = |service: &Value| service["spec"]["type"] == "LoadBalancer";
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"] {
        let is_same = service["spec"].get(field) == old["spec"].get(field);
        if let Some(spec) = service["spec"].as_object_mut().filter(|_| is_same && is_balanced(old))
            && spec.get("type").is_some_and(|kind| kind != "LoadBalancer")
        {
            spec.remove(field);
        }
    }
    let spec = &mut service["spec"];
    let external = matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    let own = spec["externalIPs"].as_array().is_some_and(|list| !list.is_empty());
    if let Some(spec) = spec.as_object_mut().filter(|_| !external && !own) {
        spec.remove("externalTrafficPolicy");
    }
}

fn has_node_ports(service: &Value) -> bool {
    match service["spec"]["type"].as_str() {
        Some("NodePort") => true,
        Some("LoadBalancer") => service["spec"]["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

fn node_ports(service: &Value) -> BTreeSet<i64> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| port["nodePort"].as_i64()).filter(|number| *number != 0).collect()
}

fn set_families(service: &mut Value) {
    let spec = &mut service["spec"];
    let headless = spec["clusterIP"] == "None" || spec["clusterIPs"][0] == "None";
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    let double = headless && !selects;
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = if double { "RequireDualStack" } else { "SingleStack" }.into();
    }
    if spec["ipFamilies"].as_array().is_none_or(Vec::is_empty) {
        spec["ipFamilies"] = if double { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
    }
}

fn set_address(service: &mut Value, taken: &Taken, choice: Choice<'_>) -> FieldErrors {
    let spec = &mut service["spec"];
    let said = [&spec["clusterIP"], &spec["clusterIPs"][0]];
    let said = said.into_iter().filter_map(Value::as_str).find(|text| !text.is_empty()).map(str::to_owned);
    let mut errors = FieldErrors::new();
    let address = match said {
        Some(address) => {
            let is_taken = !matches!(choice, Choice::Dummy) && taken.addresses.contains(&address);
            if address != "None" && is_taken {
                let detail = format!("failed to allocate IP {address}: provided IP is already allocated");
                errors.push(FieldError::invalid("spec.clusterIPs", json!([address]), detail));
            } else if address != "None" && address.parse::<std::net::IpAddr>().is_err() {
                let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                errors.push(FieldError::invalid("spec.clusterIPs[0]", address.as_str(), detail));
            }
            address
        }
        None => free_address(taken, choice).unwrap_or_else(|| {
            let detail = "failed to allocate a serviceIP: range is full";
            errors.push(FieldError::invalid("spec.clusterIPs", json!([]), detail));
            String::new()
        }),
    };
    spec["clusterIP"] = address.as_str().into();
    spec["clusterIPs"] = json!([address]);
    errors
}

fn free_address(taken: &Taken, choice: Choice<'_>) -> Option<String> {
    let Choice::Free(random) = choice else { return Some(NETWORK.to_string()) };
    let hosts = HOSTS.map(|host| Ipv4Addr::new(10, 0, 0, host).to_string());
    let free: Vec<String> = hosts.filter(|address| !taken.addresses.contains(address)).collect();
    pick(&free, random).cloned()
}

fn free_port(taken: &Taken, own: &BTreeSet<i64>, choice: Choice<'_>) -> Option<i64> {
    let Choice::Free(random) = choice else { return Some(own.last().unwrap_or(&DUMMY_PORT) + 1) };
    let free: Vec<i64> = NODE_PORTS.filter(|port| !taken.ports.contains(port) && !own.contains(port)).collect();
    pick(&free, random).copied()
}

fn set_node_ports(service: &mut Value, taken: &mut Taken, choice: Choice<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = &mut service["spec"];
    let wants = match spec["type"].as_str() {
        Some("NodePort") => true,
        Some("LoadBalancer") => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    };
    let external = matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    let mut own = BTreeSet::new();
    for (place, port) in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
        let said = port["nodePort"].as_i64().unwrap_or(0);
        let field = format!("spec.ports[{place}].nodePort");
        if said != 0 && !external {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(field, detail));
        } else if said != 0 && matches!(choice, Choice::Dummy) {
            // Nobody asks for it in a dry run, so nobody says that it cannot be had.
            own.insert(said);
        } else if said != 0 && !NODE_PORTS.contains(&said) {
            let detail = format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                NODE_PORTS.start(),
                NODE_PORTS.end()
            );
            errors.push(FieldError::invalid(field, said, detail));
        } else if said != 0 && taken.ports.contains(&said) {
            errors.push(FieldError::invalid(field, said, "provided port is already allocated"));
        } else if said != 0 {
            own.insert(said);
        } else if wants && let Some(number) = free_port(taken, &own, choice) {
            port["nodePort"] = number.into();
            own.insert(number);
        }
    }
    taken.ports.extend(own);
    errors
}

fn pick<'a, T>(all: &'a [T], random: &Random) -> Option<&'a T> {
    let place = random.below(u64::try_from(all.len()).ok()?.max(1));
    all.get(usize::try_from(place).ok()?)
}
