//! The trait that a provider author implements.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use concert_external::{ConnectionDetails, NamePolicy};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Context, Kind, ProviderError};

/// One kind of external resource.
///
/// The operations may run concurrently for different objects. Dropping an operation's future means that the
/// reconciler hung up; only a create runs to its end regardless, and no second one with its token begins before.
pub trait Resource: Send + Sync + 'static {
    /// `spec.forProvider`.
    type Parameters: Kind + JsonSchema + Serialize + DeserializeOwned + Send + Sync;
    /// `status.atProvider`.
    type Observation: JsonSchema + Serialize + DeserializeOwned + Default + Send;

    /// Who chooses the external name; tells the reconciler what to do when it cannot know whether a create happened.
    fn names(&self) -> NamePolicy {
        NamePolicy::Assigned
    }

    /// For how long a created resource may stay invisible to `observe`.
    fn consistency_window(&self) -> Duration {
        Duration::ZERO
    }

    /// How long one conversation about a resource may take at most; the reconciler's own limit (a minute) if not said.
    /// After a create of unknown outcome it is also how long the reconciler waits before it looks elsewhere.
    fn session_timeout(&self) -> Option<Duration> {
        None
    }

    /// Looks at the external resource without changing it.
    fn observe(
        &self,
        ctx: &mut Context,
        wanted: &Self::Parameters,
    ) -> impl Future<Output = Result<Observed<Self::Observation>, ProviderError>> + Send;

    /// Makes it. [`Context::set_external_name`] says how it is found again.
    fn create(
        &self,
        ctx: &mut Context,
        wanted: &Self::Parameters,
    ) -> impl Future<Output = Result<Changed, ProviderError>> + Send;

    /// Changes it to what is wanted.
    fn update(
        &self,
        ctx: &mut Context,
        wanted: &Self::Parameters,
    ) -> impl Future<Output = Result<Changed, ProviderError>> + Send;

    /// Removes it. Removing what is absent is no error.
    fn delete(
        &self,
        ctx: &mut Context,
        wanted: &Self::Parameters,
    ) -> impl Future<Output = Result<Changed, ProviderError>> + Send;
}

/// What [`Resource::observe`] found.
#[derive(Clone, Debug)]
pub enum Observed<O> {
    /// The external resource does not exist.
    Absent,
    /// It exists.
    Present {
        /// What is there, in the shape of the parameters: all of them or only some. A field that the object sets and
        /// that is missing here counts as different.
        parameters: Value,
        /// Becomes `status.atProvider`.
        observation: O,
        /// Becomes the condition Ready.
        ready: Ready,
        /// What a user needs to reach it.
        connection: ConnectionDetails,
    },
}

impl<O> Observed<O> {
    /// It exists, and has no connection details.
    #[must_use]
    pub fn present(parameters: Value, observation: O, ready: Ready) -> Self {
        Self::Present { parameters, observation, ready, connection: ConnectionDetails::new() }
    }
}

/// Whether an existing resource can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It can.
    Yes,
    /// Not yet: it is being made.
    Creating,
    /// Not now, because of this.
    No(String),
}

/// What a create, update or delete gives back.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// What a user needs to reach the resource; of a create it may be the only copy.
    pub connection: ConnectionDetails,
    /// For the change log.
    pub details: BTreeMap<String, String>,
}
