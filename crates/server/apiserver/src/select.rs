//! Which objects a list or watch is about.

use std::borrow::Cow;
use std::collections::BTreeMap;

use concert_api::{FieldSelector, LabelSelector, ObjectKey, Status};
use serde_json::Value;

use crate::beside::{Parsed, Stored};
use crate::target::{Query, Target};

/// Namespace, name, labels and fields, all of which must fit.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) namespace: Option<String>,
    name: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    /// Where the fields are that the selector names.
    paths: BTreeMap<String, Place>,
}

/// Where a field is in a stored object.
#[derive(Clone, Debug)]
enum Place {
    /// Here.
    At(Vec<String>),
    /// Here, or if that is empty, there.
    Either(Vec<String>, Vec<String>),
    /// Here, or if that is empty, it is this.
    Else(Vec<String>, &'static str),
}

impl Place {
    /// The field's value as text; booleans and numbers as JSON writes them.
    fn text(&self, parsed: &Parsed) -> String {
        match self {
            Self::At(steps) => text_at(steps, parsed),
            Self::Either(first, second) => {
                let text = text_at(first, parsed);
                if text.is_empty() { text_at(second, parsed) } else { text }
            }
            Self::Else(steps, otherwise) => {
                let text = text_at(steps, parsed);
                if text.is_empty() { (*otherwise).to_owned() } else { text }
            }
        }
    }
}

fn text_at(steps: &[String], parsed: &Parsed) -> String {
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let raw = parsed.object.as_ref().and_then(|object| object.field(&steps));
    match raw.map(serde_json::from_slice::<Value>) {
        Some(Ok(Value::String(text))) => text,
        Some(Ok(value @ (Value::Bool(_) | Value::Number(_)))) => value.to_string(),
        _ => String::new(),
    }
}

impl Selection {
    /// Reads a selection; a field that cannot be selected by is refused.
    pub(crate) fn of(target: &Target, query: &Query) -> Result<Self, Status> {
        let mut paths = BTreeMap::new();
        for field in query.fields.fields() {
            let resource = &target.resource;
            if field == "metadata.name"
                || (field == "metadata.namespace" && (resource.namespaced || !resource.is_custom()))
            {
                continue;
            }
            let path = path_of(target, field).ok_or_else(|| refused(target, field))?;
            paths.insert(field.to_owned(), path);
        }
        Ok(Self {
            namespace: target.namespace.clone(),
            name: target.name.clone().or_else(|| query.fields.required("metadata.name").map(str::to_owned)),
            labels: query.labels.clone(),
            fields: query.fields.clone(),
            paths,
        })
    }

    /// Whether anything but the namespace narrows it.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.name.is_some() || !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// Whether it is about one object at most.
    pub(crate) fn is_single(&self) -> bool {
        self.name.is_some() && self.namespace.is_some()
    }

    pub(crate) fn matches(&self, key: &ObjectKey, entry: &Stored) -> bool {
        self.matches_parsed(key, &entry.beside)
    }

    fn matches_parsed(&self, key: &ObjectKey, parsed: &Parsed) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| namespace == &*key.namespace)
            && self.name.as_deref().is_none_or(|name| name == &*key.name)
            && (self.labels.is_empty() || self.labels.matches(&parsed.labels))
            && (self.fields.is_empty()
                || self.fields.matches(|field| match field {
                    "metadata.name" => Cow::Owned(key.name.to_string()),
                    "metadata.namespace" => Cow::Owned(key.namespace.to_string()),
                    other => Cow::Owned(self.paths.get(other).map(|path| path.text(parsed)).unwrap_or_default()),
                }))
    }
}

/// What Events can be selected by, in both groups; they are stored as those of the core group.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("kind", "involvedObject.kind"),
    ("namespace", "involvedObject.namespace"),
    ("name", "involvedObject.name"),
    ("uid", "involvedObject.uid"),
    ("apiVersion", "involvedObject.apiVersion"),
    ("resourceVersion", "involvedObject.resourceVersion"),
    ("fieldPath", "involvedObject.fieldPath"),
];

/// What objects of built-in kinds can be selected by, beside events.
const SELECTABLE: [(&str, &[&str]); 10] = [
    ("CertificateSigningRequest", &["spec.signerName"]),
    ("Job", &["status.successful"]),
    ("Namespace", &["status.phase"]),
    ("Node", &["spec.unschedulable"]),
    (
        "Pod",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    ("ReplicationController", &["status.replicas"]),
    ("ResourceSlice", &["spec.nodeName", "spec.driver"]),
    ("Secret", &["type"]),
    ("Service", &["spec.clusterIP", "spec.type"]),
    ("ClusterTrustBundle", &["spec.signerName"]),
];

/// Those of them that are never empty: what an object that does not say has there.
const UNSAID: [(&str, &str); 4] = [
    ("spec.hostNetwork", "false"),
    ("spec.unschedulable", "false"),
    ("status.replicas", "0"),
    ("status.succeeded", "0"),
];

/// Where a field is that the objects of this kind can be selected by.
fn path_of(target: &Target, field: &str) -> Option<Place> {
    let steps = |path: &str| path.split('.').map(str::to_owned).collect();
    let at = |path: &str| Place::At(steps(path));
    let resource = &target.resource;
    if resource.is_custom() {
        let path = target.version().selectable.iter().find(|path| path.text().strip_prefix('.') == Some(field))?;
        return Some(Place::At(path.members()?.into_iter().map(str::to_owned).collect()));
    }
    let fields = SELECTABLE.iter().find(|(kind, _)| *kind == resource.kind).map_or(&[][..], |(_, fields)| fields);
    if fields.contains(&field) {
        // A job that was successful says how often it succeeded.
        let field = if field == "status.successful" { "status.succeeded" } else { field };
        let unsaid = UNSAID.iter().find(|(known, _)| *known == field);
        return Some(unsaid.map_or_else(|| at(field), |(_, unsaid)| Place::Else(steps(field), unsaid)));
    }
    let is_core = resource.id.group.is_empty();
    match (resource.kind.as_str(), field) {
        ("Event", "reason" | "type") => Some(at(field)),
        ("Event", "reportingController") if !is_core => Some(at("reportingComponent")),
        ("Event", "reportingComponent") if is_core => Some(at(field)),
        ("Event", "source") if is_core => Some(Place::Either(steps("source.component"), steps("reportingComponent"))),
        ("Event", field) => {
            let prefix = if is_core { "involvedObject." } else { "regarding." };
            let name = field.strip_prefix(prefix)?;
            EVENT_FIELDS.iter().find(|(known, _)| *known == name).map(|(_, path)| at(path))
        }
        _ => None,
    }
}

/// Kinds with selectable fields of their own refuse others in other words than those without.
fn refused(target: &Target, field: &str) -> Status {
    let kind = target.resource.kind.as_str();
    let own = target.resource.is_custom() || kind == "Event" || SELECTABLE.iter().any(|(known, _)| *known == kind);
    Status::bad_request(if own {
        format!("field label not supported: {field}")
    } else {
        format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    })
}
