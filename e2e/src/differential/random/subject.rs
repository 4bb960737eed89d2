//! What a random scenario writes: objects of a random definition, or of a built-in kind.

use std::sync::LazyLock;

use concert_api::Gvk;
use concert_schema::Builtin;
use serde::Deserialize;
use serde_json::{Value, json};

use super::schema;
use super::shape::Shape;
use crate::Dice;
use crate::differential::scenario::Step;

/// A kind and one of its objects.
pub(super) struct Subject {
    /// The object's name.
    pub(super) name: String,
    /// The versions it is written in.
    pub(super) doors: Vec<Door>,
    /// What its status looks like, if it has one.
    pub(super) status: Option<Shape>,
    /// Whether it has a scale.
    pub(super) scale: bool,
    /// Whether it takes strategic patches.
    pub(super) strategic: bool,
    /// What has to be defined first.
    pub(super) definition: Option<Step>,
}

/// A version.
pub(super) struct Door {
    /// The path of the collection.
    pub(super) path: String,
    /// As a step says it.
    pub(super) kind: String,
    pub(super) shape: Shape,
}

/// An entry of `kinds.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: String,
    kind: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    scale: bool,
    body: Value,
    #[serde(default)]
    status: Value,
    #[serde(default)]
    other: Option<Other>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Other {
    path: String,
    kind: String,
}

static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(include_str!("kinds.yaml"), options).expect("a test reads it")
});

impl Subject {
    /// One of the built-in kinds.
    pub(super) fn builtin(dice: &mut Dice) -> Self {
        let entry = dice.pick(&ENTRIES);
        let door = |path: &str, kind: &str| Door {
            path: path.to_owned(),
            kind: kind.to_owned(),
            shape: Shape::of_menu(&entry.body, find(kind).map(|builtin| &builtin.schema)),
        };
        let other = entry.other.iter().map(|other| door(&other.path, &other.kind));
        let status = (!entry.status.is_null()).then(|| {
            let schema = find(&entry.kind).and_then(|builtin| builtin.schema.member("status"));
            Shape::of_menu(&entry.status, schema)
        });
        Self {
            name: entry.name.clone().unwrap_or_else(|| "a".to_owned()),
            doors: std::iter::once(door(&entry.path, &entry.kind)).chain(other).collect(),
            status,
            scale: entry.scale,
            strategic: true,
            definition: None,
        }
    }

    /// Things of a random schema, in one version or two.
    pub(super) fn custom(dice: &mut Dice) -> Self {
        let properties = schema::properties(dice);
        let scale = dice.one_in(4);
        let mut parts = json!({"status": {}});
        if scale {
            parts["scale"] = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        }
        let version = |name: &str, properties: &Value| {
            json!({
                "name": name, "served": true, "storage": name == "v1", "subresources": parts,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            })
        };
        let door = |path: &str, kind: &str, properties: &Value| Door {
            path: path.to_owned(),
            kind: kind.to_owned(),
            shape: Shape::of_schema(&json!({"type": "object", "properties": {"spec": properties["spec"]}})),
        };
        let mut doors = vec![door("<things>", "Thing", &properties)];
        let mut definition = Step { define: Some(properties.clone()), ..Step::default() };
        definition.version = json!({"subresources": parts});
        if dice.one_in(5) {
            let other = schema::other_properties(dice, &properties);
            doors.push(door("/apis/<group>/v2/namespaces/<ns>/things", "<group>/v2/Thing", &other));
            definition.crd = json!({"versions": [version("v1", &properties), version("v2", &other)]});
        }
        let status = Shape::of_schema(&properties["status"]);
        let definition = Some(definition);
        Self { name: "a".to_owned(), doors, status: Some(status), scale, strategic: false, definition }
    }
}

fn find(kind: &str) -> Option<&'static Builtin> {
    let (version, kind) = kind.rsplit_once('/')?;
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    Builtin::find(&Gvk::new(group, version, kind))
}

#[cfg(test)]
mod tests {
    use super::super::shape::{Form, Items};
    use super::*;

    #[test]
    fn every_kind_of_the_menu_is_built_in() {
        for entry in ENTRIES.iter() {
            let kinds = std::iter::once(&entry.kind).chain(entry.other.iter().map(|other| &other.kind));
            for kind in kinds {
                assert!(find(kind).is_some(), "{kind} is not built in");
            }
        }
    }

    #[test]
    fn keys_come_from_the_schema() {
        let entry = ENTRIES.iter().find(|entry| entry.kind == "v1/Service").unwrap();
        let shape = Shape::of_menu(&entry.body, find(&entry.kind).map(|builtin| &builtin.schema));
        let ports = shape.member("spec").and_then(|spec| spec.member("ports")).unwrap();
        let Form::List(_, Items::Keyed(keys)) = &ports.form else { panic!("{ports:?}") };
        assert_eq!(keys, &[("port".to_owned(), keys[0].1.clone()), ("protocol".to_owned(), Some("TCP".into()))]);
    }
}
