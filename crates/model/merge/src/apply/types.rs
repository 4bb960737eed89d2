//! What a schema means for merging: every place of an object is a scalar, a list or a map.
//!
//! A place may allow several of them (`x-kubernetes-int-or-string`, `x-kubernetes-preserve-unknown-fields`): then the
//! value decides. Types are views on a compiled [`Schema`], made on the way down: nothing is stored for a kind.

use concert_schema::{Kind, ListType, Others, Schema};
use serde_json::Value;

/// The Go type of amounts: scalars, whatever their schema says.
const QUANTITY: &str = "resource.Quantity";
/// The Go type of objects that nobody looks into.
const RAW: &str = "runtime.RawExtension";

/// What may stand at a place.
#[derive(Clone, Copy)]
pub(crate) enum Type<'s> {
    /// What a schema says.
    Declared(Declared<'s>),
    /// Anything; objects are merged member by member, lists as a whole.
    Deduced,
    /// Anything, as a whole.
    Whole,
    /// Nothing: the schema does not know the place.
    Undeclared,
}

/// A place that a schema describes.
#[derive(Clone, Copy)]
pub(crate) struct Declared<'s> {
    schema: &'s Schema,
    form: Form,
    /// Whether unknown members are kept, here or somewhere above.
    preserve: bool,
    /// Whether it is an object with `apiVersion`, `kind` and `metadata`.
    resource: bool,
}

/// What a schema allows.
#[derive(Clone, Copy)]
enum Form {
    Map,
    List,
    Scalar(Scalar),
    /// All of them.
    Any,
}

/// Which of its possibilities a place takes for a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// An object.
    Map,
    /// A text, a number, a boolean.
    Scalar,
    /// A list.
    List,
    /// Several are possible and the value (null) does not decide: treated as an object.
    Open,
    /// None is possible.
    Nothing,
}

/// What a scalar may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scalar {
    Numeric,
    Text,
    Boolean,
    Untyped,
}

/// A member of an object.
#[derive(Clone, Copy)]
pub(crate) struct Member<'s> {
    pub(crate) kind: Type<'s>,
    /// Whether the schema knows it by name.
    pub(crate) named: bool,
}

/// The members of an object.
#[derive(Clone, Copy)]
pub(crate) struct MapType<'s> {
    of: Type<'s>,
    pub(crate) atomic: bool,
}

/// The items of a list.
#[derive(Clone, Copy)]
pub(crate) struct ListOf<'s> {
    pub(crate) item: Type<'s>,
    pub(crate) relation: Relation<'s>,
}

/// Which items of two lists are the same.
#[derive(Clone, Copy)]
pub(crate) enum Relation<'s> {
    /// None: lists are replaced.
    Atomic,
    /// Equal ones.
    Set,
    /// Those with the same values in these members.
    Keys(&'s [String]),
    /// Those with the same value in this member.
    Key(&'s str),
}

impl<'s> Relation<'s> {
    /// The members that make items the same.
    pub(crate) fn keys(self) -> impl Iterator<Item = &'s str> {
        let (many, one): (&'s [String], Option<&'s str>) = match self {
            Self::Atomic | Self::Set => (&[], None),
            Self::Keys(keys) => (keys, None),
            Self::Key(key) => (&[], Some(key)),
        };
        many.iter().map(String::as_str).chain(one)
    }
}

impl<'s> Type<'s> {
    /// The type of a whole object of a kind.
    pub(crate) fn of_object(schema: &'s Schema) -> Self {
        Self::declared(schema, false, true)
    }

    fn declared(schema: &'s Schema, inherited: bool, resource: bool) -> Self {
        let form = match (schema.kind(), schema.go_type()) {
            (_, RAW) => return Self::Whole,
            (_, QUANTITY) => Form::Scalar(Scalar::Untyped),
            (Some(Kind::Object), _) => Form::Map,
            (Some(Kind::Array), _) => Form::List,
            (Some(Kind::Integer | Kind::Number), _) => Form::Scalar(Scalar::Numeric),
            (Some(Kind::Boolean), _) => Form::Scalar(Scalar::Boolean),
            (Some(Kind::String), _) if matches!(schema.format_name(), "" | "byte") => Form::Scalar(Scalar::Text),
            (Some(Kind::String), _) => Form::Scalar(Scalar::Untyped),
            (None, _) if schema.preserves_unknown() => Form::Any,
            // Custom resources have a type or keep what is unknown: a number or a text, or a Go type of any shape.
            (None, _) => return Self::Deduced,
        };
        let preserve = inherited || schema.preserves_unknown();
        let resource = resource || schema.is_embedded_resource();
        Self::Declared(Declared { schema, form, preserve, resource })
    }

