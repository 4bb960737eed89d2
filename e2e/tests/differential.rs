//! Every scenario below `e2e/scenarios`, on the embedded server and on the real one: the same answers, but for what
//! `docs/differences.md` says.
//!
//! Where the real server is missing its recorded answers stand in (`e2e/recorded`); where it is there the recording has
//! to be what it says. `cargo xtask reference record` writes them anew. `CONCERT_SCENARIO=watches/` runs only the
//! scenarios whose name contains that.
//!
//! `e2e/scenarios/open.txt` names the scenarios that are known to differ and ought not to. One that does not differ any
//! more is named, to be struck from it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use concert_e2e::differential::{
    Scenario, Transcript, compare::compare, normalise::normalise, recording, rules, run, run_all, scenario,
};
use concert_e2e::{ControlPlane, Embedded, Stopwatch, environment};

/// How many scenarios there are at least, in all and in each group, and how many requests in each scenario.
const AT_LEAST: (usize, usize, usize) = (120, 12, 5);
/// When more than one scenario of so many goes another way than in the recording, it is not the pace of the machine.
const MOVED: usize = 20;

const GROUPS: [&str; 9] =
    ["cel", "crd-schema", "crud", "deletion", "namespaces", "paging", "patches", "selectors", "watches"];

#[test]
fn both_servers_answer_alike() {
    let scenarios = scenarios(&filter());
    if std::env::var_os("CONCERT_RECORD").is_some() {
        return record(&scenarios);
    }
    let real = std::thread::scope(|scope| {
        let real = scope.spawn(|| real_answers(&scenarios));
        let ours = our_answers(&scenarios);
        (real.join().expect("the real server's side does not panic"), ours)
    });
    report(&scenarios, real.0, real.1);
}

#[test]
fn there_are_enough_scenarios() {
    let (all, in_group, requests) = AT_LEAST;
    let scenarios = scenarios("");
    assert!(scenarios.len() >= all, "only {} scenarios", scenarios.len());
    for group in GROUPS {
        let count = scenarios.iter().filter(|scenario| scenario.group == group).count();
        assert!(count >= in_group, "only {count} scenarios in {group}");
    }
    for scenario in &scenarios {
        let count = scenario.steps.iter().filter(|step| step.is_compared()).count();
        assert!(count >= requests, "{}: only {count} requests", scenario.id());
        assert!(scenario.namespace().len() <= 63, "{}: the name is too long for a namespace", scenario.id());
    }
}

