//! The same requests to the embedded server and to the real one, and what differs in their answers.
//!
//! ```text
//! e2e/scenarios/GROUP/NAME.yaml ─► Scenario ─► run on each server ─► Transcript
//!                                                                      │ normalise: uids, times, revisions, …
//! e2e/recorded/GROUP/NAME.jsonl ◄── record ── the real one's ──────────┤
//!                    stands in where Go is missing ──► rules ──► compare ─► a readable difference, or none
//! ```
//!
//! A scenario has a namespace and an API group of its own, so that all of them run at once on one server. Everything
//! that both servers may answer differently is named: what the [normaliser](normalise) folds because it is random or
//! time, and the [`rules`], each of which belongs to a row of `docs/differences.md` and has to apply somewhere.

pub mod compare;
pub mod normalise;
pub mod pick;
mod player;
pub mod print;
pub mod random;
pub mod recording;
pub mod rules;
pub mod run;
pub mod scenario;

pub use run::{Transcript, run_all};
pub use scenario::Scenario;
