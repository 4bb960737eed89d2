//! The kinds that need no definition, as data, and the few rules that data cannot say.
//!
//! What kinds there are, with their names, verbs, subresources and columns, is in `kinds.json`; what their objects look
//! like is in `definitions.txt`. Both are written by `cargo xtask kinds`, and a further kind needs no code. Code is what
//! the real server has as code: [`habits`] by kind, [`defaults`] by struct.

mod address;
mod amounts;
mod autoscaler;
mod cells;
mod certificate;
mod cluster;
mod config_map;
pub(crate) mod data;
pub(crate) mod defaults;
mod event;
mod flow;
mod habits;
mod judge;
mod lease;
mod namespace;
mod network;
mod pod;
mod policy;
pub(crate) mod quantity;
mod quota;
mod rbac;
pub(crate) mod render;
mod scaling;
mod secret;
mod storage;
mod volume;
mod webhook;
mod workload;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use concert_api::{FieldErrors, GroupResource, Gvk, Time, names};
use serde_json::Value;

use crate::schema::Stage;
use crate::{Column, Schema};
use habits::Habits;

pub use habits::Counted;

const KINDS: &str = include_str!("builtin/kinds.json");
const METADATA: &str = "meta.v1.ObjectMeta";

static BUILTINS: LazyLock<Vec<Builtin>> = LazyLock::new(read);
/// The schemas of definitions that were asked for or referred to; each is compiled when it is first looked at.
static SCHEMAS: LazyLock<HashMap<&'static str, Schema>> = LazyLock::new(|| {
    let specials = render::specials();
    data::names().chain(specials).map(|name| (name, Schema::defined(name))).collect()
});

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
    pub plural: String,
    /// As people say it.
    pub singular: String,
    /// Abbreviations.
    pub short_names: Vec<String>,
    /// Groups of resources it can be asked for with.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with its objects.
    pub verbs: Vec<String>,
    /// What its objects have beside themselves.
    pub parts: Vec<Subresource>,
    /// What tells clients that the stored version has changed; empty where nothing is stored.
    pub storage_hash: String,
    /// Which names its objects may have.
    pub name_rule: NameRule,
    /// Whether an update may come without a resourceVersion.
    pub unconditional_update: bool,
    /// Whether an update of what does not exist creates it.
    pub create_on_update: bool,
    /// Whether a deletion is answered with the object that is gone.
    pub returned: bool,
    /// Which changes its generation counts.
    pub counted: Counted,
    /// Whether a new object keeps the status it came with.
    pub keeps_status: bool,
    /// Where its objects are stored: events of both groups are the same objects.
    pub stored_as: GroupResource,
    /// The kind its objects are stored as.
    pub stored: Gvk,
    /// The name of its schema, as [`definition`] takes it.
    pub schema_name: &'static str,
    /// Its schema.
    pub schema: Schema,
    columns: OnceLock<Vec<Column>>,
    zero: OnceLock<Value>,
    habits: &'static Habits,
    /// The columns as the real server describes them.
    described: Value,
}

/// A part of objects with a path of its own, or something that can be done to them.
#[derive(Debug)]
pub struct Subresource {
    /// As in paths.
    pub name: String,
    /// What is sent to it.
    pub gvk: Gvk,
    /// What can be done with it.
    pub verbs: Vec<String>,
    /// The name of the schema of that; empty where there is none.
    pub schema_name: &'static str,
}

/// All kinds that need no definition.
#[must_use]
pub fn builtins() -> &'static [Builtin] {
    &BUILTINS
}

/// Turns an object into one of another version, or group, that is stored as the same.
pub fn convert(object: &mut Value, to: &Gvk) {
    match to.kind.as_str() {
        "Event" => event::convert(object, to),
        "HorizontalPodAutoscaler" => autoscaler::convert(object, to),
        _ => {}
    }
    if let Some(builtin) = Builtin::find(to) {
        // What was stored had room.
        let _ = builtin.schema.settle(object, Stage::Converted);
    }
}

/// Leaves alone what an autoscaler notes in annotations of its status, or of all else if it is the status that was sent.
pub fn keep_notes(object: &mut Value, old: &Value, is_status: bool) {
    autoscaler::keep_notes(object, old, is_status);
}

/// Whether the annotations of an autoscaler say anew what is asked of it.
#[must_use]
pub fn are_notes_changed(object: &Value, old: &Value) -> bool {
    autoscaler::asked(object).ne(autoscaler::asked(old))
}

