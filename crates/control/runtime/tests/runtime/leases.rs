//! Elections: one leader at a time, whatever breaks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_api::Gvk;
use concert_runtime::{
    Client, Lease, LeaseError, LeaseRecord, LeaseSettings, Lock, LockError, Manager, ManagerSettings, Metrics,
    Resource, Standing, Stop, TaskGroup,
};
use concert_world::{Call, Gate, Verdict, World};
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::embedded::Server;
use crate::{key, map, maps, until};

/// A candidate that runs in a group of tasks.
struct Candidate {
    standing: watch::Receiver<Standing>,
    cancel: CancellationToken,
    tasks: TaskGroup<Result<(), LeaseError>>,
}

fn settings(identity: &str) -> LeaseSettings {
    LeaseSettings::new("default", "test", identity)
}

fn candidate(client: Client, settings: LeaseSettings) -> Candidate {
    let (lease, standing) = Lease::new(client, settings, Metrics::new());
    let cancel = CancellationToken::new();
    let mut tasks = TaskGroup::new(cancel.clone());
    tasks.spawn("lease", lease.run(cancel.clone()));
    Candidate { standing, cancel, tasks }
}

impl Candidate {
    fn fence(&self) -> Option<u64> {
        match &*self.standing.borrow() {
            Standing::Leading { fence } => Some(fence.parse().unwrap()),
            _ => None,
        }
    }

    async fn leads(&mut self) -> u64 {
        let leading = |standing: &Standing| matches!(standing, Standing::Leading { .. });
        tokio::time::timeout(Duration::from_secs(60), self.standing.wait_for(leading)).await.unwrap().unwrap();
        self.fence().unwrap()
    }

    async fn ends(mut self) -> Result<(), LeaseError> {
        self.cancel.cancel();
        self.tasks.join_next().await.unwrap().result.unwrap()
    }
}

/// Refuses everything while it is closed.
#[derive(Clone, Debug, Default)]
struct Partition(Arc<Mutex<bool>>);

impl Gate for Partition {
    fn admit(&self, _: &Call<'_>) -> Verdict {
        if *self.0.lock().unwrap() { Verdict::Hang } else { Verdict::Pass }
    }
}

