//! Just enough of an API server to be listed, watched and written to: the embedded one takes its place.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use concert_runtime::Client;
use concert_world::World;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Clones are the same server.
#[derive(Clone)]
pub(crate) struct Server(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// `root/plural` → (namespace, name) → object.
    objects: BTreeMap<String, BTreeMap<(String, String), Value>>,
    history: Vec<(u64, String, &'static str, Value)>,
    /// Collections that are not served.
    missing: Vec<String>,
    /// Watches from before this revision get 410.
    forgotten: u64,
}

struct Target {
    collection: String,
    namespace: String,
    name: Option<String>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { state: Mutex::default(), revision: watch::Sender::new(1) }))
    }

    pub(crate) fn client(&self, world: &World) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::in_process(service, world.clone())
    }

    /// Serves a collection (`/api/v1/secrets`) or not.
    pub(crate) fn serves(&self, collection: &str, served: bool) {
        let mut state = self.0.state.lock().unwrap();
        state.missing.retain(|missing| missing != collection);
        if !served {
            state.missing.push(collection.to_owned());
        }
    }

    /// Forgets all history: watches that resume get 410.
    pub(crate) fn compact(&self) {
        self.0.state.lock().unwrap().forgotten = *self.0.revision.borrow();
    }

    /// Removes an object without a trace in the history.
    pub(crate) fn vanish(&self, collection: &str, name: &str) {
        let mut state = self.0.state.lock().unwrap();
        state.objects.get_mut(collection).unwrap().remove(&("default".to_owned(), name.to_owned()));
    }

    async fn answer(&self, request: Request<Body>) -> Reply {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let query: BTreeMap<String, String> = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect();
        let target = target(parts.uri.path());
        if self.0.state.lock().unwrap().missing.contains(&target.collection) {
            return status(404, "NotFound", json!({}));
        }
        match (parts.method, &target.name) {
            (Method::GET, None) if query.contains_key("watch") => {
                self.watch(&target, query["resourceVersion"].parse().unwrap())
            }
            (Method::GET, None) => self.list(&target, query.get("continue").map_or(0, |token| token.parse().unwrap())),
            (Method::GET, Some(_)) => self.get(&target),
            (Method::POST, None) => self.create(target, serde_json::from_slice(&body).unwrap()),
            (Method::PUT, Some(_)) => self.update(&target, |_| serde_json::from_slice(&body).unwrap()),
            (Method::PATCH, Some(_)) => self.update(&target, |object| {
                let mut object = object.clone();
                merge(&mut object, &serde_json::from_slice(&body).unwrap());
                object
            }),
            (Method::DELETE, Some(_)) => self.delete(&target, &serde_json::from_slice(&body).unwrap_or_default()),
            _ => status(405, "MethodNotAllowed", json!({})),
        }
    }

    fn list(&self, target: &Target, from: usize) -> Reply {
        const PAGE: usize = 3;
        let state = self.0.state.lock().unwrap();
        let here = |(namespace, _): &(String, String)| target.namespace.is_empty() || *namespace == target.namespace;
        let all = state.objects.get(&target.collection).into_iter().flatten().filter(|(key, _)| here(key));
        let items: Vec<Value> = all.map(|(_, object)| object.clone()).collect();
        let page: Vec<Value> = items.iter().skip(from).take(PAGE).cloned().collect();
        let next = if from + PAGE < items.len() { (from + PAGE).to_string() } else { String::new() };
        let revision = self.0.revision.borrow().to_string();
        reply(
            200,
            &json!({ "kind": "List", "metadata": { "resourceVersion": revision, "continue": next }, "items": page }),
        )
    }

    fn get(&self, target: &Target) -> Reply {
        let state = self.0.state.lock().unwrap();
        match state.find(target) {
            Some(object) => reply(200, object),
            None => not_found(target),
        }
    }

    fn create(&self, mut target: Target, object: Value) -> Reply {
        let mut state = self.0.state.lock().unwrap();
        target.name = object["metadata"]["name"].as_str().map(str::to_owned);
        if state.find(&target).is_some() {
            return status(409, "AlreadyExists", json!({ "name": target.name }));
        }
        reply(201, &self.store(&mut state, &target, object, "ADDED"))
    }

    fn update(&self, target: &Target, change: impl FnOnce(&Value) -> Value) -> Reply {
        let mut state = self.0.state.lock().unwrap();
        let Some(old) = state.find(target).cloned() else { return not_found(target) };
        let mut new = change(&old);
        let wanted = &new["metadata"]["resourceVersion"];
        if !wanted.is_null() && *wanted != old["metadata"]["resourceVersion"] {
            return status(409, "Conflict", json!({ "name": target.name }));
        }
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        new["metadata"]["uid"] = old["metadata"]["uid"].clone();
        if new == old {
            return reply(200, &old);
        }
        reply(200, &self.store(&mut state, target, new, "MODIFIED"))
    }

    fn delete(&self, target: &Target, options: &Value) -> Reply {
        let mut state = self.0.state.lock().unwrap();
        let Some(object) = state.find(target).cloned() else { return not_found(target) };
        let uid = &options["preconditions"]["uid"];
        if !uid.is_null() && *uid != object["metadata"]["uid"] {
            return status(409, "Conflict", json!({ "name": target.name }));
        }
        let gone = self.store(&mut state, target, object, "DELETED");
        state.objects.get_mut(&target.collection).unwrap().remove(&target.key());
        reply(200, &gone)
    }

    fn store(&self, state: &mut State, target: &Target, mut object: Value, event: &'static str) -> Value {
        let revision = *self.0.revision.borrow() + 1;
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{revision}").into();
        }
        state.objects.entry(target.collection.clone()).or_default().insert(target.key(), object.clone());
        state.history.push((revision, target.collection.clone(), event, object.clone()));
        self.0.revision.send_replace(revision);
        object
    }

    fn watch(&self, target: &Target, from: u64) -> Reply {
        if from < self.0.state.lock().unwrap().forgotten {
            let gone = json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old" });
            return streamed(futures::stream::iter([json!({ "type": "ERROR", "object": gone })]).boxed());
        }
        let (server, collection, revisions) = (self.clone(), target.collection.clone(), self.0.revision.subscribe());
        let events = futures::stream::unfold(
            (server, collection, revisions, from),
            |(server, collection, mut revisions, from)| async move {
                loop {
                    revisions.borrow_and_update();
                    let next = {
                        let state = server.0.state.lock().unwrap();
                        state.history.iter().find(|(at, of, ..)| *at > from && *of == collection).cloned()
                    };
                    if let Some((at, _, event, object)) = next {
                        return Some((json!({ "type": event, "object": object }), (server, collection, revisions, at)));
                    }
                    revisions.changed().await.ok()?;
                }
            },
        );
        streamed(events.boxed())
    }
}

