//! `cargo xtask suite`: the tests of somebody else, on the embedded server and on the real one.
//!
//! What is run, and what is expected of it, is a test of `concert-e2e`, so `cargo xtask test` runs it too; here it is
//! alone, and each of its lines is shown.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::child;
use crate::tools::{self, Tool};

/// Which suite, and how much of it.
#[derive(Args)]
pub(crate) struct Options {
    /// Whose tests
    suite: Suite,
    /// Run only tests whose name contains this
    filter: Option<String>,
    /// Run nothing: choose anew the versions of what the suite is built from
    #[arg(long)]
    lock: bool,
}

/// A suite of tests.
#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// kube-rs, the client library
    Kube,
}

impl Suite {
    /// The test of `concert-e2e` that runs it.
    fn test(self) -> &'static str {
        match self {
            Suite::Kube => "kube_rs",
        }
    }
}

/// Finds what the suite needs, and runs it.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.lock {
        let Suite::Kube = options.suite;
        println!("{}", tools::lock_kube()?.display());
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = child::cargo();
    command.args(["test", "--package", "concert-e2e", "--test", options.suite.test(), "--"]);
    command.args(&options.filter);
    for needed in tools::NEEDED {
        let tool = (needed.find)();
        match &tool {
            Tool::Ready { note, .. } => println!("{}: {note}", needed.name),
            Tool::Unavailable(why) => println!("no {}: {why}", needed.name),
            Tool::Broken(why) => bail!("{why}"),
        }
        command.envs([needed.told(&tool)]);
    }
    let mut build = child::cargo();
    build.args(["build", "--release", "--package", "concert-cli", "--bin", "concert"]);
    if !build.status().context("cannot start cargo")?.success() {
        bail!("`cargo build --release` failed");
    }
    let status = command.status().context("cannot start cargo")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
