//! Random scenarios on both servers: the same answers, but for what `docs/differences.md` says.
//!
//! The seeds below [`SEEDS`] have recordings (`e2e/recorded/random`), which stand in where the real server is missing.
//! Where it is there, what differs is made small and printed as a scenario file. `CONCERT_SEEDS=1000..2000` hunts
//! further.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use concert_e2e::differential::random::hunt::Hunt;
use concert_e2e::differential::{Scenario, Transcript, compare::compare, normalise::normalise, print, random, rules};
use concert_e2e::differential::{recording, run_all};
use concert_e2e::{ControlPlane, Stopwatch, environment};

/// The seeds that are always played.
const SEEDS: Range<u64> = 0..98;
/// But for these: the real server tells the errors of one in another order each time, and of the other row 3 of
/// `docs/differences.md` is true.
const PASSED_OVER: [u64; 2] = [78, 89];
/// How many scenarios one pair of servers plays: definitions slow the real one down.
const AT_ONCE: usize = 200;
/// How many differences are made small in one run; more are told by their seed.
const SHRUNK: usize = 8;

#[test]
fn random_writes_are_answered_alike() {
    let recording = std::env::var_os("CONCERT_RECORD").is_some();
    match (environment::reference_apiserver(), std::env::var("CONCERT_SEEDS")) {
        (Ok(_), Err(_)) if recording => record(),
        (Ok(_), Ok(seeds)) => hunt(scenarios(parsed(&seeds))),
        (Ok(_), Err(_)) => {
            hunt(played());
            compare_with_recording();
        }
        (Err(missing), Ok(_)) => panic!("a hunt needs the real server: {missing}"),
        (Err(missing), Err(_)) => {
            println!("recorded answers stand in: {missing}");
            compare_with_recording();
        }
    }
}

fn parsed(seeds: &str) -> Range<u64> {
    let (first, end) = seeds.split_once("..").unwrap_or_else(|| panic!("CONCERT_SEEDS is no range: {seeds}"));
    let number = |text: &str| text.parse().unwrap_or_else(|error| panic!("CONCERT_SEEDS has {text}: {error}"));
    number(first)..number(end)
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded")
}

fn scenarios(seeds: impl Iterator<Item = u64>) -> Vec<Scenario> {
    seeds.map(random::scenario).collect()
}

/// What is always played.
fn played() -> Vec<Scenario> {
    scenarios(SEEDS.filter(|seed| !PASSED_OVER.contains(seed)))
}

/// Plays them on both servers, and shrinks what differs.
fn hunt(all: Vec<Scenario>) {
    let mut told = Vec::new();
    for scenarios in all.chunks(AT_ONCE) {
        let (real, ours) = (ControlPlane::reference(), ControlPlane::embedded());
        let hunt = Hunt::new(real.api(), ours.api());
        let watch = Stopwatch::start();
        let differences = hunt.differences(scenarios);
        println!("{} scenarios on both servers in {:?}", scenarios.len(), watch.elapsed());
        for (scenario, differences) in scenarios.iter().zip(differences).filter(|(_, found)| !found.is_empty()) {
            if told.len() < SHRUNK {
                let found = hunt.shrunk(scenario);
                // One that no longer differs when it is small is told as it was found.
                let left = if found.differences.is_empty() { differences } else { found.differences };
                told.push(format!("==== {}\n{}\n{}", found.id, found.file, left.join("\n")));
            } else {
                told.push(format!("==== {}\n{}", scenario.id(), differences.join("\n")));
            }
            println!("{}\n", told[told.len() - 1]);
        }
    }
    assert!(told.is_empty(), "{} of {} scenarios differ", told.len(), all.len());
}

/// Writes down what the real server answers, where it says the same twice.
fn record() {
    let scenarios = played();
    let servers = [ControlPlane::reference(), ControlPlane::reference()];
    let mut plays = servers.iter().map(|server| {
        let answers = run_all(&server.api(), &scenarios);
        answers.into_iter().map(|answer| normalise(&answer.unwrap_or_else(|why| panic!("{why}")))).collect::<Vec<_>>()
    });
    let (first, second) = (plays.next().expect("one"), plays.next().expect("two"));
    for (scenario, (first, second)) in scenarios.iter().zip(first.iter().zip(&second)) {
        // Of several errors the real server tells these today and those tomorrow: then there is nothing to write down.
        let unsettled = compare(first, second, ("once", "again"));
        let settled = if unsettled.is_empty() { first } else { &Transcript::default() };
        if !unsettled.is_empty() {
            println!("{} is not settled\n{}", scenario.id(), unsettled.join("\n"));
        }
        recording::write(&directory(), scenario, settled).unwrap_or_else(|why| panic!("{why}"));
    }
}

fn compare_with_recording() {
    let scenarios = played();
    let server = ControlPlane::embedded();
    let ours = run_all(&server.api(), &scenarios);
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (scenario, ours) in scenarios.iter().zip(ours) {
        let recorded = recording::read(&directory(), scenario).unwrap_or_else(|why| panic!("{why}"));
        let found = match (recorded, ours) {
            (None, _) => vec!["there is no recording: run `cargo xtask reference record`".to_owned()],
            (_, Err(why)) => vec![format!("ours: {why}")],
            // It was not settled when it was recorded.
            (Some(real), Ok(_)) if real.0.is_empty() => Vec::new(),
            (Some(real), Ok(ours)) => differences(real, &ours),
        };
        if !found.is_empty() {
            failures.insert(format!("{}\n{}", scenario.id(), print::yaml(scenario)), found);
        }
    }
    let told: Vec<String> = failures.iter().map(|(id, found)| format!("==== {id}\n{}\n", found.join("\n"))).collect();
    assert!(told.is_empty(), "{} of {} scenarios differ\n{}", failures.len(), scenarios.len(), told.join("\n"));
}

fn differences(mut real: Transcript, ours: &Transcript) -> Vec<String> {
    let mut ours = normalise(ours);
    rules::apply_all(&mut real, &mut ours, &mut Default::default());
    compare(&real, &ours, ("real", "ours"))
}
