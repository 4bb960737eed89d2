//! What went wrong, in a class and in words.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use concert_external::ErrorClass;
use concert_protocol::Details;
use tonic::{Code, Status};

/// The provider as messages name it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) endpoint: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "provider {:?} at {}", self.name, self.endpoint)
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) class: ErrorClass,
    pub(crate) message: String,
    pub(crate) field: Option<String>,
    pub(crate) retry_after: Option<Duration>,
}

impl Fault {
    pub(crate) fn new(class: ErrorClass, message: String) -> Self {
        Self { class, message, field: None, retry_after: None }
    }

    pub(crate) fn timeout(peer: &Peer, after: Duration) -> Self {
        Self::new(ErrorClass::Timeout, format!("{peer} did not answer within {after:?}"))
    }

    pub(crate) fn protocol(peer: &Peer, problem: &str) -> Self {
        Self::new(ErrorClass::Protocol, format!("{peer} broke the protocol: {problem}"))
    }

    /// What the provider itself answered.
    pub(crate) fn answered(peer: &Peer, status: &Status) -> Self {
        let details = Details::of(status);
        let message = match status.message() {
            "" => format!("{peer} failed without saying why ({})", describe(status.code())),
            text => text.to_owned(),
        };
        let violation = details.fields.into_iter().next();
        Self {
            class: class_of(status.code()),
            message: violation.as_ref().map(|v| v.description.clone()).filter(|d| !d.is_empty()).unwrap_or(message),
            field: violation.map(|violation| violation.field).filter(|field| !field.is_empty()),
            retry_after: details.retry_after,
        }
    }

    /// What happened on the way, as far as it can be told from an error that tonic made up.
    pub(crate) fn on_the_way(peer: &Peer, status: &Status, timeout: Duration) -> Self {
        if find::<tonic::TimeoutExpired>(status).is_some() {
            return Self::timeout(peer, timeout);
        }
        if find::<tonic::ConnectError>(status).is_some() {
            let message = format!("{peer} is not reachable: {}", reason(status));
            return Self::new(ErrorClass::Unavailable, message);
        }
        if status.source().is_some() {
            let message = format!("the connection to {peer} was lost before it answered");
            return Self::new(ErrorClass::Unavailable, message);
        }
        match status.code() {
            Code::Unavailable | Code::Cancelled => {
                let message = format!("{peer} is not reachable: {}", status.message());
                Self::new(ErrorClass::Unavailable, message)
            }
            Code::OutOfRange => Self::protocol(peer, "its message is larger than 4 MiB"),
            _ => Self::protocol(peer, status.message()),
        }
    }
}

fn class_of(code: Code) -> ErrorClass {
    match code {
        Code::InvalidArgument | Code::OutOfRange => ErrorClass::Invalid,
        Code::PermissionDenied | Code::Unauthenticated => ErrorClass::Denied,
        Code::NotFound => ErrorClass::NotFound,
        Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted => ErrorClass::Conflict,
        Code::ResourceExhausted => ErrorClass::RateLimited,
        Code::Unimplemented => ErrorClass::Unsupported,
        Code::Unavailable | Code::Cancelled => ErrorClass::Unavailable,
        Code::DeadlineExceeded => ErrorClass::Timeout,
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => ErrorClass::Other,
    }
}

fn describe(code: Code) -> &'static str {
    match code {
        Code::Ok => "it says that all is well",
        other => other.description(),
    }
}

fn chain(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |error| (*error).source())
}

fn find<E: Error + 'static>(status: &Status) -> Option<&E> {
    chain(status).find_map(|error| error.downcast_ref::<E>())
}

/// Why a connection could not be made, without the operating system's numbers.
fn reason(status: &Status) -> String {
    match find::<io::Error>(status).map(|error| (error.kind(), error)) {
        Some((io::ErrorKind::ConnectionRefused, _)) => "connection refused".to_owned(),
        Some((io::ErrorKind::NotFound, _)) => "no socket is there".to_owned(),
        Some((io::ErrorKind::PermissionDenied, _)) => "permission denied".to_owned(),
        Some((io::ErrorKind::TimedOut, _)) => "connecting took too long".to_owned(),
        Some((io::ErrorKind::InvalidData, error)) => format!("the TLS handshake failed: {error}"),
        Some((_, error)) => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or_default().to_owned()
        }
        None => chain(status).last().map(ToString::to_string).unwrap_or_default(),
    }
}
