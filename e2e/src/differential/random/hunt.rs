//! Both servers side by side, asked the same random things until they differ.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::shrink::shrink;
use crate::Api;
use crate::differential::compare::compare;
use crate::differential::normalise::normalise;
use crate::differential::run::Entry;
use crate::differential::{Scenario, Transcript, print, rules, run_all};

/// How often the real server may answer before its answers are taken for settled: where Go walks a map, it answers in
/// one order today and in another tomorrow.
const PLAYS: usize = 4;

/// What a server answered to scenarios, or why there is no answer.
pub type Answers = Vec<Result<Transcript, String>>;

/// The servers.
#[derive(Debug)]
pub struct Hunt {
    /// The real one.
    pub real: Api,
    /// The embedded one.
    pub ours: Api,
    /// How often scenarios were played: each time they have other names.
    pub plays: AtomicUsize,
}

/// A difference, as small as it gets.
#[derive(Debug)]
pub struct Found {
    /// The scenario that showed it.
    pub id: String,
    /// A scenario file that shows it.
    pub file: String,
    /// What differs.
    pub differences: Vec<String>,
}

impl Hunt {
    /// Two servers to ask.
    #[must_use]
    pub fn new(real: Api, ours: Api) -> Self {
        Self { real, ours, plays: AtomicUsize::new(0) }
    }

    /// What both answer.
    #[must_use]
    pub fn play(&self, scenarios: &[Scenario]) -> (Answers, Answers) {
        std::thread::scope(|scope| {
            let real = scope.spawn(|| self.answers(&self.real, scenarios));
            let ours = self.answers(&self.ours, scenarios);
            (real.join().expect("asking does not panic"), ours)
        })
    }

    /// The differences of each scenario, however often the real server is asked.
    #[must_use]
    pub fn differences(&self, scenarios: &[Scenario]) -> Vec<Vec<String>> {
        self.differences_after(scenarios, PLAYS)
    }

    fn differences_after(&self, scenarios: &[Scenario], plays: usize) -> Vec<Vec<String>> {
        let (real, ours) = self.play(scenarios);
        let mut found: Vec<Vec<String>> = real.iter().zip(&ours).map(|(real, ours)| differences(real, ours)).collect();
        for _ in 1..plays {
            let left: Vec<usize> = (0..found.len()).filter(|place| !found[*place].is_empty()).collect();
            if left.is_empty() {
                break;
            }
            let again: Vec<Scenario> = left.iter().map(|place| scenarios[*place].clone()).collect();
            let (real, ours) = self.play(&again);
            for (place, (real, ours)) in left.into_iter().zip(real.iter().zip(&ours)) {
                found[place] = differences(real, ours);
            }
        }
        found
    }

    /// Makes a scenario that differs as small as it gets.
    #[must_use]
    pub fn shrunk(&self, scenario: &Scenario) -> Found {
        let sign = sign(&self.differences_after(std::slice::from_ref(scenario), 1).remove(0));
        let differs = |scenarios: &[Scenario]| {
            let found = self.differences_after(scenarios, 2);
            found.iter().map(|differences| !differences.is_empty() && self::sign(differences) == sign).collect()
        };
        let smallest = shrink(scenario.clone(), &differs);
        let differences = self.differences(std::slice::from_ref(&smallest)).remove(0);
        Found { id: scenario.id(), file: print::yaml(&smallest), differences }
    }

    /// What a server answers, under names that were not used before.
    fn answers(&self, api: &Api, scenarios: &[Scenario]) -> Answers {
        let play = self.plays.fetch_add(1, Ordering::Relaxed);
        let renamed: Vec<Scenario> = scenarios
            .iter()
            .enumerate()
            .map(|(place, scenario)| Scenario { name: format!("{}p{play}n{place}", scenario.name), ..scenario.clone() })
            .collect();
        let answers = run_all(api, &renamed);
        let named = |(answer, (scenario, renamed)): (Result<Transcript, String>, (&Scenario, &Scenario))| {
            answer.map(|transcript| normalise(&called(&transcript, &renamed.namespace(), &scenario.namespace())))
        };
        answers.into_iter().zip(scenarios.iter().zip(&renamed)).map(named).collect()
    }
}

/// What kind of difference it is: where the first one is, and if one server refused, in which words. While it shrinks, a
/// scenario is not to stray to another one.
fn sign(differences: &[String]) -> Vec<String> {
    let wordy = |text: &String| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let first: Vec<&String> = differences.iter().skip(1).take_while(|line| !line.starts_with("step ")).collect();
    let is_about = |line: &&&String, place: &str| line.trim_start().starts_with(&format!("{place}\n"));
    if first.iter().any(|line| is_about(&line, "code")) {
        return first.iter().filter(|line| is_about(line, "body.message")).map(|line| wordy(line)).collect();
    }
    let place = |line: &&String| line.trim_start().lines().next().unwrap_or_default().to_owned();
    first.first().map(|line| wordy(&place(line))).into_iter().collect()
}

fn differences(real: &Result<Transcript, String>, ours: &Result<Transcript, String>) -> Vec<String> {
    match (real, ours) {
        (Ok(real), Ok(ours)) => {
            let (mut real, mut ours) = (real.clone(), ours.clone());
            rules::apply_all(&mut real, &mut ours, &mut Default::default());
            compare(&real, &ours, ("real", "ours"))
        }
        (Err(why), _) => vec![format!("real: {why}")],
        (_, Err(why)) => vec![format!("ours: {why}")],
    }
}

/// The transcript with another name in it.
fn called(transcript: &Transcript, old: &str, new: &str) -> Transcript {
    let entry = |entry: &Entry| {
        let text = entry.answer.to_string().replace(old, new);
        Entry { answer: serde_json::from_str(&text).unwrap_or_else(|_| entry.answer.clone()), ..entry.clone() }
    };
    Transcript(transcript.0.iter().map(entry).collect())
}
