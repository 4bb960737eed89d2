//! What a Kubernetes object is.
//!
//! An [`Object`] is its JSON bytes plus the spans of the parts everybody asks for, found by one scanner in one pass:
//! reading a name or a label costs no tree. Where an object must be *changed* (a server applying a patch, a reconciler
//! preparing a status) it is decoded into a [`serde_json::Value`] and the helpers of [`meta`] and [`Condition`] apply.
//!
//! Around it: [`Gvk`] and [`ObjectKey`] name things, [`LabelSelector`] and [`FieldSelector`] choose them, [`Status`]
//! and [`FieldError`] say what is wrong in the words of the real API server, [`Time`] is how moments are written.
//!
//! Pure: no async, no I/O, no Kubernetes client.
//!
//! ```
//! use concert_api::{LabelSelector, Object};
//!
//! let object = Object::parse(
//!     br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"tier":"web"}}}"#.as_slice().into(),
//! )?;
//! assert_eq!(object.key().to_string(), "a");
//! assert!(LabelSelector::parse("tier in (web, db),!legacy").unwrap().matches(&object.labels()));
//! # Ok::<(), concert_api::ParseError>(())
//! ```

mod condition;
mod field;
mod json;
mod kind;
pub mod meta;
pub mod names;
mod object;
mod scan;
mod selector;
mod status;
mod time;

pub use condition::Condition;
pub use field::{Fault, FieldError, FieldErrors, go_float, is_printable, quoted};
pub use json::{DEPTH_MAX, DecodeError, Decoded, decode};
pub use kind::{GroupResource, Gvk, ObjectKey, version_rank};
pub use meta::OwnerReference;
pub use object::{Glance, Object, ParseError};
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use status::{Cause, Details, Status};
pub use time::{Time, go_duration};
