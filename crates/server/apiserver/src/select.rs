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
        let extra: &[&str] = if is_event(target) { &EVENT_FIELDS } else { &[] };
        for field in query.fields.fields() {
            if !matches!(field, "metadata.name" | "metadata.namespace") && !extra.contains(&field) {
                return Err(Status::bad_request(if target.resource.is_custom() {
                    format!("field label not supported: {field}")
                } else {
                    format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
                }));
            }
        }
        Ok(Self {
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            labels: query.labels.clone(),
            fields: query.fields.clone(),
        })
    }

    /// Whether anything but the namespace narrows it.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.name.is_some() || !self.labels.is_empty() || !self.fields.is_empty()
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
                    other => Cow::Owned(event_field(other, parsed).into_owned()),
                }))
    }
}

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

fn is_event(target: &Target) -> bool {
    target.resource.kind == "Event" && target.resource.builtin.is_some()
}

fn event_field<'a>(field: &str, parsed: &'a Parsed) -> Cow<'a, str> {
    if field != "source" {
        return parsed.field(field);
    }
    let component = parsed.field("source.component");
    if component.is_empty() { parsed.field("reportingComponent") } else { component }
}
