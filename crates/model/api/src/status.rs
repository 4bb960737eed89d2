//! API errors, in the words of the real API server.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{FieldError, GroupResource, Gvk, quoted};

/// One cause of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// A word for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// In words.
    pub message: String,
    /// The field at fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// What a request is answered with when it fails (and when a delete succeeds): `kind: Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// A word for programs, as `NotFound`; empty where the real server gives none.
    pub reason: &'static str,
    /// In words.
    pub message: String,
    /// What it is about.
    pub details: Option<Box<Details>>,
    /// A token with which a list can go on all the same; empty if there is none.
    pub continue_token: String,
    /// What the client should know all the same: sent as headers.
    pub warnings: Vec<String>,
}

/// What a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its plural resource for storage errors, its kind for validation errors.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Single causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Status {
    /// A failure with a code, a reason and a message.
    #[must_use]
    pub fn failure(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: String::new(),
            warnings: Vec::new(),
        }
    }

    /// 404: no such object.
    #[must_use]
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::failure(404, "NotFound", format!("{resource} {} not found", quoted(name))).about(resource, name)
    }

    /// 409: an object of that name exists.
    #[must_use]
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::failure(409, "AlreadyExists", format!("{resource} {} already exists", quoted(name))).about(resource, name)
    }

    /// 409: the object has changed since it was read.
    #[must_use]
    pub fn conflict(resource: &GroupResource, name: &str) -> Self {
        let text = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict_because(resource, name, text)
    }

    /// 409, with a reason of its own.
    #[must_use]
    pub fn conflict_because(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quoted(name));
        Self::failure(409, "Conflict", message).about(resource, name)
    }

    /// 403.
    #[must_use]
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("{resource} {} is forbidden: {why}", quoted(name));
        Self::failure(403, "Forbidden", message).about(resource, name)
    }

    /// 422: the object breaks rules.
    #[must_use]
    pub fn invalid(gvk: &Gvk, name: &str, errors: &[FieldError]) -> Self {
        let kind = if gvk.group.is_empty() { gvk.kind.clone() } else { format!("{}.{}", gvk.kind, gvk.group) };
        // What two rules say is a cause twice, and said once.
        let mut said = BTreeSet::new();
        let texts = errors.iter().map(ToString::to_string).filter(|text| said.insert(text.clone()));
        let texts: Vec<String> = texts.collect();
        let texts = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
        let details = Details {
            name: name.to_owned(),
            group: gvk.group.clone(),
            kind: gvk.kind.clone(),
            causes: errors.iter().map(FieldError::cause).collect(),
            ..Details::default()
        };
        Self::failure(422, "Invalid", format!("{kind} {} is invalid: {texts}", quoted(name))).with(details)
    }

    /// 400.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    /// 405.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(405, "MethodNotAllowed", message).with(Details::default())
    }

    /// 404: nothing is served there.
    #[must_use]
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::failure(404, "NotFound", message).with(Details::default())
    }

    /// 401.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    /// 413.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::failure(413, "RequestEntityTooLarge", message)
    }

    /// 410: the history before this revision is gone.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// 500.
    #[must_use]
    pub fn internal(why: impl fmt::Display) -> Self {
        let cause = Cause { reason: String::new(), message: why.to_string(), field: String::new() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Self::failure(500, "InternalError", format!("Internal error occurred: {why}")).with(details)
    }

    /// 504: the revision asked for lies in the future.
    #[must_use]
    pub fn too_large_revision(asked: u64, current: u64) -> Self {
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self::failure(504, "Timeout", message).with(details)
    }

    /// Says which object it is about.
    #[must_use]
    pub fn about(self, resource: &GroupResource, name: &str) -> Self {
        self.with(Details {
            name: name.to_owned(),
            group: resource.group.to_string(),
            kind: resource.resource.to_string(),
            ..Details::default()
        })
    }

    /// With these details.
    #[must_use]
    pub fn with(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// With warnings beside it.
    #[must_use]
    pub fn warning(mut self, warnings: &[String]) -> Self {
        self.warnings.extend_from_slice(warnings);
        self
    }

    /// As the JSON body of an answer.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.continue_token.is_empty() {
            body["metadata"]["continue"] = self.continue_token.as_str().into();
        }
        if !self.reason.is_empty() {
            body["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            body["details"] = serde_json::to_value(details).unwrap_or_default();
        }
        body
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}
