//! The connector against the SDK, and against peers that are old, broken or hostile; all over unix sockets.
//!
//! Time is real here, since a paused clock runs ahead of sockets: intervals are short, and nothing depends on how
//! short they turn out.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "connector/raw.rs"]
mod raw;
#[path = "connector/sdk.rs"]
mod sdk;
#[path = "connector/state.rs"]
mod state;
#[path = "connector/support.rs"]
mod support;
