//! Who leads: a state machine without I/O, with client-go's rules.
//!
//! Time is the [`Duration`] since some start of *our own* clock. Whether somebody else's lease is over is judged by
//! how long we have not seen its record change, never by the times written in it: clocks differ.

use std::time::Duration;

use concert_api::Time;
use serde_json::{Value, json};

use super::LeaseSettings;

/// What a Lease object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) holder: String,
    pub(crate) seconds: u64,
    pub(crate) acquired: String,
    pub(crate) renewed: String,
    pub(crate) transitions: i64,
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

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Somebody else leads.
    Wait,
    /// There is no Lease yet.
    Create(Record),
    /// Write this, if the Lease still has this resourceVersion.
    Update(Record, String),
}

#[derive(Clone, Debug)]
struct Seen {
    record: Record,
    resource_version: String,
    /// When we first saw this record.
    at: Duration,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Elector {
    settings: LeaseSettings,
    seen: Option<Seen>,
    /// While leading: the resourceVersion of the write that made us leader.
    fence: Option<String>,
    /// When our last successful write was *sent*.
    renewed: Duration,
}

impl Elector {
    pub(crate) fn new(settings: LeaseSettings) -> Self {
        Self { settings, seen: None, fence: None, renewed: Duration::ZERO }
    }

    /// The fence, while leading.
    pub(crate) fn fence(&self) -> Option<&str> {
        self.fence.as_deref()
    }

    /// Who holds the lease, as far as we know.
    pub(crate) fn holder(&self) -> &str {
        self.seen.as_ref().map_or("", |seen| seen.record.holder.as_str())
    }

    /// The Lease was read; `sent` is when the question was asked.
    pub(crate) fn saw(&mut self, lease: Option<(Record, String)>, sent: Duration, now: Duration) {
        let Some((record, resource_version)) = lease else {
            self.seen = None;
            self.fence = None;
            return;
        };
        let ours = record.holder == self.settings.identity;
        if ours && self.fence.is_none() {
            // A write of ours whose answer was lost. It was made before this read was asked for.
            (self.fence, self.renewed) = (Some(resource_version.clone()), sent);
        } else if !ours {
            self.fence = None;
        }
        match &mut self.seen {
            Some(seen) if seen.record == record => seen.resource_version = resource_version,
            _ => self.seen = Some(Seen { record, resource_version, at: now }),
        }
    }

    /// What to write now.
    pub(crate) fn decide(&self, now: Duration, wall: Time) -> Decision {
        let stamp = wall.with_micros();
        let mut record = Record {
            holder: self.settings.identity.clone(),
            seconds: self.settings.duration.as_secs(),
            acquired: stamp.clone(),
            renewed: stamp,
            transitions: 0,
        };
        let Some(seen) = &self.seen else { return Decision::Create(record) };
        if seen.record.holder == self.settings.identity {
            record.acquired.clone_from(&seen.record.acquired);
            record.transitions = seen.record.transitions;
        } else {
            let over = now >= seen.at + Duration::from_secs(seen.record.seconds);
            if !seen.record.holder.is_empty() && !over {
                return Decision::Wait;
            }
            record.transitions = seen.record.transitions + 1;
        }
        Decision::Update(record, seen.resource_version.clone())
    }

    /// Our write was carried out.
    pub(crate) fn wrote(&mut self, record: Record, resource_version: String, sent: Duration, now: Duration) {
        self.fence.get_or_insert_with(|| resource_version.clone());
        self.renewed = sent;
        self.seen = Some(Seen { record, resource_version, at: now });
    }

    /// Whether we led, and can no longer be sure to.
    pub(crate) fn is_lost(&self, now: Duration) -> bool {
        self.fence.is_some() && now >= self.renewed + self.settings.renew_deadline
    }

    /// When [`Elector::is_lost`] becomes true unless a write succeeds.
    pub(crate) fn loses_at(&self) -> Option<Duration> {
        self.fence.as_ref().map(|_| self.renewed + self.settings.renew_deadline)
    }

    /// What to write to let the next one lead at once, if we lead.
    pub(crate) fn release(&self, wall: Time) -> Option<(Record, String)> {
        let seen = self.seen.as_ref().filter(|_| self.fence.is_some())?;
        let stamp = wall.with_micros();
        let (holder, transitions) = (String::new(), seen.record.transitions);
        let record = Record { holder, seconds: 1, acquired: stamp.clone(), renewed: stamp, transitions };
        Some((record, seen.resource_version.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn elector(identity: &str) -> Elector {
        Elector::new(LeaseSettings::new("n", "l", identity))
    }

    fn held(holder: &str, renewed: &str) -> Option<(Record, String)> {
        let record = Record { holder: holder.into(), seconds: 15, renewed: renewed.into(), ..Record::default() };
        Some((record, format!("rv-{renewed}")))
    }

    fn wall(seconds: i64) -> Time {
        Time::from_unix_seconds(seconds)
    }

    #[test]
    fn waits_by_its_own_clock_since_the_record_last_changed() {
        let mut b = elector("b");
        b.saw(held("a", "1"), s(100), s(100));
        // Our wall clock is far ahead of the holder's: that decides nothing.
        assert_eq!(b.decide(s(114), wall(9_999_999)), Decision::Wait);
        b.saw(held("a", "2"), s(114), s(114));
        assert_eq!(b.decide(s(128), wall(0)), Decision::Wait, "the renewal counts from when it was seen");
        b.saw(held("a", "2"), s(128), s(128));
        let Decision::Update(record, version) = b.decide(s(129), wall(0)) else { panic!("the lease is over") };
        assert_eq!((record.holder.as_str(), record.transitions, version.as_str()), ("b", 1, "rv-2"));
    }

    #[test]
    fn a_leader_that_cannot_renew_is_lost_before_others_take_over() {
        let mut a = elector("a");
        a.saw(None, s(0), s(0));
        let Decision::Create(record) = a.decide(s(0), wall(0)) else { panic!("there is none yet") };
        a.wrote(record, "7".into(), s(0), s(1));
        assert_eq!(a.fence(), Some("7"));
        assert!(!a.is_lost(s(9)) && a.is_lost(s(10)), "counted from when the write was sent");
        let Decision::Update(record, version) = a.decide(s(2), wall(2)) else { panic!("renews") };
        a.wrote(record, "8".into(), s(2), s(3));
        assert_eq!((a.fence(), version.as_str(), a.is_lost(s(11))), (Some("7"), "7", false));
    }

    #[test]
    fn a_write_whose_answer_was_lost_is_recognised() {
        let mut a = elector("a");
        a.saw(None, s(0), s(0));
        let _ = a.decide(s(0), wall(0));
        a.saw(held("a", "1"), s(5), s(6));
        assert_eq!(a.fence(), Some("rv-1"));
        a.saw(held("b", "2"), s(8), s(8));
        assert_eq!(a.fence(), None, "somebody took it over");
    }

    #[test]
    fn a_released_lease_is_free_at_once() {
        let mut b = elector("b");
        b.saw(held("a", "1"), s(0), s(0));
        b.saw(held("", "2"), s(1), s(1));
        assert!(matches!(b.decide(s(1), wall(0)), Decision::Update(..)));
    }
}
