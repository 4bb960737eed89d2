//! What a client sends: decoded, checked against the path, pruned and defaulted.

use concert_api::{FieldError, Status, meta};
use concert_schema::Read;
use serde_json::Value;

use crate::body::{self, Document, Media};
use crate::target::{FieldValidation, Target};

/// Where metadata says who owns which field.
pub(crate) const MANAGED: &str = "managedFields";
/// Versions of built-in kinds that are understood, though not at every path.
const UNDERSTOOD: [(&str, &str); 9] = [
    ("apiextensions.k8s.io", "apiextensions.k8s.io/v1beta1"),
    ("authentication.k8s.io", "authentication.k8s.io/v1beta1"),
    ("authorization.k8s.io", "authorization.k8s.io/v1beta1"),
    ("coordination.k8s.io", "coordination.k8s.io/v1beta1"),
    ("events.k8s.io", "events.k8s.io/v1beta1"),
    ("events.k8s.io", "v1"),
    ("", "events.k8s.io/v1"),
    ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1alpha1"),
    ("rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1beta1"),
];

/// A decoded object and what the client should be warned about.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
    /// It said that something is empty, and some kinds count that as a change.
    pub(crate) is_hollow: bool,
}

/// Reads an object of the target's kind from a request body.
pub(crate) fn read(
    target: &Target,
    media: Media,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Incoming, Status> {
    let kind = &target.resource.kind;
    let unrecognized = |why: &str| {
        let body = body::shown(body);
        Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({body})"))
    };
    let mut document = media.decode(body).map_err(|error| match media {
        Media::Yaml if error.starts_with("yaml") || error.starts_with("unsupported map key") => unrecognized(&error),
        Media::Json | Media::Yaml => unrecognized(&format!("couldn't get version/kind; {error}")),
    })?;
    // A large one is there only once.
    let mut value = std::mem::take(&mut document.value);
    if value.is_null() && !target.resource.is_custom() {
        // Go reads nothing into an object, too.
        value = Value::Object(serde_json::Map::new());
    }
    if value.is_null() && media == Media::Yaml {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(unrecognized(&why));
    }
    if !value.is_object() {
        let found = crate::delete::json_type(&value);
        return Err(unrecognized(&format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    whole_numbers(&mut value);
    check_type(target, &mut value, body)?;
    finish(target, value, Sent::Whole(&document), validation)
}

/// Prunes and defaults an object that a patch has made, as if it had been sent. `findings` are those of the patch itself.
pub(crate) fn patched(
    target: &Target,
    mut value: Value,
    findings: &[String],
    validation: FieldValidation,
) -> Result<Incoming, Status> {
    whole_numbers(&mut value);
    check_patched_version(target, &value)?;
    check_type(target, &mut value, b"")?;
    finish(target, value, Sent::Patch(findings), validation)
}

/// Makes an object of the kind of what `config` was merged into. Its fields are known, and it is not read again.
pub(crate) fn applied(target: &Target, config: &Value, mut value: Value) -> Result<Value, Status> {
    whole_numbers(&mut value);
    let version = target.version();
    let fault = match version.builtin {
        Some(builtin) => builtin.schema.restore_fault(&value),
        None => {
            forget_odd_times(&mut value);
            version.schema.decode_fault(&value)
        }
    };
    if let Some(fault) = fault {
        let (namespace, name) = (meta::text(config, "namespace"), meta::text(config, "name"));
        let gvk = &version.gvk;
        return Err(Status::failure(
            500,
            "",
            format!(
                "failed to convert new object ({namespace}/{name}; {gvk}) to proper version: unable to convert unstructured object to {gvk}: {fault}"
            ),
        ));
    }
    let roomy = match version.builtin {
        Some(builtin) => {
            let _ = builtin.prune(&mut value);
            builtin.read(&mut value)
        }
        None => {
            // It is pruned when it is stored.
            version.schema.default(&mut value)
        }
    };
    if roomy { Ok(value) } else { Err(too_large()) }
}

/// Times in metadata that are none are nothing where nobody reads them into a struct; they are the server's to say.
fn forget_odd_times(value: &mut Value) {
    for name in ["creationTimestamp", "deletionTimestamp"] {
        if value["metadata"][name].as_str().is_some_and(|text| text.parse::<concert_api::Time>().is_err()) {
            meta::of(value).remove(name);
        }
    }
}

/// A patch cannot make a custom resource one of another version.
fn check_patched_version(target: &Target, value: &Value) -> Result<(), Status> {
    let (gvk, expected) = (&target.version().gvk, target.version().gvk.api_version());
    match value["apiVersion"].as_str() {
        Some(found) if target.resource.is_custom() && found != expected && value["kind"].is_string() => {
            let error = FieldError::invalid("apiVersion", found, format!("must be {expected}"));
            let group = found.split_once('/').map_or("", |(group, _)| group);
            let sent = concert_api::Gvk { group: group.to_owned(), ..gvk.clone() };
            Err(Status::invalid(&sent, meta::text(value, "name"), &[error]))
        }
        Some(_) | None => Ok(()),
    }
}

/// A patch that leaves no object of the kind is at fault itself; `shown` is what it leaves.
pub(crate) fn unreadable(status: Status, shown: impl FnOnce() -> String) -> Status {
    if status.code != 400 {
        return status;
    }
    let error = FieldError::invalid("patch", shown(), status.message);
    Status::invalid(&concert_api::Gvk::new("", "", ""), "", &[error])
}

/// What a client sent.
#[derive(Clone, Copy)]
enum Sent<'a> {
    /// The object.
    Whole(&'a Document),
    /// A patch of it, to which a strict reader objects so.
    Patch(&'a [String]),
}

fn finish(target: &Target, mut value: Value, sent: Sent<'_>, validation: FieldValidation) -> Result<Incoming, Status> {
    let version = target.version();
    let kind = &version.gvk.kind;
    // An empty list means something there, but in custom resources.
    let empty = value["metadata"][MANAGED].as_array().is_some_and(Vec::is_empty);
    let forgets = empty && version.builtin.is_some();
    let unhandled =
        |why: &str| format!("{kind} in version {:?} cannot be handled as a {kind}: {why}", version.gvk.version);
    let Read { unknown, is_roomy } = match version.builtin {
        Some(builtin) => {
            if let Some(fault) = builtin.decode_fault(&value) {
                return Err(Status::bad_request(fault));
            }
            Read { unknown: builtin.prune(&mut value), is_roomy: true }
        }
        None => {
            if let Some(fault) = version.schema.decode_fault(&value) {
                // What a patch leaves has its own words around it.
                return Err(Status::bad_request(match sent {
                    Sent::Whole(_) => unhandled(&fault),
                    Sent::Patch(_) => fault,
                }));
            }
            version.schema.read(&mut value)
        }
    };
    let unknown: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => match sent {
            Sent::Whole(document) => [document.warnings(), unknown].concat(),
            Sent::Patch(findings) => [findings, &unknown].concat(),
        },
        FieldValidation::Strict => {
            let found = match sent {
                Sent::Whole(document) => document.refusals(),
                Sent::Patch(findings) => findings.to_vec(),
            };
            let refusals = [found, unknown].concat();
            if !refusals.is_empty() {
                let refusal = format!("strict decoding error: {}", refusals.join(", "));
                return Err(Status::bad_request(match sent {
                    Sent::Whole(_) => unhandled(&refusal),
                    Sent::Patch(_) => refusal,
                }));
            }
            Vec::new()
        }
    };
    let is_hollow = version.builtin.is_some_and(|builtin| builtin.is_hollow(&value));
    let managed = take_managed(&mut value).or_else(|| forgets.then(|| Value::Array(Vec::new())));
    // What is empty there was looked for before it is filled in; custom resources were read above.
    let is_roomy = version.builtin.map_or(is_roomy, |builtin| builtin.read(&mut value));
    if let Some(managed) = managed {
        meta::of(&mut value).insert(MANAGED.to_owned(), managed);
    }
    if is_roomy { Ok(Incoming { value, warnings, is_hollow }) } else { Err(too_large()) }
}

fn too_large() -> Status {
    let message = "the defaults of its schema make the object too large: limit is 3145728 bytes of them";
    Status::failure(413, "RequestEntityTooLarge", message)
}

/// Takes `metadata.managedFields` out of an object.
pub(crate) fn take_managed(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove(MANAGED)
}

/// `1.0` becomes `1`, as Go writes it again; an integer that is none of Go's is rounded.
pub(crate) fn whole_numbers(value: &mut Value) {
    /// Beyond this a double is no longer a safe integer.
    const SAFE: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or(0.5);
            if float.fract() == 0.0 && float.abs() < SAFE {
                *value = (float as i64).into();
            }
        }
        Value::Number(number) if !number.is_i64() => {
            // The fewest digits that mean this float.
            let rounded = number.as_f64().unwrap_or_default();
            *value = rounded.to_string().parse::<u64>().map_or_else(|_| rounded.into(), Value::from);
        }
        _ => {}
    }
}

/// apiVersion and kind must be those of the path; objects of built-in kinds may leave them out.
fn check_type(target: &Target, value: &mut Value, body: &[u8]) -> Result<(), Status> {
    let gvk = &target.version().gvk;
    let expected = gvk.api_version();
    let found = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (found("apiVersion"), found("kind"));
    if target.resource.is_custom() {
        if kind.is_empty() {
            let text = String::from_utf8_lossy(&body[..body.len().min(2048)]);
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{text}' ({})",
                gvk.kind,
                body::shown(body)
            )));
        }
        if api_version != expected {
            return Err(Status::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected})"
            )));
        }
        if kind != gvk.kind {
            let error = FieldError::invalid("kind", kind.as_str(), format!("must be {}", gvk.kind));
            let sent = concert_api::Gvk { kind, ..gvk.clone() };
            return Err(Status::invalid(&sent, meta::text(value, "name"), &[error]));
        }
        return Ok(());
    }
    let mismatch = (!api_version.is_empty() && api_version != expected) || (!kind.is_empty() && kind != gvk.kind);
    let other_event = api_version == "events.k8s.io/v1" && kind != "Event";
    let understood = UNDERSTOOD.contains(&(gvk.group.as_str(), api_version.as_str())) && !other_event;
    if mismatch && kind == gvk.kind && understood {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if mismatch {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        return Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: no kind {kind:?} is registered for version {api_version:?} of this resource",
            gvk.kind
        )));
    }
    value["apiVersion"] = expected.into();
    value["kind"] = gvk.kind.clone().into();
    Ok(())
}
