//! How a container is asked how it is, what is done when it begins and ends, and when it is started again.

use serde_json::Value;

use crate::builtin::judge::{Judge, count, items, text};

const ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const ONLY_SIDECARS: &str = "may not be set for init containers without restartPolicy=Always";

/// Lifecycle and probes, in the order in which they are looked at.
pub(super) fn check_handlers(container: &Value, grace: &Value, path: &str, judge: &mut Judge) {
    for name in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][name];
        if handler.is_object() {
            let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
            check_handler(handler, &kinds, grace, &format!("{path}.lifecycle.{name}"), judge);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[name].is_object() {
            check_probe(&container[name], name == "readinessProbe", &format!("{path}.{name}"), judge);
        }
    }
}

/// What runs to its end is not asked how it is.
pub(super) fn refuse_handlers(container: &Value, path: &str, judge: &mut Judge) {
    for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if container[name].is_object() {
            judge.forbidden(format!("{path}.{name}"), ONLY_SIDECARS);
        }
    }
}

fn check_probe(probe: &Value, is_readiness: bool, path: &str, judge: &mut Judge) {
    check_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], &Value::Null, path, judge);
    let numbers = ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    judge.not_negative(probe, &numbers, path);
    let grace = &probe["terminationGracePeriodSeconds"];
    let field = format!("{path}.terminationGracePeriodSeconds");
    if let Some(seconds) = grace.as_i64().filter(|seconds| *seconds <= 0) {
        judge.invalid(&field, seconds, "must be greater than 0");
    }
    if is_readiness {
        if !grace.is_null() {
            judge.invalid(field, grace.clone(), "must not be set for readinessProbes");
        }
    } else if probe["successThreshold"].as_i64().unwrap_or(1) != 1 {
        judge.invalid(format!("{path}.successThreshold"), probe["successThreshold"].clone(), "must be 1");
    }
}

/// One act of some kinds.
fn check_handler(handler: &Value, kinds: &[&str], grace: &Value, path: &str, judge: &mut Judge) {
    let mut given = kinds.iter().copied().filter(|kind| handler[*kind].is_object());
    match given.next() {
        None => judge.required(path, "must specify a handler type"),
        Some(kind) => check_act(&handler[kind], kind, grace, &format!("{path}.{kind}"), judge),
    }
    for kind in given {
        judge.forbidden(format!("{path}.{kind}"), "may not specify more than 1 handler type");
    }
}

fn check_act(act: &Value, kind: &str, grace: &Value, path: &str, judge: &mut Judge) {
    match kind {
        "exec" if count(&act["command"]) == 0 => judge.required(format!("{path}.command"), ""),
        "httpGet" => check_get(act, path, judge),
        "tcpSocket" => judge.port_or_name(&act["port"], &format!("{path}.port")),
        "grpc" => {
            judge.port(act["port"].as_i64().unwrap_or(0), &format!("{path}.port"));
            judge.choice(&act["mode"], &["Plaintext", "TLS"], &format!("{path}.mode"));
        }
        "sleep" => {
            let seconds = act["seconds"].as_i64().unwrap_or(0);
            if let Some(grace) = grace.as_i64().filter(|grace| seconds < 0 || seconds > *grace) {
                let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                judge.invalid(path, seconds, detail);
            }
        }
        _ => {}
    }
}

fn check_get(get: &Value, path: &str, judge: &mut Judge) {
    judge.text(&get["path"], &format!("{path}.path"));
    judge.port_or_name(&get["port"], &format!("{path}.port"));
    let scheme = text(&get["scheme"]);
    if !matches!(scheme, "HTTP" | "HTTPS") {
        judge.not_supported(scheme, &["HTTP", "HTTPS"], &format!("{path}.scheme"));
    }
    for (_, header) in items(&get["httpHeaders"], path) {
        let name = text(&header["name"]);
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            judge.invalid(format!("{path}.httpHeaders"), name, detail);
        }
    }
}

/// When a container is started again.
pub(super) fn check_restarts(container: &Value, path: &str, judge: &mut Judge) {
    let (policy, rules) = (&container["restartPolicy"], &container["restartPolicyRules"]);
    let field = format!("{path}.restartPolicy");
    if policy.is_null() && count(rules) > 0 {
        judge.required(&field, "must specify restartPolicy when restart rules are used");
    }
    judge.choice(policy, &POLICIES, &field);
    judge.at_most(count(rules), 20, &format!("{path}.restartPolicyRules"));
    for (place, rule) in items(rules, &format!("{path}.restartPolicyRules")) {
        let (action, codes) = (text(&rule["action"]), &rule["exitCodes"]);
        if !ACTIONS.contains(&action) {
            judge.not_supported(action, &ACTIONS, &format!("{place}.action"));
        }
        if !codes.is_object() {
            judge.required(format!("{place}.exitCodes"), "must be specified");
            continue;
        }
        let operator = text(&codes["operator"]);
        if !matches!(operator, "In" | "NotIn") {
            judge.not_supported(operator, &["In", "NotIn"], &format!("{place}.exitCodes.operator"));
        }
        judge.at_most(count(&codes["values"]), 255, &format!("{place}.exitCodes.values"));
    }
}

/// What becomes of a container when what it may use is changed.
pub(super) fn check_resizes(policies: &Value, restarts: &str, path: &str, judge: &mut Judge) {
    let mut known = std::collections::BTreeSet::new();
    for (place, policy) in items(policies, path) {
        let (name, restart) = (text(&policy["resourceName"]), text(&policy["restartPolicy"]));
        if !known.insert(name) {
            judge.duplicate(place, name);
        }
        judge.one_of(&policy["resourceName"], &["cpu", "memory"], path);
        judge.one_of(&policy["restartPolicy"], &["NotRequired", "RestartContainer"], path);
        if restarts == "Never" && restart != "NotRequired" {
            judge.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}
