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
    queue.done(&1, Outcome::Done, ms(0));
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
    queue.done(&1, Outcome::After(ms(1000)), ms(3));
    assert_eq!(pop(&mut queue, 3), Some(1), "what was added meanwhile is earlier than the poll");
    queue.done(&1, Outcome::Done, ms(4));
    assert_eq!(pop(&mut queue, 5000), None);
}

#[test]
fn priority_first_then_first_come() {
    let mut queue = Queue::new(Settings { ageing: 0, ..Settings::default() });
    for (key, priority) in [(1, -100), (2, 0), (3, -100), (4, 0)] {
        add(&mut queue, key, priority, 0);
    }
    add(&mut queue, 3, 0, 1);
    assert_eq!(*queue.depths(), BTreeMap::from([(-100, 1), (0, 3)]));
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
        queue.done(&100, Outcome::Done, ms(now));
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
    queue.done(&1, Outcome::After(ms(100)), ms(21));
    assert_eq!(queue.next_wake(), Some(ms(25)), "a delayed add during flight counts");
    add(&mut queue, 1, 0, 22);
    assert_eq!(pop(&mut queue, 22), Some(1));
    queue.done(&1, Outcome::Done, ms(22));
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
        queue.done(&1, Outcome::Backoff, ms(now));
        assert_eq!(queue.next_wake(), Some(ms(now + wait)));
        now += wait;
    }
    assert_eq!(pop(&mut queue, now), Some(1));
    queue.done(&1, Outcome::Done, ms(now));
    add(&mut queue, 1, 0, now);
    assert_eq!(queue.pop(ms(now)).unwrap().failures, 0);
}

#[test]
fn a_failure_before_its_wait_was_over_does_not_count() {
    let mut queue = Queue::new(Settings { backoff: Backoff { base: ms(10), max: ms(1000) }, ageing: 0 });
    add(&mut queue, 1, 0, 0);
    pop(&mut queue, 0);
    queue.done(&1, Outcome::Backoff, ms(0));
    for now in 1..9 {
        add(&mut queue, 1, 0, now);
        assert_eq!(queue.pop(ms(now)).unwrap().failures, 1);
        queue.done(&1, Outcome::Backoff, ms(now));
        assert_eq!(queue.next_wake(), Some(ms(10)), "still the wait of the first failure");
    }
}

#[test]
fn a_server_that_names_a_time_is_obeyed() {
    let mut queue = Queue::default();
    add(&mut queue, 1, 0, 0);
    pop(&mut queue, 0);
    assert_eq!(queue.fail(&1, Backoff::default(), ms(700), ms(0)), ms(700));
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
        queue.done(&key, Outcome::Done, ms(1));
    }
    assert!(queue.entries.is_empty() && queue.is_empty());
}

/// The same promises, kept the slow and obvious way.
#[derive(Default)]
struct Model {
    /// Key → due, priority, order among equals, failures, blocked until, in flight (and due again).
    keys: BTreeMap<u8, ModelKey>,
    order: u64,
}

#[derive(Clone, Default)]
struct ModelKey {
    due: Option<Duration>,
    ready: Option<u64>,
    priority: i32,
    in_flight: bool,
    failures: u32,
    blocked: Duration,
}

impl Model {
    fn refresh(&mut self, now: Duration) {
        let mut due: Vec<_> = self.keys.iter().filter(|(_, k)| !k.in_flight && k.ready.is_none()).collect();
        due.sort_by_key(|(_, k)| (k.due, k.priority));
        let due: Vec<u8> =
            due.into_iter().filter(|(_, k)| k.due.is_some_and(|d| d <= now)).map(|(key, _)| *key).collect();
        for key in due {
            self.order += 1;
            let entry = self.keys.get_mut(&key).unwrap();
            entry.ready = Some(self.order);
        }
    }

    fn add(&mut self, key: u8, priority: i32, at: Duration, now: Duration) {
        let entry = self.keys.entry(key).or_default();
        match entry.due {
            None => (entry.due, entry.priority) = (Some(at), priority),
            Some(_) if entry.ready.is_some() => {
                if at <= now && priority > entry.priority {
                    entry.priority = priority;
                    entry.ready = None;
                }
            }
            Some(due) => (entry.due, entry.priority) = (Some(due.min(at)), entry.priority.max(priority)),
        }
        self.refresh(now);
    }

