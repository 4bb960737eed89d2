//! The typed view of a CustomResourceDefinition.

mod check;
mod tidy;

#[cfg(test)]
mod tests;

use concert_api::{FieldErrors, Gvk, Time, version_rank};
use serde_json::{Value, json};

use crate::{Column, JsonPath, Schema};

pub(crate) use check::check;
pub use tidy::definition_warnings;

/// Where the objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the cluster.
    Cluster,
    /// In namespaces.
    Namespaced,
}

/// What a kind is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// As in paths.
    pub plural: String,
    /// As people say it.
    pub singular: String,
    /// As in objects.
    pub kind: String,
    /// As in lists.
    pub list_kind: String,
    /// Abbreviations.
    pub short_names: Vec<String>,
    /// Groups of resources it can be asked for with.
    pub categories: Vec<String>,
}

/// How objects are converted between versions.
#[derive(Clone, Debug, PartialEq)]
pub enum Conversion {
    /// Only `apiVersion` changes.
    None,
    /// By a webhook: `spec.conversion.webhook`, as written. Stored, not called yet.
    Webhook(Value),
}

/// The paths of the scale subresource.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Of the wanted number.
    pub spec_replicas: JsonPath,
    /// Of the observed number.
    pub status_replicas: JsonPath,
    /// Of the selector.
    pub label_selector: Option<JsonPath>,
}

/// One version of a kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its name, as `v1`.
    pub name: String,
    /// Whether it is served.
    pub served: bool,
    /// Whether it is the one objects are stored in.
    pub storage: bool,
    /// What users of a deprecated version are warned with.
    pub deprecation_warning: Option<String>,
    /// The compiled schema.
    pub schema: Schema,
    /// The schema as written.
    pub openapi: Value,
    /// Whether it has a status subresource.
    pub has_status: bool,
    /// Its scale subresource.
    pub scale: Option<Scale>,
    /// The columns of its table, from the name on.
    pub columns: Vec<Column>,
    /// Fields that field selectors may name.
    pub selectable: Vec<JsonPath>,
}

/// A CustomResourceDefinition, understood.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The API group.
    pub group: String,
    /// What the kind is called.
    pub names: Names,
    /// Where its objects live.
    pub scope: Scope,
    /// Its versions, in the order written.
    pub versions: Vec<Version>,
    /// How objects are converted between them.
    pub conversion: Conversion,
}

impl Definition {
    /// Understands a definition: what [`prepare`](crate::Builtin::prepare) fills in is filled in, every rule is checked,
    /// every schema compiled.
    ///
    /// # Errors
    /// Every rule it breaks, in the words of the real server.
    pub fn from_value(object: &Value) -> Result<Self, FieldErrors> {
        let mut object = object.clone();
        read(&mut object);
        let spec = &object["spec"];
        let (errors, schemas) = check::spec(&object);
        if !errors.is_empty() {
            return Err(errors);
        }
        let versions = list(&spec["versions"]).zip(schemas);
        let versions = versions.map(|(version, schema)| version_of(version, schema, spec)).collect();
        Ok(Self {
            group: text(&spec["group"]),
            names: names_of(&spec["names"]),
            scope: if spec["scope"] == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
            versions,
            conversion: match spec["conversion"]["strategy"].as_str() {
                Some("Webhook") => Conversion::Webhook(spec["conversion"]["webhook"].clone()),
                _ => Conversion::None,
            },
        })
    }

    /// A version by its name.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version objects are stored in.
    #[must_use]
    pub fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }

    /// Group, version and kind of one of its versions.
    #[must_use]
    pub fn gvk(&self, version: &str) -> Gvk {
        Gvk::new(&self.group, version, &self.names.kind)
    }
}

fn version_of(version: &Value, schema: Schema, spec: &Value) -> Version {
    let name = text(&version["name"]);
    let warning = || {
        let said = text(&version["deprecationWarning"]);
        let kind = format!("{}/{name} {}", text(&spec["group"]), text(&spec["names"]["kind"]));
        if said.is_empty() { default_warning(spec, &name, &kind) } else { said }
    };
    let mut columns = vec![Column::name()];
    columns.extend(list(&version["additionalPrinterColumns"]).map(Column::from_definition));
    if columns.len() == 1 {
        columns.push(Column::age());
    }
    Version {
        served: version["served"] == true,
        storage: version["storage"] == true,
        deprecation_warning: (version["deprecated"] == true).then(warning),
        schema,
        openapi: version["schema"]["openAPIV3Schema"].clone(),
        has_status: version["subresources"]["status"].is_object(),
        scale: scale_of(&version["subresources"]["scale"]),
        columns,
        selectable: list(&version["selectableFields"]).filter_map(|field| path(&field["jsonPath"])).collect(),
        name,
    }
}

