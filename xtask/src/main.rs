//! What the house needs to be built, tested and kept tidy: `cargo xtask --help`.
//!
//! ```text
//! test ──► tools (kubectl, reference server, kube-rs's tests) ──► release binaries ──► cargo test ──► report
//! tidy ──► cargo metadata ──► edges, outsiders, licences; sources ──► ignored tests, lints, mod.rs
//! ```
//!
//! Kept light on purpose: everyone pays for its build before every command.

mod child;
mod determinism;
mod fuzz;
mod kinds;
mod metadata;
mod reference;
mod suite;
mod test;
mod tidy;
mod time;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What the house needs to be built, tested and kept tidy.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Finds or installs what the tests need, builds the binaries, runs every test, says what it could not run and why
    Test(test::Options),
    /// Proves crate edges, licences, and the rules that no compiler checks
    Tidy,
    /// Builds (once) and finds the real kube-apiserver that we compare ourselves with
    Reference(reference::Options),
    /// Runs the tests of somebody else on the embedded server and on the real one
    Suite(suite::Options),
    /// Makes the data of the built-in kinds anew, from the real server and its Go types
    Kinds(kinds::Options),
    /// Runs one workload in two processes and compares the hashes of their journals
    Determinism(determinism::Options),
    /// Looks for inputs that break the API server, for some time, and keeps what it learned
    Fuzz(fuzz::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Tidy => tidy::run(),
        Task::Reference(options) => reference::run(&options),
        Task::Suite(options) => suite::run(&options),
        Task::Kinds(options) => kinds::run(&options),
        Task::Determinism(options) => determinism::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
