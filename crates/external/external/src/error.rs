//! What can go wrong behind the port, in classes that a reconciler and a person can act on.

use std::fmt;
use std::time::Duration;

/// The operations of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Opening the session.
    Connect,
    /// Looking at the external resource.
    Observe,
    /// Making it.
    Create,
    /// Changing it.
    Update,
    /// Removing it.
    Delete,
    /// Closing the session.
    Disconnect,
}

impl Operation {
    /// Its name in messages: `connect`, `observe`…
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Observe => "observe",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Disconnect => "disconnect",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The provider (or what it needs) cannot be reached. Retrying helps once it is back.
    Unavailable,
    /// The provider did not answer in time.
    Timeout,
    /// The object asks for something impossible; only a change of the object helps.
    Invalid,
    /// Not allowed, or not authenticated.
    Denied,
    /// Something the operation needs does not exist.
    NotFound,
    /// The external system is in a state that forbids the operation at the moment.
    Conflict,
    /// Too many requests.
    RateLimited,
    /// The provider does not know the kind or the operation.
    Unsupported,
    /// The peer broke the protocol.
    Protocol,
    /// Anything else, including all errors of providers that do not classify.
    Other,
}

impl ErrorClass {
    /// Whether only a change of the object can help, so that fast retries are a waste.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Invalid | Self::Unsupported)
    }
}

/// What is known about whether a failed call took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dispatch {
    /// The call was never sent: nothing happened.
    NotSent,
    /// The provider itself answered, well within the deadline, that it failed.
    Failed,
    /// It may or may not have happened.
    Unknown,
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalError {
    /// What was attempted.
    pub operation: Operation,
    /// The kind of failure.
    pub class: ErrorClass,
    /// Whether it took effect.
    pub dispatch: Dispatch,
    /// In words a person understands; no secrets, no transport noise.
    pub message: String,
    /// The field of the object at fault, as a path.
    pub field: Option<String>,
    /// When the provider asks to be called again.
    pub retry_after: Option<Duration>,
}

impl ExternalError {
    /// An error of `class` whose call was answered by the provider.
    #[must_use]
    pub fn failed(operation: Operation, class: ErrorClass, message: impl Into<String>) -> Self {
        Self::new(operation, class, Dispatch::Failed, message)
    }

    /// An error of a call that never left.
    #[must_use]
    pub fn not_sent(operation: Operation, class: ErrorClass, message: impl Into<String>) -> Self {
        Self::new(operation, class, Dispatch::NotSent, message)
    }

    /// An error after which nobody knows whether the call took effect.
    #[must_use]
    pub fn unknown(operation: Operation, class: ErrorClass, message: impl Into<String>) -> Self {
        Self::new(operation, class, Dispatch::Unknown, message)
    }

    fn new(operation: Operation, class: ErrorClass, dispatch: Dispatch, message: impl Into<String>) -> Self {
        Self { operation, class, dispatch, message: message.into(), field: None, retry_after: None }
    }

    /// Names the field at fault.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Asks to be called again after a while.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }
}

impl fmt::Display for ExternalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: ", self.operation)?;
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExternalError {}
