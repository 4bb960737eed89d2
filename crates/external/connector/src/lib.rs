//! The streaming gRPC connector: implements the port [`External`](concert_external::External) over the wire.
//!
//! ```text
//!   managed ──► Connector ──► Session ──► outbox ═══ one HTTP/2 stream ═══► provider
//!                  │             ▲                                            ▲
//!                  │             └── trail: did a grpc-status really arrive?   │
//!                  └── run: Discover, notice a lost connection, come back     ProviderProcess keeps it running
//! ```
//!
//! One [`Connector`] has one HTTP/2 connection to one provider, opened when first needed and opened again when lost.
//! Each reconcile is a stream of its own, in strict lock-step. [`Connector::run`] discovers what the provider drives
//! and publishes whether it is there ([`State`]).
//!
//! Of a failed create it matters most whether it happened, and a gRPC code alone does not tell: a killed connection
//! looks like an ordinary error. So replies pass a layer below tonic that notes whether a status trailer really
//! arrived, and requests pass an outbox from which what was never sent can be taken back.
//!
//! | module | owns |
//! |---|---|
//! | `endpoint` | addresses and their syntax |
//! | `line` | the connection, and the news of its loss |
//! | `trail`, `outbox` | what arrived, what was sent |
//! | `session` | one reconcile's conversation |
//! | `fault` | errors in words that a person understands |
//! | `discovery`, `connector` | kinds, state, supervision of the connection |
//! | `supervise` | provider processes |

mod connector;
mod discovery;
mod endpoint;
mod fault;
mod line;
mod outbox;
mod session;
mod supervise;
mod trail;

pub use connector::{Connector, State};
pub use discovery::{DiscoverError, Discovery};
pub use endpoint::{Endpoint, EndpointError};
pub use supervise::{ProviderCommand, ProviderProcess, SuperviseError};
