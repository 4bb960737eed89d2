//! Elections: one leader at a time, whatever breaks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_runtime::{Client, Lease, LeaseError, LeaseSettings, Metrics, Standing, TaskGroup};
use concert_world::{Call, Gate, Verdict, World};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::embedded::Server;

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
