//! `concert serve` against the real kube-apiserver, request by request.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{Parser, ValueEnum};
use concert_bench::report::median;
use concert_bench::rig::{Server, fsync_time};
use concert_bench::throughput::{Rate, Target, WATCHERS, Workload};
use concert_bench::usage::Usage;
use concert_e2e::{ControlPlane, Embedded, Reference, environment};
use serde::Serialize;
use tokio::time::Instant;

/// Sends the same load to `concert serve` and to the real kube-apiserver with etcd, in turns, over HTTP/2 and TLS. Both
/// sync every write. The ratio is ours to theirs.
#[derive(Parser)]
#[command(
    after_help = "Exit codes: 0 measured, every aim that was asked for is met; 1 it could not be measured; 2 wrong usage; \
                        3 measured, but an aim is not met"
)]
struct Args {
    /// How long each workload runs, in seconds
    #[arg(long, value_name = "S", default_value_t = 3)]
    seconds: u64,
    /// How often each is run; the medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: u32,
    /// Only ours: for profiles
    #[arg(long)]
    embedded_only: bool,
    /// Only workloads whose name contains this: for profiles
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// A further flag of `concert serve`
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    serve_flag: Vec<String>,
    /// Output format; progress goes to standard error
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

const FAN_OUT: &str = "watch events delivered";
/// What is to be at least so many times as fast as on the real server, with so many clients.
const AIMS: &[(Workload, usize, f64)] =
    &[(Workload::Apply, 64, 4.0), (Workload::ApplyDeployment, 64, 4.0), (Workload::StrategicPatch, 64, 4.0)];

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    what: String,
    clients: usize,
    embedded: Option<f64>,
    reference: Option<f64>,
    unit: &'static str,
    /// More is better, unless the unit is one of cost.
    ratio: Option<f64>,
    /// Theirs to ours, of the processor time that one takes.
    cpu_ratio: Option<f64>,
    /// Of each server, where it was measured.
    rates: Vec<Rate>,
}

