//! Medians, ratios, and whether an aim was met.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::peers::Subject;
use crate::report::median;

/// What is measured: a row of the table. Less is better in all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The workload it belongs to.
    pub workload: &'static str,
    /// What.
    pub what: &'static str,
    /// Of what.
    pub unit: &'static str,
    /// What the issue wants.
    pub aims: &'static [Aim],
}

/// What is wanted of our figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    /// It is at most this.
    AtMost(f64),
    /// That of the best peer is at least so many times as large.
    BestPeer(f64),
    /// That of this peer is at least so many times as large.
    Peer(Subject, f64),
    /// It is at most so many times our figure of another row.
    TimesOf(&'static str, f64),
}

/// Every row, in the order of the table.
pub const ROWS: &[Row] = &[
    row("cold", COLD_CPU, "µs", &[Aim::BestPeer(4.0)]),
    row("cold", COLD_WALL, "s", &[]),
    row("cold", RESIDENT, "B", RESIDENT_AIMS),
    row("cold", COLLECTED, "B", &[]),
    row("cold", COLD_PEAK, "B", &[]),
    row("keep", KEEP_CPU, "µs", &[]),
    row("keep", KEEP_RESIDENT, "B", &[]),
    row("event", EVENT_CPU, "µs", &[Aim::BestPeer(4.0)]),
    row("event", EVENT_LATENCY, "ms", &[]),
    row("queue", QUEUE_SMALL, "µs", &[Aim::AtMost(1.0)]),
    row("queue", QUEUE_LARGE, "µs", &[Aim::TimesOf(QUEUE_SMALL, 2.0)]),
    row("queue", QUEUE_REPEAT, "µs", &[]),
    row("queue", WHOLE_SMALL, "µs", &[Aim::AtMost(5.0)]),
    row("queue", WHOLE_MIDDLE, "µs", &[Aim::AtMost(5.0)]),
    row("queue", WHOLE_LARGE, "µs", &[Aim::AtMost(5.0)]),
    row("priority", LIVE_LATENCY, "ms", &[]),
    row("priority", LAST_INITIAL, "s", &[]),
    row("index", LIST_SHARED, "µs", &[Aim::AtMost(0.3)]),
    row("index", LIST_COPIED, "µs", &[]),
    row("index", GET, "µs", &[]),
    row("relist", RELIST_CPU, "µs", &[Aim::BestPeer(8.0)]),
    row("relist", RELIST_PEAK, "%", &[Aim::AtMost(5.0)]),
    row("kinds", KINDS_RESIDENT, "MB", &[Aim::AtMost(100.0)]),
    row("kinds", KINDS_CONNECTIONS, "", &[]),
    row("kinds", KINDS_CPU, "µs", &[]),
];

pub(super) const COLD_CPU: &str = "cold sync, CPU per object";
pub(super) const COLD_WALL: &str = "cold sync, on the wall";
pub(super) const RESIDENT: &str = "resident per object";
pub(super) const COLLECTED: &str = "resident per object, after a forced GC";
pub(super) const COLD_PEAK: &str = "peak of the cold sync, per object";
pub(super) const KEEP_CPU: &str = "managedFields kept: CPU per object";
pub(super) const KEEP_RESIDENT: &str = "managedFields kept: resident per object";
pub(super) const EVENT_CPU: &str = "CPU per event, 9 of 10 dropped";
pub(super) const EVENT_LATENCY: &str = "event to reconcile, p99";
pub(super) const QUEUE_SMALL: &str = "queue alone, 10 thousand keys, per key";
pub(super) const QUEUE_LARGE: &str = "queue alone, 1 million keys, per key";
pub(super) const QUEUE_REPEAT: &str = "queue alone, 10 keys 1 million times, per add";
pub(super) const WHOLE_SMALL: &str = "whole controller, 10 thousand keys, per key";
pub(super) const WHOLE_MIDDLE: &str = "whole controller, 100 thousand keys, per key";
pub(super) const WHOLE_LARGE: &str = "whole controller, 1 million keys, per key";
pub(super) const LIVE_LATENCY: &str = "live updates while starting, p99";
pub(super) const LAST_INITIAL: &str = "last initial object done";
pub(super) const LIST_SHARED: &str = "indexed list, per object, shared";
pub(super) const LIST_COPIED: &str = "indexed list, per object, copied";
pub(super) const GET: &str = "get";
pub(super) const RELIST_CPU: &str = "relist, nothing changed, CPU per object";
pub(super) const RELIST_PEAK: &str = "relist, peak over steady";
pub(super) const KINDS_RESIDENT: &str = "500 kinds, 10 objects each: resident";
pub(super) const KINDS_CONNECTIONS: &str = "500 kinds: connections";
pub(super) const KINDS_CPU: &str = "500 kinds: CPU per event";

const RESIDENT_AIMS: &[Aim] = &[
    Aim::AtMost(8_192.0),
    Aim::Peer(Subject::ControllerRuntime, 3.0),
    Aim::Peer(Subject::Unstructured, 10.0),
    Aim::Peer(Subject::KubeRs, 10.0),
];

const fn row(workload: &'static str, what: &'static str, unit: &'static str, aims: &'static [Aim]) -> Row {
    Row { workload, what, unit, aims }
}

