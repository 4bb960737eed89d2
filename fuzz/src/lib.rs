//! Hostile input for the API server: what may arrive in a body or in a selector, and what must be true whatever it is.
//!
//! ```text
//!   libfuzzer/ (coverage, mutations) ─┐
//!   tests/corpus.rs (what was found)  ├─► TARGETS: one function of bytes each, which panics if something is not true
//!   concert-fuzz run TARGET FILE      ┘       ├─► the pure functions of merge, schema and api
//!                                             └─► a server in this process, with real requests
//! ```
//!
//! An input is made for people, too: its first line chooses (a kind, a form), its others are documents. What is kept of
//! inputs is in `corpus/`: `TARGET/` has those that somebody wrote, with names; `TARGET.found` those that the fuzzer
//! found worth keeping, one in a line.

mod apply;
pub mod corpus;
pub mod hostile;
mod input;
mod kinds;
mod managed_fields;
mod object;
mod patch;
mod protobuf;
mod selector;
mod server;

pub use apply::apply;
pub use managed_fields::managed_fields;
pub use object::object;
pub use patch::patch;
pub use protobuf::protobuf;
pub use selector::selector;

/// Something that takes any bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As on the command line.
    pub name: &'static str,
    /// Does with an input all that can be done; panics if something is not as it must be.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 6] = [
    Target { name: "apply", run: apply },
    Target { name: "managed_fields", run: managed_fields },
    Target { name: "object", run: object },
    Target { name: "patch", run: patch },
    Target { name: "protobuf", run: protobuf },
    Target { name: "selector", run: selector },
];
