//! Black-box tests of the built binaries: what a person with `kubectl` would see.
//!
//! This library is the harness; the tests are in `tests/`. It starts real processes, so time is real here, and a
//! test waits with [`eventually`]. It knows nothing of the code it tests but names, flags and exit codes.
//!
//! ```text
//! test ──► ControlPlane ──► concert serve        (embedded)
//!      │               └──► kube-apiserver        (reference)
//!      ├─► Kubectl ────────► the control plane, through its kubeconfig
//!      ├─► Api ────────────► the same, thousands of times a second
//!      └─► Actor ──► Process  reconcilers, providers: logs in files, killed with the test
//! ```
//!
//! A test body takes a [`ControlPlane`] and runs on both servers:
//!
//! ```no_run
//! use concert_e2e::{ControlPlane, on_both_servers};
//!
//! fn namespaces_are_listed(server: &ControlPlane) {
//!     assert!(server.kubectl().ok(&["get", "namespaces"]).contains("default"));
//! }
//!
//! on_both_servers!(namespaces_are_listed);
//! ```
//!
//! gives `namespaces_are_listed::on_embedded` and `namespaces_are_listed::on_reference`. Without the real server
//! (no Go) the second writes one line that begins with `SKIPPED:`; `cargo xtask test` counts it as skipped, not as
//! passed. `cargo xtask test` sets the environment ([`environment`]); after a `cargo build --release`, plain
//! `cargo test -p concert-e2e` finds the binaries too.
//!
//! # Modules
//!
//! - [`environment`]: where kubectl, the real server and our binaries are
//! - `control_plane`: the two servers behind one face
//! - `actor`: providers and reconcilers that are killed and started again
//! - `api`: plain requests, for tests that need many
//! - [`differential`]: the same requests to both servers, and what differs in their answers
//! - `foreign`: the test suites of others
//! - [`history`]: whether what many clients saw could have happened in order; pure
//! - `kubectl`, `process`, `patience`, `dice`, `scratch`: what tests are written with
//! - `reaper`: nothing outlives the test run, even one that was killed

mod actor;
mod api;
mod control_plane;
mod dice;
pub mod differential;
pub mod environment;
mod foreign;
pub mod history;
mod kubectl;
mod patience;
mod process;
mod reaper;
mod scratch;
pub mod session;
pub mod wire;

pub use actor::{Actor, Reconciler, definitions};
pub use api::{Answer, Api, Change, Connection, Request, Response, Watch};
pub use control_plane::{ControlPlane, Embedded, Reference, free_port, on_embedded, on_reference};
pub use dice::Dice;
pub use foreign::{Outcome, Suite};
pub use kubectl::{Kubectl, Output};
pub use patience::{Deadline, Stopwatch, eventually, pause};
pub use process::{Exit, Process};
pub use scratch::Scratch;

/// Declares tests `NAME::on_embedded` and `NAME::on_reference` for each function `fn NAME(&ControlPlane)`.
#[macro_export]
macro_rules! on_both_servers {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn on_embedded() {
                $crate::on_embedded(super::$name);
            }

            #[test]
            fn on_reference() {
                $crate::on_reference(super::$name);
            }
        }
    )+};
}

/// Declares a test `NAME::on_reference` for each function `fn NAME(&ControlPlane)`.
#[macro_export]
macro_rules! on_reference_only {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn on_reference() {
                $crate::on_reference(super::$name);
            }
        }
    )+};
}

/// Declares a test `NAME::on_embedded` for each function `fn NAME(&ControlPlane)`.
#[macro_export]
macro_rules! on_embedded_only {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn on_embedded() {
                $crate::on_embedded(super::$name);
            }
        }
    )+};
}
