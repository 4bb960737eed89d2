//! What services get from the server: addresses and ports of nodes. Nothing listens there.

mod addresses;
mod ports;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::LazyLock;

use concert_api::{FieldErrors, GroupResource, Status, meta};
use concert_world::Random;
use serde_json::{Value, json};

use crate::Server;

use ports::Ports;

/// The resource of services.
pub(crate) static SERVICES: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new("", "services"));
/// Where clients inside of a cluster find the server.
pub(crate) const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// How what nobody asked for is chosen.
#[derive(Clone, Copy)]
enum Choice<'a> {
    /// Any that is free.
    Free(&'a Random),
    /// One that cannot be had.
    Dummy,
}

/// What a service has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    address: String,
    ports: Vec<i64>,
}

impl Claims {
    /// What the spec of a service says.
    pub(crate) fn read(spec: &Value) -> Self {
        let ports = spec["ports"].as_array().into_iter().flatten().filter_map(|port| port["nodePort"].as_i64());
        Self {
            address: spec["clusterIP"].as_str().unwrap_or_default().to_owned(),
            ports: ports.chain(spec["healthCheckNodePort"].as_i64()).filter(|port| *port != 0).collect(),
        }
    }
}

/// What other services have.
#[derive(Default)]
struct Taken {
    addresses: HashSet<String>,
    ports: HashSet<i64>,
}

/// Why a service does not get what it asks for.
pub(crate) enum Unable {
    /// It cannot be had.
    Invalid(FieldErrors),
    /// There is nothing left.
    Failed(Status),
}

impl Server {
    /// Gives a service what it asks for, and what every service has. Whoever writes services holds the lock of those.
    /// In a dry run nobody looks for what is free: it is shown what nobody can have. Ports that others have are refused
    /// there, too.
    pub(crate) fn allocate(&self, service: &mut Value, old: Option<&Value>, is_dry: bool) -> Result<(), Unable> {
        match old {
            Some(old) => keep(service, old),
            None => addresses::agree(&mut service["spec"], None),
        }
        let taken = self.taken(meta::text(service, "uid"));
        let choice = if is_dry { Choice::Dummy } else { Choice::Free(&self.world().random) };
        addresses::set_families(service).map_err(Unable::Invalid)?;
        if old.is_none_or(is_name) && !is_name(service) {
            addresses::set(service, &taken, choice)?;
        }
        let mut ports = Ports::new(taken.ports, choice);
        if is_external(service) {
            match old {
                Some(old) => ports.update(service, old)?,
                None => ports.create(service)?,
            }
        }
        if is_checked(service) && !old.is_some_and(is_checked) {
            ports.set_health_check(service)?;
        }
        if let Some(old) = old {
            drop_unused(service, old);
        }
        Ok(())
    }

    /// Whether no other service has what this one was given.
    pub(crate) fn are_free(&self, service: &Value) -> bool {
        let taken = self.taken(meta::text(service, "uid"));
        let Claims { address, ports } = Claims::read(&service["spec"]);
        let is_free = matches!(address.as_str(), "" | "None") || !taken.addresses.contains(&address);
        is_free && !ports.iter().any(|port| taken.ports.contains(port))
    }

    fn taken(&self, own: &str) -> Taken {
        let mut taken = Taken::default();
        let snapshot = self.store().snapshot();
        for (_, entry) in snapshot.range(&SERVICES, None, None).filter(|(_, entry)| entry.beside.uid() != own) {
            let claims = entry.beside.claims();
            taken.addresses.insert(claims.address.clone());
            taken.ports.extend(&claims.ports);
        }
        taken
    }
}

/// Whether a service is only another name.
fn is_name(service: &Value) -> bool {
    service["spec"]["type"] == "ExternalName"
}

/// Whether nodes have ports for it.
fn is_external(service: &Value) -> bool {
    matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer"))
}

/// Whether a load balancer asks the nodes which of them has something of it.
fn is_checked(service: &Value) -> bool {
    service["spec"]["type"] == "LoadBalancer" && service["spec"]["externalTrafficPolicy"] == "Local"
}

/// Whether it is reached from outside.
fn is_reached(service: &Value) -> bool {
    let own = service["spec"]["externalIPs"].as_array().is_some_and(|list| !list.is_empty());
    is_external(service) || (service["spec"]["type"] == "ClusterIP" && own)
}

/// What an update does not say stays.
fn keep(service: &mut Value, old: &Value) {
    if !is_name(service) && !is_name(old) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            let unsaid = match &service["spec"][field] {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            if unsaid && let Some(value) = old["spec"].get(field) {
                service["spec"][field] = value.clone();
            }
        }
    }
    addresses::agree(&mut service["spec"], Some(&old["spec"]));
    if has_node_ports(service) && has_node_ports(old) {
        keep_node_ports(service, old);
    }
    let number = old["spec"]["healthCheckNodePort"].as_i64().unwrap_or(0);
    if is_checked(service) && is_checked(old) && service["spec"]["healthCheckNodePort"].as_i64().unwrap_or(0) == 0 {
        service["spec"]["healthCheckNodePort"] = number.into();
    }
}

/// A port that has the same name keeps its number, unless another one has it now.
fn keep_node_ports(service: &mut Value, old: &Value) {
    let used: BTreeSet<i64> = node_ports(old).intersection(&node_ports(service)).copied().collect();
    let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    let before = old["spec"]["ports"].as_array().into_iter().flatten();
    let before: HashMap<String, i64> =
        before.map(|port| (name(port), port["nodePort"].as_i64().unwrap_or(0))).collect();
    for port in service["spec"].get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = before.get(&name(port)).copied().unwrap_or(0);
        if number != 0 && port["nodePort"].as_i64().unwrap_or(0) == 0 && !used.contains(&number) {
            port["nodePort"] = number.into();
        }
    }
}

/// Takes away what a service of another type has no use for, unless somebody changed it.
fn drop_unused(service: &mut Value, old: &Value) {
    let is_same = |service: &Value, field: &str| service["spec"].get(field) == old["spec"].get(field);
    let mut unused = Vec::new();
    if is_name(service) && !is_name(old) {
        unused.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]);
    }
    if is_checked(old) && !is_checked(service) {
        unused.push("healthCheckNodePort");
    }
    let is_balanced = |service: &Value| service["spec"]["type"] == "LoadBalancer";
    if is_balanced(old) && !is_balanced(service) {
        unused.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if is_reached(old) && !is_reached(service) {
        unused.push("externalTrafficPolicy");
    }
    for field in unused.into_iter().filter(|field| is_same(service, field)).collect::<Vec<_>>() {
        service["spec"].as_object_mut().map(|spec| spec.remove(field));
    }
    if has_node_ports(old) && !has_node_ports(service) && node_ports(service) == node_ports(old) {
        for port in service["spec"].get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().map(|port| port.remove("nodePort"));
        }
    }
    if !is_balanced(service) && service["status"]["loadBalancer"].as_object().is_some_and(|it| !it.is_empty()) {
        service["status"]["loadBalancer"] = json!({});
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

fn pick<T>(all: &mut Vec<T>, random: &Random) -> Option<T> {
    let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
    Some(all.swap_remove(usize::try_from(random.below(count)).ok()?))
}
