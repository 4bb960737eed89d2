//! Processes: start and stop in order, drain, and end at once when the lease is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_runtime::Visit;
use concert_runtime::manager::Context;
use concert_runtime::{
    Client, ClusterError, Controller, EventKind, Grace, LeaseError, LeaseSettings, Manager, ManagerError,
    ManagerSettings, Mapping, Namespaces, OnLost, Outcome, Phase, Resource, Runnable, Scope, Selection, ShardSettings,
    Standing, Stop, reconcile_fn, repeatable,
};
use concert_world::{Call, Gate, Verdict, World};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::embedded::Server;
use crate::place::{self, Place};
use crate::{map, maps, until};

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

#[tokio::test(start_paused = true)]
async fn components_can_be_added_while_it_runs_and_not_after() {
    let (log, manager) = (Log::default(), manager(ManagerSettings::new("m")).await);
    let (stop, drain, _) = stop();
    let held = manager.clone();
    let later = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        note(&held, Phase::Always, &log);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(*log.lock().unwrap(), ["start Always"]);
        drain.cancel();
    };
    let (ended, ()) = tokio::join!(manager.run(stop), later);
    ended.unwrap();
    assert_eq!(*log.lock().unwrap(), ["start Always", "stop Always"]);
    let late = held.add(Phase::Always, "late", |_: Context| async { Ok(()) }).unwrap_err();
    assert_eq!(late.to_string(), "cannot add late: the process is stopping");
    assert_eq!(held.run(Stop::default()).await.unwrap_err().to_string(), "cannot run: it runs already");
}

/// A component with a type of its own.
struct Counting(Arc<Mutex<u32>>);

