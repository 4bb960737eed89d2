//! The managed reconciler: drives any object through any [`External`](concert_external::External).
//!
//! ```text
//!   key ─► Managed ─► begin / plan (pure, in `external`) ─► pass: one step at a time
//!                                                             ├─ External (through the gate): observe, create…
//!                                                             ├─ marks and finalizer on the object
//!                                                             └─ one status write, or none
//! ```
//!
//! It knows no schema and no gRPC. Of a provider's reply it takes status, annotations and (late initialisation)
//! additions to spec, nothing else (`reply.rs`). Around a create it writes marks that survive any crash; the rules are
//! in `external::marks` and in `docs/no-duplicates.md`.

mod gated;
mod managed;
mod memory;
mod pass;
mod reply;
mod wake;

pub use managed::{Managed, Settings};
