//! Turns: how many at a time, how urgently, how often, and what happens when one goes wrong.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_runtime::limiter::{Bucket, FastSlow, MaxOf};
use concert_runtime::{
    Backoff, Channel, Controller, ControllerDefaults, Manager, ManagerSettings, Mapping, Outcome, Panics, RateLimiter,
    ReconcileError, Sink, Trigger, priority, reconcile_fn,
};
use concert_world::World;
use tokio::time::Instant;

use crate::controllers::engine;
use crate::embedded::Server;
use crate::{key, map, maps, until};

/// Puts in keys `k0`, `k1`, … at once.
fn keys(count: usize) -> Trigger {
    Trigger::source("keys", move |sink: Sink| async move {
        sink.add_all((0..count).map(|n| key(&format!("k{n}"))), "test");
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn the_number_of_workers_can_be_changed_while_they_work() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, metrics) = engine(&client);
    let busy = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&busy);
    let reconciler = reconcile_fn(move |_| {
        let count = Arc::clone(&count);
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(10)).await;
            count.fetch_sub(1, Ordering::SeqCst);
            Ok(Outcome::After(Duration::ZERO))
        }
    });
    engine.add(Controller::builder("c").on(keys(20)).workers(2).run(reconciler).unwrap()).unwrap();
    let handle = engine.handle::<concert_api::ObjectKey>("c").unwrap();
    for (workers, expected) in [(2, 2), (7, 7), (1, 1), (0, 0), (3, 3)] {
        handle.set_workers(workers);
        tokio::time::sleep(Duration::from_secs(25)).await;
        assert_eq!(busy.load(Ordering::SeqCst), expected);
        assert_eq!(engine.list()[0].workers, workers);
        let shown = format!("max_concurrent_reconciles{{controller=\"c\"}} {workers}");
        assert!(metrics.text().contains(&shown), "{shown}");
    }
    engine.stop().await;
    assert_eq!(busy.load(Ordering::SeqCst), 0, "a drain lets turns end");
}

/// When the turns of one key that always fails began, in milliseconds.
async fn failing(
    limiter: impl RateLimiter<concert_api::ObjectKey> + 'static,
    tries: Option<u32>,
) -> (Vec<u128>, String) {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, metrics) = engine(&client);
    let (turns, began) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
    let seen = Arc::clone(&turns);
    let reconciler = reconcile_fn(move |_| {
        seen.lock().unwrap().push(began.elapsed().as_millis());
        async { Err(ReconcileError::retry("no")) }
    });
    let mut builder = Controller::builder("c").on(keys(1)).limiter(limiter);
    if let Some(tries) = tries {
        builder = builder.max_tries(tries);
    }
    engine.add(builder.run(reconciler).unwrap()).unwrap();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let turns = std::mem::take(&mut *turns.lock().unwrap());
    (turns, metrics.text())
}

