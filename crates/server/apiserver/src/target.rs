//! What a request is about: its path and its query, read once.

use std::borrow::Cow;
use std::sync::Arc;

use concert_api::{
    Fault, FieldError, FieldErrors, FieldSelector, Gvk, LabelSelector, ObjectKey, Status, Time, is_printable, names,
    quoted,
};
use concert_merge::Author;
use concert_schema::Builtin;
use concert_store::Key;
use http::{HeaderMap, Method, header};
use serde_json::Value;

use crate::auth::User;
use crate::kinds::{Kinds, Resource, Version};

/// Where the whole store can be had as one file, while the server runs.
pub const BACKUP_PATH: &str = "/concert/backup";
/// Longer names of field managers are refused.
const MANAGER_MAX: usize = 128;

/// Where a path leads.
#[derive(Debug)]
pub(crate) enum Route<'a> {
    /// `/api`, `/apis`, `/apis/G`, `/apis/G/V`: the segments.
    Discovery(Vec<&'a str>),
    /// `/openapi/v3`, or one document of it.
    OpenApi(Option<&'a str>),
    /// `/openapi/v2`: there for old clients, without content.
    OpenApiV2,
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz`, and single checks below: which.
    Health(&'a str),
    /// `/`: what paths there are.
    Index,
    /// [`BACKUP_PATH`].
    Backup,
    /// A resource, a namespace's resources, or one object.
    Resource(Path<'a>),
}

/// A resource path, not yet checked against the kinds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Path<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) subresource: Option<&'a str>,
    /// The path says that it is watched, as was the way once.
    pub(crate) watched: bool,
    /// Whether it goes on behind the subresource.
    pub(crate) deeper: bool,
}

impl Path<'_> {
    /// The service account whose token is asked for.
    pub(crate) fn token_of(&self) -> Option<ObjectKey> {
        let is_token = (self.group, self.version, self.resource) == ("", "v1", "serviceaccounts")
            && self.subresource == Some("token");
        let (namespace, name) = (self.namespace?, self.name?);
        is_token.then(|| ObjectKey::new(namespace, name))
    }
}

/// Reads a path without escapes (see [`plain`]); `None` leads nowhere. Slashes at its end do not count.
pub(crate) fn route(path: &str) -> Option<Route<'_>> {
    let relative = path.strip_prefix('/').filter(|rest| !rest.starts_with('/'))?;
    let segments: Vec<&str> = relative.trim_end_matches('/').split('/').collect();
    match segments.as_slice() {
        ["version"] => Some(Route::Version),
        ["concert", "backup"] => Some(Route::Backup),
        ["healthz" | "livez" | "readyz", ..] => Some(Route::Health(relative.trim_end_matches('/'))),
        [""] => Some(Route::Index),
        ["openapi", "v2"] => Some(Route::OpenApiV2),
        ["openapi", "v3"] => Some(Route::OpenApi(None)),
        ["openapi", "v3", ..] => relative.strip_prefix("openapi/v3/").map(|rest| Route::OpenApi(Some(rest))),
        ["api"] | ["api", _] | ["apis"] | ["apis", _] | ["apis", _, _] if path.ends_with("//") => None,
        ["api"] | ["api", _] | ["apis"] | ["apis", _] | ["apis", _, _] => Some(Route::Discovery(segments)),
        ["api", version, "watch", rest @ ..] if !rest.is_empty() => {
            watched_path("", version, rest).map(Route::Resource)
        }
        ["apis", group, version, "watch", rest @ ..] if !rest.is_empty() => {
            watched_path(group, version, rest).map(Route::Resource)
        }
        ["api", version, rest @ ..] => resource_path("", version, rest).map(Route::Resource),
        ["apis", group, version, rest @ ..] => resource_path(group, version, rest).map(Route::Resource),
        _ => None,
    }
}

fn watched_path<'a>(group: &'a str, version: &'a str, rest: &[&'a str]) -> Option<Path<'a>> {
    let path = resource_path(group, version, rest)?;
    path.subresource.is_none().then_some(Path { watched: true, ..path })
}

fn resource_path<'a>(group: &'a str, version: &'a str, rest: &[&'a str]) -> Option<Path<'a>> {
    let path = |resource, namespace, name, subresource| {
        Some(Path { group, version, resource, namespace, name, subresource, watched: false, deeper: false })
    };
    let deeper = |path: Path<'a>| Path { deeper: true, ..path };
    match *rest {
        // A namespace itself, or one of its own subresources.
        ["namespaces", name] if group.is_empty() => path("namespaces", None, Some(name), None),
        ["namespaces", name, sub @ ("status" | "finalize")] if group.is_empty() => {
            path("namespaces", None, Some(name), Some(sub))
        }
        ["namespaces", "", resource] => path(resource, None, None, None),
        ["namespaces", namespace, resource] => path(resource, Some(namespace), None, None),
        ["namespaces", namespace, resource, name] => path(resource, Some(namespace), Some(name), None),
        ["namespaces", namespace, resource, name, sub] => path(resource, Some(namespace), Some(name), Some(sub)),
        ["namespaces", _, _, _, _, ..] => resource_path(group, version, &rest[..5]).map(deeper),
        [resource] => path(resource, None, None, None),
        [resource, name] => path(resource, None, Some(name), None),
        [resource, name, sub] => path(resource, None, Some(name), Some(sub)),
        [_, _, _, ..] => resource_path(group, version, &rest[..3]).map(deeper),
        [] => None,
    }
}

/// A path without its percent escapes: what they mean counts, even a slash. `None` if they mean nothing, or no text.
pub(crate) fn plain(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(Cow::Borrowed(path));
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let (hex, tail) = tail.split_at_checked(2)?;
            let digits = hex.iter().all(u8::is_ascii_hexdigit).then(|| std::str::from_utf8(hex).ok())??;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// A path that leads to a resource we have.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    version: usize,
    /// `None`: all namespaces, or cluster-scoped.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) part: Part,
}

/// Which part of an object a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    Status,
    /// Its number of replicas, as an `autoscaling/v1` Scale.
    Scale,
    /// `spec.finalizers` of a namespace.
    Finalize,
    /// The containers that are added to a running pod.
    EphemeralContainers,
    /// What the containers of a pod may use.
    Resize,
    /// Whether a certificate is granted.
    Approval,
    /// Puts a pod on a node.
    Binding,
    /// Removes a pod, if that is allowed now.
    Eviction,
    /// What only a node could answer: logs, commands, forwarded requests.
    Node,
}

impl Part {
    /// The part that a built-in kind has under a name.
    fn of(builtin: &Builtin, name: &str) -> Option<Self> {
        builtin.part(name)?;
        match name {
            "status" => Some(Self::Status),
            "scale" => Some(Self::Scale),
            "finalize" => Some(Self::Finalize),
            "ephemeralcontainers" => Some(Self::EphemeralContainers),
            "resize" => Some(Self::Resize),
            "approval" => Some(Self::Approval),
            "binding" => Some(Self::Binding),
            "eviction" => Some(Self::Eviction),
            "attach" | "exec" | "log" | "portforward" | "proxy" => Some(Self::Node),
            _ => None,
        }
    }
}

impl Part {
    /// As in paths; empty for the whole object.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Approval => "approval",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Node => "proxy",
        }
    }
}

impl Target {
    /// Finds the resource; `None` leads nowhere. What stands behind a subresource is not looked at for custom resources.
    pub(crate) fn find(kinds: &Kinds, path: &Path<'_>) -> Option<Self> {
        if path.name == Some("") || path.namespace.is_some_and(|namespace| namespace.contains('\0')) {
            return None;
        }
        let resource = kinds.get(path.group, path.resource).filter(|one| !path.deeper || one.is_custom())?;
        let named = |version: &Version| version.served && version.gvk.version == path.version;
        let version = resource.versions.iter().position(named)?;
        let scope_fits = if resource.namespaced {
            path.namespace.is_some() || path.name.is_none()
        } else {
            path.namespace.is_none()
        };
        let part = match (path.subresource, resource.versions[version].builtin) {
            (None, _) => Part::Whole,
            (Some(name), Some(builtin)) => Part::of(builtin, name)?,
            (Some("status"), None) if resource.versions[version].status => Part::Status,
            (Some("scale"), None) if resource.versions[version].scale.is_some() => Part::Scale,
            (Some(_), None) => return None,
        };
        scope_fits.then(|| Self {
            resource: Arc::clone(resource),
            version,
            namespace: path.namespace.map(str::to_owned),
            name: path.name.map(str::to_owned),
            part,
        })
    }

    pub(crate) fn version(&self) -> &Version {
        &self.resource.versions[self.version]
    }

    /// The kind that is sent there and answered from there.
    pub(crate) fn gvk(&self) -> &Gvk {
        let name = match self.part {
            Part::Scale => "scale",
            Part::Binding => "binding",
            Part::Eviction => "eviction",
            _ => return &self.version().gvk,
        };
        let part = self.version().builtin.and_then(|builtin| builtin.part(name));
        part.map_or(&self.version().gvk, |part| &part.gvk)
    }

    /// The group that errors about an object name: events are those of the core group, whichever they are asked from.
    pub(crate) fn group_of_errors(&self) -> &str {
        let id = &self.resource.id;
        if *id.group == *"events.k8s.io" { "" } else { &id.group }
    }

    /// All objects of a namespace, or of the cluster if they live there.
    pub(crate) fn is_collection(&self) -> bool {
        self.name.is_none() && (!self.resource.namespaced || self.namespace.is_some())
    }

    /// Whether it may be asked so: only reads go across all namespaces.
    pub(crate) fn may_take(&self, method: &Method) -> bool {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        reads || !self.resource.namespaced || self.namespace.is_some()
    }

    /// The stored key of the object with this name.
    pub(crate) fn key(&self, name: &str) -> Key {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        Key { resource: self.resource.stored_as.clone(), object: ObjectKey::new(namespace, name) }
    }

    /// The stored key of the object that the path names.
    pub(crate) fn named_key(&self) -> Result<Key, Status> {
        let name = self.name.as_deref().unwrap_or_default();
        let faults = names::path_segment_faults(name);
        if faults.is_empty() {
            return match self.namespace.as_deref() {
                Some("") => Err(Status::bad_request("Namespace parameter required.")),
                // What has no place in a key is nowhere.
                _ if name.contains('\0') => Err(Status::not_found(&self.resource.id, name)),
                _ => Ok(self.key(name)),
            };
        }
        Err(Status::bad_request(format!("Name parameter invalid: {}: {}", quoted(name), faults.join(";"))))
    }

    /// The same resource and version, at another object.
    pub(crate) fn at(&self, object: &ObjectKey) -> Self {
        Self {
            namespace: (!object.namespace.is_empty()).then(|| object.namespace.to_string()),
            name: Some(object.name.to_string()),
            ..self.clone()
        }
    }

    /// The same object, at one of its parts.
    pub(crate) fn part(self, part: Part) -> Self {
        Self { part, ..self }
    }

    /// The same object in the version of this place.
    pub(crate) fn in_version(self, gvk: &Gvk) -> Self {
        let version = self.resource.versions.iter().position(|version| version.gvk == *gvk).unwrap_or(self.version);
        Self { version, ..self }
    }

    /// A target in the storage version, for what the server does itself.
    pub(crate) fn stored(resource: &Arc<Resource>, object: &ObjectKey) -> Self {
        let version = resource.versions.iter().position(|version| version.storage).unwrap_or(0);
        Self { resource: Arc::clone(resource), version, namespace: None, name: None, part: Part::Whole }.at(object)
    }
}

/// How strictly unknown and duplicate fields are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// The query of a request, and who asks.
#[derive(Debug, Default)]
pub(crate) struct Query {
    /// `None`: this process itself.
    pub(crate) caller: Option<Arc<User>>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) watch: bool,
    /// The path asks for a watch, if it has a name of one object.
    pub(crate) watched_one: bool,
    /// Whether a patch is asked to win conflicts, or not to.
    pub(crate) force: Option<bool>,
    /// `fieldManager`: whose fields a write makes.
    pub(crate) field_manager: String,
    /// Whose they are unless that is said: the program that sends the request.
    pub(crate) program: String,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
    pub(crate) resource_version: String,
    pub(crate) version_match: String,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) field_validation: FieldValidation,
    pub(crate) include_object: String,
    pub(crate) dry_run: bool,
    /// `propagationPolicy` and `orphanDependents`: what a delete without a body asks for.
    pub(crate) propagation: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    /// `gracePeriodSeconds` was said.
    pub(crate) grace: bool,
    pub(crate) grace_seconds: Option<i64>,
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`.
    pub(crate) unreadable: bool,
}

impl Query {
    pub(crate) fn parse(method: &Method, query: &str) -> Result<Self, Status> {
        let bad = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
        let mut parsed = Self::default();
        let mut dry_run: Vec<String> = Vec::new();
        let mut seen = Vec::new();
        // Only these have options of lists.
        let lists = matches!(*method, Method::GET | Method::HEAD | Method::DELETE);
        let mut timeout = String::new();
        let (mut manager, mut validation) = (None, None);
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            // The first of several counts, but for the one that is a list.
            if key != "dryRun" && seen.contains(&key) {
                continue;
            }
            seen.push(key.clone());
            match &*key {
                "labelSelector" => parsed.labels = LabelSelector::parse(&value).map_err(|error| bad(&error))?,
                "fieldSelector" => parsed.fields = FieldSelector::parse(&value).map_err(|error| bad(&error))?,
                "watch" => parsed.watch = is_true(&value),
                "allowWatchBookmarks" => parsed.bookmarks = is_true(&value),
                "sendInitialEvents" => parsed.initial_events = Some(is_true(&value)),
                "resourceVersion" => parsed.resource_version = value.into_owned(),
                "resourceVersionMatch" => parsed.version_match = value.into_owned(),
                "limit" if lists => parsed.limit = usize::try_from(integer(&value)?).unwrap_or(0),
                "continue" => parsed.continue_token = value.into_owned(),
                "timeoutSeconds" if lists => {
                    parsed.timeout_seconds = u64::try_from(integer(&value)?).ok().filter(|seconds| *seconds > 0);
                }
                "fieldValidation" => match field_validation(&value) {
                    Ok(wanted) => parsed.field_validation = wanted,
                    Err(error) => validation = Some(error),
                },
                "includeObject" => parsed.include_object = value.into_owned(),
                "timeout" => timeout = value.into_owned(),
                "dryRun" => dry_run.push(value.into_owned()),
                "fieldManager" if matches!(*method, Method::POST | Method::PUT | Method::PATCH) => {
                    manager = check_manager(&value, "fieldManager").err();
                    parsed.field_manager = value.into_owned();
                }
                "gracePeriodSeconds" if method == Method::DELETE => {
                    parsed.grace_seconds = Some(integer(&value)?);
                    parsed.grace = true;
                }
                "ignoreStoreReadErrorWithClusterBreakingPotential" => parsed.unreadable = is_true(&value),
                "force" => parsed.force = Some(is_true(&value)),
                "propagationPolicy" => parsed.propagation = Some(value.into_owned()),
                "orphanDependents" => parsed.orphan_dependents = Some(is_true(&value)),
                _ => {}
            }
        }
        parsed.dry_run = !dry_run.is_empty();
        // All that is wrong is told at once.
        let errors: FieldErrors = [manager, dry_fault(dry_run), validation].into_iter().flatten().collect();
        if !errors.is_empty() {
            return Err(invalid(method, &errors));
        }
        if !parsed.watch {
            check_timeout(&timeout)?;
        }
        Ok(parsed)
    }

    /// What the server does itself, in the name of one of its parts.
    pub(crate) fn own(manager: &str) -> Self {
        Self { field_manager: manager.to_owned(), ..Self::default() }
    }

    /// Whose fields a write makes.
    pub(crate) fn author(&self, now: Time) -> Author<'_> {
        let manager = if self.field_manager.is_empty() { &self.program } else { &self.field_manager };
        Author { manager, now }
    }

    /// Who applies says their name.
    pub(crate) fn require_manager(&self) -> Result<(), Status> {
        if !self.field_manager.is_empty() {
            return Ok(());
        }
        Err(invalid(&Method::PATCH, &[FieldError::required("fieldManager", "is required for apply patch")]))
    }

    /// Only a server-side apply can be forced.
    pub(crate) fn refuse_force(&self) -> Result<(), Status> {
        if self.force.is_none() {
            return Ok(());
        }
        let detail = "may not be specified for non-apply patch";
        Err(invalid(&Method::PATCH, &[FieldError::forbidden("force", detail)]))
    }
}

