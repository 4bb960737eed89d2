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
//! | [`objects`] | objects of one kind, as a type: reads from the cache, writes to the server |
//! | [`source`] | what a running controller listens to |
//! | [`trigger`] | from a change to keys |
//! | [`reconciler`] | what an author writes |
//! | [`controller`] | sources + reconciler |
//! | [`engine`] | controllers that come and go |
//! | [`manager`] | a process: order of start and stop, signals, leadership |
//! | [`lease`], [`shards`] | leader election, one leader or a share for each |
//! | [`cluster`] | several API servers |
//! | [`events`] | Kubernetes Events for users |
//! | `rbac` | roles made of what controllers declare |
//! | [`metrics`], [`serve`] | numbers and probes over HTTP |
//! | [`telemetry`] | spans, and where they go |
//! | [`tasks`] | the only place that spawns |
//!
//! It knows no API server: it is given a tower service or a kubeconfig ([`Client`]). A controller that counts its
//! turns, on the embedded server and in virtual time:
//!
//! ```
//! use concert_api::Gvk;
//! use concert_runtime::{Client, Controller, Manager, ManagerSettings, Outcome, Resource, Stop, reconcile_fn};
//! use concert_world::World;
//! use serde_json::json;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(async {
//! let world = World::simulated(1);
//! let server = concert_apiserver::Server::in_memory(world.clone()).await;
//! let manager = Manager::new(Client::in_process(server, world), ManagerSettings::new("example"));
//! let maps = Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
//!
//! let stop = Stop::default();
//! let first = stop.drain.clone();
//! let stop_at_the_first = reconcile_fn(move |request| {
//!     let first = first.clone();
//!     async move {
//!         let object = request.object().await?;
//!         assert_eq!(object.map(|object| object.name().into_owned()).as_deref(), Some("greeting"));
//!         first.cancel();
//!         Ok(Outcome::Done)
//!     }
//! });
//! manager.engine().add(Controller::builder("greeter").for_(maps.clone()).run(stop_at_the_first)?)?;
//!
//! let greeting = json!({ "metadata": { "namespace": "default", "name": "greeting" } });
//! manager.client().create(&maps, &greeting).await?;
//! manager.run(stop).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod admin;
pub mod cache;
pub mod client;
pub mod cluster;
pub mod controller;
#[cfg(feature = "debug")]
mod debug;
pub mod engine;
pub mod events;
mod floors;
pub mod lease;
pub mod manager;
pub mod metrics;
pub mod objects;
mod rbac;
pub mod reconciler;
mod resource;
mod scope;
pub mod serve;
pub mod shards;
pub mod source;
mod sync;
pub mod tasks;
pub mod telemetry;
pub mod trigger;
pub mod watch;
mod worker;

pub use cache::{
    Cache, CacheReport, CacheState, Change, Find, Index, Informers, KindSettings, Lazy, Narrowing, Origin, Pages,
    Selectors, Transform, Undecodable, Verb, View,
};
pub use client::{
    ApiError, Client, ConnectError, Deletion, FieldValidation, Listing, Propagation, Selection, Sender, Source,
};
pub use cluster::{Cluster, ClusterError, Clusters, Mapper};
pub use concert_derive::Apply;
pub use concert_queue::{Backoff, Outcome, RateLimiter, Whereabouts, limiter, priority};
pub use controller::{BuildError, Controller, ControllerDefaults, ControllerError, Handle, Panics, QueuedKey};
pub use engine::{ControllerState, Engine, EngineError};
pub use events::{Event, EventKind, Recorder, Reference};
pub use lease::{Lease, LeaseError, LeaseRecord, LeaseSettings, Lock, LockError, Standing};
pub use manager::{Grace, HeldUp, Manager, ManagerError, ManagerSettings, OnLost, Phase, Runnable, Stop, repeatable};
pub use metrics::Metrics;
pub use objects::{
    Apply, Conditioned, Done, Finalizers, Held, ObjectPages, Objects, OwnError, Owner, Ownership, Patch, PatchError,
    add_finalizer, controller_of, dynamic, has_finalizer, owns, remove_finalizer, remove_owner, set_owner,
};
pub use reconciler::{Key, ReconcileError, Reconciler, Request, reconcile_fn, reconcile_keys_fn};
pub use resource::Resource;
pub use scope::{Form, Namespaces, Part, Place, Scope};
pub use serve::{CertificateFiles, Endpoint, Page, Probes, Security, ServeError, Visit};
pub use shards::{ShardSettings, Shards};
pub use source::{Backlog, Channel, EventSource, Sink, Watching};
pub use tasks::TaskGroup;
pub use trigger::{Mapping, Predicate, Priorities, Trigger, WhenMissing};
pub use watch::Trouble;
pub use worker::TurnId;

/// What `#[derive(Apply)]` writes stands on.
#[doc(hidden)]
pub mod __apply {
    pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    pub use kube::Resource;
    pub use serde::{self, Deserialize, Serialize};
}

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

/// What this machine is called; in a pod, the pod's name.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
