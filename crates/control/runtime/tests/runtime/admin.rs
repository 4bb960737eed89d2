//! What a running process shows: metrics under their agreed names, the admin page, probes.

use std::time::Duration;

use concert_runtime::manager::Context;
use concert_runtime::serve::Pages;
use concert_runtime::{
    Channel, Controller, LeaseSettings, Manager, ManagerSettings, Mapping, Outcome, Page, Phase, ShardSettings,
    Standing, Stop, Trigger, Visit, reconcile_fn,
};
use concert_world::World;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use crate::embedded::Server;
use crate::{map, maps, secrets};

/// controller-runtime's, with their labels; client-go's; and ours.
const NAMES: &[&str] = &[
    "controller_runtime_reconcile_total{controller=\"maps\",result=\"success\"} ",
    "controller_runtime_reconcile_total{controller=\"maps\",result=\"error\"} 0",
    "controller_runtime_reconcile_total{controller=\"maps\",result=\"requeue\"} 0",
    "controller_runtime_reconcile_total{controller=\"maps\",result=\"requeue_after\"} 0",
    "controller_runtime_reconcile_errors_total{controller=\"maps\"} 0",
    "controller_runtime_terminal_reconcile_errors_total{controller=\"maps\"} 0",
    "controller_runtime_reconcile_panics_total{controller=\"maps\"} 0",
    "controller_runtime_reconcile_timeouts_total{controller=\"maps\"} 0",
    "controller_runtime_reconcile_time_seconds_bucket{le=\"0.005\",controller=\"maps\"} ",
    "controller_runtime_reconcile_time_seconds_bucket{le=\"60.0\",controller=\"maps\"} ",
    "controller_runtime_max_concurrent_reconciles{controller=\"maps\"} 1",
    "controller_runtime_active_workers{controller=\"maps\"} 1",
    "workqueue_depth{name=\"maps\",controller=\"maps\",priority=\"0\"} ",
    "workqueue_adds_total{name=\"maps\",controller=\"maps\"} ",
    "workqueue_queue_duration_seconds_bucket{le=\"1e-8\",name=\"maps\",controller=\"maps\"} ",
    "workqueue_queue_duration_seconds_bucket{le=\"1000.0\",name=\"maps\",controller=\"maps\"} ",
    "workqueue_work_duration_seconds_count{name=\"maps\",controller=\"maps\"} ",
    "workqueue_unfinished_work_seconds{name=\"maps\",controller=\"maps\"} ",
    "workqueue_longest_running_processor_seconds{name=\"maps\",controller=\"maps\"} ",
    "workqueue_retries_total{name=\"maps\",controller=\"maps\"} 0",
    "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"in-process\"} ",
    "leader_election_master_status{name=\"m\"} 1",
    "leader_election_slowpath_total{name=\"m\"} 0",
    "concert_cache_objects{cluster=\"\",scope=\"configmaps\"} ",
    "concert_cache_bytes{cluster=\"\",scope=\"configmaps\"} ",
    "concert_watch_lag_seconds{cluster=\"\",scope=\"configmaps\"} ",
    "concert_watch_decode_seconds_total{cluster=\"\",scope=\"configmaps\"} ",
    "concert_cache_synced{cluster=\"\",scope=\"configmaps\"} 1",
    "concert_cache_skipped_objects{cluster=\"\",scope=\"configmaps\"} 0",
    "concert_watch_trouble{cluster=\"\",scope=\"configmaps\",trouble=\"forbidden\"} 0",
    "concert_undecodable_objects_total{cluster=\"\",kind=\"ConfigMap\"} 0",
    "concert_source_waiting{controller=\"maps\",source=\"a channel\"} 0",
    "concert_source_oldest_seconds{controller=\"maps\",source=\"a channel\"} 0",
    "concert_source_folded_total{controller=\"maps\",source=\"a channel\"} 0",
    "concert_events_dropped_total",
    "process_cpu_seconds_total ",
    "process_resident_memory_bytes ",
    "process_virtual_memory_bytes ",
    "process_start_time_seconds ",
    "process_open_fds ",
    "process_max_fds ",
];

