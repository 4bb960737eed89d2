//! Spans: what happens within what. Alone in its process: who listens to spans is a matter of the whole process.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

use std::sync::{Arc, Mutex};

use concert_api::Gvk;
use concert_runtime::{Client, Controller, Manager, ManagerSettings, Outcome, Resource, Stop, reconcile_fn};
use concert_world::World;
use serde_json::json;
use tracing::span::{Attributes, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

fn maps() -> Resource {
    Resource::namespaced(Gvk::new("", "v1", "ConfigMap"), "configmaps")
}

/// Notes each span with those around it.
#[derive(Clone, Default)]
struct Nesting(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Nesting {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let around: Vec<&str> = context.span_scope(id).unwrap().from_root().map(|span| span.name()).collect();
        let mut fields = String::new();
        attributes.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            fields.push_str(&format!(" {field}={value:?}"));
        });
        self.0.lock().unwrap().push(format!("{}{fields}", around.join(" > ")));
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_reconcile_are_within_its_span() {
    let nesting = Nesting::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(nesting.clone()));
    let world = World::simulated(1);
    let server = concert_apiserver::Server::in_memory(world.clone()).await;
    let manager = Manager::new(Client::in_process(server, world), ManagerSettings::new("m"));
    let object = json!({ "metadata": { "namespace": "default", "name": "a" } });
    manager.client().create(&maps(), &object).await.unwrap();
    let (stop, client) = (Stop::default(), manager.client().clone());
    let drain = stop.drain.clone();
    let write = reconcile_fn(move |request| {
        let (client, drain) = (client.clone(), drain.clone());
        async move {
            if &*request.key.name == "a" {
                client.merge_patch(&maps(), &request.key, &json!({ "data": { "a": "2" } }), None).await?;
                drain.cancel();
            }
            Ok(Outcome::Done)
        }
    });
    manager.add_controller(Controller::builder("maps").for_(maps()).run(write).unwrap()).unwrap();
    manager.run(stop).await.unwrap();
    let spans = nesting.0.lock().unwrap();
    let within = "reconcile > request method=\"PATCH\" action=\"patch configmaps default/a\" host=\"in-process\"";
    assert!(spans.iter().any(|span| span == within), "{spans:#?}");
    assert!(
        spans.iter().any(|span| span.starts_with("request method=\"GET\" action=\"watch configmaps\"")),
        "{spans:#?}"
    );
}
