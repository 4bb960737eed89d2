//! What tests of reconcilers need beside the embedded API server.
//!
//! [`Cloud`] is an external system in this process, as unhelpful as a real one: it assigns random ids, shows what was
//! created only after a while, and creates a second object whenever it is asked twice. [`Fault`] is a gate that lets
//! one chosen call fail or one chosen moment be the end of a process.
//!
//! Table tests, fixtures and fault campaigns will stand beside them.

mod cloud;
mod fault;

pub use cloud::{Cloud, CloudObject};
pub use fault::Fault;