fn filter() -> String {
    std::env::var("CONCERT_SCENARIO").unwrap_or_default()
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[track_caller]
fn scenarios(filter: &str) -> Vec<Scenario> {
    scenario::load(&directory("scenarios"), filter).unwrap_or_else(|why| panic!("{why}"))
}

type Answers = Vec<Result<Transcript, String>>;

fn our_answers(scenarios: &[Scenario]) -> Answers {
    let server = ControlPlane::embedded_with(Embedded::new(environment::binary("concert")));
    let watch = Stopwatch::start();
    let answers = played(&server, scenarios);
    println!("ours: {} scenarios in {:?}", scenarios.len(), watch.elapsed());
    answers
}

/// The real server's answers, live; nothing if it is not here.
fn real_answers(scenarios: &[Scenario]) -> Option<Answers> {
    let controllers = environment::reference_apiserver().and_then(|_| environment::reference_controllers());
    let controllers = controllers.inspect_err(|missing| println!("recorded answers stand in: {missing}")).ok()?;
    let server = ControlPlane::reference();
    let watch = Stopwatch::start();
    define(&server);
    // After the definitions: the real garbage collector looks for new kinds only every 30 s.
    server.start_controllers(&controllers);
    let answers = played_in(&server, scenarios, true);
    println!("real: {} scenarios in {:?}", scenarios.len(), watch.elapsed());
    Some(answers)
}

fn played(server: &ControlPlane, scenarios: &[Scenario]) -> Answers {
    define(server);
    let furnished = server.api().request("GET", "/api/v1/namespaces/default/serviceaccounts/default", None);
    played_in(server, scenarios, furnished.is_ok_and(|answer| answer.code == 200))
}

fn played_in(server: &ControlPlane, scenarios: &[Scenario], furnished: bool) -> Answers {
    let answers = run_all(&server.api(), scenarios, furnished);
    answers.into_iter().map(|answer| answer.map(|transcript| normalise(&transcript))).collect()
}

#[track_caller]
fn define(server: &ControlPlane) {
    let definitions = scenario::definitions(&directory("scenarios")).unwrap_or_else(|why| panic!("{why}"));
    run::define(&server.api(), &definitions).unwrap_or_else(|why| panic!("{why}"));
}

/// Writes down what the real server answers.
fn record(scenarios: &[Scenario]) {
    let answers = real_answers(scenarios).expect("recording needs the real server");
    let mut failures = Vec::new();
    for (scenario, answer) in scenarios.iter().zip(answers) {
        let directory = directory("recorded");
        let written = answer.and_then(|transcript| recording::write(&directory, scenario, &transcript));
        failures.extend(written.err().map(|why| format!("{}: {why}", scenario.id())));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Compares, and panics with all that differs.
fn report(scenarios: &[Scenario], real: Option<Answers>, ours: Answers) {
    let recorded = directory("recorded");
    let mut fired = BTreeSet::new();
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut moved: Vec<String> = Vec::new();
    let open = std::fs::read_to_string(directory("scenarios/open.txt")).unwrap_or_default();
    let open: BTreeSet<&str> = open.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut real: Vec<_> =
        real.map_or_else(|| scenarios.iter().map(|_| None).collect(), |all| all.into_iter().map(Some).collect());
    for ((scenario, real), ours) in scenarios.iter().zip(&mut real).zip(ours) {
        let failed = failures.entry(scenario.id()).or_default();
        let is_open = open.contains(&*scenario.id());
        let from_file = recording::read(&recorded, scenario).unwrap_or_else(|why| panic!("{why}"));
        let mut real = match real.take() {
            // What the real one does when depends on the load of the machine (controllers, the order in which definitions
            // are served): where it went another way than in the recording, the recording stands.
            Some(Ok(live)) => match from_file {
                Some(recorded) => {
                    moved.extend(stale(&scenario.id(), &recorded, &live));
                    recorded
                }
                None => {
                    failed.push("there is no recording: run `cargo xtask reference record`".to_owned());
                    live
                }
            },
            Some(Err(why)) => match from_file {
                Some(recorded) => {
                    moved.push(format!("{}: the real server: {why}", scenario.id()));
                    recorded
                }
                None => {
                    failed.push(format!("the real server: {why}"));
                    continue;
                }
            },
            None => match from_file {
                Some(recorded) => recorded,
                None => {
                    failed.push("there is no recording: run `cargo xtask reference record`".to_owned());
                    continue;
                }
            },
        };
        match ours {
            Ok(mut ours) => {
                rules::apply_all(&mut real, &mut ours, &mut fired);
                differences(&scenario.id(), &compare(&real, &ours, ("real", "ours")), is_open, failed);
            }
            Err(why) => differences(&scenario.id(), &[format!("ours: {why}")], is_open, failed),
        }
    }
    failures.retain(|_, failed| !failed.is_empty());
    let mut text = String::new();
    println!("{}", moved.join("\n"));
    if moved.len() > scenarios.len() / MOVED {
        text.push_str("\n==== the recordings are stale (see above): run `cargo xtask reference record`\n");
    }
    for (id, failed) in &failures {
        text.push_str(&format!("\n==== {id}\n{}\n", failed.join("\n")));
    }
    let idle: Vec<_> = rules::RULES.iter().filter(|rule| !fired.contains(rule.name)).collect();
    if filter().is_empty() && !idle.is_empty() {
        text.push_str(&format!("\n==== rules that never apply, and their rows in docs/differences.md: {idle:?}\n"));
    }
    assert!(text.is_empty(), "{} of {} scenarios differ\n{text}", failures.len(), scenarios.len());
}

/// Adds the differences, unless they are known.
fn differences(id: &str, found: &[String], is_open: bool, failed: &mut Vec<String>) {
    let show = std::env::var_os("CONCERT_SHOW_OPEN").is_some();
    match (found.is_empty(), is_open) {
        (false, true) if !show => {}
        (true, true) => println!("{id} does not differ any more: strike it from e2e/scenarios/open.txt"),
        (_, _) => failed.extend(found.iter().cloned()),
    }
}

/// Where the real server now goes another way than in the recording.
fn stale(id: &str, recorded: &Transcript, live: &Transcript) -> Option<String> {
    let found = compare(live, recorded, ("real", "recorded"));
    (!found.is_empty()).then(|| format!("{id}: another way than in the recording\n{}", found.join("\n")))
}
