//! What becomes of objects whose owners go.

use crate::face::*;
use concert_apiserver::{Durability, Options, Server};
use concert_world::World;
use serde_json::{Value, json};

const NODES: &str = "/apis/probe.test/v1/nodes";

fn owner(object: &Value, block: bool) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "blockOwnerDeletion": block,
    })
}

impl Api {
    /// A ConfigMap that belongs to these.
    async fn owned(&self, name: &str, owners: &[Value]) -> Value {
        let mut object = map(name, "1");
        object["metadata"]["ownerReferences"] = owners.into();
        let made = self.post(MAPS, &object).await;
        assert_eq!(made.code, 201, "{}", made.body);
        made.body
    }

    /// Which ConfigMaps there are, after everything has settled.
    async fn names(&self) -> String {
        self.0.settled().await;
        let list = self.get(MAPS).await.body;
        let names = list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap());
        names.collect::<Vec<_>>().join(" ")
    }

    async fn delete_as(&self, name: &str, policy: &str) -> Answer {
        self.delete(&format!("{MAPS}/{name}?propagationPolicy={policy}"), "").await
    }
}

#[tokio::test(start_paused = true)]
async fn in_the_background_dependents_go_after_their_owner() {
    let api = Api::new().await;
    let a = api.owned("a", &[]).await;
    let b = api.owned("b", &[owner(&a, false)]).await;
    api.owned("c", &[owner(&b, true)]).await;
    let other = api.owned("other", &[]).await;
    api.owned("both", &[owner(&a, true), owner(&other, true)]).await;
    let gone = api.delete_as("a", "Background").await;
    assert_eq!((gone.code, &gone.body["status"]), (200, &json!("Success")));
    assert_eq!(api.names().await, "both other");
    let both = api.get(&format!("{MAPS}/both")).await.body;
    assert_eq!(both["metadata"]["ownerReferences"], json!([owner(&other, true)]), "the owner that went is forgotten");
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_an_owner_waits_for_those_that_block_it() {
    let api = Api::new().await;
    let a = api.owned("a", &[]).await;
    let mut held = map("held", "1");
    held["metadata"]["ownerReferences"] = json!([owner(&a, true)]);
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    api.post(MAPS, &held).await;
    api.owned("free", &[owner(&a, false)]).await;
    let marked = api.delete_as("a", "Foreground").await;
    assert_eq!(marked.body["metadata"]["finalizers"], json!(["foregroundDeletion"]), "{}", marked.body);
    assert_eq!(api.names().await, "a held");
    api.merge(&format!("{MAPS}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(api.names().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_foreground_deletion_goes_through_all_generations() {
    let api = Api::new().await;
    let a = api.owned("a", &[]).await;
    let b = api.owned("b", &[owner(&a, true)]).await;
    let mut leaf = map("c", "1");
    leaf["metadata"]["ownerReferences"] = json!([owner(&b, true)]);
    leaf["metadata"]["finalizers"] = json!(["x.io/y"]);
    api.post(MAPS, &leaf).await;
    api.delete_as("a", "Foreground").await;
    assert_eq!(api.names().await, "a b c", "the leaf holds them all");
    let b = api.get(&format!("{MAPS}/b")).await.body;
    assert_eq!(b["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    api.merge(&format!("{MAPS}/c"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(api.names().await, "");
}

#[tokio::test(start_paused = true)]
async fn orphans_forget_their_owner() {
    for options in ["propagationPolicy=Orphan", "orphanDependents=true"] {
        let api = Api::new().await;
        let a = api.owned("a", &[]).await;
        api.owned("b", &[owner(&a, true)]).await;
        let marked = api.delete(&format!("{MAPS}/a?{options}"), "").await;
        assert_eq!(marked.body["metadata"]["finalizers"], json!(["orphan"]), "{}", marked.body);
        assert_eq!(api.names().await, "b");
        assert_eq!(api.get(&format!("{MAPS}/b")).await.body["metadata"].get("ownerReferences"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_of_an_object_says_what_to_do_if_nobody_else_does() {
    let api = Api::new().await;
    let mut a = map("a", "1");
    a["metadata"]["finalizers"] = json!(["orphan"]);
    let a = api.post(MAPS, &a).await.body;
    api.owned("b", &[owner(&a, true)]).await;
    api.delete(&format!("{MAPS}/a"), "").await;
    assert_eq!(api.names().await, "b");
}

/// Asked again with another policy, the last one counts (as on the real server).
#[tokio::test(start_paused = true)]
async fn a_second_delete_may_change_the_policy() {
    let api = Api::new().await;
    let mut held = map("a", "1");
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    api.post(MAPS, &held).await;
    for (options, body, expected) in [
        ("", json!({"orphanDependents": true}), json!(["x.io/y", "orphan"])),
        ("", json!({"propagationPolicy": "Foreground"}), json!(["x.io/y", "foregroundDeletion"])),
        ("?propagationPolicy=Orphan", json!({"orphanDependents": false}), json!(["x.io/y"])),
    ] {
        let marked = api.delete(&format!("{MAPS}/a{options}"), &body.to_string()).await;
        assert_eq!(marked.body["metadata"]["finalizers"], expected, "{options} {body}: the body wins");
        api.0.settled().await;
    }
}

#[tokio::test(start_paused = true)]
async fn circles_of_owners_are_broken() {
    for policy in ["Foreground", "Background"] {
        let api = Api::new().await;
        let a = api.owned("a", &[]).await;
        let b = api.owned("b", &[owner(&a, true)]).await;
        let circle = json!({"metadata": {"ownerReferences": [owner(&b, true)]}});
        assert_eq!(api.merge(&format!("{MAPS}/a"), circle).await.code, 200);
        assert_eq!(api.names().await, "a b");
        api.delete_as("a", policy).await;
        assert_eq!(api.names().await, "", "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn owners_that_are_not_there_do_not_hold() {
    let api = Api::new().await;
    let a = api.owned("a", &[]).await;
    let mut wrong_uid = owner(&a, false);
    wrong_uid["uid"] = "other".into();
    api.owned("wrong-uid", &[wrong_uid]).await;
    let mut wrong_name = owner(&a, false);
    wrong_name["name"] = "nobody".into();
    api.owned("wrong-name", &[wrong_name]).await;
    let mut unknown = owner(&a, false);
    unknown["apiVersion"] = "nobody.knows/v1".into();
    api.owned("unknown-kind", &[unknown]).await;
    assert_eq!(api.names().await, "a unknown-kind", "a kind that is not served may be served again");

    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "team"}})).await;
    let mut abroad = map("abroad", "1");
    abroad["metadata"]["ownerReferences"] = json!([owner(&a, false)]);
    api.post("/api/v1/namespaces/team/configmaps", &abroad).await;
    api.0.settled().await;
    assert_eq!(api.get("/api/v1/namespaces/team/configmaps/abroad").await.code, 404, "no owners across namespaces");
}

#[tokio::test(start_paused = true)]
async fn owners_of_the_cluster_hold_in_every_namespace_but_not_the_reverse() {
    let api = Api::new().await;
    let mut definition = definition(json!({}));
    definition["metadata"]["name"] = "nodes.probe.test".into();
    definition["spec"]["scope"] = "Cluster".into();
    definition["spec"]["names"] = json!({"plural": "nodes", "kind": "Node"});
    assert_eq!(api.post(CRDS, &definition).await.code, 201);
    let node = |name: &str| {
        let mut node = file(name);
        node["kind"] = "Node".into();
        node
    };
    let above = api.post(NODES, &node("above")).await.body;
    let a = api.owned("a", &[owner(&above, true)]).await;
    let mut below = node("below");
    below["metadata"]["ownerReferences"] = json!([owner(&a, true)]);
    assert_eq!(api.post(NODES, &below).await.code, 201);
    assert_eq!(api.names().await, "a");
    api.delete(&format!("{NODES}/above"), "").await;
    assert_eq!(api.names().await, "");
    assert_eq!(api.get(&format!("{NODES}/below")).await.code, 200, "its owner makes no sense: it is left alone");
}

/// Objects of a definition own others; when the definition goes, nobody is left who could be asked about them.
#[tokio::test(start_paused = true)]
async fn dependents_of_a_kind_that_goes_go_too() {
    let api = Api::with_files().await;
    let file = api.post(FILES, &file("a")).await.body;
    api.owned("m", &[owner(&file, true)]).await;
    assert_eq!(api.names().await, "m");
    api.delete(&format!("{CRDS}/files.probe.test"), "").await;
    assert_eq!(api.names().await, "");
}

#[tokio::test(start_paused = true)]
async fn owners_are_checked_and_deduplicated_in_the_real_servers_words() {
    let api = Api::with_files().await;
    let reference = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let send = async |owners: Value| {
        let mut object = map("x", "1");
        object["metadata"]["ownerReferences"] = owners;
        api.post(&format!("{MAPS}?dryRun=All"), &object).await
    };
    let twice = send(json!([reference("x", "1"), reference("x", "1"), reference("x", "3"), reference("x", "3")])).await;
    assert_eq!(
        twice.warnings,
        [
            "299 - \".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: 1, 3\""
        ]
    );
    assert_eq!(twice.body["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(2));
    let mut controllers = [reference("x", "1"), reference("y", "2")];
    controllers.iter_mut().for_each(|one| one["controller"] = true.into());
    for (owners, words) in [
        (
            json!(controllers),
            "ConfigMap \"x\" is invalid: metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"x\",\"uid\":\"1\",\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"y\",\"uid\":\"2\",\"controller\":true}]: Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/x and ConfigMap/y",
        ),
        (
            json!([{"apiVersion": "", "name": ""}, {"apiVersion": "a/b/c", "kind": "K", "name": "y", "uid": "2"}]),
            "ConfigMap \"x\" is invalid: [metadata.ownerReferences[0].apiVersion: Required value: must not be empty, metadata.ownerReferences[0].kind: Required value: must not be empty, metadata.ownerReferences[0].name: Required value: must not be empty, metadata.ownerReferences[0].uid: Required value: must not be empty, metadata.ownerReferences[1].apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>]",
        ),
        (
            json!([{"apiVersion": "v1", "kind": "Event", "name": "y", "uid": "2"}]),
            "ConfigMap \"x\" is invalid: metadata.ownerReferences[0]: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"y\",\"uid\":\"2\"}: /v1, Kind=Event is disallowed from being an owner",
        ),
    ] {
        let refused = send(owners).await;
        assert_eq!((refused.code, message(&refused)), (422, words));
    }
}

#[tokio::test(start_paused = true)]
async fn finalizers_are_checked_in_the_real_servers_words() {
    let api = Api::with_files().await;
    let mut bare = map("x", "1");
    bare["metadata"]["finalizers"] = json!(["foo", "orphan", "foregroundDeletion"]);
    assert_eq!(
        message(&api.post(MAPS, &bare).await),
        "ConfigMap \"x\" is invalid: [metadata.finalizers: Invalid value: [\"foo\",\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set, metadata.finalizers[0]: Invalid value: \"foo\": name is neither a standard finalizer name nor is it fully qualified]"
    );
    let mut custom = file("x");
    custom["metadata"]["finalizers"] = json!(["foo"]);
    let made = api.post(FILES, &custom).await;
    assert_eq!(
        (made.code, made.warnings.concat().as_str()),
        (
            201,
            "299 - \"metadata.finalizers: \\\"foo\\\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers\""
        )
    );
}

/// What a removal shows to watchers and to the one who caused it, as on the real server.
#[tokio::test(start_paused = true)]
async fn a_removal_shows_the_last_stored_state() {
    let api = Api::new().await;
    let mut held = map("a", "1");
    held["metadata"]["finalizers"] = json!(["x.io/y"]);
    api.post(MAPS, &held).await;
    let marked = api.delete(&format!("{MAPS}/a"), "").await.body;
    let seen = marked["metadata"]["resourceVersion"].as_str().unwrap();
    let answer = api.merge(&format!("{MAPS}/a"), json!({"metadata": {"finalizers": null, "labels": {"a": "b"}}})).await;
    assert_eq!(
        (&answer.body["metadata"]["resourceVersion"], &answer.body["metadata"]["labels"]["a"]),
        (&json!(seen), &json!("b"))
    );
    let events = api.watch(&format!("{MAPS}?resourceVersion={seen}&")).await;
    let last = &events[0]["object"]["metadata"];
    assert_eq!((&events[0]["type"], &last["finalizers"]), (&json!("DELETED"), &json!(["x.io/y"])));
    assert!(last["resourceVersion"] != *seen && last.get("labels").is_none(), "{last}");
}

/// A process that stops half way through leaves it to the next one.
#[tokio::test]
async fn a_deletion_half_way_goes_on_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { durability: Durability::None, ..Options::default() };
    let open = async || Api(Server::open(directory.path(), options, World::real()).await.unwrap());
    let api = open().await;
    let a = api.owned("a", &[]).await;
    for n in 0..200 {
        api.owned(&format!("b{n}"), &[owner(&a, true)]).await;
    }
    let marked = api.delete_as("a", "Foreground").await;
    assert_eq!(marked.body["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let left = api.get(MAPS).await.body["items"].as_array().map(Vec::len);
    assert!(left > Some(1), "it was too fast for this test: {left:?}");
    api.0.close();
    let api = open().await;
    assert_eq!(api.names().await, "");
    api.0.close();
}
