//! What merging and booking do, without a server.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use concert_api::{Gvk, Time};
use concert_merge::{
    Applied, ApplyError, Author, Endpoint, FieldSet, Force, Live, ManagedFields, Versions, ignored_by_builtin,
    ignored_by_custom,
};
use concert_schema::{Builtin, Schema};
use serde_json::{Value, json};

use crate::kinds::{Kind, thing_schema};

/// Sets whose paths are written out have no more bytes.
const PATHS_MAX: usize = 1 << 12;

static THINGS: LazyLock<Schema> =
    LazyLock::new(|| Schema::compile(&thing_schema(), "schema").expect("the schema of Things compiles"));

/// An object and its books.
pub(crate) struct Stored {
    gvk: Gvk,
    pub(crate) object: Value,
    pub(crate) managed: ManagedFields,
}

impl Stored {
    /// Before anything was written.
    pub(crate) fn nothing(kind: &Kind) -> Self {
        let gvk = kind.gvk();
        let object = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "metadata": {}});
        Self { gvk, object, managed: ManagedFields::default() }
    }

    /// After an apply, which changed nothing if it failed, and changes nothing more if it is done again.
    pub(crate) fn applied(self, config: &Value, manager: &str, subresource: &str, force: Force) -> Self {
        match self.apply(config, manager, subresource, force) {
            Ok(applied) => {
                check_books(&applied.managed);
                let next = self.with(applied.object, applied.managed);
                // A null goes when the object is read again, and only then.
                if !has_null(config) && !has_null(&next.object) {
                    next.check_again(config, manager, subresource, force);
                }
                next
            }
            Err(error) => {
                assert!(!matches!((&error, force), (ApplyError::Conflict(_), Force::Yes)), "forced: {error}");
                let status = error.status();
                assert!((400..600).contains(&status.code), "{status:?}");
                self
            }
        }
    }

    /// After an update, which changes nothing more if it is done again.
    pub(crate) fn updated(self, new: &Value, manager: &str, subresource: &str) -> Self {
        if !new.is_object() || !new["metadata"].is_object() {
            return self;
        }
        let (object, managed) = self.update(new, manager, subresource);
        check_books(&managed);
        let next = self.with(object, managed);
        let (again, mut managed) = next.update(&next.object, manager, subresource);
        assert_eq!(again, next.object);
        assert!(managed.keep_times(&next.managed), "an update of nothing books something: {}", next.object);
        next
    }

    fn with(&self, mut object: Value, managed: ManagedFields) -> Self {
        object["metadata"]["uid"] = "u".into();
        Self { gvk: self.gvk.clone(), object, managed }
    }

    fn check_again(&self, config: &Value, manager: &str, subresource: &str, force: Force) {
        let again = self.apply(config, manager, subresource, force);
        let again = again.unwrap_or_else(|error| panic!("applied once, and not again: {error}"));
        assert_eq!(again.object, self.object, "a second time changes something");
        assert_eq!(again.managed, self.managed, "a second time books something");
        assert!(!again.changed, "a second time says that something changed");
    }

    fn apply(&self, config: &Value, manager: &str, part: &str, force: Force) -> Result<Applied, ApplyError> {
        self.at(part, |endpoint, live| endpoint.apply(live, config, author(manager), force))
    }

    fn update(&self, new: &Value, manager: &str, subresource: &str) -> (Value, ManagedFields) {
        let mut object = new.clone();
        let managed = self.at(subresource, |endpoint, live| endpoint.update(live, &mut object, author(manager)));
        (object, managed)
    }

    fn at<T>(&self, subresource: &str, act: impl FnOnce(Endpoint<'_>, Live<'_>) -> T) -> T {
        let builtin = Builtin::find(&self.gvk);
        let empty = json!({"apiVersion": self.gvk.api_version(), "kind": self.gvk.kind});
        let ignored = match builtin {
            Some(_) => ignored_by_builtin(&self.gvk, subresource),
            None => ignored_by_custom(true, subresource),
        };
        let endpoint = Endpoint {
            gvk: &self.gvk,
            schema: builtin.map_or(&THINGS, |builtin| &builtin.schema),
            subresource,
            ignored,
            empty: &empty,
            versions: &ThingVersions,
        };
        act(endpoint, Live { object: &self.object, managed: &self.managed })
    }
}

fn author(manager: &str) -> Author<'_> {
    Author { manager, now: Time::from_unix_seconds(1_700_000_000) }
}

/// Things have a second version, in which `tier` is called `level`.
struct ThingVersions;

impl Versions for ThingVersions {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        static SECOND: LazyLock<Schema> = LazyLock::new(|| {
            let mut schema = thing_schema();
            let fields = &mut schema["properties"]["spec"]["properties"];
            fields["level"] = fields["tier"].take();
            fields["tier"] = json!({"type": "string"});
            Schema::compile(&schema, "schema").expect("the schema of Things compiles")
        });
        match api_version {
            "g.example/v1" => Some(&THINGS),
            "g.example/v2" => Some(&SECOND),
            _ => None,
        }
    }

    fn ignored(&self, _api_version: &str) -> Option<&FieldSet> {
        None
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut object = object.clone();
        let (old, new) = if api_version == "g.example/v2" { ("tier", "level") } else { ("level", "tier") };
        if object["spec"]["broken"].is_string() {
            return Err("broken".to_owned());
        }
        if object["apiVersion"] != api_version
            && let Some(Value::Object(spec)) = object.get_mut("spec")
            && let Some(value) = spec.remove(old)
        {
            spec.insert(new.to_owned(), value);
        }
        if let Value::Object(members) = &mut object {
            members.insert("apiVersion".to_owned(), api_version.into());
        }
        Ok(object)
    }
}

/// What is true of all books: nobody is there twice or owns nothing, and what is read is written as the same.
pub(crate) fn check_books(managed: &ManagedFields) {
    let mut seen = BTreeSet::new();
    for entry in managed.entries() {
        let version = if entry.operation.word() == "Apply" { "" } else { entry.api_version.as_str() };
        let identity = (entry.manager.as_str(), entry.operation.word(), version, entry.subresource.as_str());
        assert!(seen.insert(identity), "twice: {identity:?}");
        check_set(&entry.fields);
    }
    let written = managed.to_value();
    let read = ManagedFields::parse(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(read.to_value(), written);
    let mut text = String::new();
    managed.write_json(&mut text);
    assert_eq!(serde_json::from_str::<Value>(&text).expect("what is written is JSON"), written);
}

/// What is true of all sets of fields: what is read is written as the same, and nothing is lost. What was written need not
/// be read as the same: a float beyond 2^53 that is whole is written as an integer, as by Go, and that is another number.
pub(crate) fn check_set(fields: &FieldSet) {
    let written = fields.to_value();
    let read = FieldSet::parse(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(read.len(), fields.len(), "{written}");
    assert_eq!(read.to_value(), written);
    if !is_rounded(&read, fields) {
        assert_eq!(read, *fields, "{written}");
    }
    let mut text = String::new();
    fields.write_json(&mut text);
    assert_eq!(serde_json::from_str::<Value>(&text).expect("what is written is JSON"), written);
    // All paths of a large set are larger still.
    if written.to_string().len() < PATHS_MAX {
        assert_eq!(fields.paths().len(), fields.len());
    }
}

/// Whether a number of a set is shown in another way once it was read.
fn is_rounded(read: &FieldSet, written: &FieldSet) -> bool {
    let whole = |paths: Vec<String>| paths.into_iter().filter(|path| path.contains("e+")).collect::<Vec<_>>();
    whole(read.paths()) != whole(written.paths())
}

pub(crate) fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}
