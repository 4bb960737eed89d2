//! The same cases over TCP: on a real kube-apiserver, and on ours.

use std::time::Duration;

use concert_e2e::{ControlPlane, Embedded, environment};
use concert_runtime::{Client, Source};
use concert_world::World;

use crate::place::Place;
use crate::{
    caches, clients, controllers, events, kinds, leases, managers, objects, own_writes, requests, secured, shards,
    sources, watches,
};

/// Runs a case, or several side by side, over TCP.
fn over_tcp(server: &ControlPlane, case: impl AsyncFnOnce(&Place)) {
    let source = Source { kubeconfig: Some(server.kubeconfig().to_owned()), context: None };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(case(&Place::Tcp(source)));
}

/// What comes and goes: sources, kinds, clusters, leases and caches.
fn all_may_come_and_go(server: &ControlPlane) {
    over_tcp(server, async |place| {
        let client = &place.client(&place.world()).await;
        tokio::join!(
            sources::sources_come_and_go(place, "sources"),
            sources::a_kind_is_missing(place, "missing"),
            managers::a_cluster_comes_and_goes(client, client, "clusters"),
            managers::a_deposed_process_rejoins(place, "deposed"),
            caches::a_lazy_cache_comes_and_goes(place, "lazy"),
            caches::pages_are_alike(client, "pages"),
            caches::secrets_are_kept_one_by_one(client, "discreet"),
        );
    });
}

#[test]
fn all_may_come_and_go_on_embedded() {
    on_embedded(all_may_come_and_go);
}

#[test]
fn all_may_come_and_go_on_reference() {
    concert_e2e::on_reference(all_may_come_and_go);
}

/// What a turn writes itself, seen through watches that are held up.
fn own_writes_are_seen(server: &ControlPlane) {
    over_tcp(server, async |place| {
        tokio::join!(
            own_writes::writes_that_change_nothing(place, "nothing"),
            own_writes::what_can_only_be_its_own(place, "own"),
            own_writes::what_it_applies_in_step(place, "step"),
            own_writes::floors_of_all_scopes(place, "floor"),
            own_writes::an_own_write_of_two_sources(place, "two"),
        );
    });
}

#[test]
fn own_writes_are_seen_on_embedded() {
    on_embedded(own_writes_are_seen);
}

#[test]
fn own_writes_are_seen_on_reference() {
    concert_e2e::on_reference(own_writes_are_seen);
}

fn everything_holds(server: &ControlPlane) {
    let source = Source { kubeconfig: Some(server.kubeconfig().to_owned()), context: None };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&source, World::real()).await.unwrap();
        let gvk = concert_api::Gvk::new("coordination.k8s.io", "v1", "Lease");
        assert_eq!(client.resource_for(&gvk).await.unwrap().unwrap().plural, "leases");
        assert!(client.resource_for(&concert_api::Gvk::new("no.such.dev", "v1", "X")).await.unwrap().is_none());
        clients::life_of_an_object(&client, "life").await;
        requests::requests_are_observed(&client, "observed").await;
        watches::a_cache_follows(&client, "cache").await;
        caches::objects_are_found(&client, "found").await;
        caches::metadata_alone(&client, "meta").await;
        caches::metadata_are_transformed(&client, "less").await;
        caches::selectors_are_joined(&client, "joined").await;
        caches::namespaces_are_followed(&client, "followed").await;
        kinds::a_kind_of_ones_own(&client).await;
        kinds::writes_differ_by_client(&client, "write").await;
        objects::a_typed_life(&client, "typed").await;
        objects::applies_own_fields(&client, "own").await;
        objects::some_objects_are_read_and_written(&client, "some").await;
        objects::some_kinds_are_read_live(&client, "live").await;
        objects::creates_or_updates(&client, "be").await;
        controllers::changes_start_reconciles(&client, "controller").await;
        events::events_are_told_and_counted(&client, "events").await;
        events::events_alike_become_one(&client, "alike").await;
        events::events_say_what_was_done_and_by_whom(&client, "done").await;
        events::events_about_odd_names_are_told(&client).await;
        leases::a_lease_is_handed_over(&client, "lease").await;
        let took = managers::a_standby_takes_over(&client, "standby").await;
        assert!(took < Duration::from_secs(14), "before the lease would have run out: {took:?}");
        shards::replicas_share_and_leave(&client).await;
        secured::only_those_read_who_may(&client).await;
    });
}

fn on_embedded(body: fn(&ControlPlane)) {
    if let Err(missing) = environment::kubectl() {
        return missing.skip();
    }
    let options = Embedded::new(environment::binary("concert")).argument("--authorization-mode=RBAC");
    body(&ControlPlane::embedded_with(options));
}

#[test]
fn everything_holds_on_embedded() {
    on_embedded(everything_holds);
}

#[test]
fn everything_holds_on_reference() {
    concert_e2e::on_reference(everything_holds);
}
