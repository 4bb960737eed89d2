//! Patches: how a small document changes a large one.
//!
//! [`json_patch`] is RFC 6902 with the semantics of the real API server (negative indices, `replace` that may add,
//! `test` of an absent member against null), [`merge_patch`] is RFC 7386, and [`merge_diff`] writes the smallest merge
//! patch between two documents. A failed patch leaves the document as it was.
//!
//! Pure: no async, no I/O.
//!
//! ```
//! use serde_json::json;
//!
//! let mut document = json!({"spec": {"size": 1, "tier": "web"}});
//! concert_merge::json_patch(&mut document, &json!([{"op": "replace", "path": "/spec/size", "value": 2}]))?;
//! concert_merge::merge_patch(&mut document, &json!({"spec": {"tier": null}}));
//! assert_eq!(document, json!({"spec": {"size": 2}}));
//! # Ok::<(), concert_merge::PatchError>(())
//! ```

mod apply;
mod conflict;
mod error;
mod fields;
mod go;
mod json;
mod managed;
mod merge;
mod strategic;

pub use apply::{Applied, Author, Endpoint, Force, Live, SingleVersion, Versions};
pub use conflict::{ApplyError, Conflict, Conflicts};
pub use error::{PatchError, StrategicError};
pub use fields::{Element, FieldSet, FieldsError};
pub use json::json_patch;
pub use managed::{Entry, ManagedFields, ManagedFieldsError, Operation};
pub use merge::{merge_diff, merge_patch};
pub use strategic::strategic_merge_patch;
