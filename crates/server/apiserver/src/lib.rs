//! A Kubernetes API server over an embedded store.
//!
//! ```text
//!   TLS listener (listen) ─► who (auth) ─┐
//!   in process, without a socket ────────┴─► Server: a tower Service ─► may they (access)
//!        route ─► discovery · openapi · version · health
//!              └► one generic handler for every kind, driven by schema data (kinds)
//!                    read · watch ◄── store ◄── write · delete
//!                                        └► housekeeping: garbage, namespaces, old events
//! ```
//!
//! A [`Server`] is cheap to clone and is itself the tower `Service`. A test builds one in memory, prepares it, and
//! [forks](Server::fork) it in microseconds for every case:
//!
//! ```
//! use concert_apiserver::Server;
//! use concert_world::World;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let prepared = Server::in_memory(World::simulated(1)).await;
//! let fork = prepared.fork(World::simulated(2));
//! let request = http::Request::get("/api/v1/namespaces/default").body(http_body_util::Empty::<bytes::Bytes>::new());
//! assert_eq!(fork.answer(request.unwrap()).await.status(), 200);
//! # });
//! ```
//!
//! It knows no Kubernetes client and no kind by name but those that own others (namespaces, definitions). Where it
//! differs from the real server is listed in `docs/differences.md`.

mod access;
mod admission;
mod advice;
mod answer;
mod auth;
mod beside;
mod body;
mod books;
mod budget;
mod burden;
mod change;
mod classes;
mod collect;
mod components;
mod contents;
mod definition;
mod delete;
mod discovery;
mod encode;
mod generation;
mod housekeeping;
mod incoming;
mod kept;
mod kinds;
mod kubeconfig;
mod limits;
mod listen;
mod openapi;
mod owners;
mod parts;
mod pki;
mod protobuf;
mod read;
mod residents;
mod respond;
mod review;
mod rules;
mod scale;
mod seldom;
mod select;
mod server;
mod services;
mod table;
mod target;
mod terminating;
mod watch;
mod write;

pub use access::Authorization;
pub use admission::{Admission, Operation, Review, Verdict};
pub use auth::tokens::{TokenFile, TokenFileError};
pub use auth::{Token, User};
pub use concert_store as store;
pub use concert_store::{Durability, OpenError, Options, Window};
pub use kubeconfig::Kubeconfig;
pub use limits::Limits;
pub use listen::{ConnectionLimits, ListenError, Listener};
pub use pki::{ClientCertificate, Pki, PkiError, ServingError};
pub use respond::Body;
pub use server::{Server, StartError};
pub use target::BACKUP_PATH;
