//! The decision table: what to do next about one managed object. Pure.
//!
//! [`begin`] decides before anybody is asked, [`plan`] once the provider has looked. Each answer is one [`Step`]; the
//! executor carries it out and, where something changed, asks again. The rows are those of Crossplane's managed
//! reconciler, except where its known traps are avoided: an unknown create is first looked for, also while the object
//! is being deleted, and nothing is updated that does not exist.

use std::time::Duration;

use concert_api::meta;
use serde_json::Value;

use crate::marks::{Creation, EXTERNAL_NAME, FINALIZER, Marks};
use crate::policy::{InvalidPolicy, Policy};
use crate::{CreateToken, KindInfo, NamePolicy, Observation};

/// For how long a kind that announces nothing may not show what was created, as in Crossplane.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// What to do before the provider is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Hands off.
    Paused,
    /// The policies contradict themselves; only a change of the object helps.
    Invalid(InvalidPolicy),
    /// The object goes and the external resource stays: let go without asking anybody.
    Orphan,
    /// Ask the provider.
    Observe(Policy),
}

/// What to do once the provider has looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write finalizer, token and `pending`, then create.
    Create(CreateToken),
    /// A create of unknown outcome did happen: write that down, then look again.
    RecordCreated,
    /// Hold the object (finalizer, external name) before anything else; then look again at the same observation.
    Hold,
    /// Change it.
    Update,
    /// Take over what the provider filled in; then go on with the same observation.
    LateInitialize,
    /// Delete it.
    Delete,
    /// The external resource is gone: let the object go.
    Release,
    /// Nothing to do: report, and look again after the poll interval.
    Settled(Settled),
    /// Not yet: look again soon.
    Wait(Wait),
    /// A create of unknown outcome, and nobody can find out: a person must look.
    Stop,
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is as it should be.
    UpToDate,
    /// It differs, and may not be changed.
    MayNotUpdate,
    /// It is absent, and may not be created.
    MayNotCreate,
    /// It is absent, and is only to be looked at: that is an error.
    NothingToObserve,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// What was created is not visible yet.
    Visible(Duration),
    /// Whether an earlier create happened can only be told after this time.
    Outcome(Duration),
    /// Others still hold the object that is being deleted.
    OtherFinalizers,
}

/// What a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The object, as it was read.
    pub object: &'a Value,
    /// What may be done.
    pub policy: Policy,
    /// What its provider announces about the kind.
    pub kind: &'a KindInfo,
    /// What the provider saw.
    pub observation: &'a Observation,
    /// For how long this process, by its own monotonic clock, has seen it absent since it should have been there.
    pub absent_for: Duration,
    /// How long a call of an earlier process may still have been running.
    pub call_deadline: Duration,
    /// The provider has told this process that it deleted it.
    pub deleted: bool,
}

/// Decides before the provider is asked.
#[must_use]
pub fn begin(object: &Value) -> Begin {
    if meta::annotation(object, crate::policy::PAUSED) == Some("true") {
        return Begin::Paused;
    }
    let policy = match Policy::of(object) {
        Ok(policy) => policy,
        Err(error) => return Begin::Invalid(error),
    };
    if policy.paused {
        Begin::Paused
    } else if meta::is_deleting(object) && !policy.delete {
        Begin::Orphan
    } else {
        Begin::Observe(policy)
    }
}

/// Decides once the provider has looked.
#[must_use]
pub fn plan(situation: &Situation<'_>) -> Step {
    let marks = Marks::of(situation.object);
    if situation.observation.exists { present(situation, &marks) } else { absent(situation, &marks) }
}

fn present(situation: &Situation<'_>, marks: &Marks) -> Step {
    let Situation { object, policy, observation, .. } = situation;
    if marks.creation == Creation::Unknown {
        return Step::RecordCreated;
    }
    if meta::is_deleting(object) {
        return if other_finalizers(object) { Step::Wait(Wait::OtherFinalizers) } else { Step::Delete };
    }
    if !is_held(situation) {
        return Step::Hold;
    }
    if observation.late_initialized && policy.late_initialize {
        return Step::LateInitialize;
    }
    match (observation.up_to_date, policy.update) {
        (true, _) => Step::Settled(Settled::UpToDate),
        (false, true) => Step::Update,
        (false, false) => Step::Settled(Settled::MayNotUpdate),
    }
}

fn absent(situation: &Situation<'_>, marks: &Marks) -> Step {
    let Situation { object, policy, kind, absent_for, call_deadline, .. } = situation;
    let deleting = meta::is_deleting(object);
    let remaining = |wait: Duration| wait.checked_sub(*absent_for).filter(|left| !left.is_zero());
    match marks.creation {
        Creation::Unknown if !kind.names.may_repeat_create() => return Step::Stop,
        Creation::Unknown => {
            // Neither a call that is still running nor an object that is not visible yet may be overlooked, whether
            // it is to be created again or to be given up as gone.
            if let Some(left) = remaining(*call_deadline + kind.consistency_window) {
                return Step::Wait(Wait::Outcome(left));
            }
        }
        Creation::Succeeded if deleting && situation.deleted => {}
        Creation::Succeeded => {
            if let Some(left) = remaining(grace(kind)) {
                return Step::Wait(Wait::Visible(left));
            }
        }
        Creation::None => {}
    }
    if deleting {
        return if other_finalizers(object) { Step::Wait(Wait::OtherFinalizers) } else { Step::Release };
    }
    if policy.create {
        return Step::Create(CreateToken::new(meta::text(object, "uid"), marks.next_attempt));
    }
    if !is_held(situation) && policy.delete {
        return Step::Hold;
    }
    let settled = if policy.only_observes() { Settled::NothingToObserve } else { Settled::MayNotCreate };
    Step::Settled(settled)
}

/// Creating a deterministic name twice is creating it once: no need to wait.
fn grace(kind: &KindInfo) -> Duration {
    match kind.names {
        NamePolicy::Deterministic => kind.consistency_window,
        NamePolicy::SearchedByToken => kind.consistency_window.max(Duration::from_secs(1)),
        NamePolicy::Assigned => kind.consistency_window.max(DEFAULT_GRACE),
    }
}

/// Whether the object has our finalizer, and the external name that belongs to it.
fn is_held(situation: &Situation<'_>) -> bool {
    meta::finalizers(situation.object).contains(&FINALIZER)
        && (meta::annotation(situation.object, EXTERNAL_NAME).is_some() || default_external_name(situation).is_none())
}

fn default_external_name(situation: &Situation<'_>) -> Option<String> {
    external_name(situation.object, situation.kind)
}

/// The external name that an object gets if it has none: its own name, unless the backend chooses.
#[must_use]
pub fn external_name(object: &Value, kind: &KindInfo) -> Option<String> {
    match kind.names {
        NamePolicy::Assigned | NamePolicy::Deterministic => Some(meta::text(object, "name").to_owned()),
        NamePolicy::SearchedByToken => None,
    }
}

fn other_finalizers(object: &Value) -> bool {
    meta::finalizers(object).iter().any(|finalizer| *finalizer != FINALIZER)
}

#[cfg(test)]
mod tests;
