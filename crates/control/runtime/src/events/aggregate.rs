//! Which events are worth telling, and whether as a new one or as one more of the same. Pure.

use std::time::Duration;

use super::Note;
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

/// What makes two events the same: object, type, reason, message.
type Likeness = (String, &'static str, String, String);

/// What to do about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// Create it under this name.
    New { name: String },
    /// Count it on the one of this name; with these words, if it stands for others too.
    Again { name: String, count: u32, words: Option<String> },
    /// Too many about this object.
    Dropped,
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
    /// How many different words there were for one object, type and reason, and when the last.
    similar: Recent<(String, &'static str, String), (usize, Duration)>,
    buckets: Recent<String, Bucket>,
}

impl Aggregate {
    /// Remembers so many different events, and objects.
    pub(super) fn remembering(many: usize) -> Self {
        Self { known: Recent::new(many), similar: Recent::new(many), buckets: Recent::new(many) }
    }

    /// Decides about one event; `fresh` makes a name should it be new.
    pub(super) fn tell(&mut self, note: &Note, now: Duration, fresh: impl FnOnce() -> String) -> Telling {
        if !self.take_token(&note.subject(), now) {
            return Telling::Dropped;
        }
        let likeness = likeness(note);
        if let Some(again) = self.again(&likeness, now, None) {
            return again;
        }
        let (subject, kind, reason, _) = likeness.clone();
        let combined = (subject, kind, reason, COMBINED.to_owned());
        let is_one_of_many = self.has_too_many_words(note, now);
        let words = || format!("{COMBINED}{}", note.message);
        if is_one_of_many && let Some(again) = self.again(&combined, now, Some(words())) {
            return again;
        }
        let likeness = if is_one_of_many { combined } else { likeness };
        let name = fresh();
        self.known.put(likeness, Known { name: name.clone(), count: 1, last: now });
        Telling::New { name }
    }

    fn again(&mut self, likeness: &Likeness, now: Duration, words: Option<String>) -> Option<Telling> {
        let known = self.known.get(likeness).filter(|known| now < known.last + MEMORY)?;
        known.count += 1;
        known.last = now;
        Some(Telling::Again { name: known.name.clone(), count: known.count, words })
    }

    /// Counts an event whose words are new.
    fn has_too_many_words(&mut self, note: &Note, now: Duration) -> bool {
        let of = (note.subject(), note.kind.as_str(), note.reason.clone());
        let before = self.similar.get(&of).filter(|(_, last)| now < *last + MEMORY).map_or(0, |(count, _)| *count);
        self.similar.put(of, (before + 1, now));
        before >= SIMILAR
    }

    /// The event is gone from the server (they live for an hour): tell it anew next time.
    pub(super) fn forget(&mut self, note: &Note) {
        self.known.remove(&likeness(note));
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

fn likeness(note: &Note) -> Likeness {
    (note.subject(), note.kind.as_str(), note.reason.clone(), note.message.clone())
}

#[cfg(test)]
mod tests {
    use super::super::EventKind;
    use super::*;

    fn note(name: &str, message: &str) -> Note {
        let json = format!(r#"{{"kind":"File","apiVersion":"x/v1","metadata":{{"name":"{name}","uid":"u-{name}"}}}}"#);
        let object = concert_api::Object::parse(json.into()).unwrap();
        Note::about(&object, EventKind::Warning, "Failed", message)
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_same_event_is_counted_and_not_repeated() {
        let mut all = Aggregate::remembering(100);
        assert_eq!(all.tell(&note("a", "m"), s(0), || "1".into()), Telling::New { name: "1".into() });
        let again = all.tell(&note("a", "m"), s(5), || unreachable!());
        assert_eq!(again, Telling::Again { name: "1".into(), count: 2, words: None });
        assert_eq!(all.tell(&note("a", "other"), s(5), || "2".into()), Telling::New { name: "2".into() });
        assert_eq!(all.tell(&note("a", "m"), s(700), || "3".into()), Telling::New { name: "3".into() });
    }

    #[test]
    fn events_that_differ_only_in_words_become_one() {
        let mut all = Aggregate::remembering(100);
        let mut tell = |n: usize| all.tell(&note("a", &format!("try {n}")), s(0), || format!("e{n}"));
        for n in 0..SIMILAR {
            assert_eq!(tell(n), Telling::New { name: format!("e{n}") });
        }
        assert_eq!(tell(10), Telling::New { name: "e10".into() }, "the one that stands for the rest");
        let words = Some("(combined from similar events): try 11".to_owned());
        assert_eq!(tell(11), Telling::Again { name: "e10".into(), count: 2, words });
        assert_eq!(tell(3), Telling::Again { name: "e3".into(), count: 2, words: None });
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