#[tokio::test(start_paused = true)]
async fn a_controller_chooses_its_limiter() {
    let seconds = Duration::from_secs;
    let fast_slow = FastSlow { fast: seconds(1), slow: seconds(40), tries: 2 };
    assert_eq!(failing(fast_slow, None).await.0, [0, 1000, 2000, 42_000, 82_000]);
    let both =
        MaxOf::new(vec![Box::new(Backoff { base: seconds(1), max: seconds(60) }), Box::new(Bucket::new(0.02, 1))]);
    assert_eq!(failing(both, None).await.0, [0, 1000, 50_000]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_too_often_is_given_up() {
    let (turns, metrics) =
        failing(Backoff { base: Duration::from_secs(1), max: Duration::from_secs(60) }, Some(3)).await;
    assert_eq!(turns, [0, 1000, 3000]);
    for line in [
        "controller_runtime_terminal_reconcile_errors_total{controller=\"c\"} 1",
        "controller_runtime_reconcile_errors_total{controller=\"c\"} 3",
        "concert_workqueue_backoffs_total{name=\"c\",controller=\"c\"} 2",
    ] {
        assert!(metrics.contains(line), "{line} is missing in:\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_may_choose_how_urgent_the_next_one_is() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, metrics) = engine(&client);
    let seen: Arc<Mutex<Vec<i32>>> = Arc::default();
    let log = Arc::clone(&seen);
    let reconciler = reconcile_fn(move |request| {
        let mut log = log.lock().unwrap();
        log.push(request.priority);
        if log.len() == 2 {
            request.set_priority(priority::POLL);
        }
        async { Ok(Outcome::After(Duration::from_secs(1))) }
    });
    engine.add(Controller::builder("c").on(keys(1)).run(reconciler).unwrap()).unwrap();
    until("four turns", || seen.lock().unwrap().len() == 4).await;
    assert_eq!(*seen.lock().unwrap(), [0, 0, -50, -50], "kept unless something else is said");
    let text = metrics.text();
    assert!(text.contains("workqueue_retries_total{name=\"c\",controller=\"c\"} 4"), "any delay counts: {text}");
    assert!(text.contains("concert_workqueue_backoffs_total{name=\"c\",controller=\"c\"} 0"), "nothing failed: {text}");
}

#[tokio::test(start_paused = true)]
async fn what_was_found_at_the_start_is_not_starved_by_a_steady_stream() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, metrics) = engine(&client);
    for n in 0..3 {
        client.create(&maps(), &map(&format!("old{n}"), "1")).await.unwrap();
    }
    let stream = Trigger::source("stream", |sink: Sink| async move {
        for n in 0u64.. {
            sink.add(key(&format!("new{n}")), "stream");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    });
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&seen);
    let reconciler = reconcile_fn(move |request| {
        let log = Arc::clone(&log);
        async move {
            log.lock().unwrap().push(request.key.name.to_string());
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(Outcome::Done)
        }
    });
    engine.add(Controller::builder("c").for_(maps()).on(stream).run(reconciler).unwrap()).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let text = metrics.text();
    let oldest = text
        .lines()
        .find_map(|line| line.strip_prefix("concert_workqueue_oldest_seconds{name=\"c\",controller=\"c\"} "));
    assert!(oldest.unwrap().parse::<f64>().unwrap() > 3.0, "{text}");
    assert!(engine.list()[0].oldest.unwrap() > Duration::from_secs(3));
    tokio::time::sleep(Duration::from_secs(35)).await;
    let old = seen.lock().unwrap().iter().filter(|name| name.starts_with("old")).count();
    assert_eq!(old, 3, "{:?}", seen.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_never_returns_is_visible_and_holds_up_only_itself() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, metrics) = engine(&client);
    let turns = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&turns);
    let reconciler = reconcile_fn(move |request| {
        let count = Arc::clone(&count);
        async move {
            if &*request.key.name == "k0" {
                std::future::pending::<()>().await;
            }
            count.fetch_add(1, Ordering::SeqCst);
            Ok(Outcome::Done)
        }
    });
    engine.add(Controller::builder("c").on(keys(10)).workers(2).run(reconciler).unwrap()).unwrap();
    until("the others", || turns.load(Ordering::SeqCst) == 9).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(engine.busy(), ["c default/k0"]);
    let text = metrics.text();
    let prefix = "workqueue_longest_running_processor_seconds{name=\"c\",controller=\"c\"} ";
    let longest = text.lines().find_map(|line| line.strip_prefix(prefix)).unwrap().parse::<f64>().unwrap();
    assert!(longest >= 3600.0, "{longest}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_may_end_the_controller_and_no_other() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, _) = engine(&client);
    let turns = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&turns);
    let calm = reconcile_fn(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Outcome::After(Duration::from_secs(1))) }
    });
    let wild = reconcile_fn(|request| async move {
        if &*request.key.name == "k0" {
            std::future::pending::<()>().await;
        }
        panic!("oh no")
    });
    engine.add(Controller::builder("calm").on(keys(1)).run(calm).unwrap()).unwrap();
    engine.add(Controller::builder("wild").on(keys(2)).workers(2).panics(Panics::Fail).run(wild).unwrap()).unwrap();
    assert_eq!(engine.failure().await.to_string(), "controller \"wild\" panicked at default/k1: oh no");
    assert_eq!(engine.busy(), ["wild default/k0"], "it is told although a turn never ends");
    let before = turns.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(turns.load(Ordering::SeqCst) >= before + 9);
}

