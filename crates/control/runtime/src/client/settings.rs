//! How a client asks: in whose name, under which deadline, how often, how fast. Each setting is a layer: it gives the same
//! client with one thing changed, and clones keep their own.

use std::sync::Arc;
use std::time::Duration;

use super::limit::Limit;
use super::{Client, DEADLINE};
use crate::metrics::{Metrics, RequestDetails};
use crate::resource::escape;

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) host: String,
    pub(super) field_manager: String,
    pub(super) deadline: Duration,
    pub(super) retries: bool,
    pub(super) dry: bool,
    pub(super) validation: Option<FieldValidation>,
    pub(super) limit: Option<Arc<Limit>>,
    pub(super) metrics: Option<Metrics>,
    pub(super) details: Option<Arc<RequestDetails>>,
}

impl Settings {
    pub(super) fn new(host: String) -> Self {
        Self {
            host,
            field_manager: "concert".to_owned(),
            deadline: DEADLINE,
            retries: false,
            dry: false,
            validation: None,
            limit: None,
            metrics: None,
            details: None,
        }
    }
}

/// What a server does about fields that it does not know, or that are said twice, in what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// It drops them.
    Ignore,
    /// It drops them and says so; warnings are logged.
    Warn,
    /// It refuses the write.
    Strict,
}

impl FieldValidation {
    fn word(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

impl Client {
    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::clone(&self.settings);
        change(&mut settings);
        Self { settings: Arc::new(settings), ..self }
    }

    /// The same client, writing in another manager's name (`concert` by default).
    #[must_use]
    pub fn with_field_manager(self, name: impl Into<String>) -> Self {
        self.with(|settings| settings.field_manager = name.into())
    }

    /// The same client, whose writes are checked and answered by the server, and not carried out.
    #[must_use]
    pub fn with_dry_run(self) -> Self {
        self.with(|settings| settings.dry = true)
    }

    /// Whether writes are not carried out.
    pub(crate) fn is_dry(&self) -> bool {
        self.settings.dry
    }

    /// The same client, saying what the server is to do about unknown fields in its writes; servers warn if nobody says so.
    #[must_use]
    pub fn with_field_validation(self, validation: FieldValidation) -> Self {
        self.with(|settings| settings.validation = Some(validation))
    }

    /// In whose name it writes.
    #[must_use]
    pub fn field_manager(&self) -> &str {
        &self.settings.field_manager
    }

    /// The same client with another deadline per request ([`DEADLINE`] by default).
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        self.with(|settings| settings.deadline = deadline)
    }

    /// The same client, trying again what is safe to try again, as long as there is time: reads, and writes that the server
    /// did not take.
    #[must_use]
    pub fn with_retries(self) -> Self {
        self.with(|settings| settings.retries = true)
    }

    /// The same client, sending at most so many requests per second, and so many at once; clones share the limit. There is
    /// none by default: API servers protect themselves, and know better.
    #[must_use]
    pub fn with_limit(self, per_second: f64, burst: u32) -> Self {
        // What is limited on its own fails on its own.
        let budget = Arc::default();
        Self { budget, ..self }.with(|settings| settings.limit = Some(Arc::new(Limit::new(per_second, burst))))
    }

    /// As [`Client::with_limit`], going by what the server says: each 429 halves the rate, as long as requests succeed it
    /// grows again, up to `per_second`. For servers without priority and fairness.
    #[must_use]
    pub fn with_adaptive_limit(self, per_second: f64, burst: u32) -> Self {
        self.with(|settings| settings.limit = Some(Arc::new(Limit::adaptive(per_second, burst))))
    }

    /// The same client, counting its requests in `rest_client_requests_total`, and observing them in histograms where
    /// `metrics` has [such](Metrics::with_request_histograms).
    #[must_use]
    pub fn with_metrics(self, metrics: &Metrics) -> Self {
        let details = metrics.request_details();
        details.iter().for_each(|details| self.names.tell(details));
        self.with(|settings| (settings.metrics, settings.details) = (Some(metrics.clone()), details))
    }

    /// Where its requests are counted.
    pub(crate) fn metrics(&self) -> Option<&Metrics> {
        self.settings.metrics.as_ref()
    }

    /// The path of a write, with how it is to be carried out.
    pub(super) fn writing(&self, path: String) -> String {
        let manager = format!("fieldManager={}", escape(&self.settings.field_manager));
        let validation = self.settings.validation.map(|validation| format!("fieldValidation={}", validation.word()));
        let query: Vec<String> = [manager].into_iter().chain(self.dry_run()).chain(validation).collect();
        format!("{path}?{}", query.join("&"))
    }

    pub(super) fn dry_run(&self) -> Option<String> {
        self.is_dry().then(|| "dryRun=All".to_owned())
    }
}
