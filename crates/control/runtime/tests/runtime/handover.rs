//! What has to be over before somebody else may act, and what must not stand in each other's way.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use concert_api::{Gvk, ObjectKey};
use concert_runtime::{
    Client, Controller, Engine, Grace, LeaseError, LeaseSettings, Manager, ManagerError, ManagerSettings, Mapping,
    Outcome, Reconciler, Resource, Sink, Stop, TaskGroup, Trigger, reconcile_fn,
};
use concert_world::{Call, Gate, Verdict, World};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::controllers::engine;
use crate::embedded::Server;
use crate::{key, map, maps, until};

fn one_key() -> Trigger {
    Trigger::source("one key", |sink: Sink| async move {
        sink.add(key("k"), "test");
        Ok(())
    })
}

async fn holder(client: &Client) -> String {
    let leases = Resource::namespaced(Gvk::new("coordination.k8s.io", "v1", "Lease"), "leases");
    let lease = client.get(&leases, &ObjectKey::new("default", "m")).await.unwrap().unwrap().value().unwrap();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// A reconcile that does not wait: it stands still, and goes on when it is told to.
fn stands_still() -> (impl Reconciler, Arc<Notify>, mpsc::Sender<()>) {
    let entered = Arc::new(Notify::new());
    let enters = Arc::clone(&entered);
    let (go_on, goes_on) = mpsc::channel::<()>();
    let goes_on = Arc::new(Mutex::new(goes_on));
    let reconciler = reconcile_fn(move |_| {
        let (entered, goes_on) = (Arc::clone(&entered), Arc::clone(&goes_on));
        async move {
            entered.notify_one();
            let _ = goes_on.lock().unwrap().recv();
            Ok(Outcome::Done)
        }
    });
    (reconciler, enters, go_on)
}

/// A process that leads and is told twice to stop while a reconcile stands still.
async fn aborted(client: &Client) -> (TaskGroup<Result<(), ManagerError>>, mpsc::Sender<()>) {
    let settings = ManagerSettings {
        lease: Some(LeaseSettings::new("default", "m", "a")),
        grace: Grace::Forever,
        ..ManagerSettings::new("m")
    };
    let manager = Manager::new(client.clone(), settings);
    let (reconciler, enters, go_on) = stands_still();
    manager.add_controller(Controller::builder("still").on(one_key()).run(reconciler).unwrap()).unwrap();
    let (drain, abort) = (CancellationToken::new(), CancellationToken::new());
    let mut tasks = TaskGroup::new(CancellationToken::new());
    tasks.spawn("manager", manager.run(Stop::on(drain.clone(), abort.clone())));
    enters.notified().await;
    drain.cancel();
    abort.cancel();
    (tasks, go_on)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_lease_is_kept_until_the_last_reconcile_has_really_ended() {
    let client = Server::new().await.client(&World::simulated(1));
    let (mut tasks, go_on) = aborted(&client).await;
    let early = tokio::time::timeout(Duration::from_millis(300), tasks.join_next()).await;
    assert!(early.is_err(), "it waits: {early:?}");
    assert_eq!(holder(&client).await, "a", "nobody else may begin");
    go_on.send(()).unwrap();
    let ended = tasks.join_next().await.unwrap().result.unwrap();
    assert!(ended.unwrap_err().to_string().contains("still default/k"));
    assert_eq!(holder(&client).await, "", "released at once when it was over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_lease_is_not_released_if_a_reconcile_cannot_be_ended() {
    let client = Server::new().await.client(&World::simulated(1));
    let (mut tasks, go_on) = aborted(&client).await;
    let ended = tasks.join_next().await.unwrap().result.unwrap();
    assert!(ended.unwrap_err().to_string().contains("still default/k"), "the process ends all the same");
    assert_eq!(holder(&client).await, "a", "it runs out by itself");
    go_on.send(()).unwrap();
}

/// Refuses everything about leases from a moment on.
#[derive(Clone, Debug, Default)]
struct NoLeases(Arc<Mutex<bool>>);

impl Gate for NoLeases {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        if *self.0.lock().unwrap() && call.key.contains("leases") { Verdict::Refuse } else { Verdict::Pass }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_during_a_drain_ends_it() {
    let gate = NoLeases::default();
    let client = Server::new().await.client(&World { gate: Arc::new(gate.clone()), ..World::simulated(1) });
    let settings = ManagerSettings {
        lease: Some(LeaseSettings::new("default", "m", "a")),
        grace: Grace::Forever,
        ..ManagerSettings::new("m")
    };
    let manager = Manager::new(client, settings);
    let forever = reconcile_fn(|_| async { std::future::pending().await });
    manager.add_controller(Controller::builder("c").on(one_key()).run(forever).unwrap()).unwrap();
    let (stop, engine) = (Stop::default(), manager.engine().clone());
    let drain = stop.drain.clone();
    let story = async {
        until("it works", || !engine.busy().is_empty()).await;
        drain.cancel();
        *gate.0.lock().unwrap() = true;
        Instant::now()
    };
    let both = async { tokio::join!(manager.run(stop), story) };
    let (ended, lost) = tokio::time::timeout(Duration::from_secs(600), both).await.unwrap();
    assert!(matches!(ended, Err(ManagerError::Lease(LeaseError::Lost { .. }))), "{ended:?}");
    assert!(lost.elapsed() <= Duration::from_secs(10), "{:?}", lost.elapsed());
}

/// Counts turns that have begun and those that are over, one way or another.
#[derive(Default)]
struct Turns {
    begun: AtomicUsize,
    over: AtomicUsize,
}

struct Over(Arc<Turns>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over.fetch_add(1, Ordering::SeqCst);
    }
}

impl Turns {
    fn counts(&self) -> (usize, usize) {
        (self.begun.load(Ordering::SeqCst), self.over.load(Ordering::SeqCst))
    }

    /// A reconcile that never ends by itself.
    fn endless(self: &Arc<Self>) -> impl Reconciler + use<> {
        let turns = Arc::clone(self);
        reconcile_fn(move |_| {
            turns.begun.fetch_add(1, Ordering::SeqCst);
            let over = Over(Arc::clone(&turns));
            async move {
                let _over = over;
                std::future::pending().await
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_in_one_term_never_goes_on_in_the_next() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, _) = engine(&client);
    let (elected, unelected) = (Arc::new(Turns::default()), Arc::new(Turns::default()));
    engine.add(Controller::builder("elected").on(one_key()).run(elected.endless()).unwrap()).unwrap();
    let always = Controller::builder("always").on(one_key()).without_election().run(unelected.endless()).unwrap();
    engine.add(always).unwrap();
    until("both work", || elected.counts().0 == 1 && unelected.counts().0 == 1).await;
    // Deposed and elected again before anybody could look.
    engine.stand_by();
    engine.go();
    until("the turn begins anew", || elected.counts() == (2, 1)).await;
    engine.stand_by();
    engine.at_rest().await;
    assert_eq!(elected.counts(), (2, 2), "nothing is left running");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(elected.counts(), (2, 2), "and nothing begins");
    assert_eq!(unelected.counts(), (1, 0), "who needs no election goes on");
}

/// One of several processes with the same lease.
fn replica(server: &Server, who: &str) -> Manager {
    let lease = Some(LeaseSettings::new("default", "m", who));
    Manager::new(server.client(&World::simulated(1)), ManagerSettings { lease, ..ManagerSettings::new("m") })
}

#[tokio::test(start_paused = true)]
async fn a_controller_without_election_works_in_every_replica() {
    let server = Server::new().await;
    let (leader, follower) = (replica(&server, "a"), replica(&server, "b"));
    let (elected, unelected) = (Arc::new(Turns::default()), Arc::new(Turns::default()));
    for manager in [&leader, &follower] {
        let only_one = Controller::builder("elected").on(one_key()).run(elected.endless()).unwrap();
        manager.add_controller(only_one).unwrap();
        let each = Controller::builder("each").on(one_key()).without_election().run(unelected.endless()).unwrap();
        manager.add_controller(each).unwrap();
    }
    assert_eq!(unelected.counts().0, 0, "nothing works before the process runs");
    let (one, other) = (Stop::default(), Stop::default());
    let aborts = [one.abort.clone(), other.abort.clone()];
    let story = async {
        until("both replicas work", || unelected.counts().0 == 2).await;
        leader.elected().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(elected.counts().0, 1, "and one of them leads");
        aborts.iter().for_each(CancellationToken::cancel);
    };
    let late = async {
        leader.elected().await;
        follower.clone().run(other).await
    };
    let _ = tokio::join!(leader.clone().run(one), late, story);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_lead_drains_what_needs_no_election() {
    let server = Server::new().await;
    let (leader, follower) = (replica(&server, "a"), replica(&server, "b"));
    let turns = Arc::new(Turns::default());
    let counts = Arc::clone(&turns);
    let takes_its_time = reconcile_fn(move |_| {
        let turns = Arc::clone(&counts);
        async move {
            turns.begun.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(5)).await;
            turns.over.fetch_add(1, Ordering::SeqCst);
            Ok(Outcome::After(Duration::from_millis(1)))
        }
    });
    let each = Controller::builder("each").on(one_key()).without_election().run(takes_its_time).unwrap();
    follower.add_controller(each).unwrap();
    let (one, other) = (Stop::default(), Stop::default());
    let (end_leader, drain) = (one.drain.clone(), other.drain.clone());
    let story = async {
        leader.elected().await;
        let works = async {
            until("it works", || turns.counts() == (1, 0)).await;
            drain.cancel();
        };
        let (ended, ()) = tokio::join!(follower.run(other), works);
        ended.unwrap();
        assert_eq!(turns.counts(), (1, 1), "the turn came to its end, and no other began");
        end_leader.cancel();
    };
    let (ended, ()) = tokio::join!(leader.clone().run(one), story);
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shards_do_not_wait_for_what_needs_no_election() {
    let (engine, _) = engine(&Server::new().await.client(&World::simulated(1)));
    let (elected, unelected) = (Arc::new(Turns::default()), Arc::new(Turns::default()));
    let always = Controller::builder("always").on(one_key()).without_election().run(unelected.endless()).unwrap();
    engine.add(always).unwrap();
    until("it works", || unelected.counts().0 == 1).await;
    assert!(!engine.works_on(|_| true), "a shard may be handed over");
    engine.add(Controller::builder("elected").on(one_key()).run(elected.endless()).unwrap()).unwrap();
    until("both work", || elected.counts().0 == 1).await;
    assert!(engine.works_on(|key| key == "default/k") && !engine.works_on(|key| key != "default/k"));
}

/// Whether the engine answers somebody else while a mapping of a new controller runs.
fn answers(engine: &Engine) -> bool {
    let (answered, answers) = mpsc::channel();
    let engine = engine.clone();
    std::thread::spawn(move || answered.send(engine.list().len()));
    answers.recv_timeout(Duration::from_secs(5)).is_ok()
}

#[tokio::test(start_paused = true)]
async fn the_engine_answers_while_a_new_controller_maps_what_is_there() {
    let client = Server::new().await.client(&World::simulated(1));
    let (engine, _) = engine(&client);
    client.create(&maps(), &map("a", "1")).await.unwrap();
    let cache = engine.informers().cache(maps());
    cache.synced().await;
    let (asked, seen) = (engine.clone(), Arc::new(Mutex::new(Vec::new())));
    let log = Arc::clone(&seen);
    let mapping = Mapping::new(move |change| {
        log.lock().unwrap().push(answers(&asked));
        vec![change.key.clone()]
    });
    let controller = || {
        let mapping = mapping.clone();
        let reconciler = reconcile_fn(|_| async { Ok(Outcome::Done) });
        Controller::builder("c").watches(maps(), mapping).run(reconciler).unwrap()
    };
    engine.add(controller()).unwrap();
    assert!(engine.add(controller()).is_err(), "the name is taken");
    until("it is mapped", || !seen.lock().unwrap().is_empty()).await;
    assert!(seen.lock().unwrap().iter().all(|answered| *answered), "{seen:?}");
    engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_future_is_dropped_does_nothing_more() {
    let manager = replica(&Server::new().await, "a");
    let turns = Arc::new(Turns::default());
    manager.add_controller(Controller::builder("c").on(one_key()).run(turns.endless()).unwrap()).unwrap();
    let mut tasks = TaskGroup::new(CancellationToken::new());
    tasks.spawn("manager", manager.clone().run(Stop::default()));
    until("it works", || turns.counts() == (1, 0)).await;
    assert!(manager.standing().borrow().leads());
    drop(tasks);
    until("its turn is over", || turns.counts() == (1, 1)).await;
    assert!(!manager.standing().borrow().leads(), "nobody renews its lease any more");
    manager.engine().poke("c", key("another"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(turns.counts(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_drains_ends_with_its_term() {
    let (engine, metrics) = engine(&Server::new().await.client(&World::simulated(1)));
    let turns = Arc::new(Turns::default());
    engine.add(Controller::builder("c").on(one_key()).run(turns.endless()).unwrap()).unwrap();
    until("it works", || turns.counts() == (1, 0)).await;
    let deposed = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(turns.counts(), (1, 0), "it may come to its end while the process leads");
        engine.stand_by();
        let rests = tokio::time::timeout(Duration::from_secs(1), engine.at_rest()).await;
        assert!(rests.is_ok(), "who was deposed must not act");
    };
    let (removed, ()) = tokio::join!(engine.remove("c"), deposed);
    assert!(removed && turns.counts() == (1, 1));
    assert!(!metrics.text().contains("active_workers{controller=\"c\"} 1"), "{}", metrics.text());
}
