//! One scenario on one server: what is sent, and what came back.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::pick::pick;
use super::run::{PATIENCE, POLL, wait_until};
use super::scenario::{Patch, Scenario, Step, Until, replaced};
use crate::patience::Deadline;
use crate::{Api, Connection, Request, Response, Watch};

/// How long an expected event may take.
const EVENT_PATIENCE: Duration = Duration::from_secs(8);

/// The group and version of the definitions that all scenarios share.
const SHARED: &str = "shared.example.com/v1";

/// Where definitions are.
pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Parts of objects, which follow the name in a path.
const PARTS: [&str; 6] = ["status", "scale", "approval", "ephemeralcontainers", "resize", "binding"];

/// The headers that matter. Of the last two only whether they are there.
const HEADERS: [&str; 7] = ["content-type", "cache-control", "warning", "retry-after", "vary", "etag", "audit-id"];

/// The annotation of the bookmark that ends a watch's initial events.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io~1initial-events-end";

/// One scenario's connection, streams and saved values.
pub(super) struct Player<'a> {
    api: &'a Api,
    connection: Option<Connection>,
    streams: BTreeMap<String, Watch>,
    saved: BTreeMap<String, String>,
}

impl<'a> Player<'a> {
    pub(super) fn new(api: &'a Api, scenario: &Scenario) -> Self {
        let (ns, group) = (scenario.namespace(), scenario.api_group());
        let saved = [
            ("configmaps", format!("/api/v1/namespaces/{ns}/configmaps")),
            ("secrets", format!("/api/v1/namespaces/{ns}/secrets")),
            ("events", format!("/api/v1/namespaces/{ns}/events")),
            ("pods", format!("/api/v1/namespaces/{ns}/pods")),
            ("services", format!("/api/v1/namespaces/{ns}/services")),
            ("deployments", format!("/apis/apps/v1/namespaces/{ns}/deployments")),
            ("leases", format!("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases")),
            ("widgets", format!("/apis/{SHARED}/namespaces/{ns}/widgets")),
            ("plains", format!("/apis/{SHARED}/namespaces/{ns}/plains")),
            ("globals", format!("/apis/{SHARED}/globals")),
            ("things", format!("/apis/{group}/v1/namespaces/{ns}/things")),
            ("crds", DEFINITIONS.to_owned()),
            ("ns", ns),
            ("group", group),
        ];
        let saved = saved.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { api, connection: None, streams: BTreeMap::new(), saved }
    }

    /// Makes the namespace, and waits until it is furnished: what comes late would disturb lists.
    pub(super) fn prepare(&mut self, scenario: &Scenario) -> Result<(), String> {
        let namespace = scenario.namespace();
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let answer = self.api.request("POST", "/api/v1/namespaces", Some(&body)).map_err(|error| error.to_string())?;
        if answer.code != 201 {
            return Err(format!("cannot make the namespace: {} {}", answer.code, answer.body));
        }
        let furniture: &[&str] =
            if scenario.bare { &[] } else { &["serviceaccounts/default", "configmaps/kube-root-ca.crt"] };
        for furniture in furniture {
            wait_until(self.api, &format!("/api/v1/namespaces/{namespace}/{furniture}"), |code, _| code == 200)?;
        }
        Ok(())
    }

    pub(super) fn play(&mut self, step: &Step) -> Result<Option<Value>, String> {
        if let Some(path) = &step.served {
            let path = self.fill(path)?;
            wait_until(self.api, &path, |code, _| code == 200)?;
            return Ok(None);
        }
        if let Some(schema) = &step.define {
            return self.define(schema, step).map(Some);
        }
        if let Some(stream) = &step.events {
            return self.events(stream, step).map(Some);
        }
        if let Some(path) = &step.watch {
            return self.open(path, step).map(Some);
        }
        let response = self.ask(step)?;
        let body = response.json();
        for (name, path) in &step.save {
            let value = pick(&body, path).ok_or_else(|| format!("nothing at {path} to save in {body}"))?;
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.saved.insert(name.clone(), text);
        }
        let body = match &step.pick {
            Some(path) => pick(&body, &self.fill(path)?).cloned().unwrap_or_default(),
            None => body,
        };
        Ok(Some(answer(&response, body)))
    }

