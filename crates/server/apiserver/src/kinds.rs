//! The kinds this server knows: built-in ones from data, custom ones from their definitions.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, RwLock};

use bytes::Bytes;
use concert_api::{GroupResource, Gvk, Time};
use concert_schema::{Builtin, Column, Definition, JsonPath, Scale, Schema, Scope, builtins};
use concert_store::Store;
use serde_json::{Value, json};

use crate::beside::{Layout, Parsed};
use crate::scale;

/// One resource: what its paths, its discovery entry and its objects are made from. There is one generic handler;
/// everything in which kinds differ is data here.
#[derive(Debug)]
pub(crate) struct Resource {
    /// How it is named in paths and errors.
    pub(crate) id: GroupResource,
    /// Where its objects are stored: events of both groups are the same objects.
    pub(crate) stored_as: GroupResource,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) versions: Vec<Version>,
    /// The built-in kind in the version that is stored; `None` for custom resources.
    pub(crate) builtin: Option<&'static Builtin>,
    /// Objects written before this revision were written under another schema.
    pub(crate) since: u64,
    /// The definition is being deleted: no new objects.
    pub(crate) terminating: bool,
}

/// One version of a resource.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) gvk: Gvk,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    /// Whether status is a subresource.
    pub(crate) status: bool,
    /// The paths of its scale subresource.
    pub(crate) scale: Option<Scale>,
    /// Fields that field selectors may name, beside those of metadata.
    pub(crate) selectable: Vec<JsonPath>,
    pub(crate) schema: Schema,
    /// The schema of a custom resource as it was written, for OpenAPI: as JSON text, a tree takes twenty times the room.
    pub(crate) openapi: Box<str>,
    columns: Vec<Column>,
    /// The built-in kind; `None` for custom resources.
    pub(crate) builtin: Option<&'static Builtin>,
    /// Warns those who use it.
    pub(crate) deprecated: Option<String>,
    /// An object of a custom resource in which nothing is set.
    empty: Value,
}

impl Resource {
    pub(crate) fn is_custom(&self) -> bool {
        self.builtin.is_none()
    }

    /// Whether its objects can own others, and may be held for their sake when they are deleted. Events cannot.
    pub(crate) fn collects(&self) -> bool {
        self.is_custom() || self.kind != "Event"
    }

    /// Whether a collection of its objects can be deleted at once.
    pub(crate) fn deletes_collections(&self) -> bool {
        self.builtin.is_none_or(|builtin| builtin.can("deletecollection"))
    }

    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.served && version.gvk.version == name)
    }

    /// The version that objects are stored in.
    pub(crate) fn storage(&self) -> &Version {
        self.versions.iter().find(|version| version.storage).unwrap_or(&self.versions[0])
    }

    /// Whether its objects are questions: answered, not kept.
    pub(crate) fn is_answered(&self) -> bool {
        self.builtin.is_some_and(Builtin::is_answered)
    }

    /// One resource from its built-in versions, all of which are of one group and plural.
    pub(crate) fn from_builtin(versions: &[&'static Builtin]) -> Option<Self> {
        let first = versions.first()?;
        let stored = versions.iter().find(|one| one.gvk == one.stored).unwrap_or(first);
        Some(Self {
            id: GroupResource::new(first.gvk.group.as_str(), first.plural.as_str()),
            stored_as: first.stored_as.clone(),
            list_kind: format!("{}List", first.gvk.kind),
            kind: first.gvk.kind.clone(),
            singular: first.singular.clone(),
            short_names: first.short_names.clone(),
            categories: first.categories.clone(),
            namespaced: first.namespaced,
            versions: versions.iter().map(|one| Version::from_builtin(one)).collect(),
            builtin: Some(stored),
            since: 0,
            terminating: false,
        })
    }

    fn from_definition(definition: Definition, since: u64, terminating: bool) -> Self {
        let (group, kind) = (definition.group, definition.names.kind);
        let versions = definition.versions.into_iter().map(|version| Version {
            empty: json!({"apiVersion": format!("{group}/{}", version.name), "kind": kind}),
            gvk: Gvk::new(group.as_str(), version.name, kind.as_str()),
            served: version.served,
            storage: version.storage,
            status: version.has_status,
            scale: version.scale,
            selectable: version.selectable,
            schema: version.schema,
            openapi: version.openapi.to_string().into(),
            columns: version.columns,
            builtin: None,
            deprecated: version.deprecation_warning,
        });
        let id = GroupResource::new(group.as_str(), definition.names.plural);
        Self {
            stored_as: id.clone(),
            id,
            list_kind: definition.names.list_kind,
            singular: definition.names.singular,
            short_names: definition.names.short_names,
            categories: definition.names.categories,
            namespaced: definition.scope == Scope::Namespaced,
            versions: versions.collect(),
            kind,
            builtin: None,
            since,
            terminating,
        }
    }
}

