//! Answers: what the client accepts, and bodies in that form.

pub(crate) mod pretty;
mod warnings;

use std::convert::Infallible;

use bytes::Bytes;
use concert_api::Status;
use futures::Stream;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::Value;

use crate::body::yaml;
pub(crate) use warnings::{warn, warn_first};

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The form in which the client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Object,
    /// As rows for people, in this version.
    Table(&'static str),
    /// Only their metadata, in this version, of one object or of many.
    Metadata(&'static str, Count),
    /// Discovery in one document.
    AggregatedDiscovery(&'static str),
}

/// One or many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    Many,
}

/// What there is to be had, which decides about forms and words of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Objects of a custom resource.
    Custom,
    /// Objects of a built-in kind; whether as a list.
    Builtin(Count),
    /// Documents about what is served.
    Discovery { routed: bool, aggregated: bool },
    /// Something that is always JSON.
    Fixed,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const REPRESENTATIONS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

impl Offer {
    fn has(self, form: Form) -> bool {
        match (self, form) {
            (_, Form::Object) => true,
            (Self::Custom | Self::Builtin(_), Form::Table(_) | Form::Metadata(..)) => true,
            (Self::Discovery { aggregated, .. }, Form::AggregatedDiscovery(_)) => aggregated,
            (Self::Custom | Self::Builtin(_), Form::AggregatedDiscovery(_))
            | (Self::Discovery { .. }, Form::Table(_) | Form::Metadata(..))
            | (Self::Fixed, Form::Table(_) | Form::Metadata(..) | Form::AggregatedDiscovery(_)) => false,
        }
    }

    /// What is built in is found by media type before anybody looks at the rest; the refusal then is another one.
    fn check_route(self, accepts: &str) -> Result<(), Status> {
        let available = match self {
            Self::Custom | Self::Discovery { routed: false, .. } => return Ok(()),
            Self::Builtin(Count::Many) => format!("{REPRESENTATIONS}, {STREAMS}"),
            Self::Builtin(Count::One) | Self::Discovery { .. } => REPRESENTATIONS.to_owned(),
            Self::Fixed => JSON.to_owned(),
        };
        let media = |clause: &str| clause.split(';').next().unwrap_or_default().trim().to_owned();
        let known = if matches!(self, Self::Fixed) { JSON } else { REPRESENTATIONS };
        let routed = |clause: &str| clause == "*/*" || known.split(", ").any(|one| one == clause);
        if accepts.split(',').any(|clause| routed(&media(clause))) {
            return Ok(());
        }
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Err(Status::failure(406, "NotAcceptable", message).with(concert_api::Details::default()))
    }
}

/// Chooses the form that the client likes best of those that we can give.
pub(crate) fn negotiate(headers: &HeaderMap, offer: Offer) -> Result<Form, Status> {
    let accepts = accepts(headers);
    if accepts.trim().is_empty() {
        return Ok(Form::Object);
    }
    offer.check_route(&accepts)?;
    clauses(&accepts)
        .into_iter()
        .filter_map(form)
        .find(|form| offer.has(*form))
        .ok_or_else(|| not_acceptable(format!("only the following media types are accepted: {REPRESENTATIONS}")))
}

fn accepts(headers: &HeaderMap) -> String {
    let values: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

/// What the client accepts, by its preference: `q` first, then what is told exactly before what is not, then in order.
fn clauses(accepts: &str) -> Vec<&str> {
    let quality = |clause: &str| {
        let told = clause.split(';').skip(1).find_map(|part| part.trim().strip_prefix("q="));
        told.map_or(1.0, |told| told.trim().parse::<f32>().unwrap_or(0.0))
    };
    let vague = |clause: &str| clause.split(';').next().unwrap_or_default().matches('*').count();
    let mut clauses: Vec<&str> = accepts.split(',').collect();
    clauses.sort_by(|a, b| quality(b).total_cmp(&quality(a)).then_with(|| vague(a).cmp(&vague(b))));
    clauses
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

/// Whether the client would rather have YAML than JSON.
pub(crate) fn prefers_yaml(headers: &HeaderMap) -> bool {
    let accepts = accepts(headers);
    let best = clauses(&accepts).into_iter().find(|clause| form(clause).is_some());
    best.is_some_and(|clause| clause.split(';').next().is_some_and(|media| media.trim() == YAML))
}

/// 406: events do not come in YAML.
pub(crate) fn check_stream(headers: &HeaderMap) -> Result<(), Status> {
    if prefers_yaml(headers) {
        return Err(not_acceptable(format!("only the following media types are accepted: {STREAMS}")));
    }
    Ok(())
}

/// 406.
pub(crate) fn not_acceptable(message: String) -> Status {
    Status::failure(406, "NotAcceptable", message)
}

fn form(accept: &str) -> Option<Form> {
    let mut parts = accept.split(';').map(str::trim);
    let media = parts.next()?;
    if !matches!(media, JSON | YAML | "application/*" | "*/*") {
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
        ("Table", "meta.k8s.io", version) => Some(Form::Table(meta_version(version)?)),
        ("PartialObjectMetadata", "meta.k8s.io", version) => Some(Form::Metadata(meta_version(version)?, Count::One)),
        ("PartialObjectMetadataList", "meta.k8s.io", version) => {
            Some(Form::Metadata(meta_version(version)?, Count::Many))
        }
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(Form::AggregatedDiscovery("v2")),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => Some(Form::AggregatedDiscovery("v2beta1")),
        _ => None,
    }
}

fn meta_version(version: &str) -> Option<&'static str> {
    match version {
        "v1" => Some("meta.k8s.io/v1"),
        "v1beta1" => Some("meta.k8s.io/v1beta1"),
        _ => None,
    }
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
    use futures::StreamExt;
    let frames = pieces.map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
    respond(200, JSON, StreamBody::new(frames).boxed_unsync())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_order_counts() {
        for (accept, expected) in [
            ("", Some(Form::Object)),
            ("*/*", Some(Form::Object)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Form::Object)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(Form::Table("meta.k8s.io/v1"))),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some(Form::Object)),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1",
                Some(Form::Metadata("meta.k8s.io/v1beta1", Count::Many)),
            ),
            ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", None),
            ("application/*", Some(Form::Object)),
            (
                "application/json;q=0.5, application/json;as=Table;v=v1;g=meta.k8s.io",
                Some(Form::Table("meta.k8s.io/v1")),
            ),
            ("*/*, application/json;as=Table;v=v1;g=meta.k8s.io", Some(Form::Table("meta.k8s.io/v1"))),
            ("text/plain", None),
            ("application/vnd.kubernetes.protobuf", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(negotiate(&headers, Offer::Custom).ok(), expected, "{accept}");
        }
    }

    #[test]
    fn what_is_refused_depends_on_what_is_asked() {
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let (plain, all) = (Offer::Discovery { routed: false, aggregated: false }, Offer::Builtin(Count::Many));
        let aggregated = Offer::Discovery { routed: true, aggregated: true };
        for (offer, accept, expected) in [
            (aggregated, discovery, Ok(Form::AggregatedDiscovery("v2"))),
            (plain, discovery, Err("only the following")),
            (Offer::Builtin(Count::One), "application/*", Err("406: Not Acceptable")),
            (Offer::Builtin(Count::One), "application/json;as=X;v=v1;g=meta.k8s.io", Err("only the following")),
            (all, "text/plain;q=1, text/html", Err("406: Not Acceptable")),
            (all, "text/html;q=0.9, application/json;q=0.5", Ok(Form::Object)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            match (negotiate(&headers, offer), expected) {
                (Ok(form), Ok(expected)) => assert_eq!(form, expected, "{accept}"),
                (Err(status), Err(words)) => assert!(status.message.starts_with(words), "{accept}: {status:?}"),
                (found, _) => panic!("{accept}: {found:?}"),
            }
        }
    }
}
