//! Our runtime against kube-rs and controller-runtime, in one run. See `concert_bench::runtime`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use concert_bench::runtime::budget::Budget;
use concert_bench::runtime::figures::{Line, Verdict};
use concert_bench::runtime::peers::{Programs, Subject};
use concert_bench::runtime::rig::Rig;
use concert_bench::runtime::workload::{Size, Workload};
use serde::Serialize;

/// Measures what our runtime costs, and what kube-rs's and Go's controller-runtime cost, with the same load from the same
/// server: cold sync, memory, events, queue, priority, indexed reads, relists, many kinds. Less is better everywhere.
#[derive(Parser)]
#[command(
    after_help = "Exit codes: 0 all was measured and every aim is met; 1 not everything could be measured; 2 wrong \
                        usage; 3 all was measured, but an aim is not met"
)]
struct Args {
    /// The sizes of the reference (100,000 Pods, a million ConfigMaps) and no limit of time: takes hours
    #[arg(long)]
    full: bool,
    /// How many Pods instead of 20,000 (or 100,000), and of the rest in proportion: for a look
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(100..))]
    objects: Option<u32>,
    /// How often each is run; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Repeats that would not end in so many minutes are left out (the first runs never are); peers are built before
    #[arg(long, value_name = "N", default_value_t = 14)]
    minutes: u64,
    /// Only this workload: cold, event, queue, index, kinds, keep, small, maps, priority, allocated, cold-both or event-both
    /// (may be repeated)
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

/// All of it, for scripts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    objects: u32,
    seconds: u64,
    lines: Vec<Line>,
    aims: Vec<Verdict>,
}

/// How it ended.
enum End {
    Met,
    NotMet,
    Incomplete,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(End::Met) => ExitCode::SUCCESS,
        Ok(End::NotMet) => ExitCode::from(3),
        Ok(End::Incomplete) => {
            eprintln!("error: not everything could be measured: see above");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<End> {
    let workloads = workloads(args)?;
    let subjects = Subject::ALL.into_iter().filter(|subject| wanted(&args.subject, subject.name()));
    let subjects: Vec<Subject> = subjects.collect();
    let scratch = std::env::temp_dir().join(format!("concert-bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).context("cannot make a directory for the kubeconfig")?;
    let size = if args.full { Size::FULL } else { Size::SHORT }.with_objects(args.objects);
    let programs = Programs::build(&subjects);
    let complete = subjects.iter().all(|subject| programs.of(*subject).is_ok_and(|program| program.is_some()));
    let mut rig = Rig::start(scratch.join("kubeconfig"), programs, size).await?;
    rig.check().await?;
    let mut budget = Budget::new((!args.full).then(|| Duration::from_secs(args.minutes * 60)));
    let all_went_well = measure(args, &mut rig, &mut budget, &workloads, &subjects).await;
    let _ = std::fs::remove_dir_all(&scratch);
    eprintln!("all done after {budget}");
    let aims = rig.figures.verdicts();
    // What was not asked for, or has no peer to be compared with, is told as not measured.
    let met = aims.iter().all(|verdict| verdict.met != Some(false));
    match args.output {
        Output::Table => print!("{}", rig.figures),
        Output::Json => {
            let (seconds, lines) = (budget.spent().as_secs(), rig.figures.lines());
            println!("{}", serde_json::to_string_pretty(&Report { objects: size.objects, seconds, lines, aims })?);
        }
    }
    Ok(match (all_went_well && complete, met) {
        (false, _) => End::Incomplete,
        (true, true) => End::Met,
        (true, false) => End::NotMet,
    })
}

/// Runs everything; whether all of it could be measured. One that fails does not take the figures of the others along.
async fn measure(
    args: &Args,
    rig: &mut Rig,
    budget: &mut Budget,
    workloads: &[Workload],
    subjects: &[Subject],
) -> bool {
    let mut all_went_well = true;
    for (run, workload) in (0..args.runs).flat_map(|run| workloads.iter().map(move |workload| (run, *workload))) {
        let concerned = |subject: &Subject| workload.concerns(*subject) && workload.runs_in(run, *subject);
        let concerned: Vec<Subject> = subjects.iter().copied().filter(concerned).collect();
        if !budget.allows(workload, &concerned) {
            eprintln!("run {} of {}: {} is left out: no time ({budget})", run + 1, args.runs, workload.name());
            continue;
        }
        for subject in concerned {
            eprintln!("run {} of {}: {}, {} ({budget})", run + 1, args.runs, workload.name(), subject.name());
            if let Err(error) = budget.timed(workload, subject, rig.run(workload, subject)).await {
                eprintln!("  failed: {error:#}");
                all_went_well = false;
            }
        }
    }
    all_went_well
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
