//! Whether a call goes through.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Incarnation, Journal, World};

/// Whom a call is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Actor {
    /// The Kubernetes API.
    Api,
    /// A provider.
    External,
}

/// A call that is about to leave a component.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Number of the life that sends it.
    pub incarnation: u64,
    /// Whom it is meant for.
    pub actor: Actor,
    /// What it does: `GET`, `PATCH`, `create`, `observe`…
    pub verb: &'a str,
    /// What it is about: a path, or kind and name.
    pub key: &'a str,
    /// How often this component has sent this very call before.
    pub attempt: u32,
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes through.
    Pass,
    /// It goes through after a while.
    Delay(Duration),
    /// It is never sent; the caller sees a refused connection.
    Refuse,
    /// It is never sent; the caller sees this answer.
    Fail(u16),
    /// It is carried out, but the caller sees a broken connection.
    LoseReply,
    /// It is never sent and never answered.
    Hang,
    /// The sending life ends before the call is sent.
    CrashBefore,
    /// The call is carried out and the sending life ends before the answer arrives.
    CrashAfter,
}

/// The one function that decides about calls. It must be a pure function of what it was asked before, so that a run
/// can be repeated.
pub trait Gate: Send + Sync + fmt::Debug {
    /// Decides about one call.
    fn admit(&self, call: &Call<'_>) -> Verdict;
}

/// The gate of production: everything passes.
#[derive(Debug)]
pub struct Open;

impl Gate for Open {
    fn admit(&self, _: &Call<'_>) -> Verdict {
        Verdict::Pass
    }
}

/// Why a call did not come back with its own answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Never sent; looks like a refused connection.
    Refused,
    /// Never sent; answered with this HTTP code (or its nearest gRPC relative).
    Failed(u16),
    /// Sent, and perhaps carried out; looks like a broken connection.
    ReplyLost,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("connection refused"),
            Self::Failed(code) => write!(f, "answered with code {code}"),
            Self::ReplyLost => f.write_str("connection closed before the answer arrived"),
        }
    }
}

impl std::error::Error for Stopped {}

/// A component's way through the gate: it puts the question, obeys the verdict and writes the journal.
#[derive(Clone, Debug)]
pub struct Gateway {
    incarnation: Incarnation,
    gate: Arc<dyn Gate>,
    journal: Journal,
}

/// What the verdict leaves to do once the call was carried out.
#[must_use]
#[derive(Debug)]
pub struct Passage {
    reply_lost: bool,
    crash: bool,
    incarnation: Incarnation,
}

impl Gateway {
    /// The way through `world`'s gate.
    #[must_use]
    pub fn new(world: &World) -> Self {
        Self {
            incarnation: world.incarnation.clone(),
            gate: Arc::clone(&world.gate),
            journal: world.journal.clone(),
        }
    }

    /// Asks the gate about a call. `Ok` means: carry it out, then ask the [`Passage`] whether the answer arrives.
    ///
    /// # Errors
    /// The call must not be carried out.
    pub async fn enter(&self, actor: Actor, verb: &str, key: &str, attempt: u32) -> Result<Passage, Stopped> {
        if !self.incarnation.is_alive() {
            return Err(Stopped::Refused);
        }
        let call = Call { incarnation: self.incarnation.id(), actor, verb, key, attempt };
        let verdict = self.gate.admit(&call);
        self.journal.record("call", || format!("{} {actor:?} {verb} {key} #{attempt} {verdict:?}", call.incarnation));
        let pass =
            |reply_lost, crash| Ok(Passage { reply_lost, crash, incarnation: self.incarnation.clone() });
        match verdict {
            Verdict::Pass => pass(false, false),
            Verdict::Delay(duration) => {
                tokio::time::sleep(duration).await;
                pass(false, false)
            }
            Verdict::Refuse => Err(Stopped::Refused),
            Verdict::Fail(code) => Err(Stopped::Failed(code)),
            Verdict::LoseReply => pass(true, false),
            Verdict::CrashAfter => pass(true, true),
            Verdict::CrashBefore => {
                self.incarnation.kill();
                Err(Stopped::Refused)
            }
            Verdict::Hang => std::future::pending().await,
        }
    }
}

impl Passage {
    /// Whether the answer of the call that was carried out arrives.
    ///
    /// # Errors
    /// The answer is lost, by the verdict or because the sender died meanwhile.
    pub fn leave(self) -> Result<(), Stopped> {
        if self.crash {
            self.incarnation.kill();
        }
        if self.reply_lost || !self.incarnation.is_alive() { Err(Stopped::ReplyLost) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Always(Verdict);

    impl Gate for Always {
        fn admit(&self, _: &Call<'_>) -> Verdict {
            self.0.clone()
        }
    }

    async fn enter(verdict: Verdict) -> (Result<Result<(), Stopped>, Stopped>, bool) {
        let world = World { gate: Arc::new(Always(verdict)), ..World::simulated(1) };
        let passage = Gateway::new(&world).enter(Actor::Api, "GET", "/x", 0).await;
        (passage.map(Passage::leave), world.incarnation.is_alive())
    }

    #[tokio::test(start_paused = true)]
    async fn every_verdict_is_obeyed() {
        assert_eq!(enter(Verdict::Pass).await, (Ok(Ok(())), true));
        assert_eq!(enter(Verdict::Delay(Duration::from_secs(9))).await, (Ok(Ok(())), true));
        assert_eq!(enter(Verdict::Refuse).await, (Err(Stopped::Refused), true));
        assert_eq!(enter(Verdict::Fail(503)).await, (Err(Stopped::Failed(503)), true));
        assert_eq!(enter(Verdict::LoseReply).await, (Ok(Err(Stopped::ReplyLost)), true));
        assert_eq!(enter(Verdict::CrashBefore).await, (Err(Stopped::Refused), false));
        assert_eq!(enter(Verdict::CrashAfter).await, (Ok(Err(Stopped::ReplyLost)), false));
        let hang = tokio::time::timeout(Duration::from_secs(3600), enter(Verdict::Hang)).await;
        assert!(hang.is_err(), "a call that hangs never returns");
    }

    #[tokio::test]
    async fn a_dead_life_sends_nothing() {
        let world = World::simulated(1);
        world.incarnation.kill();
        let passage = Gateway::new(&world).enter(Actor::External, "create", "File/a", 0).await;
        assert_eq!(passage.map(Passage::leave), Err(Stopped::Refused));
    }
}
