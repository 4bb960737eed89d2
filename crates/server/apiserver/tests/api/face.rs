//! The server as tests see it: requests, answers, and objects to send.

use bytes::Bytes;
use concert_apiserver::Server;
use concert_world::World;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

pub(crate) struct Api(pub(crate) Server);

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Api {
    pub(crate) async fn new() -> Self {
        Self(Server::in_memory(World::simulated(1)).await)
    }

    pub(crate) async fn with_files() -> Self {
        let api = Self::new().await;
        assert_eq!(api.post(CRDS, &definition(json!({}))).await.code, 201);
        api
    }

    pub(crate) async fn send(&self, method: Method, path: &str, media: &str, body: String) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let response = self.0.answer(request.body(Full::<Bytes>::from(body)).unwrap()).await;
        let code = response.status().as_u16();
        let warnings =
            response.headers().get_all("warning").iter().map(|one| one.to_str().unwrap().to_owned()).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body =
            serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
        Answer { code, body, warnings }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "", String::new()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, "application/json", body.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PATCH, path, "application/merge-patch+json", body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str, body: &str) -> Answer {
        self.send(Method::DELETE, path, "application/json", body.to_owned()).await
    }

    /// The lines of a watch that ends by its own deadline (the clock is paused, so at once).
    pub(crate) async fn watch(&self, path: &str) -> Vec<Value> {
        let answer = self.get(&format!("{path}watch=1&timeoutSeconds=1")).await;
        match answer.body {
            Value::String(lines) => lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            one => vec![one],
        }
    }
}

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const FILES: &str = "/apis/probe.test/v1/namespaces/default/files";
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(crate) fn definition(extra: Value) -> Value {
    let mut version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "required": ["path"], "properties": {
                "path": {"type": "string"}, "size": {"type": "integer", "default": 3},
            }},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}},
    });
    for (key, value) in extra.as_object().unwrap() {
        version[key] = value.clone();
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "files.probe.test"},
        "spec": {
            "group": "probe.test", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "files", "kind": "File", "shortNames": ["fl"]},
        },
    })
}

pub(crate) fn file(name: &str) -> Value {
    json!({"apiVersion": "probe.test/v1", "kind": "File", "metadata": {"name": name}, "spec": {"path": "x"}})
}

pub(crate) fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}})
}

pub(crate) fn message(answer: &Answer) -> &str {
    answer.body["message"].as_str().unwrap_or_default()
}
