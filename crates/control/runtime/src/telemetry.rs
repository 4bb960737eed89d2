//! Spans: one for each reconcile, and within it one for each request to the API.
//!
//! They are `tracing` spans, for whatever subscriber the program installs. With the feature `otel`, [`otel`] sends them
//! to an OpenTelemetry collector, and every request carries its context to the server as `traceparent`.

#[cfg(feature = "otel")]
pub mod otel;

use http::{HeaderMap, Method};
use tracing::Span;

/// The span of one request. Its `code` is recorded when the answer is there.
pub(crate) fn request_span(method: &Method, action: &str, host: &str) -> Span {
    tracing::debug_span!("request", method = method.as_str(), action, host, code = tracing::field::Empty)
}

/// Tells the server within which trace it works.
#[cfg(feature = "otel")]
pub(crate) use otel::propagate;

/// Without a trace there is nothing to tell.
#[cfg(not(feature = "otel"))]
pub(crate) fn propagate(_: &Span, _: &mut HeaderMap) {}

#[cfg(feature = "otel")]
const _: fn(&Span, &mut HeaderMap) = propagate;