    /// The answer, or the first of many that is as wanted.
    fn ask(&mut self, step: &Step) -> Result<Response, String> {
        let edited = step.edit.as_ref().map(|edit| self.edited(step, edit)).transpose()?;
        let step = &Step { body: edited.or_else(|| step.body.clone()), ..step.clone() };
        let request = self.request(step, step.request.as_deref().unwrap_or_default())?;
        let Some(until) = &step.until else { return self.exchange(&request) };
        let until = Until { at: until.at.as_ref().map(|at| self.fill(at)).transpose()?, ..until.clone() };
        let deadline = Deadline::after(PATIENCE);
        loop {
            let response = self.exchange(&request)?;
            if holds(&until, &response) || !deadline.wait(POLL) {
                return Ok(response);
            }
        }
    }

    fn exchange(&mut self, request: &Request) -> Result<Response, String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.api.connect().map_err(|error| format!("cannot connect: {error}"))?,
        };
        let response = connection.exchange(request).map_err(|error| format!("no answer: {error}"))?;
        if !response.headers.iter().any(|(name, value)| name == "connection" && value == "close") {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    /// The object that is there, with changes.
    fn edited(&mut self, step: &Step, edit: &Value) -> Result<Value, String> {
        let line = step.request.as_deref().unwrap_or_default();
        let (_, path) = line.split_once(' ').ok_or_else(|| format!("no method in {line:?}"))?;
        let path = path.split('?').next().unwrap_or_default();
        let there = self.request(&Step::default(), &format!("GET {path}"))?;
        let there = self.exchange(&there)?;
        let mut object = if there.code == 200 { there.json() } else { Value::Null };
        patch(&mut object, edit);
        Ok(object)
    }

    fn request(&self, step: &Step, line: &str) -> Result<Request, String> {
        let line = self.fill(line)?;
        let (method, path) = line.split_once(' ').ok_or_else(|| format!("no method in {line:?}"))?;
        if let Some(body) = &step.protobuf {
            let body = BASE64_STANDARD.decode(body).map_err(|error| format!("not base64: {error}"))?;
            let media = step.media.clone().unwrap_or_else(|| "application/vnd.kubernetes.protobuf".to_owned());
            let headers = [("Accept", "application/json".to_owned()), ("Content-Type", media)];
            let headers = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
            return Ok(Request { method: method.to_owned(), path: path.to_owned(), headers, body });
        }
        let body = match (&step.raw, &step.body) {
            (Some(raw), _) => self.fill(raw)?,
            (None, Some(body)) => {
                let mut body = self.of_kind(body, step.kind.as_deref());
                if method == "PATCH" && step.patch == Some(Patch::Apply) && step.kind.is_some() {
                    give_name(&mut body, path);
                }
                let body = &body;
                let failed = std::cell::RefCell::new(None);
                let filled = replaced(body, &|text| {
                    self.fill(text).unwrap_or_else(|why| {
                        *failed.borrow_mut() = Some(why);
                        String::new()
                    })
                });
                if let Some(why) = failed.into_inner() {
                    return Err(why);
                }
                filled.to_string()
            }
            (None, None) => String::new(),
        };
        let json = "application/json".to_owned();
        let mut headers = vec![("Accept".to_owned(), step.accept.clone().unwrap_or_else(|| json.clone()))];
        if !body.is_empty() || step.media.is_some() {
            let patch = step.patch.or((method == "PATCH").then_some(Patch::Merge));
            let usual = patch.map_or(json, |patch| patch.media().to_owned());
            headers.push(("Content-Type".to_owned(), step.media.clone().unwrap_or(usual)));
        }
        headers.extend(step.agent.clone().map(|agent| ("User-Agent".to_owned(), agent)));
        Ok(Request { method: method.to_owned(), path: path.to_owned(), headers, body: body.into_bytes() })
    }

    /// The body with its apiVersion and kind.
    fn of_kind(&self, body: &Value, kind: Option<&str>) -> Value {
        let mut body = body.clone();
        if let (Some(kind), Some(fields)) = (kind, body.as_object_mut()) {
            let own = format!("{}/v1", self.saved["group"]);
            let (version, kind) = match (kind, kind.rsplit_once('/')) {
                ("Thing", _) => (own.as_str(), kind),
                (_, Some((version, kind))) => (version, kind),
                (_, None) => (SHARED, kind),
            };
            fields.insert("apiVersion".to_owned(), version.into());
            fields.insert("kind".to_owned(), kind.into());
        }
        body
    }

    /// Defines Things in the scenario's own group, and waits until they are served.
    fn define(&mut self, properties: &Value, step: &Step) -> Result<Value, String> {
        let mut version = json!({
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        });
        merge(&mut version, &step.version);
        let mut spec = json!({
            "group": "<group>", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "things", "kind": "Thing"},
        });
        merge(&mut spec, &step.crd);
        let body = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.<group>"}, "spec": spec,
        });
        let post = Step { request: Some("POST <crds>".to_owned()), body: Some(body), ..Step::default() };
        let response = self.ask(&post)?;
        if response.code == 201 {
            let path = if step.crd["scope"] == "Cluster" { "/apis/<group>/v1/things" } else { "<things>" };
            wait_until(self.api, &self.fill(path)?, |code, _| code == 200)?;
        }
        Ok(answer(&response, response.json()))
    }

    fn open(&mut self, path: &str, step: &Step) -> Result<Value, String> {
        let request = self.request(step, &format!("GET {path}"))?;
        let (response, watch) = self.api.stream(&request).map_err(|error| format!("no answer: {error}"))?;
        let body = response.json();
        if let Some(watch) = watch {
            let watch = watch.with_patience(EVENT_PATIENCE).map_err(|error| error.to_string())?;
            self.streams.insert(step.alias.clone().unwrap_or_default(), watch);
        }
        Ok(answer(&response, body))
    }

    fn events(&mut self, stream: &str, step: &Step) -> Result<Value, String> {
        let watch = self.streams.get_mut(stream).ok_or_else(|| format!("no stream {stream:?} is open"))?;
        let mut events = Vec::new();
        let enough = |events: &[Value]| {
            let last_is_bookmark = events.last().is_some_and(|event| event["type"] == "BOOKMARK");
            step.count.is_some_and(|count| events.len() >= count) || (step.bookmark && last_is_bookmark)
        };
        while !enough(&events) {
            let change = match watch.next_change() {
                Ok(Some(change)) => change,
                Ok(None) => return Ok(json!({"events": events, "then": "the stream ended"})),
                Err(_) => return Ok(json!({"events": events, "then": "nothing more came"})),
            };
            let path = format!("metadata/annotations/{INITIAL_EVENTS_END}");
            // Bookmarks come when a server likes, but for the one that ends the initial events.
            if change.kind != "BOOKMARK" || pick(&change.object, &path).is_some() {
                events.push(json!({"type": change.kind, "object": change.object}));
            }
        }
        Ok(json!({"events": events}))
    }

    /// The text with `<name>` replaced by what was saved.
    fn fill(&self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            let name = rest[start + 1..].split('>').next().unwrap_or_default();
            let is_name = !name.is_empty()
                && rest[start + 1 + name.len()..].starts_with('>')
                && name.chars().all(|c| c.is_ascii_alphanumeric());
            filled.push_str(&rest[..start]);
            if is_name {
                filled.push_str(self.saved.get(name).ok_or_else(|| format!("nothing was saved as <{name}>"))?);
                rest = &rest[start + name.len() + 2..];
            } else {
                filled.push('<');
                rest = &rest[start + 1..];
            }
        }
        Ok(filled + rest)
    }
}

