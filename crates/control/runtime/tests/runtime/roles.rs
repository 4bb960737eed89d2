//! Roles made of what controllers declare: enough, and not more.

use concert_runtime::{
    Controller, LeaseSettings, Manager, ManagerSettings, Mapping, Outcome, Resource, Security, ShardSettings,
    reconcile_fn,
};
use concert_world::World;
use serde_json::json;

use crate::embedded::Server;
use crate::{maps, secrets, widgets};

#[tokio::test(start_paused = true)]
async fn what_controllers_declare_is_what_they_need_to_be_allowed() {
    let (near, far) = (Server::new().await, Server::new().await);
    let mut settings = ManagerSettings::new("m");
    settings.lease = Some(LeaseSettings::new("home", "m", "me"));
    settings.metrics_security = Some(Security { certificate: None, reviewed: true });
    let manager = Manager::new(near.client(&World::simulated(1)), settings);
    let other = manager.clusters().add("far", far.client(&World::simulated(2))).unwrap();
    let done = || reconcile_fn(|_| async { Ok(Outcome::Done) });
    let elsewhere = Resource::cluster(concert_api::Gvk::new("", "v1", "Namespace"), "namespaces");
    let one = Controller::builder("one").for_(widgets()).owns(maps()).writes(&maps(), ["create", "patch"]);
    let one = one.writes_part(&widgets(), "status", ["patch"]).watches(elsewhere, Mapping::own()).in_cluster(&other);
    let two = Controller::builder("two").for_(maps()).watches(secrets(), Mapping::own()).writes(&maps(), ["delete"]);
    manager.add_controller(one.run(done()).unwrap()).unwrap();
    manager.add_controller(two.run(done()).unwrap()).unwrap();
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let reads = ["get", "list", "watch"];
    let cluster = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "operator" },
        "rules": [
            rule("", &["configmaps"], &["create", "delete", "get", "list", "patch", "watch"]),
            rule("", &["secrets"], &reads),
            rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
            rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
            rule("events.k8s.io", &["events"], &["create", "patch"]),
            rule("test.dev", &["widgets"], &reads),
            rule("test.dev", &["widgets/status"], &["patch"]),
        ],
    });
    let lease = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "namespace": "home", "name": "operator" },
        "rules": [rule("coordination.k8s.io", &["leases"], &["create", "get", "update"])],
    });
    assert_eq!(manager.roles("operator"), [cluster, lease]);

    let shards = Some(ShardSettings::new("home", "m", "me"));
    let sharing =
        Manager::new(near.client(&World::simulated(1)), ManagerSettings { shards, ..ManagerSettings::new("m") });
    let verbs = &sharing.roles("operator")[1]["rules"][0]["verbs"];
    assert_eq!(*verbs, json!(["create", "delete", "get", "list", "update"]));
}
