//! Scenario files.
//!
//! ```yaml
//! what: a sentence
//! steps:
//! - do: POST /api/v1/namespaces/<ns>/configmaps     # one request; its answer is compared
//!   body: {metadata: {name: one}}                   # sent as JSON
//!   save: {rv: metadata/resourceVersion}            # <rv> from here on
//! - watch: /api/v1/namespaces/<ns>/configmaps?watch=1&resourceVersion=<rv>
//!   as: w                                           # opens a stream; its head is compared
//! - events: w                                       # reads from it; the events are compared
//!   count: 2
//! - do: GET /api/v1/namespaces/<ns>/configmaps/one
//!   until: {code: 404}                              # asks again until; only the last answer is compared
//!
//! - define:                                         # a definition of Things in the scenario's own group:
//!     spec: {type: object}                            #   the properties of its schema
//!   version: {subresources: {status: {}}}             #   more about its only version
//!   crd: {scope: Cluster}                             #   more about its spec
//! ```
//!
//! A step's `kind` (Widget, Plain, Global: see `definitions/`; Thing: the scenario's own; `apps/v1/Deployment`) gives
//! the body its apiVersion and kind, and a configuration the name that its path has. `<ns>` and `<group>` are the
//! scenario's own; `<configmaps>`, `<secrets>`, `<pods>`, `<services>`, `<deployments>`, `<leases>`, `<events>`,
//! `<widgets>`, `<plains>`, `<things>` are paths of collections in that namespace, `<globals>` and `<crds>` of the
//! cluster. A PATCH is a merge patch unless `patch` says `apply`, `strategic` or `json`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// A list of requests, to be answered alike by both servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The directory: what kind of behaviour this is about.
    #[serde(skip)]
    pub group: String,
    /// The file's name.
    #[serde(skip)]
    pub name: String,
    /// Whether its namespace may be used before it has its service account and certificate.
    #[serde(skip)]
    pub bare: bool,
    /// One sentence.
    pub what: String,
    /// What is asked, in order.
    pub steps: Vec<Step>,
}

/// One act: a request, a stream that opens, or events read from it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// `METHOD /path?query`.
    #[serde(rename = "do")]
    pub request: Option<String>,
    /// The path of a stream to open.
    pub watch: Option<String>,
    /// The stream's name.
    #[serde(rename = "as")]
    pub alias: Option<String>,
    /// The stream to read events from.
    pub events: Option<String>,
    /// How many events; bookmarks on the way do not count.
    pub count: Option<usize>,
    /// Up to the bookmark that ends the initial events.
    pub bookmark: bool,
    /// Up to the stream's end.
    pub end: bool,
    /// A path that has to answer 200 before the scenario goes on. Not compared.
    pub served: Option<String>,
    /// The properties of Things' schema: a definition to make, and to wait for.
    pub define: Option<Value>,
    /// More about its version.
    pub version: Value,
    /// More about its spec.
    pub crd: Value,
    /// The kind of the body's object.
    pub kind: Option<String>,
    /// The Accept header.
    pub accept: Option<String>,
    /// Which patch it is; else a merge patch.
    pub patch: Option<Patch>,
    /// The User-Agent header; else there is none.
    pub agent: Option<String>,
    /// The Content-Type header; else JSON, or that of the patch.
    #[serde(rename = "type")]
    pub media: Option<String>,
    /// The body, sent as JSON.
    pub body: Option<Value>,
    /// What to change in the object that is there: it is read, merged with this (RFC 7386), and sent back.
    pub edit: Option<Value>,
    /// The body, sent as it is.
    pub raw: Option<String>,
    /// The body in base64, sent as protobuf.
    pub protobuf: Option<String>,
    /// Values to keep from the answer, and where they are in it.
    pub save: BTreeMap<String, String>,
    /// Asks again until the answer is like this.
    pub until: Option<Until>,
    /// Only this part of the answer's body is compared.
    pub pick: Option<String>,
    /// The step is done once for each of these, as `<each>`.
    #[serde(rename = "for")]
    pub each: Vec<String>,
}

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Patch {
    /// A configuration to apply.
    Apply,
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// A merge patch that knows lists.
    Strategic,
}

