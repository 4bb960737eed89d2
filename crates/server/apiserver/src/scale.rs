//! The scale subresource of custom resources: an `autoscaling/v1` Scale, read and written through three paths.

use bytes::Bytes;
use concert_api::{FieldError, FieldErrors, Gvk, Status, Time, meta};
use concert_schema::{JsonPath, Scale, age_of};
use serde_json::{Map, Value, json};

use crate::body::Media;
use crate::books;
use crate::incoming::Incoming;
use crate::respond::{Count, Form};
use crate::table;
use crate::target::{FieldValidation, Query, Target};

/// The paths of the workloads of built-in kinds, whose selector is no text.
pub(crate) fn of_workloads() -> Scale {
    let path = |text: &str| JsonPath::parse(text).expect("a plain path");
    Scale {
        spec_replicas: path(".spec.replicas"),
        status_replicas: path(".status.replicas"),
        label_selector: Some(path(".spec.selector")),
    }
}

/// The Scale of an object; one without replicas has none.
pub(crate) fn of(target: &Target, object: &Value) -> Result<Value, Status> {
    let paths = paths(target)?;
    if paths.spec_replicas.first(object).is_none() {
        let path = paths.spec_replicas.text();
        return Err(Status::internal(format!("the spec replicas field {path:?} does not exist")));
    }
    Ok(document(paths, object))
}

/// A Scale in the form that the client wants.
pub(crate) fn shaped(target: &Target, query: &Query, form: Form, scale: &Value, now: Time) -> Result<Bytes, Status> {
    table::check_count(target, form, Count::One)?;
    Ok(match form {
        Form::Object | Form::AggregatedDiscovery(_) => scale.to_string(),
        Form::Metadata(version, _) => table::metadata_only(version, scale).to_string(),
        Form::Table(version) => {
            let number = |part: &str| scale[part]["replicas"].as_i64().unwrap_or(0).into();
            let cells = [
                scale["metadata"]["name"].clone(),
                number("spec"),
                number("status"),
                age_of(&scale["metadata"]["creationTimestamp"], now),
            ];
            let metadata = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
            table::one_row(query, version, &columns(target), &cells, scale, &metadata)?.to_string()
        }
    }
    .into())
}

/// What people see of a Scale. That of a custom resource knows what a name and an age are.
fn columns(target: &Target) -> Value {
    let (name, age) = if target.resource.is_custom() { ("name", "date") } else { ("", "string") };
    let columns =
        [("Name", "string", name), ("Desired", "integer", ""), ("Available", "integer", ""), ("Age", age, "")];
    let column =
        |(name, kind, format)| json!({"name": name, "type": kind, "format": format, "description": "", "priority": 0});
    columns.into_iter().map(column).collect()
}

fn paths(target: &Target) -> Result<&Scale, Status> {
    target.version().scale.as_ref().ok_or_else(|| Status::internal("this version cannot be scaled"))
}

fn document(paths: &Scale, object: &Value) -> Value {
    let number = |path: &JsonPath| path.first(object).and_then(Value::as_i64).unwrap_or(0);
    let metadata: Map<String, Value> = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), object["metadata"].get(field)?.clone())))
        .collect();
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {},
        "status": {"replicas": number(&paths.status_replicas)},
    });
    if number(&paths.spec_replicas) != 0 {
        scale["spec"]["replicas"] = number(&paths.spec_replicas).into();
    }
    let selector = match paths.label_selector.as_ref().and_then(|path| path.first(object)) {
        Some(Value::String(text)) => text.clone(),
        Some(selector @ Value::Object(_)) => concert_schema::selector_text(selector),
        _ => String::new(),
    };
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// The Scale of an object for a patch to change; without replicas it has 0.
pub(crate) fn before(target: &Target, object: &Value) -> Result<Value, Status> {
    Ok(document(paths(target)?, object))
}

/// No replicas are written as nothing.
pub(crate) fn forget_zero(scale: &mut Value) {
    if scale["spec"]["replicas"] == 0
        && let Some(spec) = scale["spec"].as_object_mut()
    {
        spec.remove("replicas");
    }
}

/// Reads a Scale from the body of a PUT.
pub(crate) fn read(media: Media, body: &[u8], validation: FieldValidation) -> Result<Incoming, Status> {
    let document = media.decode(body).map_err(Status::bad_request)?;
    let mut value = document.value.clone();
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    if !value.is_object() || !matches!((text("apiVersion"), text("kind")), ("" | "autoscaling/v1", "" | "Scale")) {
        let why = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
        return Err(Status::bad_request(why));
    }
    let kind = books::scale_kind()?;
    if let Some(fault) = kind.decode_fault(&value) {
        return Err(Status::bad_request(fault));
    }
    let unknown: Vec<String> =
        kind.prune(&mut value).into_iter().map(|path| format!("unknown field {path:?}")).collect();
    match validation {
        FieldValidation::Ignore => Ok(Incoming { value, warnings: Vec::new(), is_hollow: false }),
        FieldValidation::Warn => {
            Ok(Incoming { value, warnings: [document.warnings(), unknown].concat(), is_hollow: false })
        }
        FieldValidation::Strict => match [document.refusals(), unknown].concat() {
            refusals if refusals.is_empty() => Ok(Incoming { value, warnings: Vec::new(), is_hollow: false }),
            refusals => Err(Status::bad_request(format!(
                "Scale in version \"v1\" cannot be handled as a Scale: strict decoding error: {}",
                refusals.join(", ")
            ))),
        },
    }
}

