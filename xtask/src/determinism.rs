//! `cargo xtask determinism`: one workload, two processes, one journal hash.
//!
//! The contract with the workload: an example `determinism` takes `--seed N --objects N`, runs, and prints a line
//! `journal <hash> <lines> lines`. Two processes differ in address layout, hash seeds, pid and wall clock: if
//! their journals agree, nothing of that reached a decision.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::child;
use crate::metadata::Metadata;
use crate::time::{Human, Stopwatch};

/// The workload: an example, in whatever package it lives.
const WORKLOAD: &str = "determinism";

/// How often the workload runs.
const RUNS: usize = 2;

/// What the workload is given.
#[derive(Args)]
pub(crate) struct Options {
    /// The seed of all randomness
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// How many objects the workload creates
    #[arg(long, default_value_t = 1000)]
    objects: u64,
}

/// Builds the workload, runs it twice, compares.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let metadata = Metadata::workspace()?;
    let Some(package) = metadata.members().find(|package| package.examples().any(|example| example == WORKLOAD)) else {
        bail!("no package of the workspace has an example `{WORKLOAD}` (see the contract in xtask/src/determinism.rs)");
    };
    let mut build = child::cargo();
    build.args(["build", "--quiet", "--release", "--package", &package.name, "--example", WORKLOAD]);
    child::run_quietly(build, "building the workload")?;
    let binary = metadata.target_directory.join("release/examples").join(WORKLOAD);
    let mut journals = Vec::new();
    for number in 1..=RUNS {
        let watch = Stopwatch::start();
        let mut command = Command::new(&binary);
        command.args(["--seed", &options.seed.to_string(), "--objects", &options.objects.to_string()]);
        let output = child::capture(command).with_context(|| format!("run {number} of the workload"))?;
        let journal = journal_line(&output)
            .with_context(|| format!("run {number} printed no line `journal <hash> <lines> lines`:\n{output}"))?;
        println!("run {number}: {journal} ({})", Human(watch.elapsed()));
        journals.push(journal.to_owned());
    }
    if journals.windows(2).any(|pair| pair[0] != pair[1]) {
        println!("the journals differ: seed {} does not decide the run", options.seed);
        return Ok(ExitCode::FAILURE);
    }
    println!("the journals agree");
    Ok(ExitCode::SUCCESS)
}

/// The line that identifies a run.
fn journal_line(output: &str) -> Option<&str> {
    output.lines().find(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        matches!(words[..], ["journal", hash, count, "lines"] if !hash.is_empty() && count.parse::<u64>().is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_agreed_line_identifies_a_run() {
        assert_eq!(journal_line("warm\njournal 9af3 120 lines\n"), Some("journal 9af3 120 lines"));
        assert_eq!(journal_line("journal of a run\njournal 9af3 many lines"), None);
    }
}
