//! Pods: what their state comes to.

use concert_api::Time;
use serde_json::Value;

use super::{NONE, age, condition, length, list, name, number, text, text_or};
use crate::column::age_of;

pub(in crate::builtin) fn cells(pod: &Value, now: Time) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let summary = Summary::of(pod);
    let restarts = match (summary.restarts, summary.last_restart) {
        (count @ 1.., Some(last)) => format!("{count} ({} ago)", text(&age_of(last, now))),
        (count, _) => count.to_string(),
    };
    vec![
        name(pod),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age(pod, now),
        text_or(&status["podIPs"][0]["ip"], NONE).into(),
        text_or(&spec["nodeName"], NONE).into(),
        text_or(&status["nominatedNodeName"], NONE).into(),
        gates(pod).into(),
    ]
}

fn gates(pod: &Value) -> String {
    let gates = &pod["spec"]["readinessGates"];
    if length(gates) == 0 {
        return NONE.to_owned();
    }
    let open = |gate: &&Value| condition(pod, text(&gate["conditionType"])).is_some_and(|one| one["status"] == "True");
    format!("{}/{}", list(gates).filter(open).count(), length(gates))
}

/// What the containers of a pod come to.
struct Summary<'a> {
    ready: i64,
    total: i64,
    reason: String,
    restarts: i64,
    last_restart: Option<&'a Value>,
}

impl<'a> Summary<'a> {
    fn of(pod: &'a Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let stays = list(&spec["initContainers"]).filter(|one| one["restartPolicy"] == "Always").count();
        let total = length(&spec["containers"]) + i64::try_from(stays).unwrap_or(0);
        let gated = condition(pod, "PodScheduled").is_some_and(|one| one["reason"] == "SchedulingGated");
        let reason = if gated { "SchedulingGated" } else { text_or(&status["reason"], text(&status["phase"])) };
        let mut summary = Self { ready: 0, total, reason: reason.to_owned(), restarts: 0, last_restart: None };
        let initializing = summary.look_at_first(pod);
        if !initializing || condition(pod, "Initialized").is_some_and(|one| one["status"] == "True") {
            summary.look_at_rest(pod);
        }
        if pod["metadata"]["deletionTimestamp"].is_string() {
            let over = matches!(text(&status["phase"]), "Succeeded" | "Failed");
            if status["reason"] == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !over {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    fn count(&mut self, container: &'a Value) {
        self.restarts += number(&container["restartCount"]);
        let ended = &container["lastState"]["terminated"]["finishedAt"];
        if self.last_restart.is_none_or(|last| text(last) < text(ended)) && ended.is_string() {
            self.last_restart = Some(ended);
        }
    }

    /// The containers that come first; whether the pod is still busy with them.
    fn look_at_first(&mut self, pod: &'a Value) -> bool {
        let all = length(&pod["spec"]["initContainers"]);
        for (place, container) in list(&pod["status"]["initContainerStatuses"]).enumerate() {
            self.count(container);
            let own = list(&pod["spec"]["initContainers"]).find(|one| one["name"] == container["name"]);
            let stays = own.is_some_and(|one| one["restartPolicy"] == "Always");
            let (ended, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            if ended.is_object() && number(&ended["exitCode"]) == 0 {
                continue;
            }
            if stays && container["started"] == true {
                self.ready += i64::from(container["ready"] == true);
                continue;
            }
            self.reason = if ended.is_object() {
                format!("Init:{}", why_ended(ended))
            } else if !matches!(text(&waiting["reason"]), "" | "PodInitializing") {
                format!("Init:{}", text(&waiting["reason"]))
            } else {
                format!("Init:{place}/{all}")
            };
            return true;
        }
        false
    }

    fn look_at_rest(&mut self, pod: &'a Value) {
        self.restarts = 0;
        self.last_restart = None;
        let (mut running, mut failed) = (false, None);
        for container in list(&pod["status"]["containerStatuses"]).rev() {
            self.count(container);
            let (ended, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            if !text(&waiting["reason"]).is_empty() {
                text(&waiting["reason"]).clone_into(&mut self.reason);
            } else if ended.is_object() {
                self.reason = why_ended(ended);
                if number(&ended["exitCode"]) != 0 {
                    failed = Some(self.reason.clone());
                }
            } else if container["ready"] == true && container["state"]["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            let ready = condition(pod, "Ready").is_some_and(|one| one["status"] == "True");
            match failed {
                _ if running && ready => "Running".clone_into(&mut self.reason),
                Some(failed) => self.reason = failed,
                None if running => "NotReady".clone_into(&mut self.reason),
                None => {}
            }
        }
    }
}

fn why_ended(ended: &Value) -> String {
    match (text(&ended["reason"]), number(&ended["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(&ended["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
