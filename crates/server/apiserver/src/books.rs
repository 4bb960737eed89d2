//! Who owns which field. Every write is booked before the hooks see it, as by the real server; while an object is worked
//! on, its books are kept apart from it and parsed, and put back when it is encoded.

use std::borrow::Cow;
use std::sync::LazyLock;

use concert_api::{Fault, FieldError, FieldErrors, Gvk, Status, Time, meta};
use concert_merge::{
    Author, Endpoint, FieldSet, Force, Live, ManagedFields, ReplicasPath, SingleVersion, Versions, ignored_by_builtin,
    ignored_by_custom,
};
use concert_schema::{Builtin, Schema, convert, part_kind};
use serde_json::Value;

use crate::Server;
use crate::admission::Review;
use crate::incoming::take_managed;
use crate::kinds::{Resource, Version};
use crate::parts;
use crate::target::{Part, Query, Target, check_manager};

/// The manager of what the server itself writes, as a real cluster calls it.
pub(crate) const SERVER: &str = "kube-apiserver";
/// The manager of what its housekeeping writes, as a real cluster calls it.
pub(crate) const HOUSEKEEPING: &str = "kube-controller-manager";
/// The longest name of a subresource in the books.
const SUBRESOURCE_MAX: usize = 256;

static SCALE: LazyLock<Option<&'static Builtin>> = LazyLock::new(|| part_kind(&Gvk::new("autoscaling", "v1", "Scale")));
static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);

/// The kind that all scales have.
pub(crate) fn scale_kind() -> Result<&'static Builtin, Status> {
    SCALE.ok_or_else(|| Status::internal("scales are not known"))
}

/// Makes a tree a scale; gives why that cannot be.
pub(crate) fn restored_scale(scale: &mut Value) -> Option<String> {
    let schema = &(*SCALE)?.schema;
    schema.cut_numbers(scale);
    schema.restore_fault(scale)
}

/// How an object came to be that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// It was read, as it came or as a patch left it.
    Read,
    /// A configuration was merged into it, and it was not read since: a custom resource is still to be pruned.
    Merged,
    /// The same, and that said of the status, which is not there, that it is null.
    WithoutStatus,
}

/// An object as its writer wants it, and whose its fields are then.
#[derive(Clone, Debug)]
pub(crate) struct Booked {
    /// Without `managedFields`.
    pub(crate) value: Value,
    pub(crate) managed: ManagedFields,
    pub(crate) warnings: Vec<String>,
    /// How it came to be.
    pub(crate) made: Made,
    /// It said that something is empty, and some kinds count that as a change.
    pub(crate) is_hollow: bool,
}

impl Target {
    /// Where its writes arrive.
    fn endpoint(&self) -> Endpoint<'_> {
        let version = self.version();
        let subresource = self.part.name();
        let ignored = match version.builtin {
            Some(_) => ignored_by_builtin(&version.gvk, subresource),
            None => ignored_by_custom(version.status, subresource),
        };
        let (gvk, schema, empty) = (&version.gvk, &version.schema, version.empty());
        Endpoint { gvk, schema, subresource, ignored, empty, versions: self }
    }

    /// The kind in one of its versions. Events of the other group are another kind here, as in the real server.
    fn at_version(&self, api_version: &str) -> Option<&Version> {
        let (group, name) = api_version.split_once('/').unwrap_or(("", api_version));
        self.resource.versions.iter().find(|version| version.gvk.version == name && version.gvk.group == group)
    }
}

impl Versions for Target {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        self.at_version(api_version).map(|version| &version.schema)
    }

    fn refused(&self, api_version: &str) -> Option<String> {
        let why = || format!("request to convert CR to an invalid group/version: {api_version}");
        self.resource.is_custom().then(why)
    }

    fn ignored(&self, api_version: &str) -> Option<&FieldSet> {
        let version = self.at_version(api_version)?;
        match version.builtin {
            Some(_) => Some(ignored_by_builtin(&version.gvk, self.part.name())),
            None => (self.part == Part::Status).then(|| ignored_by_custom(true, self.part.name())),
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let version = self.at_version(api_version).ok_or_else(|| format!("no such version: {api_version}"))?;
        let mut object = object.clone();
        match version.builtin {
            Some(builtin) => convert(&mut object, &builtin.gvk),
            None => object["apiVersion"] = api_version.into(),
        }
        Ok(object)
    }
}

