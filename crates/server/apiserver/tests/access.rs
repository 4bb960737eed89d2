//! Who may do what, through the server's public face. Every expected message was seen on kube-apiserver v1.37.1.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use bytes::Bytes;
use concert_apiserver::{Admission, Authorization, Review, Server, User, Verdict};
use concert_world::World;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCESS: &str = "/apis/authorization.k8s.io/v1";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

struct Api(Server);

struct Answer {
    code: u16,
    body: Value,
}

impl Answer {
    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// A header of a request, or none.
type Header = (&'static str, &'static str);

impl Api {
    /// Bob reads config maps, eve writes roles, jane may act as bob.
    async fn new() -> Self {
        Self::of(Server::in_memory(World::simulated(1)).await).await
    }

    async fn of(server: Server) -> Self {
        server.authorize_by(Authorization::Rbac).await.unwrap();
        let api = Self(server);
        let rule = |verbs: Value, group: &str, resources: Value| json!({"verbs": verbs, "apiGroups": [group], "resources": resources});
        let group = "rbac.authorization.k8s.io";
        let reads = rule(json!(["get", "list"]), "", json!(["configmaps"]));
        let all = json!(["roles", "clusterroles", "rolebindings", "clusterrolebindings"]);
        let writes = rule(json!(["create", "update", "patch", "get", "list"]), group, all);
        let mut acts = rule(json!(["impersonate"]), "", json!(["users"]));
        acts["resourceNames"] = json!(["bob"]);
        for (path, object) in [
            (ROLES, json!({"metadata": {"name": "r1"}, "rules": [reads]})),
            (
                BINDINGS,
                binding(
                    "rb1",
                    "Role",
                    "r1",
                    json!([{"kind": "ServiceAccount", "name": "sa", "namespace": "default"}, {"kind": "User", "name": "bob"}]),
                ),
            ),
            (CLUSTER_ROLES, json!({"metadata": {"name": "rolewriter"}, "rules": [writes]})),
            (CLUSTER_BINDINGS, binding("eve", "ClusterRole", "rolewriter", json!([{"kind": "User", "name": "eve"}]))),
            (CLUSTER_ROLES, json!({"metadata": {"name": "imp"}, "rules": [acts]})),
            (CLUSTER_BINDINGS, binding("imp", "ClusterRole", "imp", json!([{"kind": "User", "name": "jane"}]))),
        ] {
            let answer = api.post("", path, &object).await;
            assert_eq!(answer.code, 201, "{path}: {}", answer.body);
        }
        api
    }

    async fn send(&self, user: &str, method: &str, path: &str, headers: &[Header], body: String) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Full::<Bytes>::from(body)).unwrap();
        let groups: &[&str] = match user {
            "jane" => &["dev", "ops"],
            "eve" => &["dev"],
            "admin" => &["system:masters"],
            _ => &[],
        };
        if !user.is_empty() {
            request.extensions_mut().insert(User { uid: format!("{user}-uid"), ..User::new(user, groups) });
        }
        let response = self.0.answer(request).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body =
            serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        Answer { code, body }
    }

    async fn get(&self, user: &str, path: &str) -> Answer {
        self.send(user, "GET", path, &[], String::new()).await
    }

    async fn post(&self, user: &str, path: &str, body: &Value) -> Answer {
        self.send(user, "POST", path, &[], body.to_string()).await
    }

    async fn put(&self, user: &str, path: &str, body: &Value) -> Answer {
        self.send(user, "PUT", path, &[], body.to_string()).await
    }
}

fn binding(name: &str, kind: &str, role: &str, subjects: Value) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role}, "subjects": subjects})
}

