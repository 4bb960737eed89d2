use super::*;
use proptest::prelude::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn pop(queue: &mut Queue<u8>, now: u64) -> Option<u8> {
    queue.pop(ms(now)).map(|taken| taken.key)
}

fn add(queue: &mut Queue<u8>, key: u8, priority: i32, now: u64) {
    queue.add(key, priority, "changed", ms(now));
}

#[test]
fn a_key_added_twice_runs_once() {
    let mut queue = Queue::default();
    add(&mut queue, 1, 0, 0);
    add(&mut queue, 1, 0, 0);
    assert_eq!((pop(&mut queue, 0), pop(&mut queue, 0)), (Some(1), None));
    queue.done(&1, Outcome::Done, None, ms(0));
    assert_eq!(pop(&mut queue, 0), None);
    assert!(queue.entries.is_empty(), "nothing is kept about a key that is done");
}

#[test]
fn a_key_added_in_flight_runs_once_more_and_never_beside_itself() {
    let mut queue = Queue::default();
    add(&mut queue, 1, 0, 0);
    assert_eq!(pop(&mut queue, 0), Some(1));
    add(&mut queue, 1, 0, 1);
    add(&mut queue, 1, 0, 2);
    assert_eq!(pop(&mut queue, 2), None);
    queue.done(&1, Outcome::After(ms(1000)), None, ms(3));
    assert_eq!(pop(&mut queue, 3), Some(1), "what was added meanwhile is earlier than the poll");
    queue.done(&1, Outcome::Done, None, ms(4));
    assert_eq!(pop(&mut queue, 5000), None);
}

#[test]
fn priority_first_then_first_come() {
    let mut queue = Queue::new(Settings { ageing: 0, ..Settings::default() });
    for (key, priority) in [(1, -100), (2, 0), (3, -100), (4, 0)] {
        add(&mut queue, key, priority, 0);
    }
    add(&mut queue, 3, 0, 1);
    assert_eq!(queue.depths().collect::<Vec<_>>(), [(-100, 1), (0, 3)]);
    let order: Vec<_> = std::iter::from_fn(|| pop(&mut queue, 1)).collect();
    assert_eq!(order, [2, 4, 3, 1], "a raised key goes to the end of its new level");
}

#[test]
fn a_steady_stream_does_not_starve_the_rest() {
    let mut queue = Queue::default();
    add(&mut queue, 1, -100, 0);
    for now in 1..9 {
        add(&mut queue, 100, 0, now);
        let key = pop(&mut queue, now);
        if key == Some(1) {
            return;
        }
        queue.done(&100, Outcome::Done, None, ms(now));
    }
    panic!("starved");
}

#[test]
fn the_earliest_time_wins() {
    let mut queue = Queue::default();
    queue.add_after(1, ms(50), 0, "poll", ms(0));
    queue.add_after(1, ms(20), 0, "poll", ms(0));
    queue.add_after(1, ms(90), 0, "poll", ms(0));
    assert_eq!(queue.next_wake(), Some(ms(20)));
    assert_eq!((pop(&mut queue, 19), pop(&mut queue, 20)), (None, Some(1)));
    queue.add_after(1, ms(5), 0, "poll", ms(20));
    queue.done(&1, Outcome::After(ms(100)), None, ms(21));
    assert_eq!(queue.next_wake(), Some(ms(25)), "a delayed add during flight counts");
    add(&mut queue, 1, 0, 22);
    assert_eq!(pop(&mut queue, 22), Some(1));
    queue.done(&1, Outcome::Done, None, ms(22));
    assert_eq!(queue.next_wake(), None);
}

#[test]
fn waits_double_and_success_forgets() {
    let mut queue = Queue::new(Settings { backoff: Backoff { base: ms(10), max: ms(35) }, ageing: 0 });
    let mut now = 0;
    add(&mut queue, 1, 0, now);
    for (failures, wait) in [(0, 10), (1, 20), (2, 35), (3, 35)] {
        let taken = queue.pop(ms(now)).unwrap();
        assert_eq!(taken.failures, failures);
        queue.done(&1, Outcome::Backoff, None, ms(now));
        assert_eq!(queue.next_wake(), Some(ms(now + wait)));
        now += wait;
    }
    assert_eq!(pop(&mut queue, now), Some(1));
    queue.done(&1, Outcome::Done, None, ms(now));
    add(&mut queue, 1, 0, now);
    assert_eq!(queue.pop(ms(now)).unwrap().failures, 0);
}

