//! How much memory large requests may take together. A body of many small fields becomes trees and sets of fields that
//! are many times larger than its bytes, so whoever sends one waits for room. Small requests never wait; of the others
//! the one goes first whose user has the least, and who waits for too long is told when to come again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use concert_api::{Details, Status};
use tokio::sync::oneshot;

use crate::auth::{MASTERS, User};
use crate::seldom::Seldom;

/// How long a large request waits for its turn. The real server lets one wait for its turn for a quarter of a minute.
const PATIENCE: Duration = Duration::from_secs(15);
/// What one member or item takes while it is worked on: the tree, what is booked of it, and its text. Measured with
/// objects of 150,000 fields: see `docs/measurements.md`.
const NODE: usize = 400;
/// What one byte of text takes: it is there as it came, in the tree, and as it is stored and answered.
const BYTE: usize = 4;

/// Bytes that are shared out.
#[derive(Debug, Default)]
pub(crate) struct Budget(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    most: usize,
    /// One user may have one in so many of them; administrators may have all.
    share: usize,
    used: usize,
    /// Only users who have some are here.
    users: HashMap<Arc<str>, usize>,
    waiting: VecDeque<Waiting>,
    next: u64,
    refused: Seldom,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    claim: Claim,
    turn: oneshot::Sender<()>,
}

/// Who wants how much.
#[derive(Clone, Debug)]
struct Claim {
    user: Arc<str>,
    is_master: bool,
    bytes: usize,
}

impl Inner {
    fn own(&self, user: &Arc<str>) -> usize {
        self.users.get(user).copied().unwrap_or(0)
    }

    /// Whether the user may have it. What is more than all there is, is still given to one who has nothing.
    fn is_due(&self, claim: &Claim) -> bool {
        let own = self.own(&claim.user);
        own == 0 || claim.is_master || own + claim.bytes <= self.most / self.share.max(1)
    }

    fn has_room(&self, claim: &Claim) -> bool {
        self.used == 0 || self.used + claim.bytes <= self.most
    }

    fn give(&mut self, claim: &Claim) {
        self.used += claim.bytes;
        *self.users.entry(Arc::clone(&claim.user)).or_default() += claim.bytes;
    }

    fn take_back(&mut self, claim: &Claim) {
        self.used -= claim.bytes;
        if let Some(own) = self.users.get_mut(&claim.user) {
            *own -= claim.bytes;
            if *own == 0 {
                self.users.remove(&claim.user);
            }
        }
    }

    /// Lets in those whose turn it is. Nobody overtakes the first of them: a large one would never find room.
    fn let_in(&mut self) {
        loop {
            let due = self.waiting.iter().enumerate().filter(|(_, waiting)| self.is_due(&waiting.claim));
            let first = due.min_by_key(|(place, waiting)| (self.own(&waiting.claim.user), *place));
            let Some((place, _)) = first.filter(|(_, waiting)| self.has_room(&waiting.claim)) else { return };
            let Some(Waiting { claim, turn, .. }) = self.waiting.remove(place) else { return };
            self.give(&claim);
            // Whoever has gone gives it back.
            let _ = turn.send(());
        }
    }
}

impl Budget {
    /// Sets how much there is, and which part of it one user may have.
    pub(crate) fn set(&self, most: usize, share: usize) {
        let mut inner = self.lock();
        (inner.most, inner.share) = (most, share);
        inner.let_in();
    }

    /// Waits for so many bytes. Requests of this process itself have no user, and are not counted.
    ///
    /// # Errors
    /// 429: it took too long.
    pub(crate) async fn take(&self, user: Option<&User>, bytes: usize) -> Result<Option<Part>, Status> {
        let Some(user) = user else { return Ok(None) };
        let claim = Claim { user: user.name.as_str().into(), is_master: user.is_in(MASTERS), bytes };
        let (part, turn) = self.queue(claim);
        if tokio::time::timeout(PATIENCE, turn).await.is_ok() {
            return Ok(Some(part));
        }
        let inner = self.lock();
        if let Some(times) = inner.refused.times() {
            let (used, waiting) = (inner.used, inner.waiting.len());
            tracing::warn!(user = user.name, bytes, used, waiting, times, "too many large requests: one is refused");
        }
        drop(inner);
        Err(too_many())
    }

    fn queue(&self, claim: Claim) -> (Part, oneshot::Receiver<()>) {
        let (turn, awaited) = oneshot::channel();
        let mut inner = self.lock();
        let ticket = inner.next;
        inner.next += 1;
        inner.waiting.push_back(Waiting { ticket, claim: claim.clone(), turn });
        inner.let_in();
        (Part { budget: Arc::clone(&self.0), ticket, claim }, awaited)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of the budget, or a place among those who wait for one, until it is dropped.
#[derive(Debug)]
pub(crate) struct Part {
    budget: Arc<Mutex<Inner>>,
    ticket: u64,
    claim: Claim,
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut inner = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.waiting.iter().position(|waiting| waiting.ticket == self.ticket) {
            Some(place) => drop(inner.waiting.remove(place)),
            None => inner.take_back(&self.claim),
        }
        inner.let_in();
    }
}

/// What a text of this size and so many members and items takes while it is worked on.
pub(crate) fn cost(text: &[u8]) -> usize {
    text.len() * BYTE + nodes(text) * NODE
}

/// What a message in protobuf takes: an empty text has two bytes there, a number in a list one.
pub(crate) fn cost_of_protobuf(message: &[u8]) -> usize {
    message.len() * (BYTE + NODE / 2)
}

/// Every member and item but the first stands behind one of these, in JSON and in YAML; the first behind a bracket.
fn nodes(text: &[u8]) -> usize {
    text.iter().filter(|byte| matches!(byte, b',' | b'{' | b'[' | b'\n')).count()
}

fn too_many() -> Status {
    let details = Details { retry_after_seconds: 1, ..Details::default() };
    let message = "the server is working on too many large requests, please try again later";
    Status::failure(429, "TooManyRequests", message).with(details)
}
