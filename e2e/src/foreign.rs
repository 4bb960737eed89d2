//! Test suites of others: programs that cargo built, whose tests run on a server that they find by its kubeconfig.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{ControlPlane, Process};

/// How long one program may take. The tests of kube-rs wait up to 15 s for pods, all at the same time.
const LIMIT: Duration = Duration::from_secs(300);

/// Most tests wait; none should wait for another.
const THREADS: &str = "64";

/// The test programs of a suite.
#[derive(Debug)]
pub struct Suite {
    /// The name of the crate that it tests, and the program.
    programs: Vec<(String, PathBuf)>,
    /// Flags and filters as libtest takes them.
    arguments: Vec<OsString>,
}

/// How a test of a suite ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// With these words.
    Failed(String),
}

impl Suite {
    /// The programs in `directory`, each named as the crate that it tests. They are given these `arguments`.
    ///
    /// # Panics
    /// When the directory cannot be read.
    #[must_use]
    #[track_caller]
    pub fn new(directory: &Path, arguments: Vec<OsString>) -> Self {
        let entries = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.unwrap_or_else(|error| panic!("cannot read {}: {error}", directory.display()));
        let named = |path: PathBuf| Some((path.file_name()?.to_str()?.replace('-', "_"), path));
        let mut programs: Vec<_> = entries.into_iter().filter_map(|entry| named(entry.path())).collect();
        programs.sort();
        Self { programs, arguments }
    }

    /// The names of its tests that need a server: those that are ignored where there is none.
    ///
    /// # Panics
    /// When a program does not say.
    #[must_use]
    #[track_caller]
    pub fn names(&self) -> Vec<String> {
        let listed = |(name, path): &(String, PathBuf)| {
            let output = self.command(path).arg("--list").output();
            let output = output.unwrap_or_else(|error| panic!("cannot start {}: {error}", path.display()));
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().filter_map(|line| line.strip_suffix(": test")).map(|test| full(name, test)).collect::<Vec<_>>()
        };
        self.programs.iter().flat_map(listed).collect()
    }

    /// Runs it on a server; how each test ended. One that gave no result has none.
    ///
    /// # Panics
    /// When a program does not start, or does not end in time.
    #[must_use]
    #[track_caller]
    pub fn run(&self, server: &ControlPlane) -> BTreeMap<String, Outcome> {
        let start = |(name, path): &(String, PathBuf)| {
            let mut command = self.command(path);
            command.env("KUBECONFIG", server.kubeconfig()).env("RUST_BACKTRACE", "0").env("RUST_TEST_THREADS", THREADS);
            (name.clone(), Process::spawn(name, command, server.directory()))
        };
        let started: Vec<(String, Process)> = self.programs.iter().map(start).collect();
        let ended = started.iter().flat_map(|(name, process)| {
            process.wait(LIMIT);
            let text = process.stdout();
            let outcomes = outcomes(&text).into_iter();
            outcomes.map(|(test, outcome)| (full(name, test), outcome)).collect::<Vec<_>>()
        });
        ended.collect()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("--ignored").args(&self.arguments).stdin(Stdio::null());
        command
    }
}

/// A test's name among those of all programs.
fn full(program: &str, test: &str) -> String {
    format!("{program}::{test}")
}

/// What a test program wrote, test by test.
fn outcomes(text: &str) -> Vec<(&str, Outcome)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let ended = lines.filter_map(|(test, end)| match end {
        "ok" => Some((test, Outcome::Passed)),
        "FAILED" => Some((test, Outcome::Failed(words(text, test)))),
        _ => None,
    });
    ended.collect()
}

/// What a failed test wrote.
fn words(text: &str, test: &str) -> String {
    let begin = format!("---- {test} stdout ----\n");
    let written = text.split_once(&begin).map_or("", |(_, rest)| rest);
    let end = written.find("\n---- ").or_else(|| written.find("\nfailures:\n")).unwrap_or(written.len());
    written[..end].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = "
running 3 tests
test entry::creates ... ok
test pods::logs ... FAILED
test pods::exec ... FAILED
test odd ... ignored, not today

failures:

---- pods::logs stdout ----
Error: no host
more

---- pods::exec stdout ----

thread 'pods::exec' panicked
note: run with `RUST_BACKTRACE=1`


failures:
    pods::exec
    pods::logs

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn each_test_has_its_end_and_its_words() {
        let failed = |words: &str| Outcome::Failed(words.to_owned());
        let expected = vec![
            ("entry::creates", Outcome::Passed),
            ("pods::logs", failed("Error: no host\nmore")),
            ("pods::exec", failed("thread 'pods::exec' panicked\nnote: run with `RUST_BACKTRACE=1`")),
        ];
        assert_eq!(outcomes(WRITTEN), expected);
    }

    #[test]
    fn a_program_that_crashed_has_no_results() {
        assert_eq!(outcomes("running 1 test\n"), vec![]);
    }
}
