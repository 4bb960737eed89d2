//! The intake over many interleavings of its threads, on the shipped type.
//!
//! ```text
//! cargo test -p concert-queue --features shuttle --test interleavings
//! ```
//!
//! Shuttle runs each test under thousands of schedules; where every task waits for another it reports a deadlock: that
//! is what a lost wake-up looks like.

#![cfg(feature = "shuttle")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use concert_queue::{Backoff, Call, Desk, Ending, Intake, Outcome, Settings};
use shuttle::future::{JoinHandle, block_on, spawn, yield_now};
use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

/// How many schedules are tried.
const SCHEDULES: usize = 2000;
/// More than any schedule that makes progress needs: one that does not is a failure, and soon.
const STEPS: usize = 20_000;

fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS);
    let scheduler = shuttle::scheduler::RandomScheduler::new(SCHEDULES);
    shuttle::Runner::new(scheduler, config).run(test);
}

const CALL: Call = Call { priority: 0, reason: "changed", revision: None };

/// An intake, and what its workers did.
struct House {
    intake: Intake<u8>,
    in_flight: Mutex<BTreeSet<u8>>,
    turns: AtomicUsize,
    milliseconds: Arc<AtomicU64>,
}

impl House {
    fn new(workers: usize) -> Arc<Self> {
        let milliseconds = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&milliseconds);
        let desk = Desk::new(Settings::default(), Box::new(Backoff::default()), None);
        let intake = Intake::new(desk, workers, move || Duration::from_millis(clock.load(Ordering::SeqCst)));
        Arc::new(Self { intake, in_flight: Mutex::default(), turns: AtomicUsize::new(0), milliseconds })
    }

    /// Works until it is sent home; every key ends with `outcome` the first time, then it is done.
    async fn work(self: Arc<Self>, worker: usize, outcome: Outcome) {
        let mut seen = BTreeSet::new();
        while let Some(taken) = self.intake.take(worker).await {
            assert!(self.in_flight.lock().unwrap().insert(taken.key), "a key given to two workers");
            yield_now().await;
            assert!(self.in_flight.lock().unwrap().remove(&taken.key));
            self.turns.fetch_add(1, Ordering::SeqCst);
            let ending = if seen.insert(taken.key) { outcome } else { Outcome::Done };
            self.intake.land(&taken.key, Ending::Outcome(ending), 0.0);
        }
    }

    fn hire(self: &Arc<Self>, worker: usize, outcome: Outcome) -> JoinHandle<()> {
        spawn(Arc::clone(self).work(worker, outcome))
    }

    /// Waits until nothing is left to do. The scheduler is fair to those who yield.
    async fn until_idle(&self) {
        while self.intake.look(|desk, now| desk.queue().len() + desk.queue().waiting() + desk.flights(now).count()) > 0
        {
            yield_now().await;
        }
    }
}

#[test]
fn every_key_is_taken_and_never_by_two_workers() {
    check(|| {
        let house = House::new(2);
        let workers = [house.hire(0, Outcome::Done), house.hire(1, Outcome::After(Duration::ZERO))];
        let adders: Vec<_> = (0..2u8)
            .map(|first| {
                let house = Arc::clone(&house);
                thread::spawn(move || {
                    house.intake.add([first], CALL);
                    house.intake.add([first + 1, 7], CALL);
                })
            })
            .collect();
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        block_on(async {
            house.until_idle().await;
            house.intake.close();
            for worker in workers {
                worker.await.unwrap();
            }
        });
        assert!(house.turns.load(Ordering::SeqCst) >= 4, "0, 1, 2 and 7, each at least once");
    });
}

#[test]
fn no_wake_up_is_lost_between_workers() {
    check(|| {
        let house = House::new(2);
        let workers = [house.hire(0, Outcome::Done), house.hire(1, Outcome::Done)];
        house.intake.add([1], CALL);
        house.intake.add([2], CALL);
        let watch = Arc::clone(&house);
        block_on(async move {
            // Nobody adds anything any more: if a call was lost, this never ends.
            while watch.turns.load(Ordering::SeqCst) < 2 {
                yield_now().await;
            }
        });
        house.intake.close();
        block_on(async {
            for worker in workers {
                worker.await.unwrap();
            }
        });
    });
}