/// Whatever is not plainly no is yes, as in Go.
pub(crate) fn is_true(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0")
}

/// How long a request may take can be said, if it is a time.
fn check_timeout(text: &str) -> Result<(), Status> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if text.is_empty() || unsigned == "0" || concert_api::go_duration(unsigned).is_some() {
        return Ok(());
    }
    let is_number = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = if is_number { "missing unit in" } else { "invalid" };
    let text = quoted(text);
    Err(Status::bad_request(format!("invalid timeout specified in the request URL - time: {wrong} duration {text}")))
}

/// An integer as Go reads it.
fn integer(text: &str) -> Result<i64, Status> {
    text.parse().map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
}

/// Who manages fields has a short name that can be printed.
pub(crate) fn check_manager(name: &str, field: &str) -> Result<(), FieldError> {
    if name.len() > MANAGER_MAX {
        let detail = format!("may not be more than {MANAGER_MAX} bytes");
        return Err(FieldError::new(field, Fault::TooLong, detail));
    }
    match name.char_indices().find(|(_, letter)| !is_printable(*letter)) {
        Some((place, letter)) => {
            let detail = format!("invalid character U+{:04X} (at position {place})", u32::from(letter));
            Err(FieldError::invalid(field, name, detail))
        }
        None => Ok(()),
    }
}

