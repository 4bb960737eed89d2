//! What can go wrong in a provider, in classes that a reconciler and a person can act on.

use std::time::Duration;

use concert_external::ErrorClass;
use concert_protocol::{Details, FieldViolation, OUTCOME_UNKNOWN};
use tonic::{Code, Status};

/// A failed operation. The class decides how soon it is tried again, the message is shown to people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    class: ErrorClass,
    message: String,
    field: Option<String>,
    retry_after: Option<Duration>,
    outcome_unknown: bool,
}

impl ProviderError {
    /// The object asks for something impossible; `field` is the path of what to change.
    #[must_use]
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..Self::new(ErrorClass::Invalid, message) }
    }

    /// The external system cannot be reached.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Unavailable, message)
    }

    /// Not allowed.
    #[must_use]
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Denied, message)
    }

    /// Something that the operation needs does not exist.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::NotFound, message)
    }

    /// The external system's state forbids it for the moment.
    #[must_use]
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Conflict, message)
    }

    /// The external system wants fewer requests.
    #[must_use]
    pub fn rate_limited(after: Duration, message: impl Into<String>) -> Self {
        Self { retry_after: Some(after), ..Self::new(ErrorClass::RateLimited, message) }
    }

    /// The provider does not know the kind or the operation.
    #[must_use]
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Unsupported, message)
    }

    /// Anything else.
    #[must_use]
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Other, message)
    }

    /// The provider itself is at fault.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Protocol, message)
    }

    fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), field: None, retry_after: None, outcome_unknown: false }
    }

    /// Says that the operation may have taken effect all the same: the request went out and no answer came back. The
    /// reconciler then looks before it creates again. (Of [`unavailable`](Self::unavailable) it assumes so anyway.)
    #[must_use]
    pub fn outcome_unknown(mut self) -> Self {
        self.outcome_unknown = true;
        self
    }

    /// Its class.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// The field at fault.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    fn code_and_reason(&self) -> (Code, &'static str) {
        match self.class {
            ErrorClass::Unavailable => (Code::Unavailable, "UNAVAILABLE"),
            ErrorClass::Timeout => (Code::DeadlineExceeded, "TIMEOUT"),
            ErrorClass::Invalid => (Code::InvalidArgument, "INVALID"),
            ErrorClass::Denied => (Code::PermissionDenied, "DENIED"),
            ErrorClass::NotFound => (Code::NotFound, "NOT_FOUND"),
            ErrorClass::Conflict => (Code::FailedPrecondition, "CONFLICT"),
            ErrorClass::RateLimited => (Code::ResourceExhausted, "RATE_LIMITED"),
            ErrorClass::Unsupported => (Code::Unimplemented, "UNSUPPORTED"),
            ErrorClass::Protocol => (Code::Internal, "INTERNAL"),
            ErrorClass::Other => (Code::Unknown, "OTHER"),
        }
    }
}

impl From<ProviderError> for Status {
    fn from(error: ProviderError) -> Self {
        let (code, reason) = error.code_and_reason();
        let reason = if error.outcome_unknown { OUTCOME_UNKNOWN } else { reason };
        let violation = |field| FieldViolation { field, description: error.message.clone() };
        let details = Details {
            reason: Some(reason.to_owned()),
            retry_after: error.retry_after,
            fields: error.field.clone().map(violation).into_iter().collect(),
        };
        details.into_status(code, error.message)
    }
}