impl Patch {
    /// Its Content-Type.
    #[must_use]
    pub fn media(self) -> &'static str {
        match self {
            Self::Apply => "application/apply-patch+yaml",
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// What an answer has to be like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Until {
    /// The HTTP code.
    pub code: Option<u16>,
    /// A place in the body,
    pub at: Option<String>,
    /// and what is there; null: nothing.
    pub is: Value,
}

impl Scenario {
    /// The group and the name.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.group, self.name)
    }

    /// Whether it makes definitions.
    #[must_use]
    pub fn defines(&self) -> bool {
        self.steps.iter().any(|step| step.define.is_some() || step.label().starts_with("POST <crds>"))
    }

    /// Its namespace, and the first part of its API group.
    #[must_use]
    pub fn namespace(&self) -> String {
        format!("{}-{}", self.group, self.name)
    }

    /// Its API group.
    #[must_use]
    pub fn api_group(&self) -> String {
        format!("{}.example.com", self.namespace())
    }
}

impl Step {
    /// What it does, in a few words.
    #[must_use]
    pub fn label(&self) -> String {
        let stream = |word: &str, of: &Option<String>| of.as_ref().map(|of| format!("{word} {of}"));
        let request = self.request.clone().or_else(|| stream("WATCH", &self.watch));
        let other = stream("EVENTS", &self.events).or_else(|| stream("SERVED", &self.served));
        request.or(other).unwrap_or_else(|| "POST <crds>".to_owned())
    }

    /// Whether its answer is compared.
    #[must_use]
    pub fn is_compared(&self) -> bool {
        self.served.is_none()
    }
}

/// The scenarios below `directory` whose `group/name` contains `filter`.
///
/// # Errors
/// Which file cannot be read, and why.
pub fn load(directory: &Path, filter: &str) -> Result<Vec<Scenario>, String> {
    let mut scenarios = Vec::new();
    for group in entries(directory)?.into_iter().filter(|path| path.is_dir()) {
        for path in entries(&group)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "yaml")) {
            let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let (group, name) = (stem(&group), stem(&path));
            if group == "definitions" || !format!("{group}/{name}").contains(filter) {
                continue;
            }
            let mut scenario: Scenario = read(&path)?;
            scenario.steps = scenario.steps.into_iter().flat_map(expand).collect();
            scenarios.push(Scenario { group, name, ..scenario });
        }
    }
    Ok(scenarios)
}

/// The definitions that all scenarios share: they exist before the first one begins.
///
/// # Errors
/// Which file cannot be read, and why.
pub fn definitions(directory: &Path) -> Result<Vec<Value>, String> {
    entries(&directory.join("definitions"))?.iter().map(|path| read(path)).collect()
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    // The letters y and n are letters here.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(&text, options)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot = |error| format!("cannot read {}: {error}", directory.display());
    let found: Result<Vec<PathBuf>, _> =
        fs::read_dir(directory).map_err(cannot)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut found = found.map_err(cannot)?;
    found.sort();
    Ok(found)
}

/// One step for each of the things it is for.
fn expand(step: Step) -> Vec<Step> {
    if step.each.is_empty() {
        return vec![step];
    }
    let one = |each: &String| {
        let fill = |text: &String| text.replace("<each>", each);
        Step {
            request: step.request.as_ref().map(fill),
            raw: step.raw.as_ref().map(fill),
            protobuf: step.protobuf.clone(),
            body: step.body.as_ref().map(|body| replaced(body, &fill)),
            media: step.media.as_ref().map(fill),
            accept: step.accept.as_ref().map(fill),
            agent: step.agent.as_ref().map(fill),
            each: Vec::new(),
            ..step.clone()
        }
    };
    step.each.iter().map(one).collect()
}

/// The value with every text in it changed, keys too.
pub(super) fn replaced(value: &Value, change: &dyn Fn(&String) -> String) -> Value {
    match value {
        Value::String(text) => change(text).into(),
        Value::Array(items) => items.iter().map(|item| replaced(item, change)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, field)| (change(name), replaced(field, change))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
