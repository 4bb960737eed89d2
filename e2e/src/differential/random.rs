//! Random scenarios: a seed decides a kind, its schema, and what several managers write to one object.
//!
//! ```text
//! seed ─► Dice ─► Subject ── a random schema, or a built-in kind with values that fit (kinds.yaml)
//!                    │
//!                  Play ──── 5 to 15 writes: applies, patches, edits, status, scale, resets, odd ones
//!                    │
//!                Scenario ── run, normalised and compared as any other
//!                    │ differs
//!                 shrink ─── steps, fields and schemas go as long as it still does; the rest is a scenario file
//! ```

pub mod hunt;
mod play;
mod schema;
mod shape;
pub mod shrink;
mod strategic;
mod subject;
mod value;

use super::Scenario;
use crate::Dice;
use play::Play;
use subject::Subject;

/// The scenario of a seed: half of them are about built-in kinds.
#[must_use]
pub fn scenario(seed: u64) -> Scenario {
    let mut dice = Dice::new(seed);
    let subject = if seed.is_multiple_of(2) { Subject::custom(&mut dice) } else { Subject::builtin(&mut dice) };
    let steps = Play::new(&mut dice, &subject).steps();
    let what = format!("The random writes of seed {seed}.");
    Scenario { group: "random".to_owned(), name: seed.to_string(), bare: true, what, steps }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_scenario() {
        for seed in 0..200 {
            assert_eq!(format!("{:?}", scenario(seed)), format!("{:?}", scenario(seed)));
        }
    }

    #[test]
    fn other_seeds_give_other_scenarios() {
        let all: std::collections::BTreeSet<String> =
            (0..200).map(|seed| format!("{:?}", scenario(seed).steps)).collect();
        assert!(all.len() > 190, "only {} different ones", all.len());
    }
}
