//! The kinds that need no definition, as data, and the few rules that schemas cannot say.

mod config_map;
mod event;
mod lease;
mod namespace;
mod rbac;
mod secret;

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use concert_api::{FieldErrors, GroupResource, Gvk, Time, names};
use serde_json::Value;

use crate::column::age_of;
use crate::schema::Definitions;
use crate::{Column, Schema, crd};

pub use event::convert_event;

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Written by `xtask/reference/builtin.py` from what the real server says.
static SOURCE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("builtin.json")).expect("builtin.json is checked by a test"));
static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| Definitions::build(definitions()));
static BUILTINS: LazyLock<Vec<Builtin>> = LazyLock::new(|| ROWS.iter().map(Builtin::new).collect());
static TOKEN_REQUEST: LazyLock<Builtin> = LazyLock::new(|| Builtin::new(&TOKEN_REQUEST_ROW));
static META: LazyLock<Schema> =
    LazyLock::new(|| DEFINITIONS.get(METADATA).cloned().expect("builtin.json has metadata"));

/// Which names the objects of a kind may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain: most kinds.
    Subdomain,
    /// A DNS label.
    Label,
    /// Whatever can stand in a path.
    PathSegment,
}

impl NameRule {
    /// What is wrong with a name, in the words of the real server.
    #[must_use]
    pub fn faults(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => names::subdomain_faults(name),
            Self::Label if name.contains('.') => vec!["must not contain dots".to_owned()],
            Self::Label => names::label_faults(name),
            Self::PathSegment => names::path_segment_faults(name),
        }
    }

    /// What is wrong with a `generateName`, as far as the real server looks: a dash at its end stands for more to come,
    /// and hides the character before it, too.
    #[must_use]
    pub fn prefix_faults(self, prefix: &str) -> Vec<String> {
        if self == Self::PathSegment {
            return names::path_segment_prefix_faults(prefix);
        }
        let mut letters: Vec<char> = prefix.chars().collect();
        if letters.len() > 1 && letters.last() == Some(&'-') {
            letters.truncate(letters.len() - 2);
            letters.push('a');
        }
        self.faults(&letters.into_iter().collect::<String>())
    }
}

/// A kind that needs no definition.
#[derive(Debug)]
pub struct Builtin {
    /// Group, version and kind.
    pub gvk: Gvk,
    /// As in paths.
    pub plural: &'static str,
    /// As people say it.
    pub singular: &'static str,
    /// Abbreviations.
    pub short_names: &'static [&'static str],
    /// Groups of resources it can be asked for with.
    pub categories: &'static [&'static str],
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether it has a status subresource.
    pub has_status: bool,
    /// Whether a collection of its objects can be deleted at once.
    pub deletes_collections: bool,
    /// Which names its objects may have.
    pub name_rule: NameRule,
    /// Whether an update may come without a resourceVersion.
    pub unconditional_update: bool,
    /// Whether an update of what does not exist creates it.
    pub create_on_update: bool,
    /// Whether its objects are questions: answered when they are created, and not kept.
    pub answered: bool,
    /// Whether a deletion is answered with the object that is gone.
    pub returned: bool,
    /// Where its objects are stored: events of both groups are the same objects.
    pub stored_as: GroupResource,
    /// The name of its schema among the [`definitions`].
    pub definition: &'static str,
    /// Its schema.
    pub schema: Schema,
    /// Its columns, the first of which is not always the name.
    pub columns: Vec<Column>,
    rules: &'static Rules,
}

/// What schemas cannot say.
#[derive(Debug)]
struct Rules {
    prepare: fn(&mut Value, Option<&Value>),
    check: fn(&Value, Option<&Value>) -> FieldErrors,
}

