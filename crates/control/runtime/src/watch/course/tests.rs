//! The course of a watch, by example, and against a server with a history and any sequence of faults.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const NOW: Duration = Duration::ZERO;

fn wait(course: &mut Course) -> Duration {
    match course.next(true) {
        Step::Wait(wait) => wait,
        step => panic!("{step:?} instead of a wait"),
    }
}

/// A course that watches from revision 5.
fn watching() -> Course {
    let mut course = Course::new(Random::seeded(1));
    assert_eq!(course.next(true), Step::List);
    assert_eq!(course.note(Happened::Answered), Means::Reset);
    assert_eq!(course.note(Happened::Marked { at: "5", ends_list: true }), Means::Complete);
    course
}

#[test]
fn goes_on_where_it_was() {
    let mut course = watching();
    course.note(Happened::Moved("9"));
    course.note(Happened::Ended { lived: Duration::from_secs(290) });
    assert_eq!(course.next(true), Step::Watch("9".into()), "a watch that lived its time goes on at once");
    course.note(Happened::Answered);
    course.note(Happened::Silent);
    assert_eq!(course.next(true), Step::Watch("9".into()), "and so does one that died without a word");
}

#[test]
fn lists_anew_when_the_history_is_gone() {
    let mut course = watching();
    course.note(Happened::Expired { lived: NOW });
    assert!(wait(&mut course) < Duration::from_secs(1));
    assert_eq!(course.next(true), Step::List);
}

#[test]
fn a_kind_that_comes_back_has_a_history_of_its_own() {
    let mut course = watching();
    course.note(Happened::Missing);
    wait(&mut course);
    assert_eq!(course.next(true), Step::List, "not what happened after revision 5 of the one that went");
}

#[test]
fn a_bookmark_that_does_not_say_so_ends_no_list() {
    let mut course = Course::new(Random::seeded(1));
    assert_eq!(course.next(true), Step::List);
    course.note(Happened::Answered);
    assert_eq!(course.note(Happened::Marked { at: "5", ends_list: false }), Means::PagesOnly);
    assert_eq!(course.next(false), Step::Page(String::new()), "it took the list for a watch: all is still to come");
}

#[test]
fn a_server_that_went_back_has_another_history() {
    let mut course = watching();
    course.note(Happened::Moved("100"));
    assert_eq!(course.note(Happened::Marked { at: "100", ends_list: false }), Means::Progress);
    assert_eq!(course.note(Happened::Marked { at: "60", ends_list: false }), Means::WentBack);
    wait(&mut course);
    assert_eq!(course.next(true), Step::List);
}

#[test]
fn trouble_waits_longer_each_time_until_something_arrives() {
    let mut course = watching();
    let mut last = NOW;
    for _ in 0..5 {
        course.note(Happened::Failed { retry_after: None });
        let now = wait(&mut course);
        assert!(now > last && now <= Duration::from_secs(30), "{now:?} after {last:?}");
        last = now;
        course.next(true);
    }
    course.note(Happened::Moved(""));
    course.note(Happened::Failed { retry_after: None });
    assert!(wait(&mut course) < Duration::from_secs(1));
    course.note(Happened::Failed { retry_after: Some(Duration::from_secs(77)) });
    assert_eq!(wait(&mut course), Duration::from_secs(77));
    course.note(Happened::Failed { retry_after: Some(Duration::from_secs(86_400)) });
    assert_eq!(wait(&mut course), RETRY_AFTER_MAX);
}

#[test]
fn a_watch_that_breaks_late_is_no_growing_trouble() {
    let mut course = watching();
    for _ in 0..9 {
        course.note(Happened::Broke { lived: Duration::from_secs(55) });
        assert!(wait(&mut course) < Duration::from_secs(1));
        course.next(true);
    }
}

#[test]
fn lists_grow_rare_in_a_storm_of_expiries_although_events_arrive_between() {
    let mut course = watching();
    let mut waits = Vec::new();
    for _ in 0..8 {
        course.note(Happened::Moved("7"));
        course.note(Happened::Expired { lived: Duration::from_secs(2) });
        waits.push(wait(&mut course));
        assert_eq!(course.next(true), Step::List);
        course.note(Happened::Answered);
        course.note(Happened::Marked { at: "7", ends_list: true });
    }
    assert!(waits[7] > Duration::from_secs(20), "{waits:?}");
    course.note(Happened::Ended { lived: Duration::from_secs(290) });
    course.next(true);
    course.note(Happened::Expired { lived: NOW });
    assert!(wait(&mut course) < Duration::from_secs(1), "a watch that lasted makes up for it");
}