impl Version {
    fn from_builtin(builtin: &'static Builtin) -> Self {
        Self {
            gvk: builtin.gvk.clone(),
            served: true,
            storage: builtin.gvk == builtin.stored,
            status: builtin.has_status(),
            scale: builtin.part("scale").map(|_| scale::of_workloads()),
            selectable: Vec::new(),
            schema: builtin.schema.clone(),
            openapi: Box::default(),
            empty: Value::Null,
            columns: Vec::new(),
            builtin: Some(builtin),
            deprecated: deprecated(&builtin.gvk).map(str::to_owned),
        }
    }

    /// How the JSON of its objects begins.
    pub(crate) fn layout(&self) -> Layout {
        if self.builtin.is_some() { Layout::Struct } else { Layout::Map }
    }

    /// The columns of its table.
    pub(crate) fn columns(&self) -> &[Column] {
        self.builtin.map_or(&self.columns, Builtin::columns)
    }

    /// The cells of an object in its table.
    pub(crate) fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        match self.builtin {
            Some(builtin) => builtin.cells(object, now),
            None => self.columns.iter().map(|column| column.cell(object, now)).collect(),
        }
    }

    /// An object in which nothing is set.
    pub(crate) fn empty(&self) -> &Value {
        self.builtin.map_or(&self.empty, Builtin::zero)
    }

    /// The kind its objects are stored as, if that is another one.
    pub(crate) fn stored(&self) -> Option<&'static Gvk> {
        self.builtin.map(|builtin| &builtin.stored).filter(|stored| **stored != self.gvk)
    }
}

/// What those are told who use a built-in kind that has had its time.
fn deprecated(gvk: &Gvk) -> Option<&'static str> {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Endpoints") => Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// The built-in resources, made once: they are the same for every server.
static BUILTINS: LazyLock<Vec<Arc<Resource>>> = LazyLock::new(|| {
    let mut versions: BTreeMap<(&str, &str), Vec<&'static Builtin>> = BTreeMap::new();
    for builtin in builtins() {
        versions.entry((builtin.gvk.group.as_str(), builtin.plural.as_str())).or_default().push(builtin);
    }
    versions.values().filter_map(|versions| Resource::from_builtin(versions).map(Arc::new)).collect()
});

/// The resource of definitions.
pub(crate) fn definitions() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// The resource whose objects a definition defines, by the definition's name `plural.group`.
pub(crate) fn instances_of(definition: &str) -> GroupResource {
    let (plural, group) = definition.split_once('.').unwrap_or((definition, ""));
    GroupResource::new(group, plural)
}

/// The resource of roles of the whole cluster.
pub(crate) fn cluster_roles() -> GroupResource {
    GroupResource::new("rbac.authorization.k8s.io", "clusterroles")
}

/// The resource of namespaces.
pub(crate) fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// Group and version, and the resources served there, each with the place of that version among its versions.
pub(crate) type GroupVersions = BTreeMap<(String, String), Vec<(Arc<Resource>, usize)>>;

/// All kinds at one moment. Never changed: a changed definition makes a new one.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    resources: BTreeMap<GroupResource, Arc<Resource>>,
    /// Revisions of the definitions this was made from.
    made_from: BTreeMap<String, u64>,
    pub(crate) discovery: OnceLock<crate::discovery::Documents>,
    pub(crate) openapi: RwLock<BTreeMap<String, Bytes>>,
}