#[test]
fn a_failure_before_its_wait_was_over_does_not_count() {
    let mut queue = Queue::new(Settings { backoff: Backoff { base: ms(10), max: ms(1000) }, ageing: 0 });
    add(&mut queue, 1, 0, 0);
    pop(&mut queue, 0);
    queue.done(&1, Outcome::Backoff, None, ms(0));
    for now in 1..9 {
        add(&mut queue, 1, 0, now);
        assert_eq!(queue.pop(ms(now)).unwrap().failures, 1);
        queue.done(&1, Outcome::Backoff, None, ms(now));
        assert_eq!(queue.next_wake(), Some(ms(10)), "still the wait of the first failure");
    }
}

#[test]
fn a_server_that_names_a_time_is_obeyed() {
    let mut queue = Queue::default();
    add(&mut queue, 1, 0, 0);
    pop(&mut queue, 0);
    assert_eq!(queue.fail(&1, |_| ms(5), ms(700), None, ms(0)), ms(700));
    assert_eq!((pop(&mut queue, 699), pop(&mut queue, 700)), (None, Some(1)));
}

#[test]
fn a_million_keys_drain_in_order() {
    let mut queue = Queue::default();
    for key in 0..1_000_000_u32 {
        queue.add(key, 0, "initial", ms(0));
    }
    for key in 0..1_000_000_u32 {
        assert_eq!(queue.pop(ms(1)).unwrap().key, key);
        queue.done(&key, Outcome::Done, None, ms(1));
    }
    assert!(queue.entries.is_empty() && queue.is_empty());
}

/// The same promises, kept the slow and obvious way.
#[derive(Default)]
struct Model {
    keys: BTreeMap<u8, ModelKey>,
    ageing: u32,
    passed: u32,
    order: u64,
}

#[derive(Clone, Default)]
struct ModelKey {
    due: Option<Duration>,
    /// When it was put to wait, became ready, and joined its level: the order among equals.
    waits: u64,
    ready: Option<u64>,
    joined: u64,
    since: Duration,
    priority: i32,
    added: i32,
    in_flight: bool,
    failures: u32,
    blocked: Duration,
}

