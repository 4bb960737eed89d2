//! From a name to addresses, and how long that took.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use tokio::time::Instant;
use tower::Service;

use crate::metrics::RequestDetails;

/// Asks the operating system, and tells who wants to know how long it took. Clones tell the same.
#[derive(Clone, Debug)]
pub(super) struct Names {
    resolver: GaiResolver,
    told: Arc<OnceLock<Arc<RequestDetails>>>,
}

impl Default for Names {
    fn default() -> Self {
        Self { resolver: GaiResolver::new(), told: Arc::default() }
    }
}

impl Names {
    /// From now on it is told there; the first one counts, since connections are shared.
    pub(super) fn tell(&self, details: &Arc<RequestDetails>) {
        let _ = self.told.set(Arc::clone(details));
    }
}

impl Service<Name> for Names {
    type Response = GaiAddrs;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<GaiAddrs, std::io::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        self.resolver.poll_ready(cx)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let told = self.told.get().cloned().map(|details| (details, name.as_str().to_owned(), Instant::now()));
        let found = self.resolver.call(name);
        Box::pin(async move {
            let found = found.await;
            if let Some((details, host, began)) = told {
                details.resolved(&host, began.elapsed());
            }
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn it_is_told_how_long_a_name_was_looked_for() {
        let metrics = Metrics::new().with_request_histograms();
        let mut names = Names::default();
        names.clone().call("localhost".parse().unwrap()).await.unwrap();
        assert!(!metrics.text().contains("host=\"localhost\""), "nobody wanted to know");
        names.tell(&metrics.request_details().unwrap());
        assert!(names.call("localhost".parse().unwrap()).await.unwrap().next().is_some());
        let line = "rest_client_dns_resolution_duration_seconds_count{host=\"localhost\"} 1";
        assert!(metrics.text().contains(line), "{}", metrics.text());
    }
}
