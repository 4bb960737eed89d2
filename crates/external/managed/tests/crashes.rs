//! No leak, no duplicate: every call of a create, an update and a delete fails or is the end of the process, in turn.
//!
//! Each plan is a world of its own: a fork of a prepared API server, a cloud with random ids and delayed visibility,
//! and a reconciler process that is started again whenever it dies. Time is virtual.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/world.rs"]
mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{VISIBLE_AFTER, prepared, run, servers};
use concert_api::{Condition, ObjectKey};
use concert_apiserver::Server;
use concert_external::NamePolicy;
use concert_runtime::{Client, Deletion};
use concert_testkit::{Cloud, Fault};
use concert_world::{Verdict, World};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// One world: the test's own client, the cloud, and the process under test.
struct Plan {
    client: Client,
    cloud: Cloud,
    gate: Arc<Fault>,
    key: ObjectKey,
    over: CancellationToken,
}

impl Plan {
    fn new(prepared: &Server, names: NamePolicy, fault: Fault) -> (Self, impl Future<Output = usize>) {
        let gate = Arc::new(fault);
        let outside = World::simulated(7);
        let server = prepared.fork(outside.clone());
        let client = Client::in_process(server.clone(), outside.clone());
        let cloud = Cloud::new(outside.clone(), names, VISIBLE_AFTER);
        let world = World { gate: gate.clone(), ..outside.reincarnated() };
        let over = CancellationToken::new();
        let process = keep_running(server, cloud.clone(), names, world, over.clone());
        (Self { client, cloud, gate, key: ObjectKey::cluster("a"), over }, process)
    }

    async fn object(&self) -> Option<Value> {
        self.client.get(&servers(), &self.key).await.unwrap().map(|object| object.value().unwrap())
    }

