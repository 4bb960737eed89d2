//! The generation of an object: how often what it asks for has changed.

use concert_api::meta;
use concert_schema::Counted;
use serde_json::Value;

use crate::target::{Part, Target};

/// Any change outside metadata counts; a status that is a subresource does not. Built-in kinds have their own ways: to
/// some what is said to be empty (`is_hollow`) is another thing than nothing.
pub(crate) fn bump(target: &Target, object: &mut Value, old: &Value, is_hollow: bool) {
    let counted = target.version().builtin.map_or(Counted::Content, |builtin| builtin.counted);
    let changed = match counted {
        Counted::Never | Counted::Once => false,
        Counted::Content => is_content_changed(target, object, old),
        Counted::ContentAndHollow => is_hollow || is_content_changed(target, object, old),
        Counted::ContentAndNotes => {
            is_content_changed(target, object, old) || concert_schema::are_notes_changed(object, old)
        }
        Counted::ContentAndAnnotations => {
            is_content_changed(target, object, old)
                || object["metadata"]["annotations"] != old["metadata"]["annotations"]
        }
        Counted::ContentAndLabels => {
            is_content_changed(target, object, old) || object["metadata"]["labels"] != old["metadata"]["labels"]
        }
    };
    if changed && target.part != Part::Status {
        let generation = meta::generation(old) + 1;
        meta::of(object).insert("generation".into(), generation.into());
    }
}

fn is_content_changed(target: &Target, object: &Value, old: &Value) -> bool {
    let status_counts = !target.version().status;
    let counts = |(name, _): &(&String, &Value)| *name != "metadata" && (status_counts || *name != "status");
    let (new, before) = (object.as_object().into_iter().flatten(), old.as_object().into_iter().flatten());
    new.filter(counts).ne(before.filter(counts))
}
