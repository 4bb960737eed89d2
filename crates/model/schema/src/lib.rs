//! What an object of a kind looks like, and how it is shown.
//!
//! A [`Schema`] is compiled once and then prunes, defaults and validates objects, with the messages of the real API
//! server. A [`Definition`] is the typed view of a CustomResourceDefinition, with one compiled schema per version.
//! A [`Builtin`] is the same for a kind that needs no definition (ConfigMap, Lease…): data, plus the few rules that
//! schemas cannot say. A [`Column`] computes a cell of `kubectl get`.
//!
//! The way of a write: decode → [`Schema::decode_fault`] → [`Schema::read`] (prunes and fills in defaults, in one walk) →
//! [`Schema::validate`] → [`Schema::check_rules`]; for built-in kinds [`Builtin::decode_fault`] → [`Builtin::prune`] → [`Builtin::prepare`] →
//! [`Builtin::check`].
//!
//! [`Schema::check_rules`] runs the CEL rules last; [`Schema::compile`] has refused those that do not compile or cost too
//! much.
//!
//! Pure: no async, no I/O.
//!
//! ```
//! use concert_schema::Schema;
//! use serde_json::json;
//!
//! let schema = Schema::compile(
//!     &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
//!         "size": {"type": "integer", "minimum": 1}, "tier": {"type": "string", "default": "web"},
//!     }}}}),
//!     "spec.validation.openAPIV3Schema",
//! )
//! .unwrap();
//! let mut object = json!({"spec": {"size": 0, "typo": true}});
//! let read = schema.read(&mut object);
//! assert_eq!(read.unknown, ["spec.typo"]);
//! assert!(read.is_roomy);
//! assert_eq!(object, json!({"spec": {"size": 0, "tier": "web"}}));
//! let errors = schema.validate(&object);
//! assert_eq!(
//!     errors[0].to_string(),
//!     "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
//! );
//! ```

mod builtin;
mod column;
mod crd;
mod duration;
mod json_path;
mod meta;
pub mod protobuf;
mod schema;

pub use builtin::{
    Builtin, Counted, NameRule, Subresource, are_notes_changed, builtins, check_pod_part, convert, definition,
    document, document_name, fingerprint, is_fractional, is_more, keep_notes, part_kind, referred, resized_pod,
    selector_text,
};
pub use column::{Column, age_of};
pub use crd::{Conversion, Definition, Names, Scale, Scope, Version, definition_warnings, established_status};
pub use duration::human_duration;
pub use json_path::{JsonPath, PathError};
pub use schema::{Kind, ListType, Others, Read, Schema};
