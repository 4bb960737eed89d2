//! Long lists in one object cost as much as they are long, and no more.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::face::*;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
/// Far more than the work takes in a build without optimizations, and far less than comparing each with each.
const ENOUGH: Duration = Duration::from_secs(30);

#[expect(clippy::disallowed_methods, reason = "what is measured is the work itself, which no other clock sees")]
fn now() -> Instant {
    Instant::now()
}

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect::<Vec<_>>().into()
}

#[tokio::test(start_paused = true)]
async fn a_service_of_many_ports_is_changed_at_once() {
    let api = Api::with_files().await;
    let ports = list(10_000, |place| json!({"name": format!("p{place}"), "port": place + 1, "protocol": "TCP"}));
    let made = api.post(SERVICES, &json!({"metadata": {"name": "many"}, "spec": {"ports": ports}})).await;
    assert_eq!(made.code, 201, "{}", message(&made));
    let began = now();
    let changed = api.merge(&format!("{SERVICES}/many"), json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(changed.code, 200);
    assert!(began.elapsed() < ENOUGH, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_many_parts_is_changed_at_once() {
    let api = Api::with_files().await;
    let container = |place: usize| json!({"name": format!("c{place}"), "image": "i:1"});
    let tolerations = list(15_000, |place| json!({"key": format!("k{place}"), "operator": "Exists"}));
    let spec = json!({"containers": list(6_000, container), "tolerations": tolerations});
    let made = api.post(PODS, &json!({"metadata": {"name": "many"}, "spec": spec})).await;
    assert_eq!(made.code, 201, "{}", message(&made));
    let pod = format!("{PODS}/many");
    let began = now();
    let changed = api.merge(&pod, json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(changed.code, 200, "{}", message(&changed));
    let resized = api.merge(&format!("{pod}/resize"), json!({"metadata": {"labels": {"a": "c"}}})).await;
    assert_eq!(resized.code, 200, "{}", message(&resized));
    let further = list(3_000, |place| json!({"name": format!("e{place}"), "image": "i:1"}));
    for _ in 0..2 {
        let sent = json!({"spec": {"ephemeralContainers": further}});
        let given = api.merge(&format!("{pod}/ephemeralcontainers"), sent).await;
        assert_eq!(given.code, 200, "{}", message(&given));
    }
    assert!(began.elapsed() < ENOUGH, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_service_does_not_get_ports_that_are_not_there() {
    let api = Api::with_files().await;
    let ports = list(2_769, |place| json!({"name": format!("p{place}"), "port": place + 1}));
    let spec = json!({"type": "NodePort", "ports": ports});
    let refused = api.post(SERVICES, &json!({"metadata": {"name": "many"}, "spec": spec})).await;
    let words = "Internal error occurred: failed to allocate a nodePort: range is full";
    assert_eq!((refused.code, message(&refused)), (500, words));
    let few = json!({"metadata": {"name": "few"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    assert_eq!(api.post(SERVICES, &few).await.code, 201, "nothing was taken");
}