    fn best(&self) -> Option<i32> {
        self.keys.values().filter(|k| k.ready.is_some()).map(|k| k.priority).max()
    }

    fn pop(&mut self, key: u8) {
        let entry = self.keys.get_mut(&key).unwrap();
        (entry.due, entry.ready, entry.in_flight) = (None, None, true);
    }

    fn done(&mut self, key: u8, outcome: Outcome, now: Duration) {
        let backoff = Backoff::default();
        let entry = self.keys.get_mut(&key).unwrap();
        entry.in_flight = false;
        let wanted = match outcome {
            Outcome::Done => None,
            Outcome::After(delay) => Some((now + delay, priority::POLL)),
            Outcome::Backoff => {
                if now >= entry.blocked {
                    entry.failures += 1;
                    entry.blocked = now + backoff.wait(entry.failures);
                }
                Some((entry.blocked, priority::RETRY))
            }
        };
        if outcome != Outcome::Backoff {
            (entry.failures, entry.blocked) = (0, Duration::ZERO);
        }
        if let Some((at, lowered)) = wanted
            && entry.due.is_none_or(|due| at < due)
        {
            (entry.due, entry.priority) = (Some(at), entry.priority.min(lowered));
        }
        self.refresh(now);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, i32),
    AddAfter(u8, u64, i32),
    Pop,
    Done(usize, u8),
    Sleep(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let priority = || prop_oneof![Just(-100), Just(0), Just(7)];
    let step = prop_oneof![
        4 => (0..6u8, priority()).prop_map(|(key, priority)| Step::Add(key, priority)),
        2 => (0..6u8, 0..40u64, priority()).prop_map(|(key, delay, priority)| Step::AddAfter(key, delay, priority)),
        4 => Just(Step::Pop),
        4 => (0..6usize, 0..3u8).prop_map(|(which, outcome)| Step::Done(which, outcome)),
        2 => (0..30u64).prop_map(Step::Sleep),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #[test]
    fn behaves_as_the_model(steps in steps(), ageing in prop_oneof![Just(0u32), Just(3u32)]) {
        let mut queue = Queue::new(Settings { ageing, ..Settings::default() });
        let mut model = Model::default();
        let mut now = Duration::ZERO;
        let mut flights: Vec<u8> = Vec::new();
        for step in steps {
            match step {
                Step::Add(key, priority) => {
                    model.refresh(now);
                    queue.add(key, priority, "x", now);
                    model.add(key, priority, now, now);
                }
                Step::AddAfter(key, delay, priority) => {
                    // The queue notices that time has passed only when it is asked for a key; the model at once.
                    if let Some(taken) = queue.pop(now) {
                        queue.fail(&taken.key, Backoff::default(), Duration::ZERO, now);
                        model.refresh(now);
                        model.pop(taken.key);
                        model.done(taken.key, Outcome::Backoff, now);
                    }
                    queue.add_after(key, ms(delay), priority, "x", now);
                    model.add(key, priority, now + ms(delay), now);
                }
                Step::Pop => {
                    model.refresh(now);
                    let taken = queue.pop(now);
                    prop_assert_eq!(taken.is_some(), model.best().is_some());
                    if let Some(taken) = taken {
                        let entry = &model.keys[&taken.key];
                        prop_assert!(!entry.in_flight && entry.ready.is_some(), "due and not in flight");
                        prop_assert_eq!(entry.priority, taken.priority);
                        prop_assert_eq!(entry.failures, taken.failures);
                        if ageing == 0 {
                            prop_assert_eq!(Some(taken.priority), model.best());
                        }
                        model.pop(taken.key);
                        flights.push(taken.key);
                    }
                }
                Step::Done(which, outcome) => {
                    if flights.is_empty() {
                        continue;
                    }
                    let key = flights.remove(which % flights.len());
                    let outcome = [Outcome::Done, Outcome::After(ms(15)), Outcome::Backoff][usize::from(outcome)];
                    queue.done(&key, outcome, now);
                    model.done(key, outcome, now);
                }
                Step::Sleep(by) => now += ms(by),
            }
            prop_assert_eq!(queue.in_flight(), flights.len());
            let ready = queue.entries.values().filter(|entry| matches!(entry.place, Place::Ready { .. })).count();
            prop_assert_eq!(queue.len(), ready);
            prop_assert_eq!(queue.oldest(now).is_some(), ready > 0);
        }
    }
}
