//! Requests for certificates: who asked, who may approve or sign, and what that changes.

use concert_api::{FieldError, FieldErrors, Status, Time, meta};
use serde_json::Value;

use crate::Server;
use crate::access::{Action, Named};
use crate::auth::User;
use crate::review;
use crate::target::{Part, Query, Target};

const GROUP: &str = "certificates.k8s.io";
const KIND: &str = "CertificateSigningRequest";
/// The conditions that only an approval sets.
const VERDICTS: [&str; 2] = ["Approved", "Denied"];

/// Whether it is about requests for certificates.
pub(crate) fn is_request(target: &Target) -> bool {
    target.resource.kind == KIND && *target.resource.id.group == *GROUP && !target.resource.is_custom()
}

/// A request for a certificate says who asked.
pub(crate) fn sign(request: &mut Value, caller: Option<&User>) {
    let user = caller.cloned().unwrap_or_else(User::administrator);
    let Some(spec) = request["spec"].as_object_mut() else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    for (name, value) in review::described(&user).as_object().cloned().unwrap_or_default() {
        spec.insert(name, value);
    }
}

/// A request as an update leaves it: what was asked for stays, and only the status has a certificate.
pub(crate) fn keep(part: Part, request: &mut Value, old: &Value, now: Time) {
    if !request.is_object() {
        return;
    }
    if let Some(spec) = old.get("spec") {
        request["spec"] = spec.clone();
    }
    if part != Part::Status {
        return;
    }
    keep_verdicts(request, old);
    if request["status"]["conditions"].is_array() {
        date_conditions(&mut request["status"]["conditions"], &old["status"]["conditions"], now);
    }
}

/// Whoever signs cannot change what was said of the approval; what they add or remove is refused later.
fn keep_verdicts(request: &mut Value, old: &Value) {
    for kind in VERDICTS {
        let before: Vec<&Value> = of_kind(old, kind).collect();
        if before.len() != of_kind(request, kind).count() {
            continue;
        }
        let conditions = request["status"].get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten();
        for (condition, before) in conditions.filter(|one| one["type"] == kind).zip(before) {
            *condition = before.clone();
        }
    }
}

fn of_kind<'a>(request: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let conditions = request["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter(move |one| one["type"] == kind)
}

/// A condition says when it was written, and since when it holds.
pub(crate) fn date_conditions(conditions: &mut Value, old: &Value, now: Time) {
    let before: Vec<Value> = old.as_array().cloned().unwrap_or_default();
    for condition in conditions.as_array_mut().into_iter().flatten().filter(|one| one.is_object()) {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.to_string().into();
        }
        if condition["lastTransitionTime"].is_null() {
            let same = |one: &&Value| one["type"] == condition["type"] && one["status"] == condition["status"];
            let since = before.iter().find(same).map(|one| one["lastTransitionTime"].clone());
            let since = since.filter(|time| !time.is_null());
            condition["lastTransitionTime"] = since.unwrap_or_else(|| now.to_string().into());
        }
    }
}

/// What is wrong with a changed request beyond the request itself: only an approval approves.
pub(crate) fn check(part: Part, request: &Value, old: &Value) -> FieldErrors {
    let added = |kind: &&&str| of_kind(request, kind).count() > of_kind(old, kind).count();
    let told = |kind: &&str| {
        FieldError::forbidden("status.conditions", format!("updates may not add a condition of type {kind:?}"))
    };
    if part == Part::Status { VERDICTS.iter().filter(added).map(told).collect() } else { FieldErrors::new() }
}

impl Server {
    /// Refuses who may change such requests, but not approve or sign for that signer.
    pub(crate) fn check_signer(
        &self,
        target: &Target,
        query: &Query,
        request: &Value,
        old: &Value,
    ) -> Result<(), Status> {
        let Some(user) = query.caller.as_deref().filter(|_| is_request(target)) else { return Ok(()) };
        let changed = |field: &str| request["status"].get(field) != old["status"].get(field);
        let verb = match target.part {
            Part::Approval => "approve",
            Part::Status if changed("certificate") || changed("conditions") => "sign",
            _ => return Ok(()),
        };
        let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
        let domain = signer.split('/').next().unwrap_or_default();
        let may = |name: String| {
            let (group, resource) = (GROUP.to_owned(), "signers".to_owned());
            self.decide(user, &Action::on(verb, Named { group, resource, name, ..Named::default() })).is_allowed()
        };
        if may(signer.to_owned()) || may(format!("{domain}/*")) {
            return Ok(());
        }
        let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
        Err(Status::forbidden(&target.resource.id, meta::text(old, "name"), &why))
    }
}
