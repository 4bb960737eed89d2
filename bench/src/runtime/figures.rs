//! Medians, ratios, and whether an aim was met.

mod rows;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::peers::Subject;
use crate::report::median;
pub use rows::ROWS;
pub(super) use rows::*;

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
    /// Of how many runs.
    pub runs: usize,
    /// How many times ours it is, if both were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// Whether an aim was met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Of what.
    pub what: &'static str,
    /// What is wanted.
    pub aim: String,
    /// What it is; nothing if not all was measured that it takes.
    pub is: Option<f64>,
    /// Whether that is good enough.
    pub met: Option<bool>,
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
        let (middle, runs) = (median(values.clone()), values.len());
        let ours = self.0.get(&(what, Subject::Ours)).filter(|_| subject != Subject::Ours);
        let ratio = ours.map(|ours| median(ours.clone())).filter(|ours| *ours > 0.0).map(|ours| middle / ours);
        Some(Figure { median: middle, least, most, runs, ratio })
    }

    /// Every row of which something was measured.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let line = |row: &Row| {
            let known = |subject: Subject| Some((subject.name(), self.get(row.what, subject)?));
            let figures: BTreeMap<_, _> = Subject::ALL.into_iter().filter_map(known).collect();
            let Row { workload, what, unit, .. } = *row;
            (!figures.is_empty()).then_some(Line { workload, what, unit, figures })
        };
        ROWS.iter().filter_map(line).collect()
    }

    /// Every aim of the workloads of which something was measured.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        let measured = |row: &&Row| self.0.keys().any(|(what, _)| *what == row.what);
        ROWS.iter().filter(measured).flat_map(|row| row.aims.iter().map(|aim| self.judge(row, *aim))).collect()
    }

    fn judge(&self, row: &Row, aim: Aim) -> Verdict {
        let of = |what, subject| self.get(what, subject).map(|figure| figure.median);
        let ours = of(row.what, Subject::Ours);
        let ratio = |theirs: Option<f64>| Some(theirs? / ours?);
        let (text, is, limit, less_is_better) = match aim {
            Aim::AtMost(limit) => (format!("ours at most {limit} {}", row.unit), ours, limit, true),
            Aim::Peer(peer, times) => {
                (format!("{} at least {times} times ours", peer.name()), ratio(of(row.what, peer)), times, false)
            }
            Aim::BestPeer(times) => {
                let peers = Subject::ALL.into_iter().filter(|subject| *subject != Subject::Ours);
                let best = peers.filter_map(|peer| of(row.what, peer)).reduce(f64::min);
                (format!("the best peer at least {times} times ours"), ratio(best), times, false)
            }
            Aim::TimesOf(other, times) => {
                let is = ours.zip(of(other, Subject::Ours)).map(|(ours, other)| ours / other);
                (format!("ours at most {times} times \"{other}\""), is, times, true)
            }
        };
        let met = is.map(|is| if less_is_better { is <= limit } else { is >= limit });
        Verdict { what: row.what, aim: text, is, met }
    }
}

/// Enough digits to compare, and no more.
fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 10_000.0 => format!("{:.1}k", value / 1000.0),
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        small if small >= 0.1 || small == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, least, most, runs, ratio } = self;
        f.write_str(&short(*median))?;
        if *runs > 1 {
            write!(f, " [{}..{}]", short(*least), short(*most))?;
        }
        ratio.map_or(Ok(()), |ratio| write!(f, " ×{ratio:.1}"))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = self.met.map_or("not measured", |met| if met { "met" } else { "NOT MET" });
        let is = self.is.map_or_else(|| "-".to_owned(), short);
        write!(f, "{met:<13}{is:>9}   {}: {}", self.what, self.aim)
    }
}

/// A table for people, and below it every aim.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<64}", "median [least..most] ×ours")?;
        Subject::ALL.into_iter().try_for_each(|subject| write!(f, " {:>27}", subject.name()))?;
        writeln!(f)?;
        for line in self.lines() {
            let unit = if line.unit.is_empty() { String::new() } else { format!(", {}", line.unit) };
            write!(f, "{:<64}", format!("{}{unit}", line.what))?;
            for subject in Subject::ALL {
                let cell = line.figures.get(subject.name()).map_or_else(|| "-".to_owned(), Figure::to_string);
                write!(f, " {cell:>27}")?;
            }
            writeln!(f)?;
        }
        let verdicts = self.verdicts();
        if !verdicts.is_empty() {
            writeln!(f, "\n{:<13}{:>9}   aim", "", "is")?;
        }
        verdicts.iter().try_for_each(|verdict| writeln!(f, "{verdict}"))
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
        assert_eq!(line.figures["ours"], Figure { median: 11.0, least: 10.0, most: 90.0, runs: 3, ratio: None });
        assert_eq!(line.figures["kube typed"].ratio, Some(200.0 / 11.0));
        let verdict = figures.verdicts().remove(0);
        assert_eq!((verdict.met, verdict.is), (Some(false), Some(40.0 / 11.0)), "the best peer is judged");
        let text = figures.to_string();
        assert!(text.contains("11.0 [10.0..90.0]") && text.contains("200 ×18.2"), "{text}");
        assert!(text.contains("NOT MET           3.64   cold sync, CPU per object: the best peer"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_not_judged_and_told() {
        let mut figures = Figures::default();
        figures.add(QUEUE_LARGE, Subject::Ours, 1.5);
        assert_eq!(figures.lines().len(), 1, "rows of other workloads are left out");
        let met: Vec<Option<bool>> = figures.verdicts().into_iter().map(|verdict| verdict.met).collect();
        assert_eq!(met, [Some(true), None], "its second aim needs the other row");
        figures.add(QUEUE_SMALL, Subject::Ours, 0.5);
        assert_eq!(figures.verdicts().pop().and_then(|verdict| verdict.met), Some(false));
    }

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<&str> = ROWS.iter().map(|row| row.what).collect();
        assert_eq!(names.len(), ROWS.len());
    }

    #[test]
    fn every_aim_of_the_issue_is_an_aim_of_a_row() {
        let aims = |what: &str| ROWS.iter().find(|row| row.what == what).map(|row| row.aims).unwrap_or_default();
        assert!(aims(RESIDENT).contains(&Aim::AtMost(8_192.0)));
        assert!(aims(DEFAULT_RESIDENT).contains(&Aim::Peer(Subject::ControllerRuntime, 3.0)));
        assert!(aims(DEFAULT_RESIDENT).contains(&Aim::Peer(Subject::Unstructured, 10.0)));
        assert!(aims(DEFAULT_RESIDENT).contains(&Aim::Peer(Subject::KubeRs, 10.0)));
        assert!(aims(COLD_CPU).contains(&Aim::BestPeer(4.0)) && aims(EVENT_CPU).contains(&Aim::BestPeer(4.0)));
        assert!(aims(RELIST_CPU).contains(&Aim::BestPeer(8.0)) && !aims(RELIST_PEAK).is_empty());
        assert!(aims(QUEUE_SMALL).contains(&Aim::AtMost(1.0)));
        assert!(aims(QUEUE_LARGE).contains(&Aim::TimesOf(QUEUE_SMALL, 2.0)));
        assert!([WHOLE_SMALL, WHOLE_MIDDLE, WHOLE_LARGE].iter().all(|what| aims(what).contains(&Aim::AtMost(5.0))));
        assert!([LIST_SHARED, LIST_BESIDE].iter().all(|what| aims(what).contains(&Aim::AtMost(0.3))));
        assert!(aims(KINDS_RESIDENT).contains(&Aim::AtMost(100.0)));
    }
}