#[test]
fn a_server_that_is_not_reached_is_asked_for_events_again() {
    let mut course = Course::new(Random::seeded(1));
    assert_eq!(course.next(true), Step::List);
    course.note(Happened::Failed { retry_after: None });
    wait(&mut course);
    assert_eq!(course.next(true), Step::List);
}

#[test]
fn a_list_that_is_not_understood_is_asked_for_in_pages() {
    let mut course = Course::new(Random::seeded(1));
    assert_eq!(course.next(true), Step::List);
    assert_eq!(course.note(Happened::Misunderstood), Means::Nothing, "others may still be understood");
    wait(&mut course);
    assert_eq!(course.next(true), Step::Page(String::new()));
    course.note(Happened::Misunderstood);
    wait(&mut course);
    assert_eq!(course.next(true), Step::Page(String::new()));
}

#[test]
fn what_does_not_get_through_one_way_is_tried_the_other_way() {
    let mut course = Course::new(Random::seeded(1));
    assert_eq!(course.next(true), Step::List);
    course.note(Happened::Answered);
    assert_eq!(course.patience(), LIST_SILENCE);
    course.note(Happened::Silent);
    wait(&mut course);
    assert_eq!(course.next(true), Step::Page(String::new()));
    course.note(Happened::Answered);
    course.note(Happened::PageRead { next: "more", at: "5" });
    assert_eq!(course.next(true), Step::Page("more".into()));
    course.note(Happened::Expired { lived: NOW });
    wait(&mut course);
    assert_eq!(course.next(true), Step::List);
}

/// What a server of the model makes of the question for a list as events.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Knows {
    Lists,
    Refuses,
    /// Takes it for a plain watch, as servers of long ago do; whether it sends bookmarks.
    Ignores(bool),
}

/// How an answer ends, if the server does not say all it has to.
#[derive(Clone, Copy, Debug)]
enum End {
    Fails(Option<u64>),
    Missing,
    Gone,
    Ends(u64),
    Breaks(u64),
    Silence,
}

/// What happens around one question: what is written before it and while it is answered, whether the history is forgotten,
/// how much of the answer arrives, and how it ends.
#[derive(Clone, Debug)]
struct Turn {
    before: Vec<(u8, bool)>,
    during: Vec<(u8, bool)>,
    forgets: bool,
    arrives: usize,
    end: End,
}

/// The history of a server: at each revision one key was written or deleted.
#[derive(Debug)]
struct Server {
    knows: Knows,
    log: Vec<(u8, bool)>,
    forgotten: usize,
}

impl Server {
    fn write(&mut self, writes: &[(u8, bool)]) {
        for &(key, delete) in writes {
            if !delete || self.state(self.log.len()).contains_key(&key) {
                self.log.push((key, delete));
            }
        }
    }

    /// Key → the revision it was written at.
    fn state(&self, at: usize) -> BTreeMap<u8, usize> {
        let mut state = BTreeMap::new();
        for (revision, (key, delete)) in (1..).zip(&self.log[..at]) {
            if *delete {
                state.remove(key)
            } else {
                state.insert(*key, revision)
            };
        }
        state
    }
}

/// Who reads the watch, as a cache does, and who drives it, as [`Watch`](super::super::Watch) does.
struct House {
    course: Course,
    server: Server,
    as_events: bool,
    known: BTreeMap<u8, usize>,
    listed: BTreeSet<u8>,
    /// Everything up to this revision is known, since the last list.
    at: usize,
    /// Failures since something arrived, and questions since a wait or something that arrived.
    failures: u32,
    asked: u32,
}

/// The same, in fine weather: nothing is cut off.
fn fine() -> Turn {
    Turn { before: vec![], during: vec![], forgets: false, arrives: usize::MAX, end: End::Ends(290) }
}

impl House {
    fn new(knows: Knows, seed: u64) -> Self {
        let (server, course) = (Server { knows, log: vec![], forgotten: 0 }, Course::new(Random::seeded(seed)));
        let (known, listed) = (BTreeMap::new(), BTreeSet::new());
        Self { course, server, as_events: true, known, listed, at: 0, failures: 0, asked: 0 }
    }

