//! One request: how it becomes HTTP, how it is sent, and what its answer means.

use std::sync::PoisonError;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use concert_world::Stopped;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER, USER_AGENT, WARNING};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tokio::time::Instant;
use tower::BoxError;
use tracing::Instrument;

use super::error::{Answer, ApiError};
use super::gate::Attempt;
use super::{Client, JSON, retry};
use crate::metrics::RequestDetails;
use crate::telemetry;

/// No answer may be larger: a page of a list is 500 objects of at most 3 MiB, and nearly always far smaller.
const MAX_ANSWER: usize = 512 << 20;
/// So many different warnings of a server are told.
const WARNINGS: usize = 256;

/// One request before it becomes HTTP.
#[derive(Clone)]
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) path: String,
    /// What it attempts, for error messages.
    pub(super) action: String,
    pub(super) body: Option<(&'static str, Bytes)>,
    pub(super) accept: &'a str,
}

impl Client {
    /// Sends one request and gives the body of its answer.
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Bytes, ApiError> {
        self.converse(ask).await.map(|(_, body)| body)
    }

    /// Sends one request and gives its answer, all under one deadline, tries included.
    pub(super) async fn converse(&self, ask: Ask<'_>) -> Result<(StatusCode, Bytes), ApiError> {
        let (action, write, after) = (ask.action.clone(), ask.is_write(), self.settings.deadline);
        let (began, verb) = (Instant::now(), ask.method.clone());
        let until = began + after;
        let whole = async {
            let mut tries = 0;
            loop {
                let once = async {
                    let response = self.exchange(ask.clone(), Attempt(tries)).await?;
                    let code = response.status();
                    let body = collect(response.into_body(), &action, write).await?;
                    self.detail(|details, host| details.received(verb.as_str(), host, body.len()));
                    Ok((code, body))
                };
                let error = match once.await {
                    answer if !self.settings.retries => return answer,
                    Ok(answer) => {
                        self.budget.answered();
                        return Ok(answer);
                    }
                    Err(error) => error,
                };
                let may_go_on = self.budget.met(&error);
                let wait = retry::wait(&error, !write, tries).map(|wait| retry::spread(wait, &self.world.random));
                let Some(wait) = wait.filter(|wait| may_go_on && Instant::now() + *wait < until) else {
                    return Err(error);
                };
                tokio::time::sleep(wait).await;
                self.detail(|details, host| details.retries(verb.as_str(), host, error.code()));
                tries += 1;
            }
        };
        let answer = tokio::time::timeout_at(until, whole).await;
        self.detail(|details, host| details.took(verb.as_str(), host, began.elapsed()));
        answer.unwrap_or_else(|_| Err(ApiError::TimedOut { action: action.clone(), write, after }))
    }

    /// Tells the histograms of requests, if there are any.
    fn detail(&self, tell: impl FnOnce(&RequestDetails, &str)) {
        if let Some(details) = &self.settings.details {
            tell(details, &self.settings.host);
        }
    }

