//! Roles made of what controllers declare: enough, and not more.

use concert_api::{Gvk, ObjectKey};
use concert_runtime::controller::Builder;
use concert_runtime::{
    Channel, Controller, KindSettings, LeaseSettings, Manager, ManagerSettings, Mapping, Narrowing, Outcome, Resource,
    Scope, Security, Selectors, ShardSettings, Sink, Trigger, reconcile_fn,
};
use concert_world::World;
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};

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
    let verbs = &sharing.roles("operator")[0]["rules"][0]["verbs"];
    assert_eq!(*verbs, json!(["create", "delete", "get", "list", "update"]));
}

#[tokio::test(start_paused = true)]
async fn who_listens_in_certain_namespaces_is_allowed_nothing_elsewhere() {
    let server = Server::new().await;
    let blue =
        KindSettings { namespaces: [("blue".to_owned(), Selectors::default())].into(), ..KindSettings::default() };
    let narrow = Narrowing { defaults: blue, ..Narrowing::default() };
    let mut settings = ManagerSettings { caches: narrow, ..ManagerSettings::new("m") };
    settings.lease = Some(LeaseSettings::new("blue", "m", "me"));
    let manager = Manager::new(server.client(&World::simulated(1)), settings);
    let done = || reconcile_fn(|_| async { Ok(Outcome::Done) });
    let password = Scope::one(secrets(), &ObjectKey::new("green", "password"));
    let one = Controller::builder("one").for_(widgets()).watches(password, Mapping::own());
    let one = one.writes(&maps(), ["create"]).writes(&Resource::of::<PersistentVolume>(), ["patch"]);
    manager.add_controller(one.run(done()).unwrap()).unwrap();
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
    let mut secret = rule("", "secrets", &["get", "list", "watch"]);
    secret["resourceNames"] = json!(["password"]);
    let (lease, events) = (
        rule("coordination.k8s.io", "leases", &["create", "get", "update"]),
        rule("events.k8s.io", "events", &["create", "patch"]),
    );
    let (create, widgets) =
        (rule("", "configmaps", &["create"]), rule("test.dev", "widgets", &["get", "list", "watch"]));
    let roles = manager.roles("operator");
    let said: Vec<(&str, &str, &Value)> = roles
        .iter()
        .map(|role| {
            let text = |value: &'static str| role.pointer(value).and_then(Value::as_str).unwrap_or_default();
            (text("/kind"), text("/metadata/namespace"), &role["rules"])
        })
        .collect();
    assert_eq!(
        said,
        [
            ("ClusterRole", "", &json!([rule("", "persistentvolumes", &["patch"])])),
            ("Role", "blue", &json!([create, lease, events, widgets])),
            ("Role", "default", &json!([events])),
            ("Role", "green", &json!([create, secret, events])),
        ]
    );
}

/// Where a controller may create maps, and tell events, that listens to widgets in one namespace and to what `listens` adds.
async fn acts_in(listens: impl FnOnce(Builder, &Manager) -> Builder) -> [Vec<String>; 2] {
    let manager = Manager::new(Server::new().await.client(&World::simulated(1)), ManagerSettings::new("m"));
    let builder = Controller::builder("c").writes(&maps(), ["create"]);
    let done = reconcile_fn(|_| async { Ok(Outcome::Done) });
    manager.add_controller(listens(builder, &manager).run(done).unwrap()).unwrap();
    let roles = manager.roles("operator");
    let of = |resource: &str| {
        let allows = |rule: &Value| rule["resources"][0] == *resource && rule["verbs"][0] == "create";
        let allowing = roles.iter().filter(|role| role["rules"].as_array().unwrap().iter().any(allows));
        allowing.map(|role| role["metadata"]["namespace"].as_str().unwrap_or_default().to_owned()).collect()
    };
    [of("configmaps"), of("events")]
}

#[tokio::test(start_paused = true)]
async fn who_hears_of_more_than_certain_namespaces_is_allowed_to_act_everywhere() {
    let narrow = || Scope::all(widgets()).in_namespaces(["blue"]);
    let nodes = || Resource::cluster(Gvk::new("", "v1", "Node"), "nodes");
    let timer = || Trigger::source("timer", |_: Sink| async { Ok(()) });
    let everywhere = [vec![String::new()], vec![String::new()]];
    assert_eq!(acts_in(|all, _| all.for_(narrow())).await, [["blue"], ["blue"]]);
    assert_eq!(acts_in(|all, _| all.for_(narrow()).watches(nodes(), Mapping::own())).await, everywhere);
    assert_eq!(acts_in(|all, _| all.for_(narrow()).on(timer())).await, everywhere);
    let channel = || Trigger::channel(&Channel::new(), Mapping::own());
    assert_eq!(acts_in(|all, _| all.for_(narrow()).on(channel())).await, everywhere);
    assert_eq!(acts_in(|all, _| all.on(timer())).await, everywhere);
    let far = Server::new().await.client(&World::simulated(2));
    let elsewhere = |all: Builder, manager: &Manager| {
        let other = manager.clusters().add("far", far).unwrap();
        all.for_(narrow()).watches(narrow(), Mapping::own()).in_cluster(&other)
    };
    assert_eq!(acts_in(elsewhere).await, everywhere);
}

#[tokio::test(start_paused = true)]
async fn what_lives_in_no_namespace_is_read_everywhere_and_names_are_told_from_other_selectors() {
    let manager = Manager::new(Server::new().await.client(&World::simulated(1)), ManagerSettings::new("m"));
    let nodes = |fields: &str| {
        let all = Scope::all(Resource::cluster(Gvk::new("", "v1", "Node"), "nodes"));
        all.in_namespaces(["blue"]).with_fields(fields)
    };
    let rules = |fields: &str| {
        let done = reconcile_fn(|_| async { Ok(Outcome::Done) });
        let name = format!("c {fields}");
        manager.add_controller(Controller::builder(name).for_(nodes(fields)).run(done).unwrap()).unwrap();
        let roles = manager.roles("operator");
        assert_eq!((roles.len(), &roles[0]["kind"]), (1, &json!("ClusterRole")));
        let rules = roles[0]["rules"].as_array().unwrap().iter().filter(|rule| rule["resources"] == json!(["nodes"]));
        rules.map(|rule| rule["resourceNames"].clone()).collect::<Vec<Value>>()
    };
    assert_eq!(rules("metadata.name==x"), [json!(["x"])]);
    assert_eq!(rules("metadata.name=x"), [json!(["x"])]);
    assert_eq!(rules("metadata.name!=x"), [Value::Null], "all, and so the one as well");
}