#[tokio::test(start_paused = true)]
async fn defaults_hold_where_a_controller_says_nothing() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, metrics) = engine(&client);
    engine.set_defaults(ControllerDefaults {
        workers: 3,
        workers_by_kind: BTreeMap::from([("ConfigMap".to_owned(), 5)]),
        timeout: Some(Duration::from_secs(1)),
        ..ControllerDefaults::default()
    });
    let hang = || reconcile_fn(|_| async { std::future::pending().await });
    engine.add(Controller::builder("a").on(keys(1)).run(hang()).unwrap()).unwrap();
    engine.add(Controller::builder("b").for_(maps()).run(hang()).unwrap()).unwrap();
    engine.add(Controller::builder("c").for_(maps()).workers(9).run(hang()).unwrap()).unwrap();
    let workers: Vec<usize> = engine.list().iter().map(|state| state.workers).collect();
    assert_eq!(workers, [3, 5, 9]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let text = metrics.text();
    assert!(!text.contains("reconcile_timeouts_total{controller=\"a\"} 0"), "cut after a second: {text}");
}

/// What must not be looked at.
#[derive(Debug)]
struct Cursed;

impl std::fmt::Display for Cursed {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("do not look")
    }
}

impl std::error::Error for Cursed {}

impl Drop for Cursed {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "do not drop");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_tried_again_whatever_its_turn_left_behind() {
    let (engine, metrics) = engine(&Server::new().await.client(&World::simulated(1)));
    let turns = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&turns);
    let reconciler = reconcile_fn(move |_| {
        let turn = count.fetch_add(1, Ordering::SeqCst);
        async move {
            match turn {
                0 => Err(ReconcileError::retry(Cursed)),
                1 => {
                    let _cursed = Cursed;
                    std::future::pending().await
                }
                2 => std::panic::panic_any(Cursed),
                _ => Ok(Outcome::Done),
            }
        }
    });
    let controller = Controller::builder("c").on(keys(1)).timeout(Duration::from_secs(5)).run(reconciler).unwrap();
    engine.add(controller).unwrap();
    until("it has succeeded", || turns.load(Ordering::SeqCst) == 4).await;
    until("nothing is in flight", || engine.busy().is_empty()).await;
    let text = metrics.text();
    for line in [
        "controller_runtime_active_workers{controller=\"c\"} 0",
        "controller_runtime_reconcile_total{controller=\"c\",result=\"error\"} 3",
        "controller_runtime_reconcile_panics_total{controller=\"c\"} 3",
    ] {
        assert!(text.contains(line), "{line} is missing in:\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_add_is_a_key_that_became_ready() {
    let (engine, metrics) = engine(&Server::new().await.client(&World::simulated(1)));
    let source = Trigger::source("twice", |sink: Sink| async move {
        sink.add_all(["a", "a", "b", "a"].map(key), "test");
        sink.add_after(key("c"), Duration::from_secs(100), "test");
        Ok(())
    });
    let reconciler = reconcile_fn(|request| async move {
        match (&*request.key.name, request.attempt) {
            ("b", 0) => Ok(Outcome::Backoff),
            _ => Ok(Outcome::Done),
        }
    });
    engine.add(Controller::builder("c").on(source).run(reconciler).unwrap()).unwrap();
    let adds = || {
        let text = metrics.text();
        let line =
            text.lines().find_map(|line| line.strip_prefix("workqueue_adds_total{name=\"c\",controller=\"c\"} "));
        line.unwrap().parse::<u64>().unwrap()
    };
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(adds(), 3, "a once, b twice since it was tried again, and c is not due");
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!((adds(), adds()), (4, 4));
    assert!(engine.remove("c").await);
    assert_eq!(adds(), 4, "counters stay");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_gone_shows_no_gauges() {
    let (engine, metrics) = engine(&Server::new().await.client(&World::simulated(1)));
    let controller = || {
        let done = reconcile_fn(|_| async { Ok(Outcome::Done) });
        let urgent = Trigger::source("urgent", |sink: Sink| async move {
            sink.with_priority(7).add(key("a"), "test");
            std::future::pending().await
        });
        Controller::builder("c").on(urgent).run(done).unwrap()
    };
    let gauges = [
        "controller_runtime_max_concurrent_reconciles",
        "controller_runtime_active_workers",
        "workqueue_depth",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "concert_workqueue_oldest_seconds",
        "concert_controller_waiting_sources",
    ];
    let shown = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("controller=\"c\""));
        gauges.into_iter().filter(|gauge| lines.clone().any(|line| line.starts_with(gauge))).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        engine.add(controller()).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(shown(&metrics.text()), gauges);
        assert!(engine.remove("c").await);
        assert_eq!(shown(&metrics.text()), <[&str; 0]>::default(), "{}", metrics.text());
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_turn_starts_beside_itself_hears_that_it_is_over() {
    let (engine, _) = engine(&Server::new().await.client(&World::simulated(1)));
    let ended = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&ended);
    let reconciler = reconcile_fn(move |request| {
        let (ended, attempt, over) = (Arc::clone(&noted), request.attempt, request.stopping().clone());
        tokio::spawn(async move {
            over.cancelled().await;
            ended.lock().unwrap().push(attempt);
        });
        async move {
            match attempt {
                0 => std::future::pending().await,
                1 => panic!("oh no"),
                2 => Err(ReconcileError::retry(std::io::Error::other("no"))),
                3 => Ok(Outcome::Done),
                _ => unreachable!("it succeeded"),
            }
        }
    });
    let controller = Controller::builder("c").on(keys(1)).timeout(Duration::from_secs(5)).run(reconciler).unwrap();
    engine.add(controller).unwrap();
    until("all four are over", || ended.lock().unwrap().len() == 4).await;
    assert_eq!(*ended.lock().unwrap(), [0, 1, 2, 3]);
}

/// Scrapes are slow when there is much to tell: what goes meanwhile is not shown again by those who still look.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_removed_during_a_scrape_is_not_shown_by_the_next_one() {
    let (near, far) = (Server::new().await, Server::new().await);
    let manager = Manager::new(near.client(&World::simulated(1)), ManagerSettings::new("m"));
    let other = manager.clusters().add("far", far.client(&World::simulated(2))).unwrap();
    let urgent = Trigger::source("urgent", |sink: Sink| async move {
        sink.with_priority(7).add(key("a"), "test");
        std::future::pending().await
    });
    let slow = Trigger::channel(&Channel::new(), Mapping::own());
    let done = reconcile_fn(|_| async { Ok(Outcome::Done) });
    let controller = Controller::builder("c").on(urgent).on(slow).watches(maps(), Mapping::own()).in_cluster(&other);
    manager.add_controller(controller.run(done).unwrap()).unwrap();
    let ((here, looks), (goes, on)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    let on = Mutex::new(on);
    // It comes before all others.
    manager.metrics().observe("a slow one", move |_| {
        here.send(()).unwrap();
        let _ = on.lock().unwrap().recv();
    });
    let shown = |text: &str| {
        let gauges = ["workqueue_depth{", "concert_source_", "concert_cache_", "concert_watch_"];
        let of = |line: &&str| line.contains("\"c\"") || line.contains("\"far\"");
        let lines = text.lines().filter(|line| gauges.iter().any(|gauge| line.starts_with(gauge))).filter(of);
        lines.filter(|line| !line.contains("_total")).map(str::to_owned).collect::<Vec<_>>()
    };
    let scraped = manager.metrics().clone();
    let scrape = std::thread::spawn(move || scraped.text());
    looks.recv().unwrap();
    assert!(manager.engine().remove("c").await && manager.clusters().remove("far").await);
    drop(goes);
    scrape.join().unwrap();
    assert_eq!(shown(&manager.metrics().text()), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_is_added_with_a_delay_is_counted_as_a_retry_and_nothing_else_is() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, metrics) = engine(&client);
    let source = Trigger::source("source", |sink: Sink| async move {
        sink.add(key("a"), "now");
        sink.add_after(key("b"), Duration::ZERO, "now as well");
        sink.add_after(key("c"), Duration::from_secs(5), "later");
        sink.with_priority(3).add_after(key("d"), Duration::from_secs(5), "later");
        std::future::pending().await
    });
    let turns = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&turns);
    let reconciler = reconcile_fn(move |request| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        async move { Ok(if is_first && &*request.key.name == "a" { Outcome::After(Duration::ZERO) } else { Outcome::Done }) }
    });
    engine.add(Controller::builder("c").on(source).run(reconciler).unwrap()).unwrap();
    until("all turns", || turns.load(Ordering::Relaxed) == 5).await;
    let text = metrics.text();
    assert!(text.contains("workqueue_retries_total{name=\"c\",controller=\"c\"} 2"), "{text}");
}
