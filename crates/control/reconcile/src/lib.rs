//! The parts that reconcilers are made of.
//!
//! [`StatusWriter`] is the only caller of a status patch: one write per pass, or none. Sub-reconcilers (child, sequence,
//! cast…) will stand beside it.

mod status;

pub use status::StatusWriter;
