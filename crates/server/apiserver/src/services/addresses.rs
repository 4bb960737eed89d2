//! Addresses inside of the cluster: which families a service is of, and which address it has. There is one range, of the
//! fourth version.

use std::net::{IpAddr, Ipv4Addr};

use concert_api::{Fault, FieldError, FieldErrors, Status};
use serde_json::{Value, json};

use super::{Choice, Taken, Unable, is_name, pick};

/// What stands for an address in a dry run.
const NETWORK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
/// The addresses of a /24 that are given to whoever asks for none: those before are for those who do, as long as others
/// are left. The last is for all.
const GIVEN: std::ops::RangeInclusive<u8> = 17..=254;
const ASKED_FOR: std::ops::RangeInclusive<u8> = 2..=16;

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Of an address and a list of those, the one that was not said, or not changed, follows the other.
pub(super) fn agree(spec: &mut Value, old: Option<&Value>) {
    let said = !text(&spec["clusterIP"]).is_empty();
    let follows = match old {
        None => list(spec, "clusterIPs").is_empty(),
        Some(old) => {
            text(&old["clusterIP"]) != text(&spec["clusterIP"]) && list(old, "clusterIPs") == list(spec, "clusterIPs")
        }
    };
    if said && follows {
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
}

/// Finds the families that a service is of.
pub(super) fn set_families(service: &mut Value) -> Result<(), FieldErrors> {
    if is_name(service) {
        return Ok(());
    }
    let spec = &mut service["spec"];
    let headless = spec["clusterIP"] == "None";
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    let is_free = headless && !selects;
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = if is_free { "RequireDualStack" } else { "SingleStack" }.into();
    }
    told(check(spec))?;
    let mut errors = FieldErrors::new();
    if spec["ipFamilyPolicy"] == "SingleStack" {
        check_single(spec, &mut errors);
    }
    infer(spec, &mut errors);
    told(errors)?;
    if is_free {
        let mut families = list(spec, "ipFamilies");
        if families.is_empty() {
            families.push("IPv4".to_owned());
        }
        if families.len() < 2 && spec["ipFamilyPolicy"] != "SingleStack" {
            families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.to_owned());
        }
        spec["ipFamilies"] = families.into();
        return Ok(());
    }
    told(check_configured(spec))?;
    if list(spec, "ipFamilies").is_empty() {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    Ok(())
}

fn told(errors: FieldErrors) -> Result<(), FieldErrors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// What is wrong with addresses, families and the policy in themselves.
fn check(spec: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (address, all) = (text(&spec["clusterIP"]), list(spec, "clusterIPs"));
    let mut wrong = |field: String, value: Value, detail: &str| errors.push(FieldError::invalid(field, value, detail));
    if !address.is_empty() && all.first().is_some_and(|first| first != address) {
        wrong("spec.clusterIPs".into(), json!(all), "first value must match `clusterIP`");
    }
    if address.is_empty() && !all.is_empty() {
        wrong("spec.clusterIPs".into(), json!(all), "must be empty when `clusterIP` is not specified");
    }
    let mut is_readable = true;
    for (place, address) in all.iter().enumerate() {
        if place == 0 && address == "None" {
            if all.len() > 1 {
                is_readable = false;
                wrong("spec.clusterIPs".into(), json!(all), "'None' must be the first and only value");
            }
        } else if address.parse::<IpAddr>().is_err() {
            is_readable = false;
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            wrong(format!("spec.clusterIPs[{place}]"), address.as_str().into(), detail);
        }
    }
    if all.len() > 2 {
        wrong("spec.clusterIPs".into(), json!(all), "may only hold up to 2 values");
    }
    check_families(spec, &mut errors);
    if is_readable {
        check_matching(spec, &all, &mut errors);
    }
    errors
}

fn check_families(spec: &Value, errors: &mut FieldErrors) {
    let families = list(spec, "ipFamilies");
    for (place, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{place}]");
        if !FAMILIES.contains(&family.as_str()) {
            errors.push(FieldError::new(field.as_str(), not_supported(family, &FAMILIES), ""));
        }
        if families[..place].contains(family) {
            errors.push(FieldError::new(field, Fault::Duplicate(family.as_str().into()), ""));
        }
    }
    let policy = text(&spec["ipFamilyPolicy"]);
    if !POLICIES.contains(&policy) {
        errors.push(FieldError::new("spec.ipFamilyPolicy", not_supported(policy, &POLICIES), ""));
    }
}

fn not_supported(found: &str, allowed: &[&str]) -> Fault {
    Fault::NotSupported(found.into(), allowed.iter().map(ToString::to_string).collect())
}

