//! The tests of kube-rs that need a server, on the embedded server and on the real one: each has to end on both as is
//! expected of it.
//!
//! `cargo xtask suite kube` builds them and runs this alone. It writes as libtest does, so its tests are counted as any
//! others; a test whose results are as expected is one line with both of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use concert_e2e::{ControlPlane, Outcome, Stopwatch, Suite, environment, eventually};

/// Tests that fail on any server without nodes, and what they wait for in vain.
const NEED_NODES: &[(&str, &str)] = &[
    ("kube::test::pod_can_await_conditions", "the pod never runs"),
    ("kube_client::test::can_get_pod_logs_and_evict", "the pod never writes"),
    ("kube_client::test::pod_can_exec_and_write_to_stdin", "the pod has no host"),
];

/// Flags of libtest that we give ourselves, or whose output we could not read.
const PASSED_OVER: &[&str] = &["--ignored", "--include-ignored", "--list", "--nocapture", "--show-output", "--quiet"];

/// What this is called where it cannot run.
const NAME: &str = "the tests of kube-rs";

/// How many tests of kube-rs 5.0 need a server, with and without nodes.
const TESTS: usize = 29;

/// How long the real server may take to make its service.
const PATIENCE: Duration = Duration::from_secs(30);

type Outcomes = BTreeMap<String, Outcome>;

/// What became of the tests, counted.
#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
}

fn main() -> ExitCode {
    let watch = Stopwatch::start();
    let counts = run();
    let word = if counts.failed == 0 { "ok" } else { "FAILED" };
    let Counts { passed, failed } = counts;
    let took = watch.elapsed().as_secs_f64();
    println!("\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; finished in {took:.2}s");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run() -> Counts {
    let mut counts = Counts::default();
    let directory = match environment::kube_suite().and_then(|suite| environment::kubectl().map(|_| suite)) {
        Ok(directory) => directory,
        Err(missing) => {
            missing.skip_as(NAME);
            // Whoever counts takes it off again: a test that skips itself is one that libtest calls passed.
            counts.passed += 1;
            return counts;
        }
    };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let lists = arguments.iter().any(|argument| argument == "--list");
    let arguments: Vec<OsString> =
        arguments.into_iter().filter(|one| PASSED_OVER.iter().all(|flag| one != flag)).collect();
    let is_whole = arguments.is_empty();
    let suite = Suite::new(&directory, arguments);
    let names = suite.names();
    if is_whole && names.len() < TESTS {
        println!("kube-rs has {} tests that need a server, not {TESTS}: some were lost on the way", names.len());
        counts.failed += 1;
    }
    if lists {
        names.iter().for_each(|name| println!("{name}: test"));
    } else if !names.is_empty() {
        println!("\nrunning {} tests of kube-rs on both servers", names.len());
        compare(&suite, &names, &mut counts);
    }
    counts
}

fn compare(suite: &Suite, names: &[String], counts: &mut Counts) {
    let (embedded, reference) = std::thread::scope(|scope| {
        let reference = scope.spawn(|| environment::reference_apiserver().map(|_| suite.run(&furnished_reference())));
        let embedded = suite.run(&ControlPlane::embedded());
        (embedded, reference.join().expect("the panic of the other thread has told why"))
    });
    let reference = reference.inspect_err(|missing| {
        missing.skip_as(&format!("{NAME} on the reference server"));
        counts.passed += 1;
    });
    for name in names {
        judge(name, &embedded, reference.as_ref().ok(), counts);
    }
}

/// The real server makes its own service some time after it says that it is ready, and one of the tests asks for it.
fn furnished_reference() -> ControlPlane {
    let server = ControlPlane::reference();
    eventually("the service default/kubernetes", PATIENCE, || {
        server.kubectl().run(&["get", "service", "kubernetes"]).result()
    });
    server
}

/// Tells and counts one test. Those that need nodes are not counted while they fail.
fn judge(name: &str, embedded: &Outcomes, reference: Option<&Outcomes>, counts: &mut Counts) {
    let waits_for = NEED_NODES.iter().find(|(test, _)| *test == name).map(|(_, what)| *what);
    let mut servers = vec![("embedded", embedded.get(name))];
    servers.extend(reference.map(|outcomes| ("reference", outcomes.get(name))));
    let results: Vec<String> = servers.iter().map(|(server, outcome)| format!("{server} {}", word(*outcome))).collect();
    let is_expected = |outcome: Option<&Outcome>| match outcome {
        Some(Outcome::Passed) => waits_for.is_none(),
        Some(Outcome::Failed(_)) => waits_for.is_some(),
        None => false,
    };
    let results = results.join(", ");
    if servers.iter().all(|(_, outcome)| is_expected(*outcome)) {
        match waits_for {
            Some(what) => println!("test {name} ... needs nodes ({results}: {what})"),
            None => {
                println!("test {name} ... ok ({results})");
                counts.passed += 1;
            }
        }
        return;
    }
    counts.failed += 1;
    println!("test {name} ... FAILED\n  {results}");
    for (server, outcome) in servers {
        if let Some(Outcome::Failed(words)) = outcome.filter(|_| waits_for.is_none()) {
            println!("  on the {server} server: {}", words.replace('\n', "\n  "));
        }
    }
    if waits_for.is_some() {
        println!("  it does not need nodes any longer: NEED_NODES has to say so");
    }
}

fn word(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Passed) => "ok",
        Some(Outcome::Failed(_)) => "failed",
        None => "gave no result",
    }
}
