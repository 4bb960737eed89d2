//! One operation of a path: its parameters, what is sent and what is answered.

use std::collections::BTreeMap;

use concert_api::Gvk;
use serde_json::{Value, json};

use super::schemas::KINDS;

/// The forms of objects of built-in kinds.
pub(super) const BUILTIN_FORMS: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// The same, and those of a watch.
pub(super) const BUILTIN_STREAMS: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// The forms of custom resources.
pub(super) const CUSTOM_FORMS: [&str; 2] = ["application/json", "application/yaml"];
/// Built-in kinds are taken in all their forms.
pub(super) const ANY_FORM: [&str; 1] = ["*/*"];

/// The parameters of lists and watches.
pub(super) const LIST: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
/// The parameters of writes.
pub(super) const WRITE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
/// The parameters of patches.
pub(super) const PATCH: [&str; 4] = ["dryRun", "fieldManager", "fieldValidation", "force"];
/// The parameters of deletions.
pub(super) const DELETE: [&str; 5] = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
/// Parameters that are no texts.
const TRUTHS: [&str; 6] = [
    "allowWatchBookmarks",
    "force",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "sendInitialEvents",
    "watch",
];
const NUMBERS: [&str; 3] = ["gracePeriodSeconds", "limit", "timeoutSeconds"];

/// What can be done with a path by one method, as JSON text: trees of all operations would take longer to make than all
/// else in a document.
#[derive(Debug)]
pub(super) struct Operation {
    /// Its members, each with a comma behind it.
    text: String,
    parameters: Vec<&'static str>,
}

impl Operation {
    /// An operation of that name.
    pub(super) fn new(tag: &str, id: &str) -> Self {
        let text = format!("\"tags\":[{}],\"operationId\":{},", quoted(tag), quoted(id));
        Self { text, parameters: Vec::new() }
    }

    /// What it does, and with which kind.
    pub(super) fn does(mut self, action: &str, gvk: &Gvk) -> Self {
        let kind = json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind});
        self.text += &format!("\"x-kubernetes-action\":{},\"{KINDS}\":{kind},", quoted(action));
        self
    }

    /// Takes these parameters, in the order of their names.
    pub(super) fn takes(mut self, parameters: impl IntoIterator<Item = &'static str>) -> Self {
        self.parameters.extend(parameters);
        self.parameters.sort_unstable();
        self
    }

    /// Has a body of that schema in these forms.
    pub(super) fn body(mut self, forms: &[&str], schema: &str, is_required: bool) -> Self {
        let required = if is_required { ",\"required\":true" } else { "" };
        self.text += &format!("\"requestBody\":{{\"content\":{}{required}}},", content(forms, schema));
        self
    }

    /// Answers with that schema in these forms, if all is well.
    pub(super) fn answers(mut self, codes: &[u16], forms: &[&str], schema: &str) -> Self {
        let content = content(forms, schema);
        self.text.push_str("\"responses\":{");
        for code in codes {
            let description = match code {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            self.text += &format!("\"{code}\":{{\"description\":\"{description}\",\"content\":{content}}},");
        }
        self.text.push_str("\"401\":{\"description\":\"Unauthorized\"}},");
        self
    }

    /// As a document has it, for a path whose own parameters are in `common`.
    fn into_text(self, common: &[&str]) -> String {
        let own: Vec<&str> = self.parameters.into_iter().filter(|name| !common.contains(name)).collect();
        if own.is_empty() {
            return format!("{{{}}}", self.text.trim_end_matches(','));
        }
        format!("{{{}\"parameters\":{}}}", self.text, parameters(&own))
    }
}

/// A path that can only be read, and has no parameters, as JSON text.
pub(super) fn plain_item(get: Operation) -> String {
    format!("{{\"get\":{}}}", get.into_text(&[]))
}

/// A path as JSON text: its operations by method, and the parameters that all of them have.
pub(super) fn item(path: &str, operations: Vec<(&str, Operation)>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in operations.iter().flat_map(|(_, operation)| &operation.parameters) {
        *counts.entry(name).or_default() += 1;
    }
    let is_common = |name: &str| counts.get(name) == Some(&operations.len());
    let named = ["name", "namespace"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
    let mut common: Vec<&str> = counts.keys().copied().filter(|name| is_common(name)).chain(named).collect();
    common.push("pretty");
    common.sort_unstable();
    let mut text = format!("{{\"parameters\":{}", parameters(&common));
    for (method, operation) in operations {
        text += &format!(",\"{method}\":{}", operation.into_text(&common));
    }
    text + "}"
}

/// An object as JSON text, from the texts of its members.
pub(super) fn members(texts: BTreeMap<String, String>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|(name, text)| format!("{}:{text}", quoted(&name))).collect();
    format!("{{{}}}", texts.join(","))
}

/// A text as JSON writes it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A reference to a schema of the document.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn content(forms: &[&str], schema: &str) -> String {
    let schema = json!({"schema": reference(schema)}).to_string();
    let forms: Vec<String> = forms.iter().map(|form| format!("\"{form}\":{schema}")).collect();
    format!("{{{}}}", forms.join(","))
}

fn parameters(names: &[&str]) -> String {
    let parameters: Vec<String> = names.iter().map(|name| parameter(name)).collect();
    format!("[{}]", parameters.join(","))
}

fn parameter(name: &str) -> String {
    let kind = match name {
        name if TRUTHS.contains(&name) => "boolean",
        name if NUMBERS.contains(&name) => "integer",
        _ => "string",
    };
    let place = if matches!(name, "name" | "namespace") { "\"path\",\"required\":true" } else { "\"query\"" };
    format!("{{\"name\":\"{name}\",\"in\":{place},\"schema\":{{\"type\":\"{kind}\",\"uniqueItems\":true}}}}")
}