    /// Waits (virtually) until `holds`; says what the object looked like if it never does.
    async fn until(&self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let waited = tokio::time::timeout(Duration::from_secs(3600), async {
            while !holds(self).await {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        });
        if waited.await.is_err() {
            panic!(
                "never {what}: {:?}\n{:?}\ncalls: {:#?}",
                self.object().await,
                self.cloud.objects(),
                self.gate.calls()
            );
        }
    }

    async fn is_ready(&self) -> bool {
        self.object()
            .await
            .is_some_and(|object| Condition::is_true(&object, "Ready") && Condition::is_true(&object, "Synced"))
    }

    /// Create, change, delete: with exactly one external object, then none.
    async fn workload(&self) {
        let object = json!({
            "apiVersion": "cloud.test/v1", "kind": "Server", "metadata": {"name": "a"}, "spec": {"forProvider": {"size": 1}},
        });
        self.client.create(&servers(), &object).await.unwrap();
        self.until("ready", Self::is_ready).await;
        assert_eq!(self.cloud.objects().len(), 1, "{:#?}", self.gate.calls());
        let change = json!({"spec": {"forProvider": {"size": 2}}});
        self.client.merge_patch(&servers(), &self.key, &change, None).await.unwrap();
        self.until("changed", async |plan| plan.cloud.objects().values().all(|one| one.parameters["size"] == 2)).await;
        self.client.delete(&servers(), &self.key, &Deletion::default()).await.unwrap();
        self.until("gone", async |plan| plan.object().await.is_none()).await;
        assert!(self.cloud.objects().is_empty(), "left behind: {:?}\n{:#?}", self.cloud.objects(), self.gate.calls());
        assert_eq!(self.cloud.creates("a"), 1, "{:#?}", self.gate.calls());
        self.over.cancel();
    }
}

/// The process under test, started again whenever it dies. Gives how many lives it had.
async fn keep_running(
    server: Server,
    cloud: Cloud,
    names: NamePolicy,
    mut world: World,
    over: CancellationToken,
) -> usize {
    let mut lives = 1;
    loop {
        let life = world.incarnation.clone();
        tokio::select! {
            biased;
            // First: the last call may be what it dies of.
            () = life.died() => {}
            () = over.cancelled() => return lives,
            () = run(server.clone(), cloud.clone(), names, world.clone()) => panic!("the process ended by itself"),
        }
        lives += 1;
        world = world.reincarnated();
    }
}

async fn run_plan(prepared: &Server, names: NamePolicy, fault: Fault) -> (Vec<String>, usize) {
    let (plan, process) = Plan::new(prepared, names, fault);
    let ((), lives) = tokio::join!(plan.workload(), process);
    (plan.gate.calls(), lives)
}

async fn every_call_fails_in_turn(names: NamePolicy) -> usize {
    let prepared = prepared().await;
    let (calls, lives) = run_plan(&prepared, names, Fault::none()).await;
    assert_eq!(lives, 1);
    assert!(calls.iter().any(|call| call.contains("External create")) && calls.len() > 15, "{calls:#?}");
    let mut plans = 0;
    for (at, call) in calls.iter().enumerate() {
        for verdict in [
            Verdict::CrashBefore,
            Verdict::CrashAfter,
            Verdict::LoseReply,
            Verdict::Refuse,
            Verdict::Fail(503),
            Verdict::Delay(Duration::from_secs(5)),
        ] {
            let crashes = matches!(verdict, Verdict::CrashBefore | Verdict::CrashAfter);
            let (_, lives) = run_plan(&prepared, names, Fault::at(at, verdict)).await;
            assert_eq!(lives, 1 + usize::from(crashes), "call {at}: {call}");
            plans += 1;
        }
    }
    plans
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_searched_by_token_are_never_made_twice() {
    let plans = every_call_fails_in_turn(NamePolicy::SearchedByToken).await;
    println!("{plans} plans, one external object each, then none");
}

#[tokio::test(start_paused = true)]
async fn deterministic_names_are_never_made_twice() {
    let plans = every_call_fails_in_turn(NamePolicy::Deterministic).await;
    println!("{plans} plans, one external object each, then none");
}

/// The original protocol with assigned ids: nobody can find out, so it stops and says how to go on.
#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_stops_where_nobody_can_find_out() {
    let prepared = prepared().await;
    let names = NamePolicy::Assigned;
    let (clean, _) = run_plan(&prepared, names, Fault::none()).await;
    let create = clean.iter().position(|call| call.contains("External create")).unwrap();
    let (plan, process) = Plan::new(&prepared, names, Fault::at(create, Verdict::CrashAfter));
    let story = async {
        let object = json!({
            "apiVersion": "cloud.test/v1", "kind": "Server", "metadata": {"name": "a"}, "spec": {"forProvider": {"size": 1}},
        });
        plan.client.create(&servers(), &object).await.unwrap();
        let stopped = async |plan: &Plan| {
            let object = plan.object().await.unwrap();
            Condition::find(&object, "Synced").is_some_and(|one| one.message.contains("external-create-pending"))
        };
        plan.until("stopped", stopped).await;
        tokio::time::sleep(Duration::from_secs(7200)).await;
        assert_eq!(plan.cloud.creates("a"), 1, "it waits for a person, for ever");
        // The person has looked: the object exists, under this id.
        let id = plan.cloud.objects().keys().next().unwrap().clone();
        let found = json!({"metadata": {"annotations": {"crossplane.io/external-name": id, "crossplane.io/external-create-pending": null}}});
        plan.client.merge_patch(&servers(), &plan.key, &found, None).await.unwrap();
        plan.until("ready", Plan::is_ready).await;
        assert_eq!(plan.cloud.creates("a"), 1);
        plan.over.cancel();
    };
    tokio::join!(story, process);
}

/// Three writes on the object from nothing to Ready, and silence afterwards.
#[tokio::test(start_paused = true)]
async fn little_is_written_and_nothing_twice() {
    let prepared = prepared().await;
    let (plan, process) = Plan::new(&prepared, NamePolicy::Deterministic, Fault::none());
    let story = async {
        let object = json!({
            "apiVersion": "cloud.test/v1", "kind": "Server", "metadata": {"name": "a"}, "spec": {"forProvider": {"size": 1}},
        });
        plan.client.create(&servers(), &object).await.unwrap();
        plan.until("ready", Plan::is_ready).await;
        // Visibility costs one more status write (Creating); without it there are three.
        let writes =
            |calls: &[String]| calls.iter().filter(|call| call.contains("PATCH") && call.contains("servers")).count();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let first = writes(&plan.gate.calls());
        assert!(first <= 4, "{:#?}", plan.gate.calls());
        assert!(
            !plan.gate.calls().iter().any(|call| call.contains("GET") && call.contains("servers/a")),
            "no live read"
        );
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(writes(&plan.gate.calls()), first, "an hour of polls writes nothing: {:#?}", plan.gate.calls());
        plan.cloud.meddle(&json!({"size": 9}));
        plan.until("repaired", async |plan| plan.cloud.objects().values().all(|one| one.parameters["size"] == 1)).await;
        plan.over.cancel();
    };
    tokio::join!(story, process);
}
