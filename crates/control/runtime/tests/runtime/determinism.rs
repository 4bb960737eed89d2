//! Two runs of one seed are the same run.

use std::sync::Arc;
use std::time::Duration;

use concert_runtime::{
    Controller, LeaseSettings, Manager, ManagerSettings, Outcome, ReconcileError, Stop, reconcile_fn,
};
use concert_world::{Call, Gate, Verdict, World};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::embedded::Server;
use crate::{map, maps};

/// Trouble that depends on the call alone.
#[derive(Debug)]
struct Weather(u64);

impl Gate for Weather {
    fn admit(&self, call: &Call<'_>) -> Verdict {
        let number = call
            .key
            .bytes()
            .chain(call.verb.bytes())
            .fold(self.0, |hash, byte| hash.wrapping_mul(31) + u64::from(byte));
        match number % 11 {
            0 => Verdict::Delay(Duration::from_millis(number % 700)),
            1 if call.verb == "PATCH" => Verdict::LoseReply,
            _ => Verdict::Pass,
        }
    }
}

fn run(seed: u64) -> (String, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World { gate: Arc::new(Weather(seed)), ..World::simulated(seed) };
        let client = Server::new().await.client(&world);
        let lease = Some(LeaseSettings::new("default", "m", world.random.uuid()));
        let manager = Manager::new(client.clone(), ManagerSettings { lease, ..ManagerSettings::new("m") });
        let (writer, random) = (manager.client().clone(), world.random.clone());
        let reconciler = reconcile_fn(move |request| {
            let (writer, random) = (writer.clone(), random.clone());
            async move {
                if random.below(5) == 0 {
                    return Err(ReconcileError::retry("bad luck"));
                }
                let patch = json!({ "data": { "seen": "yes" } });
                request.wrote(&writer.merge_patch(&maps(), &request.key, &patch, None).await?);
                Ok(Outcome::After(random.jitter(Duration::from_secs(60), 0.1)))
            }
        });
        let controller = Controller::builder("c").for_(maps()).workers(4).run(reconciler).unwrap();
        manager.engine().add(controller).unwrap();
        let drain = CancellationToken::new();
        let stop = Stop::on(drain.clone(), CancellationToken::new());
        let work = async {
            for n in 0..40 {
                client.create(&maps(), &map(&format!("m{n}"), "1")).await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(300)).await;
            drain.cancel();
        };
        let (ended, ()) = tokio::join!(manager.run(stop), work);
        ended.unwrap();
        (world.journal.hash(), world.journal.lines().len())
    })
}

#[test]
fn the_same_seed_gives_the_same_journal() {
    let (first, lines) = run(7);
    assert_eq!(run(7), (first.clone(), lines));
    assert!(lines > 500, "{lines} lines say something");
    assert_ne!(run(8).0, first);
}
