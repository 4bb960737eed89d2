//! Runs inputs without libFuzzer, and carries the corpus between one readable file and the files that libFuzzer wants.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use concert_fuzz::{TARGETS, corpus, hostile};

/// Runs inputs, and packs and unpacks the corpus.
#[derive(Parser)]
#[command(name = "concert-fuzz", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs inputs; ends with a panic if something is not true
    Run {
        /// What takes them
        target: String,
        /// Files with one input each
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Prints the names of all targets
    Targets,
    /// Says what bodies cost that are made to cost much: bytes of memory, and thousandths of a second
    Hostile {
        /// The case; all of them, each in a process of its own, if there is none
        case: Option<String>,
        /// How large its body is
        #[arg(long, default_value_t = 3 << 20)]
        bytes: usize,
    },
    /// Writes what is kept for a target into files of their own
    Unpack {
        /// The target
        target: String,
        /// Where to
        directory: PathBuf,
    },
    /// Keeps the inputs of a directory for a target, and nothing else but what somebody wrote
    Pack {
        /// The target
        target: String,
        /// Where from
        directory: PathBuf,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Run { target, files } => run(&target, &files),
        Task::Targets => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(())
        }
        Task::Hostile { case: Some(case), bytes } => cost(&case, bytes),
        Task::Hostile { case: None, bytes } => costs(bytes),
        Task::Unpack { target, directory } => {
            println!("{} inputs", corpus::unpack(&target, &directory)?);
            Ok(())
        }
        Task::Pack { target, directory } => {
            println!("{} inputs", corpus::pack(&target, &directory)?);
            Ok(())
        }
    }
}

fn run(target: &str, files: &[PathBuf]) -> Result<()> {
    let Some(target) = TARGETS.iter().find(|one| one.name == target) else {
        bail!("there is no target {target:?}: `concert-fuzz targets` names them");
    };
    for file in files {
        let input = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        (target.run)(&input);
        println!("{}: all is true", file.display());
    }
    Ok(())
}

fn cost(case: &str, bytes: usize) -> Result<()> {
    let Some(case) = hostile::cases().find(|one| one.name == case) else {
        bail!("there is no case {case:?}");
    };
    let cost = case.cost(bytes);
    println!("{:<40} {:>12} {:>8}", case.name, cost.memory, cost.time);
    Ok(())
}

fn costs(bytes: usize) -> Result<()> {
    println!("{:<40} {:>12} {:>8}", "case", "bytes", "ms");
    for case in hostile::cases() {
        let program = std::env::current_exe().context("cannot find this program")?;
        let status = Command::new(program).args(["hostile", case.name, "--bytes", &bytes.to_string()]).status();
        let status = status.with_context(|| format!("cannot run {}", case.name))?;
        if !status.success() {
            println!("{:<40} FAILED: {status}", case.name);
        }
    }
    Ok(())
}
