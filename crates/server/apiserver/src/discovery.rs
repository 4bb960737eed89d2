//! What this server serves: `/api`, `/apis` and below, in one document or many.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use concert_api::{Gvk, Status, version_rank};
use concert_schema::Subresource;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::Server;
use crate::kinds::{Kinds, Resource, Version};
use crate::respond::{self, Body, Form, Offer};

/// As the real server orders them for custom resources.
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The documents of one state of the kinds, made when first asked for.
#[derive(Debug)]
pub(crate) struct Documents {
    core: Bytes,
    groups: Bytes,
}

impl Server {
    /// Answers a discovery path.
    pub(crate) fn discovery(&self, method: &Method, segments: &[&str], headers: &HeaderMap) -> Response<Body> {
        let kinds = self.kinds();
        // Only the documents of built-in versions are routed by media type.
        let is_custom = |group: &str| kinds.iter().any(|one| *one.id.group == *group && one.is_custom());
        let routed = match *segments {
            ["api", ..] => true,
            ["apis", group, _] => !is_custom(group),
            _ => false,
        };
        // And only these look at the method.
        if routed && method != Method::GET {
            return respond::failure(&Status::method_not_allowed());
        }
        let offer = Offer::Discovery { routed, aggregated: segments.len() == 1 };
        let wanted = match respond::negotiate(headers, offer) {
            Ok(wanted) => wanted,
            Err(status) => return respond::failure(&status),
        };
        let mut response = self.discovered(segments, wanted.form);
        if response.status().is_success() {
            response.extensions_mut().insert(wanted.encoding);
        }
        response
    }

    fn discovered(&self, segments: &[&str], form: Form) -> Response<Body> {
        let kinds = self.kinds();
        if let (["api" | "apis"], Form::AggregatedDiscovery(version)) = (segments, form) {
            let documents = kinds.discovery.get_or_init(|| aggregated(&kinds));
            let document = if segments == ["api"] { &documents.core } else { &documents.groups };
            return aggregated_answer(document, version);
        }
        let found = match *segments {
            ["api"] => Some(json!({
                "kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
            })),
            ["api", version] => resources(&kinds, "", version),
            ["apis"] => Some(group_list(&kinds)),
            ["apis", name] => groups(&kinds).get(name).map(|versions| group(name, versions, true)),
            ["apis", group, version] => resources(&kinds, group, version),
            _ => None,
        };
        match found {
            Some(document) => respond::json(200, &document),
            None if segments.first() == Some(&"api") => respond::failure(&respond::no_resource()),
            None => respond::nowhere(),
        }
    }
}

/// The paths there are, in order.
pub(crate) fn paths(kinds: &Kinds) -> BTreeSet<String> {
    let fixed = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
    let mut paths: BTreeSet<String> = fixed.map(str::to_owned).into();
    for (group, version) in kinds.group_versions().keys() {
        if group.is_empty() {
            paths.insert(format!("/api/{version}"));
        } else {
            paths.extend([format!("/apis/{group}"), format!("/apis/{group}/{version}")]);
        }
    }
    paths
}

fn aggregated_answer(document: &Bytes, version: &str) -> Response<Body> {
    // Both versions have one shape; only their name differs.
    let text = String::from_utf8_lossy(document).replacen(
        "apidiscovery.k8s.io/v2\"",
        &format!("apidiscovery.k8s.io/{version}\""),
        1,
    );
    let etag = format!("\"{:016X}\"", fingerprint(text.as_bytes()));
    let mut response = respond::bytes(200, text.into_bytes().into());
    let content = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let headers = response.headers_mut();
    for (name, value) in [(header::CONTENT_TYPE, content), (header::ETAG, etag)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

/// A short name for content: FNV-1a.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What tells clients that the stored version has changed; computed as by the real server.
fn storage_version_hash(gvk: &Gvk) -> String {
    let digest = Sha256::digest(format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind));
    BASE64_STANDARD.encode(&digest[..8])
}

/// Versions by group, the preferred one first: stable before beta before alpha, higher before lower.
fn groups(kinds: &Kinds) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (group, version) in kinds.group_versions().into_keys().filter(|(group, _)| !group.is_empty()) {
        groups.entry(group).or_default().push(version);
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
    }
    groups
}

fn group(name: &str, versions: &[String], alone: bool) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let mut group = json!({"name": name, "preferredVersion": versions.first(), "versions": versions});
    if alone {
        group["kind"] = "APIGroup".into();
        group["apiVersion"] = "v1".into();
    }
    group
}

