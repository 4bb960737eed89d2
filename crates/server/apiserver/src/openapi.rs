//! OpenAPI v3: one document per group-version, and small ones of what is around them, rendered when first asked for.

mod operation;
mod paths;
mod schemas;

use std::collections::BTreeMap;
use std::sync::PoisonError;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use serde_json::{Map, Value, json};

use self::operation::{Operation, members, plain_item};
use self::schemas::Schemas;
use crate::Server;
use crate::answer::VERSION;
use crate::discovery::fingerprint;
use crate::kinds::{Kinds, Resource};
use crate::respond::{self, Body};

/// What documents of custom resources say of themselves.
const CUSTOM_INFO: &str = r#"{"title":"Kubernetes CRD Swagger","version":"v0.1.0"}"#;
/// How clients say who they are, as a member of `components`.
const SECURITY: &str = r#""securitySchemes":{"BearerToken":{"type":"apiKey","name":"authorization","in":"header","description":"Bearer Token authentication"}},"#;

/// What a document is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// `/version`.
    Version,
    /// `/api`.
    Core,
    /// `/apis`.
    Groups,
    /// `/apis/G`.
    Group(String),
    /// All resources of a group in one version.
    Resources { group: String, version: String, is_custom: bool },
}

impl Server {
    /// `/openapi/v3`, or one document of it.
    pub(crate) fn openapi(&self, document: Option<&str>) -> Response<Body> {
        let kinds = self.kinds();
        let subjects = subjects(&kinds);
        let Some(name) = document else {
            let paths: Map<String, Value> = subjects
                .iter()
                .map(|(name, subject)| {
                    let url = format!("/openapi/v3/{name}?hash={:016X}", hash(&kinds, name, subject));
                    (name.clone(), json!({"serverRelativeURL": url}))
                })
                .collect();
            return respond::json(200, &json!({"paths": paths}));
        };
        match subjects.get(name) {
            Some(subject) => tagged(rendered(&kinds, name, subject), hash(&kinds, name, subject)),
            None => respond::nothing(),
        }
    }
}

/// The documents there are, by name. A group has one of its own only if it is built in.
fn subjects(kinds: &Kinds) -> BTreeMap<String, Subject> {
    let fixed = [("version", Subject::Version), ("api", Subject::Core), ("apis", Subject::Groups)];
    let mut found: BTreeMap<String, Subject> = fixed.map(|(name, subject)| (name.to_owned(), subject)).into();
    for ((group, version), resources) in kinds.group_versions() {
        let is_custom = resources.iter().any(|(resource, _)| resource.is_custom());
        if !is_custom && !group.is_empty() {
            found.insert(format!("apis/{group}"), Subject::Group(group.clone()));
        }
        found.insert(document_name(&group, &version), Subject::Resources { group, version, is_custom });
    }
    found
}

/// A short name for what is in a document. Those of built-in kinds change with the program only, and need not be
/// rendered for it.
fn hash(kinds: &Kinds, name: &str, subject: &Subject) -> u64 {
    match subject {
        Subject::Resources { is_custom: true, .. } => fingerprint(&rendered(kinds, name, subject)),
        Subject::Version | Subject::Core | Subject::Groups | Subject::Group(_) | Subject::Resources { .. } => {
            fingerprint(format!("{name} {}", env!("CARGO_PKG_VERSION")).as_bytes()) ^ concert_schema::fingerprint()
        }
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

fn rendered(kinds: &Kinds, name: &str, subject: &Subject) -> Bytes {
    if let Some(found) = kinds.openapi.read().unwrap_or_else(PoisonError::into_inner).get(name) {
        return found.clone();
    }
    let bytes = Bytes::from(document(kinds, name, subject));
    kinds.openapi.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), bytes.clone());
    bytes
}

fn document(kinds: &Kinds, name: &str, subject: &Subject) -> String {
    let mut schemas = match subject {
        Subject::Resources { group, version, is_custom: false } => Schemas::of(group, version),
        Subject::Resources { .. } | Subject::Version | Subject::Core | Subject::Groups | Subject::Group(_) => {
            Schemas::default()
        }
    };
    let mut paths = BTreeMap::new();
    match subject {
        Subject::Version | Subject::Core | Subject::Groups | Subject::Group(_) => {
            paths.insert(format!("/{name}/"), around(subject, &mut schemas));
        }
        Subject::Resources { group, version, is_custom } => {
            let key = (group.clone(), version.clone());
            for (resource, place) in kinds.group_versions().remove(&key).unwrap_or_default() {
                paths::add(&mut paths, name, &resource, &resource.versions[place], &mut schemas);
            }
            if !is_custom {
                paths.insert(format!("/{name}/"), list_of_resources(group, version, &mut schemas));
            }
        }
    }
    let is_custom = matches!(subject, Subject::Resources { is_custom: true, .. });
    let (paths, schemas) = (members(paths), schemas.into_text());
    let (info, further) = if is_custom { (CUSTOM_INFO.to_owned(), "") } else { (info(), SECURITY) };
    format!(
        "{{\"openapi\":\"3.0.0\",\"info\":{info},\"paths\":{paths},\"components\":{{{further}\"schemas\":{schemas}}}}}"
    )
}

fn info() -> String {
    let (major, minor, _) = VERSION;
    json!({"title": "Concert", "version": format!("{major}.{minor}")}).to_string()
}

/// The path of what is around the resources.
fn around(subject: &Subject, schemas: &mut Schemas) -> String {
    let (tag, id, schema) = match subject {
        Subject::Version => ("version".to_owned(), "getCodeVersion".to_owned(), "version.Info"),
        Subject::Core => ("core".to_owned(), "getCoreAPIVersions".to_owned(), "meta.v1.APIVersions"),
        Subject::Groups => ("apis".to_owned(), "getAPIVersions".to_owned(), "meta.v1.APIGroupList"),
        Subject::Group(group) | Subject::Resources { group, .. } => {
            let group = joined(builtin_group(group));
            (uncapital(&group), format!("get{group}APIGroup"), "meta.v1.APIGroup")
        }
    };
    let forms = if *subject == Subject::Version { &operation::BUILTIN_FORMS[..1] } else { &operation::BUILTIN_FORMS };
    plain_item(Operation::new(&tag, &id).answers(&[200], forms, &schemas.refer(schema)))
}

/// The path of the resources that a group has in a version.
fn list_of_resources(group: &str, version: &str, schemas: &mut Schemas) -> String {
    let group = joined(builtin_group(group));
    let tag = format!("{}_{version}", uncapital(&group));
    let id = format!("get{group}{}APIResources", capital(version));
    let schema = schemas.refer("meta.v1.APIResourceList");
    plain_item(Operation::new(&tag, &id).answers(&[200], &operation::BUILTIN_FORMS, &schema))
}

/// The group of a resource as part of a name: `SharedExampleCom`.
fn group_of(resource: &Resource) -> String {
    let group = &*resource.id.group;
    joined(if resource.is_custom() { group } else { builtin_group(group) })
}

/// A built-in group as it is called in names: `core`, and without the end that most have.
fn builtin_group(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) }
}

fn joined(group: &str) -> String {
    group.split(['.', '-']).map(capital).collect()
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

fn uncapital(word: &str) -> String {
    let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
    first.to_lowercase() + rest
}
