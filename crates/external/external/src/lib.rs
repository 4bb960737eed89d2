//! The port to what lives outside Kubernetes.
//!
//! ```text
//!   managed ──────────► plan(object, observation, policy, now) ─► Step      pure, this crate
//!      │                                                            │
//!      └── executes the step through `dyn External` ◄───────────────┘
//!                               ▲
//!              connector (gRPC) ┴ a scripted cloud (tests)                  implement the port
//! ```
//!
//! [`External`] opens a [`Session`] for one reconcile of one object; a session observes, then at most creates, updates
//! or deletes, then disconnects. Every failure is an [`ExternalError`] that says what class it is and, most important
//! for a create, whether the call was ever sent and whether its outcome is known ([`Dispatch`]).
//!
//! Objects cross the port as JSON values. This crate awaits nothing and talks to nobody.

mod error;
mod kind;
mod marks;
mod plan;
mod policy;
mod port;

pub use concert_api::Gvk;
pub use error::{Dispatch, ErrorClass, ExternalError, Operation};
pub use kind::{KindInfo, NamePolicy};
pub use marks::{
    CREATE_FAILED, CREATE_OUTCOME, CREATE_PENDING, CREATE_SUCCEEDED, CREATE_TOKEN, Creation, EXTERNAL_NAME, FINALIZER,
    Marks,
};
pub use plan::{Begin, Settled, Situation, Step, Wait, begin, external_name, plan};
pub use policy::{InvalidPolicy, PAUSED, Policy};
pub use port::{
    Attempt, BoxFuture, Change, Connected, ConnectionDetails, CreateToken, External, Observation, Secret, Session,
};
