//! What makes pods.

use concert_api::Time;
use serde_json::Value;

use super::{NONE, age, condition, labels, length, list, name, number, selector, shown_selector, text, text_or};
use crate::column::age_of;
use crate::human_duration;

/// Names and images of containers.
fn containers(template: &Value) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let all: Vec<&str> = list(&template["spec"]["containers"]).map(|container| text(&container[field])).collect();
        all.join(",").into()
    })
}

pub(in crate::builtin) fn deployment(object: &Value, now: Time) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
    let [names, images] = containers(&spec["template"]);
    vec![
        name(object),
        ready.into(),
        number(&status["updatedReplicas"]).into(),
        number(&status["availableReplicas"]).into(),
        age(object, now),
        names,
        images,
        selector(&spec["selector"]).into(),
    ]
}

pub(in crate::builtin) fn replica_set(object: &Value, now: Time) -> Vec<Value> {
    replicas(object, now, shown_selector(&object["spec"]["selector"]))
}

pub(in crate::builtin) fn replication_controller(object: &Value, now: Time) -> Vec<Value> {
    replicas(object, now, labels(&object["spec"]["selector"]))
}

fn replicas(object: &Value, now: Time, selector: String) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(object),
        number(&spec["replicas"]).into(),
        number(&status["replicas"]).into(),
        number(&status["readyReplicas"]).into(),
        age(object, now),
        names,
        images,
        selector.into(),
    ]
}

pub(in crate::builtin) fn stateful_set(object: &Value, now: Time) -> Vec<Value> {
    let ready = format!("{}/{}", number(&object["status"]["readyReplicas"]), number(&object["spec"]["replicas"]));
    let [names, images] = containers(&object["spec"]["template"]);
    vec![name(object), ready.into(), age(object, now), names, images]
}

pub(in crate::builtin) fn daemon_set(object: &Value, now: Time) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]);
    vec![
        name(object),
        number(&status["desiredNumberScheduled"]).into(),
        number(&status["currentNumberScheduled"]).into(),
        number(&status["numberReady"]).into(),
        number(&status["updatedNumberScheduled"]).into(),
        number(&status["numberAvailable"]).into(),
        labels(&spec["template"]["spec"]["nodeSelector"]).into(),
        age(object, now),
        names,
        images,
        shown_selector(&spec["selector"]).into(),
    ]
}

pub(in crate::builtin) fn job(object: &Value, now: Time) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let done = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), number(&spec["parallelism"])) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, many @ 2..) => format!("{done}/1 of {many}"),
        (None, _) => format!("{done}/1"),
    };
    let time = |field: &str| text(&status[field]).parse::<Time>().ok();
    let duration = match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(now).unix_seconds() - start.unix_seconds()),
    };
    let [names, images] = containers(&spec["template"]);
    let selector = shown_selector(&spec["selector"]);
    let row = [name(object), state(object).into(), completions.into(), duration.into(), age(object, now)];
    row.into_iter().chain([names, images, selector.into()]).collect()
}

fn state(job: &Value) -> &'static str {
    let holds = |kind: &str| condition(job, kind).is_some_and(|one| one["status"] == "True");
    if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if job["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else {
        let rest = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        rest.into_iter().find(|kind| holds(kind)).unwrap_or("Running")
    }
}

pub(in crate::builtin) fn cron_job(object: &Value, now: Time) -> Vec<Value> {
    let (spec, last) = (&object["spec"], &object["status"]["lastScheduleTime"]);
    let suspended = if spec["suspend"] == true { "True" } else { "False" };
    let job = &spec["jobTemplate"]["spec"];
    let [names, images] = containers(&job["template"]);
    vec![
        name(object),
        spec["schedule"].clone(),
        text_or(&spec["timeZone"], NONE).into(),
        suspended.into(),
        length(&object["status"]["active"]).into(),
        if last.is_null() { NONE.into() } else { age_of(last, now) },
        age(object, now),
        names,
        images,
        shown_selector(&job["selector"]).into(),
    ]
}

pub(in crate::builtin) fn pod_template(object: &Value, _now: Time) -> Vec<Value> {
    let [names, images] = containers(&object["template"]);
    vec![name(object), names, images, labels(&object["template"]["metadata"]["labels"]).into()]
}

pub(in crate::builtin) fn controller_revision(object: &Value, now: Time) -> Vec<Value> {
    let owner = list(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true);
    let controller = owner.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let group =
                text(&owner["apiVersion"]).split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
            format!("{}{group}/{}", text(&owner["kind"]), text(&owner["name"])).to_lowercase()
        },
    );
    vec![name(object), controller.into(), number(&object["revision"]).into(), age(object, now)]
}

pub(in crate::builtin) fn disruption_budget(object: &Value, now: Time) -> Vec<Value> {
    let part = |field: &str| match &object["spec"][field] {
        Value::Null => "N/A".into(),
        Value::Number(number) => number.to_string().into(),
        other => other.clone(),
    };
    let allowed = number(&object["status"]["disruptionsAllowed"]);
    vec![name(object), part("minAvailable"), part("maxUnavailable"), allowed.into(), age(object, now)]
}

/// An autoscaler of the newer version; the older one is turned into it.
pub(in crate::builtin) fn autoscaler(object: &Value, now: Time) -> Vec<Value> {
    let mut newer = object.clone();
    let two = concert_api::Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler");
    crate::builtin::autoscaler::convert(&mut newer, &two);
    let (spec, status) = (&newer["spec"], &newer["status"]);
    let target = &spec["scaleTargetRef"];
    let reference = format!("{}/{}", text(&target["kind"]), text(&target["name"]));
    let least = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |number| number.to_string());
    vec![
        name(object),
        reference.into(),
        metrics(spec, status).into(),
        least.into(),
        number(&spec["maxReplicas"]).into(),
        number(&status["currentReplicas"]).into(),
        age(object, now),
    ]
}

/// The first two metrics: what is, and what should be.
fn metrics(spec: &Value, status: &Value) -> String {
    let shown: Vec<String> = list(&spec["metrics"])
        .enumerate()
        .map(|(place, metric)| metric_cell(metric, &status["currentMetrics"][place]))
        .collect();
    match shown.len() {
        0 => NONE.to_owned(),
        more @ 3.. => format!("{} + {} more...", shown[..2].join(", "), more - 2),
        _ => shown.join(", "),
    }
}

fn metric_cell(metric: &Value, status: &Value) -> String {
    let (field, named) = match text(&metric["type"]) {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let (target, current) = (&metric[field]["target"], &status[field]["current"]);
    let percent = |value: &Value, otherwise: &str| {
        value.as_i64().map_or_else(|| otherwise.to_owned(), |number| format!("{number}%"))
    };
    let amount = |value: &Value| text_or(value, "<unknown>").to_owned();
    let average = !target["averageValue"].is_null();
    let (is, should, suffix) = match (named, average) {
        (true, false) => {
            (percent(&current["averageUtilization"], "<unknown>"), percent(&target["averageUtilization"], "<auto>"), "")
        }
        (true, true) => (amount(&current["averageValue"]), amount(&target["averageValue"]), ""),
        (false, true) if field == "pods" => (amount(&current["averageValue"]), amount(&target["averageValue"]), ""),
        (false, true) => (amount(&current["averageValue"]), amount(&target["averageValue"]), " (avg)"),
        (false, false) => (amount(&current["value"]), amount(&target["value"]), ""),
    };
    let prefix = if named { format!("{}: ", text(&metric[field]["name"])) } else { String::new() };
    format!("{prefix}{is}/{should}{suffix}")
}
