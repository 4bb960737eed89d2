//! Spans to an OpenTelemetry collector.
//!
//! ```no_run
//! use concert_runtime::telemetry::otel;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let exporter = otel::to_collector("http://127.0.0.1:4317")?;
//! let traces = otel::Traces::new("greeter", exporter);
//! let subscriber = tracing_subscriber::registry().with(traces.layer());
//! tracing::subscriber::set_global_default(subscriber)?;
//! // …run the manager, and then:
//! traces.flush()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::propagation::{Injector, TextMapPropagator};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
use tracing_subscriber::registry::LookupSpan;

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The collector's address makes no sense.
    #[error(
        "cannot send traces to \"{endpoint}\": {source}; write http://HOST:PORT of a collector that takes OTLP over gRPC"
    )]
    Endpoint {
        /// The address.
        endpoint: String,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What waited could not be sent.
    #[error("cannot send the last traces: {0}")]
    Flush(#[from] OTelSdkError),
}

/// Where spans go: OTLP over gRPC. Whether anybody listens is not tried; spans that cannot be sent are dropped. Must be
/// called within a tokio runtime.
///
/// # Errors
/// The address makes no sense.
pub fn to_collector(endpoint: &str) -> Result<SpanExporter, TelemetryError> {
    let built = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
    built.map_err(|error| TelemetryError::Endpoint { endpoint: endpoint.to_owned(), source: error.into() })
}

/// Collects spans and sends them in batches, on a thread of its own.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Spans of the service `name`, by way of `exporter`.
    pub fn new(name: &str, exporter: impl opentelemetry_sdk::trace::SpanExporter + 'static) -> Self {
        let resource = Resource::builder().with_service_name(name.to_owned()).build();
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        Self { provider }
    }

    /// What a subscriber has to be given.
    #[must_use]
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> OpenTelemetryLayer<S, SdkTracer> {
        tracing_opentelemetry::layer().with_tracer(self.provider.tracer("concert"))
    }

    /// Sends what waits, and ends.
    ///
    /// # Errors
    /// The collector does not take it.
    pub fn flush(self) -> Result<(), TelemetryError> {
        Ok(self.provider.shutdown()?)
    }
}

/// Tells the server within which trace it works.
pub(crate) fn propagate(span: &Span, headers: &mut HeaderMap) {
    TraceContextPropagator::new().inject_context(&span.context(), &mut Headers(headers));
}

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(key), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(key, value);
        }
    }
}
