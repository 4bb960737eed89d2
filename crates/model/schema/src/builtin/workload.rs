//! What makes pods: deployments, sets, jobs.

pub(super) mod cron;
pub(super) mod job;

use concert_api::{Fault, FieldError, FieldErrors};
use serde_json::{Value, json};

use super::judge::{Judge, is_empty, selects, text, within};
use super::pod::{check_template, labels};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const MISMATCH: &str = "`selector` does not match template `labels`";

/// The selector and the template of what keeps pods running.
fn check_running(object: &Value, kind: &str, judge: &mut Judge) {
    let spec = &object["spec"];
    if spec["selector"].is_object() {
        judge.selector(&spec["selector"], "spec.selector");
        if is_empty(&spec["selector"]) {
            judge.invalid("spec.selector", spec["selector"].clone(), format!("empty selector is invalid for {kind}"));
        }
    } else {
        judge.required("spec.selector", "");
    }
    // No selector selects nothing, an empty one all.
    if !spec["selector"].is_object() || !selects(&spec["selector"], &labels(&spec["template"])) {
        judge.invalid("spec.template.metadata.labels", labels(&spec["template"]), MISMATCH);
    }
    check_template(&spec["template"], "spec.template", judge);
    check_always(&spec["template"], judge);
    if !spec["template"]["spec"]["activeDeadlineSeconds"].is_null() {
        let owner = if kind == "statefulset" { "StatefulSet" } else { "ReplicaSet" };
        let detail = format!("activeDeadlineSeconds in {owner} is not Supported");
        judge.forbidden("spec.template.spec.activeDeadlineSeconds", detail);
    }
}

fn check_always(template: &Value, judge: &mut Judge) {
    let policy = text(&template["spec"]["restartPolicy"]);
    if policy != "Always" {
        judge.not_supported(policy, &["Always"], "spec.template.spec.restartPolicy");
    }
}

pub(super) fn check_deployment(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    judge.not_negative(spec, &["replicas"], "spec");
    check_running(object, "deployment", &mut judge);
    check_strategy(&spec["strategy"], &mut judge);
    judge.not_negative(spec, &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"], "spec");
    let (deadline, ready) = (spec["progressDeadlineSeconds"].as_i64(), spec["minReadySeconds"].as_i64().unwrap_or(0));
    if let Some(deadline) = deadline.filter(|deadline| *deadline <= ready) {
        judge.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
    }
    fixed_selector(object, old, &mut judge);
    judge.errors
}

fn check_strategy(strategy: &Value, judge: &mut Judge) {
    let rolls = strategy["rollingUpdate"].is_object();
    match text(&strategy["type"]) {
        "Recreate" if rolls => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            judge.forbidden("spec.strategy.rollingUpdate", detail);
        }
        "Recreate" => {}
        "RollingUpdate" => check_pace(&strategy["rollingUpdate"], judge),
        other => judge.not_supported(other, &["Recreate", "RollingUpdate"], "spec.strategy.type"),
    }
}

/// How many pods of a deployment may lack, and how many may be too many, while it rolls: not none of both.
fn check_pace(update: &Value, judge: &mut Judge) {
    const FIELD: &str = "spec.strategy.rollingUpdate";
    let (fewer, more) = (&update["maxUnavailable"], &update["maxSurge"]);
    judge.share(fewer, &format!("{FIELD}.maxUnavailable"));
    judge.share(more, &format!("{FIELD}.maxSurge"));
    let count = |share: &Value| match share {
        Value::String(text) => text.strip_suffix('%').unwrap_or(text).parse::<i64>().unwrap_or(0).max(0),
        other => other.as_i64().unwrap_or(0),
    };
    if count(fewer) == 0 && count(more) == 0 {
        judge.invalid(format!("{FIELD}.maxUnavailable"), fewer.clone(), "may not be 0 when `maxSurge` is 0");
    }
    if percent(fewer).is_some_and(|percent| percent > 100) {
        judge.invalid(format!("{FIELD}.maxUnavailable"), fewer.clone(), "must not be greater than 100%");
    }
}