    /// Asks once, after having waited if need be.
    fn ask(&mut self, turn: &Turn) {
        self.server.write(&turn.before);
        if turn.forgets {
            self.server.forgotten = self.server.log.len();
        }
        let mut step = self.course.next(self.as_events);
        if let Step::Wait(_) = step {
            self.asked = 0;
            step = self.course.next(self.as_events);
        }
        self.asked += 1;
        assert!(self.asked <= 3, "it asks again and again without a wait");
        match step {
            Step::Wait(_) => panic!("two waits in a row"),
            Step::Page(token) => self.page(&token, turn),
            Step::List if self.server.knows == Knows::Refuses => self.note(Happened::PagesOnly),
            Step::List => self.stream(None, turn),
            Step::Watch(from) => {
                assert_eq!(from, self.at.to_string(), "it goes on exactly where the reader is");
                self.stream(Some(self.at), turn);
            }
        }
    }

    fn page(&mut self, token: &str, turn: &Turn) {
        let number = |text: &str| text.parse::<usize>().unwrap();
        let parts = token.split_once('@').map(|(start, at)| (number(start), number(at)));
        let (start, at) = parts.unwrap_or((0, self.server.log.len()));
        let again = !token.is_empty();
        if self.refuses(turn, again && at < self.server.forgotten) {
            return;
        }
        self.note(Happened::Answered);
        let state = self.server.state(at);
        self.server.write(&turn.during);
        for (sent, (key, revision)) in state.iter().skip(start).take(2).enumerate() {
            if sent >= turn.arrives {
                return self.end(turn.end);
            }
            self.object(*key, *revision, false);
        }
        let next = if start + 2 < state.len() { format!("{}@{at}", start + 2) } else { String::new() };
        self.asked = 0;
        self.note(Happened::PageRead { next: &next, at: &at.to_string() });
    }

    /// Whether the server has no answer at all.
    fn refuses(&mut self, turn: &Turn, gone: bool) -> bool {
        let refuses = gone || turn.arrives == 0;
        if gone {
            self.trouble(Happened::Expired { lived: NOW }, None);
        } else if refuses {
            self.end(turn.end);
        }
        refuses
    }

    /// A list as events if it is from nowhere, and what happened since.
    fn stream(&mut self, from: Option<usize>, turn: &Turn) {
        if self.refuses(turn, from.is_some_and(|from| from < self.server.forgotten)) {
            return;
        }
        self.note(Happened::Answered);
        let mut left = turn.arrives;
        let start = from.unwrap_or(self.server.log.len());
        if from.is_none() {
            for (key, revision) in self.server.state(start) {
                if left == 0 {
                    return self.end(turn.end);
                }
                left -= 1;
                self.object(key, revision, false);
            }
        }
        // What is written meanwhile comes before the end of the list, or after it.
        let (early, late) = turn.during.split_at(turn.during.len() / 2);
        self.server.write(early);
        let Some(sent) = self.events(start, &mut left) else { return self.end(turn.end) };
        if from.is_none() && self.server.knows == Knows::Lists {
            self.note(Happened::Marked { at: &sent.to_string(), ends_list: true });
        }
        self.server.write(late);
        if self.events(sent, &mut left).is_none() {
            return self.end(turn.end);
        }
        if self.server.knows != Knows::Ignores(false) {
            let at = self.server.log.len().to_string();
            self.note(Happened::Marked { at: &at, ends_list: false });
        }
        if self.course.is_reading() {
            self.end(if self.course.is_listing() { End::Silence } else { turn.end });
        }
    }

    /// Sends what was written after a revision; up to which, unless there is nothing left to send it with.
    fn events(&mut self, after: usize, left: &mut usize) -> Option<usize> {
        for revision in after + 1..=self.server.log.len() {
            *left = left.checked_sub(1)?;
            let (key, deleted) = self.server.log[revision - 1];
            self.object(key, revision, deleted);
        }
        Some(self.server.log.len())
    }

    fn object(&mut self, key: u8, revision: usize, deleted: bool) {
        let listing = self.course.is_listing();
        if deleted {
            self.known.remove(&key);
        } else {
            self.known.insert(key, revision);
        }
        if listing {
            self.listed.insert(key);
        } else {
            assert!(revision > self.at, "revision {revision} after {}", self.at);
            (self.at, self.failures, self.asked) = (revision, 0, 0);
        }
        self.note(Happened::Moved(&revision.to_string()));
    }