    /// What it is for a value.
    pub(crate) fn choose(self, value: &Value) -> Choice {
        match self {
            Self::Undeclared => Choice::Nothing,
            Self::Declared(Declared { form: Form::Map, .. }) => Choice::Map,
            Self::Declared(Declared { form: Form::List, .. }) => Choice::List,
            Self::Declared(Declared { form: Form::Scalar(_), .. }) => Choice::Scalar,
            Self::Declared(Declared { form: Form::Any, .. }) | Self::Deduced | Self::Whole => chosen_by(value),
        }
    }

    /// What it is without a value: objects come first.
    pub(crate) fn first_choice(self) -> Choice {
        self.choose(&Value::Null)
    }

    /// Its scalar side.
    pub(crate) fn scalar(self) -> Scalar {
        match self {
            Self::Declared(Declared { form: Form::Scalar(scalar), .. }) => scalar,
            Self::Declared(_) | Self::Deduced | Self::Whole | Self::Undeclared => Scalar::Untyped,
        }
    }

    /// Its object side, if it may be an object.
    pub(crate) fn map(self) -> Option<MapType<'s>> {
        let atomic = match self {
            Self::Declared(Declared { schema, .. }) => {
                let possible = matches!(self.first_choice(), Choice::Map | Choice::Open);
                return possible.then(|| MapType { of: self, atomic: schema.is_atomic_map() });
            }
            Self::Deduced => false,
            Self::Whole => true,
            Self::Undeclared => return None,
        };
        Some(MapType { of: self, atomic })
    }

    /// Its list side, if it may be a list.
    pub(crate) fn list(self) -> Option<ListOf<'s>> {
        let Self::Declared(declared) = self else {
            let possible = !matches!(self, Self::Undeclared);
            return possible.then_some(ListOf { item: Self::Whole, relation: Relation::Atomic });
        };
        if !matches!(self.first_choice(), Choice::List | Choice::Open) {
            return None;
        }
        let schema = declared.schema;
        let item = schema.items().map_or(Self::Whole, |items| Self::declared(items, declared.preserve, false));
        Some(ListOf { item, relation: relation(schema) })
    }
}

fn chosen_by(value: &Value) -> Choice {
    match value {
        Value::Null => Choice::Open,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Choice::Scalar,
        Value::Array(_) => Choice::List,
        Value::Object(_) => Choice::Map,
    }
}

fn relation(schema: &Schema) -> Relation<'_> {
    match schema.list_type() {
        Some(ListType::Atomic) => Relation::Atomic,
        Some(ListType::Set) => Relation::Set,
        Some(ListType::Map(keys)) => Relation::Keys(keys),
        None => match (schema.patch_strategy(), schema.patch_merge_key()) {
            ("merge" | "merge,retainKeys", "") => Relation::Set,
            ("merge" | "merge,retainKeys", key) => Relation::Key(key),
            _ => Relation::Atomic,
        },
    }
}

impl<'s> MapType<'s> {
    /// A member by its name.
    pub(crate) fn member(self, name: &str) -> Member<'s> {
        let Type::Declared(declared) = self.of else { return Member { kind: self.others(), named: false } };
        if declared.resource && name == "metadata" {
            return Member { kind: Type::declared(Schema::metadata(), false, false), named: true };
        }
        match declared.schema.property(name) {
            Some(schema) => Member { kind: Type::declared(schema, declared.preserve, false), named: true },
            // Where the schema is silent about them they are texts: what a deduced type makes of them is the same.
            None if declared.resource && matches!(name, "apiVersion" | "kind") => {
                Member { kind: Type::Deduced, named: true }
            }
            None => Member { kind: self.others(), named: false },
        }
    }

    /// All members that have no name in the schema.
    pub(crate) fn others(self) -> Type<'s> {
        let declared = match self.of {
            Type::Declared(declared) => declared,
            Type::Whole => return Type::Whole,
            Type::Deduced | Type::Undeclared => return Type::Deduced,
        };
        match declared.schema.others() {
            Others::Like(schema) => Type::declared(schema, declared.preserve, false),
            Others::Any => Type::Deduced,
            Others::Never => Type::Undeclared,
            Others::Unsaid => {
                let free = declared.preserve || (!declared.resource && !declared.schema.has_properties());
                if free { Type::Deduced } else { Type::Undeclared }
            }
        }
    }

    /// The default of a member, which identifies items of lists that leave it out.
    pub(crate) fn default_of(self, name: &str) -> Option<&'s Value> {
        let Type::Declared(declared) = self.of else { return None };
        declared.schema.key_default(name)
    }

    /// Whether no member has a name and all others are free: then sets of its fields are never adapted.
    pub(crate) fn is_free(self) -> bool {
        let named = match self.of {
            Type::Declared(declared) => declared.resource || declared.schema.has_properties(),
            Type::Deduced | Type::Whole | Type::Undeclared => false,
        };
        let untyped = match self.others() {
            Type::Deduced => true,
            Type::Declared(Declared { schema, form, .. }) => {
                schema.go_type().is_empty() && matches!(form, Form::Scalar(Scalar::Untyped) | Form::Any)
            }
            Type::Whole | Type::Undeclared => false,
        };
        !named && untyped
    }
}
