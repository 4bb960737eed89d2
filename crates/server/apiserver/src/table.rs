//! Objects as rows for people, and as metadata only.

use concert_api::{Status, Time};
use concert_schema::Column;
use serde_json::{Value, json};

use crate::target::{Query, Target};

/// A Table of these objects.
pub(crate) fn table(
    target: &Target,
    query: &Query,
    objects: &[Value],
    metadata: &Value,
    now: Time,
) -> Result<Value, Status> {
    let include = query.include_object.as_str();
    if !matches!(include, "" | "None" | "Object" | "Metadata") {
        return Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {include:?}: must be 'Metadata', 'Object', 'None', or empty"
        )));
    }
    let version = target.version();
    let columns = &version.columns;
    let rows: Vec<Value> = objects.iter().map(|object| row(columns, query, object, now)).collect();
    let definitions: Vec<Value> = columns.iter().map(Column::definition).collect();
    Ok(json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    }))
}

fn row(columns: &[Column], query: &Query, object: &Value, now: Time) -> Value {
    let cells: Vec<Value> = columns.iter().map(|column| column.cell(object, now)).collect();
    let object = match query.include_object.as_str() {
        "None" => Value::Null,
        "Object" => object.clone(),
        _ => metadata_only(object),
    };
    json!({"cells": cells, "object": object})
}

/// A `PartialObjectMetadata` of an object.
pub(crate) fn metadata_only(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