fn group_list(kinds: &Kinds) -> Value {
    let groups: Vec<Value> = groups(kinds).iter().map(|(name, versions)| group(name, versions, false)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let name = (group.to_owned(), version.to_owned());
    let found = kinds.group_versions().remove(&name)?;
    let entries: Vec<Value> =
        found.iter().flat_map(|(resource, place)| legacy(resource, &resource.versions[*place])).collect();
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": entries});
    // The oldest document has no version of its own.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Some(list)
}

fn legacy(resource: &Resource, version: &Version) -> Vec<Value> {
    let mut entry = json!({
        "name": resource.id.resource.as_ref(), "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": verbs(version),
    });
    extend_names(&mut entry, resource);
    let hash = match version.builtin {
        Some(builtin) => builtin.storage_hash.clone(),
        None => storage_version_hash(&resource.storage().gvk),
    };
    if !hash.is_empty() {
        entry["storageVersionHash"] = hash.into();
    }
    let parts = parts(version).into_iter().map(|part| {
        let mut entry = json!({
            "name": format!("{}/{}", resource.id.resource, part.name), "singularName": "",
            "namespaced": resource.namespaced, "kind": part.gvk.kind, "verbs": part.verbs,
        });
        let own = &version.gvk;
        if (&part.gvk.group, &part.gvk.version) != (&own.group, &own.version) {
            (entry["group"], entry["version"]) = (part.gvk.group.into(), part.gvk.version.into());
        }
        entry
    });
    std::iter::once(entry).chain(parts).collect()
}

/// A subresource as discovery tells it.
pub(crate) struct Part {
    pub(crate) name: String,
    /// What is sent to it.
    pub(crate) gvk: Gvk,
    pub(crate) verbs: Vec<String>,
}

/// The subresources of a resource in one version.
pub(crate) fn parts(version: &Version) -> Vec<Part> {
    if let Some(builtin) = version.builtin {
        let told =
            |part: &Subresource| Part { name: part.name.clone(), gvk: part.gvk.clone(), verbs: part.verbs.clone() };
        return builtin.parts.iter().map(told).collect();
    }
    let part =
        |name: &str, gvk: Gvk| Part { name: name.to_owned(), gvk, verbs: STATUS_VERBS.map(str::to_owned).to_vec() };
    let status = version.status.then(|| part("status", version.gvk.clone()));
    let scale = version.scale.is_some().then(|| part("scale", Gvk::new("autoscaling", "v1", "Scale")));
    status.into_iter().chain(scale).collect()
}

/// What can be done with a resource.
pub(crate) fn verbs(version: &Version) -> Vec<&'static str> {
    match version.builtin {
        Some(builtin) => builtin.verbs.iter().map(String::as_str).collect(),
        None => CUSTOM_VERBS.to_vec(),
    }
}

fn extend_names(entry: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.clone().into();
    }
}

fn aggregated(kinds: &Kinds) -> Documents {
    let by_version = kinds.group_versions();
    let entry = |group: &str, version: &str| {
        let name = (group.to_owned(), version.to_owned());
        let resources = by_version.get(&name).into_iter().flatten();
        let resources: Vec<Value> =
            resources.map(|(resource, place)| aggregated_resource(resource, &resource.versions[*place])).collect();
        json!({"version": version, "resources": resources, "freshness": "Current"})
    };
    let document = |items: Vec<Value>| {
        let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
        Bytes::from(list.to_string())
    };
    let groups = groups(kinds);
    let items = groups.iter().map(|(group, versions)| {
        let versions: Vec<Value> = versions.iter().map(|version| entry(group, version)).collect();
        json!({"metadata": {"name": group}, "versions": versions})
    });
    Documents {
        core: document(vec![json!({"metadata": {}, "versions": [entry("", "v1")]})]),
        groups: document(items.collect()),
    }
}

fn aggregated_resource(resource: &Resource, version: &Version) -> Value {
    let kind = |gvk: &Gvk| json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind});
    let mut entry = json!({
        "resource": resource.id.resource.as_ref(), "responseKind": kind(&version.gvk),
        "singularResource": resource.singular, "verbs": verbs(version),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
    });
    extend_names(&mut entry, resource);
    let parts: Vec<Value> = parts(version)
        .into_iter()
        .map(|part| json!({"subresource": part.name, "responseKind": kind(&part.gvk), "verbs": part.verbs}))
        .collect();
    if !parts.is_empty() {
        entry["subresources"] = parts.into();
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranked_as_kubernetes_ranks_them() {
        let mut versions = vec!["v1alpha1", "foo", "v2beta1", "v1", "v10", "v1beta2", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }
}
