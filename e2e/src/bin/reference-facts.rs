//! What the real kube-apiserver says of the kinds it has, as one JSON document: `cargo xtask kinds` makes data of it.

use std::collections::BTreeMap;

use concert_e2e::{Api, ControlPlane, Reference, Request, environment};
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn main() {
    let binary = environment::reference_apiserver().unwrap_or_else(|missing| {
        eprintln!("error: {missing}");
        std::process::exit(1)
    });
    let server = ControlPlane::reference_with(Reference::new(binary));
    let api = server.api();
    let mut documents = vec!["api/v1".to_owned()];
    for group in items(&ask(&api, "/apis", "application/json")["groups"]) {
        let versions = items(&group["versions"]);
        documents.extend(versions.iter().map(|version| format!("apis/{}", text(&version["groupVersion"]))));
    }
    let mut facts = BTreeMap::new();
    for document in documents {
        let resources = ask(&api, &format!("/{document}"), "application/json")["resources"].take();
        let columns: BTreeMap<String, Value> = items(&resources)
            .iter()
            .filter(|resource| items(&resource["verbs"]).contains(&"list".into()))
            .map(|resource| {
                let name = text(&resource["name"]);
                let table = ask(&api, &format!("/{document}/{name}?limit=1"), TABLE);
                (name.to_owned(), table["columnDefinitions"].clone())
            })
            .collect();
        let schemas = schemas(&api, &document);
        facts.insert(document, json!({"resources": resources, "columns": columns, "schemas": schemas}));
    }
    // What is around the kinds.
    let around: BTreeMap<&str, Value> =
        ["api", "apis", "version"].map(|document| (document, json!({"schemas": schemas(&api, document)}))).into();
    println!("{}", json!({"kinds": facts, "around": around, "roles": roles(&api)}));
}

/// The schemas of a document.
fn schemas(api: &Api, document: &str) -> Value {
    ask(api, &format!("/openapi/v3/{document}"), "application/json")["components"]["schemas"].take()
}

/// The roles and bindings that are there from the beginning.
fn roles(api: &Api) -> Vec<Value> {
    let kinds = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    let list = |kind: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}?labelSelector=kubernetes.io/bootstrapping");
        let with_kind = |mut object: Value| {
            object["kind"] = kind.into();
            object
        };
        items(&ask(api, &path, "application/json")["items"]).into_iter().map(with_kind).collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(list).collect()
}

fn ask(api: &Api, path: &str, accept: &str) -> Value {
    let headers = vec![("Accept".to_owned(), accept.to_owned())];
    let request = Request { method: "GET".to_owned(), path: path.to_owned(), headers, body: Vec::new() };
    let answer = api.connect().and_then(|mut connection| connection.exchange(&request));
    answer.unwrap_or_else(|error| panic!("no answer to {path}: {error}")).json()
}

fn items(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