async fn page(address: &str, path: &str) -> (u16, String) {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Ports that are free now.
async fn free(count: usize) -> Vec<String> {
    let mut listeners = Vec::new();
    for _ in 0..count {
        listeners.push(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect()
}

#[tokio::test]
async fn a_running_process_shows_what_it_does() {
    let server = Server::new().await;
    let places = free(3).await;
    let place = |flag: &str, n: usize| Some((flag.to_owned(), places[n].clone()));
    let mut settings = ManagerSettings::new("shown");
    settings.lease = Some(LeaseSettings::new("default", "m", "me"));
    (settings.metrics, settings.probes) = (place("--metrics", 0), place("--probes", 1));
    settings.admin = place("--admin", 2);
    settings.ready_when_leading = true;
    let manager = Manager::new(server.client(&World::simulated(1)), settings);
    let secret = json!({ "metadata": { "namespace": "default", "name": "s" }, "stringData": { "k": "canary-7f3a" } });
    manager.client().create(&secrets(), &secret).await.unwrap();
    manager.client().create(&maps(), &map("a", "canary-7f3a")).await.unwrap();
    let never = reconcile_fn(|request| async move {
        if &*request.key.name == "a" {
            std::future::pending::<()>().await;
        }
        Ok(Outcome::Done)
    });
    let outside = Trigger::channel(&Channel::new(), Mapping::own());
    let builder = Controller::builder("maps").for_(maps()).owns(secrets()).on(outside);
    manager.add_controller(builder.run(never).unwrap()).unwrap();
    manager.show("/about", About);
    let (drain, abort) = (CancellationToken::new(), CancellationToken::new());
    let hold = manager.clone();
    let story = async {
        hold.elected().await;
        while hold.engine().busy().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (code, text) = page(&places[0], "/metrics").await;
        for line in NAMES {
            assert!(code == 200 && text.lines().any(|found| found.starts_with(line)), "{line} is missing in:\n{text}");
        }
        assert_eq!(page(&places[1], "/readyz").await, (200, "ok".to_owned()));
        let (_, all) = page(&places[2], "/").await;
        check_admin(&serde_json::from_str(&all).unwrap(), &hold);
        assert_eq!(page(&places[2], "/nothing").await.0, 404);
        let (_, leases) = page(&places[2], "/leases").await;
        assert_eq!(serde_json::from_str::<Value>(&leases).unwrap()[0]["name"], "m");
        check_dumps(&places[2]).await;
        assert_eq!(page(&places[0], "/about/me").await, (200, "it is /about/me".to_owned()));
        assert_eq!(page(&places[0], "/aboutme").await.0, 404);
        for text in [all, text] {
            assert!(!text.contains("canary-7f3a"), "contents of objects are nobody's business:\n{text}");
        }
        abort.cancel();
    };
    let (ended, ()) = tokio::join!(manager.run(Stop::on(drain, abort.clone())), story);
    assert!(ended.unwrap_err().to_string().contains("maps default/a"));
}

/// A page of one's own.
struct About;

impl Pages for About {
    fn page<'a>(&'a self, visit: Visit<'a>) -> BoxFuture<'a, Option<Page>> {
        Box::pin(async move { Some(Page::text(200, format!("it is {}", visit.path))) })
    }
}

/// What is in a queue, and what in a cache: by name, and by no more.
async fn check_dumps(admin: &str) {
    let read = async |path: &str| {
        let (code, text) = page(admin, path).await;
        assert!(code == 200 && !text.contains("canary-7f3a"), "{code}: {text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let controller = read("/controllers/maps").await;
    let key = &controller["keys"][0];
    assert_eq!(
        (&key["key"], &key["place"], &key["priority"]),
        (&json!("default/a"), &json!("in flight"), &json!(-100))
    );
    assert_eq!((&controller["name"], &key["reason"], &key["failures"]), (&json!("maps"), &json!("initial"), &json!(0)));
    assert_eq!(page(admin, "/controllers/nobody").await.0, 404);
    let caches = read("/caches?scope=secrets%20metadata").await;
    assert_eq!((&caches[0]["cluster"], &caches[0]["objects"][0]["key"]), (&json!(""), &json!("default/s")));
    assert!(caches[0]["objects"][0]["resourceVersion"].is_string() && caches[0]["objects"][0]["bytes"].is_u64());
    assert_eq!(read("/caches?scope=secrets%20metadata&limit=0").await[0]["objects"], json!([]));
    assert_eq!(read("/caches?scope=pods").await, json!([]));
}

fn check_admin(all: &Value, manager: &Manager) {
    assert_eq!((all["process"]["name"].as_str(), all["process"]["version"].is_string()), (Some("shown"), true));
    assert!(all["process"]["tokio"]["tasks"].as_u64().unwrap() > 0, "{}", all["process"]);
    let watches = all["clusters"][0]["watches"].as_array().unwrap();
    assert_eq!((watches.len(), &watches[0]["scope"], &watches[0]["synced"]), (2, &json!("configmaps"), &json!(true)));
    assert!(watches[0]["objects"].as_u64().unwrap() >= 1 && watches[0]["trouble"].is_null());
    assert_eq!((&watches[0]["skipped"], &watches[0]["undecodable"]), (&json!(0), &json!(0)));
    let controller = &all["controllers"][0];
    assert_eq!((&controller["name"], &controller["inFlight"][0]["key"]), (&json!("maps"), &json!("default/a")));
    assert!(controller["inFlight"][0]["seconds"].is_number() && controller["ready"].is_number());
    assert_eq!(
        controller["mailboxes"][0],
        json!({ "source": "a channel", "waiting": 0, "oldestSeconds": null, "folded": 0 })
    );
    let Standing::Leading { fence } = manager.standing().borrow().clone() else { panic!("it leads") };
    let lease = &all["leases"][0];
    assert_eq!((&lease["leads"], &lease["leader"], &lease["fence"]), (&json!(true), &json!("me"), &json!(fence)));
    assert!(all["shards"].is_null());
}

#[tokio::test]
async fn the_admin_page_is_for_this_machine_unless_told_otherwise() {
    let run = |beyond: bool| async move {
        let mut settings = ManagerSettings::new("m");
        settings.admin = Some(("--admin-bind-address".into(), "0.0.0.0:0".into()));
        settings.admin_beyond_loopback = beyond;
        let manager = Manager::new(Server::new().await.client(&World::simulated(1)), settings);
        let stop = Stop::default();
        stop.drain.cancel();
        manager.run(stop).await
    };
    let error = run(false).await.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot use --admin-bind-address=0.0.0.0:0: what is shown there is for this machine"),
        "{error}"
    );
    run(true).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shards_are_shown() {
    let mut settings = ManagerSettings::new("m");
    settings.shards = Some(ShardSettings { count: 4, ..ShardSettings::new("default", "maps", "me") });
    let manager = Manager::new(Server::new().await.client(&World::simulated(1)), settings);
    let (hold, stop) = (manager.clone(), Stop::default());
    let drain = stop.drain.clone();
    manager
        .add(Phase::Always, "look", |_: Context| async move {
            while hold.shards().is_none_or(|shards| shards.held().len() < 4) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            assert!(hold.metrics().text().contains("concert_shards_held{name=\"maps\"} 4"));
            drain.cancel();
            Ok(())
        })
        .unwrap();
    manager.run(stop).await.unwrap();
}