impl State {
    fn find(&self, target: &Target) -> Option<&Value> {
        self.objects.get(&target.collection)?.get(&target.key())
    }
}

impl Target {
    fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.name.clone().unwrap_or_default())
    }
}

fn target(path: &str) -> Target {
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let roots = if segments[0] == "api" { 2 } else { 3 };
    let (root, rest) = segments.split_at(roots.min(segments.len()));
    let (namespace, rest) = match rest {
        ["namespaces", namespace, plural, rest @ ..] => (*namespace, [&[*plural], rest].concat()),
        rest => ("", rest.to_vec()),
    };
    let collection = format!("/{}/{}", root.join("/"), rest.first().copied().unwrap_or_default());
    Target { collection, namespace: namespace.to_owned(), name: rest.get(1).map(|name| (*name).to_owned()) }
}

fn merge(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    for (name, value) in fields {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut object[name], value);
        }
    }
}

fn reply(code: u16, body: &Value) -> Reply {
    Response::builder().status(code).body(Full::new(Bytes::from(body.to_string())).boxed_unsync()).unwrap()
}

fn status(code: u16, reason: &str, details: Value) -> Reply {
    reply(code, &json!({ "kind": "Status", "code": code, "reason": reason, "message": reason, "details": details }))
}

fn not_found(target: &Target) -> Reply {
    status(404, "NotFound", json!({ "name": target.name }))
}

fn streamed(events: futures::stream::BoxStream<'static, Value>) -> Reply {
    let frames = events.map(|event| Ok(http_body::Frame::data(Bytes::from(format!("{event}\n")))));
    Response::new(StreamBody::new(frames).boxed_unsync())
}
