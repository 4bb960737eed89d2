//! An operator from beginning to end.
//!
//! A `Database` is a StatefulSet with a Service in front of it. It needs a Secret with its password (inside of the cluster)
//! and a network that answers (outside of it); until both are there, its status says what it waits for.
//!
//! ```text
//! Database ──owns──► StatefulSet, Service
//!     └──refers to──► Secret (watched, metadata only)      network (asked)
//! ```
//!
//! - `main.rs`: flags, manager, signals
//! - [`Database`]: the kind, with its validation
//! - [`Operator`]: the reconciler, and what it listens to

mod children;
mod database;
mod operator;

pub use database::{Database, DatabaseSpec, DatabaseStatus, definition};
pub use operator::Operator;