impl Model {
    fn next(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    fn wait_or_run(&mut self, key: u8, now: Duration) {
        let order = self.next();
        let entry = self.keys.get_mut(&key).unwrap();
        if entry.due.is_some_and(|due| due <= now) {
            (entry.ready, entry.joined, entry.since) = (Some(order), order, now);
        } else {
            entry.waits = order;
        }
    }

    fn wake(&mut self, now: Duration) {
        let waits = |k: &ModelKey| !k.in_flight && k.ready.is_none() && k.due.is_some_and(|due| due <= now);
        let mut due: Vec<_> = self.keys.iter().filter(|(_, k)| waits(k)).map(|(n, k)| (k.due, k.waits, *n)).collect();
        due.sort();
        due.into_iter().for_each(|(.., key)| self.wait_or_run(key, now));
    }

    fn add(&mut self, key: u8, priority: i32, at: Duration, now: Duration) {
        let order = self.next();
        let known = self.keys.contains_key(&key);
        let entry = self.keys.entry(key).or_default();
        if !known {
            (entry.due, entry.priority) = (Some(at), priority);
            self.wait_or_run(key, now);
        } else if entry.ready.is_some() {
            if priority > entry.priority {
                (entry.priority, entry.joined) = (priority, order);
            }
        } else if entry.in_flight {
            entry.added = entry.due.map_or(priority, |_| entry.added.max(priority));
            entry.due = Some(entry.due.map_or(at, |due| due.min(at)));
        } else {
            entry.priority = entry.priority.max(priority);
            if entry.due.is_some_and(|due| at < due) {
                entry.due = Some(at);
                self.wait_or_run(key, now);
            }
        }
    }

    fn pop(&mut self, now: Duration) -> Option<u8> {
        self.wake(now);
        let ready = || self.keys.iter().filter(|(_, k)| k.ready.is_some());
        let oldest = ready().min_by_key(|(_, k)| k.ready).map(|(key, _)| *key)?;
        let first = ready().min_by_key(|(_, k)| (-k.priority, k.joined)).map(|(key, _)| *key)?;
        self.passed = if first == oldest { 0 } else { self.passed + 1 };
        let chosen = if self.ageing > 0 && self.passed >= self.ageing { oldest } else { first };
        self.passed = if chosen == oldest { 0 } else { self.passed };
        let entry = self.keys.get_mut(&chosen).unwrap();
        (entry.due, entry.ready, entry.in_flight) = (None, None, true);
        Some(chosen)
    }

    fn done(&mut self, key: u8, outcome: Outcome, priority: Option<i32>, now: Duration) {
        let entry = self.keys.get_mut(&key).unwrap();
        entry.in_flight = false;
        let wanted = match outcome {
            Outcome::Done => None,
            Outcome::After(delay) => Some(now + delay),
            Outcome::Backoff if now < entry.blocked => Some(entry.blocked),
            Outcome::Backoff => {
                entry.failures += 1;
                entry.blocked = now + Backoff::default().wait(entry.failures);
                Some(entry.blocked)
            }
        };
        if outcome != Outcome::Backoff {
            (entry.failures, entry.blocked) = (0, Duration::ZERO);
        }
        let kept = priority.unwrap_or(entry.priority);
        entry.priority = match (entry.due, wanted) {
            (None, _) => kept,
            (Some(_), None) => entry.added,
            (Some(_), Some(_)) => kept.max(entry.added),
        };
        entry.due = entry.due.into_iter().chain(wanted).min();
        if entry.due.is_none() {
            self.keys.remove(&key);
        } else {
            self.wait_or_run(key, now);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, i32),
    AddAfter(u8, u64, i32),
    Pop,
    Done(usize, u8, Option<i32>),
    Sleep(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let priority = || prop_oneof![Just(-100), Just(0), Just(7)];
    let step = prop_oneof![
        4 => (0..8u8, priority()).prop_map(|(key, priority)| Step::Add(key, priority)),
        2 => (0..8u8, 0..40u64, priority()).prop_map(|(key, delay, priority)| Step::AddAfter(key, delay, priority)),
        4 => Just(Step::Pop),
        4 => (0..6usize, 0..3u8, prop::option::of(priority())).prop_map(|(n, outcome, p)| Step::Done(n, outcome, p)),
        2 => (0..30u64).prop_map(Step::Sleep),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn behaves_as_the_model(steps in steps(), ageing in prop_oneof![Just(0u32), Just(1), Just(3)]) {
        let mut queue = Queue::new(Settings { ageing, ..Settings::default() });
        let mut model = Model { ageing, ..Model::default() };
        let mut now = Duration::ZERO;
        let mut flights: Vec<u8> = Vec::new();
        for step in steps {
            match step {
                Step::Add(key, priority) => {
                    queue.add(key, priority, "x", now);
                    model.add(key, priority, now, now);
                }
                Step::AddAfter(key, delay, priority) => {
                    queue.add_after(key, ms(delay), priority, "x", now);
                    model.add(key, priority, now + ms(delay), now);
                }
                Step::Pop => {
                    let taken = queue.pop(now);
                    prop_assert_eq!(taken.as_ref().map(|taken| taken.key), model.pop(now));
                    if let Some(taken) = taken {
                        let entry = &model.keys[&taken.key];
                        prop_assert!(!flights.contains(&taken.key), "never two workers on a key");
                        prop_assert_eq!((taken.priority, taken.failures), (entry.priority, entry.failures));
                        prop_assert_eq!(taken.waited, now - entry.since);
                        flights.push(taken.key);
                    }
                }
                Step::Done(which, outcome, priority) if !flights.is_empty() => {
                    let key = flights.remove(which % flights.len());
                    let outcome = [Outcome::Done, Outcome::After(ms(15)), Outcome::Backoff][usize::from(outcome)];
                    queue.done(&key, outcome, priority, now);
                    model.done(key, outcome, priority, now);
                }
                Step::Done(..) => {}
                Step::Sleep(by) => now += ms(by),
            }
            let ready: Vec<_> = model.keys.values().filter(|k| k.ready.is_some()).collect();
            let waiting = model.keys.values().filter(|k| k.ready.is_none() && !k.in_flight).map(|k| k.due);
            prop_assert_eq!(queue.in_flight(), flights.len());
            prop_assert_eq!((queue.len(), queue.is_empty()), (ready.len(), ready.is_empty()));
            prop_assert_eq!(queue.depths().map(|(_, depth)| depth).sum::<usize>(), ready.len());
            prop_assert_eq!(queue.oldest(now), ready.iter().map(|k| now - k.since).max());
            prop_assert_eq!((queue.waiting(), queue.next_wake()), (waiting.clone().count(), waiting.flatten().min()));
            prop_assert_eq!(queue.entries.len(), model.keys.len(), "nothing is kept about a key that is done");
        }
    }

    /// A key that has `older` ready keys before it is taken within `ageing * (older + 1)` pops, whatever is added.
    #[test]
    fn nothing_starves(older in 0..5u64, ageing in 1..10u32, noise in prop::collection::vec(1..100i32, 200)) {
        let mut queue = Queue::new(Settings { ageing, ..Settings::default() });
        for key in 0..=older {
            queue.add(key, -100, "initial", Duration::ZERO);
        }
        let most = u64::from(ageing) * (older + 1);
        for (key, priority) in (1000..).zip(noise).take(usize::try_from(most).unwrap()) {
            queue.add(key, priority, "noise", ms(1));
            let taken = queue.pop(ms(1)).unwrap().key;
            queue.done(&taken, Outcome::Done, None, ms(1));
            if taken == older {
                return Ok(());
            }
        }
        prop_assert!(false, "not taken within {most} pops");
    }

    #[test]
    fn clearing_keeps_only_what_is_in_flight(steps in steps()) {
        let mut queue = Queue::default();
        let mut flights = BTreeMap::new();
        for step in steps {
            match step {
                Step::Add(key, priority) => queue.add(key, priority, "x", ms(0)),
                Step::AddAfter(key, delay, priority) => queue.add_after(key, ms(delay), priority, "x", ms(0)),
                Step::Pop => flights.extend(queue.pop(ms(0)).map(|taken| (taken.key, ()))),
                Step::Done(..) => queue.clear(),
                Step::Sleep(_) => {}
            }
        }
        queue.clear();
        prop_assert_eq!((queue.len(), queue.waiting(), queue.in_flight()), (0, 0, flights.len()));
        queue.add_all(0..8, 0, "x", ms(1));
        for key in flights.keys() {
            queue.done(key, Outcome::Done, None, ms(1));
        }
        let rest: Vec<u8> = std::iter::from_fn(|| pop(&mut queue, 1)).collect();
        prop_assert_eq!(rest.len(), 8, "every key runs, those in flight once more");
    }
}

#[test]
fn every_key_is_listed_where_it_is() {
    let mut queue = Queue::default();
    queue.add("taken", 0, "changed", ms(0));
    queue.add("ready", -100, "initial", ms(1));
    queue.add_after("waiting", ms(50), 0, "poll", ms(1));
    assert_eq!(queue.pop(ms(2)).map(|taken| taken.key), Some("taken"));
    queue.add("taken", 0, "changed", ms(3));
    let mut listed: Vec<_> = queue.listed(ms(11)).collect();
    listed.sort_by_key(|one| one.whereabouts);
    let seen: Vec<_> = listed.iter().map(|one| (*one.key, one.whereabouts, one.priority, one.reason)).collect();
    assert_eq!(
        seen,
        [
            ("taken", Whereabouts::InFlight { again: true }, 0, "changed"),
            ("ready", Whereabouts::Ready(ms(10)), -100, "initial"),
            ("waiting", Whereabouts::Waiting(ms(40)), 0, "poll"),
        ]
    );
    let _ = queue.fail(&"taken", |_| ms(5), Duration::ZERO, None, ms(12));
    let failed = queue.listed(ms(12)).find(|one| *one.key == "taken").map(|one| (one.failures, one.whereabouts));
    assert_eq!(failed, Some((1, Whereabouts::Ready(ms(0)))), "it was added meanwhile");
}