    fn note(&mut self, happened: Happened<'_>) {
        let means = self.course.note(happened);
        match (means, happened) {
            (Means::Nothing, _) | (Means::Opened, Happened::Answered) => {}
            (Means::Reset, _) => self.listed.clear(),
            (Means::Complete, Happened::PageRead { at, .. } | Happened::Marked { at, .. }) => {
                self.known.retain(|key, _| self.listed.contains(key));
                (self.at, self.asked) = (at.parse().unwrap(), 0);
            }
            (Means::Progress, Happened::Marked { at, .. }) => {
                let at = at.parse().unwrap();
                assert!(at >= self.at, "a watch never goes back");
                (self.at, self.failures, self.asked) = (at, 0, 0);
            }
            (Means::PagesOnly, _) => self.as_events = false,
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, end: End) {
        let lived = |seconds: u64| Duration::from_secs(seconds);
        match end {
            End::Fails(after) => {
                let retry_after = after.map(Duration::from_secs);
                self.trouble(Happened::Failed { retry_after }, retry_after);
            }
            End::Missing => self.trouble(Happened::Missing, None),
            End::Gone => self.trouble(Happened::Expired { lived: NOW }, None),
            End::Breaks(seconds) => {
                self.failures = if seconds >= 1 { 0 } else { self.failures };
                self.trouble(Happened::Broke { lived: lived(seconds) }, None);
            }
            End::Silence if self.course.is_listing() => self.trouble(Happened::Silent, None),
            End::Silence => self.calm(Happened::Silent),
            End::Ends(seconds) if seconds >= 1 => self.calm(Happened::Ended { lived: lived(seconds) }),
            End::Ends(_) => self.trouble(Happened::Ended { lived: NOW }, None),
        }
    }

    /// What is no trouble need not be waited for.
    fn calm(&mut self, happened: Happened<'_>) {
        self.note(happened);
        (self.failures, self.asked) = (0, 0);
    }

    /// Every trouble is waited for: longer each time, never too long, and not shorter than the server asks.
    fn trouble(&mut self, happened: Happened<'_>, asked_for: Option<Duration>) {
        self.note(happened);
        assert!(!self.course.is_reading(), "what failed is over");
        let Some(wait) = self.course.wait else { panic!("no wait after {happened:?}") };
        let least = Duration::from_millis(800).saturating_mul(1 << self.failures.min(10)).min(Duration::from_secs(30));
        self.failures += 1;
        assert!(wait >= least.mul_f64(0.8), "{wait:?} after {} failures", self.failures);
        let asked_for = asked_for.unwrap_or_default().min(Duration::from_secs(300));
        assert!(wait >= asked_for && wait <= asked_for.max(Duration::from_secs(30)), "{wait:?} for {asked_for:?}");
    }
}

fn writes() -> impl Strategy<Value = Vec<(u8, bool)>> {
    prop::collection::vec((0..5u8, prop::bool::weighted(0.4)), 0..4)
}

fn turns() -> impl Strategy<Value = Turn> {
    let end = prop_oneof![
        prop::option::of(0..400u64).prop_map(End::Fails),
        Just(End::Missing),
        Just(End::Gone),
        prop_oneof![Just(0), Just(1), Just(290)].prop_map(End::Ends),
        prop_oneof![Just(0), Just(1), Just(290)].prop_map(End::Breaks),
        Just(End::Silence),
    ];
    (writes(), writes(), prop::bool::weighted(0.2), 0..6usize, end)
        .prop_map(|(before, during, forgets, arrives, end)| Turn { before, during, forgets, arrives, end })
}

fn servers() -> impl Strategy<Value = Knows> {
    prop_oneof![Just(Knows::Lists), Just(Knows::Refuses), any::<bool>().prop_map(Knows::Ignores)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever goes wrong, and however often: when it stops, whoever reads knows exactly what the server has, every
    /// trouble was waited for, and nothing was asked for in a tight loop ([`House`] looks at these on the way).
    #[test]
    fn after_the_last_fault_the_reader_has_what_the_server_has(
        knows in servers(), seed in any::<u64>(), turns in prop::collection::vec(turns(), 0..30), last in writes(),
    ) {
        let mut house = House::new(knows, seed);
        for turn in &turns {
            house.ask(turn);
        }
        house.server.write(&last);
        // An open history, a list one way, a list the other way in pages of two, and its watch.
        for _ in 0..9 {
            house.ask(&fine());
        }
        prop_assert_eq!(&house.known, &house.server.state(house.server.log.len()));
        prop_assert_eq!(house.at, house.server.log.len());
    }
}