#[tokio::test(start_paused = true)]
async fn what_no_role_allows_is_forbidden_in_the_real_words() {
    let api = Api::new().await;
    for (method, path, message) in [
        (
            "GET",
            "/api/v1/namespaces",
            "namespaces is forbidden: User \"jane\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope",
        ),
        (
            "GET",
            "/api/v1/namespaces/default",
            "namespaces \"default\" is forbidden: User \"jane\" cannot get resource \"namespaces\" in API group \"\" in the namespace \"default\"",
        ),
        (
            "GET",
            MAPS,
            "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/configmaps?watch=true",
            "configmaps is forbidden: User \"jane\" cannot watch resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dx",
            "configmaps \"x\" is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        ),
        (
            "DELETE",
            "/api/v1/configmaps",
            "configmaps is forbidden: User \"jane\" cannot deletecollection resource \"configmaps\" in API group \"\" at the cluster scope",
        ),
        (
            "PUT",
            "/api/v1/namespaces/default/configmaps/a/status",
            "configmaps \"a\" is forbidden: User \"jane\" cannot update resource \"configmaps/status\" in API group \"\" in the namespace \"default\"",
        ),
        (
            "PATCH",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/l",
            "leases.coordination.k8s.io \"l\" is forbidden: User \"jane\" cannot patch resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"default\"",
        ),
        (
            "GET",
            "/apis/foo.bar/v1/namespaces/default/things/x",
            "things.foo.bar \"x\" is forbidden: User \"jane\" cannot get resource \"things\" in API group \"foo.bar\" in the namespace \"default\"",
        ),
        ("GET", "/foo/bar?x=y", "forbidden: User \"jane\" cannot get path \"/foo/bar\""),
        ("POST", "/version", "forbidden: User \"jane\" cannot post path \"/version\""),
    ] {
        let answer = api.send("jane", method, path, &[], String::new()).await;
        assert_eq!((answer.code, answer.message()), (403, message), "{method} {path}");
        assert_eq!(answer.body["reason"], "Forbidden");
        // The administrator is told that it does not exist, or gets it.
        assert_ne!(api.send("admin", method, path, &[], String::new()).await.code, 403, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_role_allows_is_done() {
    let api = Api::new().await;
    for (user, method, path, code) in [
        ("bob", "GET", MAPS, 200),
        ("bob", "GET", "/api/v1/namespaces/default/configmaps/x", 404),
        ("bob", "GET", "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1", 403),
        ("bob", "GET", "/api/v1/configmaps", 403),
        ("bob", "GET", "/api/v1/namespaces/kube-system/configmaps", 403),
        ("bob", "POST", MAPS, 403),
        ("bob", "GET", "/healthz", 200),
        ("bob", "GET", "/api", 200),
        ("bob", "GET", "/apis/rbac.authorization.k8s.io/v1", 200),
        ("bob", "GET", "/openapi/v3", 200),
        ("system:serviceaccount:default:sa", "GET", MAPS, 200),
        ("system:serviceaccount:default:other", "GET", MAPS, 403),
        ("system:serviceaccount:kube-system:sa", "GET", MAPS, 403),
        ("admin", "GET", "/api/v1/configmaps", 200),
    ] {
        assert_eq!(api.send(user, method, path, &[], String::new()).await.code, code, "{user} {method} {path}");
    }
    // What is written counts from then on.
    assert_eq!(api.send("admin", "DELETE", &format!("{BINDINGS}/rb1"), &[], String::new()).await.code, 200);
    assert_eq!(api.get("bob", MAPS).await.code, 403);
    let missing = binding("gone", "ClusterRole", "missing", json!([{"kind": "User", "name": "bob"}]));
    assert_eq!(api.post("admin", CLUSTER_BINDINGS, &missing).await.code, 201);
    // A role that is missing twice is told of once.
    let again = binding("gone-too", "ClusterRole", "missing", json!([{"kind": "User", "name": "bob"}]));
    assert_eq!(api.post("admin", CLUSTER_BINDINGS, &again).await.code, 201);
    let answer = api.get("bob", MAPS).await;
    assert!(
        answer
            .message()
            .ends_with("\"default\": rbac: RBAC: clusterrole.rbac.authorization.k8s.io \"missing\" not found"),
        "{}",
        answer.body
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_gives_what_they_do_not_have() {
    let api = Api::new().await;
    let rule = |verbs: Value, resource: &str| json!({"verbs": verbs, "apiGroups": [""], "resources": [resource]});
    let held = "user \"eve\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:";
    let mut named = rule(json!(["get", "list"]), "pods");
    named["resourceNames"] = json!(["a"]);
    let mut both = rule(json!(["get"]), "configmaps");
    both["resources"] = json!(["configmaps", "secrets"]);
    let urls = json!({"verbs": ["get"], "nonResourceURLs": ["/x", "/healthz"]});
    let own = json!({"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]});
    let eve = json!([{"kind": "User", "name": "eve"}]);
    for (method, path, object, code, message) in [
        ("POST", CLUSTER_ROLES.to_owned(), json!({"metadata": {"name": "e1"}, "rules": [both, named, urls]}), 403,
            format!("clusterroles.rbac.authorization.k8s.io \"e1\" is forbidden: {held}\n{{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"get\"]}}\n{{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"get\" \"list\"]}}\n{{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}}\n{{NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}}")),
        ("POST", ROLES.to_owned(), json!({"metadata": {"name": "e2"}, "rules": [own]}), 201, String::new()),
        ("POST", CLUSTER_BINDINGS.to_owned(), binding("e3", "ClusterRole", "cluster-admin", eve.clone()), 403,
            format!("clusterrolebindings.rbac.authorization.k8s.io \"e3\" is forbidden: {held}\n{{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}}\n{{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}}")),
        ("POST", CLUSTER_BINDINGS.to_owned(), binding("e3", "ClusterRole", "missing", eve.clone()), 404,
            "clusterrolebindings.rbac.authorization.k8s.io \"missing\" not found".to_owned()),
        ("POST", BINDINGS.to_owned(), binding("e3", "Role", "r1", eve.clone()), 403,
            format!("rolebindings.rbac.authorization.k8s.io \"e3\" is forbidden: {held}\n{{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"get\" \"list\"]}}")),
        ("PUT", format!("{ROLES}/e2"), json!({"metadata": {"name": "e2"}, "rules": [rule(json!(["create"]), "roles")]}), 403,
            format!("roles.rbac.authorization.k8s.io \"e2\" is forbidden: {held}\n{{APIGroups:[\"\"], Resources:[\"roles\"], Verbs:[\"create\"]}}")),
        ("POST", CLUSTER_ROLES.to_owned(), json!({"metadata": {"name": "e4"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}), 403,
            "clusterroles.rbac.authorization.k8s.io \"e4\" is forbidden: must have cluster-admin privileges to use the aggregationRule".to_owned()),
        ("POST", ROLES.to_owned(), json!({"metadata": {"name": "e5"}, "rules": [{"verbs": ["create"]}]}), 422,
            "Role.rbac.authorization.k8s.io \"e5\" is invalid: [rules[0].apiGroups: Required value: resource rules must supply at least one api group, rules[0].resources: Required value: resource rules must supply at least one resource]".to_owned()),
    ] {
        let answer = api.send("eve", method, &path, &[], object.to_string()).await;
        assert_eq!((answer.code, answer.message()), (code, message.as_str()), "{method} {path} {object}");
    }
    // A patch is no way around it.
    let patch = json!({"rules": [rule(json!(["*"]), "*")]}).to_string();
    let media = [("content-type", "application/merge-patch+json")];
    assert_eq!(api.send("eve", "PATCH", &format!("{ROLES}/e2"), &media, patch).await.code, 403);
    // Whoever may escalate and bind, may.
    let may = json!([{"verbs": ["escalate", "bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]}]);
    assert_eq!(api.post("admin", CLUSTER_ROLES, &json!({"metadata": {"name": "may"}, "rules": may})).await.code, 201);
    assert_eq!(api.post("admin", CLUSTER_BINDINGS, &binding("may", "ClusterRole", "may", eve.clone())).await.code, 201);
    assert_eq!(api.post("eve", BINDINGS, &binding("e3", "Role", "r1", eve)).await.code, 201);
    assert_eq!(
        api.put(
            "eve",
            &format!("{ROLES}/e2"),
            &json!({"metadata": {"name": "e2"}, "rules": [rule(json!(["*"]), "*")]})
        )
        .await
        .code,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn the_usual_roles_are_there_also_where_they_decide_nothing() {
    let api = Api(Server::in_memory(World::simulated(1)).await);
    let (all, view) = tokio::join!(
        api.get("bob", CLUSTER_ROLES),
        api.get("bob", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view")
    );
    assert!(all.body["items"].as_array().unwrap().len() > 60, "{}", all.body);
    assert!(view.body["rules"].to_string().contains("configmaps"), "{}", view.body);
    // Who removes one does not find it again, in a fork neither.
    let admin = format!("{CLUSTER_ROLES}/cluster-admin");
    assert_eq!(api.send("bob", "DELETE", &admin, &[], String::new()).await.code, 200);
    assert_eq!(Api(api.0.fork(World::simulated(2))).get("bob", &admin).await.code, 404);
    let stranger = api.get("bob", MAPS).await;
    assert_eq!(stranger.code, 200, "{}", stranger.body);
    api.0.authorize_by(Authorization::Rbac).await.unwrap();
    let stranger = api.get("bob", MAPS).await;
    assert_eq!(stranger.code, 403, "{}", stranger.body);
}

#[tokio::test(start_paused = true)]
async fn aggregated_roles_follow_their_parts() {
    let api = Api::new().await;
    let bob = json!([{"kind": "User", "name": "bob"}]);
    assert_eq!(api.post("admin", CLUSTER_BINDINGS, &binding("bob", "ClusterRole", "view", bob)).await.code, 201);
    let files = "/apis/probe.test/v1/files";
    assert_eq!(api.get("bob", "/api/v1/configmaps").await.code, 200);
    assert_eq!(api.get("bob", "/api/v1/secrets").await.code, 403);
    assert_eq!(api.get("bob", files).await.code, 403);
    let rule = json!({"verbs": ["list"], "apiGroups": ["probe.test"], "resources": ["files"]});
    let role = json!({
        "metadata": {"name": "files", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}, "rules": [rule],
    });
    assert_eq!(api.post("admin", CLUSTER_ROLES, &role).await.code, 201);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(api.get("bob", files).await.code, 404);
    let edit = api.get("admin", &format!("{CLUSTER_ROLES}/edit")).await;
    assert!(edit.body["rules"].to_string().contains("secrets"), "{}", edit.body);
}

#[tokio::test(start_paused = true)]
async fn only_who_may_acts_as_somebody_else() {
    let api = Api::new().await;
    let bob = ("impersonate-user", "bob");
    let account = ("impersonate-user", "system:serviceaccount:a:b");
    for (user, headers, code, expected) in [
        (
            "admin",
            vec![
                bob,
                ("impersonate-group", "a"),
                ("impersonate-group", "b"),
                ("impersonate-uid", "17"),
                ("impersonate-extra-foo%2fbar", "x"),
                ("impersonate-extra-foo%2fbar", "y"),
            ],
            201,
            json!({"username": "bob", "uid": "17", "groups": ["a", "b", "system:authenticated"], "extra": {"foo/bar": ["x", "y"]}}),
        ),
        (
            "admin",
            vec![account],
            201,
            json!({"username": "system:serviceaccount:a:b", "groups": ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]}),
        ),
        (
            "admin",
            vec![("impersonate-user", "")],
            201,
            json!({"username": "admin", "uid": "admin-uid", "groups": ["system:masters", "system:authenticated"]}),
        ),
        ("jane", vec![bob], 201, json!({"username": "bob", "groups": ["system:authenticated"]})),
        (
            "admin",
            vec![("impersonate-group", "a")],
            400,
            json!(
                "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"a\"}, Extra:map[string][]string(nil)} without impersonating a user name"
            ),
        ),
        (
            "admin",
            vec![("impersonate-uid", "a")],
            400,
            json!(
                "requested &user.DefaultInfo{Name:\"\", UID:\"a\", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name"
            ),
        ),
        (
            "admin",
            vec![("impersonate-user", "system:anonymous")],
            403,
            json!(
                "selfsubjectreviews.authentication.k8s.io is forbidden: User \"system:anonymous\" cannot create resource \"selfsubjectreviews\" in API group \"authentication.k8s.io\" at the cluster scope"
            ),
        ),
        (
            "eve",
            vec![bob],
            403,
            json!(
                "selfsubjectreviews.authentication.k8s.io is forbidden: User \"eve\" cannot impersonate-on:user-info:create resource \"selfsubjectreviews\" in API group \"authentication.k8s.io\" at the cluster scope"
            ),
        ),
        (
            "eve",
            vec![account],
            403,
            json!(
                "selfsubjectreviews.authentication.k8s.io is forbidden: User \"eve\" cannot impersonate-on:serviceaccount:create resource \"selfsubjectreviews\" in API group \"authentication.k8s.io\" at the cluster scope"
            ),
        ),
    ] {
        let answer = api.send(user, "POST", WHOAMI, &headers, "{}".into()).await;
        let shown = if code == 201 { &answer.body["status"]["userInfo"] } else { &answer.body["message"] };
        assert_eq!((answer.code, shown), (code, &expected), "{user} {headers:?}");
    }
    for headers in [
        vec![("impersonate-user", "carl")],
        vec![bob, ("impersonate-group", "system:masters")],
        vec![bob, ("impersonate-uid", "x")],
        vec![bob, ("impersonate-extra-scopes", "x")],
    ] {
        assert_eq!(api.send("jane", "POST", WHOAMI, &headers, "{}".into()).await.code, 403, "{headers:?}");
    }
    let answer = api.send("eve", "GET", "/api/v1", &[account], String::new()).await;
    assert_eq!(
        answer.message(),
        "serviceaccounts \"b\" is forbidden: User \"eve\" cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"a\""
    );
}

#[tokio::test(start_paused = true)]
async fn questions_about_access_are_answered() {
    let api = Api::new().await;
    let maps = json!({"namespace": "default", "verb": "get", "resource": "configmaps"});
    let allowed = json!({"allowed": true, "reason": "RBAC: allowed by RoleBinding \"rb1/default\" of Role \"r1\" to User \"bob\""});
    let by_group = json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \"system:authenticated\""});
    for (user, path, spec, expected) in [
        ("bob", "selfsubjectaccessreviews", json!({"resourceAttributes": maps}), allowed.clone()),
        ("jane", "selfsubjectaccessreviews", json!({"resourceAttributes": maps}), json!({"allowed": false})),
        ("admin", "selfsubjectaccessreviews", json!({"resourceAttributes": maps}), json!({"allowed": true})),
        (
            "jane",
            "selfsubjectaccessreviews",
            json!({"nonResourceAttributes": {"path": "/api", "verb": "get"}}),
            by_group,
        ),
        ("admin", "subjectaccessreviews", json!({"user": "bob", "resourceAttributes": maps}), allowed.clone()),
        (
            "admin",
            "subjectaccessreviews",
            json!({"groups": ["dev"], "resourceAttributes": maps}),
            json!({"allowed": false}),
        ),
        (
            "admin",
            "namespaces/default/localsubjectaccessreviews",
            json!({"user": "bob", "resourceAttributes": maps}),
            allowed,
        ),
    ] {
        let answer = api.post(user, &format!("{ACCESS}/{path}"), &json!({"spec": spec})).await;
        assert_eq!(
            (answer.code, &answer.body["status"], &answer.body["spec"]),
            (201, &expected, &spec),
            "{user} {path}"
        );
    }
    let exactly = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    for (path, spec, message) in [
        ("selfsubjectaccessreviews", json!({}), format!("spec: Invalid value: null: {exactly}")),
        ("selfsubjectaccessreviews", json!({"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/x"}}), format!("spec: Invalid value: {{\"Path\":\"/x\",\"Verb\":\"\"}}: {exactly}")),
        ("subjectaccessreviews", json!({"resourceAttributes": maps}), "spec.user: Invalid value: \"\": at least one of user or group must be specified".to_owned()),
        ("namespaces/default/localsubjectaccessreviews", json!({"user": "bob", "resourceAttributes": {"namespace": "x"}}), "spec.resourceAttributes.namespace: Invalid value: \"x\": must match metadata.namespace".to_owned()),
        ("namespaces/default/localsubjectaccessreviews", json!({"user": "bob", "nonResourceAttributes": {"path": "/x"}}), "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"\"}: disallowed on this kind of request".to_owned()),
    ] {
        let answer = api.post("admin", &format!("{ACCESS}/{path}"), &json!({"spec": spec})).await;
        assert_eq!((answer.code, answer.message()), (422, format!(".authorization.k8s.io \"\" is invalid: {message}").as_str()));
    }
    let rules =
        api.post("bob", &format!("{ACCESS}/selfsubjectrulesreviews"), &json!({"spec": {"namespace": "default"}})).await;
    let resources = rules.body["status"]["resourceRules"].as_array().unwrap();
    assert!(
        resources.contains(&json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]})),
        "{}",
        rules.body
    );
    assert_eq!(rules.body["status"]["incomplete"], false);
    let nowhere = api.post("bob", &format!("{ACCESS}/selfsubjectrulesreviews"), &json!({"spec": {}})).await;
    assert_eq!((nowhere.code, nowhere.message()), (400, "no namespace on request"));
    for (method, path, code) in [
        ("GET", "selfsubjectrulesreviews", 405),
        ("GET", "selfsubjectrulesreviews/x", 404),
        ("DELETE", "selfsubjectrulesreviews", 405),
    ] {
        assert_eq!(api.send("admin", method, &format!("{ACCESS}/{path}"), &[], String::new()).await.code, code);
    }
}

#[tokio::test(start_paused = true)]
async fn service_accounts_get_tokens_that_are_known() {
    let api = Api::new().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(api.post("admin", accounts, &json!({"metadata": {"name": "sa"}})).await.code, 201);
    let token = async |spec: Value| {
        api.post("admin", "/api/v1/namespaces/default/serviceaccounts/sa/token", &json!({"spec": spec})).await
    };
    for (spec, code, message) in [
        (
            json!({"expirationSeconds": 599}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
        ),
        (json!({"expirationSeconds": 600}), 201, ""),
        (json!({"expirationSeconds": 1_i64 << 32}), 201, ""),
        (
            json!({"expirationSeconds": 8_589_934_592_i64}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 8589934592: may not specify a duration larger than 2^32 seconds",
        ),
        (json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}), 404, "pods \"p\" not found"),
    ] {
        let answer = token(spec).await;
        assert_eq!((answer.code, answer.message()), (code, message));
    }
    let own = token(json!({})).await.body["status"]["token"].as_str().unwrap().to_owned();
    let other = token(json!({"audiences": ["x"]})).await.body["status"]["token"].as_str().unwrap().to_owned();
    let review = async |token: &str, audiences: Value| {
        api.post("admin", TOKENS, &json!({"spec": {"token": token, "audiences": audiences}})).await
    };
    let known = review(&own, json!([])).await;
    assert_eq!(known.body["status"]["user"]["username"], "system:serviceaccount:default:sa");
    assert_eq!(known.body["status"]["audiences"], json!(["https://kubernetes.default.svc"]));
    let error = "[invalid bearer token, token audiences [\"x\"] is invalid for the target audiences [\"https://kubernetes.default.svc\"]]";
    assert_eq!(review(&other, json!([])).await.body["status"], json!({"user": {}, "error": error}));
    assert_eq!(review(&other, json!(["x", "y"])).await.body["status"]["audiences"], json!(["x"]));
    assert_eq!(review("nobody", json!([])).await.body["status"], json!({"user": {}, "error": "invalid bearer token"}));
    // It ends with its time, and with its account.
    tokio::time::advance(std::time::Duration::from_secs(3601)).await;
    assert!(review(&own, json!([])).await.body["status"]["authenticated"].is_null());
    let own = token(json!({})).await.body["status"]["token"].as_str().unwrap().to_owned();
    assert_eq!(api.send("admin", "DELETE", &format!("{accounts}/sa"), &[], String::new()).await.code, 200);
    assert!(review(&own, json!([])).await.body["status"]["authenticated"].is_null());
    assert_eq!(token(json!({})).await.code, 404);
    assert_eq!(
        api.send("bob", Method::POST.as_str(), &format!("{accounts}/sa/token"), &[], "{}".into()).await.code,
        403
    );
}

/// A body that nobody may read.
struct Unread;

impl http_body::Body for Unread {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        panic!("the body is read");
    }
}

#[tokio::test(start_paused = true)]
async fn the_body_of_who_may_not_is_not_read() {
    let api = Api::new().await;
    for (method, path) in [
        ("POST", MAPS),
        ("PUT", "/api/v1/namespaces/default/configmaps/a"),
        ("PATCH", "/api/v1/namespaces/default/configmaps/a"),
        ("DELETE", MAPS),
        ("POST", "/foo"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/sa/token"),
    ] {
        let mut request = Request::builder().method(method).uri(path).body(Unread).unwrap();
        request.extensions_mut().insert(User::new("jane", &[]));
        assert_eq!(api.0.answer(request).await.status(), 403, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_roles_whoever_is_known_may_do_everything() {
    let api = Api(Server::in_memory(World::simulated(1)).await);
    assert_eq!(api.get("jane", "/api/v1/secrets").await.code, 200);
    let review = api
        .post(
            "jane",
            &format!("{ACCESS}/selfsubjectaccessreviews"),
            &json!({"spec": {"resourceAttributes": {"verb": "get"}}}),
        )
        .await;
    assert_eq!(review.body["status"], json!({"allowed": true}));
    let role =
        json!({"metadata": {"name": "all"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    assert_eq!(api.post("jane", CLUSTER_ROLES, &role).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn who_may_only_change_creates_nothing_by_an_apply() {
    let api = Api::new().await;
    let patches = json!({"verbs": ["patch"], "apiGroups": [""], "resources": ["configmaps"]});
    api.post("", ROLES, &json!({"metadata": {"name": "p"}, "rules": [patches]})).await;
    api.post("", BINDINGS, &binding("p", "Role", "p", json!([{"kind": "User", "name": "bob"}]))).await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}});
    let apply = async |user: &str| {
        let headers = [("content-type", "application/apply-patch+yaml")];
        api.send(user, "PATCH", &format!("{MAPS}/m?fieldManager=me"), &headers, config.to_string()).await
    };
    let refused = apply("bob").await;
    let words = "configmaps \"m\" is forbidden: User \"bob\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    assert_eq!((refused.code, refused.message()), (403, words));
    assert_eq!(apply("admin").await.code, 201);
    assert_eq!(apply("bob").await.code, 200, "what is there may be changed");
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// Made by openssl: CN = x.
const REQUEST: &str = "\
    LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHTE1EOENBUUF3RERFS01BZ0dBMVVFQXd3QmVEQXFNQVVHQXl0\
    bGNBTWhBT1lOOVg4eUlpS2ZkT0M1SmFqUApuTXRJUEpGRWttZk9wQjRvK0hCeldvZytvQUF3QlFZREsyVndBMEVBYW83a3RnSnVm\
    VXVtTFRrSTRkajMwWFJwCnNqV1BjM3ZVKzdKSW0rMHFOWG1aNjdaMUlnU3VLQkN5WWI2RE43YlRscEJxUG9wcCt5ZWk5QjFUb3ZB\
    ZENnPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==\
    ";

#[tokio::test(start_paused = true)]
async fn who_approves_or_signs_needs_the_signer() {
    let api = Api::new().await;
    let parts = json!(["certificatesigningrequests/approval", "certificatesigningrequests/status"]);
    let rule = json!({"verbs": ["patch"], "apiGroups": ["certificates.k8s.io"], "resources": parts});
    let subjects = json!([{"kind": "User", "name": "bob"}]);
    let spec = json!({"signerName": "a.b/c", "usages": ["client auth"], "request": REQUEST});
    for (path, object) in [
        (CLUSTER_ROLES, json!({"metadata": {"name": "approver"}, "rules": [rule.clone()]})),
        (CLUSTER_BINDINGS, binding("approver", "ClusterRole", "approver", subjects)),
        (REQUESTS, json!({"metadata": {"name": "r"}, "spec": spec})),
    ] {
        let answer = api.post("", path, &object).await;
        assert_eq!(answer.code, 201, "{path}: {}", answer.body);
    }
    let patch = async |part: &str, kinds: &[&str]| {
        let conditions: Vec<Value> = kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        let body = json!({"status": {"conditions": conditions}});
        let media = [("content-type", "application/strategic-merge-patch+json")];
        api.send("bob", "PATCH", &format!("{REQUESTS}/r/{part}"), &media, body.to_string()).await
    };
    for (part, kind, verb) in [("approval", "Approved", "approve"), ("status", "Failed", "sign")] {
        let refused = patch(part, &[kind]).await;
        let why = format!("user not permitted to {verb} requests with signerName \"a.b/c\"");
        let message = format!("certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: {why}");
        assert_eq!((refused.code, refused.message()), (403, message.as_str()));
    }
    let approve = json!({"verbs": ["approve"], "resourceNames": ["a.b/c"]});
    let sign = json!({"verbs": ["sign"], "resourceNames": ["a.b/*"]});
    let signers = [approve, sign].map(|mut rule| {
        rule["apiGroups"] = json!(["certificates.k8s.io"]);
        rule["resources"] = json!(["signers"]);
        rule
    });
    let rules = [vec![rule], signers.to_vec()].concat();
    let role = json!({"metadata": {"name": "approver"}, "rules": rules});
    assert_eq!(api.put("", &format!("{CLUSTER_ROLES}/approver"), &role).await.code, 200);
    for (part, kinds) in [("approval", &["Approved"][..]), ("status", &["Approved", "Failed"])] {
        let allowed = patch(part, kinds).await;
        assert_eq!(allowed.code, 200, "{}", allowed.body);
    }
}

/// Gives every new role more than its author has.
struct Generous;

impl Admission for Generous {
    fn mutate<'a>(&'a self, review: &'a Review<'a>, object: &'a mut Value) -> Verdict<'a> {
        if review.name == "generous" {
            object["rules"] = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]);
        }
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_gives_by_a_hook_what_they_do_not_have() {
    let server = Server::in_memory_admitting(World::simulated(1), vec![Arc::new(Generous)]).await;
    let api = Api::of(server).await;
    let refused = api.post("eve", ROLES, &json!({"metadata": {"name": "generous"}, "rules": []})).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert!(
        refused.message().contains("is attempting to grant RBAC permissions not currently held"),
        "{}",
        refused.body
    );
    assert_eq!(api.post("eve", ROLES, &json!({"metadata": {"name": "modest"}, "rules": []})).await.code, 201);
}
