//! Runs inputs without libFuzzer, and carries the corpus between one readable file and the files that libFuzzer wants.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use concert_fuzz::{TARGETS, corpus};

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
