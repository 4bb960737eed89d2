//! Jobs: what they may be, and what of them may change.

use concert_api::{Fault, FieldError, FieldErrors, names};
use serde_json::{Value, json};

use crate::builtin::judge::{Judge, selects, text, within};
use crate::builtin::pod::{check_template, labels};

use super::MISMATCH;

const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";
const OLD_UID: &str = "controller-uid";
const OLD_NAME: &str = "job-name";

/// How many pods of an indexed job run at once, and how many may fail.
const INDEXED_MAX: i64 = 100_000;
/// The same of jobs with more than [`INDEXED_MAX`] indexes that are tried again one by one.
const HIGH_MAX: i64 = 10_000;

/// A job selects its pods by its own uid, unless it is told how.
pub(in crate::builtin) fn prepare(object: &mut Value, old: Option<&Value>) {
    if old.is_some() || object["spec"]["manualSelector"] == true {
        return;
    }
    let (name, uid) = (object["metadata"]["name"].clone(), object["metadata"]["uid"].clone());
    let own = &object["metadata"]["labels"];
    // Labels that were taken from the template are the same map in Go, and stay so.
    let shared = own.is_object() && *own == object["spec"]["template"]["metadata"]["labels"];
    let Some(labels) = within(object, &["spec", "template", "metadata", "labels"]) else { return };
    for (label, value) in [(OLD_NAME, &name), (NAME, &name), (OLD_UID, &uid), (UID, &uid)] {
        labels.entry(label).or_insert_with(|| value.clone());
    }
    let labels = labels.clone();
    if let Some(selected) = within(object, &["spec", "selector", "matchLabels"]) {
        selected.entry(UID).or_insert(uid);
    }
    if let Some(metadata) = within(object, &["metadata"]).filter(|_| shared) {
        metadata.insert("labels".to_owned(), labels.into());
    }
}

pub(in crate::builtin) fn check(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    if old.is_none() && spec["manualSelector"] != true {
        check_generated(object, &mut judge);
    }
    check_spec(spec, "spec", &mut judge);
    if spec["selector"].is_object() {
        judge.selector(&spec["selector"], "spec.selector");
    } else {
        judge.required("spec.selector", "");
    }
    // No selector selects nothing.
    if !spec["selector"].is_object() || !selects(&spec["selector"], &labels(&spec["template"])) {
        judge.invalid("spec.template.metadata.labels", labels(&spec["template"]), MISMATCH);
    }
    check_host_names(object, &mut judge);
    if let Some(old) = old {
        check_change(spec, old, &mut judge);
    }
    judge.errors
}

/// A selector that was made here is of this job.
fn check_generated(object: &Value, judge: &mut Judge) {
    let (name, uid) = (&object["metadata"]["name"], &object["metadata"]["uid"]);
    let found = labels(&object["spec"]["template"]);
    for (label, expected) in [(OLD_UID, uid), (OLD_NAME, name), (UID, uid), (NAME, name)] {
        let (field, detail) =
            (format!("spec.template.metadata.labels[{label}]"), format!("must be '{}'", text(expected)));
        match found.get(label) {
            None => judge.required(field, &detail),
            Some(value) if value != expected => judge.invalid(field, found.clone(), detail),
            Some(_) => {}
        }
    }
    let expected = json!({OLD_UID: uid, OLD_NAME: name, UID: uid, NAME: name});
    let selector = &object["spec"]["selector"];
    if selector.is_object() && !selects(selector, &expected) {
        judge.invalid("spec.selector", selector.clone(), "`selector` not auto-generated");
    }
}

/// The pods of an indexed job are called by their index.
fn check_host_names(object: &Value, judge: &mut Judge) {
    let (name, spec) = (text(&object["metadata"]["name"]), &object["spec"]);
    let count = spec["completions"].as_i64().filter(|count| *count > 0 && spec["completionMode"] == "Indexed");
    let host = count.map(|count| format!("{name}-{}", count - 1));
    if let Some(host) = host.filter(|host| !names::label_faults(host).is_empty()) {
        let detail = format!("will not able to create pod with invalid DNS label: {host}");
        judge.invalid("metadata.name", name, detail);
    }
}

