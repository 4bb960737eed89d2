//! Our runtime against its peers: the eight workloads of `bin/runtime`.
//!
//! ```text
//!             ┌─ core 0 ───┐   TLS, lists and watches    ┌─ core 1 ────────────────────────────────┐
//! runtime ──► │ load server│ ◄────────────────────────── │ one subject: ours, kube-rs or            │
//! (driver)    └────────────┘                             │ controller-runtime, a process of its own │
//!    └──── lines on standard input and output ──────────►└─────────────────────────────────────────┘
//! ```
//!
//! All subjects get the same bytes from the same server, one after the other, and carry out the same lines. What they use is
//! read from `/proc` by the driver; none of them measures itself, but for the time from an event to its reconcile.
//!
//! - [`objects`]: what is served, in JSON and protobuf
//! - [`load`]: the server
//! - [`protocol`]: the lines
//! - [`ours`]: our subject; the others are in `bench/peers`
//! - [`peers`]: how those are built
//! - [`process`]: starting, pinning, asking, measuring
//! - [`workload`]: the eight, and their sizes
//! - [`rig`]: how each is carried out
//! - [`budget`]: what is repeated in the time that there is
//! - [`figures`]: medians, ratios, aims

pub mod budget;
pub mod figures;
pub mod load;
pub mod objects;
pub mod ours;
pub mod peers;
pub mod process;
pub mod protocol;
pub mod rig;
pub mod workload;