/// Whether an amount is no whole number; what is no amount is not.
#[must_use]
pub fn is_fractional(amount: &Value) -> bool {
    quantity::millis(amount).is_some_and(|millis| millis % 1000 != 0)
}

/// A kind that is sent to subresources only, such as `autoscaling/v1` Scale.
#[must_use]
pub fn part_kind(gvk: &Gvk) -> Option<&'static Builtin> {
    static KINDS: LazyLock<Vec<Builtin>> = LazyLock::new(|| {
        let sources = kinds();
        let parts = list(&sources).flat_map(|kind| list(&kind["parts"]).map(move |part| (kind, part)));
        let others = parts.filter(|(kind, part)| part["kind"] != kind["kind"]);
        others
            .filter_map(|(kind, part)| {
                Builtin::from_data(part).map(|one| Builtin { namespaced: kind["namespaced"] == true, ..one })
            })
            .collect()
    });
    KINDS.iter().find(|builtin| builtin.gvk == *gvk)
}

/// A label selector, or a map of labels, as the text of a selector.
#[must_use]
pub fn selector_text(selector: &Value) -> String {
    cells::selector(selector)
}

/// The schema of a struct of the built-in kinds, such as `core.v1.PodSpec`.
#[must_use]
pub fn definition(name: &str) -> Option<Schema> {
    SCHEMAS.get(name).cloned()
}

/// A definition as OpenAPI shows it: its full name, and its schema, which refers to others by their full names.
#[must_use]
pub fn document(name: &str) -> Option<(String, Value)> {
    let schema = render::definition(name, render::View::Document)?;
    Some((data::long_name(name), schema))
}

/// The names of the definitions that one refers to.
#[must_use]
pub fn referred(name: &str) -> Vec<&'static str> {
    let fields = data::flat_fields(name).into_iter();
    fields.filter_map(|field| render::referred(field.kind)).collect()
}

/// A short name for all data of the built-in kinds: other data have another one.
#[must_use]
pub fn fingerprint() -> u64 {
    static FINGERPRINT: LazyLock<u64> = LazyLock::new(|| {
        let bytes = data::TEXT.bytes().chain(KINDS.bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    });
    *FINGERPRINT
}

/// The name of a definition in OpenAPI.
#[must_use]
pub fn document_name(name: &str) -> String {
    data::long_name(name)
}

/// The schema of `metadata`.
pub(crate) fn metadata() -> &'static Schema {
    static META: LazyLock<Schema> = LazyLock::new(|| Schema::defined(METADATA));
    &META
}

fn kinds() -> Value {
    serde_json::from_str(KINDS).expect("kinds.json is checked by a test")
}

fn read() -> Vec<Builtin> {
    list(&kinds()).filter_map(Builtin::from_data).collect()
}

impl Builtin {
    fn from_data(source: &Value) -> Option<Self> {
        let gvk = gvk(source);
        let (plural, verbs) = (text(&source["plural"]), texts(&source["verbs"]));
        let habits = habits::of(&gvk.group, &gvk.kind);
        let stored = match gvk.kind.as_str() {
            "Event" => Gvk::new("", "v1", "Event"),
            "HorizontalPodAutoscaler" => Gvk { version: "v2".to_owned(), ..gvk.clone() },
            _ => gvk.clone(),
        };
        let schema_name = data::known(source["schema"].as_str()?)?;
        Some(Self {
            stored_as: GroupResource::new(stored.group.as_str(), plural.as_str()),
            stored,
            plural,
            singular: text(&source["singular"]),
            short_names: texts(&source["short"]),
            categories: texts(&source["categories"]),
            namespaced: source["namespaced"] == true,
            verbs,
            parts: list(&source["parts"]).map(Subresource::read).collect(),
            storage_hash: text(&source["hash"]),
            name_rule: habits.name_rule,
            unconditional_update: habits.unconditional_update,
            create_on_update: habits.create_on_update,
            returned: habits.returned,
            counted: habits.counted,
            keeps_status: habits.keeps_status,
            schema_name,
            schema: definition(schema_name)?,
            columns: OnceLock::new(),
            zero: OnceLock::new(),
            habits,
            described: source["columns"].clone(),
            gvk,
        })
    }

