//! What a provider author writes, and nothing that they should not have to.
//!
//! ```text
//!   Resource (yours)          observe, create, update, delete on typed parameters
//!      ▲
//!   Provider ── diff, conditions, create locks, panic fence ── gRPC server ◄── a reconciler
//!      │
//!   main: serve, crds, version
//! ```
//!
//! An author describes a kind by two structs, its parameters (`spec.forProvider`) and its observation
//! (`status.atProvider`), and implements [`Resource`]. Whether the external resource is up to date is never said by
//! hand: [`Resource::observe`] returns what is there, and the SDK compares it with the fields that the object sets.
//!
//! ```
//! use concert_provider::{Changed, Context, Kind, Observed, Provider, ProviderError, Ready, Resource};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! # use std::{collections::BTreeMap, sync::Mutex};
//!
//! /// A note on the board.
//! #[derive(Kind, JsonSchema, Serialize, Deserialize)]
//! #[kind(group = "board.example.org", version = "v1")]
//! struct NoteParameters {
//!     /// What it says.
//!     text: String,
//! }
//!
//! #[derive(JsonSchema, Serialize, Deserialize, Default)]
//! struct NoteObservation {
//!     /// How long it is.
//!     length: usize,
//! }
//!
//! struct Notes(Mutex<BTreeMap<String, String>>);
//!
//! impl Resource for Notes {
//!     type Parameters = NoteParameters;
//!     type Observation = NoteObservation;
//!
//!     async fn observe(&self, ctx: &mut Context, _: &NoteParameters) -> Result<Observed<NoteObservation>, ProviderError> {
//!         let notes = self.0.lock().map_err(|e| ProviderError::other(e.to_string()))?;
//!         let Some(text) = notes.get(ctx.name()) else { return Ok(Observed::Absent) };
//!         let observation = NoteObservation { length: text.len() };
//!         Ok(Observed::present(serde_json::json!({ "text": text }), observation, Ready::Yes))
//!     }
//!     async fn create(&self, ctx: &mut Context, wanted: &NoteParameters) -> Result<Changed, ProviderError> {
//!         let mut notes = self.0.lock().map_err(|e| ProviderError::other(e.to_string()))?;
//!         notes.insert(ctx.name().to_owned(), wanted.text.clone());
//!         Ok(Changed::default())
//!     }
//!     async fn update(&self, ctx: &mut Context, wanted: &NoteParameters) -> Result<Changed, ProviderError> {
//!         self.create(ctx, wanted).await
//!     }
//!     async fn delete(&self, ctx: &mut Context, _: &NoteParameters) -> Result<Changed, ProviderError> {
//!         self.0.lock().map_err(|e| ProviderError::other(e.to_string()))?.remove(ctx.name());
//!         Ok(Changed::default())
//!     }
//! }
//!
//! let provider = Provider::new("board", "1.0.0").resource(Notes(Mutex::default()));
//! assert_eq!(provider.crds().unwrap()[0]["metadata"]["name"], "notes.board.example.org");
//! // A program is one more line: `fn main() -> ExitCode { concert_provider::main(|_: NoOptions| provider()) }`.
//! ```
//!
//! | module | owns |
//! |---|---|
//! | `resource`, `context`, `error`, `kind` | what an author sees |
//! | `crd` | structural schemas and the managed-resource envelope |
//! | `diff`, `object` | up to date or not; conditions and status |
//! | `handler`, `creates` | one operation on one kind; one create per token |
//! | `server`, `listen`, `cli` | the gRPC services, sockets, and `main` |

mod cli;
mod context;
mod crd;
mod creates;
mod diff;
mod error;
mod handler;
mod kind;
mod listen;
mod object;
mod provider;
mod resource;
mod server;

pub use cli::{NoOptions, main, run};
pub use concert_derive::Kind;
pub use concert_external::{ConnectionDetails, Gvk, NamePolicy, Secret};
pub use context::Context;
pub use crd::{CrdError, crd};
pub use error::ProviderError;
pub use kind::{Column, Kind, Shape};
pub use listen::{Listen, ListenError, Listener};
pub use provider::{Provider, ServeError};
pub use resource::{Changed, Observed, Ready, Resource};