/// One leads, hands over when it stops, and the fence grows.
pub(crate) async fn a_lease_is_handed_over(client: &Client, name: &str) {
    let settings = |identity: &str| LeaseSettings { name: name.to_owned(), ..settings(identity) };
    let mut a = candidate(client.clone(), settings("a"));
    let first = a.leads().await;
    let mut b = candidate(client.clone(), settings("b"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((a.fence(), b.fence()), (Some(first), None));
    assert_eq!(*b.standing.borrow(), Standing::Following { leader: "a".into() });
    let stopped = tokio::time::Instant::now();
    a.ends().await.unwrap();
    assert!(b.leads().await > first);
    assert!(stopped.elapsed() < Duration::from_secs(6), "released, so nobody waits for it to be over");
    b.ends().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn leadership_is_handed_over() {
    a_lease_is_handed_over(&Server::new().await.client(&World::simulated(1)), "test").await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_gives_up_before_the_next_one_leads() {
    let (server, partition) = (Server::new().await, Partition::default());
    let cut_off = World { gate: Arc::new(partition.clone()), ..World::simulated(1) };
    let mut a = candidate(server.client(&cut_off), settings("a"));
    let first = a.leads().await;
    // Its clock is years off: that must not matter.
    let mut b = candidate(
        server.client(&World { clock: concert_world::Clock::system(), ..World::simulated(2) }),
        settings("b"),
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((a.fence(), b.fence()), (Some(first), None), "as long as it renews");
    *partition.0.lock().unwrap() = true;
    let lost = a.tasks.join_next().await.unwrap().result.unwrap();
    assert!(matches!(lost, Err(LeaseError::Lost { .. })), "{lost:?}");
    assert_eq!(b.fence(), None, "nobody leads in between, never two");
    assert!(b.leads().await > first);
}

#[tokio::test(start_paused = true)]
async fn of_many_candidates_one_leads_at_a_time() {
    let server = Server::new().await;
    let mut all: Vec<Candidate> =
        (0..5).map(|n| candidate(server.client(&World::simulated(n)), settings(&format!("c{n}")))).collect();
    let mut fences = Vec::new();
    while !all.is_empty() {
        tokio::time::sleep(Duration::from_secs(20)).await;
        let leaders: Vec<usize> = (0..all.len()).filter(|n| all[*n].fence().is_some()).collect();
        assert_eq!(leaders.len(), 1);
        let leader = all.remove(leaders[0]);
        fences.push(leader.fence().unwrap());
        leader.ends().await.unwrap();
    }
    assert!(fences.is_sorted() && fences.len() == 5, "{fences:?}");
}

/// Does to requests whatever a seed says, until it is told that the faults are over.
#[derive(Clone, Debug)]
struct Weather(concert_world::Random, Arc<Mutex<bool>>);

impl Gate for Weather {
    fn admit(&self, _: &Call<'_>) -> Verdict {
        if *self.1.lock().unwrap() {
            return Verdict::Pass;
        }
        match self.0.below(12) {
            0 => Verdict::Refuse,
            1 => Verdict::LoseReply,
            2 => Verdict::Hang,
            3 => Verdict::Fail(503),
            4 => Verdict::Delay(Duration::from_millis(self.0.below(8000))),
            _ => Verdict::Pass,
        }
    }
}

/// A candidate that comes back whenever it is deposed.
async fn comes_back(client: Client, identity: String, standing: watch::Sender<Standing>) {
    loop {
        let (lease, mut seen) = Lease::new(client.clone(), settings(&identity), Metrics::new());
        let relay = async {
            while seen.changed().await.is_ok() {
                standing.send_replace(seen.borrow_and_update().clone());
            }
        };
        tokio::select! {
            lost = lease.run(CancellationToken::new()) => drop(lost.unwrap_err()),
            () = relay => {}
        }
        standing.send_replace(Standing::Unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn in_any_weather_one_leads_at_most_and_soon_one_does() {
    for seed in 0..6 {
        let (server, over) = (Server::new().await, Arc::new(Mutex::new(false)));
        let mut tasks: TaskGroup = TaskGroup::new(CancellationToken::new());
        let mut standings = Vec::new();
        for n in 0..3 {
            let world = World::simulated(seed * 10 + n);
            let gate = Arc::new(Weather(world.random.clone(), Arc::clone(&over)));
            let (standing, seen) = watch::channel(Standing::Unknown);
            let client = server.client(&World { gate, ..world });
            tasks.spawn(format!("c{n}"), comes_back(client, format!("c{n}"), standing));
            standings.push(seen);
        }
        let (mut last, mut changes) = (0, 0);
        for _ in 0..3000 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let fences: Vec<u64> = standings.iter().filter_map(fence).collect();
            assert!(fences.len() <= 1, "seed {seed}: {fences:?} lead");
            if let Some(fence) = fences.first().filter(|fence| **fence != last) {
                assert!(*fence > last, "seed {seed}: fences only grow");
                (last, changes) = (*fence, changes + 1);
            }
        }
        assert!(changes > 0, "seed {seed}");
        *over.lock().unwrap() = true;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(standings.iter().filter_map(fence).count(), 1, "seed {seed}: somebody leads");
        tasks.abort().await;
    }
}

fn fence(standing: &watch::Receiver<Standing>) -> Option<u64> {
    match &*standing.borrow() {
        Standing::Leading { fence } => Some(fence.parse().unwrap()),
        Standing::Unknown | Standing::Following { .. } => None,
    }
}

/// Holds every write to ConfigMaps up for a while.
#[derive(Debug)]
struct SlowWrites;

impl Gate for SlowWrites {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        let slow = call.verb == "PUT" && call.key.contains("configmaps");
        if slow { Verdict::Delay(Duration::from_secs(40)) } else { Verdict::Pass }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_deposed_leader_still_sends_changes_nothing() {
    let (server, partition) = (Server::new().await, Partition::default());
    let of_a = server.client(&World { gate: Arc::new(SlowWrites), ..World::simulated(1) });
    let leases_of_a = server.client(&World { gate: Arc::new(partition.clone()), ..World::simulated(1) });
    let of_b = server.client(&World::simulated(2));
    let seen = of_b.create(&maps(), &map("x", "0")).await.unwrap().value().unwrap();
    let mut a = candidate(leases_of_a, settings("a"));
    let first = a.leads().await;
    let mut b = candidate(of_b.clone(), settings("b"));
    // As leader, a decides to write what follows from what it has seen. Then it is cut off, and the write is late.
    let write_of = |by: &str, fence: u64| {
        let mut write = seen.clone();
        write["data"] = serde_json::json!({ "by": by, "fence": fence.to_string() });
        write
    };
    let write_of_a = write_of("a", first);
    let slow = of_a.with_deadline(Duration::from_secs(60));
    let late = async { slow.replace(&maps(), &write_of_a, None).await };
    let next = async {
        *partition.0.lock().unwrap() = true;
        let second = b.leads().await;
        assert!(second > first);
        of_b.replace(&maps(), &write_of("b", second), None).await.unwrap();
    };
    let (late, ()) = tokio::join!(late, next);
    assert!(late.unwrap_err().is_conflict(), "the server refuses it by its precondition");
    let now = of_b.get(&maps(), &key("x")).await.unwrap().unwrap().value().unwrap();
    assert_eq!(now["data"]["by"], "b");
    assert!(matches!(a.tasks.join_next().await.unwrap().result.unwrap(), Err(LeaseError::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_others_put_on_a_lease_stays_and_it_is_labelled() {
    let client = Server::new().await.client(&World::simulated(1));
    let leases = Resource::namespaced(Gvk::new("coordination.k8s.io", "v1", "Lease"), "leases");
    let labels = [("team".to_owned(), "red".to_owned())].into();
    let mut a = candidate(client.clone(), LeaseSettings { labels, ..settings("a") });
    a.leads().await;
    let mark = serde_json::json!({ "metadata": { "annotations": { "note": "ours" } } });
    client.merge_patch(&leases, &key("test"), &mark, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(a.fence().is_some(), "a change of metadata deposes nobody");
    client.merge_patch(&leases, &key("test"), &mark, None).await.unwrap();
    a.ends().await.unwrap();
    let lease = client.get(&leases, &key("test")).await.unwrap().unwrap().value().unwrap();
    assert_eq!(lease["metadata"]["annotations"]["note"], "ours");
    assert_eq!(lease["metadata"]["labels"]["team"], "red");
    let spec = &lease["spec"];
    assert_eq!((spec["holderIdentity"].as_str(), spec["leaseDurationSeconds"].as_u64()), (Some(""), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_used_says_why_and_is_tried_again() {
    let server = Server::new().await;
    let client = server.client(&World::simulated(1));
    let metrics = Metrics::new();
    let elsewhere = LeaseSettings { namespace: "later".into(), ..settings("a") };
    let (lease, mut standing) = Lease::new(client.clone(), elsewhere, metrics.clone());
    let cancel = CancellationToken::new();
    let mut tasks = TaskGroup::new(cancel.clone());
    tasks.spawn("lease", lease.run(cancel));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!standing.borrow().leads());
    let text = metrics.text();
    let failures = text.lines().find_map(|line| line.strip_prefix("concert_election_failures_total{name=\"test\"} "));
    assert!(failures.unwrap().parse::<u32>().unwrap() > 3, "{text}");
    let namespaces = Resource::cluster(Gvk::new("", "v1", "Namespace"), "namespaces");
    client.create(&namespaces, &serde_json::json!({ "metadata": { "name": "later" } })).await.unwrap();
    let leads = standing.wait_for(Standing::leads);
    tokio::time::timeout(Duration::from_secs(10), leads).await.unwrap().unwrap();
    tasks.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changes_of_leader_are_told_as_events() {
    let client = Server::new().await.client(&World::simulated(1));
    let (recorder, teller) = concert_runtime::Recorder::new(client.clone(), "concert");
    let (lease, mut standing) = Lease::new(client.clone(), settings("a"), Metrics::new());
    let cancel = CancellationToken::new();
    let story = async {
        standing.wait_for(Standing::leads).await.unwrap();
        cancel.cancel();
    };
    let (ended, ()) = tokio::join!(lease.with_recorder(recorder).run(cancel.clone()), story);
    ended.unwrap();
    teller.run(cancel).await;
    let events = Resource::namespaced(Gvk::new("", "v1", "Event"), "events");
    let told = client.list(&events, &concert_runtime::Selection::default()).await.unwrap().objects;
    let told = told.iter().map(|event| event.value().unwrap());
    let mut told: Vec<String> = told.map(|event| format!("{} {}", event["reason"], event["message"])).collect();
    told.sort();
    assert_eq!(told, ["\"LeaderElection\" \"a became leader\"", "\"LeaderElection\" \"a stopped leading\""]);
}

/// A place to meet that is no Lease: a record and its version, in memory.
#[derive(Debug, Default)]
struct Board {
    held: Mutex<Option<(LeaseRecord, u64)>>,
    broken: Mutex<bool>,
}

impl Board {
    fn works(&self) -> Result<(), LockError> {
        if *self.broken.lock().unwrap() { Err(LockError::Failed("the board fell down".into())) } else { Ok(()) }
    }
}

impl Lock for Board {
    fn read(&self) -> BoxFuture<'_, Result<Option<(LeaseRecord, String)>, LockError>> {
        let read = self.works().map(|()| {
            self.held.lock().unwrap().as_ref().map(|(record, version)| (record.clone(), version.to_string()))
        });
        Box::pin(async { read })
    }

    fn write<'a>(
        &'a self,
        record: &'a LeaseRecord,
        expected: Option<&'a str>,
    ) -> BoxFuture<'a, Result<String, LockError>> {
        let write = || {
            self.works()?;
            let mut held = self.held.lock().unwrap();
            let version = held.as_ref().map_or(0, |(_, version)| *version);
            if held.is_some() != expected.is_some() || expected.is_some_and(|expected| expected != version.to_string())
            {
                return Err(LockError::Conflict);
            }
            *held = Some((record.clone(), version + 1));
            Ok((version + 1).to_string())
        };
        let written = write();
        Box::pin(async { written })
    }
}

#[tokio::test(start_paused = true)]
async fn candidates_may_meet_elsewhere_than_at_a_lease() {
    let client = Server::new().await.client(&World::simulated(1));
    let board = Arc::new(Board::default());
    let replica = |identity: &str| {
        let lease = Some(settings(identity));
        let lock = Some(Arc::clone(&board) as Arc<dyn Lock>);
        Manager::new(client.clone(), ManagerSettings { lease, lock, ..ManagerSettings::new("m") })
    };
    let (one, two) = (replica("one"), replica("two"));
    let (stop_one, stop_two) = (Stop::default(), Stop::default());
    let (leave_one, leave_two) = (stop_one.drain.clone(), stop_two.drain.clone());
    let story = async {
        let fence = one.standing().wait_for(Standing::leads).await.unwrap().clone();
        assert_eq!(fence, Standing::Leading { fence: "1".into() });
        until("the other follows", || *two.standing().borrow() == Standing::Following { leader: "one".into() }).await;
        leave_one.cancel();
        two.standing().wait_for(Standing::leads).await.unwrap();
        *board.broken.lock().unwrap() = true;
    };
    let run_two = async {
        one.standing().wait_for(Standing::leads).await.unwrap();
        two.clone().run(stop_two).await
    };
    let (ended_one, ended_two, ()) = tokio::join!(one.clone().run(stop_one), run_two, story);
    ended_one.unwrap();
    let lost = ended_two.unwrap_err().to_string();
    assert!(lost.contains("the board fell down"), "{lost}");
    drop(leave_two);
    let leases = Resource::namespaced(Gvk::new("coordination.k8s.io", "v1", "Lease"), "leases");
    assert!(client.get(&leases, &key("test")).await.unwrap().is_none(), "no Lease was needed");
}

#[tokio::test(start_paused = true)]
async fn a_process_is_known_by_its_host_and_by_something_of_its_own() {
    let client = Server::new().await.client(&World::simulated(1));
    let (one, two) = (LeaseSettings::of_this_process(&client, "m"), LeaseSettings::of_this_process(&client, "m"));
    assert_eq!((&*one.namespace, &*one.name), ("default", "m"));
    let host = |settings: &LeaseSettings| settings.identity.rsplit_once('_').unwrap().0.to_owned();
    assert!(!host(&one).is_empty() && host(&one) == host(&two) && one.identity != two.identity, "{one:?} {two:?}");
}
