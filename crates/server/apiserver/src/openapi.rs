//! OpenAPI v3: one document per group-version, rendered when first asked for.

mod paths;

use std::sync::PoisonError;

use bytes::Bytes;
use concert_schema::{document, document_name as document_name_of, referred};
use http::{HeaderMap, HeaderValue, Response, header};
use serde_json::{Map, Value, json};

use crate::Server;
use crate::discovery::fingerprint;
use crate::kinds::{Kinds, Resource, Version};
use crate::respond::{self, Body};

impl Server {
    /// `/openapi/v3`, or one document of it.
    pub(crate) fn openapi(&self, document: Option<&str>) -> Response<Body> {
        let kinds = self.kinds();
        let Some(name) = document else {
            let paths: Map<String, Value> = kinds
                .group_versions()
                .keys()
                .map(|(group, version)| {
                    let name = document_name(group, version);
                    let hash = hash(&kinds, &name);
                    let url = format!("/openapi/v3/{name}?hash={hash:016X}");
                    (name, json!({"serverRelativeURL": url}))
                })
                .collect();
            return respond::json(200, &json!({"paths": paths}));
        };
        rendered(&kinds, name).map_or_else(respond::nothing, |document| tagged(document, hash(&kinds, name)))
    }
}

/// A short name for what is in a document. Those of built-in kinds change with the program only, and need not be
/// rendered for it.
fn hash(kinds: &Kinds, name: &str) -> u64 {
    let versions = kinds.group_versions();
    let found = versions.iter().find(|((group, version), _)| document_name(group, version) == name);
    match found {
        Some((_, resources)) if resources.iter().all(|(resource, _)| !resource.is_custom()) => {
            fingerprint(format!("{name} {}", env!("CARGO_PKG_VERSION")).as_bytes()) ^ concert_schema::fingerprint()
        }
        Some(_) => rendered(kinds, name).map_or(0, |bytes| fingerprint(&bytes)),
        None => 0,
    }
}

