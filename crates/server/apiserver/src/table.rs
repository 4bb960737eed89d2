//! Objects as rows for people, and as metadata only.

use bytes::{Bytes, BytesMut};
use concert_api::{Status, Time};
use concert_schema::Column;
use serde_json::{Value, json};

use crate::beside::Stored;
use crate::encode;
use crate::kinds::{Resource, Version};
use crate::respond::{Count, Form, not_acceptable};
use crate::target::{Part, Query, Target};

/// A Table of one object.
pub(crate) fn table(
    target: &Target,
    query: &Query,
    api_version: &str,
    object: &Value,
    metadata: &Value,
    now: Time,
) -> Result<Value, Status> {
    let cells = target.version().cells(object, now);
    one_row(query, api_version, &definitions(target), &cells, object, metadata)
}

/// A Table of one object with these cells.
pub(crate) fn one_row(
    query: &Query,
    api_version: &str,
    columns: &Value,
    cells: &[Value],
    object: &Value,
    metadata: &Value,
) -> Result<Value, Status> {
    check_included(query)?;
    let object = included(&query.include_object, api_version, object);
    Ok(json!({
        "kind": "Table", "apiVersion": api_version, "metadata": metadata, "columnDefinitions": columns,
        "rows": [{"cells": cells, "object": object}],
    }))
}

/// Whether rows can have with them what the client wants.
pub(crate) fn check_included(query: &Query) -> Result<(), Status> {
    let include = query.include_object.as_str();
    if matches!(include, "" | "None" | "Object" | "Metadata") {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "Unable to convert to Table as requested: includeObject: Invalid value: {include:?}: must be 'Metadata', 'Object', 'None', or empty"
    )))
}

/// The columns.
pub(crate) fn definitions(target: &Target) -> Value {
    target.version().columns().iter().map(Column::definition).collect()
}

/// The row of an object.
pub(crate) fn row(target: &Target, include: &str, api_version: &str, object: &Value, now: Time) -> Value {
    json!({"cells": target.version().cells(object, now), "object": included(include, api_version, object)})
}

/// What of an object a row has with it.
fn included(include: &str, api_version: &str, object: &Value) -> Value {
    match include {
        "None" => Value::Null,
        "Object" => object.clone(),
        _ => metadata_only(api_version, object),
    }
}

/// A `PartialObjectMetadata` of an object.
pub(crate) fn metadata_only(api_version: &str, object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": object["metadata"]})
}

/// The same of a stored object, whose metadata nearly always can be sent as they are.
pub(crate) fn metadata_bytes(resource: &Resource, version: &Version, api_version: &str, entry: &Stored) -> Bytes {
    let is_other = version.stored().is_some() || encode::is_other(resource, version, entry);
    let stored = entry.beside.object.as_ref().filter(|_| !is_other).and_then(|object| object.field(&["metadata"]));
    let Some(metadata) = stored else {
        let object = encode::tree(resource, version, entry).unwrap_or_default();
        return metadata_only(api_version, &object).to_string().into();
    };
    let mut bytes = BytesMut::with_capacity(metadata.len() + 96);
    bytes.extend_from_slice(
        format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"PartialObjectMetadata\",\"metadata\":").as_bytes(),
    );
    bytes.extend_from_slice(metadata);
    bytes.extend_from_slice(b"}");
    bytes.freeze()
}

/// Whoever asks for the metadata of one object cannot have many, and the other way round.
pub(crate) fn check_count(target: &Target, form: Form, found: Count) -> Result<(), Status> {
    let message = match (form, found) {
        (Form::Metadata(_, Count::One), Count::Many) => {
            let kind = go_type(target, &target.resource.list_kind, "UnstructuredList");
            format!("you requested PartialObjectMetadata, but the requested object is a list ({kind})")
        }
        (Form::Metadata(_, Count::Many), Count::One) => {
            let kind = go_type(target, &target.resource.kind, "Unstructured");
            format!("you requested PartialObjectMetadataList, but the requested object is not a list ({kind})")
        }
        _ => return Ok(()),
    };
    Err(not_acceptable(message))
}

/// What the real server calls a kind inside.
fn go_type(target: &Target, kind: &str, custom: &str) -> String {
    if target.part == Part::Scale {
        return "*autoscaling.Scale".to_owned();
    }
    if target.resource.is_custom() {
        return format!("*unstructured.{custom}");
    }
    match target.resource.stored_as.group.split('.').next() {
        None | Some("") => format!("*core.{kind}"),
        Some(package) => format!("*{package}.{kind}"),
    }
}
