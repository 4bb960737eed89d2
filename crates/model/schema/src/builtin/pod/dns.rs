//! How a pod asks for the addresses of names.

use serde_json::Value;

use crate::builtin::judge::{Judge, count, items, text, texts};

const SERVERS: usize = 3;
const SEARCHES: usize = 32;
/// All of what is searched together, with spaces between.
const LETTERS: usize = 2048;
const RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

pub(super) fn check_dns(spec: &Value, path: &str, judge: &mut Judge) {
    let config = &spec["dnsConfig"];
    let servers = format!("{path}.nameservers");
    if text(&spec["dnsPolicy"]) == "None" {
        if !config.is_object() {
            return judge.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if count(&config["nameservers"]) == 0 {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return judge.required(servers, detail);
        }
    }
    if count(&config["nameservers"]) > SERVERS {
        let detail = format!("must not have more than {SERVERS} nameservers");
        judge.invalid(&servers, config["nameservers"].clone(), detail);
    }
    for (place, server) in items(&config["nameservers"], &servers) {
        judge.address(text(server), &place);
    }
    check_searches(&config["searches"], &format!("{path}.searches"), judge);
    for (place, option) in items(&config["options"], &format!("{path}.options")) {
        if text(&option["name"]).is_empty() {
            judge.required(place, "must not be empty");
        }
    }
}

fn check_searches(searches: &Value, path: &str, judge: &mut Judge) {
    if count(searches) > SEARCHES {
        judge.invalid(path, searches.clone(), format!("must not have more than {SEARCHES} search paths"));
    }
    if texts(searches).join(" ").len() > LETTERS {
        let detail = format!("must not have more than {LETTERS} characters (including spaces) in the search list");
        judge.invalid(path, searches.clone(), detail);
    }
    for (place, search) in items(searches, path) {
        let name = text(search);
        if name != "." {
            check_search(name.strip_suffix('.').unwrap_or(name), &place, judge);
        }
    }
}

fn check_search(name: &str, path: &str, judge: &mut Judge) {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        let edges = [part.bytes().next(), part.bytes().last()];
        edges.into_iter().all(|edge| edge.is_some_and(is_plain))
            && part.bytes().all(|byte| is_plain(byte) || matches!(byte, b'-' | b'_'))
    };
    if name.len() > 253 {
        judge.invalid(path, name, "must be no more than 253 characters");
    }
    if !name.split('.').all(is_part) {
        judge.invalid(path, name, RULE);
    }
}