/// A document with a name for what is in it.
fn tagged(document: Bytes, hash: u64) -> Response<Body> {
    let etag = format!("\"{hash:016X}\"");
    let mut response = respond::bytes(200, document);
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// An OpenAPI v2 document without paths. Clients that do not find a kind in v3 ask here before they say so; all else
/// is in v3.
pub(crate) fn version_two(headers: &HeaderMap) -> Response<Body> {
    const TITLE: &[u8] = b"Concert";
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accepts.contains("protobuf") {
        let document = json!({"swagger": "2.0", "info": {"title": "Concert", "version": "v1"}, "paths": {}});
        return respond::json(200, &document);
    }
    // swagger = 1, info = 2 { title = 1, version = 2 }, paths = 8
    let member = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let info = [member(1, TITLE), member(2, b"v1")].concat();
    let document = [member(1, b"2.0"), member(2, &info), member(8, b"")].concat();
    let mut response = respond::bytes(200, document.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
    response
}

fn document_name(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn rendered(kinds: &Kinds, name: &str) -> Option<Bytes> {
    if let Some(found) = kinds.openapi.read().unwrap_or_else(PoisonError::into_inner).get(name) {
        return Some(found.clone());
    }
    let versions = kinds.group_versions();
    let ((_, version), resources) =
        versions.iter().find(|((group, version), _)| document_name(group, version) == name)?;
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for (resource, place) in resources {
        let version = &resource.versions[*place];
        paths::add(&mut paths, name, resource, version);
        add_schemas(&mut schemas, resource, version);
    }
    add_definition(&mut schemas, "meta.v1.ObjectMeta");
    add_definition(&mut schemas, "meta.v1.ListMeta");
    add_definition(&mut schemas, "meta.v1.DeleteOptions");
    if resources.iter().any(|(resource, place)| resource.versions[*place].scale.is_some()) {
        add_definition(&mut schemas, "autoscaling.v1.Scale");
        if let Some(scale) = schemas.get_mut(SCALE) {
            scale["x-kubernetes-group-version-kind"] =
                json!([{"group": "autoscaling", "version": "v1", "kind": "Scale"}]);
        }
    }
    schemas.insert(STATUS.to_owned(), json!({"type": "object"}));
    schemas.insert(PATCH.to_owned(), json!({"type": "object"}));
    let custom = resources.iter().any(|(resource, _)| resource.is_custom());
    let info = if custom {
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    } else {
        json!({"title": "Concert", "version": version})
    };
    let document = json!({
        "openapi": "3.0.0", "info": info,
        "paths": paths, "components": {"schemas": schemas},
    });
    let bytes = Bytes::from(document.to_string());
    kinds.openapi.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), bytes.clone());
    Some(bytes)
}

const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// A schema of the built-in kinds and all it refers to.
fn add_definition(schemas: &mut Map<String, Value>, name: &str) {
    let mut pending = vec![name.to_owned()];
    while let Some(name) = pending.pop() {
        if schemas.contains_key(&document_name_of(&name)) {
            continue;
        }
        if let Some((long, schema)) = document(&name) {
            schemas.insert(long, schema);
            pending.extend(referred(&name).into_iter().map(str::to_owned));
        }
    }
}

/// The name of a kind's schema; for custom resources the group's parts reversed, version, kind.
fn schema_name(resource: &Resource, version: &Version) -> String {
    if let Some(builtin) = version.builtin.filter(|_| !resource.is_custom()) {
        return document_name_of(builtin.schema_name);
    }
    let group = version.gvk.group.split('.').rev().collect::<Vec<_>>().join(".");
    format!("{group}.{}.{}", version.gvk.version, version.gvk.kind)
}

fn gvk(version: &Version) -> Value {
    json!({"group": version.gvk.group, "version": version.gvk.version, "kind": version.gvk.kind})
}

/// What may be a number or a text says so in words that everybody understands.
fn tell_alternatives(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let either = members.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
            if either && !members.contains_key("anyOf") && !members.contains_key("allOf") {
                members.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
            }
            for (name, member) in members {
                // Defaults and enums are values, not schemas.
                if !matches!(name.as_str(), "default" | "enum" | "example") {
                    tell_alternatives(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tell_alternatives),
        _ => {}
    }
}

fn add_schemas(schemas: &mut Map<String, Value>, resource: &Resource, version: &Version) {
    let text = json!({"type": "string"});
    let name = schema_name(resource, version);
    let mut schema = if let Some(builtin) = version.builtin {
        add_definition(schemas, builtin.schema_name);
        for part in &builtin.parts {
            add_definition(schemas, part.schema_name);
        }
        schemas.remove(&name).unwrap_or_default()
    } else {
        let mut schema: Value = serde_json::from_str(&version.openapi).unwrap_or_default();
        schema["properties"]["apiVersion"] = text.clone();
        schema["properties"]["kind"] = text.clone();
        schema["properties"]["metadata"] = json!({"allOf": [reference(META)]});
        tell_alternatives(&mut schema);
        let selectable =
            version.selectable.iter().map(|path| json!({"fieldPath": path.text().trim_start_matches('.')}));
        let selectable: Vec<Value> = selectable.collect();
        if !selectable.is_empty() {
            schema["x-kubernetes-selectable-fields"] = selectable.into();
        }
        schema
    };
    schema["x-kubernetes-group-version-kind"] = json!([gvk(version)]);
    let list = json!({
        "type": "object", "required": ["items"],
        "properties": {
            "apiVersion": text, "kind": text, "metadata": {"allOf": [reference(LIST_META)]},
            "items": {"type": "array", "items": reference(&name)},
        },
        "x-kubernetes-group-version-kind": [{"group": version.gvk.group, "version": version.gvk.version, "kind": resource.list_kind}],
    });
    schemas.insert(name.clone(), schema);
    schemas.insert(format!("{name}List"), list);
}