impl Runnable for Counting {
    async fn run(self, context: Context) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        *self.0.lock().unwrap() += 1;
        context.cancel.cancelled().await;
        Err("too late to matter".into())
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_while_stopping_is_only_logged() {
    let (ran, manager) = (Arc::default(), manager(ManagerSettings::new("m")).await);
    manager.add(Phase::Elected, "counting", Counting(Arc::clone(&ran))).unwrap();
    let (stop, drain, _) = stop();
    let (ended, ()) = tokio::join!(manager.run(stop), after(Duration::from_secs(5), || drain.cancel()));
    ended.unwrap();
    assert_eq!(*ran.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn grace_can_be_nothing_or_for_ever() {
    let (ended, took) = stuck(Grace::None, None).await;
    assert!(ended.is_ok() && took < Duration::from_secs(1), "{ended:?} after {took:?}");
    let (ended, took) = stuck(Grace::Forever, Some(Duration::from_secs(100_000))).await;
    assert!(ended.is_err() && took.as_secs() == 100_000, "{ended:?} after {took:?}");
}

#[tokio::test(start_paused = true)]
async fn settings_that_contradict_each_other_are_refused() {
    let lease = Some(LeaseSettings::new("default", "m", "a"));
    let both =
        ManagerSettings { lease, shards: Some(ShardSettings::new("default", "m", "a")), ..ManagerSettings::new("m") };
    assert!(manager(both).await.run(stop().0).await.unwrap_err().to_string().contains("leave out the lease"));
    let lease = LeaseSettings { retry: Duration::from_secs(9), ..LeaseSettings::new("default", "m", "a") };
    let slow = ManagerSettings { lease: Some(lease), ..ManagerSettings::new("m") };
    let error = manager(slow).await.run(stop().0).await.unwrap_err().to_string();
    assert!(error.contains("10s must be longer than the retry period 9s x 1.2"), "{error}");
}

/// A process that notes which turns it begins.
fn working(client: Client, identity: &str, on_lost: OnLost, log: &Log) -> Manager {
    let lease = Some(LeaseSettings::new("default", "m", identity));
    let manager = Manager::new(client, ManagerSettings { lease, on_lost, ..ManagerSettings::new("m") });
    let (log, identity) = (Arc::clone(log), identity.to_owned());
    let noting = reconcile_fn(move |request| {
        log.lock().unwrap().push(format!("{identity} {}", request.key.name));
        async { Ok(Outcome::After(Duration::from_secs(1))) }
    });
    manager.add_controller(Controller::builder("maps").for_(only_default()).run(noting).unwrap()).unwrap();
    manager
}

fn only_default() -> Scope {
    Scope::all(maps()).in_namespaces(["default"]).with_fields("metadata.name!=kube-root-ca.crt")
}

fn count(log: &Log, who: &str) -> usize {
    log.lock().unwrap().iter().filter(|line| line.starts_with(who)).count()
}

/// Who is deposed does nothing until it leads again.
pub(crate) async fn a_deposed_process_rejoins(place: &Place, case: &str) {
    let (gate, log, repeated) = (NoRenewal::default(), Log::default(), Arc::new(Mutex::new(0)));
    let world = World { gate: Arc::new(gate.clone()), ..place.world() };
    let client = place.client(&world).await;
    place::namespace(&client, case).await;
    let s = Duration::from_secs;
    let lease =
        LeaseSettings { duration: s(4), renew_deadline: s(3), retry: s(1), ..LeaseSettings::new(case, "m", "a") };
    let settings = ManagerSettings { lease: Some(lease), on_lost: OnLost::Rejoin, ..ManagerSettings::new("m") };
    let a = Manager::new(client, settings);
    let turns = Arc::clone(&log);
    let noting = reconcile_fn(move |request| {
        turns.lock().unwrap().push(format!("a {}", request.key.name));
        async { Ok(Outcome::After(Duration::from_millis(500))) }
    });
    let scope = Scope::all(maps()).in_namespaces([case]);
    a.add_controller(Controller::builder("maps").for_(scope).run(noting).unwrap()).unwrap();
    let counted = Arc::clone(&repeated);
    let elected = repeatable(move |context: Context| {
        *counted.lock().unwrap() += 1;
        async move {
            context.cancel.cancelled().await;
            Ok(())
        }
    });
    a.add(Phase::Elected, "elected", elected).unwrap();
    a.client().create(&maps(), &json!({ "metadata": { "namespace": case, "name": "x" } })).await.unwrap();
    let (stop, drain, _) = stop();
    let (metrics, standing) = (a.metrics().clone(), a.standing());
    let story = async {
        until("it works", || count(&log, "a") > 2).await;
        *gate.0.lock().unwrap() = true;
        let told = Instant::now();
        until("deposed", || !standing.borrow().leads()).await;
        assert!(told.elapsed() < s(5), "before its lease has run out, or soon after: {:?}", told.elapsed());
        let at_the_loss = count(&log, "a");
        tokio::time::sleep(place.a_while()).await;
        assert_eq!(count(&log, "a"), at_the_loss, "nothing is done by whoever does not lead");
        *gate.0.lock().unwrap() = false;
        until("it leads again", || count(&log, "a") > at_the_loss + 2).await;
        drain.cancel();
    };
    let (ended, ()) = tokio::join!(a.run(stop), story);
    ended.unwrap();
    assert_eq!(*repeated.lock().unwrap(), 2);
    assert!(metrics.text().contains("concert_rejoins_total 1"));
}

#[tokio::test(start_paused = true)]
async fn a_deposed_process_stops_at_once_and_can_run_again() {
    a_deposed_process_rejoins(&Place::in_process().await, "deposed").await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_begin_again_ends_when_it_is_deposed() {
    let (gate, log) = (NoRenewal::default(), Log::default());
    let world = World { gate: Arc::new(gate.clone()), ..World::simulated(1) };
    let manager = working(Server::new().await.client(&world), "a", OnLost::Rejoin, &log);
    let once = |context: Context| async move {
        context.cancel.cancelled().await;
        Ok(())
    };
    manager.add(Phase::Elected, "once", once).unwrap();
    let fail = after(Duration::from_secs(10), || *gate.0.lock().unwrap() = true);
    let (ended, ()) = tokio::join!(manager.run(stop().0), fail);
    assert!(matches!(ended, Err(ManagerError::Lease(LeaseError::Lost { .. }))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_warm_standby_takes_over_within_seconds_of_a_release() {
    let (server, log) = (Server::new().await, Log::default());
    let client = |seed| server.client(&World::simulated(seed));
    let setup = client(9);
    for n in 0..50 {
        setup.create(&maps(), &map(&format!("m{n}"), "1")).await.unwrap();
    }
    let (a, b) = (working(client(1), "a", OnLost::Exit, &log), working(client(2), "b", OnLost::Exit, &log));
    let ((stop_a, drain_a, _), (stop_b, drain_b, _)) = (stop(), stop());
    let (standing, standby) = (a.standing(), b.clone());
    let story = async {
        a.elected().await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(standing.borrow().leads() && count(&log, "b") == 0);
        let state = &standby.engine().list()[0];
        assert!(state.is_synced() && state.ready == 50, "its cache and its queue are full: {state:?}");
        drain_a.cancel();
        let released = Instant::now();
        standby.elected().await;
        until("b works", || count(&log, "b") == 50).await;
        drain_b.cancel();
        released.elapsed()
    };
    let run_b = after(Duration::from_secs(1), || b.clone().run(stop_b));
    let run_b = async { run_b.await.await };
    let (ended_a, ended_b, took) = tokio::join!(a.clone().run(stop_a), run_b, story);
    ended_a.unwrap();
    ended_b.unwrap();
    assert!(took < Duration::from_millis(4500), "a retry with jitter at most: {took:?}");
}

/// A cluster is listened to, told about, and removed.
pub(crate) async fn a_cluster_comes_and_goes(near: &Client, far: &Client, case: &str) {
    let scope = |n: &str| {
        Scope::all(maps()).in_namespaces([format!("{case}-{n}")]).with_fields("metadata.name!=kube-root-ca.crt")
    };
    let map = |n: &str| json!({ "metadata": { "namespace": format!("{case}-{n}"), "name": n } });
    place::namespace(near, &format!("{case}-near")).await;
    place::namespace(far, &format!("{case}-far")).await;
    let manager = Manager::new(near.clone(), ManagerSettings::new("m"));
    let log = Log::default();
    let (stop, drain, _) = stop();
    let hold = manager.clone();
    let story = async {
        let there = far.clone();
        let cluster = hold.clusters().add("far", there.clone()).unwrap();
        assert!(matches!(hold.clusters().add("far", there.clone()), Err(ClusterError::NameInUse(_))));
        assert!(matches!(hold.clusters().add("", there.clone()), Err(ClusterError::NoName)));
        let noting = {
            let log = Arc::clone(&log);
            reconcile_fn(move |request| {
                log.lock().unwrap().push(request.key.name.to_string());
                async { Ok(Outcome::Done) }
            })
        };
        let follows = Controller::builder("both").for_(scope("near"));
        let follows = follows.watches(scope("far"), Mapping::own()).in_cluster(&cluster).run(noting).unwrap();
        hold.add_controller(follows).unwrap();
        hold.client().create(&maps(), &map("near")).await.unwrap();
        let object = there.create(&maps(), &map("far")).await.unwrap();
        until("both are heard of", || log.lock().unwrap().len() == 2).await;
        let gvk = concert_api::Gvk::new("", "v1", "ConfigMap");
        assert_eq!(cluster.mapper().resource(&gvk).await.unwrap(), Some(maps()));
        cluster.recorder().record(&object, EventKind::Normal, "Seen", "from afar");
        let of_far = format!("cluster=\"far\",scope=\"configmaps namespace={case}-far");
        assert!(hold.metrics().text().contains(&of_far));
        assert!(hold.engine().remove("both").await && hold.clusters().remove("far").await);
        assert!(!hold.clusters().remove("far").await && hold.clusters().list().is_empty());
        assert!(!hold.metrics().text().contains("cluster=\"far\""));
        let here = Selection { namespace: format!("{case}-far"), ..Selection::default() };
        let events = Resource::namespaced(concert_api::Gvk::new("", "v1", "Event"), "events");
        let told = there.list(&events, &here).await.unwrap().objects.len();
        assert_eq!(told, 1, "events are told before a cluster goes");
        hold.clusters().add("far", there).unwrap();
        drain.cancel();
    };
    let (ended, ()) = tokio::join!(manager.run(stop), story);
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn clusters_come_and_go() {
    let (near, far) = (Server::new().await, Server::new().await);
    a_cluster_comes_and_goes(&near.client(&World::simulated(1)), &far.client(&World::simulated(2)), "clusters").await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_reached_is_in_nobodys_way() {
    let (near, far) = (Server::new().await, Server::new().await);
    let manager = Manager::new(near.client(&World::simulated(1)), ManagerSettings::new("m"));
    let gate = Outage::default();
    gate.set(Verdict::Refuse);
    let unreached = World { gate: Arc::new(gate), ..World::simulated(2) };
    let cluster = manager.clusters().add("far", far.client(&unreached)).unwrap();
    let _cache = cluster.informers().cache(maps());
    let (stop, drain, _) = stop();
    let hold = manager.clone();
    let story = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let line = "concert_watch_trouble{cluster=\"far\",scope=\"configmaps\",trouble=\"failing\"} 1";
        assert!(hold.metrics().text().contains(line), "{}", hold.metrics().text());
        assert_eq!(hold.probes().answer(&Visit::to("/readyz")).unwrap().code, 200);
        drain.cancel();
    };
    let (ended, ()) = tokio::join!(manager.run(stop), story);
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_late_and_a_token_that_expires_stop_nothing() {
    let (gate, log) = (Outage::default(), Log::default());
    gate.set(Verdict::Refuse);
    let world = World { gate: Arc::new(gate.clone()), ..World::simulated(1) };
    let server = Server::new().await;
    let manager = working(server.client(&world), "a", OnLost::Rejoin, &log);
    server.client(&World::simulated(2)).create(&maps(), &map("x", "1")).await.unwrap();
    let (stop, drain, _) = stop();
    let hold = manager.clone();
    let ready = |query: &str| hold.probes().answer(&Visit::to("/readyz").asking(query)).unwrap();
    let story = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((count(&log, "a"), ready("").code), (0, 500));
        assert!(ready("verbose").words().contains("cannot be reached"), "{}", ready("verbose").words());
        assert!(!ready("").words().contains("cannot be reached"), "{}", ready("").words());
        assert!(failures(&hold) > 0);
        gate.set(Verdict::Pass);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let worked = count(&log, "a");
        assert!(worked > 5 && ready("").code == 200, "{worked}");
        gate.set(Verdict::Fail(401));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(count(&log, "a") - worked <= 11, "it no longer leads");
        gate.set(Verdict::Pass);
        let worked = count(&log, "a");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(count(&log, "a") > worked + 5, "and leads again");
        drain.cancel();
    };
    let (ended, ()) = tokio::join!(manager.run(stop), story);
    ended.unwrap();
}

/// Lets nothing through about some things, without a word.
#[derive(Debug)]
struct Mute(&'static [&'static str]);

impl Gate for Mute {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        if self.0.iter().any(|about| call.key.contains(about)) { Verdict::Hang } else { Verdict::Pass }
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_grows_stays_ready() {
    let world = World { gate: Arc::new(Mute(&["namespaces/late", "services"])), ..World::simulated(1) };
    let manager = Manager::new(Server::new().await.client(&world), ManagerSettings::new("m"));
    let tenants = Namespaces::new("tenants", ["default"]);
    let done = reconcile_fn(|_| async { Ok(Outcome::Done) });
    let scope = Scope::all(maps()).within(&tenants);
    manager.add_controller(Controller::builder("c").for_(scope.clone()).run(done).unwrap()).unwrap();
    let (stop, drain, _) = stop();
    let hold = manager.clone();
    let ready = || hold.probes().answer(&Visit::to("/readyz").asking("verbose")).unwrap();
    let shows = |line: &str| assert!(hold.metrics().text().contains(line), "{line} in {}", hold.metrics().text());
    let story = async {
        assert_eq!(ready().code, 500, "not before it knows anything");
        until("it is ready", || ready().code == 200).await;
        shows("concert_cache_joining{cluster=\"\",scope=\"configmaps within=tenants\"} 0");
        tenants.set(["default", "late"]);
        let services = Resource::namespaced(concert_api::Gvk::new("", "v1", "Service"), "services");
        let lazy = hold.informers().lazy(services.clone(), Duration::from_secs(3600));
        let opened = lazy.cache();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(ready().code, 200, "what was complete is enough: {}", ready().words());
        assert!(!hold.informers().cache(scope).state().synced, "who reads from it waits all the same");
        shows("concert_cache_synced{cluster=\"\",scope=\"configmaps within=tenants\"} 1");
        shows("concert_cache_joining{cluster=\"\",scope=\"configmaps within=tenants\"} 1");
        shows("concert_controller_waiting_sources{controller=\"c\"} 0");
        let needed = hold.informers().cache(services);
        assert!(ready().words().contains("services is being listed"), "somebody needs it now: {}", ready().words());
        drop((needed, opened));
        drain.cancel();
    };
    let (ended, ()) = tokio::join!(manager.run(stop), story);
    ended.unwrap();
}

/// How many requests about the lease failed.
fn failures(manager: &Manager) -> u64 {
    let text = manager.metrics().text();
    let line = text.lines().find_map(|line| line.strip_prefix("concert_election_failures_total{name=\"m\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Gives one verdict to everything, and another when it is told to.
#[derive(Clone, Debug)]
struct Outage(Arc<Mutex<Verdict>>);

impl Default for Outage {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Verdict::Pass)))
    }
}

impl Outage {
    fn set(&self, verdict: Verdict) {
        *self.0.lock().unwrap() = verdict;
    }
}

impl Gate for Outage {
    fn admit(&self, _: &Call<'_>) -> Verdict {
        self.0.lock().unwrap().clone()
    }
}

/// Two processes, one lease: the standby is warm, and works soon after the leader was told to stop.
pub(crate) async fn a_standby_takes_over(client: &Client, name: &str) -> Duration {
    let log = Log::default();
    let process = |identity: &'static str| {
        let lease = Some(LeaseSettings::new("default", name, identity));
        let manager = Manager::new(client.clone(), ManagerSettings { lease, ..ManagerSettings::new(name) });
        let (log, name) = (Arc::clone(&log), name.to_owned());
        let noting = reconcile_fn(move |request| {
            if *request.key.name == *name {
                log.lock().unwrap().push(identity.to_owned());
            }
            async { Ok(Outcome::After(Duration::from_millis(100))) }
        });
        manager.add_controller(Controller::builder("maps").for_(only_default()).run(noting).unwrap()).unwrap();
        manager
    };
    client.create(&maps(), &map(name, "1")).await.unwrap();
    let (a, b) = (process("a"), process("b"));
    let ((stop_a, drain_a, _), (stop_b, drain_b, _)) = (stop(), stop());
    let (first, second) = (a.clone(), b.clone());
    let story = async {
        first.elected().await;
        until("a works", || count(&log, "a") > 2).await;
        until("b is warm", || second.engine().list()[0].is_synced()).await;
        drain_a.cancel();
        let told = Instant::now();
        until("b works", || count(&log, "b") > 0).await;
        drain_b.cancel();
        told.elapsed()
    };
    let run_b = async {
        first.elected().await;
        b.run(stop_b).await
    };
    let (ended_a, ended_b, took) = tokio::join!(a.run(stop_a), run_b, story);
    ended_a.unwrap();
    ended_b.unwrap();
    client.delete(&maps(), &crate::key(name), &Default::default()).await.unwrap();
    took
}

#[tokio::test(start_paused = true)]
async fn a_standby_is_warm_and_quick() {
    let client = Server::new().await.client(&World::simulated(1));
    let took = a_standby_takes_over(&client, "standby").await;
    assert!(took < Duration::from_millis(4600), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn who_removes_a_cluster_does_not_remove_the_next_of_its_name() {
    let server = Server::new().await;
    let manager = Manager::new(server.client(&World::simulated(1)), ManagerSettings::new("m"));
    let clusters = manager.clusters();
    clusters.add("x", server.client(&World::simulated(2))).unwrap();
    let replaces = async {
        assert!(clusters.remove("x").await);
        clusters.add("x", server.client(&World::simulated(3))).unwrap();
    };
    let ((), removed) = tokio::join!(replaces, clusters.remove("x"));
    assert!(removed && clusters.get("x").is_some(), "two removed the one that was there");
}
