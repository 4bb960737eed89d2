//! How controllers run.
//!
//! ```text
//!  API ─► watch ─► cache ─► trigger ─► queue ─► worker ─► reconciler
//!   ▲              (one writer)        (dedup,  (fence,        │
//!   └────────── client ◄───────────────  delay)  floors) ◄─────┘
//! ```
//!
//! | module | what it owns |
//! |---|---|
//! | [`client`] | one request, once, under a deadline, through the gate |
//! | [`watch`] | lists and watches; resumes by itself |
//! | [`cache`] | what is known about a kind; one writer, many readers |
//! | [`trigger`] | from a change to keys |
//! | [`reconciler`] | what an author writes |
//! | [`controller`] | sources + reconciler |
//! | [`engine`] | controllers that come and go |
//! | [`manager`] | a process: order of start and stop, signals, leadership |
//! | [`lease`] | leader election |
//! | [`events`] | Kubernetes Events for users |
//! | [`metrics`], [`serve`] | numbers and probes over HTTP |
//! | [`tasks`] | the only place that spawns |
//!
//! It knows no API server: it is given a tower service or a kubeconfig ([`Client`]).

pub mod cache;
pub mod client;
pub mod controller;
pub mod engine;
pub mod events;
mod floors;
pub mod lease;
pub mod manager;
pub mod metrics;
pub mod reconciler;
mod resource;
pub mod serve;
pub mod tasks;
pub mod trigger;
pub mod watch;
mod worker;

pub use cache::{Cache, CacheState, Change, Informers};
pub use client::{ApiError, Client, ConnectError, Listing, Preconditions, Selection, Source};
pub use concert_queue::{Backoff, Outcome, priority};
pub use controller::{BuildError, Controller};
pub use engine::{ControllerState, Engine, EngineError};
pub use events::{EventKind, Recorder};
pub use lease::{Lease, LeaseError, LeaseSettings, Standing};
pub use manager::{Manager, ManagerError, ManagerSettings, Phase, Stop};
pub use metrics::Metrics;
pub use reconciler::{ReconcileError, Reconciler, Request, reconcile_fn};
pub use resource::Resource;
pub use serve::{Endpoint, Probes, ServeError};
pub use tasks::TaskGroup;
pub use trigger::{Mapping, Predicate};
pub use watch::{Scope, Trouble};

/// An error with its sources, each said once.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        source = error.source();
    }
    text
}
