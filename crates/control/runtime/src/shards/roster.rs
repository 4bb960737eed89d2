//! Who takes part, as seen from here: members whose records change. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::lease::elector::Record;

/// What is known of a member's Lease.
#[derive(Debug)]
struct Seen {
    record: Record,
    /// When we first saw this record, by our own clock.
    at: Duration,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Roster(BTreeMap<String, Seen>);

impl Roster {
    /// These are the members' Leases now, by name.
    pub(super) fn saw(&mut self, leases: BTreeMap<String, Record>, now: Duration) {
        self.0.retain(|name, _| leases.contains_key(name));
        for (name, record) in leases {
            match self.0.get(&name) {
                Some(seen) if seen.record == record => {}
                _ => drop(self.0.insert(name, Seen { record, at: now })),
            }
        }
    }

    /// The identities of those that live.
    pub(super) fn members(&self, now: Duration) -> BTreeSet<String> {
        let live = self.0.values().filter(|seen| seen.age(now) < seen.lifetime());
        live.map(|seen| seen.record.holder.clone()).filter(|holder| !holder.is_empty()).collect()
    }

    /// The Leases of those that have been dead for long: nobody will miss them.
    pub(super) fn remains(&self, now: Duration) -> Vec<String> {
        let long_dead = |seen: &Seen| seen.age(now) > seen.lifetime().saturating_mul(10);
        self.0.iter().filter(|(_, seen)| long_dead(seen)).map(|(name, _)| name.clone()).collect()
    }
}

impl Seen {
    fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.at)
    }

    fn lifetime(&self) -> Duration {
        Duration::from_secs(self.record.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases(all: &[(&str, &str)]) -> BTreeMap<String, Record> {
        let record = |renewed: &str, holder: &str| Record {
            holder: holder.into(),
            seconds: 15,
            renewed: renewed.into(),
            ..Record::default()
        };
        all.iter().map(|(holder, renewed)| (format!("lease-{holder}"), record(renewed, holder))).collect()
    }

    #[test]
    fn a_member_lives_as_long_as_its_record_changes() {
        let s = Duration::from_secs;
        let mut roster = Roster::default();
        roster.saw(leases(&[("a", "1"), ("b", "1")]), s(0));
        roster.saw(leases(&[("a", "2"), ("b", "1")]), s(10));
        let members = |roster: &Roster, now: u64| roster.members(s(now)).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(members(&roster, 14), "a b");
        assert_eq!(members(&roster, 15), "a", "b was not seen to renew");
        assert_eq!((roster.remains(s(150)), roster.remains(s(151))), (vec![], vec!["lease-b".to_owned()]));
        roster.saw(leases(&[("a", "3")]), s(160));
        assert_eq!((members(&roster, 160), roster.remains(s(161)).len()), ("a".into(), 0));
    }
}
