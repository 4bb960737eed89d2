//! Services and what leads to them.

use concert_api::Time;
use serde_json::Value;

use super::{
    NONE, SHOWN, age, labels, length, list, name, name_of_class, number, shown_selector, some_of, text, text_or, texts,
};

pub(in crate::builtin) fn service(object: &Value, now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    let ports: Vec<String> = list(&spec["ports"])
        .map(|port| {
            let (number_of, protocol) = (number(&port["port"]), text(&port["protocol"]));
            match number(&port["nodePort"]) {
                node @ 1.. => format!("{number_of}:{node}/{protocol}"),
                _ => format!("{number_of}/{protocol}"),
            }
        })
        .collect();
    let ports = if ports.is_empty() { NONE.to_owned() } else { ports.join(",") };
    vec![
        name(object),
        spec["type"].clone(),
        text_or(&spec["clusterIPs"][0], NONE).into(),
        outside(object).into(),
        ports.into(),
        age(object, now),
        labels(&spec["selector"]).into(),
    ]
}

fn outside(service: &Value) -> String {
    let spec = &service["spec"];
    let own = texts(&spec["externalIPs"]).join(",");
    match text(&spec["type"]) {
        "ClusterIP" | "NodePort" if own.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => own,
        "LoadBalancer" => {
            let given = balanced(service);
            let all: Vec<String> = [given, own].into_iter().filter(|one| !one.is_empty()).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Where a load balancer is.
fn balanced(object: &Value) -> String {
    let each = list(&object["status"]["loadBalancer"]["ingress"]);
    let mut places: Vec<&str> =
        each.map(|one| text_or(&one["ip"], text(&one["hostname"]))).filter(|one| !one.is_empty()).collect();
    places.sort_unstable();
    places.dedup();
    places.join(",")
}

pub(in crate::builtin) fn ingress(object: &Value, now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    let class = spec["ingressClassName"].as_str().unwrap_or(NONE);
    let ports = if length(&spec["tls"]) > 0 { "80, 443" } else { "80" };
    vec![
        name(object),
        class.into(),
        hosts(&spec["rules"]).into(),
        balanced(object).into(),
        ports.into(),
        age(object, now),
    ]
}

fn hosts(rules: &Value) -> String {
    let mut shown: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in list(rules) {
        more = more || shown.len() == SHOWN;
        if !more && !text(&rule["host"]).is_empty() {
            shown.push(text(&rule["host"]));
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", shown.join(","), length(rules) - 3),
        (false, false) => shown.join(","),
    }
}

pub(in crate::builtin) fn ingress_class(object: &Value, now: Time) -> Vec<Value> {
    let parameters = &object["spec"]["parameters"];
    let shown = if parameters.is_object() {
        let group = parameters["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", text(&parameters["kind"]), text(&parameters["name"]))
    } else {
        NONE.to_owned()
    };
    let name = name_of_class(object, &["ingressclass.kubernetes.io/is-default-class"]);
    vec![name, object["spec"]["controller"].clone(), shown.into(), age(object, now)]
}

pub(in crate::builtin) fn network_policy(object: &Value, now: Time) -> Vec<Value> {
    vec![name(object), shown_selector(&object["spec"]["podSelector"]).into(), age(object, now)]
}

pub(in crate::builtin) fn endpoints(object: &Value, now: Time) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in list(&object["subsets"]) {
        let addresses: Vec<&str> = list(&subset["addresses"]).map(|address| text(&address["ip"])).collect();
        if length(&subset["ports"]) == 0 {
            all.extend(addresses.iter().map(ToString::to_string));
        }
        for port in list(&subset["ports"]) {
            let port = number(&port["port"]);
            all.extend(addresses.iter().map(|address| match address.contains(':') {
                true => format!("[{address}]:{port}"),
                false => format!("{address}:{port}"),
            }));
        }
    }
    let nothing = if length(&object["subsets"]) == 0 { NONE } else { "" };
    vec![name(object), some_of(&all, nothing).into(), age(object, now)]
}

pub(in crate::builtin) fn endpoint_slice(object: &Value, now: Time) -> Vec<Value> {
    let port = |port: &Value| match (port["port"].as_i64(), port["name"].as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports: Vec<String> = list(&object["ports"]).map(port).collect();
    let addresses: Vec<String> =
        list(&object["endpoints"]).flat_map(|one| list(&one["addresses"])).map(|one| text(one).to_owned()).collect();
    vec![
        name(object),
        object["addressType"].clone(),
        some_of(&ports, "<unset>").into(),
        some_of(&addresses, "<unset>").into(),
        age(object, now),
    ]
}

pub(in crate::builtin) fn address(object: &Value, now: Time) -> Vec<Value> {
    let parent = &object["spec"]["parentRef"];
    let shown = if parent.is_object() {
        let group = text(&parent["group"]);
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let place = text(&parent["namespace"]);
        let place = if place.is_empty() { String::new() } else { format!("/{place}") };
        format!("{}{group}", text(&parent["resource"])).to_lowercase() + &format!("{place}/{}", text(&parent["name"]))
    } else {
        NONE.to_owned()
    };
    vec![name(object), shown.into(), age(object, now)]
}

pub(in crate::builtin) fn service_range(object: &Value, now: Time) -> Vec<Value> {
    vec![name(object), texts(&object["spec"]["cidrs"]).join(",").into(), age(object, now)]
}