/// Books a new object.
pub(crate) fn created(target: &Target, query: &Query, object: &mut Value, now: Time) -> ManagedFields {
    let endpoint = target.endpoint();
    let nobody = ManagedFields::default();
    endpoint.update(Live { object: endpoint.empty, managed: &nobody }, object, query.author(now))
}

/// Books a change that is not an apply. `sent` may speak of `managedFields`, and loses them.
pub(crate) fn updated(target: &Target, live: Live<'_>, sent: &mut Value, author: Author<'_>) -> ManagedFields {
    let endpoint = target.endpoint();
    match target.part {
        // Of these only what they are for counts.
        Part::EphemeralContainers => {
            take_managed(sent);
            let mut part = parts::merged(target.part, sent, live.object, author.now);
            part["metadata"] = live.object["metadata"].clone();
            endpoint.update(live, &mut part, author)
        }
        // Nobody owns where a pod runs.
        Part::Binding => live.managed.clone(),
        _ => endpoint.update(live, sent, author),
    }
}

/// Puts a configuration on top of an object, or of nothing. The result still is to be read like any patched object,
/// unless nothing changed.
pub(crate) fn applied(
    target: &Target,
    query: &Query,
    live: Option<Live<'_>>,
    config: &Value,
    now: Time,
) -> Result<concert_merge::Applied, Status> {
    let endpoint = target.endpoint();
    let nobody = ManagedFields::default();
    let live = live.unwrap_or(Live { object: endpoint.empty, managed: &nobody });
    endpoint.apply(live, config, query.author(now), force(query)).map_err(|error| error.status())
}

fn force(query: &Query) -> Force {
    if query.force == Some(true) { Force::Yes } else { Force::No }
}

/// The scale of an object as it is written: another object, whose owners are those of the number of replicas.
pub(crate) struct ScaleBooks<'a> {
    target: &'a Target,
    live: &'a ManagedFields,
    scale: ManagedFields,
    paths: Vec<(String, Option<FieldSet>)>,
}

impl<'a> ScaleBooks<'a> {
    pub(crate) fn of(target: &'a Target, live: &'a ManagedFields) -> Self {
        let paths = replicas_paths(&target.resource);
        let scale = live.to_scale(&views(&paths));
        Self { target, live, scale, paths }
    }

    /// Books a changed scale; gives what that means for the object.
    pub(crate) fn updated(&self, before: &Value, scale: &mut Value, author: Author<'_>) -> ManagedFields {
        let live = Live { object: before, managed: &self.scale };
        let managed = endpoint_of_scale().map(|endpoint| endpoint.update(live, scale, author));
        self.back(&managed.unwrap_or_default())
    }

    /// Applies a configuration of a scale.
    pub(crate) fn applied(
        &self,
        query: &Query,
        before: &Value,
        config: &Value,
        now: Time,
    ) -> Result<(Value, ManagedFields), Status> {
        let endpoint = endpoint_of_scale().ok_or_else(|| Status::internal("scales are not known"))?;
        let live = Live { object: before, managed: &self.scale };
        let is_scale = meta_kind(config) == endpoint.gvk.to_string();
        if self.target.resource.is_custom() && self.scale.is_empty() && is_scale {
            let what = "failed to create manager for existing fields: failed to convert live object";
            return Err(unconvertible(what, endpoint.gvk, &Value::Null));
        }
        let applied = endpoint.apply(live, config, query.author(now), force(query)).map_err(|error| error.status())?;
        if self.target.resource.is_custom() && applied.changed {
            return Err(unconvertible("failed to convert new object", endpoint.gvk, config));
        }
        Ok((applied.object, self.back(&applied.managed)))
    }

