//! Which number a field has on the wire, and what it is in JSON: the data of the built-in kinds, seen from here.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use super::layout::Layout;
use crate::builtin::builtins;
use crate::builtin::data::{self, Presence, Special, Type};

/// The messages by the name of their struct, each read when it is first needed.
static MESSAGES: LazyLock<HashMap<&'static str, OnceLock<Message>>> =
    LazyLock::new(|| data::names().map(|name| (name, OnceLock::new())).collect());

/// What is answered and never sent: apiVersion, or how it begins, kind, and struct. Some discovery documents have no
/// apiVersion.
const ANSWERED: [(&str, &str, &str); 8] = [
    ("v1", "Status", "meta.v1.Status"),
    ("v1", "APIResourceList", "meta.v1.APIResourceList"),
    ("v1", "APIGroup", "meta.v1.APIGroup"),
    ("v1", "APIGroupList", "meta.v1.APIGroupList"),
    ("", "APIVersions", "meta.v1.APIVersions"),
    ("meta.k8s.io/", "PartialObjectMetadata", "meta.v1.PartialObjectMetadata"),
    ("meta.k8s.io/", "PartialObjectMetadataList", "meta.v1.PartialObjectMetadataList"),
    ("apidiscovery.k8s.io/", "APIGroupDiscoveryList", "apidiscovery.v2.APIGroupDiscoveryList"),
];

/// A message: its name in errors, and its fields.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: &'static str,
    pub(super) fields: Vec<Field>,
    layout: OnceLock<Layout>,
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) number: u64,
    /// In JSON; empty for a message whose fields are those of the message around it.
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) sort: Sort,
    /// Whether it is there in JSON even if it is zero.
    pub(super) keeps_zero: bool,
    /// Whether it is there on the wire even if it is zero: it is no pointer.
    pub(super) is_always: bool,
}

/// How many of them there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    Many,
    /// A map with texts as keys.
    Map,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Text,
    /// Base64 in JSON.
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    Special(Special),
    /// A list of texts in a message of its own.
    Listed,
    /// The message of this struct.
    Message(&'static str),
}

/// The message of a kind; options are of every group.
pub(super) fn kind(api_version: &str, kind: &str) -> Option<&'static Message> {
    if kind == "DeleteOptions" {
        return message("meta.v1.DeleteOptions");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let fits = |gvk: &concert_api::Gvk| gvk.group == group && gvk.version == version && gvk.kind == kind;
    let resource = builtins().iter().find(|builtin| fits(&builtin.gvk)).map(|builtin| builtin.schema_name);
    let part = || {
        let mut parts = builtins().iter().flat_map(|builtin| &builtin.parts);
        parts.find(|part| fits(&part.gvk)).map(|part| part.schema_name)
    };
    message(resource.or_else(part)?)
}

/// The message of a kind that is answered.
pub(super) fn answered(api_version: &str, name: &str) -> Option<&'static Message> {
    let fits = |(version, kind, _): &&(&str, &str, &str)| {
        let begins = version.ends_with('/') && api_version.starts_with(version);
        *kind == name && (*version == api_version || api_version.is_empty() || begins)
    };
    match ANSWERED.iter().find(fits) {
        Some((_, _, known)) => message(known),
        None => kind(api_version, name),
    }
}

/// The message of a struct.
pub(super) fn message(name: &str) -> Option<&'static Message> {
    let (name, place) = MESSAGES.get_key_value(name)?;
    Some(place.get_or_init(|| Message::read(name)))
}

impl Message {
    fn read(name: &'static str) -> Self {
        let fields = data::fields(name).into_iter().flatten().filter(|field| field.number > 0);
        Self {
            name: name.rsplit('.').next().unwrap_or(name),
            fields: fields.map(|field| Field::read(&field)).collect(),
            layout: OnceLock::new(),
        }
    }

    /// How it is written.
    pub(super) fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| Layout::of(&self.fields))
    }
}

impl Field {
    fn read(field: &data::Field) -> Self {
        let (shape, kind) = match field.kind {
            Type::List(inner) => (Shape::Many, Type::read(inner)),
            Type::Map(inner) => (Shape::Map, Type::read(inner)),
            one => (Shape::One, one),
        };
        let sort = Sort::of(kind);
        let scalar = matches!(sort, Sort::Bool | Sort::Int32 | Sort::Int64);
        let keeps_zero = match field.presence {
            Presence::Pointer | Presence::Null => true,
            Presence::Zero => scalar,
            Presence::Omitted => false,
        };
        // Moments and raw objects are null where they have no value, and yet are no pointers.
        let moment = matches!(sort, Sort::Special(Special::Time | Special::MicroTime | Special::Raw));
        let is_always = match field.presence {
            Presence::Pointer => false,
            Presence::Null => moment,
            Presence::Zero | Presence::Omitted => true,
        };
        Self { number: u64::from(field.number), name: field.name, shape, sort, keeps_zero, is_always }
    }

    /// A value of a list or a map, which is there whatever it is.
    pub(super) fn nested(name: &'static str, sort: Sort) -> Self {
        Self { number: 0, name, shape: Shape::One, sort, keeps_zero: true, is_always: true }
    }
}

impl Sort {
    fn of(kind: Type) -> Self {
        match kind {
            Type::Text(_) => Self::Text,
            Type::Bool(_) => Self::Bool,
            Type::Int32(_) => Self::Int32,
            Type::Int64(_) => Self::Int64,
            Type::Double => Self::Double,
            Type::Bytes => Self::Bytes,
            Type::Special(special) => Self::Special(special),
            // There are no lists or maps in lists and maps, but for lists of texts.
            Type::Listed(_) | Type::List(_) | Type::Map(_) => Self::Listed,
            Type::Struct(name) => Self::Message(name),
        }
    }
}
