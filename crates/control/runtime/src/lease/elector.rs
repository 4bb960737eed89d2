//! Who leads: a state machine without I/O, with client-go's rules.
//!
//! Whoever drives it asks [`Elector::step`] what to do, does it, and tells what came of it ([`Elector::answered`]).
//! Time is the [`Duration`] since some start of *our own* clock. Whether somebody else's lease is over is judged by
//! how long we have not seen its record change, never by the times written in it: clocks differ.

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::time::Duration;

use concert_api::Time;
use serde_json::{Value, json};

use super::Standing;
use super::settings::{JITTER, LeaseSettings};

/// Who leads, and since when: what a Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who leads; empty if nobody does.
    pub holder: String,
    /// How long it may be silent before others take over.
    pub seconds: u64,
    /// Since when it leads.
    pub acquired: String,
    /// When it said last that it does. Nobody judges by it: clocks differ.
    pub renewed: String,
    /// How often the leader changed.
    pub transitions: i64,
}

impl Record {
    pub(crate) fn read(lease: &Value) -> Self {
        let spec = &lease["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        Self {
            holder: text("holderIdentity"),
            seconds: spec["leaseDurationSeconds"].as_u64().unwrap_or(0),
            acquired: text("acquireTime"),
            renewed: text("renewTime"),
            transitions: spec["leaseTransitions"].as_i64().unwrap_or(0),
        }
    }

    pub(crate) fn spec(&self) -> Value {
        json!({
            "holderIdentity": self.holder, "leaseDurationSeconds": self.seconds,
            "acquireTime": self.acquired, "renewTime": self.renewed, "leaseTransitions": self.transitions,
        })
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing for this long.
    Wait(Duration),
    /// Read the Lease.
    Read,
    /// Write it.
    Write(Write),
    /// We led and no longer do; why.
    Lost(String),
}

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) record: Record,
    /// Only if the Lease still has this resourceVersion; `None`: only if there is none.
    pub(crate) expected: Option<String>,
}

/// What came of a [`Step::Read`] or [`Step::Write`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The Lease and its resourceVersion, if there is one.
    Seen(Option<(Record, String)>),
    /// It was written, and has this resourceVersion now.
    Written(String),
    /// It was not, or nobody knows.
    Failed,
}

#[derive(Clone, Debug)]
struct Seen {
    record: Record,
    resource_version: String,
    /// When we first saw this record.
    at: Duration,
}

/// Where an attempt to acquire or renew is.
#[derive(Clone, Debug)]
enum Stage {
    /// Between attempts.
    Resting { until: Duration },
    /// To be read, or being read.
    Reading,
    /// To be written.
    Writing,
    /// Being written; `quick`: without having been read in this attempt.
    Written { write: Write, sent: Duration, quick: bool },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Elector {
    settings: LeaseSettings,
    stage: Stage,
    seen: Option<Seen>,
    /// While leading: the resourceVersion of the write that made us leader.
    fence: Option<String>,
    /// When our last successful write was *sent*.
    renewed: Duration,
    /// Somebody else was seen to hold what we held.
    taken_over: bool,
    slow_paths: u64,
}

impl Elector {
    pub(crate) fn new(settings: LeaseSettings) -> Self {
        let stage = Stage::Resting { until: Duration::ZERO };
        Self { settings, stage, seen: None, fence: None, renewed: Duration::ZERO, taken_over: false, slow_paths: 0 }
    }

    /// Whether we lead now, as far as our own clock can tell.
    pub(crate) fn standing(&self, now: Duration) -> Standing {
        match &self.fence {
            Some(fence) if self.loses_at().is_some_and(|at| now < at) => Standing::Leading { fence: fence.clone() },
            Some(_) => Standing::Unknown,
            None if self.seen.is_none() => Standing::Unknown,
            None => Standing::Following { leader: self.holder().to_owned() },
        }
    }

    /// How often a renewal without reading first did not work.
    pub(crate) fn slow_paths(&self) -> u64 {
        self.slow_paths
    }

    /// When leadership is lost unless a write succeeds before.
    pub(crate) fn loses_at(&self) -> Option<Duration> {
        self.fence.as_ref().map(|_| self.renewed + self.settings.renew_deadline)
    }

    /// Whether we led and no longer do.
    pub(crate) fn is_lost(&self, now: Duration) -> bool {
        self.taken_over || self.loses_at().is_some_and(|at| now >= at)
    }

    /// Whether we lead by a write that was sent after this.
    pub(crate) fn is_renewed_since(&self, at: Duration) -> bool {
        self.fence.is_some() && self.renewed >= at
    }

    /// Whether the Lease says that it is ours: we lead, or did, or will when a write is answered.
    pub(crate) fn is_ours(&self) -> bool {
        self.holder() == self.settings.identity
    }

    fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| seen.record.holder.as_str())
    }

    /// What to do now. `spread` between 0 and 1 keeps followers from trying all at once.
    pub(crate) fn step(&mut self, now: Duration, wall: Time, spread: f64) -> Step {
        if self.taken_over {
            return Step::Lost(format!("\"{}\" took it over", self.holder()));
        }
        if self.loses_at().is_some_and(|at| now >= at) {
            return Step::Lost(format!("not renewed within {:?}", self.settings.renew_deadline));
        }
        match &self.stage {
            Stage::Resting { until } if now < *until => Step::Wait(*until - now),
            Stage::Resting { .. } if self.fence.is_some() => self.write(now, wall, spread, true),
            Stage::Resting { .. } | Stage::Reading => {
                self.stage = Stage::Reading;
                Step::Read
            }
            Stage::Writing => self.write(now, wall, spread, false),
            // Nobody answered: the driver gave up on it.
            Stage::Written { .. } => self.rest(now, spread),
        }
    }

    /// Begins to write, if the lease is ours or free.
    fn write(&mut self, now: Duration, wall: Time, spread: f64, quick: bool) -> Step {
        let Some(write) = self.wanted(now, wall) else { return self.rest(now, spread) };
        self.stage = Stage::Written { write: write.clone(), sent: now, quick };
        Step::Write(write)
    }

    /// Waits for the next attempt: a leader steadily, the others spread.
    fn rest(&mut self, now: Duration, spread: f64) -> Step {
        let retry = self.settings.retry;
        let wait = match self.loses_at() {
            Some(at) => retry.min(at.saturating_sub(now)),
            None => retry + retry.mul_f64(JITTER * spread),
        };
        self.stage = Stage::Resting { until: now + wait };
        Step::Wait(wait)
    }

    /// What came of the last step.
    pub(crate) fn answered(&mut self, answer: Answer, now: Duration, spread: f64) {
        match (std::mem::replace(&mut self.stage, Stage::Reading), answer) {
            (Stage::Reading, Answer::Seen(lease)) => {
                self.saw(lease, now);
                self.stage = Stage::Writing;
            }
            (Stage::Written { write, sent, .. }, Answer::Written(resource_version)) => {
                self.wrote(write, resource_version, sent, now);
                self.rest(now, spread);
            }
            // Somebody wrote it meanwhile, perhaps we ourselves without hearing of it: read, then write.
            (Stage::Written { quick: true, .. }, _) => self.slow_paths += 1,
            _ => drop(self.rest(now, spread)),
        }
    }

    /// The Lease was read. Reading never makes a leader, even if it is ours: only a write that was answered does. One
    /// that somebody deleted is made anew.
    pub(crate) fn saw(&mut self, lease: Option<(Record, String)>, now: Duration) {
        if lease.as_ref().is_some_and(|(record, _)| record.holder != self.settings.identity) {
            self.taken_over |= self.fence.take().is_some();
        }
        match (&mut self.seen, lease) {
            (seen, None) => *seen = None,
            (Some(seen), Some((record, version))) if seen.record == record => seen.resource_version = version,
            (seen, Some((record, resource_version))) => *seen = Some(Seen { record, resource_version, at: now }),
        }
    }

    /// What to write now; nothing while somebody else leads.
    pub(crate) fn wanted(&self, now: Duration, wall: Time) -> Option<Write> {
        let stamp = wall.with_micros();
        let mut record = Record {
            holder: self.settings.identity.clone(),
            seconds: self.settings.duration.as_secs(),
            acquired: stamp.clone(),
            renewed: stamp,
            transitions: 0,
        };
        let Some(seen) = &self.seen else { return Some(Write { record, expected: None }) };
        if seen.record.holder == self.settings.identity {
            record.acquired.clone_from(&seen.record.acquired);
            record.transitions = seen.record.transitions;
        } else {
            let over = now >= seen.at.saturating_add(Duration::from_secs(seen.record.seconds));
            if !seen.record.holder.is_empty() && !over {
                return None;
            }
            record.transitions = seen.record.transitions.saturating_add(1);
        }
        Some(Write { record, expected: Some(seen.resource_version.clone()) })
    }

    /// Our write was carried out.
    pub(crate) fn wrote(
        &mut self,
        Write { record, expected }: Write,
        resource_version: String,
        sent: Duration,
        now: Duration,
    ) {
        if self.fence.is_none() || expected.is_none() {
            self.fence = Some(resource_version.clone());
        }
        self.renewed = sent;
        self.seen = Some(Seen { record, resource_version, at: now });
    }

    /// What to write to let the next one lead at once, if the Lease says that it is ours. From here on we do not lead,
    /// whether or not anybody hears the answer: it may be carried out.
    pub(crate) fn release(&mut self, wall: Time) -> Option<Write> {
        let seen = self.seen.as_ref().filter(|_| self.is_ours())?;
        self.fence = None;
        let stamp = wall.with_micros();
        let (holder, transitions) = (String::new(), seen.record.transitions);
        let record = Record { holder, seconds: 1, acquired: stamp.clone(), renewed: stamp, transitions };
        Some(Write { record, expected: Some(seen.resource_version.clone()) })
    }

    /// The release was carried out.
    pub(crate) fn released(&mut self, write: Write, resource_version: String, now: Duration) {
        self.seen = Some(Seen { record: write.record, resource_version, at: now });
    }
}
