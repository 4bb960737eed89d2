//! The same cases on a real kube-apiserver, if `CONCERT_REFERENCE_KUBECONFIG` names one.

use concert_runtime::{Client, Source};
use concert_world::World;

use crate::{clients, controllers, events, leases, watches};

#[tokio::test]
async fn everything_holds_on_the_real_server() {
    let Some(kubeconfig) = std::env::var_os("CONCERT_REFERENCE_KUBECONFIG") else {
        eprintln!("no CONCERT_REFERENCE_KUBECONFIG: only the in-process server was tried");
        return;
    };
    let world = World::real();
    let source = Source { kubeconfig: Some(kubeconfig.into()), context: None };
    let client = Client::connect(&source, world.clone()).await.unwrap();
    let prefix = format!("t{:08x}", world.random.below(1 << 32));
    let gvk = concert_api::Gvk::new("coordination.k8s.io", "v1", "Lease");
    assert_eq!(client.resource_for(&gvk).await.unwrap().unwrap().plural, "leases");
    assert!(client.resource_for(&concert_api::Gvk::new("no.such.dev", "v1", "X")).await.unwrap().is_none());
    clients::life_of_an_object(&client, &format!("{prefix}-life")).await;
    watches::a_cache_follows(&client, &format!("{prefix}-cache")).await;
    controllers::changes_start_reconciles(&client, &format!("{prefix}-controller")).await;
    events::events_are_told_and_counted(&client, &format!("{prefix}-events")).await;
    leases::a_lease_is_handed_over(&client, &format!("{prefix}-lease")).await;
}
