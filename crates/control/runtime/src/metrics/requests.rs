//! How long requests take and how large they are: client-go's histograms, under its names. They are many series, one set per
//! verb and host, so there are none unless they are asked for.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Metrics;

/// client-go's buckets of times, in seconds.
const TIMES: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Those of sizes, in bytes: 64 to 16 Mi.
const SIZES: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfVerb {
    verb: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Retried {
    code: String,
    verb: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfHost {
    host: String,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// See the module.
pub(crate) struct RequestDetails {
    durations: Histograms<OfVerb>,
    request_sizes: Histograms<OfVerb>,
    response_sizes: Histograms<OfVerb>,
    waits: Histograms<OfVerb>,
    resolutions: Histograms<OfHost>,
    retries: Family<Retried, Counter>,
}

fn times() -> Histogram {
    Histogram::new(TIMES)
}

/// A name is never looked up for a minute: the longest bucket is left out, as client-go does.
fn short_times() -> Histogram {
    Histogram::new(TIMES[..11].iter().copied())
}

fn sizes() -> Histogram {
    Histogram::new(SIZES)
}

impl RequestDetails {
    fn registered(registry: &mut Registry) -> Self {
        let details = Self {
            durations: Family::new_with_constructor(times),
            request_sizes: Family::new_with_constructor(sizes),
            response_sizes: Family::new_with_constructor(sizes),
            waits: Family::new_with_constructor(times),
            resolutions: Family::new_with_constructor(short_times),
            retries: Family::default(),
        };
        for (name, help, histograms) in [
            ("rest_client_request_duration_seconds", "Time per request, tries included", &details.durations),
            ("rest_client_request_size_bytes", "Size of requests", &details.request_sizes),
            ("rest_client_response_size_bytes", "Size of answers", &details.response_sizes),
            ("rest_client_rate_limiter_duration_seconds", "Time waited for the client's own limit", &details.waits),
        ] {
            registry.register(name, help, histograms.clone());
        }
        let resolutions = details.resolutions.clone();
        registry.register("rest_client_dns_resolution_duration_seconds", "Time to look a name up", resolutions);
        registry.register("rest_client_request_retries", "Requests tried again", details.retries.clone());
        details
    }

    /// A request is over, with all its tries.
    pub(crate) fn took(&self, verb: &str, host: &str, time: Duration) {
        self.durations.get_or_create(&of(verb, host)).observe(time.as_secs_f64());
    }

    /// A request is sent.
    pub(crate) fn sends(&self, verb: &str, host: &str, bytes: usize) {
        self.request_sizes.get_or_create(&of(verb, host)).observe(bytes as f64);
    }

    /// The body of an answer was read.
    pub(crate) fn received(&self, verb: &str, host: &str, bytes: usize) {
        self.response_sizes.get_or_create(&of(verb, host)).observe(bytes as f64);
    }

    /// A request had to wait for its turn, or would have had to.
    pub(crate) fn waits(&self, verb: &str, host: &str, time: Duration) {
        self.waits.get_or_create(&of(verb, host)).observe(time.as_secs_f64());
    }

    /// A request is tried again; `code` is that of the answer, if there was one.
    pub(crate) fn retries(&self, verb: &str, host: &str, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.retries.get_or_create(&Retried { code, verb: verb.to_owned(), host: host.to_owned() }).inc();
    }

    /// A name was looked up.
    pub(crate) fn resolved(&self, host: &str, time: Duration) {
        self.resolutions.get_or_create(&OfHost { host: host.to_owned() }).observe(time.as_secs_f64());
    }
}

fn of(verb: &str, host: &str) -> OfVerb {
    OfVerb { verb: verb.to_owned(), host: host.to_owned() }
}

impl fmt::Debug for RequestDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestDetails")
    }
}

impl Metrics {
    /// The same metrics, with client-go's histograms of requests: how long they take, how large they are, what they wait for.
    /// Clients that are given them later observe there.
    #[must_use]
    pub fn with_request_histograms(self) -> Self {
        self.0.details.get_or_init(|| {
            let mut registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::new(RequestDetails::registered(&mut registry))
        });
        self
    }

    /// The histograms of requests, if there are any.
    pub(crate) fn request_details(&self) -> Option<Arc<RequestDetails>> {
        self.0.details.get().cloned()
    }
}