struct Running {
    server: Server,
    plane: ControlPlane,
    target: Target,
    ready_ms: f64,
    idle_mib: f64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every aim is met that something was measured of.
async fn run(args: &Args) -> Result<bool> {
    let sync = fsync_time()?;
    let mut running = vec![start(Server::Embedded, args).await?];
    if !args.embedded_only {
        running.push(start(Server::Reference, args).await?);
    }
    let mut lines = Vec::new();
    for workload in Workload::ALL.into_iter().filter(|workload| workload.name().contains(&args.only)) {
        for clients in [1, 64] {
            lines.push(compare(&running, workload, clients, args).await?);
        }
    }
    if FAN_OUT.contains(&args.only) {
        lines.push(fan_out(&running, args).await?);
    }
    let mib = |running: &Running| memory(&running.plane);
    lines.push(cost("start to ready", "ms", &running, |running| Ok(running.ready_ms))?);
    lines.push(cost("memory, idle and empty", "MiB", &running, |running| Ok(running.idle_mib))?);
    lines.push(cost("memory after all this", "MiB", &running, mib)?);
    match args.output {
        Output::Table => print!("{}", table(&lines, sync)?),
        Output::Json => println!("{}", serde_json::to_string_pretty(&lines)?),
    }
    Ok(judge(&lines))
}

/// Says of each aim whether it is met; whether all are.
fn judge(lines: &[Line]) -> bool {
    let mut all = true;
    for (workload, clients, times) in AIMS {
        let line = lines.iter().find(|line| line.what == workload.name() && line.clients == *clients);
        let Some(ratio) = line.and_then(|line| line.ratio) else { continue };
        let (met, what) = (ratio >= *times, workload.name());
        eprintln!("{:<9}{ratio:>6.1}   {what} x{clients}: at least {times} times", if met { "met" } else { "NOT MET" });
        all &= met;
    }
    all
}

async fn start(server: Server, args: &Args) -> Result<Running> {
    eprintln!("{}: starting", server.name());
    let begin = Instant::now();
    let plane = match server {
        Server::Embedded => {
            let plain = Embedded::new(environment::binary("concert"));
            ControlPlane::embedded_with(args.serve_flag.iter().fold(plain, Embedded::argument))
        }
        Server::Reference => {
            let binary = environment::reference_apiserver().map_err(|missing| anyhow!("{missing}"))?;
            ControlPlane::reference_with(Reference::new(binary).fsync())
        }
    };
    let ready_ms = begin.elapsed().as_secs_f64() * 1e3;
    let idle_mib = memory(&plane)?;
    let target = Target::prepare(&plane.kubeconfig(), 64).await?;
    Ok(Running { server, plane, target, ready_ms, idle_mib })
}

impl Running {
    fn pid(&self) -> Result<u32> {
        self.plane.pid().context("the server has ended")
    }
}

fn memory(plane: &ControlPlane) -> Result<f64> {
    let pid = plane.pid().context("the server has ended")?;
    Ok(f64::from(u32::try_from(Usage::of(pid)?.memory / 1024)?) / 1024.0)
}

async fn compare(running: &[Running], workload: Workload, clients: usize, args: &Args) -> Result<Line> {
    let time = Duration::from_secs(args.seconds);
    let run = async |running: &Running| running.target.run(workload, clients, time, running.pid()?).await;
    in_turns(workload.name(), clients, running, args, run).await
}

async fn fan_out(running: &[Running], args: &Args) -> Result<Line> {
    let run = async |running: &Running| running.target.fan_out(&running.plane.kubeconfig(), running.pid()?).await;
    in_turns(FAN_OUT, WATCHERS, running, args, run).await
}

/// Runs something on all servers in turns; the medians.
async fn in_turns(
    what: &str,
    clients: usize,
    running: &[Running],
    args: &Args,
    run: impl AsyncFn(&Running) -> Result<Rate>,
) -> Result<Line> {
    let mut seen: Vec<Vec<Rate>> = running.iter().map(|_| Vec::new()).collect();
    for _ in 0..args.runs {
        for (seen, running) in seen.iter_mut().zip(running) {
            let rate = run(running).await?;
            eprintln!("{} {what} x{clients}: {:.0}/s", running.server.name(), rate.per_second);
            seen.push(rate);
        }
    }
    let middle = |rates: &[Rate], of: fn(&Rate) -> f64| median(rates.iter().map(of).collect());
    let middles = seen.iter().map(|rates| Rate {
        per_second: middle(rates, |rate| rate.per_second),
        median_ms: middle(rates, |rate| rate.median_ms),
        p99_ms: middle(rates, |rate| rate.p99_ms),
        cpu_us: middle(rates, |rate| rate.cpu_us),
    });
    let rates: Vec<Rate> = middles.collect();
    let per_second = rates.iter().map(|rate| rate.per_second).collect();
    Ok(line(what.to_owned(), clients, "/s", per_second, rates))
}

fn cost(what: &str, unit: &'static str, running: &[Running], of: fn(&Running) -> Result<f64>) -> Result<Line> {
    let values = running.iter().map(of).collect::<Result<_>>()?;
    Ok(line(what.to_owned(), 0, unit, values, Vec::new()))
}

fn line(what: String, clients: usize, unit: &'static str, values: Vec<f64>, rates: Vec<Rate>) -> Line {
    let (embedded, reference) = (values.first().copied(), values.get(1).copied());
    let ratio = embedded.zip(reference).map(|(ours, theirs)| ours / theirs);
    let cpu_ratio = rates.first().zip(rates.get(1)).map(|(ours, theirs)| theirs.cpu_us / ours.cpu_us);
    Line { what, clients, embedded, reference, unit, ratio, cpu_ratio, rates }
}

fn table(lines: &[Line], sync: Duration) -> Result<String> {
    let mut out = String::new();
    writeln!(out, "fsync of 512 bytes on this disk: {} µs", sync.as_micros())?;
    writeln!(
        out,
        "{:<30}{:>8}{:>12}{:>12}{:>9}{:>11}   p50/p99 ms, CPU µs",
        "", "clients", "embedded", "reference", "ratio", "CPU ratio"
    )?;
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    for line in lines {
        let clients = if line.clients == 0 { String::new() } else { line.clients.to_string() };
        let one = |rate: &Rate| format!("{:.2}/{:.2}, {:.0}", rate.median_ms, rate.p99_ms, rate.cpu_us);
        let rates: Vec<String> = line.rates.iter().map(one).collect();
        let (ours, theirs) = (number(line.embedded), number(line.reference));
        let (ratio, cpu) = (number(line.ratio), number(line.cpu_ratio));
        let what = format!("{} [{}]", line.what, line.unit);
        writeln!(out, "{what:<30}{clients:>8}{ours:>12}{theirs:>12}{ratio:>9}{cpu:>11}   {}", rates.join("  "))?;
    }
    Ok(out)
}
