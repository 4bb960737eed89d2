//! Bodies in protobuf: read into JSON, and from there as any other.

use bytes::Bytes;
use concert_api::Status;
use concert_schema::protobuf::{ProtobufError, to_json};
use http::{HeaderMap, HeaderValue, Method, header};

use crate::target::Target;

const MEDIA: &str = "application/vnd.kubernetes.protobuf";

/// Whether a body comes in protobuf.
pub(crate) fn is_sent(headers: &HeaderMap) -> bool {
    let sent = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    sent.split(';').next().unwrap_or_default().trim() == MEDIA
}

/// A body for this target, in JSON if it came in protobuf. Custom resources have no protobuf, and patches neither: their
/// bodies are left alone, and refused where their type is looked at.
pub(crate) fn translated(
    method: &Method,
    headers: &mut HeaderMap,
    target: &Target,
    body: Bytes,
) -> Result<Bytes, Status> {
    if target.resource.is_custom() || method == Method::PATCH {
        return Ok(body);
    }
    let gvk = target.gvk();
    json(headers, (&gvk.api_version(), &gvk.kind), body)
}

/// A body in JSON if it came in protobuf; where it names no kind it is of the expected one.
pub(crate) fn json(headers: &mut HeaderMap, expected: (&str, &str), body: Bytes) -> Result<Bytes, Status> {
    if !is_sent(headers) {
        return Ok(body);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let kind = expected.1;
    let object = to_json(&body, expected).map_err(|error| match error {
        ProtobufError::Envelope(why) => {
            Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
        }
        ProtobufError::Unknown(found_version, found) => {
            let version = found_version.rsplit('/').next().unwrap_or_default();
            Status::bad_request(format!(
                "{found} in version {version:?} cannot be handled as a {kind}: no kind {found:?} is registered for version {found_version:?} in scheme \"pkg/runtime/scheme.go:111\""
            ))
        }
        ProtobufError::Object(_, found, error) if found == "DeleteOptions" => Status::bad_request(error.to_string()),
        ProtobufError::Object(version, found, error) => {
            let version = version.rsplit('/').next().unwrap_or_default();
            Status::bad_request(format!("{found} in version {version:?} cannot be handled as a {kind}: {error}"))
        }
    })?;
    Ok(object.to_string().into())
}