/// Names the object of a body as its path does, unless it has a name.
fn give_name(body: &mut Value, path: &str) {
    let path = path.split('?').next().unwrap_or_default();
    let mut segments = path.rsplit('/').skip_while(|segment| PARTS.contains(segment));
    let is_named = body["metadata"].get("name").is_some();
    if let (false, Value::Null | Value::Object(_), Some(name)) = (is_named, &body["metadata"], segments.next()) {
        body["metadata"]["name"] = name.into();
    }
}

/// Changes `value` as a merge patch says: null removes.
fn patch(value: &mut Value, edit: &Value) {
    let Value::Object(edit) = edit else {
        *value = edit.clone();
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    for (name, edit) in edit {
        match value.as_object_mut() {
            Some(fields) if edit.is_null() => _ = fields.remove(name),
            _ => patch(&mut value[name], edit),
        }
    }
}

/// Puts the fields of `more` into `value`, deeply.
fn merge(value: &mut Value, more: &Value) {
    for (name, field) in more.as_object().into_iter().flatten() {
        match value.get_mut(name) {
            Some(there) if there.is_object() && field.is_object() => merge(there, field),
            _ => value[name] = field.clone(),
        }
    }
}

fn holds(until: &Until, response: &Response) -> bool {
    let code = until.code.is_none_or(|code| code == response.code);
    let place = until.at.as_ref().is_none_or(|at| pick(&response.json(), at).unwrap_or(&Value::Null) == &until.is);
    code && place
}

/// Code, headers that matter, body.
fn answer(response: &Response, body: Value) -> Value {
    let mut headers = Map::new();
    for name in HEADERS {
        let values: Vec<&str> =
            response.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect();
        if !values.is_empty() {
            let is_random = name == "etag" || name == "audit-id";
            headers.insert(name.to_owned(), if is_random { "…".into() } else { values.join(" | ").into() });
        }
    }
    json!({"code": response.code, "headers": headers, "body": body})
}
