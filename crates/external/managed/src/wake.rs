//! Which changes of an object wake its reconciler: those of what is wanted, not those of what we report.

use std::collections::BTreeMap;
use std::sync::Arc;

use concert_api::Object;
use concert_external::{CREATE_FAILED, CREATE_OUTCOME, CREATE_PENDING, CREATE_SUCCEEDED, CREATE_TOKEN, EXTERNAL_NAME};
use concert_runtime::Predicate;

use crate::memory::Memory;

/// Written by us around a create; they say nothing about what is wanted.
const BOOK_KEEPING: [&str; 5] = [CREATE_PENDING, CREATE_SUCCEEDED, CREATE_FAILED, CREATE_TOKEN, CREATE_OUTCOME];

/// Holds for creations, deletions, and updates of generation, labels or annotations (but for book-keeping). A kind
/// whose status is no subresource raises its generation with every status we write: there, spec itself is compared.
pub(crate) fn desired_state_changed(memory: Arc<Memory>, status_subresource: bool) -> Predicate {
    Predicate::new(move |change| {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
        let spec_changed =
            if status_subresource { old.generation() != new.generation() } else { old.spec() != new.spec() };
        spec_changed
            || old.is_deleting() != new.is_deleting()
            || old.finalizers() != new.finalizers() && new.is_deleting()
            || old.labels() != new.labels()
            || foreign_annotations(old, false) != foreign_annotations(new, false)
                && !{
                    // The external name that we wrote down ourselves is no news.
                    memory.is_own_write(new) && foreign_annotations(old, true) == foreign_annotations(new, true)
                }
    })
}

fn foreign_annotations(object: &Object, but_name: bool) -> BTreeMap<String, String> {
    let mut annotations = object.annotations();
    annotations.retain(|key, _| {
        let is_name = but_name && key == EXTERNAL_NAME;
        !is_name && !BOOK_KEEPING.contains(&key.as_str())
    });
    annotations
}
