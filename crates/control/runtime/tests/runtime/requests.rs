//! How requests are observed: client-go's histograms, for who asks for them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use concert_runtime::{Client, Deletion, Manager, ManagerSettings, Metrics, Selection};
use concert_world::{Call, Gate, Verdict, World};

use crate::embedded::Server;
use crate::{key, map, maps};

/// The value of the line of `text` that begins so.
fn value(text: &str, begins: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(begins)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{begins} is missing in:\n{text}")).parse().unwrap()
}

/// Each request is observed once, by verb and host.
pub(crate) async fn requests_are_observed(client: &Client, name: &str) {
    let metrics = Metrics::new().with_request_histograms();
    let client = client.clone().with_metrics(&metrics).with_limit(1000.0, 1000);
    client.create(&maps(), &map(name, &"x".repeat(2000))).await.unwrap();
    for _ in 0..3 {
        assert!(client.get(&maps(), &key(name)).await.unwrap().is_some());
    }
    assert!(client.get(&maps(), &key("nobody-has-this-name")).await.unwrap().is_none());
    client.delete(&maps(), &key(name), &Deletion::default()).await.unwrap();
    let (text, host) = (metrics.text(), client.host());
    let of =
        |metric: &str, verb: &str| value(&text, &format!("rest_client_{metric}{{verb=\"{verb}\",host=\"{host}\"}}"));
    for (verb, times) in [("POST", 1.0), ("GET", 4.0), ("DELETE", 1.0)] {
        assert_eq!(of("request_duration_seconds_count", verb), times, "{verb}");
        assert_eq!(of("request_size_bytes_count", verb), times, "{verb}");
        assert_eq!(of("response_size_bytes_count", verb), times, "{verb}: also of those that are refused");
        assert_eq!(of("rate_limiter_duration_seconds_count", verb), times, "{verb}");
    }
    assert!(of("request_size_bytes_sum", "POST") > 2000.0 && of("request_size_bytes_sum", "GET") == 0.0);
    assert!(of("response_size_bytes_sum", "GET") > 6000.0);
    let longest = format!("rest_client_request_duration_seconds_bucket{{le=\"60.0\",verb=\"GET\",host=\"{host}\"}}");
    let largest = format!("rest_client_response_size_bytes_bucket{{le=\"16777216.0\",verb=\"GET\",host=\"{host}\"}}");
    assert_eq!((value(&text, &longest), value(&text, &largest)), (4.0, 4.0));
}

#[tokio::test(start_paused = true)]
async fn every_request_is_observed_by_verb_and_host() {
    requests_are_observed(&Server::new().await.client(&World::simulated(1)), "seen").await;
}

/// Fails so many requests.
#[derive(Debug)]
struct Failing(Mutex<u32>);

impl Gate for Failing {
    fn admit(&self, _: &Call<'_>) -> Verdict {
        let mut left = self.0.lock().unwrap();
        if *left == 0 {
            return Verdict::Pass;
        }
        *left -= 1;
        Verdict::Fail(if left.is_multiple_of(2) { 503 } else { 429 })
    }
}

#[tokio::test(start_paused = true)]
async fn retries_and_the_wait_for_the_limit_are_told_apart_from_the_request() {
    let world = World { gate: Arc::new(Failing(Mutex::new(4))), ..World::simulated(1) };
    let metrics = Metrics::new().with_request_histograms();
    let client = Server::new().await.client(&world).with_metrics(&metrics).with_retries().with_limit(1.0, 1);
    assert!(client.get(&maps(), &key("a")).await.unwrap().is_none());
    let (text, at) = (metrics.text(), "verb=\"GET\",host=\"in-process\"");
    let count = |metric: &str| value(&text, &format!("rest_client_{metric}{{{at}}}"));
    assert_eq!((count("request_duration_seconds_count"), count("request_size_bytes_count")), (1.0, 5.0));
    for code in ["503", "429"] {
        assert_eq!(value(&text, &format!("rest_client_request_retries_total{{code=\"{code}\",{at}}}")), 2.0, "{code}");
    }
    let waited = count("rate_limiter_duration_seconds_sum");
    assert!(waited > 3.0 && count("request_duration_seconds_sum") >= waited, "four had to wait, the first had not");
}

#[tokio::test(start_paused = true)]
async fn a_process_has_them_only_if_it_is_told_to() {
    for wanted in [false, true] {
        let settings = ManagerSettings { request_histograms: wanted, ..ManagerSettings::new("m") };
        let manager = Manager::new(Server::new().await.client(&World::simulated(1)), settings);
        manager.client().list(&maps(), &Selection::default()).await.unwrap();
        let far = manager.clusters().add("far", Server::new().await.client(&World::simulated(2))).unwrap();
        far.client().clone().with_deadline(Duration::from_secs(1)).get(&maps(), &key("a")).await.unwrap();
        let text = manager.metrics().text();
        assert!(text.contains("rest_client_requests_total{code=\"200\""));
        assert_eq!(text.contains("rest_client_request_duration_seconds_count{verb=\"GET\""), wanted, "{text}");
        manager.clusters().remove("far").await;
    }
}
