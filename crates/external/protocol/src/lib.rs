//! The wire between a reconciler and its providers, and nothing else.
//!
//! ```text
//!   connector ──► external.proto.v1alpha1 over gRPC ◄── provider (the SDK, or anything that speaks it)
//! ```
//!
//! * [`external`]: the protocol itself. `proto/external.proto` tells which field numbers are the original's and which
//!   belong to Concert's extension; both sides announce in Discover what they know of it ([`features`]).
//! * [`to_struct`] and [`to_json`]: how objects cross a `google.protobuf.Struct` without losing what can be kept.
//! * [`Details`]: the standard rich error details that go with a gRPC status.
//! * [`health`]: the standard health service.
//!
//! ```
//! let object = serde_json::json!({"spec": {"replicas": 3}});
//! let sent = concert_protocol::to_struct(&object)?;
//! assert_eq!(concert_protocol::to_json(&sent)?, object, "3 comes back as 3, not as 3.0");
//! # Ok::<(), concert_protocol::StructError>(())
//! ```

mod details;
mod json;

pub use details::{Details, FieldViolation, OUTCOME_UNKNOWN};
pub use json::{MAX_DEPTH, StructError, to_json, to_struct};

/// The largest message that either side sends or accepts: gRPC's usual 4 MiB.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// The version that a provider announces.
pub const VERSION: &str = "v1alpha1";

/// Names of what the extension can do, as both sides announce them in Discover.
pub mod features {
    /// Requests carry the create token.
    pub const CREATE_TOKEN: &str = "create-token";
    /// Observe says which fields differ.
    pub const DIFF: &str = "diff";
    /// Reconcilers carry name policy, consistency window and CRD.
    pub const KINDS: &str = "kinds";
    /// Everything that this version implements.
    pub const ALL: [&str; 3] = [CREATE_TOKEN, DIFF, KINDS];
}

/// `external.proto.v1alpha1`.
#[expect(missing_docs, clippy::allow_attributes_without_reason, reason = "generated from proto/external.proto")]
pub mod external {
    tonic::include_proto!("external.proto.v1alpha1");
}

/// `grpc.health.v1`.
#[expect(missing_docs, clippy::allow_attributes_without_reason, reason = "generated from proto/health.proto")]
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}

/// `google.rpc`.
#[expect(unreachable_pub, reason = "generated from proto/rpc.proto")]
mod rpc {
    tonic::include_proto!("google.rpc");
}