/// What users of a deprecated version read when its definition says nothing: use the best of the better ones.
fn default_warning(spec: &Value, name: &str, kind: &str) -> String {
    let usable = list(&spec["versions"]).filter(|other| other["served"] == true && other["deprecated"] != true);
    let better = usable.map(|other| text(&other["name"])).filter(|other| version_rank(other) > version_rank(name));
    match better.max_by_key(|other| version_rank(other)) {
        Some(best) => {
            format!("{kind} is deprecated; use {}/{best} {}", text(&spec["group"]), text(&spec["names"]["kind"]))
        }
        None => format!("{kind} is deprecated"),
    }
}

fn scale_of(scale: &Value) -> Option<Scale> {
    Some(Scale {
        spec_replicas: path(&scale["specReplicasPath"])?,
        status_replicas: path(&scale["statusReplicasPath"])?,
        label_selector: path(&scale["labelSelectorPath"]),
    })
}

fn names_of(names: &Value) -> Names {
    let texts = |value: &Value| list(value).map(text).collect();
    Names {
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        kind: text(&names["kind"]),
        list_kind: text(&names["listKind"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
    }
}

fn path(value: &Value) -> Option<JsonPath> {
    value.as_str().filter(|text| !text.is_empty()).and_then(|text| JsonPath::parse(text).ok())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Fills in what the real server fills in.
pub(crate) fn read(object: &mut Value) {
    if !object.is_object() {
        return;
    }
    if !object.get("spec").is_some_and(Value::is_object) {
        object["spec"] = json!({});
    }
    let spec = &mut object["spec"];
    for name in ["names", "conversion"] {
        if !spec.get(name).is_some_and(Value::is_object) {
            spec[name] = json!({});
        }
    }
    let kind = text(&spec["names"]["kind"]);
    if !kind.is_empty() {
        set_if_empty(&mut spec["names"], "singular", &kind.to_lowercase());
        set_if_empty(&mut spec["names"], "listKind", &format!("{kind}List"));
    }
    set_if_empty(&mut spec["conversion"], "strategy", "None");
    if let Some(service) = spec.pointer_mut("/conversion/webhook/clientConfig/service").and_then(Value::as_object_mut) {
        service.entry("port").or_insert_with(|| 443.into());
    }
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten().filter_map(Value::as_object_mut) {
        for name in ["served", "storage"] {
            version.entry(name).or_insert_with(|| false.into());
        }
        tidy::version(version);
    }
    tidy::definition(object);
    let storage = list(&object["spec"]["versions"]).find(|version| version["storage"] == true);
    let storage = storage.map(|version| version["name"].clone());
    if let Some(storage) = storage.filter(|_| object.get("status").is_some_and(Value::is_object))
        && list(&object["status"]["storedVersions"]).next().is_none()
    {
        object["status"]["storedVersions"] = json!([storage]);
    }
}

fn set_if_empty(object: &mut Value, name: &str, value: &str) {
    if object.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
        object[name] = value.into();
    }
}

/// The status of a definition whose names are accepted and that is served. What `status` already says stays: times of
/// conditions that hold, and versions that were stored before.
#[must_use]
pub fn established_status(object: &Value, now: Time) -> Value {
    let storage = list(&object["spec"]["versions"]).find(|version| version["storage"] == true);
    let mut stored: Vec<Value> = list(&object["status"]["storedVersions"]).cloned().collect();
    if let Some(name) = storage.map(|version| version["name"].clone()).filter(|name| !stored.contains(name)) {
        stored.push(name);
    }
    let condition = |kind: &str, reason: &str, message: &str| {
        let before = list(&object["status"]["conditions"]).find(|one| one["type"] == kind && one["status"] == "True");
        before.cloned().unwrap_or_else(
            || json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}),
        )
    };
    json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": object["spec"]["names"],
        "storedVersions": stored,
    })
}

pub(crate) fn cells(object: &Value, _now: Time) -> Vec<Value> {
    let spec = &object["spec"];
    let holds = |one: &Value| one["type"] == "Established" && one["status"] == "True";
    vec![
        object["metadata"]["name"].clone(),
        spec["scope"].clone(),
        served_versions(object).into(),
        object["metadata"]["creationTimestamp"].clone(),
        spec["group"].clone(),
        spec["names"]["kind"].clone(),
        list(&spec["names"]["shortNames"]).map(text).collect::<Vec<_>>().join(",").into(),
        list(&object["status"]["conditions"]).any(holds).into(),
    ]
}

fn served_versions(object: &Value) -> String {
    let served = list(&object["spec"]["versions"]).filter(|version| version["served"] == true);
    let names = served.map(|version| {
        let storage = if version["storage"] == true { "(storage)" } else { "" };
        format!("{}{storage}", text(&version["name"]))
    });
    names.collect::<Vec<_>>().join(",")
}
