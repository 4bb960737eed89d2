//! The definitions as OpenAPI writes them: for schemas to be compiled from, and for documents.

use serde_json::{Map, Value, json};

use super::data::{self, Field, Presence, Special, Type};

/// What a rendering is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// To be compiled: references are bare names of ours, and Go types are told.
    Schema,
    /// To be shown: as in `components.schemas` of a document.
    Document,
}

/// The schema of a definition such as `core.v1.Pod`.
pub(crate) fn definition(name: &str, view: View) -> Option<Value> {
    if let Some(special) = Special::ALL.into_iter().find(|special| special.name() == name) {
        return Some(special.schema(view));
    }
    let name = data::known(name)?;
    let fields = data::flat_fields(name);
    let required: Vec<&str> = fields.iter().filter(|field| field.is_required()).map(|field| field.name).collect();
    let properties: Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), property(field, view))).collect();
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if data::is_atomic(name) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    match view {
        View::Schema => schema["x-go-type"] = data::go_name(name).into(),
        View::Document => describe(&mut schema, name),
    }
    Some(schema)
}

/// What only readers of documents are told of a struct: which kind it is, and which of its fields exclude each other.
fn describe(schema: &mut Value, name: &str) {
    let mut parts = name.rsplit('.');
    if let (Some(group), Some(kind), Some(version)) = (data::group(name), parts.next(), parts.next()) {
        schema["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
    }
    let unions: Vec<Value> = data::unions(name).map(|(chooser, fields)| union(chooser, &fields)).collect();
    if !unions.is_empty() {
        schema["x-kubernetes-unions"] = unions.into();
    }
}

fn union(chooser: &str, fields: &[&str]) -> Value {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        first.to_uppercase() + rest
    };
    let fields: Map<String, Value> = fields.iter().map(|field| ((*field).to_owned(), capital(field).into())).collect();
    let mut union = json!({"fields-to-discriminateBy": fields});
    if !chooser.is_empty() {
        union["discriminator"] = chooser.into();
    }
    union
}

fn property(field: &Field, view: View) -> Value {
    let mut schema = typed(field.kind, view);
    if let Some(list) = field.mark("l") {
        let (kind, keys) = list.split_once('(').unwrap_or((list, ""));
        schema["x-kubernetes-list-type"] = kind.into();
        let keys = keys.trim_end_matches(')');
        if !keys.is_empty() {
            schema["x-kubernetes-list-map-keys"] = keys.split(',').collect();
        }
    }
    for (letter, name) in
        [("m", "x-kubernetes-map-type"), ("s", "x-kubernetes-patch-strategy"), ("k", "x-kubernetes-patch-merge-key")]
    {
        if let Some(value) = field.mark(letter) {
            schema[name] = value.into();
        }
    }
    if let Some(default) = default(field) {
        schema["default"] = default;
    }
    if view == View::Document { shown(schema, field) } else { schema }
}

/// What only readers of documents are told of a field. Beside a reference nothing counts, so it is wrapped.
fn shown(mut schema: Value, field: &Field) -> Value {
    if let Some(reference) = schema.as_object_mut().and_then(|members| members.remove("$ref")) {
        let reference = json!({"$ref": reference});
        if field.is("$") {
            return reference;
        }
        schema["allOf"] = json!([reference]);
    }
    if let Some(values) = field.mark("e") {
        let values: Value = values.split(',').map(|value| value.replace('_', " ")).collect();
        let inner = ["items", "additionalProperties"].into_iter().find(|inner| schema.get(inner).is_some());
        match inner {
            Some(inner) => schema[inner]["enum"] = values,
            None => schema["enum"] = values,
        }
    }
    if let Some(zero) = zero(field).filter(|_| schema.get("default").is_none()) {
        schema["default"] = zero;
    }
    schema
}

/// The default of what Go writes even if it is zero, as OpenAPI tells it.
fn zero(field: &Field) -> Option<Value> {
    let zero = match field.kind {
        Type::Text(_) => "".into(),
        Type::Bool(_) => false.into(),
        Type::Int32(_) | Type::Int64(_) | Type::Double => 0.into(),
        Type::Special(Special::Quantity | Special::IntOrString) => return None,
        Type::Struct(_) | Type::Special(_) => json!({}),
        Type::List(_) | Type::Listed(_) | Type::Map(_) | Type::Bytes => return None,
    };
    (field.presence == Presence::Zero || field.is("D")).then_some(zero)
}

/// What OpenAPI says that a field is by itself.
pub(crate) fn default(field: &Field) -> Option<Value> {
    serde_json::from_str(field.mark("d")?).ok()
}