/// The object with the replicas of a changed Scale. The version that the Scale names counts for the object.
/// In a replaced one the uid counts as well, a patch does not reach it.
pub(crate) fn applied(target: &Target, scale: &Value, old: &Value, is_patch: bool) -> Result<Value, Status> {
    if let Some(why) = books::scale_kind()?.decode_fault(scale) {
        let why = why.split_once("cannot be handled as a Scale: ").map_or(why.as_str(), |(_, why)| why);
        let error = FieldError::invalid("patch", scale.to_string(), why);
        let mut status = Status::invalid(&Gvk::new("", "", ""), "", &[error]);
        status.message = status.message.replacen("\"\" is", " \"\" is", usize::from(!status.message.starts_with(' ')));
        return Err(status);
    }
    check_count(target, scale)?;
    let mut object = old.clone();
    let path = &paths(target)?.spec_replicas;
    let steps = path.members().ok_or_else(|| Status::internal(format!("cannot write to {:?}", path.text())))?;
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if path.first(old).and_then(Value::as_i64).unwrap_or(0) != replicas || path.first(old).is_none() {
        put(&mut object, &steps, replicas.into());
    }
    let seen = meta::text(scale, "resourceVersion");
    meta::set_text(
        &mut object,
        "resourceVersion",
        if seen.is_empty() { meta::text(old, "resourceVersion") } else { seen },
    );
    let uid = meta::text(scale, "uid");
    if !uid.is_empty() && !is_patch {
        meta::set_text(&mut object, "uid", uid);
    }
    let name = meta::text(scale, "name");
    if !name.is_empty() {
        meta::set_text(&mut object, "name", name);
    }
    Ok(object)
}

/// Built-in kinds refuse the Scale, others the object that it would make.
fn check_count(target: &Target, scale: &Value) -> Result<(), Status> {
    let Some(count) = scale["spec"]["replicas"].as_i64().filter(|count| *count < 0) else { return Ok(()) };
    if target.resource.is_custom() {
        return Ok(());
    }
    let error = FieldError::invalid("spec.replicas", count, "must be greater than or equal to 0");
    Err(Status::invalid(&Gvk::new("autoscaling", "v1", "Scale"), meta::text(scale, "name"), &[error]))
}

fn put(object: &mut Value, steps: &[&str], value: Value) {
    match steps.split_first() {
        None => *object = value,
        Some((first, rest)) => {
            if !object.is_object() {
                *object = json!({});
            }
            put(&mut object[*first], rest, value);
        }
    }
}

/// The number at a path; the error, in the words of Go, tells of something else there or on the way.
fn replicas(path: &JsonPath, object: &Value) -> Result<Option<i64>, String> {
    let Some(steps) = path.members() else { return Ok(path.first(object).and_then(Value::as_i64)) };
    let wrong = |place: &[&str], found: &Value, wanted: &str| {
        let (place, text, kind) = (place.join("."), go_text(found), go_type(found));
        format!(".{place} accessor error: {text} is of the type {kind}, expected {wanted}")
    };
    let mut value = object;
    for (place, step) in steps.iter().enumerate() {
        match value {
            Value::Object(members) => match members.get(*step) {
                Some(member) => value = member,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(wrong(&steps[..=place], other, "map[string]interface{}")),
        }
    }
    value.as_i64().map(Some).ok_or_else(|| wrong(&steps, value, "int64"))
}

/// A value as Go prints it.
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let members: Vec<String> = members.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        Value::Number(number) if !number.is_i64() => concert_api::go_float(number.as_f64().unwrap_or_default()),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// What is wrong with the replicas of an object that can be scaled.
pub(crate) fn check(target: &Target, object: &Value) -> FieldErrors {
    // Built-in kinds have rules of their own for that.
    let Some(paths) = target.version().scale.as_ref().filter(|_| target.resource.is_custom()) else {
        return FieldErrors::new();
    };
    let mut errors = FieldErrors::new();
    for path in [&paths.spec_replicas, &paths.status_replicas] {
        let number = match replicas(path, object) {
            Ok(Some(number)) => number,
            Ok(None) => continue,
            Err(detail) => {
                errors.push(FieldError::invalid(path.text(), 0, detail));
                continue;
            }
        };
        if number < 0 {
            errors.push(FieldError::invalid(path.text(), number, "should be a non-negative integer"));
        } else if number > i64::from(i32::MAX) {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            errors.push(FieldError::invalid(path.text(), number, detail));
        }
    }
    errors
}