/// One address of each family, in their order.
fn check_matching(spec: &Value, all: &[String], errors: &mut FieldErrors) {
    let sixes = all.iter().filter(|address| is_six(address)).count();
    if all.len() > 1 && (sixes == 0 || sixes == all.len()) {
        let detail = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid("spec.clusterIPs", json!(all), detail));
    }
    let addresses = all.iter().filter(|address| *address != "None").enumerate();
    for ((place, address), family) in addresses.zip(list(spec, "ipFamilies")) {
        let expected = if is_six(address) { "IPv6" } else { "IPv4" };
        if family != expected && FAMILIES.contains(&family.as_str()) {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{place}]`");
            errors.push(FieldError::invalid(format!("spec.clusterIPs[{place}]"), address.as_str(), detail));
        }
    }
}

fn check_single(spec: &Value, errors: &mut FieldErrors) {
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if list(spec, field).len() == 2 {
            let detail = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.push(FieldError::invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"].clone(), detail));
        }
    }
}

/// An address tells its family.
fn infer(spec: &mut Value, errors: &mut FieldErrors) {
    let (all, mut families) = (list(spec, "clusterIPs"), list(spec, "ipFamilies"));
    for (place, address) in all.iter().enumerate().take_while(|(_, address)| *address != "None") {
        if place < families.len() {
            continue;
        }
        if is_six(address) {
            let field = format!("spec.clusterIPs[{place}]");
            errors.push(FieldError::invalid(field, json!(all), "IPv6 is not configured on this cluster"));
        } else {
            families.push("IPv4".to_owned());
        }
    }
    if !families.is_empty() {
        spec["ipFamilies"] = families.into();
    }
}

/// What there is not here.
fn check_configured(spec: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if spec["ipFamilyPolicy"] == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", "RequireDualStack", detail));
    }
    for (place, family) in list(spec, "ipFamilies").iter().enumerate().filter(|(_, family)| *family != "IPv4") {
        let field = format!("spec.ipFamilies[{place}]");
        errors.push(FieldError::invalid(field, family.as_str(), "not configured on this cluster"));
    }
    errors
}

/// Gives a service the address that it asks for, or one that is free.
pub(super) fn set(service: &mut Value, taken: &Taken, choice: Choice<'_>) -> Result<(), Unable> {
    let spec = &mut service["spec"];
    let said = list(spec, "clusterIPs");
    let address = match said.first().map(String::as_str) {
        Some("None") => return Ok(()),
        Some(address) => {
            if let Some(why) = refused(address, taken, choice) {
                let detail = format!("failed to allocate IP {address}: {why}");
                let error = FieldError::invalid("spec.clusterIPs", json!(said), detail);
                return Err(Unable::Invalid([error].into_iter().collect()));
            }
            address.to_owned()
        }
        None => free(taken, choice).ok_or_else(|| {
            let name = service["metadata"]["name"].as_str().unwrap_or_default();
            let why = format!("failed to allocate a serviceIP for Service {name:?}: range is full");
            Unable::Failed(Status::internal(why))
        })?,
    };
    let spec = &mut service["spec"];
    spec["clusterIP"] = address.as_str().into();
    spec["clusterIPs"] = json!([address]);
    Ok(())
}

/// Why an address cannot be had. In a dry run nobody has any.
fn refused(address: &str, taken: &Taken, choice: Choice<'_>) -> Option<String> {
    let is_within = address.parse::<Ipv4Addr>().is_ok_and(|address| {
        let [a, b, c, host] = address.octets();
        [a, b, c] == NETWORK.octets()[..3] && (1..=254).contains(&host)
    });
    match choice {
        Choice::Dummy => (!is_within).then(|| {
            format!("the provided IP ({address}) is not in the valid range. The range of valid IPs is {NETWORK}/24")
        }),
        Choice::Free(_) if !is_within => Some("the provided network does not match the current range".to_owned()),
        Choice::Free(_) => taken.addresses.contains(address).then(|| "provided IP is already allocated".to_owned()),
    }
}

fn free(taken: &Taken, choice: Choice<'_>) -> Option<String> {
    let Choice::Free(random) = choice else { return Some(NETWORK.to_string()) };
    [GIVEN, ASKED_FOR].into_iter().find_map(|hosts| {
        let hosts = hosts.map(|host| Ipv4Addr::new(10, 0, 0, host).to_string());
        pick(&mut hosts.filter(|address| !taken.addresses.contains(address)).collect(), random)
    })
}

fn is_six(address: &str) -> bool {
    matches!(address.parse(), Ok(IpAddr::V6(_)))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(spec: &Value, field: &str) -> Vec<String> {
    spec[field].as_array().into_iter().flatten().map(|item| text(item).to_owned()).collect()
}