/// What was measured so far: by row and subject, a value for each run.
#[derive(Clone, Debug, Default)]
pub struct Figures(BTreeMap<(&'static str, Subject), Vec<f64>>);

/// The median of some runs, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The one in the middle.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// Whether an aim was met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What is wanted.
    pub aim: String,
    /// What it is.
    pub is: f64,
    /// Whether that is good enough.
    pub met: bool,
}

/// A row with its figures, for scripts.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Which workload.
    pub workload: &'static str,
    /// What.
    pub what: &'static str,
    /// Of what.
    pub unit: &'static str,
    /// Of each subject that was measured.
    pub figures: BTreeMap<&'static str, Figure>,
    /// What the issue wants, where all that it takes was measured.
    pub aims: Vec<Verdict>,
}

impl Figures {
    /// Adds what one run gave.
    pub fn add(&mut self, what: &'static str, subject: Subject, value: f64) {
        self.0.entry((what, subject)).or_default().push(value);
    }

    /// The figure of a subject; `None` if it was not measured.
    #[must_use]
    pub fn get(&self, what: &'static str, subject: Subject) -> Option<Figure> {
        let values = self.0.get(&(what, subject))?;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Figure { median: median(values.clone()), least, most })
    }

    fn judge(&self, row: &Row, aim: Aim) -> Option<Verdict> {
        let of = |what, subject| self.get(what, subject).map(|figure| figure.median);
        let ours = of(row.what, Subject::Ours)?;
        let ratio = |theirs: f64, whose: &str, times: f64| {
            let is = theirs / ours;
            Verdict { aim: format!("{whose} at least {times} times ours"), is, met: is >= times }
        };
        Some(match aim {
            Aim::AtMost(limit) => {
                Verdict { aim: format!("ours at most {limit} {}", row.unit), is: ours, met: ours <= limit }
            }
            Aim::Peer(peer, times) => ratio(of(row.what, peer)?, peer.name(), times),
            Aim::BestPeer(times) => {
                let peers = Subject::ALL.into_iter().filter(|subject| *subject != Subject::Ours);
                let best = peers.filter_map(|peer| of(row.what, peer)).reduce(f64::min)?;
                ratio(best, "the best peer", times)
            }
            Aim::TimesOf(other, times) => {
                let is = ours / of(other, Subject::Ours)?;
                Verdict { aim: format!("at most {times} times \"{other}\""), is, met: is <= times }
            }
        })
    }

    /// Every row of which something was measured.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let line = |row: &Row| {
            let known = |subject: Subject| Some((subject.name(), self.get(row.what, subject)?));
            let figures: BTreeMap<_, _> = Subject::ALL.into_iter().filter_map(known).collect();
            let aims = row.aims.iter().filter_map(|aim| self.judge(row, *aim)).collect();
            let Row { workload, what, unit, .. } = *row;
            (!figures.is_empty()).then_some(Line { workload, what, unit, figures, aims })
        };
        ROWS.iter().filter_map(line).collect()
    }
}

/// Enough digits to compare, and no more.
fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 10_000.0 => format!("{:.1}k", value / 1000.0),
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A table for people.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<50}", "median [least..most]")?;
        Subject::ALL.into_iter().try_for_each(|subject| write!(f, " {:>22}", subject.name()))?;
        writeln!(f)?;
        for line in self.lines() {
            write!(f, "{:<50}", format!("{}, {}", line.what, line.unit))?;
            for subject in Subject::ALL {
                let cell = line.figures.get(subject.name()).map(|Figure { median, least, most }| {
                    format!("{} [{}..{}]", short(*median), short(*least), short(*most))
                });
                write!(f, " {:>22}", cell.unwrap_or_else(|| "-".to_owned()))?;
            }
            writeln!(f)?;
            for Verdict { aim, is, met } in &line.aims {
                writeln!(f, "    {}: {aim} (is {})", if *met { "met" } else { "NOT MET" }, short(*is))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aims_are_judged_by_medians() {
        let mut figures = Figures::default();
        for value in [10.0, 11.0, 90.0] {
            figures.add(COLD_CPU, Subject::Ours, value);
        }
        figures.add(COLD_CPU, Subject::KubeRs, 200.0);
        figures.add(COLD_CPU, Subject::ControllerRuntime, 40.0);
        let line = figures.lines().remove(0);
        assert_eq!(line.figures["ours"], Figure { median: 11.0, least: 10.0, most: 90.0 });
        assert!(!line.aims[0].met && (line.aims[0].is - 40.0 / 11.0).abs() < 1e-9, "the best peer is judged");
        assert!(figures.to_string().contains("NOT MET: the best peer at least 4 times ours (is 3.64)"));
    }

    #[test]
    fn what_was_not_measured_is_neither_shown_nor_judged() {
        let mut figures = Figures::default();
        figures.add(QUEUE_LARGE, Subject::Ours, 1.5);
        let lines = figures.lines();
        assert_eq!((lines.len(), lines[0].aims.len()), (1, 0), "its aim needs the other row");
        figures.add(QUEUE_SMALL, Subject::Ours, 0.5);
        assert!(!figures.lines()[1].aims[0].met);
    }

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<&str> = ROWS.iter().map(|row| row.what).collect();
        assert_eq!(names.len(), ROWS.len());
    }
}