/// A line of the table of built-in kinds.
struct Row {
    gvk: (&'static str, &'static str, &'static str),
    plural: &'static str,
    singular: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    has_status: bool,
    name_rule: NameRule,
    unconditional_update: bool,
    create_on_update: bool,
    answered: bool,
    returned: bool,
    stored_group: &'static str,
    definition: &'static str,
    columns: fn() -> Vec<Column>,
    rules: Rules,
}

const PLAIN: Rules = Rules { prepare: |_, _| {}, check: |_, _| FieldErrors::new() };

const DEFAULT: Row = Row {
    gvk: ("", "v1", ""),
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    has_status: false,
    name_rule: NameRule::Subdomain,
    unconditional_update: true,
    create_on_update: false,
    answered: false,
    returned: false,
    stored_group: "",
    definition: "",
    columns: plain_columns,
    rules: PLAIN,
};

/// What the kinds of roles and bindings share.
const ROLE: Row = Row {
    gvk: ("rbac.authorization.k8s.io", "v1", ""),
    name_rule: NameRule::PathSegment,
    create_on_update: true,
    stored_group: "rbac.authorization.k8s.io",
    ..DEFAULT
};

/// What the kinds that are answered share.
const REVIEW: Row = Row { namespaced: false, answered: true, stored_group: "authorization.k8s.io", ..DEFAULT };

/// A subresource of service accounts, and so no row of the table.
static TOKEN_REQUEST_ROW: Row = Row {
    gvk: ("authentication.k8s.io", "v1", "TokenRequest"),
    namespaced: true,
    definition: "io.k8s.api.authentication.v1.TokenRequest",
    ..REVIEW
};

static ROWS: [Row; 18] = [
    Row {
        gvk: ("", "v1", "Namespace"),
        plural: "namespaces",
        singular: "namespace",
        short_names: &["ns"],
        namespaced: false,
        has_status: true,
        name_rule: NameRule::Label,
        definition: "io.k8s.api.core.v1.Namespace",
        columns: namespace::columns,
        rules: Rules { prepare: namespace::prepare, check: namespace::check },
        ..DEFAULT
    },
    Row {
        gvk: ("", "v1", "ConfigMap"),
        plural: "configmaps",
        singular: "configmap",
        short_names: &["cm"],
        definition: "io.k8s.api.core.v1.ConfigMap",
        columns: config_map::columns,
        rules: Rules { prepare: config_map::prepare, check: config_map::check },
        ..DEFAULT
    },
    Row {
        gvk: ("", "v1", "Secret"),
        plural: "secrets",
        singular: "secret",
        definition: "io.k8s.api.core.v1.Secret",
        columns: secret::columns,
        rules: Rules { prepare: secret::prepare, check: secret::check },
        ..DEFAULT
    },
    Row {
        gvk: ("", "v1", "ServiceAccount"),
        plural: "serviceaccounts",
        singular: "serviceaccount",
        short_names: &["sa"],
        returned: true,
        definition: "io.k8s.api.core.v1.ServiceAccount",
        ..DEFAULT
    },
    Row {
        gvk: ("", "v1", "Event"),
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        name_rule: NameRule::PathSegment,
        create_on_update: true,
        definition: "io.k8s.api.core.v1.Event",
        columns: event::columns,
        rules: Rules { prepare: event::prepare_core, check: event::check_core },
        ..DEFAULT
    },
    Row {
        gvk: ("events.k8s.io", "v1", "Event"),
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        create_on_update: true,
        definition: "io.k8s.api.events.v1.Event",
        columns: event::columns,
        rules: Rules { prepare: event::prepare_events, check: event::check_events },
        ..DEFAULT
    },
    Row {
        gvk: ("coordination.k8s.io", "v1", "Lease"),
        plural: "leases",
        singular: "lease",
        unconditional_update: false,
        create_on_update: true,
        stored_group: "coordination.k8s.io",
        definition: "io.k8s.api.coordination.v1.Lease",
        columns: lease::columns,
        rules: Rules { prepare: lease::prepare, check: lease::check },
        ..DEFAULT
    },
    Row {
        gvk: ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        plural: "customresourcedefinitions",
        singular: "customresourcedefinition",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        has_status: true,
        unconditional_update: false,
        stored_group: "apiextensions.k8s.io",
        definition: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        columns: crd::columns,
        rules: Rules { prepare: crd::prepare, check: crd::check },
        ..DEFAULT
    },
    Row {
        gvk: ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"),
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        namespaced: false,
        definition: "io.k8s.api.rbac.v1.ClusterRoleBinding",
        columns: rbac::binding_columns,
        rules: Rules { prepare: rbac::prepare_binding, check: rbac::check_cluster_role_binding },
        ..ROLE
    },
    Row {
        gvk: ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
        plural: "clusterroles",
        singular: "clusterrole",
        namespaced: false,
        definition: "io.k8s.api.rbac.v1.ClusterRole",
        columns: rbac::role_columns,
        rules: Rules { prepare: rbac::prepare_role, check: rbac::check_cluster_role },
        ..ROLE
    },
    Row {
        gvk: ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
        plural: "rolebindings",
        singular: "rolebinding",
        namespaced: true,
        definition: "io.k8s.api.rbac.v1.RoleBinding",
        columns: rbac::binding_columns,
        rules: Rules { prepare: rbac::prepare_binding, check: rbac::check_role_binding },
        ..ROLE
    },
    Row {
        gvk: ("rbac.authorization.k8s.io", "v1", "Role"),
        plural: "roles",
        singular: "role",
        namespaced: true,
        definition: "io.k8s.api.rbac.v1.Role",
        columns: rbac::role_columns,
        rules: Rules { prepare: rbac::prepare_role, check: rbac::check_role },
        ..ROLE
    },
    Row {
        gvk: ("authorization.k8s.io", "v1", "LocalSubjectAccessReview"),
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        namespaced: true,
        definition: "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
        ..REVIEW
    },
    Row {
        gvk: ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        definition: "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
        ..REVIEW
    },
    Row {
        gvk: ("authorization.k8s.io", "v1", "SelfSubjectRulesReview"),
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        definition: "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
        ..REVIEW
    },
    Row {
        gvk: ("authorization.k8s.io", "v1", "SubjectAccessReview"),
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        definition: "io.k8s.api.authorization.v1.SubjectAccessReview",
        ..REVIEW
    },
    Row {
        gvk: ("authentication.k8s.io", "v1", "SelfSubjectReview"),
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        stored_group: "authentication.k8s.io",
        definition: "io.k8s.api.authentication.v1.SelfSubjectReview",
        ..REVIEW
    },
    Row {
        gvk: ("authentication.k8s.io", "v1", "TokenReview"),
        plural: "tokenreviews",
        singular: "tokenreview",
        stored_group: "authentication.k8s.io",
        definition: "io.k8s.api.authentication.v1.TokenReview",
        ..REVIEW
    },
];

/// All kinds that need no definition.
#[must_use]
pub fn builtins() -> &'static [Builtin] {
    &BUILTINS
}

