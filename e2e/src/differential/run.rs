//! Running scenarios on one server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::pick::pick;
use super::scenario::{Scenario, Step, Until, replaced};
use crate::patience::Deadline;
use crate::{Api, Connection, Request, Response, Watch};

/// How many scenarios run at once: they mostly wait.
const AT_ONCE: usize = 24;

/// How long something asynchronous may take. The real server needs seconds for a new definition, and our machines are
/// rarely idle.
const PATIENCE: Duration = Duration::from_secs(25);

/// How often we ask for it.
const POLL: Duration = Duration::from_millis(50);

/// How long an expected event may take.
const EVENT_PATIENCE: Duration = Duration::from_secs(8);

/// The group and version of the definitions that all scenarios share.
const SHARED: &str = "shared.example.com/v1";

/// Where definitions are.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The headers that matter. Of the last two only whether they are there.
const HEADERS: [&str; 7] = ["content-type", "cache-control", "warning", "retry-after", "vary", "etag", "audit-id"];

/// The annotation of the bookmark that ends a watch's initial events.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io~1initial-events-end";

/// What a server answered to the steps of a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript(pub Vec<Entry>);

/// What it answered to one of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The step.
    pub label: String,
    /// The `generateName` that was sent.
    pub generated: Option<String>,
    /// Code, headers and body; or events.
    pub answer: Value,
}

/// Runs every scenario, many at once; in the order given, what was answered or why there is no answer.
#[must_use]
pub fn run_all(api: &Api, scenarios: &[Scenario]) -> Vec<Result<Transcript, String>> {
    let results: Mutex<BTreeMap<usize, Result<Transcript, String>>> = Mutex::default();
    // New definitions come last: while discovery changes, the real namespace controller fails and waits for minutes.
    for defines in [false, true] {
        let wave: Vec<_> = scenarios.iter().enumerate().filter(|(_, scenario)| scenario.defines() == defines).collect();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(wave.len()) {
                scope.spawn(|| {
                    while let Some((place, scenario)) = wave.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = run(api, scenario);
                        results.lock().unwrap_or_else(PoisonError::into_inner).insert(*place, result);
                    }
                });
            }
        });
    }
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

fn run(api: &Api, scenario: &Scenario) -> Result<Transcript, String> {
    let mut player = Player::new(api, scenario);
    player.prepare(&scenario.namespace())?;
    let mut transcript = Transcript::default();
    for (number, step) in scenario.steps.iter().enumerate() {
        let failed = |why: String| format!("step {}, {}: {why}", number + 1, step.label());
        if let Some(answer) = player.play(step).map_err(failed)? {
            let generated = step.body.as_ref().and_then(|body| body["metadata"]["generateName"].as_str());
            transcript.0.push(Entry { label: step.label(), generated: generated.map(str::to_owned), answer });
        }
    }
    Ok(transcript)
}

/// Makes definitions that all scenarios share, and waits until they are served.
///
/// # Errors
/// What the server does not take or serve.
pub fn define(api: &Api, definitions: &[Value]) -> Result<(), String> {
    for definition in definitions {
        let answer = api.request("POST", DEFINITIONS, Some(definition)).map_err(|error| error.to_string())?;
        if answer.code != 201 {
            return Err(format!("cannot define {}: {} {}", definition["metadata"]["name"], answer.code, answer.body));
        }
    }
    for definition in definitions {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, version) = (text(&spec["group"]), text(&spec["versions"][0]["name"]));
        let plural = text(&spec["names"]["plural"]);
        wait_until(api, &format!("/apis/{group}/{version}/{plural}"), |code, _| code == 200)?;
        // The real server tells of it later than it serves it.
        let told = |code: u16, body: &Value| {
            let paths = body["paths"].as_object().into_iter().flatten();
            code == 200 && paths.into_iter().any(|(path, _)| path.ends_with(&format!("/{plural}")))
        };
        wait_until(api, &format!("/openapi/v3/apis/{group}/{version}"), told)?;
    }
    Ok(())
}

fn wait_until(api: &Api, path: &str, is_good: impl Fn(u16, &Value) -> bool) -> Result<(), String> {
    let deadline = Deadline::after(PATIENCE);
    loop {
        let answer = api.request("GET", path, None).map_err(|error| error.to_string())?;
        if is_good(answer.code, &answer.body) {
            return Ok(());
        }
        if !deadline.wait(POLL) {
            return Err(format!("{path} still answers {} {}", answer.code, answer.body));
        }
    }
}

/// One scenario's connection, streams and saved values.
struct Player<'a> {
    api: &'a Api,
    connection: Option<Connection>,
    streams: BTreeMap<String, Watch>,
    saved: BTreeMap<String, String>,
}

impl<'a> Player<'a> {
    fn new(api: &'a Api, scenario: &Scenario) -> Self {
        let (ns, group) = (scenario.namespace(), scenario.api_group());
        let saved = [
            ("configmaps", format!("/api/v1/namespaces/{ns}/configmaps")),
            ("secrets", format!("/api/v1/namespaces/{ns}/secrets")),
            ("events", format!("/api/v1/namespaces/{ns}/events")),
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
    fn prepare(&mut self, namespace: &str) -> Result<(), String> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let answer = self.api.request("POST", "/api/v1/namespaces", Some(&body)).map_err(|error| error.to_string())?;
        if answer.code != 201 {
            return Err(format!("cannot make the namespace: {} {}", answer.code, answer.body));
        }
        let furniture = ["serviceaccounts/default", "configmaps/kube-root-ca.crt"];
        for furniture in furniture {
            wait_until(self.api, &format!("/api/v1/namespaces/{namespace}/{furniture}"), |code, _| code == 200)?;
        }
        Ok(())
    }

    fn play(&mut self, step: &Step) -> Result<Option<Value>, String> {
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
                let body = &self.of_kind(body, step.kind.as_deref());
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
            let usual = if method == "PATCH" { "application/merge-patch+json".to_owned() } else { json };
            headers.push(("Content-Type".to_owned(), step.media.clone().unwrap_or(usual)));
        }
        Ok(Request { method: method.to_owned(), path: path.to_owned(), headers, body: body.into_bytes() })
    }

    /// The body with its apiVersion and kind.
    fn of_kind(&self, body: &Value, kind: Option<&str>) -> Value {
        let mut body = body.clone();
        if let (Some(kind), Some(fields)) = (kind, body.as_object_mut()) {
            let own = format!("{}/v1", self.saved["group"]);
            fields.insert("apiVersion".to_owned(), if kind == "Thing" { own } else { SHARED.to_owned() }.into());
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
