//! What can be asked of a resource, as OpenAPI tells it.

use serde_json::{Map, Value, json};

use super::{PATCH, SCALE, STATUS, gvk, reference, schema_name};
use crate::kinds::{Resource, Version};

/// The parameters of lists, and their types.
const LIST_PARAMETERS: [(&str, &str); 11] = [
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
/// The parameters of writes.
const WRITE_PARAMETERS: [(&str, &str); 3] =
    [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
/// The parameters of patches.
const PATCH_PARAMETERS: [(&str, &str); 4] =
    [("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
/// The forms of patches that are served; the last one only for built-in kinds.
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// Adds the paths of a resource in one version.
pub(super) fn add(paths: &mut Map<String, Value>, document: &str, resource: &Resource, version: &Version) {
    let about = About { resource, version };
    let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("/{document}{scope}/{}", resource.id.resource);
    let schema = schema_name(resource, version);
    let place = if resource.namespaced { "Namespaced" } else { "" };
    if resource.is_answered() {
        let post = about.with_body("post", &about.id("create", place, ""), &schema);
        paths.insert(collection, json!({"post": post}));
        return;
    }
    let list = format!("{schema}List");
    paths.insert(
        collection.clone(),
        json!({
            "get": about.list(&about.id("list", place, ""), &list),
            "post": about.with_body("post", &about.id("create", place, ""), &schema),
            "delete": about.operation("deletecollection", &about.id("delete", &format!("Collection{place}"), ""), STATUS),
        }),
    );
    let part = |schema: &str, suffix: &str| {
        json!({
            "get": about.operation("get", &about.id("read", place, suffix), schema),
            "put": about.with_body("put", &about.id("replace", place, suffix), schema),
            "patch": about.patch(&about.id("patch", place, suffix), schema),
        })
    };
    if version.status {
        paths.insert(format!("{collection}/{{name}}/status"), part(&schema, "Status"));
    }
    if version.scale.is_some() {
        paths.insert(format!("{collection}/{{name}}/scale"), part(SCALE, "Scale"));
    }
    let mut one = part(&schema, "");
    one["delete"] = about.operation("delete", &about.id("delete", place, ""), &schema);
    paths.insert(format!("{collection}/{{name}}"), one);
    if resource.namespaced {
        let everywhere = about.list(&about.id("list", "", "ForAllNamespaces"), &list);
        paths.insert(format!("/{document}/{}", resource.id.resource), json!({"get": everywhere}));
    }
}

/// What operations are about.
struct About<'a> {
    resource: &'a Resource,
    version: &'a Version,
}

impl About<'_> {
    /// The group as part of a name: `SharedExampleCom`.
    fn group(&self) -> String {
        let group = self.version.gvk.group.as_str();
        let known = if self.resource.is_custom() { group } else { group.strip_suffix(".k8s.io").unwrap_or(group) };
        let parts = if known.is_empty() { "core" } else { known };
        parts.split(['.', '-']).map(capital).collect()
    }

    /// The name of an operation: `patchSharedExampleComV1NamespacedWidgetStatus`.
    fn id(&self, verb: &str, place: &str, suffix: &str) -> String {
        let gvk = &self.version.gvk;
        format!("{verb}{}{}{place}{}{suffix}", self.group(), capital(&gvk.version), gvk.kind)
    }

    fn operation(&self, action: &str, id: &str, answer: &str) -> Value {
        let group = self.group();
        let (first, rest) = group.split_at(group.chars().next().map_or(0, char::len_utf8));
        let content = json!({"schema": reference(answer)});
        json!({
            "tags": [format!("{}{rest}_{}", first.to_lowercase(), self.version.gvk.version)],
            "operationId": id, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(self.version),
            "responses": {
                "200": {"description": "OK", "content": {"application/json": content, "application/yaml": content}},
                "401": {"description": "Unauthorized"},
            },
        })
    }

    fn list(&self, id: &str, answer: &str) -> Value {
        let mut operation = self.operation("list", id, answer);
        operation["parameters"] = parameters(&LIST_PARAMETERS);
        operation
    }

    fn with_body(&self, action: &str, id: &str, schema: &str) -> Value {
        let mut operation = self.operation(action, id, schema);
        operation["parameters"] = parameters(&WRITE_PARAMETERS);
        let content = json!({"application/json": {"schema": reference(schema)}});
        operation["requestBody"] = json!({"content": content, "required": true});
        operation
    }

    fn patch(&self, id: &str, schema: &str) -> Value {
        let mut operation = self.operation("patch", id, schema);
        operation["parameters"] = parameters(&PATCH_PARAMETERS);
        let served = if self.resource.is_custom() { &PATCHES[..3] } else { &PATCHES[..] };
        let content: Map<String, Value> =
            served.iter().map(|media| ((*media).to_owned(), json!({"schema": reference(PATCH)}))).collect();
        operation["requestBody"] = json!({"content": content, "required": true});
        operation
    }
}

fn parameters(list: &[(&str, &str)]) -> Value {
    let one = |(name, kind): &(&str, &str)| json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}});
    list.iter().map(one).collect()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().collect::<String>() + letters.as_str()).unwrap_or_default()
}
