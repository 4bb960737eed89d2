//! Which events are worth telling, and whether as a new one or as one more of the same. Pure.

use std::time::Duration;

use super::event::{Event, cut};
use super::recent::Recent;

/// An event is "the same" as an earlier one for this long, as in client-go.
const MEMORY: Duration = Duration::from_secs(600);
/// So many events per object at once…
const BURST: u32 = 25;
/// …then one per this time.
const REFILL: Duration = Duration::from_secs(300);
/// So many events that differ only in their words; further ones become one, as in client-go.
const SIMILAR: usize = 10;
/// What such a one begins with.
const COMBINED: &str = "(combined from similar events): ";

/// What makes two events the same: object, type, sort, message.
type Likeness = (String, &'static str, String, String);

/// What to do about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// Create it under this name, with these words.
    New { name: String, words: String },
    /// Count it on the one of this name; should that be gone, create it with these words. What is there keeps its own:
    /// the API lets nobody change them.
    Again { name: String, count: u32, words: String },
    /// Too many about this object.
    Dropped,
}

impl Telling {
    /// The event's.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::New { name, .. } | Self::Again { name, .. } => name,
            Self::Dropped => "",
        }
    }
}

#[derive(Debug)]
struct Known {
    name: String,
    count: u32,
    last: Duration,
}

#[derive(Debug)]
struct Bucket {
    tokens: u32,
    refilled: Duration,
}

#[derive(Debug)]
pub(super) struct Aggregate {
    known: Recent<Likeness, Known>,
    /// How many different words there were for one object, type and sort, and when the last.
    similar: Recent<(String, &'static str, String), (usize, Duration)>,
    buckets: Recent<String, Bucket>,
}

impl Aggregate {
    /// Remembers so many different events, and objects.
    pub(super) fn remembering(many: usize) -> Self {
        Self { known: Recent::new(many), similar: Recent::new(many), buckets: Recent::new(many) }
    }

    /// Decides about one event; `fresh` makes a name should it be new.
    pub(super) fn tell(&mut self, event: &Event, now: Duration, fresh: impl FnOnce() -> String) -> Telling {
        if !self.take_token(&event.subject(), now) {
            return Telling::Dropped;
        }
        let likeness = likeness(event);
        if let Some((name, count)) = self.again(&likeness, now) {
            return Telling::Again { name, count, words: event.message.clone() };
        }
        let (likeness, words) = match self.has_too_many_words(event, now) {
            true => (combined(event), cut(&format!("{COMBINED}{}", event.message))),
            false => (likeness, event.message.clone()),
        };
        if let Some((name, count)) = self.again(&likeness, now) {
            return Telling::Again { name, count, words };
        }
        let name = fresh();
        self.known.put(likeness, Known { name: name.clone(), count: 1, last: now });
        Telling::New { name, words }
    }

    /// Counts an event on one that is there, if there is one.
    fn again(&mut self, likeness: &Likeness, now: Duration) -> Option<(String, u32)> {
        let known = self.known.get(likeness).filter(|known| now < known.last + MEMORY)?;
        known.count += 1;
        known.last = now;
        Some((known.name.clone(), known.count))
    }

    /// Counts an event whose words are new.
    fn has_too_many_words(&mut self, event: &Event, now: Duration) -> bool {
        let of = (event.subject(), event.kind.as_str(), event.sort());
        let before = self.similar.get(&of).filter(|(_, last)| now < *last + MEMORY).map_or(0, |(count, _)| *count);
        self.similar.put(of, (before + 1, now));
        before >= SIMILAR
    }

    /// The server did not take what was told under this name: tell it anew next time.
    pub(super) fn forget(&mut self, event: &Event, name: &str) {
        for likeness in [likeness(event), combined(event)] {
            if self.known.get(&likeness).is_some_and(|known| known.name == name) {
                self.known.remove(&likeness);
            }
        }
    }

    fn take_token(&mut self, subject: &String, now: Duration) -> bool {
        let Some(bucket) = self.buckets.get(subject) else {
            self.buckets.put(subject.clone(), Bucket { tokens: BURST - 1, refilled: now });
            return true;
        };
        while bucket.tokens < BURST && now >= bucket.refilled + REFILL {
            bucket.tokens += 1;
            bucket.refilled += REFILL;
        }
        if bucket.tokens == BURST {
            bucket.refilled = now;
        }
        let allowed = bucket.tokens > 0;
        bucket.tokens = bucket.tokens.saturating_sub(1);
        allowed
    }
}

fn likeness(event: &Event) -> Likeness {
    (event.subject(), event.kind.as_str(), event.sort(), event.message.clone())
}

/// The one that stands for many that differ only in their words.
fn combined(event: &Event) -> Likeness {
    (event.subject(), event.kind.as_str(), event.sort(), COMBINED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::EventKind;
    use super::*;

    fn note(name: &str, message: &str) -> Event {
        let json = format!(r#"{{"kind":"File","apiVersion":"x/v1","metadata":{{"name":"{name}","uid":"u-{name}"}}}}"#);
        let object = concert_api::Object::parse(json.into()).unwrap();
        Event::new(&object, EventKind::Warning, "Failed", message)
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn new(name: &str, words: &str) -> Telling {
        Telling::New { name: name.into(), words: words.into() }
    }

    fn again(name: &str, count: u32, words: &str) -> Telling {
        Telling::Again { name: name.into(), count, words: words.into() }
    }

    #[test]
    fn the_same_event_is_counted_and_not_repeated() {
        let mut all = Aggregate::remembering(100);
        assert_eq!(all.tell(&note("a", "m"), s(0), || "1".into()), new("1", "m"));
        assert_eq!(all.tell(&note("a", "m"), s(5), || unreachable!()), again("1", 2, "m"));
        assert_eq!(all.tell(&note("a", "other"), s(5), || "2".into()), new("2", "other"));
        assert_eq!(all.tell(&note("a", "m"), s(700), || "3".into()), new("3", "m"));
    }

    #[test]
    fn events_that_differ_only_in_words_become_one() {
        let mut all = Aggregate::remembering(100);
        let tell = |all: &mut Aggregate, n: usize| all.tell(&note("a", &format!("try {n}")), s(0), || format!("e{n}"));
        for n in 0..SIMILAR {
            assert_eq!(tell(&mut all, n), new(&format!("e{n}"), &format!("try {n}")));
        }
        let words = |n: usize| format!("(combined from similar events): try {n}");
        assert_eq!(tell(&mut all, 10), new("e10", &words(10)), "the one that stands for the rest");
        assert_eq!(tell(&mut all, 11), again("e10", 2, &words(11)));
        assert_eq!(tell(&mut all, 3), again("e3", 2, "try 3"));
        all.forget(&note("a", "try 3"), "e3");
        assert_eq!(tell(&mut all, 12), again("e10", 3, &words(12)), "the failure of one is not that of the others");
        all.forget(&note("a", "try 12"), "e10");
        assert_eq!(tell(&mut all, 13), new("e13", &words(13)));
    }

    #[test]
    fn a_noisy_object_is_silenced_and_others_are_not() {
        let mut all = Aggregate::remembering(100);
        let told =
            |all: &mut Aggregate, name: &str, now| all.tell(&note(name, "m"), now, || "n".into()) != Telling::Dropped;
        assert_eq!((0..100).filter(|_| told(&mut all, "a", s(0))).count(), 25);
        assert!(told(&mut all, "b", s(0)));
        assert!(!told(&mut all, "a", s(299)) && told(&mut all, "a", s(300)) && !told(&mut all, "a", s(301)));
    }
}
