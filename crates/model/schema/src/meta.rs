//! What every object has: the members of its metadata, as data.

use crate::Schema;
use crate::builtin;

/// The schema of `metadata`.
pub(crate) fn schema() -> &'static Schema {
    builtin::metadata()
}
