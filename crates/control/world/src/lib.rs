//! The seams between our code and the world it runs in.
//!
//! Everything that a test must own is here and nowhere else: what time it is ([`Clock`]), what is random ([`Random`]),
//! which life of a process acts ([`Incarnation`]), whether a call goes through ([`Gate`]), whether a watch event
//! arrives ([`Valve`]), and what happened in which order ([`Journal`]). A [`World`] carries one of each, is cheap to
//! clone, and is given to every component when it is built.
//!
//! In production the seams are open and cost an integer compare. In a simulation (`World::simulated(seed)` on a
//! current-thread tokio runtime with a paused clock) two runs of one seed are the same run: their journals have the
//! same hash.
//!
//! ```
//! use concert_world::World;
//!
//! let (a, b) = (World::simulated(7), World::simulated(7));
//! assert_eq!(a.random.uuid(), b.random.uuid());
//! assert_ne!(a.random.uuid(), World::simulated(8).random.uuid());
//! ```
//!
//! What waits uses `tokio::time` directly: a paused runtime already owns it. Only *timestamps* come from [`Clock`].

mod clock;
mod gate;
mod incarnation;
mod journal;
mod random;
mod valve;

pub use clock::Clock;
pub use gate::{Actor, Call, Gate, Gateway, Open, Passage, Stopped, Verdict};
pub use incarnation::Incarnation;
pub use journal::Journal;
pub use random::Random;
pub use valve::{Delivery, Flow, Valve};

use std::sync::Arc;

/// One of each seam; cloned into every component.
#[derive(Clone, Debug)]
pub struct World {
    /// Timestamps.
    pub clock: Clock,
    /// Uids, generated names, jitter, tokens.
    pub random: Random,
    /// The life of the process that this component belongs to.
    pub incarnation: Incarnation,
    /// Decides about every call that leaves a component.
    pub gate: Arc<dyn Gate>,
    /// Decides about every watch event that arrives.
    pub valve: Valve,
    /// What happened, in order.
    pub journal: Journal,
}

impl World {
    /// The real world: system clock, operating-system entropy, everything open, nothing journalled.
    #[must_use]
    pub fn real() -> Self {
        Self {
            clock: Clock::system(),
            random: Random::from_system(),
            incarnation: Incarnation::first(),
            gate: Arc::new(Open),
            valve: Valve::open(),
            journal: Journal::off(),
        }
    }

    /// A world that follows tokio's (paused) clock and whose randomness comes from `seed`.
    #[must_use]
    pub fn simulated(seed: u64) -> Self {
        Self {
            clock: Clock::simulated(),
            random: Random::seeded(seed),
            journal: Journal::on(),
            ..Self::real()
        }
    }

    /// The same world for the next life of a crashed process: a new incarnation, everything else shared.
    #[must_use]
    pub fn reincarnated(&self) -> Self {
        Self { incarnation: self.incarnation.next(), ..self.clone() }
    }
}

impl Default for World {
    fn default() -> Self {
        Self::real()
    }
}
