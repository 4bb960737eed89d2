//! What values a place may hold: of a random schema, or of a built-in kind.

use concert_schema::{Kind, ListType, Schema};
use serde_json::{Value, json};

/// A place for values.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) form: Form,
    pub(super) nullable: bool,
}

/// What is there.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// One of these.
    One(Vec<Value>),
    /// An object with these members.
    Members(Vec<Member>),
    /// An object with any members of one shape.
    Map(Box<Shape>),
    /// A list.
    List(Box<Shape>, Items),
    /// Whatever comes; an object with these members if there are any.
    Free(Vec<Member>),
    /// Another object.
    Embedded,
}

/// A member of an object.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// Whether an object without it is refused.
    pub(super) needed: bool,
    pub(super) shape: Shape,
}

/// How the items of a list are told apart.
#[derive(Clone, Debug)]
pub(super) enum Items {
    /// Not at all.
    Whole,
    /// By value.
    Set,
    /// By these members; some have a default.
    Keyed(Vec<(String, Option<Value>)>),
}

impl Shape {
    fn new(form: Form) -> Self {
        Self { form, nullable: false }
    }

    /// The shape of a member.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        match &self.form {
            Form::Members(members) | Form::Free(members) => {
                members.iter().find(|member| member.name == name).map(|member| &member.shape)
            }
            Form::Map(shape) => Some(shape),
            Form::One(_) | Form::List(..) | Form::Embedded => None,
        }
    }

    /// Whether an object without this member is refused.
    pub(super) fn needs(&self, name: &str) -> bool {
        match &self.form {
            Form::Members(members) | Form::Free(members) => {
                members.iter().any(|member| member.needed && member.name == name)
            }
            Form::One(_) | Form::Map(_) | Form::List(..) | Form::Embedded => false,
        }
    }

    /// That of a random schema.
    pub(super) fn of_schema(schema: &Value) -> Self {
        Self { form: form(schema), nullable: schema["nullable"] == true }
    }

    /// That of a built-in kind's menu: see `kinds.yaml`.
    pub(super) fn of_menu(menu: &Value, schema: Option<&Schema>) -> Self {
        match menu {
            Value::Object(fields) if fields.contains_key("some") => {
                let items = Self::of_menu(&menu["some"], schema.and_then(Schema::items));
                Self::new(Form::List(Box::new(items), menu_items(schema)))
            }
            Value::Object(fields) => {
                let member = |(name, menu): (&String, &Value)| {
                    let (name, needed) = name.strip_suffix('!').map_or((name.as_str(), false), |name| (name, true));
                    let shape = Self::of_menu(menu, schema.and_then(|schema| schema.member(name)));
                    Member { name: name.to_owned(), needed, shape }
                };
                Self::new(Form::Members(fields.iter().map(member).collect()))
            }
            Value::Array(choices) => Self::new(Form::One(choices.clone())),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Self::new(Form::One(usual(schema))),
        }
    }
}

/// What a field may hold of which the menu says nothing.
fn usual(schema: Option<&Schema>) -> Vec<Value> {
    match schema.and_then(Schema::kind) {
        Some(Kind::Boolean) => vec![true.into(), false.into()],
        Some(Kind::Integer | Kind::Number) => vec![1.into(), 2.into(), 3.into()],
        Some(Kind::String) => vec!["x".into(), "y".into()],
        Some(Kind::Object | Kind::Array) | None => vec![json!({})],
    }
}

fn menu_items(schema: Option<&Schema>) -> Items {
    let keyed = |schema: &Schema, keys: &[String]| {
        let default = |key: &String| schema.items().and_then(|items| items.key_default(key)).cloned();
        Items::Keyed(keys.iter().map(|key| (key.clone(), default(key))).collect())
    };
    match schema {
        Some(schema) => match schema.list_type() {
            Some(ListType::Map(keys)) => keyed(schema, keys),
            Some(ListType::Set) => Items::Set,
            Some(ListType::Atomic) => Items::Whole,
            None if schema.patch_merge_key().is_empty() => Items::Whole,
            None => keyed(schema, &[schema.patch_merge_key().to_owned()]),
        },
        None => Items::Whole,
    }
}

fn form(schema: &Value) -> Form {
    let is_free = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let members = || {
        let needed: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let member = |(name, schema): (&String, &Value)| Member {
            name: name.clone(),
            needed: needed.contains(&name.as_str()),
            shape: Shape::of_schema(schema),
        };
        schema["properties"].as_object().into_iter().flatten().map(member).collect::<Vec<_>>()
    };
    match schema["type"].as_str() {
        Some("integer") => Form::One(vec![0.into(), 1.into(), 2.into()]),
        Some("number") => Form::One(vec![1.into(), json!(1.5), 2.into()]),
        Some("boolean") => Form::One(vec![true.into(), false.into()]),
        Some("string") if schema["format"] == "date-time" => {
            Form::One(vec!["2020-01-01T00:00:00Z".into(), "2020-01-02T00:00:00Z".into()])
        }
        Some("string") => Form::One(vec!["x".into(), "y".into(), "z".into()]),
        Some("array") => Form::List(Box::new(Shape::of_schema(&schema["items"])), schema_items(schema)),
        Some("object") if schema["x-kubernetes-embedded-resource"] == true => Form::Embedded,
        Some("object") if schema["additionalProperties"].is_object() => {
            Form::Map(Box::new(Shape::of_schema(&schema["additionalProperties"])))
        }
        Some("object") if is_free || schema["properties"].is_null() => Form::Free(members()),
        Some("object") => Form::Members(members()),
        _ if schema["x-kubernetes-int-or-string"] == true => Form::One(vec![1.into(), "50%".into()]),
        _ => Form::Free(Vec::new()),
    }
}

fn schema_items(schema: &Value) -> Items {
    let keys = || schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Items::Set,
        Some("map") => {
            let default = |key: &str| schema["items"]["properties"][key].get("default").cloned();
            Items::Keyed(keys().map(|key| (key.to_owned(), default(key))).collect())
        }
        _ => Items::Whole,
    }
}
