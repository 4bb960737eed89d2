//! Which objects a list or watch is about.

use std::borrow::Cow;

use concert_api::{FieldSelector, LabelSelector, ObjectKey, Status};

use crate::beside::{Parsed, Stored};
use crate::target::{Query, Target};

/// Namespace, name, labels and fields, all of which must fit.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) namespace: Option<String>,
    name: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Reads a selection; a field that cannot be selected by is refused.
    pub(crate) fn of(target: &Target, query: &Query) -> Result<Self, Status> {
        for field in query.fields.fields() {
            check_field(target, field)?;
        }
        Ok(Self {
            namespace: target.namespace.clone(),
            name: target.name.clone().or_else(|| query.fields.required("metadata.name").map(str::to_owned)),
            labels: query.labels.clone(),
            fields: query.fields.clone(),
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
                    other => Cow::Owned(field_of(other, parsed).into_owned()),
                }))
    }
}

/// Refuses a field that objects of this kind cannot be selected by.
fn check_field(target: &Target, field: &str) -> Result<(), Status> {
    let own: &[&str] = match target.resource.kind.as_str() {
        _ if target.resource.is_custom() => &[],
        "Event" if target.resource.id.group.is_empty() => &EVENT_FIELDS,
        "Event" => &NEW_EVENT_FIELDS,
        "Secret" => &["type"],
        "Namespace" => &["status.phase"],
        _ => &[],
    };
    let known = match field {
        "metadata.name" => true,
        "metadata.namespace" => target.resource.namespaced || !target.resource.is_custom(),
        _ => own.contains(&field) || target.version().selectable.iter().any(|path| path == field),
    };
    if known {
        return Ok(());
    }
    Err(Status::bad_request(if target.resource.is_custom() || !own.is_empty() {
        format!("field label not supported: {field}")
    } else {
        format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }))
}

/// What Events of `events.k8s.io` can be selected by. They are stored under their old names.
const NEW_EVENT_FIELDS: [&str; 10] = [
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// What Events can be selected by.
const EVENT_FIELDS: [&str; 11] = [
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

fn field_of<'a>(field: &str, parsed: &'a Parsed) -> Cow<'a, str> {
    if let Some(rest) = field.strip_prefix("regarding.") {
        return parsed.field(&format!("involvedObject.{rest}"));
    }
    match field {
        "source" => {
            let component = parsed.field("source.component");
            if component.is_empty() { parsed.field("reportingComponent") } else { component }
        }
        "reportingController" => parsed.field("reportingComponent"),
        _ => parsed.field(field),
    }
}
