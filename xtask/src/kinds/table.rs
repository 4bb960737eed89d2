//! The kinds themselves: names, verbs, subresources, columns.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value, json};

/// The kinds of the server, one JSON object for each resource, and the names of their schemas.
pub(super) fn kinds(facts: &Value) -> Result<Vec<Value>> {
    let documents = facts.as_object().ok_or_else(|| anyhow!("the server's answers are no object"))?;
    let names = names_of_kinds(documents);
    let mut kinds = Vec::new();
    for (document, facts) in documents {
        let (group, version) = match document.strip_prefix("apis/").and_then(|rest| rest.split_once('/')) {
            Some((group, version)) => (group, version),
            None => ("", document.trim_start_matches("api/")),
        };
        let resources = facts["resources"].as_array().context("no resources")?;
        for resource in resources.iter().filter(|one| !text(&one["name"]).contains('/')) {
            let plural = text(&resource["name"]);
            let mut kind = entry(resource, group, version, &names)?;
            let parts: Vec<Value> = resources
                .iter()
                .filter_map(|part| Some((part, text(&part["name"]).strip_prefix(plural)?.strip_prefix('/')?)))
                .map(|(part, name)| subresource(part, name, group, version, &names))
                .collect::<Result<_>>()?;
            if !parts.is_empty() {
                kind.insert("parts".into(), parts.into());
            }
            if let Some(columns) = facts["columns"][plural].as_array() {
                let columns =
                    columns.iter().map(|one| json!([one["name"], one["type"], one["format"], one["priority"]]));
                kind.insert("columns".into(), columns.collect());
            }
            kinds.push(Value::Object(kind));
        }
    }
    Ok(kinds)
}

/// The names of schemas, by `group/version/kind`.
fn names_of_kinds(documents: &Map<String, Value>) -> BTreeMap<String, String> {
    let schemas = documents.values().filter_map(|document| document["schemas"].as_object()).flatten();
    let mut names = BTreeMap::new();
    for (name, schema) in schemas {
        for gvk in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let key = format!("{}/{}/{}", text(&gvk["group"]), text(&gvk["version"]), text(&gvk["kind"]));
            names.insert(key, super::definitions::short(name));
        }
    }
    names
}

fn entry(resource: &Value, group: &str, version: &str, names: &BTreeMap<String, String>) -> Result<Map<String, Value>> {
    let kind = text(&resource["kind"]);
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() && value != json!([]) {
            entry.insert(name.to_owned(), value);
        }
    };
    put("group", group.into());
    put("version", version.into());
    put("kind", kind.into());
    put("plural", resource["name"].clone());
    put("singular", resource["singularName"].clone());
    put("namespaced", resource["namespaced"].clone());
    put("short", resource["shortNames"].clone());
    put("categories", resource["categories"].clone());
    put("verbs", resource["verbs"].clone());
    put("hash", resource["storageVersionHash"].clone());
    put("schema", schema(names, group, version, kind)?.into());
    Ok(entry)
}

fn subresource(
    part: &Value,
    name: &str,
    group: &str,
    version: &str,
    names: &BTreeMap<String, String>,
) -> Result<Value> {
    let kind = text(&part["kind"]);
    let own = |field: &str, otherwise: &str| part[field].as_str().unwrap_or(otherwise).to_owned();
    let (group, version) = (own("group", group), own("version", version));
    let mut entry = json!({"name": name, "group": group, "version": version, "kind": kind, "verbs": part["verbs"]});
    if let Ok(schema) = schema(names, &group, &version, kind) {
        entry["schema"] = schema.into();
    }
    Ok(entry)
}

fn schema<'a>(names: &'a BTreeMap<String, String>, group: &str, version: &str, kind: &str) -> Result<&'a str> {
    let found = names.get(&format!("{group}/{version}/{kind}"));
    found.map(String::as_str).ok_or_else(|| anyhow!("no schema of {group}/{version} {kind}"))
}

/// One kind for each line.
pub(super) fn text_of(kinds: &[Value]) -> String {
    let lines: Vec<String> = kinds.iter().map(Value::to_string).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
