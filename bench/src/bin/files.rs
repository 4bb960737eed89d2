//! Many Files created at once: how long until all are Ready, and what it costs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use concert_bench::load::Load;
use concert_bench::report::Reports;
use concert_bench::rig::Server;

/// Creates many Files at once and measures until all are Ready, then deletes them.
///
/// Starts everything itself: the control plane, concert-provider-file, managed-reconciler. The binaries are those in
/// CONCERT_BIN_DIR, else in target/release; the real server is CONCERT_REFERENCE_APISERVER.
#[derive(Parser)]
struct Args {
    /// How many Files
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    objects: u32,
    /// On which control plane; both sync every write
    #[arg(long, value_enum, default_value_t = Servers::Embedded)]
    server: Servers,
    /// Then ten times as many, and the ratio
    #[arg(long)]
    scale: bool,
    /// How often each is run
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u32,
    /// Profile each process with perf while objects become Ready; results go to this directory
    #[arg(long, value_name = "DIR")]
    profile: Option<PathBuf>,
    /// A further flag of `concert serve` (repeatable)
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    serve_flag: Vec<String>,
    /// A further flag of managed-reconciler (repeatable)
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    reconciler_flag: Vec<String>,
    /// Output format; progress goes to standard error
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Servers {
    Embedded,
    Reference,
    Both,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let servers: &[Server] = match args.server {
        Servers::Embedded => &[Server::Embedded],
        Servers::Reference => &[Server::Reference],
        Servers::Both => &[Server::Embedded, Server::Reference],
    };
    let objects = usize::try_from(args.objects)?;
    // The small runs stand on both sides of the large one: the speed of a shared machine changes within minutes.
    let sizes = if args.scale { vec![objects, objects * 10, objects] } else { vec![objects] };
    let mut runs = Vec::new();
    let rounds =
        (0..args.runs).flat_map(|_| &sizes).flat_map(|size| servers.iter().map(move |server| (*size, *server)));
    for (objects, server) in rounds {
        let load = Load {
            server,
            objects,
            profile: args.profile.as_deref(),
            serve_flags: &args.serve_flag,
            reconciler_flags: &args.reconciler_flag,
        };
        runs.push(load.run()?);
    }
    let reports = Reports::new(runs);
    match args.output {
        Output::Table => print!("{reports}"),
        Output::Json => println!("{}", serde_json::to_string_pretty(&reports)?),
    }
    Ok(())
}