impl Kinds {
    pub(crate) fn get(&self, group: &str, resource: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&GroupResource::new(group, resource))
    }

    pub(crate) fn of_resource(&self, id: &GroupResource) -> Option<&Arc<Resource>> {
        self.resources.get(id)
    }

    /// The resource that serves this apiVersion and kind.
    pub(crate) fn of_kind(&self, gvk: &Gvk) -> Option<&Arc<Resource>> {
        let serves = |one: &&Arc<Resource>| one.version(&gvk.version).is_some_and(|version| version.gvk == *gvk);
        self.resources.values().find(serves)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Served group-versions and their resources, in order.
    pub(crate) fn group_versions(&self) -> GroupVersions {
        let mut found = GroupVersions::new();
        for resource in self.resources.values() {
            for (place, version) in resource.versions.iter().enumerate().filter(|(_, version)| version.served) {
                let name = (version.gvk.group.clone(), version.gvk.version.clone());
                found.entry(name).or_default().push((Arc::clone(resource), place));
            }
        }
        found
    }
}

/// The current kinds, renewed from the stored definitions.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    current: RwLock<Arc<Kinds>>,
    /// Held by who renews them: that takes a while, and readers do not wait for it.
    renewing: Mutex<()>,
}

impl Registry {
    /// The kinds of a fork: shared until one of both changes a definition.
    pub(crate) fn fork(&self) -> Self {
        Self { current: RwLock::new(self.current()), renewing: Mutex::default() }
    }

    pub(crate) fn current(&self) -> Arc<Kinds> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings the kinds up to the stored definitions; compiles only what changed.
    pub(crate) fn refresh(&self, store: &Store<Parsed>) -> Arc<Kinds> {
        let _renewing = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        let (current, snapshot) = (self.current(), store.snapshot());
        let stored: BTreeMap<String, u64> = snapshot
            .range(&definitions(), None, None)
            .map(|(key, entry)| (key.name.to_string(), entry.revision))
            .collect();
        if current.made_from == stored && !current.resources.is_empty() {
            return current;
        }
        let mut resources = BTreeMap::new();
        for (key, entry) in snapshot.range(&definitions(), None, None) {
            let before = current.made_from.get(&*key.name).filter(|revision| **revision == entry.revision);
            let kept = before.and_then(|_| current.of_resource(&instances_of(&key.name)));
            let resource = kept.cloned().or_else(|| compile(entry, &current));
            resources.extend(resource.map(|resource| (resource.id.clone(), resource)));
        }
        resources.extend(BUILTINS.iter().map(|resource| (resource.id.clone(), Arc::clone(resource))));
        let renewed = Arc::new(Kinds { resources, made_from: stored, ..Kinds::default() });
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&renewed);
        renewed
    }
}

/// Makes a resource from a stored definition; `None` if it is not served (not established, or not readable).
fn compile(entry: &crate::beside::Stored, before: &Kinds) -> Option<Arc<Resource>> {
    let value: Value = serde_json::from_slice(&entry.bytes).ok()?;
    if !concert_api::Condition::is_true(&value, "Established") {
        return None;
    }
    let definition = Definition::from_value(&value)
        .inspect_err(|errors| tracing::error!(?errors, "a stored definition cannot be compiled"))
        .ok()?;
    let id = GroupResource::new(definition.group.as_str(), definition.names.plural.as_str());
    // A write that left the versions as they were (status, labels) does not make stored objects old.
    let same = before.resources.get(&id).filter(|old| {
        old.versions.len() == definition.versions.len()
            && old.versions.iter().zip(&definition.versions).all(|(a, b)| {
                a.gvk.version == b.name
                    && *a.openapi == b.openapi.to_string()
                    && (a.storage, a.status) == (b.storage, b.has_status)
            })
    });
    let since = same.map_or(entry.revision, |old| old.since);
    let terminating = concert_api::meta::is_deleting(&value);
    Some(Arc::new(Resource::from_definition(definition, since, terminating)))
}
