//! Figures for people and for scripts.

use std::fmt;

use serde::Serialize;

use crate::scrape::Counts;

/// What one run gave.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Which control plane.
    pub server: &'static str,
    /// How many Files.
    pub objects: usize,
    /// The median time of an fsync on the same disk just before, in microseconds.
    pub fsync_us: f64,
    /// Until the last create was answered.
    pub created_seconds: f64,
    /// Until the watch had shown all Ready.
    pub ready_seconds: f64,
    /// Objects by the second until all were Ready.
    pub ready_per_second: f64,
    /// Until the reconciler had sent its last request (Events come after).
    pub settled_seconds: f64,
    /// From the first delete until the watch had shown all gone.
    pub gone_seconds: f64,
    /// Requests from the first create until the reconciler was quiet.
    pub to_ready: Requests,
    /// Requests from the first delete until the reconciler was quiet.
    pub to_gone: Requests,
    /// What each process used.
    pub processes: Vec<Process>,
    /// Processor time of the measuring process until the reconciler was quiet.
    pub client_cpu_seconds: f64,
}

/// Requests and reconciles for each object.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// As the reconciler counts them, by method and answer.
    pub reconciler: Counts,
    /// As the real server counts them, ours among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Counts>,
    /// Reconciles by result.
    pub reconciles: Counts,
}

/// What a process used.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// Which.
    pub name: &'static str,
    /// Processor time from the first create to all Ready.
    pub cpu_seconds: f64,
    /// Processor time from all Ready to all gone, late Events among them.
    pub cpu_seconds_deletion: f64,
    /// Memory before the first create.
    pub idle_bytes: u64,
    /// The most memory it ever had.
    pub peak_bytes: u64,
}

/// Everything that one call measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reports {
    /// Each run.
    pub runs: Vec<Report>,
    /// How many times as long the larger number of objects took: by server, medians.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<Ratio>,
}

/// How the time grows with the number of objects.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ratio {
    /// Which control plane.
    pub server: &'static str,
    /// Of how many objects.
    pub objects: usize,
    /// To how many.
    pub to: usize,
    /// Time to all Ready.
    pub ready: f64,
    /// Time to all gone.
    pub gone: f64,
}

impl Reports {
    /// The runs, with what can be compared between them.
    #[must_use]
    pub fn new(runs: Vec<Report>) -> Self {
        let mut ratios = Vec::new();
        for server in ["embedded", "reference"] {
            let mut sizes: Vec<usize> = runs.iter().filter(|run| run.server == server).map(|run| run.objects).collect();
            sizes.sort_unstable();
            sizes.dedup();
            let of = |objects: usize, time: fn(&Report) -> f64| {
                median(runs.iter().filter(|run| run.server == server && run.objects == objects).map(time).collect())
            };
            let time = |from, to, time: fn(&Report) -> f64| of(to, time) / of(from, time);
            ratios.extend(sizes.windows(2).map(|pair| Ratio {
                server,
                objects: pair[0],
                to: pair[1],
                ready: time(pair[0], pair[1], |run| run.ready_seconds),
                gone: time(pair[0], pair[1], |run| run.gone_seconds),
            }));
        }
        Self { runs, ratios }
    }
}

/// The middle one; of an even number, the mean of the two.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2))
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

fn counts(f: &mut fmt::Formatter<'_>, title: &str, counts: &Counts) -> fmt::Result {
    let total: f64 = counts.values().sum();
    writeln!(f, "  {title:<28} {total:>8.3}")?;
    // What happens less than once in a hundred objects is the server's own housekeeping.
    let shown = counts.iter().filter(|(_, count)| **count >= 0.01);
    for (what, count) in shown {
        writeln!(f, "    {what:<26} {count:>8.3}")?;
    }
    Ok(())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} Files on {} (fsync {:.0} µs)", self.objects, self.server, self.fsync_us)?;
        let rate = format!("{:.0} objects/s", self.ready_per_second);
        writeln!(f, "  {:<28} {:>8.2} s   {rate}", "all Ready", self.ready_seconds)?;
        writeln!(f, "  {:<28} {:>8.2} s", "all created", self.created_seconds)?;
        writeln!(f, "  {:<28} {:>8.2} s", "last request (Events)", self.settled_seconds)?;
        writeln!(f, "  {:<28} {:>8.2} s", "all gone, from delete", self.gone_seconds)?;
        writeln!(f, "  {:<24} {:>12} {:>12} {:>8} {:>8}", "process", "cpu to Ready", "cpu to gone", "idle", "peak")?;
        for process in &self.processes {
            let (idle, peak) = (mib(process.idle_bytes), mib(process.peak_bytes));
            let (ready, gone) = (process.cpu_seconds, process.cpu_seconds_deletion);
            writeln!(f, "  {:<24} {ready:>10.2} s {gone:>10.2} s {idle:>8} {peak:>8}", process.name)?;
        }
        writeln!(f, "  {:<24} {:>10.2} s", "(this client)", self.client_cpu_seconds)?;
        for (title, requests) in [("to Ready", &self.to_ready), ("to gone", &self.to_gone)] {
            counts(f, &format!("requests/object {title}"), &requests.reconciler)?;
            if let Some(server) = &requests.server {
                counts(f, "  the server's count", server)?;
            }
            counts(f, &format!("reconciles/object {title}"), &requests.reconciles)?;
        }
        Ok(())
    }
}

impl fmt::Display for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for run in &self.runs {
            writeln!(f, "{run}")?;
        }
        for Ratio { server, objects, to, ready, gone } in &self.ratios {
            writeln!(f, "{server}: {to} take {ready:.1} times as long as {objects} (deletion: {gone:.1})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_nan());
    }
}
