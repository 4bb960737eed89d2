//! One operation of a path: its parameters, what is sent and what is answered.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

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

/// What can be done with a path by one method.
#[derive(Debug)]
pub(super) struct Operation {
    value: Value,
    parameters: Vec<&'static str>,
}

impl Operation {
    /// An operation of that name.
    pub(super) fn new(tag: String, id: String) -> Self {
        Self { value: json!({"tags": [tag], "operationId": id}), parameters: Vec::new() }
    }

    /// What it does, and with which kind.
    pub(super) fn does(mut self, action: &str, gvk: Value) -> Self {
        self.value["x-kubernetes-action"] = action.into();
        self.value["x-kubernetes-group-version-kind"] = gvk;
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
        self.value["requestBody"] = json!({"content": content(forms, schema)});
        if is_required {
            self.value["requestBody"]["required"] = true.into();
        }
        self
    }

    /// Answers with that schema in these forms, if all is well.
    pub(super) fn answers(mut self, codes: &[u16], forms: &[&str], schema: &str) -> Self {
        let mut responses = Map::new();
        for code in codes {
            let description = match code {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            responses.insert(code.to_string(), json!({"description": description, "content": content(forms, schema)}));
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        self.value["responses"] = responses.into();
        self
    }

    /// As a document has it, for a path that says nothing itself.
    pub(super) fn into_value(mut self) -> Value {
        if !self.parameters.is_empty() {
            self.value["parameters"] = self.parameters.iter().map(|name| parameter(name)).collect();
        }
        self.value
    }
}

/// A path: its operations by method, and the parameters that all of them have.
pub(super) fn item(path: &str, operations: Vec<(&str, Operation)>) -> Value {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in operations.iter().flat_map(|(_, operation)| &operation.parameters) {
        *counts.entry(name).or_default() += 1;
    }
    let is_common = |name: &str| counts.get(name) == Some(&operations.len());
    let named = ["name", "namespace"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
    let mut common: Vec<&str> = counts.keys().copied().filter(|name| is_common(name)).chain(named).collect();
    common.push("pretty");
    common.sort_unstable();
    let mut item = Map::new();
    item.insert("parameters".to_owned(), common.iter().map(|name| parameter(name)).collect());
    for (method, mut operation) in operations {
        operation.parameters.retain(|name| !common.contains(name));
        item.insert(method.to_owned(), operation.into_value());
    }
    item.into()
}

/// A reference to a schema of the document.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn content(forms: &[&str], schema: &str) -> Value {
    let content: Map<String, Value> =
        forms.iter().map(|form| ((*form).to_owned(), json!({"schema": reference(schema)}))).collect();
    content.into()
}

fn parameter(name: &str) -> Value {
    let kind = match name {
        name if TRUTHS.contains(&name) => "boolean",
        name if NUMBERS.contains(&name) => "integer",
        _ => "string",
    };
    let schema = json!({"type": kind, "uniqueItems": true});
    if matches!(name, "name" | "namespace") {
        return json!({"name": name, "in": "path", "required": true, "schema": schema});
    }
    json!({"name": name, "in": "query", "schema": schema})
}
