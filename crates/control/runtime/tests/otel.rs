//! With the feature `otel`: spans reach the collector as one trace, and requests carry it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::{Arc, Mutex};

use concert_api::Gvk;
use concert_runtime::telemetry::otel::{Traces, to_collector};
use concert_runtime::{Client, Controller, Manager, ManagerSettings, Outcome, Resource, Stop, reconcile_fn};
use concert_world::World;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use serde_json::json;
use tower::ServiceExt;
use tracing_subscriber::layer::SubscriberExt;

/// Keeps what is sent.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_and_its_requests_are_one_trace() {
    let (kept, seen) = (Kept::default(), Arc::new(Mutex::new(Vec::new())));
    let traces = Traces::new("test", kept.clone());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(traces.layer()));
    let world = World::simulated(1);
    let server = concert_apiserver::Server::in_memory(world.clone()).await;
    let headers = Arc::clone(&seen);
    let noting = server.map_request(move |request: http::Request<kube::client::Body>| {
        let header = request.headers().get("traceparent").map(|value| value.to_str().unwrap().to_owned());
        headers.lock().unwrap().push((request.method().to_string(), header));
        request
    });
    let manager = Manager::new(Client::in_process(noting, world), ManagerSettings::new("m"));
    let maps = Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps");
    let object = json!({ "metadata": { "namespace": "default", "name": "a" } });
    manager.client().create(&maps, &object).await.unwrap();
    let (stop, client, written) = (Stop::default(), manager.client().clone(), maps.clone());
    let drain = stop.drain.clone();
    let write = reconcile_fn(move |request| {
        let (client, maps, drain) = (client.clone(), written.clone(), drain.clone());
        async move {
            let patch = json!({ "data": { "seen": "yes" } });
            client.merge_patch(&maps, &request.key, &patch, None).await?;
            drain.cancel();
            Ok(Outcome::Done)
        }
    });
    manager.add_controller(Controller::builder("maps").for_(maps).run(write).unwrap()).unwrap();
    manager.run(stop).await.unwrap();
    traces.flush().unwrap();
    let spans = kept.0.lock().unwrap();
    let named = |name: &str, attribute: &str| {
        let has = |span: &&SpanData| span.attributes.iter().any(|value| value.value.as_str().contains(attribute));
        spans.iter().filter(|span| span.name == name).find(has).unwrap()
    };
    let (reconcile, request) = (named("reconcile", "maps"), named("request", "PATCH"));
    assert_eq!(request.parent_span_id, reconcile.span_context.span_id());
    assert_eq!(request.span_context.trace_id(), reconcile.span_context.trace_id());
    let expected = format!("00-{}-{}-01", request.span_context.trace_id(), request.span_context.span_id());
    let patches: Vec<_> = seen.lock().unwrap().iter().filter(|(method, _)| method == "PATCH").cloned().collect();
    assert_eq!(patches, [("PATCH".to_owned(), Some(expected))]);
}

#[tokio::test]
async fn a_wrong_address_is_named() {
    let error = to_collector("not a place").unwrap_err().to_string();
    assert!(error.starts_with("cannot send traces to \"not a place\":"), "{error}");
    assert!(to_collector("http://127.0.0.1:4317").is_ok(), "nobody has to listen");
}
