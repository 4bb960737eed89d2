//! Answers: bodies in the form and the encoding that the client accepts.

mod negotiate;
pub(crate) mod pretty;
mod warnings;

use std::convert::Infallible;

use bytes::Bytes;
use concert_api::Status;
use concert_schema::protobuf::Encoder;
use futures::Stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::Value;

use crate::body::yaml;
pub(crate) use negotiate::{Count, Encoding, Form, Offer, Wanted, negotiate, not_acceptable, plain};
pub(crate) use warnings::{warn, warn_first};

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Events in protobuf; those in JSON have no type of their own.
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Writes a short answer of JSON in an encoding.
pub(crate) async fn encoded(encoding: Encoding, response: Response<Body>) -> Response<Body> {
    match encoding {
        Encoding::Yaml if is_json(&response) => {
            let (parts, body) = response.into_parts();
            let Ok(body) = body.collect().await;
            in_yaml(parts, body.to_bytes())
        }
        Encoding::Json | Encoding::Yaml => response,
        Encoding::Protobuf => in_protobuf(response).await,
    }
}

/// Whether an answer is of JSON.
pub(crate) fn is_json(response: &Response<Body>) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|media| media == JSON)
}

/// Writes an answer of JSON in YAML; one that cannot be stays as it is.
pub(crate) fn in_yaml(mut parts: http::response::Parts, body: Bytes) -> Response<Body> {
    let document = serde_json::from_slice(&body).map_err(|error| error.to_string());
    let body = match document.and_then(|document| yaml::encode(&document)) {
        Ok(text) => {
            parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(YAML));
            text.into()
        }
        Err(_) => body,
    };
    Response::from_parts(parts, Full::new(body).boxed_unsync())
}

/// Writes an answer of JSON in protobuf. What has none stays what it is.
pub(crate) async fn in_protobuf(response: Response<Body>) -> Response<Body> {
    let media = response.headers().get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let Some(parameters) = media.strip_prefix(JSON).filter(|rest| rest.is_empty() || rest.starts_with(';')) else {
        return response;
    };
    let Ok(media) = HeaderValue::from_str(&format!("{PROTOBUF}{parameters}")) else { return response };
    let (mut parts, body) = response.into_parts();
    let Ok(body) = body.collect().await;
    let body = body.to_bytes();
    let encoded = Encoder::for_document(&body).map(|encoder| encoder.object(&body));
    let body = match encoded {
        Some(Ok(encoded)) => {
            parts.headers.insert(header::CONTENT_TYPE, media);
            encoded.into()
        }
        Some(Err(error)) => {
            tracing::warn!(%error, "cannot write an answer in protobuf");
            body
        }
        None => body,
    };
    Response::from_parts(parts, Full::new(body).boxed_unsync())
}

/// A JSON answer.
pub(crate) fn json(code: u16, value: &Value) -> Response<Body> {
    bytes(code, value.to_string().into())
}

/// An answer of JSON bytes.
pub(crate) fn bytes(code: u16, bytes: Bytes) -> Response<Body> {
    respond(code, JSON, Full::new(bytes).boxed_unsync())
}

/// An answer that arrives piece by piece.
pub(crate) fn stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    streamed(JSON, pieces)
}

/// Events, in this encoding.
pub(crate) fn events(encoding: Encoding, pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    streamed(if encoding == Encoding::Protobuf { PROTOBUF_STREAM } else { JSON }, pieces)
}

/// A document in protobuf that arrives piece by piece.
pub(crate) fn protobuf_stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    streamed(PROTOBUF, pieces)
}

fn streamed(media: &'static str, pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    use futures::StreamExt;
    let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
    respond(200, media, StreamBody::new(frames).boxed_unsync())
}

/// An answer that is no document but a file.
pub(crate) fn download(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = futures::stream::iter(pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece))));
    respond(200, "application/octet-stream", StreamBody::new(frames).boxed_unsync())
}

/// A plain-text answer.
pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    respond(code, "text/plain; charset=utf-8", Full::new(text.into()).boxed_unsync())
}

/// A path that leads nowhere.
pub(crate) fn nowhere() -> Response<Body> {
    text(404, "404 page not found\n")
}

/// 404 without a word.
pub(crate) fn nothing() -> Response<Body> {
    let mut response = text(404, "");
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

/// What the real server says below a built-in group where nothing is.
pub(crate) fn no_resource() -> Status {
    let status = Status::failure(404, "NotFound", "the server could not find the requested resource");
    status.with(concert_api::Details::default())
}

/// A failure.
pub(crate) fn failure(status: &Status) -> Response<Body> {
    let mut response = json(status.code, &status.to_json());
    let after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if after > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, after.into());
    }
    warn(&mut response, &status.warnings);
    response
}

/// Gives the answer a name of its own, as in the real server's audit log.
pub(crate) fn identify(response: &mut Response<Body>, id: &str) {
    if let Ok(value) = HeaderValue::from_str(id) {
        response.headers_mut().insert("audit-id", value);
    }
}

fn respond(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
