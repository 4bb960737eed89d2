//! Why a patch was not applied.

use std::fmt;

/// A JSON patch was not applied; the document is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatchError {
    /// The patch is not a list of operations (400); in the words of the real server.
    Malformed(String),
    /// Too many operations (413): how many.
    TooManyOperations(usize),
    /// An operation cannot be done on this document (422): its index and why. The real server keeps the reason to
    /// itself; see [`PatchError::public_message`].
    Rejected(usize, String),
}

impl PatchError {
    /// The HTTP code the real server answers with.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooManyOperations(_) => 413,
            Self::Rejected(..) => 422,
        }
    }

    /// What the real server tells the client.
    #[must_use]
    pub fn public_message(&self) -> String {
        match self {
            Self::Malformed(why) => format!("error decoding patch: {why}"),
            Self::TooManyOperations(count) => format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {}, got {count}",
                crate::json::OPERATIONS_MAX
            ),
            Self::Rejected(..) => "the server rejected our request due to an error in our request".to_owned(),
        }
    }
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(_) | Self::TooManyOperations(_) => f.write_str(&self.public_message()),
            Self::Rejected(index, why) => write!(f, "cannot apply operation {index} of the patch: {why}"),
        }
    }
}

impl std::error::Error for PatchError {}

/// A strategic merge patch was not applied; the document is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StrategicError {
    /// The patch is malformed (400); in the words of the real server.
    BadRequest(String),
    /// The patch cannot be done (422); the real server keeps the reason to itself.
    Unprocessable(String),
    /// The patch does not fit the document or the schema (500, without a reason for programs).
    Internal(String),
}

impl StrategicError {
    /// What brings the real server's handler down, which answers all the same.
    pub(crate) fn panicked() -> Self {
        Self::Internal("This request caused apiserver to panic. Look in the logs for details.".to_owned())
    }

    /// The HTTP code the real server answers with.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::Unprocessable(_) => 422,
            Self::Internal(_) => 500,
        }
    }

    /// What the real server tells the client.
    #[must_use]
    pub fn public_message(&self) -> String {
        match self {
            Self::BadRequest(why) | Self::Internal(why) => why.clone(),
            Self::Unprocessable(_) => "the server rejected our request due to an error in our request".to_owned(),
        }
    }
}

impl fmt::Display for StrategicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadRequest(why) | Self::Unprocessable(why) | Self::Internal(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StrategicError {}
