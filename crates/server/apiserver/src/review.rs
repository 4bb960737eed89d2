//! Kinds that are questions: who am I, may I, may they, whose token is this, give me a token. They are answered when
//! they are created, and not kept.

mod token;

use concert_api::{FieldError, FieldErrors, Gvk, Status};
use serde_json::{Map, Value, json};

use crate::Server;
use crate::access::{Action, Authorization, BadToken, Named, On, Rule, Verdict};
use crate::auth::{User, service_account};
use crate::body::Media;
use crate::books;
use crate::incoming::{self, Incoming};
use crate::target::{Query, Target};
use crate::write::Written;

const EXACTLY_ONE: &str = "exactly one of nonResourceAttributes or resourceAttributes must be specified";

impl Server {
    /// Answers a question.
    pub(crate) fn review(&self, target: &Target, query: &Query, media: Media, body: &[u8]) -> Result<Written, Status> {
        let Incoming { mut value, warnings, .. } = incoming::read(target, media, body, query.field_validation)?;
        let managed = books::created(target, query, &mut value, self.now());
        let told = |object: Value| Written { code: 201, object: object.to_string().into(), warnings: warnings.clone() };
        let unbooked = |metadata: &Value, spec: Option<&Value>, status| told(answered(target, metadata, spec, status));
        let written = |metadata: &Value, spec: Option<&Value>, status| {
            let mut object = answered(target, metadata, spec, status);
            managed.write_to(&mut object);
            told(object)
        };
        let own = query.caller.as_deref().cloned().unwrap_or_else(User::administrator);
        let spec = &value["spec"];
        let answer = match target.resource.kind.as_str() {
            "SelfSubjectReview" => {
                let metadata = json!({"creationTimestamp": self.now()});
                return Ok(unbooked(&metadata, None, json!({"userInfo": described(&own)})));
            }
            "SelfSubjectAccessReview" => {
                check(target, &value, checked_spec(spec))?;
                self.verdict(&own, spec)
            }
            "SubjectAccessReview" | "LocalSubjectAccessReview" => {
                check(target, &value, checked_subject(target, spec))?;
                self.verdict(&subject(spec), spec)
            }
            "SelfSubjectRulesReview" => {
                let namespace = spec["namespace"].as_str().unwrap_or_default();
                if namespace.is_empty() {
                    return Err(Status::bad_request("no namespace on request"));
                }
                return Ok(unbooked(&json!({}), Some(&json!({})), self.rules(&own, namespace)));
            }
            "TokenReview" => return Ok(written(&value["metadata"], Some(spec), self.token_review(spec)?)),
            other => return Err(Status::internal(format!("{other} is not answered"))),
        };
        let metadata = match &target.namespace {
            Some(namespace) => json!({"namespace": namespace}),
            None => json!({}),
        };
        Ok(written(&metadata, Some(spec), answer))
    }

    /// Whether the user may do what the spec describes.
    fn verdict(&self, user: &User, spec: &Value) -> Value {
        let (allowed, reason) = match self.decide(user, &action(spec)) {
            Verdict::Allowed(why) => (true, why),
            Verdict::NoOpinion(why) => (false, why),
        };
        let mut status = json!({"allowed": allowed});
        if !reason.is_empty() {
            status["reason"] = reason.into();
        }
        status
    }

    fn rules(&self, user: &User, namespace: &str) -> Value {
        let (rules, missing) = match self.access().mode() {
            Authorization::AlwaysAllow => (Rule::everything(), Vec::new()),
            Authorization::Rbac => self.policy().rules_for(user, namespace),
        };
        let (urls, resources): (Vec<&Rule>, Vec<&Rule>) = rules.iter().partition(|rule| !rule.urls.is_empty());
        let resources: Vec<Value> = resources
            .into_iter()
            .map(|rule| {
                let mut shown = json!({"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources});
                if !rule.names.is_empty() {
                    shown["resourceNames"] = rule.names.clone().into();
                }
                shown
            })
            .collect();
        let urls: Vec<Value> =
            urls.into_iter().map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.urls})).collect();
        let mut status =
            json!({"resourceRules": resources, "nonResourceRules": urls, "incomplete": !missing.is_empty()});
        if !missing.is_empty() {
            status["evaluationError"] = missing.join(", ").into();
        }
        status
    }

    fn token_review(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let audiences = texts(&spec["audiences"]);
        Ok(match self.user_of(token, &audiences) {
            Ok((user, audiences)) => {
                json!({"authenticated": true, "user": described(&user), "audiences": audiences})
            }
            Err(BadToken::Unknown) => json!({"user": {}, "error": "invalid bearer token"}),
            Err(BadToken::Audience(found)) => {
                let asked = if audiences.is_empty() { vec![service_account::ISSUER.to_owned()] } else { audiences };
                let error = format!(
                    "[invalid bearer token, token audiences {} is invalid for the target audiences {}]",
                    crate::access::quoted(&found),
                    crate::access::quoted(&asked)
                );
                json!({"user": {}, "error": error})
            }
        })
    }
}

