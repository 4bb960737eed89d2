//! Patches: how a small document changes a large one.
//!
//! [`json_patch`] is RFC 6902 with the semantics of the real API server (negative indices, `replace` that may add,
//! `test` of an absent member against null), [`merge_patch`] is RFC 7386, and [`strategic_merge_patch`] merges lists where the
//! schema of a built-in kind says how. A failed patch leaves the document as it was. [`json_diff`], [`merge_diff`] and
//! [`strategic_merge_diff`] write the patch between two documents.
//!
//! Server-side apply is more than a patch: it knows who set which field. The story of a write:
//!
//! ```text
//!             live object + ManagedFields (parsed, kept beside it)
//!                                 │
//!   POST, PUT, other patches ─────┼───── PATCH with a configuration
//!      Endpoint::update           │         Endpoint::apply
//!   compare live with new         │      merge the configuration into live
//!   others lose what changed      │      prune what its manager dropped
//!   the author gains it           │      conflicts: what changed and others own
//!   too many authors: ancient     │      the manager owns exactly the configuration
//!                                 ▼
//!             new object + new ManagedFields ──► default, admit, validate, store
//! ```
//!
//! An [`Endpoint`] says where a write arrives: the kind and its schema, the subresource, what cannot be changed there. A
//! [`FieldSet`] is a set of paths, as in `fieldsV1`. [`ManagedFields`] are the books of an object. [`Conflicts`] and all
//! other errors have the words of the real server. Inside, one file each: types as views on a schema (`apply/types.rs`),
//! checking, comparing, combining, removing, pruning.
//!
//! Pure: no async, no I/O. Nothing panics on any input, and depth is that of the input.
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

pub use apply::{
    Applied, Author, Endpoint, Force, Live, SingleVersion, Versions, ignored_by_builtin, ignored_by_custom,
};
pub use conflict::{ApplyError, Conflict, Conflicts};
pub use error::{PatchError, StrategicError};
pub use fields::{Element, FieldSet, FieldsError};
pub use json::{json_diff, json_patch};
pub use managed::{Entry, ManagedFields, ManagedFieldsError, Operation, ReplicasPath};
pub use merge::{merge_diff, merge_patch};
pub use strategic::{drop_nulls, strategic_merge_diff, strategic_merge_patch};

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