/// What a job is made from; the same in a cron job.
pub(in crate::builtin) fn check_spec(spec: &Value, path: &str, judge: &mut Judge) {
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    judge.not_negative(spec, &numbers, path);
    check_manager(spec, path, judge);
    check_mode(spec, path, judge);
    check_replacement(spec, path, judge);
    check_template(&spec["template"], &format!("{path}.template"), judge);
    let (policy, field) =
        (text(&spec["template"]["spec"]["restartPolicy"]), format!("{path}.template.spec.restartPolicy"));
    match policy {
        "Always" | "" => judge.required(field, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec["podFailurePolicy"].is_object() => {
            judge.invalid(field, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        other => judge.not_supported(other, &["OnFailure", "Never"], &field),
    }
}

/// Who sees to the job, if not the usual one.
fn check_manager(spec: &Value, path: &str, judge: &mut Judge) {
    const LENGTH_MAX: usize = 63;
    let Some(manager) = spec["managedBy"].as_str() else { return };
    let field = format!("{path}.managedBy");
    match manager.split_once('/') {
        _ if manager.is_empty() => judge.required(field, ""),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            for fault in names::subdomain_faults(host) {
                judge.invalid(&field, host, fault);
            }
            if manager.len() > LENGTH_MAX {
                let detail = format!("may not be more than {LENGTH_MAX} bytes");
                judge.errors.push(FieldError::new(field, Fault::TooLong, detail));
            }
        }
        _ => judge.invalid(field, manager, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

/// Whether pods are counted, or each has a number.
fn check_mode(spec: &Value, path: &str, judge: &mut Judge) {
    let number = |field: &str| spec[field].as_i64();
    let (failed, limit) = (number("maxFailedIndexes"), number("backoffLimitPerIndex"));
    if failed.is_some() && limit.is_none() {
        judge.required(format!("{path}.backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    match text(&spec["completionMode"]) {
        "Indexed" => check_indexed(spec, path, judge),
        "NonIndexed" | "" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = number(field) {
                    judge.invalid(format!("{path}.{field}"), number, "requires indexed completion mode");
                }
            }
        }
        mode => judge.not_supported(mode, &["NonIndexed", "Indexed"], &format!("{path}.completionMode")),
    }
    if spec["successPolicy"].is_object() && spec["completionMode"] != "Indexed" {
        let field = format!("{path}.successPolicy");
        judge.invalid(field, spec["successPolicy"].clone(), "requires indexed completion mode");
    }
}

fn check_indexed(spec: &Value, path: &str, judge: &mut Judge) {
    let number = |field: &str| spec[field].as_i64();
    let Some(count) = number("completions") else {
        return judge.required(format!("{path}.completions"), "when completion mode is Indexed");
    };
    let mut at_most = |field: &str, most: i64, detail: String| {
        if let Some(number) = number(field).filter(|number| *number > most) {
            judge.invalid(format!("{path}.{field}"), number, detail);
        }
    };
    let limit = |most: i64| format!("must be less than or equal to {most}");
    at_most("parallelism", INDEXED_MAX, format!("{} when completion mode is Indexed", limit(INDEXED_MAX)));
    at_most("maxFailedIndexes", count, "must be less than or equal to completions".to_owned());
    at_most("maxFailedIndexes", INDEXED_MAX, limit(INDEXED_MAX));
    if count > INDEXED_MAX && number("backoffLimitPerIndex").is_some() {
        let above = format!(
            "{} when completions are above {INDEXED_MAX} and used with backoff limit per index",
            limit(HIGH_MAX)
        );
        at_most("parallelism", HIGH_MAX, above.clone());
        at_most("maxFailedIndexes", HIGH_MAX, above);
        if number("maxFailedIndexes").is_none() {
            let detail = format!("must be specified when completions is above {INDEXED_MAX}");
            judge.required(format!("{path}.maxFailedIndexes"), &detail);
        }
    }
}

/// When a pod that goes is replaced.
fn check_replacement(spec: &Value, path: &str, judge: &mut Judge) {
    let Some(policy) = spec["podReplacementPolicy"].as_str() else { return };
    let allowed: &[&str] =
        if spec["podFailurePolicy"].is_object() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if !allowed.contains(&policy) {
        judge.not_supported(policy, allowed, &format!("{path}.podReplacementPolicy"));
    }
}

fn check_change(spec: &Value, old: &Value, judge: &mut Judge) {
    let before = &old["spec"];
    if spec["completionMode"] != "Indexed" {
        judge.fixed(&spec["completions"], &before["completions"], "spec.completions");
    } else if spec["completions"] != before["completions"] && !spec["completions"].is_null() {
        // The number of indexes is that of pods at once.
        if spec["completions"] != spec["parallelism"] {
            let detail = "can only be modified in tandem with spec.parallelism";
            judge.invalid("spec.completions", spec["completions"].clone(), detail);
        }
    }
    for field in
        ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        judge.fixed(&spec[field], &before[field], &format!("spec.{field}"));
    }
    if !is_open(old) {
        judge.fixed(&spec["template"], &before["template"], "spec.template");
    } else if !is_same_but_resources(&spec["template"]["spec"], &before["template"]["spec"]) {
        judge.fixed(&spec["template"]["spec"], &Value::Null, "spec.template.spec");
    }
}

/// Whether no pod has been made from the template that is there.
fn is_open(job: &Value) -> bool {
    let status = &job["status"];
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let is_held = conditions.any(|condition| condition["type"] == "Suspended" && condition["status"] == "True");
    let is_idle = status["active"].as_i64().unwrap_or(0) == 0;
    job["spec"]["suspend"] == true && (status["startTime"].is_null() || is_held) && is_idle
}

/// Whether only that differs which tells where pods run, and what their containers use.
fn is_same_but_resources(new: &Value, old: &Value) -> bool {
    let bare = |spec: &Value| {
        let mut spec = spec.clone();
        let Some(members) = spec.as_object_mut() else { return spec };
        for field in ["nodeSelector", "tolerations", "schedulingGates"] {
            members.remove(field);
        }
        if let Some(affinity) = members.get_mut("affinity").and_then(Value::as_object_mut) {
            affinity.remove("nodeAffinity");
            if affinity.is_empty() {
                members.remove("affinity");
            }
        }
        for list in ["containers", "initContainers"] {
            let containers = members.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
                container.remove("resources");
            }
        }
        spec
    };
    bare(new) == bare(old)
}
