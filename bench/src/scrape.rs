//! Counters of a metrics endpoint, and what they grew by.

use std::collections::BTreeMap;

/// Counted requests, by what they did: `PATCH files/status`.
pub type Counts = BTreeMap<String, f64>;

/// One line of a metrics page.
struct Sample<'a> {
    labels: Vec<(&'a str, &'a str)>,
    value: f64,
}

impl<'a> Sample<'a> {
    fn label(&self, name: &str) -> &'a str {
        self.labels.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }
}

/// The samples of one metric. Labels with quotes or commas inside are not ours to read.
fn samples<'a>(page: &'a str, metric: &'a str) -> impl Iterator<Item = Sample<'a>> {
    page.lines().filter_map(move |line| {
        let rest = line.strip_prefix(metric)?.strip_prefix('{')?;
        let (labels, value) = rest.split_once('}')?;
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        let labels = labels.map(|(key, value)| (key, value.trim_matches('"'))).collect();
        let value = value.split_whitespace().next()?.parse().ok()?;
        Some(Sample { labels, value })
    })
}

/// What a kube-apiserver has answered: by verb, resource and subresource.
#[must_use]
pub fn apiserver_requests(page: &str) -> Counts {
    let mut counts = Counts::new();
    for sample in samples(page, "apiserver_request_total") {
        let (verb, resource) = (sample.label("verb"), sample.label("resource"));
        let slash = if sample.label("subresource").is_empty() { "" } else { "/" };
        let what = format!("{verb} {resource}{slash}{}", sample.label("subresource"));
        *counts.entry(what).or_default() += sample.value;
    }
    counts
}

/// What a client of ours has asked: by method and answer.
#[must_use]
pub fn client_requests(page: &str) -> Counts {
    let mut counts = Counts::new();
    for sample in samples(page, "rest_client_requests_total") {
        *counts.entry(format!("{} {}", sample.label("method"), sample.label("code"))).or_default() += sample.value;
    }
    counts
}

/// How the reconciles of a process ended.
#[must_use]
pub fn reconciles(page: &str) -> Counts {
    let mut counts = Counts::new();
    for sample in samples(page, "controller_runtime_reconcile_total") {
        *counts.entry(sample.label("result").to_owned()).or_default() += sample.value;
    }
    counts
}

/// What grew, and by how much for each of `objects`.
#[must_use]
pub fn growth(before: &Counts, after: &Counts, objects: usize) -> Counts {
    let grown = after.iter().map(|(what, count)| (what.clone(), count - before.get(what).unwrap_or(&0.0)));
    #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52 objects")]
    let each = grown.map(|(what, count)| (what, count / objects as f64));
    each.filter(|(_, count)| *count > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_compared() {
        let before = "# HELP x\napiserver_request_total{code=\"200\",resource=\"files\",subresource=\"status\",verb=\"PATCH\"} 2\n";
        let after = "apiserver_request_total{code=\"200\",resource=\"files\",subresource=\"status\",verb=\"PATCH\"} 12\n\
                     apiserver_request_total{code=\"201\",resource=\"events\",subresource=\"\",verb=\"POST\"} 1e1\n";
        let grown = growth(&apiserver_requests(before), &apiserver_requests(after), 10);
        assert_eq!(grown, Counts::from([("PATCH files/status".into(), 1.0), ("POST events".into(), 1.0)]));
        assert_eq!(growth(&grown, &grown, 10), Counts::new());
    }
}