/// The name of the program that sends a request: the beginning of its `User-Agent`, as far as it can be a manager's.
pub(crate) fn program(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let agent = agent.unwrap_or_default();
    let mut name = String::new();
    for letter in agent.split('/').next().unwrap_or_default().chars().filter(|letter| is_printable(*letter)) {
        if name.len() + letter.len_utf8() > MANAGER_MAX {
            break;
        }
        name.push(letter);
    }
    name
}

/// An option of a write that is none of the known ones.
fn unsupported(field: &str, value: Value, known: &[&str]) -> FieldError {
    let known = known.iter().map(ToString::to_string).collect();
    FieldError::new(field, Fault::NotSupported(value, known), "")
}

fn invalid(method: &Method, errors: &[FieldError]) -> Status {
    let kind = match *method {
        Method::POST => "CreateOptions",
        Method::PUT => "UpdateOptions",
        Method::DELETE => "DeleteOptions",
        _ => "PatchOptions",
    };
    Status::invalid(&Gvk::new("meta.k8s.io", "", kind), "", errors)
}

fn field_validation(value: &str) -> Result<FieldValidation, FieldError> {
    match value {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => Err(unsupported("fieldValidation", other.into(), &["", "Ignore", "Strict", "Warn"])),
    }
}

fn dry_fault(values: Vec<String>) -> Option<FieldError> {
    let is_known = values.iter().all(|value| value == "All");
    (!is_known).then(|| unsupported("dryRun", values.into(), &["All"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        match plain(path).as_deref().and_then(route) {
            Some(Route::Resource(path)) => format!(
                "{}/{}/{} {:?} {:?} {:?}",
                path.group, path.version, path.resource, path.namespace, path.name, path.subresource
            ),
            Some(other) => format!("{other:?}"),
            None => "nowhere".to_owned(),
        }
    }

    #[test]
    fn paths_lead_where_the_real_server_leads_them() {
        for (path, expected) in [
            ("/api/v1/namespaces", "/v1/namespaces None None None"),
            ("/api/v1/namespaces/a", "/v1/namespaces None Some(\"a\") None"),
            ("/api/v1/namespaces/a/status", "/v1/namespaces None Some(\"a\") Some(\"status\")"),
            ("/api/v1/namespaces/a/configmaps", "/v1/configmaps Some(\"a\") None None"),
            ("/api/v1/namespaces/a/configmaps/b", "/v1/configmaps Some(\"a\") Some(\"b\") None"),
            ("/apis/g/v1/files", "g/v1/files None None None"),
            ("/apis/g/v1/files/a/status", "g/v1/files None Some(\"a\") Some(\"status\")"),
            ("/apis/g/v1/namespaces/n/files/a%3Ab", "g/v1/files Some(\"n\") Some(\"a:b\") None"),
            ("/api/v1/watch/namespaces/a/secrets/b", "/v1/secrets Some(\"a\") Some(\"b\") None"),
            ("/api/v1/watch/namespaces/a/status", "nowhere"),
            ("/apis/g/v1/watch/files", "g/v1/files None None None"),
            ("/apis/g/v1/files/a%2Fb", "g/v1/files None Some(\"a\") Some(\"b\")"),
            ("/apis/g/v1/files%2Fa/", "g/v1/files None Some(\"a\") None"),
            ("/apis/g/v1/files/%zz", "nowhere"),
            ("/apis/g/v1/files/%+1", "nowhere"),
            ("/apis/g/v1/files/%ff", "nowhere"),
            ("/api/v1/namespaces//configmaps", "/v1/configmaps None None None"),
            ("/api/v1/namespaces/a//configmaps", "/v1/ Some(\"a\") Some(\"configmaps\") None"),
            ("//api", "nowhere"),
            ("/apis//", "nowhere"),
            ("/api/", "Discovery([\"api\"])"),
            ("/apis/g/v1/namespaces/n/files/a/status/x", "g/v1/files Some(\"n\") Some(\"a\") Some(\"status\")"),
            ("/apis/g/v1/files/a/b/c/d", "g/v1/files None Some(\"a\") Some(\"b\")"),
            ("/readyz/ping", "Health(\"readyz/ping\")"),
            ("/", "Index"),
            ("/openapi/v3/apis/g/v1", "OpenApi(Some(\"apis/g/v1\"))"),
        ] {
            assert_eq!(shown(path), expected, "{path}");
        }
    }
}