fn typed(kind: Type, view: View) -> Value {
    let scalar = |kind: &str, format: &str, go: &str| {
        let mut schema = json!({"type": kind});
        if !format.is_empty() {
            schema["format"] = format.into();
        }
        if !go.is_empty() && view == View::Schema {
            schema["x-go-type"] = go.into();
        }
        schema
    };
    match kind {
        Type::List(inner) | Type::Listed(inner) => {
            json!({"type": "array", "items": typed(Type::read(inner), view)})
        }
        Type::Map(inner) => json!({"type": "object", "additionalProperties": typed(Type::read(inner), view)}),
        Type::Text(go) => scalar("string", "", go),
        Type::Bool(go) => scalar("boolean", "", go),
        Type::Int32(go) => scalar("integer", "int32", go),
        Type::Int64(go) => scalar("integer", "int64", go),
        Type::Double => scalar("number", "double", ""),
        Type::Bytes => scalar("string", "byte", ""),
        Type::Special(special) => reference(special.name(), view),
        Type::Struct(name) => reference(name, view),
    }
}

fn reference(name: &str, view: View) -> Value {
    match view {
        View::Schema => json!({"$ref": name}),
        View::Document => json!({"$ref": format!("#/components/schemas/{}", data::long_name(name))}),
    }
}

/// The names of what is something of its own.
pub(crate) fn specials() -> impl Iterator<Item = &'static str> {
    Special::ALL.into_iter().map(Special::name)
}

/// The definition that a type refers to.
pub(crate) fn referred(kind: Type) -> Option<&'static str> {
    match kind {
        Type::List(inner) | Type::Listed(inner) | Type::Map(inner) => referred(Type::read(inner)),
        Type::Special(special) => Some(special.name()),
        Type::Struct(name) => Some(name),
        Type::Text(_) | Type::Bool(_) | Type::Int32(_) | Type::Int64(_) | Type::Double | Type::Bytes => None,
    }
}

/// What Go writes for a field that has no value, if it writes something.
pub(crate) fn nothing(field: &Field) -> Option<Value> {
    match field.presence {
        Presence::Pointer | Presence::Omitted => None,
        Presence::Null => Some(Value::Null),
        Presence::Zero => Some(match field.kind {
            Type::Text(_) => "".into(),
            Type::Bool(_) => false.into(),
            Type::Int32(_) | Type::Int64(_) | Type::Double => 0.into(),
            Type::Struct(_) => json!({}),
            Type::Special(Special::Quantity) => "0".into(),
            Type::Special(Special::IntOrString) => 0.into(),
            Type::Special(Special::Duration) => "0s".into(),
            Type::List(_) | Type::Listed(_) | Type::Map(_) | Type::Bytes | Type::Special(_) => Value::Null,
        }),
    }
}

impl Special {
    const ALL: [Self; 11] = [
        Self::Time,
        Self::MicroTime,
        Self::Duration,
        Self::Fields,
        Self::Quantity,
        Self::IntOrString,
        Self::Raw,
        Self::Json,
        Self::SchemaOrBool,
        Self::SchemaOrArray,
        Self::SchemaOrStrings,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Time => "meta.v1.Time",
            Self::MicroTime => "meta.v1.MicroTime",
            Self::Duration => "meta.v1.Duration",
            Self::Fields => "meta.v1.FieldsV1",
            Self::Quantity => "resource.Quantity",
            Self::IntOrString => "intstr.IntOrString",
            Self::Raw => "runtime.RawExtension",
            Self::Json => "apiextensions.v1.JSON",
            Self::SchemaOrBool => "apiextensions.v1.JSONSchemaPropsOrBool",
            Self::SchemaOrArray => "apiextensions.v1.JSONSchemaPropsOrArray",
            Self::SchemaOrStrings => "apiextensions.v1.JSONSchemaPropsOrStringArray",
        }
    }

    fn schema(self, view: View) -> Value {
        let mut schema = match self {
            Self::Time | Self::MicroTime => json!({"type": "string", "format": "date-time"}),
            Self::Duration => json!({"type": "string"}),
            Self::Fields | Self::Raw => json!({"type": "object"}),
            Self::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            Self::IntOrString => json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
            Self::Json | Self::SchemaOrBool | Self::SchemaOrArray | Self::SchemaOrStrings => json!({}),
        };
        if view == View::Document {
            return schema;
        }
        match self {
            Self::Time | Self::MicroTime | Self::Duration | Self::Quantity | Self::IntOrString => {
                schema["x-go-type"] = data::go_name(self.name()).into();
            }
            Self::Fields | Self::Raw | Self::Json | Self::SchemaOrStrings => {
                schema["x-kubernetes-preserve-unknown-fields"] = true.into();
            }
            // Either a schema or something else: what it is decides who reads it.
            Self::SchemaOrBool | Self::SchemaOrArray => {
                let props = definition("apiextensions.v1.JSONSchemaProps", View::Schema).unwrap_or_default();
                schema["properties"] = props["properties"].clone();
            }
        }
        if matches!(self, Self::Fields | Self::Raw) {
            schema["x-go-type"] = data::go_name(self.name()).into();
        }
        schema
    }
}