fn fixed_selector(object: &Value, old: Option<&Value>, judge: &mut Judge) {
    if let Some(old) = old {
        judge.fixed(&object["spec"]["selector"], &old["spec"]["selector"], "spec.selector");
    }
}

pub(super) fn check_replica_set(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    judge.not_negative(&object["spec"], &["replicas", "minReadySeconds"], "spec");
    check_running(object, "deployment", &mut judge);
    fixed_selector(object, old, &mut judge);
    judge.errors
}

pub(super) fn check_replication_controller(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    let selector = json!({"matchLabels": spec["selector"]});
    if is_empty(&selector) {
        judge.required("spec.selector", "");
    }
    if spec["template"].is_object() {
        check_controlled(&spec["template"], &selector, &mut judge);
    } else {
        judge.required("spec.template", "");
    }
    // Numbers are looked at by rules of their own, which come last.
    judge.not_negative(spec, &["replicas", "minReadySeconds"], "spec");
    judge.errors
}

fn check_controlled(template: &Value, selector: &Value, judge: &mut Judge) {
    if !is_empty(selector) && !selects(selector, &labels(template)) {
        judge.invalid("spec.template.metadata.labels", labels(template), MISMATCH);
    }
    check_template(template, "spec.template", judge);
    check_always(template, judge);
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let detail = "activeDeadlineSeconds in ReplicationController is not Supported";
        judge.forbidden("spec.template.spec.activeDeadlineSeconds", detail);
    }
}

pub(super) fn check_pod_template(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    check_template(&object["template"], "template", &mut judge);
    judge.errors
}

pub(super) fn prepare_stateful_set(object: &mut Value, _old: Option<&Value>) {
    // Claims made from templates begin as claims do.
    let claims = object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten().filter(|claim| claim.is_object()) {
        claim["apiVersion"] = "v1".into();
        claim["kind"] = "PersistentVolumeClaim".into();
        claim["status"] = json!({"phase": "Pending"});
    }
}

/// The set as its pods will be: claims that are made for them are volumes, and some names are given to them.
fn with_claims(object: &Value) -> Value {
    let mut object = object.clone();
    let claims = object["spec"]["volumeClaimTemplates"].as_array().cloned().unwrap_or_default();
    let Some(spec) = within(&mut object, &["spec", "template", "spec"]) else { return object };
    spec.remove("subdomain");
    spec.remove("hostname");
    if claims.is_empty() {
        return object;
    }
    let name = |claim: &Value| claim["metadata"]["name"].clone();
    let made =
        claims.iter().map(|claim| json!({"name": name(claim), "persistentVolumeClaim": {"claimName": name(claim)}}));
    let said = spec.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    let others = said.into_iter().filter(|volume| !claims.iter().any(|claim| name(claim) == volume["name"]));
    let volumes: Vec<Value> = made.chain(others).collect();
    spec.insert("volumes".to_owned(), volumes.into());
    object
}

pub(super) fn check_stateful_set(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    let policy = text(&spec["podManagementPolicy"]);
    if !matches!(policy, "OrderedReady" | "Parallel") {
        judge.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'");
    }
    judge.not_negative(spec, &["replicas", "minReadySeconds"], "spec");
    check_running(&with_claims(object), "statefulset", &mut judge);
    if let Some(old) = old {
        for field in ["selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
            judge.fixed(&spec[field], &old["spec"][field], &format!("spec.{field}"));
        }
    }
    judge.errors
}

/// The generation of the template is counted in an annotation, as it once was in the spec.
/// An annotation counts the templates, from the beginning.
pub(super) fn read_daemon_set(object: &mut Value) {
    if let Some(annotations) = within(object, &["metadata", "annotations"]) {
        annotations.entry(TEMPLATE_GENERATION).or_insert_with(|| "0".into());
    }
}

