//! Measurements of the built binaries, from outside, as a user would see them.
//!
//! ```text
//! files ──► Rig ──► control plane, concert-provider-file, managed-reconciler   (processes, started by concert-e2e)
//!       └─► Api ──► creates, watches, deletes over HTTP/2 and TLS
//! server ─► Target ──► the same requests to concert serve and to the real kube-apiserver
//! definitions ► what a further definition costs, on both
//! start ──► concert serve, concert up: from the start of the process to the line that says it is ready
//! ```
//!
//! A figure is worth what its circumstances are: each report has the median time of an fsync on the same disk, and
//! the processor time beside the time on the wall. Results are in `docs/measurements.md`.
//!
//! # Modules
//!
//! - [`rig`]: the processes
//! - [`api`]: a client that costs little, so that it does not disturb what it measures
//! - [`load`]: many Files at once
//! - [`scrape`]: counters of a metrics endpoint
//! - [`throughput`]: requests by the second, of one server and the other
//! - [`usage`]: what a process has used
//! - [`report`]: figures for people and for scripts

pub mod api;
pub mod load;
pub mod report;
pub mod rig;
pub mod runtime;
pub mod scrape;
pub mod throughput;
pub mod usage;
