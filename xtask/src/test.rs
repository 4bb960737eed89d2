//! `cargo xtask test`: the one test command.
//!
//! Steps: tools, release binaries, `cargo test`. Every step is a line when it begins and a line when it ends; the
//! last line of all is `N passed, N failed, N skipped`, from cargo's own result lines. A test that cannot run for
//! want of a tool says so in one line (`SKIPPED: …`, written by `concert-e2e`), and never counts as passed.

mod report;

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::child::{self, Progress};
use crate::metadata::Metadata;
use crate::time::{Human, Stopwatch};
use crate::tools::{self, Needed, Tool};
use report::Report;

/// The package whose tests drive the built binaries.
const BLACK_BOX: &str = "concert-e2e";

/// What the black-box tests start. A package that is not in the workspace yet is passed over, and said so.
const BINARIES: &[(&str, &[&str])] = &[
    ("concert-cli", &["concert", "managed-reconciler", "dynamic-reconciler"]),
    ("concert-provider-file", &["concert-provider-file"]),
    ("concert-provider-cloud", &["concert-provider-cloud"]),
];

/// Packages whose locks are tried over many interleavings (feature `shuttle`), where the tests that do it are, and what
/// their names have in common. A build of its own, since the feature swaps the lock for all who use the package; other
/// tests of it do not run on such locks.
const INTERLEAVED: &[(&str, &[&str], &str)] =
    &[("concert-queue", &["--test", "interleavings"], ""), ("concert-runtime", &["--lib"], "interleavings")];

/// Features that are off by default and only add: they are tested with all the rest, in the same build.
const ADDED: &[(&str, &str)] =
    &[("concert-runtime", "debug"), ("concert-runtime", "native-histograms"), ("concert-runtime", "otel")];

/// The step that builds them.
const BINARIES_STEP: &str = "release binaries";

/// The step that runs the tests.
const TESTS: &str = "cargo test";

/// Which tests to run, and how much to show.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only tests whose name contains this
    #[arg(long)]
    filter: Option<String>,
    /// Run only this package's tests (repeatable); without concert-e2e among them no tools and binaries are needed
    #[arg(long, short)]
    package: Vec<String>,
    /// Show every line that cargo writes, not only what matters
    #[arg(long, short)]
    verbose: bool,
}

impl Options {
    fn needs_black_box(&self) -> bool {
        self.package.is_empty() || self.package.iter().any(|package| package == BLACK_BOX)
    }
}

impl Options {
    /// What cargo is asked for: everything, with what can be added to it, and the interleavings of what has some.
    fn commands(&self) -> Vec<Command> {
        let mut all = child::cargo();
        all.args(["test", "--no-fail-fast", "--color=never"]);
        if self.package.is_empty() {
            all.arg("--workspace");
        }
        self.package.iter().for_each(|package| {
            all.args(["--package", package]);
        });
        let chosen = |package: &str| self.package.is_empty() || self.package.iter().any(|p| p == package);
        for (package, feature) in ADDED.iter().filter(|(package, _)| chosen(package)) {
            all.args(["--features", &format!("{package}/{feature}")]);
        }
        all.args(self.filter.as_deref());
        let interleaved =
            INTERLEAVED.iter().filter(|(package, ..)| chosen(package)).filter_map(|(package, at, names)| {
                let filter = self.filter.as_deref().unwrap_or(names);
                let mut command = child::cargo();
                command
                    .args(["test", "--color=never", "--package", package, "--features", "shuttle"])
                    .args(*at)
                    .arg(filter);
                filter.contains(names).then_some(command)
            });
        std::iter::once(all).chain(interleaved).collect()
    }
}

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Skipped,
    Failed,
}

/// One row of the summary.
struct Step {
    name: &'static str,
    verdict: Verdict,
    note: String,
    took: Duration,
}

impl Step {
    fn passed(&self) -> bool {
        self.verdict == Verdict::Passed
    }
}

/// Everything that happened.
#[derive(Default)]
struct Session {
    steps: Vec<Step>,
    environment: Vec<(String, OsString)>,
    report: Report,
}

