//! In which format metrics are told.
//!
//! Text (OpenMetrics) is for everybody. It has no words for native histograms, whose buckets fit what is observed: they are
//! told in Prometheus's protobuf format only, which a Prometheus that is set up to scrape them asks for.

/// The content type of text.
pub(crate) const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of protobuf.
pub(crate) const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Whether an `Accept` header asks for protobuf before text, and we know how to.
pub(crate) fn wants_protobuf(accept: &str) -> bool {
    if !cfg!(feature = "native-histograms") {
        return false;
    }
    let (mut protobuf, mut text) = (0.0, 0.0_f64);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let (kind, parameters) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
        let weight = parameters.iter().find_map(|parameter| parameter.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        let ours = ["proto=io.prometheus.client.MetricFamily", "encoding=delimited"];
        match kind {
            "application/vnd.google.protobuf" if ours.iter().all(|one| parameters.contains(one)) => protobuf = weight,
            "application/vnd.google.protobuf" => {}
            _ => text = text.max(weight),
        }
    }
    protobuf > 0.0 && protobuf >= text
}

#[cfg(all(test, feature = "native-histograms"))]
mod tests {
    use super::*;

    #[test]
    fn protobuf_is_for_those_who_want_it_most() {
        let ours = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (accept, wants) in [
            ("", false),
            ("*/*", false),
            ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", false),
            (ours, true),
            (&format!("{ours};q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.2"), true),
            (&format!("{ours};q=0.2, text/plain; q=0.5"), false),
            ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text", false),
        ] {
            assert_eq!(wants_protobuf(accept), wants, "{accept}");
        }
    }
}
