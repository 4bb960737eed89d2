//! Which options of lists and watches go together, in the words of the real server.

use concert_api::{Fault, FieldError, FieldErrors, Gvk, Status};

use crate::target::Query;

const MATCH: &str = "resourceVersionMatch";

/// Checks the options of a list.
pub(crate) fn check_list(query: &Query) -> Result<(), Status> {
    let mut errors = FieldErrors::new();
    let wanted = query.version_match.as_str();
    if !wanted.is_empty() {
        if query.resource_version.is_empty() {
            errors.push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !query.continue_token.is_empty() {
            errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(wanted, "Exact" | "NotOlderThan") {
            errors.push(unsupported(wanted, &["Exact", "NotOlderThan", ""]));
        }
        if wanted == "Exact" && query.resource_version == "0" {
            errors.push(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
        }
    }
    if query.initial_events.is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    refuse(&errors)
}

/// Checks the options of a watch.
pub(crate) fn check_watch(query: &Query) -> Result<(), Status> {
    let mut errors = FieldErrors::new();
    let wanted = query.version_match.as_str();
    if query.initial_events.is_some() && wanted != "NotOlderThan" {
        errors.push(forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
    }
    if !wanted.is_empty() {
        if query.initial_events.is_none() {
            errors.push(forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
        }
        if wanted != "NotOlderThan" {
            errors.push(unsupported(wanted, &["NotOlderThan"]));
        }
    }
    if !query.continue_token.is_empty() {
        errors.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
    }
    refuse(&errors)
}

fn forbidden(why: &str) -> FieldError {
    FieldError::forbidden(MATCH, why)
}

fn unsupported(found: &str, known: &[&str]) -> FieldError {
    let known = known.iter().map(ToString::to_string).collect();
    FieldError::new(MATCH, Fault::NotSupported(found.into(), known), "")
}

fn refuse(errors: &FieldErrors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&Gvk::new("meta.k8s.io", "", "ListOptions"), "", errors))
}
