//! What makes pods: deployments, sets, jobs.

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
        "Recreate" | "RollingUpdate" => {}
        other => judge.not_supported(other, &["Recreate", "RollingUpdate"], "spec.strategy.type"),
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
    judge.not_negative(spec, &["minReadySeconds", "replicas"], "spec");
    let selector = json!({"matchLabels": spec["selector"]});
    if is_empty(&selector) {
        judge.required("spec.selector", "");
    }
    if !spec["template"].is_object() {
        judge.required("spec.template", "");
        return judge.errors;
    }
    if !is_empty(&selector) && !selects(&selector, &labels(&spec["template"])) {
        judge.invalid("spec.template.metadata.labels", labels(&spec["template"]), MISMATCH);
    }
    check_template(&spec["template"], "spec.template", &mut judge);
    check_always(&spec["template"], &mut judge);
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

/// A job selects its pods by its own uid, unless it is told how.
pub(super) fn prepare_job(object: &mut Value, old: Option<&Value>) {
    const UID: &str = "batch.kubernetes.io/controller-uid";
    if old.is_some() || object["spec"]["manualSelector"] == true {
        return;
    }
    let (name, uid) = (object["metadata"]["name"].clone(), object["metadata"]["uid"].clone());
    let own = &object["metadata"]["labels"];
    // Labels that were taken from the template are the same map in Go, and stay so.
    let shared = own.is_object() && *own == object["spec"]["template"]["metadata"]["labels"];
    let Some(labels) = within(object, &["spec", "template", "metadata", "labels"]) else { return };
    for (label, value) in
        [("job-name", &name), ("batch.kubernetes.io/job-name", &name), ("controller-uid", &uid), (UID, &uid)]
    {
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

pub(super) fn check_job(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    check_job_spec(spec, "spec", &mut judge);
    if old.is_none() && spec["selector"].is_object() && !selects(&spec["selector"], &labels(&spec["template"])) {
        judge.invalid("spec.template.metadata.labels", labels(&spec["template"]), MISMATCH);
    }
    if let Some(old) = old {
        for field in ["completions", "selector"] {
            judge.fixed(&spec[field], &old["spec"][field], &format!("spec.{field}"));
        }
        let suspended = old["spec"]["suspend"] == true;
        if !suspended {
            judge.fixed(&spec["template"], &old["spec"]["template"], "spec.template");
        }
        judge.fixed(&spec["completionMode"], &old["spec"]["completionMode"], "spec.completionMode");
    }
    judge.errors
}

fn check_job_spec(spec: &Value, path: &str, judge: &mut Judge) {
    let numbers = ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"];
    judge.not_negative(spec, &numbers, path);
    let mode = text(&spec["completionMode"]);
    if !matches!(mode, "NonIndexed" | "Indexed" | "") {
        judge.not_supported(mode, &["NonIndexed", "Indexed"], &format!("{path}.completionMode"));
    }
    if mode == "Indexed" && spec["completions"].is_null() {
        judge.required(format!("{path}.completions"), "when completion mode is Indexed");
    }
    check_template(&spec["template"], &format!("{path}.template"), judge);
    let policy = text(&spec["template"]["spec"]["restartPolicy"]);
    if !matches!(policy, "OnFailure" | "Never") {
        let field = format!("{path}.template.spec.restartPolicy");
        if policy == "Always" {
            judge.required(field, "valid values: \"OnFailure\", \"Never\"");
        } else {
            judge.not_supported(policy, &["OnFailure", "Never"], &field);
        }
    }
}

pub(super) fn check_cron_job(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    if judge.text(&spec["schedule"], "spec.schedule") {
        let schedule = text(&spec["schedule"]);
        let fields = schedule.split_whitespace().count();
        if fields != 5 && !schedule.starts_with('@') {
            let shown: Vec<&str> = schedule.split_whitespace().collect();
            let detail = format!("expected exactly 5 fields, found {fields}: [{}]", shown.join(" "));
            judge.invalid("spec.schedule", schedule, detail);
        }
    }
    judge.not_negative(spec, &["startingDeadlineSeconds"], "spec");
    judge.one_of(&spec["concurrencyPolicy"], &["Allow", "Forbid", "Replace"], "spec.concurrencyPolicy");
    check_job_spec(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", &mut judge);
    judge.not_negative(spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], "spec");
    judge.errors
}

pub(super) fn check_disruption_budget(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        judge.invalid("spec", spec.clone(), detail);
    }
    judge.not_negative(spec, &["minAvailable", "maxUnavailable"], "spec");
    judge.selector(&spec["selector"], "spec.selector");
    judge.errors
}

pub(super) fn check_autoscaler(object: &Value, _old: Option<&Value>) -> FieldErrors {
    let mut judge = Judge::default();
    let spec = &object["spec"];
    let (least, most) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 1) {
        judge.invalid("spec.minReplicas", least, "must be greater than or equal to 1");
    }
    match most {
        0 => judge.required("spec.maxReplicas", ""),
        ..0 => judge.invalid("spec.maxReplicas", most, "must be greater than or equal to 1"),
        1.. => {}
    }
    if least.is_some_and(|least| most < least) {
        judge.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`");
    }
    let target = &spec["scaleTargetRef"];
    for field in ["kind", "name"] {
        judge.text(&target[field], &format!("spec.scaleTargetRef.{field}"));
    }
    let version = text(&target["apiVersion"]);
    if !version.contains('/') {
        judge.invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group");
    }
    judge.errors
}
