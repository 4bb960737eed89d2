//! The port itself.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;

use crate::{ExternalError, Gvk};

/// A future on the heap, as trait objects need it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Bytes that never appear in logs, events, status or errors.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Wraps secret bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for the one place that sends or stores them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What a user needs to reach the external resource: keys and secret values.
pub type ConnectionDetails = BTreeMap<String, Secret>;

/// Identifies one intended create: the object's uid and the number of the attempt. It is written to the object before
/// Create is called, and goes with the call, so that a create of unknown outcome can be found again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CreateToken(String);

impl CreateToken {
    /// The token of the `attempt`th create for the object with this uid.
    #[must_use]
    pub fn new(uid: &str, attempt: u64) -> Self {
        Self(format!("{uid}.{attempt}"))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The token written in `text` by [`CreateToken::new`], with its attempt.
    #[must_use]
    pub fn parse(text: &str) -> Option<(Self, u64)> {
        let (uid, attempt) = text.rsplit_once('.')?;
        let attempt = attempt.parse().ok()?;
        (!uid.is_empty()).then(|| (Self(text.to_owned()), attempt))
    }
}

impl fmt::Display for CreateToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What goes with a session beside the object: whose it is and how long it may take.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The kind of the object.
    pub gvk: Gvk,
    /// The token of the create that may have happened, by which it can be found.
    pub token: Option<CreateToken>,
    /// How long the whole session may take.
    pub timeout: Duration,
}

/// A way to reach external resources of some kinds.
pub trait External: Send + Sync + fmt::Debug {
    /// Opens a session for one reconcile of `object`.
    fn connect<'a>(&'a self, object: &'a Value, attempt: Attempt) -> BoxFuture<'a, Result<Connected, ExternalError>>;
}

/// An open session, with the object as the provider returned it at Connect (`None`: unchanged).
pub struct Connected {
    /// The session.
    pub session: Box<dyn Session>,
    /// The provider's reply object.
    pub object: Option<Value>,
}

/// One reconcile's conversation with a provider: observe, then at most one of create, update and delete, then
/// disconnect. After an error only `disconnect` is of use.
pub trait Session: Send {
    /// Looks at the external resource without changing it.
    fn observe<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Observation, ExternalError>>;
    /// Makes it. The token was written to the object before.
    fn create<'a>(
        &'a mut self,
        object: &'a Value,
        token: &'a CreateToken,
    ) -> BoxFuture<'a, Result<Change, ExternalError>>;
    /// Changes it to what the object says.
    fn update<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Change, ExternalError>>;
    /// Removes it. Removing what is absent is no error.
    fn delete<'a>(&'a mut self, object: &'a Value) -> BoxFuture<'a, Result<Change, ExternalError>>;
    /// Closes the session.
    fn disconnect(self: Box<Self>) -> BoxFuture<'static, Result<(), ExternalError>>;
}

/// What Observe found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// The external resource exists.
    pub exists: bool,
    /// It is as the object wants it.
    pub up_to_date: bool,
    /// The provider filled in fields of spec that the object left open.
    pub late_initialized: bool,
    /// The object as the provider returned it (`None`: unchanged). Only its status, annotations and, after late
    /// initialisation, additions to spec are ever taken.
    pub object: Option<Value>,
    /// Connection details.
    pub connection: ConnectionDetails,
    /// Which fields differ, in words, for people.
    pub diff: String,
}

/// What Create, Update or Delete did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The object as the provider returned it (`None`: unchanged).
    pub object: Option<Value>,
    /// Connection details.
    pub connection: ConnectionDetails,
    /// For the change log.
    pub details: BTreeMap<String, String>,
}