    fn back(&self, scale: &ManagedFields) -> ManagedFields {
        self.live.from_scale(scale, &self.target.version().gvk.api_version(), &views(&self.paths))
    }
}

/// The real server takes the scale of a custom resource for one itself, and cannot make one of it.
fn unconvertible(what: &str, gvk: &Gvk, object: &Value) -> Status {
    let (namespace, name) = (meta::text(object, "namespace"), meta::text(object, "name"));
    let why = format!("request to convert CR to an invalid group/version: {}", gvk.api_version());
    Status::failure(500, "", format!("{what} ({namespace}/{name}; {gvk}) to proper version: {why}"))
}

fn meta_kind(object: &Value) -> String {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    Gvk::new(group, version, text("kind")).to_string()
}

fn endpoint_of_scale() -> Option<Endpoint<'static>> {
    let scale = (*SCALE)?;
    let (gvk, schema, empty) = (&scale.gvk, &scale.schema, scale.zero());
    Some(Endpoint { gvk, schema, subresource: "scale", ignored: &NOTHING, empty, versions: &SingleVersion })
}

/// Where each version has its number of replicas. Workloads know their old versions, too.
fn replicas_paths(resource: &Resource) -> Vec<(String, Option<FieldSet>)> {
    let path = |version: &Version| {
        let steps = version.scale.as_ref()?.spec_replicas.members()?;
        Some(FieldSet::of(&[&steps]))
    };
    let mut paths: Vec<_> = resource.versions.iter().map(|one| (one.gvk.api_version(), path(one))).collect();
    if !resource.is_custom() && *resource.id.group == *"apps" {
        let old = ["apps/v1beta1", "apps/v1beta2"];
        paths.extend(old.map(|version| (version.to_owned(), Some(FieldSet::of(&[&["spec", "replicas"]])))));
    }
    paths
}

fn views(paths: &[(String, Option<FieldSet>)]) -> Vec<ReplicasPath<'_>> {
    paths.iter().map(|(api_version, path)| ReplicasPath { api_version, path: path.as_ref() }).collect()
}

/// What is wrong with the names in the books.
pub(crate) fn check(managed: &ManagedFields) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (place, entry) in managed.entries().iter().enumerate() {
        let field = format!("metadata.managedFields[{place}]");
        errors.extend(check_manager(&entry.manager, &format!("{field}.manager")).err());
        if entry.subresource.len() > SUBRESOURCE_MAX {
            let detail = format!("may not be more than {SUBRESOURCE_MAX} bytes");
            errors.push(FieldError::new(format!("{field}.subresource"), Fault::TooLong, detail));
        }
    }
    errors
}

impl Server {
    /// Lets every hook change an object, and its books.
    pub(crate) async fn mutate_booked(
        &self,
        target: &Target,
        review: &Review<'_>,
        booked: &mut Booked,
    ) -> Result<(), Status> {
        if self.hooks().0.is_empty() {
            return Ok(());
        }
        booked.managed.write_to(&mut booked.value);
        let warnings = self.mutate(target, review, &mut booked.value).await?;
        booked.warnings.extend(warnings);
        let managed = take_managed(&mut booked.value).unwrap_or_default();
        match ManagedFields::parse(&managed) {
            Ok(managed) => booked.managed = managed,
            Err(error) => booked.warnings.push(format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {error}"
            )),
        }
        Ok(())
    }

    /// An object as hooks see it: with its books.
    pub(crate) fn shown_to_hooks<'a>(&self, object: &'a Value, managed: &ManagedFields) -> Cow<'a, Value> {
        if self.hooks().0.is_empty() {
            return Cow::Borrowed(object);
        }
        let mut object = object.clone();
        managed.write_to(&mut object);
        Cow::Owned(object)
    }
}
