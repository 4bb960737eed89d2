//! Every scenario below `e2e/scenarios`, on the embedded server and on the real one: the same answers, but for what
//! `docs/differences.md` says.
//!
//! Where the real server is missing its recorded answers stand in (`e2e/recorded`); where it is there the recording has
//! to be what it says. `cargo xtask reference record` writes them anew. `CONCERT_SCENARIO=watches/` runs only the
//! scenarios whose name contains that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use concert_e2e::differential::{
    Scenario, Transcript, compare::compare, normalise::normalise, recording, rules, run, run_all, scenario,
};
use concert_e2e::{ControlPlane, Embedded, Stopwatch, environment};

/// How many scenarios there are at least in all, and how many requests in each.
const AT_LEAST: (usize, usize) = (210, 5);
/// How often the real server is asked before its answers are taken for others than the recorded ones.
const PLAYS: usize = 3;

/// The groups, and how many scenarios each has at least.
const GROUPS: [(&str, usize); 13] = [
    ("cel", 12),
    ("crd-schema", 12),
    ("crud", 12),
    ("defaults", 12),
    ("deletion", 12),
    ("kinds", 12),
    ("namespaces", 12),
    ("paging", 12),
    ("patches", 12),
    ("protobuf", 9),
    ("selectors", 12),
    ("tables", 10),
    ("watches", 12),
];

#[test]
fn both_servers_answer_alike() {
    let scenarios = scenarios(&filter());
    if std::env::var_os("CONCERT_RECORD").is_some() {
        return record(&scenarios);
    }
    let directory = directory("recorded");
    let recorded = scenarios.iter().map(|scenario| recording::read(&directory, scenario));
    let recorded: Vec<_> = recorded.map(|one| one.unwrap_or_else(|why| panic!("{why}"))).collect();
    let (stale, ours) = std::thread::scope(|scope| {
        let stale = scope.spawn(|| stale(&scenarios, &recorded));
        let ours = our_answers(&scenarios);
        (stale.join().expect("the real server's side does not panic"), ours)
    });
    report(&scenarios, recorded, stale, ours);
}

#[test]
fn there_are_enough_scenarios() {
    let (all, requests) = AT_LEAST;
    let scenarios = scenarios("");
    assert!(scenarios.len() >= all, "only {} scenarios", scenarios.len());
    for (group, in_group) in GROUPS {
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
    define(&server);
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
    let answers = played(&server, scenarios);
    println!("real: {} scenarios in {:?}", scenarios.len(), watch.elapsed());
    Some(answers)
}

fn played(server: &ControlPlane, scenarios: &[Scenario]) -> Answers {
    let answers = run_all(&server.api(), scenarios);
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

/// The scenarios that the real server answers otherwise than in the recording, however often it is asked.
/// Its controllers work at their own pace, and a busy machine can change which of two things happens first: a scenario
/// that went another way is played again, on a new server.
fn stale(scenarios: &[Scenario], recorded: &[Option<Transcript>]) -> BTreeMap<String, Vec<String>> {
    let mut left: Vec<usize> = (0..scenarios.len()).collect();
    let mut found = BTreeMap::new();
    for _ in 0..PLAYS {
        let played: Vec<Scenario> = left.iter().map(|index| scenarios[*index].clone()).collect();
        let Some(answers) = real_answers(&played) else { return BTreeMap::new() };
        found.clear();
        left = left
            .into_iter()
            .zip(answers)
            .filter_map(|(index, live)| {
                let differences = match (&recorded[index], live) {
                    (None, _) => return None,
                    (Some(recorded), Ok(live)) => compare(&live, recorded, ("real", "recorded")),
                    (Some(_), Err(why)) => vec![format!("the real server: {why}")],
                };
                (!differences.is_empty()).then(|| {
                    found.insert(scenarios[index].id(), differences);
                    index
                })
            })
            .collect();
        if left.is_empty() {
            break;
        }
        println!("another way than in the recording: {}", found.keys().cloned().collect::<Vec<_>>().join(", "));
    }
    found
}

/// Compares, and panics with all that differs.
fn report(
    scenarios: &[Scenario],
    recorded: Vec<Option<Transcript>>,
    stale: BTreeMap<String, Vec<String>>,
    ours: Answers,
) {
    let mut fired = BTreeSet::new();
    let mut failures = stale;
    for (scenario, (recorded, ours)) in scenarios.iter().zip(recorded.into_iter().zip(ours)) {
        let found = match (recorded, ours) {
            (None, _) => vec!["there is no recording: run `cargo xtask reference record`".to_owned()],
            (_, Err(why)) => vec![format!("ours: {why}")],
            (Some(mut real), Ok(mut ours)) => {
                rules::apply_all(&mut real, &mut ours, &mut fired);
                compare(&real, &ours, ("real", "ours"))
            }
        };
        if !found.is_empty() {
            failures.entry(scenario.id()).or_default().extend(found);
        }
    }
    let mut text = String::new();
    for (id, failed) in &failures {
        text.push_str(&format!("\n==== {id}\n{}\n", failed.join("\n")));
    }
    let idle: Vec<_> = rules::RULES.iter().filter(|rule| !fired.contains(rule.name)).collect();
    if filter().is_empty() && !idle.is_empty() {
        text.push_str(&format!("\n==== rules that never apply, and their rows in docs/differences.md: {idle:?}\n"));
    }
    assert!(text.is_empty(), "{} of {} scenarios differ\n{text}", failures.len(), scenarios.len());
}
