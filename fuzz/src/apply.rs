//! Server-side apply: any sequence of applies and updates, on objects and through the server.

pub(crate) mod books;
pub(crate) mod served;

use concert_api::decode;
use concert_merge::Force;
use serde_json::Value;

use crate::input::Input;
use crate::kinds::PATCHED;
use books::Stored;
use served::Served;

const MANAGERS: [&str; 4] = ["a", "b", "kubectl", ""];
const SUBRESOURCES: [&str; 2] = ["", "status"];
/// More steps find nothing new.
const STEPS_MAX: usize = 8;

/// What a step does.
#[derive(Clone, Copy)]
enum Act {
    Apply(Force),
    Update,
}

const ACTS: [Act; 3] = [Act::Apply(Force::No), Act::Apply(Force::Yes), Act::Update];

/// A write, by whom, and where.
struct Step<'a> {
    act: Act,
    manager: &'a str,
    subresource: &'a str,
    object: Value,
}

/// Choices: kind. Every further line is a step: what is done, by whom, where (one character each), then the object.
pub fn apply(data: &[u8]) {
    let mut input = Input::of(data);
    let kind = input.choose(&PATCHED);
    let steps: Vec<Step<'_>> = std::iter::from_fn(|| step(input.line())).take(STEPS_MAX).collect();
    let mut stored = Stored::nothing(kind);
    let mut served = Served::nothing(kind);
    for Step { act, manager, subresource, object } in steps {
        match act {
            Act::Apply(force) => {
                stored = stored.applied(&object, manager, subresource, force);
                served.apply(&object, manager, subresource, force);
            }
            Act::Update => {
                stored = stored.updated(&object, manager, subresource);
                served.update(&object, manager, subresource);
            }
        }
    }
}

fn step(line: &[u8]) -> Option<Step<'_>> {
    let (choices, object) = line.split_at_checked(3)?;
    let mut choices = Input::of(choices);
    let act = *choices.choose(&ACTS);
    let (manager, subresource) = (*choices.choose(&MANAGERS), *choices.choose(&SUBRESOURCES));
    Some(Step { act, manager, subresource, object: decode(object).ok()?.value })
}