pub(super) fn prepare_daemon_set(object: &mut Value, old: Option<&Value>) {
    let before =
        old.and_then(|old| text(&old["metadata"]["annotations"][TEMPLATE_GENERATION]).parse().ok()).unwrap_or(0);
    let changed = old.is_none_or(|old| object["spec"]["template"] != old["spec"]["template"]);
    if let Some(annotations) = within(object, &["metadata", "annotations"]) {
        let generation = (before + i64::from(changed)).to_string();
        annotations.insert(TEMPLATE_GENERATION.to_owned(), generation.into());
    }
}

pub(super) fn check_daemon_set(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    fixed_selector(object, old, &mut judge);
    // That there is none is said by the template that it does not select.
    if spec["selector"].is_object() {
        judge.selector(&spec["selector"], "spec.selector");
    }
    if !spec["selector"].is_object() || !selects(&spec["selector"], &labels(&spec["template"])) {
        judge.invalid("spec.template.metadata.labels", labels(&spec["template"]), MISMATCH);
    }
    if spec["selector"].is_object() && is_empty(&spec["selector"]) {
        judge.invalid("spec.selector", spec["selector"].clone(), "empty selector is invalid for daemonset");
    }
    check_template(&spec["template"], "spec.template", &mut judge);
    check_always(&spec["template"], &mut judge);
    if !spec["template"]["spec"]["activeDeadlineSeconds"].is_null() {
        let detail = "activeDeadlineSeconds in DaemonSet is not Supported";
        judge.forbidden("spec.template.spec.activeDeadlineSeconds", detail);
    }
    judge.not_negative(spec, &["minReadySeconds"], "spec");
    check_rolling(&spec["updateStrategy"], &mut judge);
    judge.not_negative(spec, &["revisionHistoryLimit"], "spec");
    judge.errors
}

/// How the pods of a daemon set are renewed: by taking some away, or by adding some, and not by both.
fn check_rolling(strategy: &Value, judge: &mut Judge) {
    const FIELD: &str = "spec.updateStrategy.rollingUpdate";
    match text(&strategy["type"]) {
        "OnDelete" => return,
        "RollingUpdate" => {}
        other => {
            let allowed = vec!["RollingUpdate".to_owned(), "OnDelete".to_owned()];
            let shown = format!(r#"{{"Type":{other:?},"RollingUpdate":null}}"#);
            let fault = Fault::NotSupportedShown(shown, allowed);
            return judge.errors.push(FieldError::new("spec.updateStrategy", fault, ""));
        }
    }
    let parts =
        ["maxUnavailable", "maxSurge"].map(|name| (format!("{FIELD}.{name}"), &strategy["rollingUpdate"][name]));
    for (field, part) in &parts {
        judge.share(part, field);
    }
    for (field, part) in &parts {
        if percent(part).is_some_and(|percent| percent > 100) {
            judge.invalid(field, (*part).clone(), "must not be greater than 100%");
        }
    }
    let some = |part: &Value| part.as_i64().or_else(|| percent(part)).unwrap_or(0) != 0;
    let [(taken, fewer), (added, more)] = parts;
    match (some(fewer), some(more)) {
        (true, true) => judge.invalid(added, more.clone(), "may not be set when maxUnavailable is non-zero"),
        (false, false) => judge.required(taken, "cannot be 0 when maxSurge is 0"),
        (true, false) | (false, true) => {}
    }
}

/// The number of a text like `50%`.
fn percent(value: &Value) -> Option<i64> {
    value.as_str()?.strip_suffix('%')?.parse().ok()
}

pub(super) fn check_disruption_budget(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let shown = format!(
            r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
            spec["minAvailable"], spec["selector"], spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        judge.errors.push(FieldError::new("spec", Fault::InvalidShown(Some(shown)), detail));
    }
    for name in ["minAvailable", "maxUnavailable"] {
        let (share, field) = (&spec[name], format!("spec.{name}"));
        judge.share(share, &field);
        if percent(share).is_some_and(|percent| percent > 100) {
            judge.invalid(field, share.clone(), "must not be greater than 100%");
        }
    }
    judge.selector(&spec["selector"], "spec.selector");
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    judge.choice(&spec["unhealthyPodEvictionPolicy"], &policies, "spec.unhealthyPodEvictionPolicy");
    judge.errors
}