    /// Sends one request; an answer that is not a success becomes an error. What comes of a success has no deadline here.
    pub(super) async fn exchange(&self, ask: Ask<'_>, attempt: Attempt) -> Result<Response<Body>, ApiError> {
        let (action, write, method) = (ask.action.clone(), ask.is_write(), ask.method.clone());
        let size = ask.body.as_ref().map_or(0, |(_, bytes)| bytes.len());
        let mut request = ask.into_http()?;
        request.extensions_mut().insert(attempt);
        let after = self.settings.deadline;
        if let Some(limit) = &self.settings.limit {
            let wait =
                limit.wait(after).ok_or_else(|| ApiError::TimedOut { action: action.clone(), write: false, after })?;
            self.detail(|details, host| details.waits(method.as_str(), host, wait));
            tokio::time::sleep(wait).await;
        }
        self.detail(|details, host| details.sends(method.as_str(), host, size));
        let span = telemetry::request_span(&method, &action, &self.settings.host);
        telemetry::propagate(&span, request.headers_mut());
        let until = Instant::now() + after;
        let sent = tokio::time::timeout_at(until, self.kube.send(request).instrument(span.clone())).await;
        let Ok(sent) = sent else {
            if let Some(metrics) = &self.settings.metrics {
                metrics.request("<error>", method.as_str(), &self.settings.host);
            }
            return Err(ApiError::TimedOut { action, write, after });
        };
        let code =
            sent.as_ref().map_or_else(|_| "<error>".to_owned(), |response| response.status().as_u16().to_string());
        span.record("code", &code);
        if let Some(metrics) = &self.settings.metrics {
            metrics.request(&code, method.as_str(), &self.settings.host);
        }
        let response = sent.map_err(|error| transport_error(&action, &self.settings.host, write, error))?;
        if let Some(limit) = &self.settings.limit {
            limit.answered(response.status().as_u16());
        }
        for warning in response.headers().get_all(WARNING).iter().filter_map(|value| value.to_str().ok()) {
            if self.is_news(warning) {
                tracing::info!(action, warning = warned(warning), "the API server warns");
            }
        }
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = header.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        // A refusal counts although its words never come.
        let words = tokio::time::timeout_at(until, collect(response.into_body(), &action, write)).await;
        let body = words.unwrap_or_else(|_| Ok(Bytes::new()))?;
        self.detail(|details, host| details.received(method.as_str(), host, body.len()));
        let answer = Box::new(Answer::read(code, retry_after, &body));
        Err(ApiError::Refused { action, write, answer })
    }

    /// Whether a warning has not been told yet: once is enough. Of too many different ones the rest are not told.
    fn is_news(&self, warning: &str) -> bool {
        let mut known = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        known.len() < WARNINGS && known.insert(warning.to_owned())
    }
}

impl Ask<'_> {
    pub(super) fn new(method: Method, path: String, action: String) -> Self {
        Self { method, path, action, body: None, accept: JSON }
    }

    pub(super) fn json(mut self, body: &Value) -> Self {
        self.body = Some((JSON, body.to_string().into()));
        self
    }

    pub(super) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    fn into_http(self) -> Result<Request<Body>, ApiError> {
        // Kubernetes 1.37 compresses watches one member per event, which decoders do not understand.
        let mut builder = Request::builder()
            .method(self.method)
            .uri(self.path)
            .header(USER_AGENT, concat!("concert/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, self.accept)
            .header(ACCEPT_ENCODING, "identity");
        let body = match self.body {
            Some((kind, bytes)) => {
                builder = builder.header(CONTENT_TYPE, kind);
                Body::from(bytes)
            }
            None => Body::empty(),
        };
        builder.body(body).map_err(|e| ApiError::Unsendable { action: self.action, why: e.to_string() })
    }
}

/// The words of a warning: `299 - "words"`.
fn warned(header: &str) -> &str {
    header.split_once('"').map_or(header, |(_, rest)| rest.strip_suffix('"').unwrap_or(rest))
}

/// Reads a body to its end, but not beyond all measure.
async fn collect(mut body: Body, action: &str, write: bool) -> Result<Bytes, ApiError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| ApiError::Broken { action: action.to_owned(), write, source: e.into() })?;
        if let Ok(data) = frame.into_data() {
            if whole.len() + data.len() > MAX_ANSWER {
                return Err(ApiError::TooLarge { action: action.to_owned(), limit: MAX_ANSWER });
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.freeze())
}

/// Whether anything was sent decides what a failed exchange means.
fn transport_error(action: &str, host: &str, write: bool, error: kube::Error) -> ApiError {
    let (action, host) = (action.to_owned(), host.to_owned());
    let source: BoxError = match error {
        kube::Error::Service(source) => source,
        other => other.into(),
    };
    let refused = matches!(source.downcast_ref::<Stopped>(), Some(Stopped::Refused));
    let connecting = source.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|e| e.is_connect());
    if refused || connecting {
        ApiError::Unreachable { action, host, source }
    } else {
        ApiError::Broken { action, write, source }
    }
}
