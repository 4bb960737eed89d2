//! Our runtime against kube-rs and controller-runtime, in one run. See `concert_bench::runtime`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use concert_bench::runtime::peers::{Programs, Subject};
use concert_bench::runtime::workload::{Rig, Size, Workload};

/// Measures what our runtime costs, and what kube-rs's and Go's controller-runtime cost, with the same load from the same
/// server: cold sync, memory, events, queue, priority, indexed reads, relists, many kinds. Less is better everywhere.
#[derive(Parser)]
struct Args {
    /// The sizes of the reference (100,000 Pods and more) instead of a quarter of an hour: takes hours
    #[arg(long)]
    full: bool,
    /// How often each is run; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: u32,
    /// Only this workload: cold, event, queue, priority, index, kinds or keep (may be repeated)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only this subject: ours, c-r or kube (may be repeated)
    #[arg(long, value_name = "NAME")]
    subject: Vec<String>,
    /// Output format; progress goes to standard error
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    let workloads = workloads(args)?;
    let subjects = Subject::ALL.into_iter().filter(|subject| wanted(&args.subject, subject.name()));
    let subjects: Vec<Subject> = subjects.collect();
    let scratch = std::env::temp_dir().join(format!("concert-bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).context("cannot make a directory for the kubeconfig")?;
    let size = if args.full { Size::FULL } else { Size::SHORT };
    let programs = if subjects == [Subject::Ours] { Programs::default() } else { Programs::build() };
    let mut rig = Rig::start(scratch.join("kubeconfig"), programs, size).await?;
    rig.check().await?;
    for run in 0..args.runs {
        for workload in &workloads {
            let concerned = subjects.iter().filter(|subject| workload.concerns(**subject));
            for subject in concerned.filter(|subject| workload.runs_in(run, **subject)) {
                eprintln!("run {} of {}: {}, {}", run + 1, args.runs, workload.name(), subject.name());
                rig.run(*workload, *subject).await?;
            }
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
    match args.output {
        Output::Table => print!("{}", rig.figures),
        Output::Json => println!("{}", serde_json::to_string_pretty(&rig.figures.lines())?),
    }
    Ok(())
}

fn workloads(args: &Args) -> Result<Vec<Workload>> {
    let known: Vec<&str> = Workload::ALL.iter().map(|workload| workload.name()).collect();
    if let Some(unknown) = args.only.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("--only {unknown}: there is no such workload; there are {}", known.join(", "));
    }
    let wanted = |workload: &Workload| args.only.is_empty() || args.only.iter().any(|name| name == workload.name());
    Ok(Workload::ALL.into_iter().filter(wanted).collect())
}

fn wanted(names: &[String], subject: &str) -> bool {
    names.is_empty() || names.iter().any(|name| subject.starts_with(name.as_str()))
}
