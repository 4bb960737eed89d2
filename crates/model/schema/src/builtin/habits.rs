//! What kinds do that no data say: which names they take, which changes they count, what they fill in and refuse.

mod table;

use concert_api::{FieldErrors, Time};
use serde_json::Value;

use super::NameRule;
use table::{PLAIN, TABLE};

/// The cells of an object in a table, one for each column.
pub(super) type Cells = fn(&Value, Time) -> Vec<Value>;

/// Which changes of an object its generation counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// None: there is no generation.
    Never,
    /// None, but it is 1.
    Once,
    /// All outside metadata and status.
    Content,
    /// Those, and what is said to be empty, each time: it is stored as nothing.
    ContentAndHollow,
    /// Those, and those of the annotations of an autoscaler that stand for content.
    ContentAndNotes,
    /// Those, and those of annotations.
    ContentAndAnnotations,
    /// What is outside of metadata, and labels.
    ContentAndLabels,
}

/// What a kind does.
#[derive(Debug)]
pub(super) struct Habits {
    pub(super) name_rule: NameRule,
    pub(super) unconditional_update: bool,
    pub(super) create_on_update: bool,
    pub(super) returned: bool,
    pub(super) keeps_status: bool,
    pub(super) counted: Counted,
    /// What is done to an object that was sent, beyond what its structs say.
    pub(super) read: fn(&mut Value),
    pub(super) prepare: fn(&mut Value, Option<&Value>),
    pub(super) check: fn(&Value, Option<&Value>) -> FieldErrors,
    pub(super) cells: Option<Cells>,
}

/// What a kind does.
pub(super) fn of(group: &str, kind: &str) -> &'static Habits {
    static OTHER: Habits = PLAIN;
    let row = TABLE.iter().find(|(in_group, name, _)| (*in_group, *name) == (group, kind));
    row.map_or(&OTHER, |(_, _, habits)| habits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_habit_is_of_a_kind_there_is() {
        for (group, kind, _) in TABLE {
            let known = super::super::builtins().iter().any(|one| one.gvk.group == *group && one.gvk.kind == *kind);
            assert!(known, "{group} {kind}");
        }
    }
}