/// Runs the steps, then the summary.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let watch = Stopwatch::start();
    let metadata = Metadata::workspace()?;
    if let Some(unknown) = options.package.iter().find(|name| metadata.member(name).is_none()) {
        bail!("there is no package `{unknown}` in the workspace");
    }
    let mut session = Session::default();
    if options.needs_black_box() {
        tools::NEEDED.iter().try_for_each(|needed| session.find_tool(needed))?;
        session.build_binaries(&metadata)?;
    }
    session.run_tests(options)?;
    session.summarise(watch.elapsed());
    Ok(if session.is_green() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Session {
    /// Runs one step between its two lines.
    fn step(&mut self, name: &'static str, work: impl FnOnce(&mut Self) -> Result<(Verdict, String)>) -> Result<()> {
        println!("==== {name}");
        let watch = Stopwatch::start();
        let (verdict, note) = work(self)?;
        let took = watch.elapsed();
        println!("{} {name}, {}: {note}\n", verdict.word(), Human(took));
        self.steps.push(Step { name, verdict, note, took });
        Ok(())
    }

    fn find_tool(&mut self, needed: &Needed) -> Result<()> {
        self.step(needed.name, |session| {
            let tool = (needed.find)();
            session.environment.push(needed.told(&tool));
            Ok(match tool {
                Tool::Ready { note, .. } => (Verdict::Passed, note),
                Tool::Unavailable(why) => (Verdict::Skipped, why),
                Tool::Broken(why) => (Verdict::Failed, why),
            })
        })
    }

    fn build_binaries(&mut self, metadata: &Metadata) -> Result<()> {
        self.step(BINARIES_STEP, |session| {
            let directory = metadata.target_directory.join("release");
            session.environment.push(("CONCERT_BIN_DIR".to_owned(), directory.clone().into()));
            let (present, absent): (Vec<_>, Vec<_>) =
                BINARIES.iter().partition(|(package, _)| metadata.member(package).is_some());
            let absent: Vec<&str> = absent.into_iter().map(|(package, _)| package).collect();
            let absent =
                if absent.is_empty() { String::new() } else { format!("; not written yet: {}", absent.join(", ")) };
            if present.is_empty() {
                return Ok((Verdict::Passed, format!("none{absent}")));
            }
            let mut command = child::cargo();
            command.args(["build", "--release"]);
            for (package, binaries) in &present {
                command.args(["--package", package]);
                binaries.iter().for_each(|binary| {
                    command.args(["--bin", binary]);
                });
            }
            Ok(if stream_all(command)? {
                (Verdict::Passed, format!("in {}{absent}", directory.display()))
            } else {
                (Verdict::Failed, format!("`cargo build --release` failed{absent}"))
            })
        })
    }

    fn run_tests(&mut self, options: &Options) -> Result<()> {
        if !self.steps.iter().filter(|step| step.name == BINARIES_STEP).all(Step::passed) {
            self.report.fail("not run: the release binaries do not build");
            return Ok(());
        }
        self.step(TESTS, |session| {
            let mut report = Report::default();
            for mut command in options.commands() {
                command.envs(session.environment.iter().map(|(name, value)| (name, value)));
                let succeeded = stream_tests(command, options, &mut report)?;
                report.finish(succeeded);
            }
            let verdict = if report.failed() == 0 { Verdict::Passed } else { Verdict::Failed };
            let note = report.counts();
            session.report = report;
            Ok((verdict, note))
        })
    }

    fn summarise(&self, took: Duration) {
        println!("==== summary, {}", Human(took));
        for step in &self.steps {
            // The rest of a long note was shown with its step.
            let note = step.note.lines().next().unwrap_or_default();
            println!("{} {:<21} {:>11}  {note}", step.verdict.word(), step.name, Human(step.took));
        }
        print_list("failed", self.report.failures());
        print_list("could not run", self.report.skips());
        if self.has_unexplained_skips() {
            println!("\ntests were skipped although no tool was missing: the harness did not find what it was given");
        }
        println!("\n{}", self.report.counts());
    }

    /// Tests were skipped, yet every tool is here.
    fn has_unexplained_skips(&self) -> bool {
        !self.report.skips().is_empty() && self.steps.iter().filter(|step| step.name != TESTS).all(Step::passed)
    }

    fn is_green(&self) -> bool {
        self.steps.iter().all(|step| step.verdict != Verdict::Failed) && !self.has_unexplained_skips()
    }
}

impl Verdict {
    /// The same width for each.
    fn word(self) -> &'static str {
        match self {
            Verdict::Passed => "  ok",
            Verdict::Skipped => "SKIP",
            Verdict::Failed => "FAIL",
        }
    }
}

/// Runs tests and shows what matters of what they write; whether they succeeded.
fn stream_tests(command: Command, options: &Options, report: &mut Report) -> Result<bool> {
    let status = child::stream(command, |progress| match progress {
        Progress::Line(line) => {
            let shown = report.read(line);
            if options.verbose {
                println!("     {line}");
            } else if let Some(shown) = shown {
                println!("     {shown}");
            }
        }
        Progress::Silent(since) => println!("     … {}, {} so far", report.running(), Human(since)),
    })?;
    Ok(status.success())
}

/// Shows everything a child writes; whether it succeeded.
fn stream_all(command: Command) -> Result<bool> {
    let status = child::stream(command, |progress| match progress {
        Progress::Line(line) => println!("     {line}"),
        Progress::Silent(since) => println!("     … {} so far", Human(since)),
    })?;
    Ok(status.success())
}

fn print_list(title: &str, entries: &[String]) {
    if !entries.is_empty() {
        println!("\n{title}:");
        entries.iter().for_each(|entry| println!("  {entry}"));
    }
}
