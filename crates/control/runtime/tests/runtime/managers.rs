//! Processes: start and stop in order, drain, and end at once when the lease is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_runtime::manager::Context;
use concert_runtime::{
    Controller, Grace, LeaseSettings, Manager, ManagerError, ManagerSettings, Outcome, Phase, Standing, Stop,
    reconcile_fn,
};
use concert_world::{Call, Gate, Verdict, World};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::embedded::Server;
use crate::{map, maps};

type Log = Arc<Mutex<Vec<String>>>;

async fn manager(settings: ManagerSettings) -> Manager {
    Manager::new(Server::new().await.client(&World::simulated(1)), settings)
}

fn note(manager: &Manager, phase: Phase, log: &Log) {
    let log = Arc::clone(log);
    let noting = move |mut context: Context| async move {
        log.lock().unwrap().push(format!("start {phase:?}"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        context.ready();
        context.cancel.cancelled().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        log.lock().unwrap().push(format!("stop {phase:?}"));
        Ok(())
    };
    manager.add(phase, format!("{phase:?}"), noting).unwrap();
}

fn stop() -> (Stop, CancellationToken, CancellationToken) {
    let (drain, abort) = (CancellationToken::new(), CancellationToken::new());
    (Stop::on(drain.clone(), abort.clone()), drain, abort)
}

async fn after<T>(wait: Duration, then: impl FnOnce() -> T) -> T {
    tokio::time::sleep(wait).await;
    then()
}

#[tokio::test(start_paused = true)]
async fn phases_start_and_stop_in_their_order() {
    let (log, manager) = (Log::default(), manager(ManagerSettings::new("m")).await);
    for phase in Phase::START.into_iter().rev() {
        note(&manager, phase, &log);
    }
    let standing = manager.standing();
    let (stop, drain, _) = stop();
    let (ended, ()) = tokio::join!(
        manager.run(stop),
        after(Duration::from_secs(60), || {
            assert!(matches!(*standing.borrow(), Standing::Leading { .. }), "without election we lead");
            drain.cancel();
        })
    );
    ended.unwrap();
    let starts = ["start Servers", "start Webhooks", "start Caches", "start Always", "start Warmup", "start Elected"];
    let stops = ["stop Always", "stop Warmup", "stop Elected", "stop Caches", "stop Webhooks", "stop Servers"];
    assert_eq!(*log.lock().unwrap(), [starts, stops].concat());
}

#[tokio::test(start_paused = true)]
async fn a_component_that_fails_stops_the_process() {
    let manager = manager(ManagerSettings::new("m")).await;
    manager.add(Phase::Always, "watcher", |_: Context| async { Err("no luck".into()) }).unwrap();
    let error = manager.run(stop().0).await.unwrap_err();
    assert_eq!(error.to_string(), "watcher failed: no luck");
}

/// Gives a process a reconcile that takes for ever.
async fn never_done(manager: &Manager) {
    let forever = reconcile_fn(|_| async {
        std::future::pending::<()>().await;
        Ok(Outcome::Done)
    });
    manager.engine().add(Controller::builder("files").for_(maps()).run(forever).unwrap()).unwrap();
    manager.client().create(&maps(), &map("a", "1")).await.unwrap();
}

/// A process whose only reconcile takes for ever.
async fn stuck(grace: Grace, abort_after: Option<Duration>) -> (Result<(), ManagerError>, Duration) {
    let manager = manager(ManagerSettings { grace, ..ManagerSettings::new("m") }).await;
    never_done(&manager).await;
    let (stop, drain, abort) = stop();
    let told = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        drain.cancel();
        let began = Instant::now();
        if let Some(wait) = abort_after {
            after(wait, || abort.cancel()).await;
        }
        began
    };
    let (ended, began) = tokio::join!(manager.run(stop), told);
    (ended, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_drain_says_what_held_it_up() {
    let (ended, took) = stuck(Grace::For(Duration::from_secs(30)), None).await;
    let message = ended.unwrap_err().to_string();
    assert!(message.ends_with("still running: files default/a (for 35.0 s)"), "{message}");
    assert!((30..36).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_aborts() {
    let (ended, took) = stuck(Grace::For(Duration::from_secs(30)), Some(Duration::from_secs(1))).await;
    assert!(matches!(ended, Err(ManagerError::Drain { .. })));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

/// Refuses writes to leases once it is told to.
#[derive(Clone, Debug, Default)]
struct NoRenewal(Arc<Mutex<bool>>);

impl Gate for NoRenewal {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        if *self.0.lock().unwrap() && call.key.contains("leases") { Verdict::Refuse } else { Verdict::Pass }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_process_at_once() {
    let gate = NoRenewal::default();
    let world = World { gate: Arc::new(gate.clone()), ..World::simulated(1) };
    let lease = Some(LeaseSettings::new("default", "m", "a"));
    let manager =
        Manager::new(Server::new().await.client(&world), ManagerSettings { lease, ..ManagerSettings::new("m") });
    never_done(&manager).await;
    let metrics = manager.metrics().clone();
    let (ended, lost_at) = tokio::join!(
        manager.run(stop().0),
        after(Duration::from_secs(30), || {
            assert!(metrics.text().contains("leader_election_master_status{name=\"m\"} 1"));
            *gate.0.lock().unwrap() = true;
            Instant::now()
        })
    );
    assert!(matches!(ended, Err(ManagerError::Lease(_))), "{ended:?}");
    assert!(lost_at.elapsed() <= Duration::from_secs(10), "{:?}", lost_at.elapsed());
    assert!(metrics.text().contains("leader_election_master_status{name=\"m\"} 0"));
}

#[tokio::test]
async fn endpoints_answer_while_it_runs() {
    let mut settings = ManagerSettings::new("m");
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    settings.metrics = Some(("--metrics-bind-address".into(), taken.local_addr().unwrap().to_string()));
    let error = manager(settings).await.run(stop().0).await.unwrap_err().to_string();
    assert!(error.contains("--metrics-bind-address=127.0.0.1:"), "{error}");
}
