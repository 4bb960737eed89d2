//! Native histograms, as a Prometheus that wants them gets them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::time::Duration;

use concert_api::Gvk;
use concert_apiserver::Server;
use concert_runtime::serve::Pages;
use concert_runtime::{Client, Controller, Manager, ManagerSettings, Outcome, Resource, Stop, Visit, reconcile_fn};
use concert_world::World;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{Histogram, MetricFamily};
use prost::Message;
use serde_json::json;

/// What a Prometheus sends that scrapes native histograms.
const ACCEPT: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                      application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";

fn families(mut body: &[u8]) -> Vec<MetricFamily> {
    let mut all = Vec::new();
    while !body.is_empty() {
        all.push(MetricFamily::decode_length_delimited(&mut body).unwrap());
    }
    all
}

fn histogram(families: &[MetricFamily], name: &str) -> Histogram {
    let family = families.iter().find(|family| family.name == name).unwrap_or_else(|| panic!("{name} is missing"));
    family.metric[0].histogram.clone().unwrap()
}

/// How many observations are in its own buckets.
fn observed(histogram: &Histogram) -> u64 {
    let mut count = 0_i64;
    let buckets: i64 = histogram
        .positive_delta
        .iter()
        .map(|delta| {
            count += delta;
            count
        })
        .sum();
    histogram.zero_count + u64::try_from(buckets).unwrap()
}

#[tokio::test(start_paused = true)]
async fn histograms_have_buckets_that_fit_for_who_wants_them() {
    let server = Server::in_memory(World::simulated(0)).await;
    let manager = Manager::new(Client::in_process(server, World::simulated(1)), ManagerSettings::new("m"));
    let maps = Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
    for name in ["a", "b", "c"] {
        let object = json!({ "metadata": { "namespace": "default", "name": name, "labels": { "seen": "yes" } } });
        manager.client().create(&maps, &object).await.unwrap();
    }
    let (stop, hold) = (Stop::default(), manager.clone());
    let drain = stop.drain.clone();
    let takes_a_while = reconcile_fn(move |request| {
        let drain = drain.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(if &*request.key.name == "a" { 300 } else { 7 })).await;
            if &*request.key.name == "c" {
                drain.cancel();
            }
            Ok(Outcome::Done)
        }
    });
    let scope = concert_runtime::Scope::all(maps).labelled("seen");
    manager.add_controller(Controller::builder("maps").for_(scope).run(takes_a_while).unwrap()).unwrap();
    manager.run(stop).await.unwrap();
    let visit = Visit { accept: ACCEPT, ..Visit::to("/metrics") };
    let page = hold.metrics().page(visit).await.unwrap();
    assert!(page.kind.starts_with("application/vnd.google.protobuf;"), "{}", page.kind);
    let families = families(&page.body);
    for name in [
        "controller_runtime_reconcile_time_seconds",
        "workqueue_queue_duration_seconds",
        "workqueue_work_duration_seconds",
    ] {
        let histogram = histogram(&families, name);
        assert_eq!((histogram.schema, histogram.sample_count), (3, 3), "{name}: a factor of 1.1 at most");
        assert_eq!(observed(&histogram), 3, "{name}: {histogram:?}");
        assert!(histogram.bucket.len() >= 12 && !histogram.positive_span.is_empty(), "{name}: and the others as well");
    }
    let text = hold.metrics().page(Visit::to("/metrics")).await.unwrap();
    assert!(text.kind.starts_with("application/openmetrics-text"), "{}", text.kind);
    assert!(text.words().contains("controller_runtime_reconcile_time_seconds_count{controller=\"maps\"} 3"));
}