/// A question with its answer.
fn answered(target: &Target, metadata: &Value, spec: Option<&Value>, status: Value) -> Value {
    let gvk = &target.version().gvk;
    let mut object = json!({"kind": gvk.kind, "apiVersion": gvk.api_version(), "metadata": metadata});
    if let Some(spec) = spec {
        object["spec"] = if spec.is_null() { json!({}) } else { spec.clone() };
    }
    object["status"] = status;
    object
}

/// Refuses a question that makes no sense. The real server does not say of which kind it is.
fn check(target: &Target, value: &Value, mut errors: FieldErrors) -> Result<(), Status> {
    let own = target.namespace.as_deref().unwrap_or_default();
    let said = value["metadata"].as_object().into_iter().flatten();
    let said: Map<String, Value> = said
        .filter(|(key, value)| !(value.is_null() || *key == "namespace" && *value == own))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !said.is_empty() {
        let detail = if own.is_empty() { "must be empty" } else { "must be empty except for namespace" };
        errors.push(FieldError::invalid("metadata", said, detail));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&Gvk::new(target.version().gvk.group.as_str(), "", ""), "", &errors))
}

fn checked_spec(spec: &Value) -> FieldErrors {
    let has = |field: &str| spec[field].is_object();
    match (has("resourceAttributes"), has("nonResourceAttributes")) {
        (true, true) => [FieldError::invalid("spec", shown_path(spec), EXACTLY_ONE)].into(),
        (false, false) => [FieldError::invalid("spec", Value::Null, EXACTLY_ONE)].into(),
        _ => FieldErrors::new(),
    }
}

fn checked_subject(target: &Target, spec: &Value) -> FieldErrors {
    let mut errors = checked_spec(spec);
    if spec["user"].as_str().is_none_or(str::is_empty) && texts(&spec["groups"]).is_empty() {
        errors.push(FieldError::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    let Some(namespace) = &target.namespace else { return errors };
    if spec["resourceAttributes"].is_object() {
        let asked = spec["resourceAttributes"]["namespace"].as_str().unwrap_or_default();
        if asked != namespace {
            let field = "spec.resourceAttributes.namespace";
            errors.push(FieldError::invalid(field, asked, "must match metadata.namespace"));
        }
    }
    if spec["nonResourceAttributes"].is_object() {
        let detail = "disallowed on this kind of request";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", shown_path(spec), detail));
    }
    errors
}

/// As Go shows its own struct.
fn shown_path(spec: &Value) -> Value {
    let part = |name: &str| spec["nonResourceAttributes"][name].as_str().unwrap_or_default();
    json!({"Path": part("path"), "Verb": part("verb")})
}

fn action(spec: &Value) -> Action {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = &spec["resourceAttributes"];
    if !resource.is_object() {
        let path = &spec["nonResourceAttributes"];
        return Action { verb: text(&path["verb"]), on: On::Path(text(&path["path"])) };
    }
    let named = Named {
        group: text(&resource["group"]),
        resource: text(&resource["resource"]),
        subresource: text(&resource["subresource"]),
        namespace: text(&resource["namespace"]),
        name: text(&resource["name"]),
    };
    Action::on(text(&resource["verb"]), named)
}

fn subject(spec: &Value) -> User {
    let text = |name: &str| spec[name].as_str().unwrap_or_default().to_owned();
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text("user"),
        uid: text("uid"),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A user as answers show it.
pub(crate) fn described(user: &User) -> Value {
    let mut shown = json!({"username": user.name});
    if !user.uid.is_empty() {
        shown["uid"] = user.uid.clone().into();
    }
    if !user.groups.is_empty() {
        shown["groups"] = user.groups.clone().into();
    }
    if !user.extra.is_empty() {
        shown["extra"] = json!(user.extra);
    }
    shown
}