    /// The built-in kind of that name.
    #[must_use]
    pub fn find(gvk: &Gvk) -> Option<&'static Self> {
        builtins().iter().find(|builtin| builtin.gvk == *gvk)
    }

    /// Whether something can be done with its objects.
    #[must_use]
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| one == verb)
    }

    /// Whether its objects are questions: answered when they are created, and not kept.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.can("create") && !self.can("get")
    }

    /// The subresource of that name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&Subresource> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// Whether it has a status subresource.
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.part("status").is_some()
    }

    /// Its columns, the first of which is not always the name.
    pub fn columns(&self) -> &[Column] {
        self.columns.get_or_init(|| list(&self.described).map(Column::described).collect())
    }

    /// The cells of an object, one for each column.
    #[must_use]
    pub fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        match self.habits.cells {
            Some(cells) => cells(object, now),
            None => self.columns().iter().map(|column| column.cell(object, now)).collect(),
        }
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

    /// An object in which nothing is set, as Go writes it: with apiVersion and kind, and without defaults.
    #[must_use]
    pub fn zero(&self) -> &Value {
        self.zero.get_or_init(|| {
            let mut zero = self.schema.zero();
            zero["apiVersion"] = self.gvk.api_version().into();
            zero["kind"] = self.gvk.kind.clone().into();
            zero
        })
    }

    /// Whether an object says that something is empty that is stored as nothing, and its kind counts that as a change.
    /// Ask before reading.
    #[must_use]
    pub fn is_hollow(&self, object: &Value) -> bool {
        let content = || object.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata");
        self.counted == Counted::ContentAndHollow && content().any(|(name, member)| is_hollow(name, member))
    }

    /// Makes of an object what Go makes of it when it reads it: without what is empty, with defaults. Whether there was
    /// room for them: 3 MiB in one object.
    #[must_use]
    pub fn read(&self, object: &mut Value) -> bool {
        let roomy = self.schema.settle(object, Stage::Read);
        (self.habits.read)(object);
        roomy
    }

    /// Makes of an object what Go makes of it when it reads it from the store. Whether there was room for defaults.
    #[must_use]
    pub fn settle(&self, object: &mut Value) -> bool {
        self.schema.settle(object, Stage::Stored)
    }

    /// Fills in what the real server fills in on a create (`old` is `None`) or an update.
    pub fn prepare(&self, object: &mut Value, old: Option<&Value>) {
        (self.habits.prepare)(object, old);
        // There was room for it when it came.
        let _ = self.settle(object);
    }

    /// What is wrong with an object beyond its metadata, in the words of the real server.
    #[must_use]
    pub fn check(&self, object: &Value, old: Option<&Value>) -> FieldErrors {
        (self.habits.check)(object, old)
    }
}

/// What is wrong with a pod after a part of it was changed that has rules of its own; `None` if this is no such part.
#[must_use]
pub fn check_pod_part(part: &str, object: &Value, old: &Value) -> Option<FieldErrors> {
    match part {
        "ephemeralcontainers" => Some(pod::check_ephemeral(object, old)),
        "resize" => Some(pod::check_resize(object, old)),
        _ => None,
    }
}

/// Whether one amount is more than another; what is none is nothing.
#[must_use]
pub fn is_more(amount: &Value, other: &Value) -> bool {
    quantity::is_more(amount, other)
}

/// Takes from a pod that was sent what a resize changes, on top of what is stored.
#[must_use]
pub fn resized_pod(sent: &Value, old: &Value) -> Value {
    pod::resized(sent, old)
}

impl Subresource {
    fn read(source: &Value) -> Self {
        Self {
            name: text(&source["name"]),
            gvk: gvk(source),
            verbs: texts(&source["verbs"]),
            schema_name: source["schema"].as_str().and_then(data::known).unwrap_or_default(),
        }
    }

    /// The schema of what is sent to it.
    #[must_use]
    pub fn schema(&self) -> Option<Schema> {
        definition(self.schema_name)
    }
}

/// Lists, labels and bytes: what else is empty is a struct, which is never nothing.
fn is_hollow(name: &str, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(|item| is_hollow("", item)),
        Value::Object(members) => {
            (members.is_empty() && name == "matchLabels")
                || members.iter().any(|(name, member)| is_hollow(name, member))
        }
        Value::String(text) => text.is_empty() && name == "caBundle",
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn gvk(source: &Value) -> Gvk {
    Gvk::new(text(&source["group"]), text(&source["version"]), text(&source["kind"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).map(text).collect()
}

fn size(object: &Value, name: &str) -> i64 {
    object[name].as_object().map_or(0, |members| i64::try_from(members.len()).unwrap_or(i64::MAX))
}
