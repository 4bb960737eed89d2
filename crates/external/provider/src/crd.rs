//! The CustomResourceDefinition of a kind: the author's schemas inside the envelope of a managed resource.

mod structural;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::{Column, Kind, Resource, Shape};

/// A schema that Kubernetes does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot make a structural schema of {path}: {problem}")]
pub struct CrdError {
    /// The field at fault.
    pub path: String,
    /// What is wrong with it, and what to do.
    pub problem: String,
}

/// The CustomResourceDefinition of a resource's kind.
///
/// # Errors
/// If the schema of its parameters or observation cannot be made structural (a recursive type, an enum whose variants
/// disagree about a field).
pub fn crd<R: Resource>() -> Result<Value, CrdError> {
    let shape = R::Parameters::SHAPE;
    let parameters = schema::<R::Parameters>("spec.forProvider")?;
    let observation = structural::optional(schema::<R::Observation>("status.atProvider")?);
    Ok(definition(&shape, parameters, observation))
}

/// The structural schema of a type.
pub(crate) fn schema<T: JsonSchema>(path: &str) -> Result<Value, CrdError> {
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    structural::structural(path, schema.to_value())
}

fn definition(shape: &Shape, parameters: Value, observation: Value) -> Value {
    let mut description = parameters["description"].clone();
    if description.is_null() {
        description = Value::from(format!("A {}.", shape.kind));
    }
    let mut names = json!({
        "kind": shape.kind,
        "listKind": format!("{}List", shape.kind),
        "plural": shape.plural,
        "singular": shape.singular,
        "categories": ["crossplane", "managed", "concert"],
    });
    if !shape.short.is_empty() {
        names["shortNames"] = json!(shape.short);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", shape.plural, shape.group) },
        "spec": {
            "group": shape.group,
            "names": names,
            "scope": if shape.namespaced { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": shape.version,
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": columns(shape.columns),
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "description": description,
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": { "type": "string" },
                        "kind": { "type": "string" },
                        "metadata": { "type": "object" },
                        "spec": spec(shape, parameters),
                        "status": status(observation),
                    },
                }},
            }],
        },
    })
}

fn columns(own: &[Column]) -> Value {
    let column = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
    let mut all = vec![
        column("SYNCED", "string", ".status.conditions[?(@.type=='Synced')].status"),
        column("READY", "string", ".status.conditions[?(@.type=='Ready')].status"),
        column("EXTERNAL-NAME", "string", ".metadata.annotations.crossplane\\.io/external-name"),
    ];
    all.extend(own.iter().map(|own| column(own.name, own.kind, own.path)));
    all.push(column("AGE", "date", ".metadata.creationTimestamp"));
    Value::Array(all)
}

fn spec(shape: &Shape, parameters: Value) -> Value {
    let name = json!({ "type": "string", "minLength": 1 });
    let secret = if shape.namespaced {
        json!({ "type": "object", "required": ["name"], "properties": { "name": name } })
    } else {
        json!({ "type": "object", "required": ["name", "namespace"], "properties": { "name": name, "namespace": name } })
    };
    let described = |mut schema: Value, text: &str| {
        schema["description"] = Value::from(text);
        schema
    };
    let reference = json!({ "type": "object", "required": ["name"], "properties": { "name": name } });
    let deletion = json!({ "type": "string", "enum": ["Delete", "Orphan"], "default": "Delete" });
    let management = json!({
        "type": "array",
        "default": ["*"],
        "items": { "type": "string", "enum": ["Observe", "Create", "Update", "Delete", "LateInitialize", "*"] },
    });
    json!({
        "type": "object",
        "required": ["forProvider"],
        "properties": {
            "forProvider": parameters,
            "deletionPolicy": described(deletion, "What happens to the external resource when this object is deleted."),
            "managementPolicies": described(management, "What may be done to the external resource."),
            "providerConfigRef": described(reference, "Which configuration of the provider to use."),
            "writeConnectionSecretToRef": described(secret, "The Secret to which connection details are written."),
        },
    })
}

fn status(observation: Value) -> Value {
    let text = json!({ "type": "string" });
    let condition = json!({
        "type": "object",
        "required": ["type", "status", "reason", "lastTransitionTime"],
        "properties": {
            "type": text,
            "status": text,
            "reason": text,
            "message": text,
            "lastTransitionTime": { "type": "string", "format": "date-time" },
            "observedGeneration": { "type": "integer", "format": "int64" },
        },
    });
    json!({
        "type": "object",
        "properties": {
            "atProvider": observation,
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": condition,
            },
            "observedGeneration": { "type": "integer", "format": "int64" },
        },
    })
}
