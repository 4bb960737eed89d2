//! Request bodies: in which form they come, and the tree they mean.

use concert_api::{DecodeError, Decoded, Status, decode};
use http::{HeaderMap, header};

/// The forms of whole objects.
const OBJECTS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The form of a body that holds a whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
}

impl Media {
    /// Reads the form from the headers. A body without a type is taken for JSON, as by the real server.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Status> {
        match content_type(headers) {
            "" | "application/json" => Ok(Self::Json),
            _ => Err(unsupported_media(OBJECTS)),
        }
    }

    /// Decodes a body.
    pub(crate) fn decode(self, body: &[u8]) -> Result<Decoded, DecodeError> {
        match self {
            Self::Json => decode(body),
        }
    }
}

/// The media type of the body, without its parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// 415.
pub(crate) fn unsupported_media(accepted: &str) -> Status {
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
    Status::failure(415, "UnsupportedMediaType", message)
}
