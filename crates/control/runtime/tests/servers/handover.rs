//! Leadership: lost by who is cut off, taken by who is not, and never by two at a time.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_e2e::{ControlPlane, on_both_servers};
use concert_runtime::{
    Client, Controller, LeaseError, LeaseSettings, Manager, ManagerError, ManagerSettings, Outcome, Scope, Source,
    Stop, reconcile_fn,
};
use concert_world::World;
use serde_json::json;
use tokio::time::Instant;

use crate::network::Network;
use crate::{SOON, maps};

/// Who worked, and when.
type Turns = Arc<Mutex<Vec<(&'static str, Instant)>>>;

/// A process that works as long as it leads.
async fn replica(kubeconfig: &Path, who: &'static str, turns: &Turns) -> Manager {
    let source = Source { kubeconfig: Some(kubeconfig.to_owned()), context: None };
    let client = Client::connect(&source, World::real()).await.unwrap();
    let lease = Some(LeaseSettings::new("default", "handover", who));
    let manager = Manager::new(client, ManagerSettings { lease, ..ManagerSettings::new("handover") });
    let turns = Arc::clone(turns);
    let works = reconcile_fn(move |_| {
        turns.lock().unwrap().push((who, Instant::now()));
        async { Ok(Outcome::After(Duration::from_millis(50))) }
    });
    let scope = Scope::all(maps()).in_namespaces(["default"]).with_fields("metadata.name=work");
    manager.add_controller(Controller::builder("work").for_(scope).run(works).unwrap()).unwrap();
    manager
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < SOON, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The first and the last turn of somebody.
fn turns_of(turns: &Turns, who: &str) -> Option<(Instant, Instant)> {
    let turns = turns.lock().unwrap();
    let mut own = turns.iter().filter(|(worker, _)| *worker == who).map(|(_, at)| *at);
    let first = own.next()?;
    Some((first, own.next_back().unwrap_or(first)))
}

/// A leader whose network is cut ends before the lease does, and the standby, which is warm, takes over when it has run out.
fn a_leader_is_cut_off(server: &ControlPlane) {
    let (network, turns) = (Network::before(server), Turns::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (a, b) =
            (replica(network.kubeconfig(), "a", &turns).await, replica(&server.kubeconfig(), "b", &turns).await);
        b.client().create(&maps(), &json!({ "metadata": { "namespace": "default", "name": "work" } })).await.unwrap();
        let stop_b = Stop::default();
        let (drain, elected) = (stop_b.drain.clone(), a.clone());
        let story = async {
            until("a works", || turns_of(&turns, "a").is_some()).await;
            until("b is warm", || b.engine().list()[0].is_synced()).await;
            network.close();
            let cut = Instant::now();
            until("b works", || turns_of(&turns, "b").is_some()).await;
            drain.cancel();
            let ((_, last), (first, _)) = (turns_of(&turns, "a").unwrap(), turns_of(&turns, "b").unwrap());
            assert!(last < first, "never two: {:?} too late", last.duration_since(first));
            // The lease lasts 15 s, and is looked at every 2 to 2.4 s.
            let took = first.duration_since(cut);
            assert!((Duration::from_secs(12)..Duration::from_secs(25)).contains(&took), "{took:?}");
        };
        let run_b = async {
            elected.elected().await;
            b.clone().run(stop_b).await
        };
        let (ended, other, ()) = tokio::join!(a.clone().run(Stop::default()), run_b, story);
        assert!(matches!(ended, Err(ManagerError::Lease(LeaseError::Lost { .. }))), "{ended:?}");
        other.unwrap();
    });
}

on_both_servers!(a_leader_is_cut_off);