/// The kind that asks for a token of a service account.
#[must_use]
pub fn token_request() -> &'static Builtin {
    &TOKEN_REQUEST
}

/// The schemas they are made of, by name, as in `components.schemas` of OpenAPI, but with bare names as references.
#[must_use]
pub fn definitions() -> &'static Value {
    &SOURCE["definitions"]
}

/// The schema of `metadata`.
pub(crate) fn metadata() -> &'static Schema {
    &META
}

impl Builtin {
    fn new(row: &'static Row) -> Self {
        let (group, version, kind) = row.gvk;
        Self {
            gvk: Gvk::new(group, version, kind),
            plural: row.plural,
            singular: row.singular,
            short_names: row.short_names,
            categories: row.categories,
            namespaced: row.namespaced,
            has_status: row.has_status,
            deletes_collections: kind != "Namespace" && !row.answered,
            name_rule: row.name_rule,
            unconditional_update: row.unconditional_update,
            create_on_update: row.create_on_update,
            answered: row.answered,
            returned: row.returned,
            stored_as: GroupResource::new(row.stored_group, row.plural),
            definition: row.definition,
            schema: DEFINITIONS.get(row.definition).cloned().expect("builtin.json has every definition of the table"),
            columns: (row.columns)(),
            rules: &row.rules,
        }
    }

    /// The built-in kind of that name.
    #[must_use]
    pub fn find(gvk: &Gvk) -> Option<&'static Self> {
        builtins().iter().find(|builtin| builtin.gvk == *gvk)
    }

    /// Why an object cannot be decoded at all (a 400), as `ConfigMap in version "v1" cannot be handled as a
    /// ConfigMap: …`. Ask before pruning.
    #[must_use]
    pub fn decode_fault(&self, object: &Value) -> Option<String> {
        let Gvk { version, kind, .. } = &self.gvk;
        let fault = self.schema.struct_fault(object, kind)?;
        Some(format!("{kind} in version {version:?} cannot be handled as a {kind}: {fault}"))
    }

    /// Removes unknown members; gives back their paths, sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        self.schema.prune_struct(object)
    }

    /// Fills in what the real server fills in on a create (`old` is `None`) or an update.
    pub fn prepare(&self, object: &mut Value, old: Option<&Value>) {
        (self.rules.prepare)(object, old);
    }

    /// What is wrong with an object beyond its metadata, in the words of the real server.
    #[must_use]
    pub fn check(&self, object: &Value, old: Option<&Value>) -> FieldErrors {
        (self.rules.check)(object, old)
    }
}

fn plain_columns() -> Vec<Column> {
    vec![Column::name(), age_column()]
}

fn age_column() -> Column {
    Column::computed("Age", "string", 0, |object: &Value, now: Time| {
        age_of(&object["metadata"]["creationTimestamp"], now)
    })
}

fn size(object: &Value, name: &str) -> i64 {
    object[name].as_object().map_or(0, |members| i64::try_from(members.len()).unwrap_or(i64::MAX))
}

/// Writes base64 without line ends.
fn join_lines(object: &mut Value, name: &str) {
    let members = object.get_mut(name).and_then(Value::as_object_mut);
    for text in members.into_iter().flat_map(|members| members.values_mut()) {
        if let Value::String(text) = text
            && text.contains(['\r', '\n'])
        {
            text.retain(|letter| !"\r\n".contains(letter));
        }
    }
}

/// Removes members that are empty objects or null, as Go leaves them out.
fn drop_empty(object: &mut Value, names: &[&str]) {
    let Some(members) = object.as_object_mut() else { return };
    for name in names {
        let empty = members
            .get(*name)
            .is_some_and(|member| member.is_null() || member.as_object().is_some_and(serde_json::Map::is_empty));
        if empty {
            members.remove(*name);
        }
    }
}
