//! Answers: what the client accepts, and bodies in that form.

use std::convert::Infallible;

use bytes::Bytes;
use concert_api::Status;
use futures::Stream;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::Value;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The form in which the client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Object,
    /// As rows for people.
    Table,
    /// Only their metadata.
    Metadata,
    /// Discovery in one document.
    AggregatedDiscovery(&'static str),
}

/// Chooses the first form of the Accept header that we can give, in the client's order.
pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Form, Status> {
    let accepts: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let accepts = accepts.join(",");
    if accepts.trim().is_empty() {
        return Ok(Form::Object);
    }
    accepts.split(',').find_map(form).ok_or_else(|| {
        let available = "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        Status::failure(406, "NotAcceptable", format!("406: Not Acceptable\n\nAvailable representations: {available}"))
            .with(concert_api::Details::default())
    })
}

fn form(accept: &str) -> Option<Form> {
    let mut parts = accept.split(';').map(str::trim);
    let media = parts.next()?;
    if !matches!(media, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let (mut kind, mut version, mut group) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("v", value)) => version = value,
            Some(("g", value)) => group = value,
            _ => {}
        }
    }
    match (kind, group, version) {
        ("", ..) => Some(Form::Object),
        ("Table", "meta.k8s.io", "v1" | "v1beta1") => Some(Form::Table),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => Some(Form::Metadata),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(Form::AggregatedDiscovery("v2")),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => Some(Form::AggregatedDiscovery("v2beta1")),
        _ => None,
    }
}

/// A JSON answer.
pub(crate) fn json(code: u16, value: &Value) -> Response<Body> {
    bytes(code, value.to_string().into())
}

/// An answer of JSON bytes.
pub(crate) fn bytes(code: u16, bytes: Bytes) -> Response<Body> {
    respond(code, "application/json", Full::new(bytes).boxed_unsync())
}

/// An answer that arrives piece by piece.
pub(crate) fn stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    use futures::StreamExt;
    let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
    respond(200, "application/json", StreamBody::new(frames).boxed_unsync())
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

/// Adds `Warning` headers.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_order_counts() {
        for (accept, expected) in [
            ("", Some(Form::Object)),
            ("*/*", Some(Form::Object)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Form::Object)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(Form::Table)),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some(Form::Object)),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some(Form::Metadata)),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                Some(Form::AggregatedDiscovery("v2")),
            ),
            ("text/plain", None),
            ("application/vnd.kubernetes.protobuf", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(negotiate(&headers).ok(), expected, "{accept}");
        }
    }
}