#[test]
fn a_worker_that_gives_up_passes_its_call_on() {
    check(|| {
        let house = House::new(2);
        let patient = house.hire(0, Outcome::Done);
        let fickle = {
            let house = Arc::clone(&house);
            spawn(async move {
                // Asks once, waits a moment, and goes away whether it was called or not.
                let mut take = Box::pin(house.intake.take(1));
                let asked = std::future::poll_fn(|context| std::task::Poll::Ready(take.as_mut().poll(context)));
                let asked = asked.await;
                yield_now().await;
                if let std::task::Poll::Ready(Some(taken)) = asked {
                    house.turns.fetch_add(1, Ordering::SeqCst);
                    house.intake.land(&taken.key, Ending::Outcome(Outcome::Done), 0.0);
                }
            })
        };
        let adder = {
            let house = Arc::clone(&house);
            thread::spawn(move || house.intake.add([1], CALL))
        };
        adder.join().unwrap();
        block_on(async {
            fickle.await.unwrap();
            while house.turns.load(Ordering::SeqCst) < 1 {
                yield_now().await;
            }
            house.intake.close();
            patient.await.unwrap();
        });
    });
}

#[test]
fn the_timekeeper_hears_of_what_is_due_earlier() {
    check(|| {
        let house = House::new(1);
        house.intake.add_after(1, Duration::from_millis(50), CALL);
        let told = house.intake.tick();
        assert_eq!(told, Some(Duration::from_millis(50)));
        let adder = {
            let house = Arc::clone(&house);
            thread::spawn(move || house.intake.add_after(2, Duration::from_millis(10), CALL))
        };
        // It sleeps for longer than this: if nobody wakes it, this never ends.
        assert_eq!(block_on(house.intake.earlier_than(told)), Duration::from_millis(10));
        adder.join().unwrap();
    });
}

#[test]
fn what_is_due_is_taken_when_its_time_has_come() {
    check(|| {
        let house = House::new(1);
        let worker = house.hire(0, Outcome::After(Duration::from_millis(5)));
        let keeper = {
            let house = Arc::clone(&house);
            spawn(async move {
                loop {
                    // Sleeping is moving the clock.
                    let due = house.intake.earlier_than(None).await;
                    house.milliseconds.fetch_max(u64::try_from(due.as_millis()).unwrap(), Ordering::SeqCst);
                    house.intake.tick();
                }
            })
        };
        let adder = {
            let house = Arc::clone(&house);
            thread::spawn(move || {
                house.intake.add_after(1, Duration::from_millis(50), CALL);
                house.intake.add_after(2, Duration::from_millis(10), CALL);
            })
        };
        adder.join().unwrap();
        block_on(async {
            house.until_idle().await;
            assert_eq!(house.turns.load(Ordering::SeqCst), 4, "each key, and once more after a while");
            house.intake.close();
            worker.await.unwrap();
            keeper.abort();
        });
    });
}

#[test]
fn workers_come_and_go_without_losing_a_key() {
    check(|| {
        let house = House::new(2);
        let workers = [house.hire(0, Outcome::Done), house.hire(1, Outcome::Done)];
        let resizer = {
            let house = Arc::clone(&house);
            thread::spawn(move || house.intake.set_limit(1))
        };
        let adder = {
            let house = Arc::clone(&house);
            thread::spawn(move || house.intake.add([1, 2, 3], CALL))
        };
        resizer.join().unwrap();
        adder.join().unwrap();
        let [first, second] = workers;
        block_on(async {
            second.await.unwrap();
            house.until_idle().await;
            assert_eq!(house.turns.load(Ordering::SeqCst), 3);
            house.intake.close();
            first.await.unwrap();
        });
    });
}

#[test]
fn closing_lets_turns_end_and_gives_out_nothing_more() {
    check(|| {
        let house = House::new(2);
        let workers = [house.hire(0, Outcome::After(Duration::ZERO)), house.hire(1, Outcome::Done)];
        let adder = {
            let house = Arc::clone(&house);
            thread::spawn(move || house.intake.add([1, 2, 3], CALL))
        };
        house.intake.close();
        block_on(async {
            for worker in workers {
                worker.await.unwrap();
            }
        });
        adder.join().unwrap();
        assert!(house.in_flight.lock().unwrap().is_empty(), "what was begun has ended");
        house.intake.clear();
        assert_eq!(house.intake.look(|desk, now| desk.queue().len() + desk.flights(now).count()), 0);
    });
}
