//! One run of a whole control plane in virtual time; its journal's hash is its identity.
//!
//! `cargo xtask determinism --seed N --objects N` runs it twice, in two processes, and compares.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a check may panic, and prints its result")]

#[path = "../tests/common/world.rs"]
mod common;

use std::time::Duration;

use common::{VISIBLE_AFTER, prepared, run, servers};
use concert_api::{Condition, ObjectKey};
use concert_external::NamePolicy;
use concert_runtime::{Client, Deletion, Selection};
use concert_testkit::Cloud;
use concert_world::World;
use serde_json::json;

fn argument(name: &str) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    let value = arguments.nth(1).and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("{name} N is missing"))
}

fn main() {
    let (seed, objects) = (argument("--seed"), argument("--objects"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::simulated(seed);
        let server = prepared().await.fork(world.clone());
        let cloud = Cloud::new(world.clone(), NamePolicy::SearchedByToken, VISIBLE_AFTER);
        let process = run(server.clone(), cloud.clone(), NamePolicy::SearchedByToken, world.reincarnated());
        let client = Client::in_process(server, world.clone());
        tokio::select! {
            biased;
            () = workload(&client, &cloud, &world, objects) => {}
            () = process => panic!("the process ended by itself"),
        }
        println!("journal {} {} lines", world.journal.hash(), world.journal.lines().len());
    });
}

/// Creates, meddles, deletes; the order is the seed's.
async fn workload(client: &Client, cloud: &Cloud, world: &World, objects: u64) {
    for number in 0..objects {
        let size = world.random.below(10);
        let object = json!({
            "apiVersion": "cloud.test/v1", "kind": "Server", "metadata": {"name": format!("s{number}")},
            "spec": {"forProvider": {"size": size}},
        });
        client.create(&servers(), &object).await.unwrap();
        if world.random.below(10) == 0 {
            tokio::time::sleep(Duration::from_millis(world.random.below(1000))).await;
        }
    }
    let ready = async || {
        let all = client.list(&servers(), &Selection::default()).await.unwrap().objects;
        all.iter().filter(|one| Condition::is_true(&one.value().unwrap(), "Ready")).count() as u64
    };
    while ready().await < objects {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    cloud.meddle(&json!({"size": "somebody else's"}));
    while cloud.objects().values().any(|one| one.parameters["size"].is_string()) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for number in 0..objects {
        client.delete(&servers(), &ObjectKey::cluster(format!("s{number}")), &Deletion::default()).await.unwrap();
    }
    while !cloud.objects().is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!((0..objects).all(|number| cloud.creates(&format!("s{number}")) == 1), "each was created once");
}
